// Package demo is Waybill with a world around it: a freight platform that publishes in its own transactions, and two
// sellers whose order systems receive. All of it runs in one process, and through the real parts only: outbox, lanes,
// egress proxy, API and dashboard are those of `waybill serve`; tenants and endpoints are made by calls of the API.
//
// It tells the first seed's bad week on a clock that runs fast, a line an event: an outage of 40 minutes with 300
// updates, a forged call, a stale update, a repeat, and a second seller who never notices anything. What it prints it
// has counted: the platform's committed movements against the sellers' inboxes. It goes on until it is stopped, and
// a second start goes on with the first one's data.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill/app/server"
)

// Preset is the name of the delivery policy of the demo's tenants, in policyYAML.
const Preset = "demo"

//go:embed policy.yaml
var policyYAML string

// programStarted is when this program began, as near as it can tell: packages are set up before main runs.
var programStarted = time.Now()

// Config is what a demo needs. Getenv, Out and Logger must be set.
type Config struct {
	// Getenv reads the environment variables of the README. WAYBILL_ALLOW_HTTP and WAYBILL_MIGRATE are taken as true and
	// WAYBILL_POLICY is not read.
	Getenv func(string) string
	Out    io.Writer // where the story is told
	Logger *slog.Logger
	// Quiet leaves out all but the first delivery, the link into the dashboard, and the end.
	Quiet bool
	// Script is the story's measures; the zero one is BadWeek().
	Script Script
	// Started is what times are counted from; zero: the start of the program.
	Started time.Time
}

// Demo is a running demo.
type Demo struct {
	Server *server.Server
	// Platform is the freight company.
	Platform *Platform
	// Sarees has the bad week, Hardware is the other one.
	Sarees, Hardware *Seller

	script  Script
	console *console
	ledger  *ledger
	api     *client
	began   time.Time // by the database's clock
	life    context.Context
	end     context.CancelFunc
	loops   sync.WaitGroup

	stopOnce sync.Once
}

// The demo's two tenants: their uid at the platform, and their schema.
const (
	sareesUID, sareesSchema     = "demo-sarees", "seller"
	hardwareUID, hardwareSchema = "demo-hardware", "hardware"
)

// operatorEmail is who looks at it all from the platform's side.
const operatorEmail = "operator@freight.example"

// stopWithin bounds a stop: a receiver of the user's own that hangs does not hold up the rest.
const stopWithin = 8 * time.Second

// slowStart is when the console says why nothing is to be seen yet.
const slowStart = 8 * time.Second

// Run starts a demo, tells its story, goes on at an easy pace until ctx ends, and stops it in order. The error is of a
// part that did not start or ended by itself.
func Run(ctx context.Context, c Config) error {
	d, err := Start(ctx, c)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	telling, enough := context.WithCancel(ctx)
	go func() { told <- d.Tell(telling) }()
	select {
	case err = <-told:
	case err = <-d.Server.Failed():
		enough()
		<-told
	}
	enough()
	d.Stop(context.WithoutCancel(ctx))
	return err
}

// Start brings everything up; nothing moves yet. When it returns an error, nothing is left running.
func Start(ctx context.Context, c Config) (_ *Demo, err error) {
	if c.Started.IsZero() {
		c.Started = programStarted
	}
	if c.Script == (Script{}) {
		c.Script = BadWeek()
	}
	d := &Demo{script: c.Script, console: &console{out: c.Out, started: c.Started, now: time.Now, quiet: c.Quiet}, ledger: newLedger(sareesUID, hardwareUID)}
	d.life, d.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			d.Stop(context.WithoutCancel(ctx))
		}
	}()
	d.console.note("A freight platform, two sellers, and the bad week of one of them on a clock that runs fast.")

	host, err := receiverHost(net.Listen)
	if err != nil {
		return nil, err
	}
	if host != receiverHosts[0] {
		d.console.note("This machine has no address %s: the sellers listen on %s, and the egress proxy lets requests through to all that listens there.", receiverHosts[0], host)
	}
	config, err := configure(c.Getenv, host, d.console)
	if err != nil {
		return nil, err
	}
	waiting := time.AfterFunc(slowStart, func() {
		d.console.say("Postgres is still starting. On a machine without one it is fetched first; that happens once.")
	})
	d.Server, err = server.Start(ctx, config, c.Logger)
	waiting.Stop()
	if err != nil {
		config.Listener.Close()
		return nil, err
	}
	if config.DatabaseURL == "" {
		d.console.say("Postgres runs in %s and keeps what happens for the next start.", config.Data)
	} else {
		d.console.say("Postgres is the one of WAYBILL_DATABASE_URL; the demo uses its schemas waybill, freight, %s and %s.", sareesSchema, hardwareSchema)
	}
	if err := d.people(ctx, host, c.Logger); err != nil {
		return nil, err
	}
	return d, nil
}

// configure is the server's configuration in the demo, with its listener open.
func configure(getenv func(string) string, host netip.Addr, console *console) (server.Config, error) {
	addr := getenv("WAYBILL_ADDR")
	if addr == "" {
		addr = ":8080"
	}
	ln, moved, err := listenNear(addr, net.Listen)
	if err != nil {
		return server.Config{}, err
	}
	if moved {
		console.always("%s is taken by another program; the dashboard is at port %d.", addr, ln.Addr().(*net.TCPAddr).Port)
	}
	if getenv("WAYBILL_POLICY") != "" {
		console.always("WAYBILL_POLICY is not read: the demo has a policy of its own, on a clock that runs fast.")
	}
	config, err := server.FromEnv(func(name string) string {
		switch name {
		case "WAYBILL_ALLOW_HTTP", "WAYBILL_MIGRATE":
			return "true"
		case "WAYBILL_POLICY":
			return ""
		case "WAYBILL_ADDR":
			return ln.Addr().String()
		case "WAYBILL_URL":
			if url := getenv(name); url != "" || ln.Addr().(*net.TCPAddr).IP.IsUnspecified() {
				return url
			}
			return selfURL(ln.Addr())
		}
		return getenv(name)
	}, nil)
	if err != nil {
		ln.Close()
		return server.Config{}, fmt.Errorf("the configuration is not usable:\n%w", err)
	}
	config.Listener = ln
	config.PolicyText = policyYAML
	// The sellers' address is let through, and the dashboard listens on it as well, unless it was told where to listen.
	if config.InboxURL == "" && ln.Addr().(*net.TCPAddr).IP.IsUnspecified() {
		config.InboxURL = fmt.Sprintf("http://%s", net.JoinHostPort(host.String(), strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)))
	}
	config.EgressAllow = append(config.EgressAllow, netip.PrefixFrom(host, host.BitLen()))
	return config, nil
}

// people brings in the platform and the sellers, with their accounts at Waybill.
func (d *Demo) people(ctx context.Context, host netip.Addr, logger *slog.Logger) (err error) {
	url := d.Server.DatabaseURL
	if d.Platform, err = openPlatform(ctx, d.Server.Pool, url, d.ledger, logger, sareesUID, hardwareUID); err != nil {
		return err
	}
	if d.began, err = d.Platform.clock(ctx); err != nil {
		return err
	}
	d.api = newClient(selfURL(d.Server.Config.Listener.Addr()), d.Server.PlatformKey)
	var group errgroup.Group
	for _, p := range []struct {
		seller            **Seller
		uid, name, schema string
	}{{&d.Sarees, sareesUID, "Meenakshi Sarees", sareesSchema}, {&d.Hardware, hardwareUID, "Kaveri Hardware", hardwareSchema}} {
		group.Go(func() error {
			s, err := openSeller(ctx, url, p.uid, p.name, p.schema, d.ledger, logger)
			if err != nil {
				return err
			}
			if err := s.enrol(ctx, d.api, host, d.console.say); err != nil {
				s.close()
				return err
			}
			*p.seller = s
			d.loops.Go(func() { s.worker.Run(d.life) })
			return nil
		})
	}
	return group.Wait()
}

// Stop takes everything down: the platform moves nothing more, what is on the wire is answered and recorded, and then the
// rest. It takes some seconds at most. A second call does nothing.
func (d *Demo) Stop(ctx context.Context) { d.stopOnce.Do(func() { d.stop(ctx) }) }

func (d *Demo) stop(ctx context.Context) {
	started := time.Now()
	if d.Server != nil {
		d.console.say("Stopping: what is on the wire is answered and recorded first.")
	}
	d.end()
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		if s != nil {
			s.door.wake()
			s.door.setLively(false)
			s.door.setAlways(well)
			_ = s.door.reopen() // one that stays shut is retried at the next start
		}
	}
	d.loops.Wait()
	if d.Server == nil {
		return
	}
	waiting := d.waiting(ctx)
	stop, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	d.Server.Stop(stop)
	for _, s := range []*Seller{d.Sarees, d.Hardware} {
		if s != nil {
			s.close()
		}
	}
	if d.Platform != nil {
		d.Platform.close()
	}
	d.console.always("Stopped in %s. %s", short(time.Since(started)), waiting)
}

// waiting says what the next start will deliver. What is arriving just now is given a moment.
func (d *Demo) waiting(ctx context.Context) string {
	if d.Sarees == nil || d.Hardware == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var left int
	err := until(ctx, func() (bool, error) {
		var err error
		left, err = d.missing(ctx, d.began)
		return left == 0, err
	})
	switch {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return ""
	case left == 0:
		return "Every committed update has arrived."
	default:
		return fmt.Sprintf("%s not arrived yet and will be delivered after the next start.", have(left, "update"))
	}
}
