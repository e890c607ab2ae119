// Package server puts the program together: it is the only place that knows every part. Start brings the parts up in order, each needing only those
// before it: database, schema, egress proxy (which must pass its self-test), sender, lanes, dispatcher, River, HTTP. Stop says that it is no longer
// ready, takes them down, those last that others need, and gives back what this process holds.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/egress"
	"waybill/app/idempotency"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/app/operator"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/embedded"
	"waybill/jobs"
)

// Server is the running program.
type Server struct {
	Config Config
	Logger *slog.Logger

	Policies policy.Set
	Ring     *seal.Ring
	// DatabaseURL is where the database is, the embedded one's too.
	DatabaseURL string
	Pool        *pgxpool.Pool
	Engine      *lane.Engine
	Inserter    *jobs.Inserter
	Waker       *lane.Waker
	Services    Services
	// PlatformKey is the first platform API key: the configured one, or in development the one kept in the data folder.
	PlatformKey seal.Secret

	embedded   *embedded.Server
	proxy      *egress.Proxy
	proxyURL   string
	sender     *sender.Sender
	wall       *db.Wall // of a process that serves tenants
	enginePool *pgxpool.Pool
	flushPool  *pgxpool.Pool
	outboxPool *pgxpool.Pool
	dispatcher *outbox.Dispatcher
	river      *jobs.Client
	smtp       *notice.SMTP // nil: no mail is sent from here
	http       *http.Server
	listener   net.Listener

	metrics     *metrics
	metricsAddr string

	part    part
	stops   [parts][]func(context.Context) // of each part, in the order of the starts
	leaving atomic.Bool                    // /readyz says so, and connections are not kept
	failed  chan error
	broken  atomic.Bool // a part has ended by itself: the stop waits for nobody

	poolsClose sync.Once
	poolsEnd   time.Time // until then pools that are closed are waited for; parts stop side by side
}

// part is what is stopped together. Work and serving stop at the same time; what both need stops after them.
type part int

const (
	base part = iota
	work
	serving
	parts
)

// stopGrace is added to the longest request's timeout: how long a stop may take, whatever the database or a browser does.
// recordGrace of it is for recording what was answered last; the rest is for leaving.
const (
	stopGrace   = 5 * time.Second
	recordGrace = 2 * time.Second
)

// The most connections of each pool of a process, and of all of them: what max_connections of the server must leave for each process.
const (
	webConns    = 12 // who asks, what the platform publishes, jobs
	tenantConns = 14 // what tenants ask for
	laneConns   = 12
	flushConns  = 4
	outboxConns = 3
	Conns       = webConns + tenantConns + consoleConns + laneConns + flushConns + outboxConns
)

// planOnce is for what serves pages. Each connection would plan a statement anew for its first five executions, and over a month of partitions that costs
// more than the reading.
var planOnce = map[string]string{"plan_cache_mode": "force_generic_plan"}

// selfTestEvery is how often the running proxy is asked again whether it refuses what it must.
const selfTestEvery = time.Hour

// Start brings the program up. When it returns an error, nothing of it is left running.
func Start(ctx context.Context, c Config, logger *slog.Logger) (*Server, error) {
	s := &Server{Config: c, Logger: logger, metrics: newMetrics(), failed: make(chan error, 4)}
	for _, step := range []struct {
		name string
		part part
		run  func(context.Context) error
		when bool
	}{
		{"policy", base, s.startPolicy, true},
		{"egress proxy", base, s.startProxy, s.needsSender() || c.Has(Proxy)},
		{"database", base, s.startDatabase, s.needsDatabase()},
		{"services", base, s.startServices, s.needsDatabase()},
		{"sender", base, s.startSender, s.needsSender()},
		{"workers", work, s.startWorkers, c.Has(Worker)},
		{"metrics", base, s.startMetrics, true},
		{"web", serving, s.startHTTP, s.needsDatabase()},
	} {
		if !step.when {
			continue
		}
		s.part = step.part
		if err := step.run(ctx); err != nil {
			s.Stop(context.WithoutCancel(ctx))
			return nil, fmt.Errorf("start %s: %w", step.name, err)
		}
	}
	return s, nil
}

func (s *Server) needsDatabase() bool { return s.Config.Has(Web) || s.Config.Has(Worker) }
func (s *Server) needsSender() bool   { return s.needsDatabase() }

// Failed receives the error of a part that ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Addr is the address that this process listens on: that of the HTTP server, or of the proxy when it is nothing else.
func (s *Server) Addr() string {
	if s.listener == nil {
		return s.proxy.Addr()
	}
	return s.listener.Addr().String()
}

// ProxyURL is where the egress proxy is.
func (s *Server) ProxyURL() string { return s.proxyURL }

// fail ends the program because a part of it has ended.
func (s *Server) fail(err error) {
	s.broken.Store(true)
	s.failed <- err
}

func (s *Server) onStop(stop func(context.Context)) { s.stops[s.part] = append(s.stops[s.part], stop) }

// Stop takes the program down. At once /readyz says 503 and no new work begins; what is on the wire is answered and recorded, and lanes are given
// back, while the web serves on for Config.Drain; then streams end, and then the rest. It takes the longest timeout, or the drain if that is longer, and
// five seconds. A second call does nothing.
func (s *Server) Stop(ctx context.Context) {
	s.leaving.Store(true)
	stops := s.stops
	s.stops = [parts][]func(context.Context){}
	ctx, cancel := context.WithTimeout(ctx, max(s.Policies.LongestTimeout(), s.drain())+stopGrace)
	defer cancel()
	end := func(p part) {
		for _, stop := range slices.Backward(stops[p]) {
			stop(ctx)
		}
	}
	var both sync.WaitGroup
	both.Go(func() { end(work) })
	both.Go(func() { end(serving) })
	both.Wait()
	end(base)
}

// drain is how long the web serves on while the process stops.
func (s *Server) drain() time.Duration {
	if !s.Config.Has(Web) || s.broken.Load() {
		return 0
	}
	return s.Config.Drain
}

func (s *Server) startPolicy(context.Context) (err error) {
	if s.Policies, err = s.Config.LoadPolicy(); err != nil {
		return err
	}
	if !s.needsDatabase() {
		return nil
	}
	keys, err := keptSecret(s.Config.SecretKeys, s.Config.Data, "secret_keys", seal.NewKey)
	if err != nil {
		return err
	}
	if s.Ring, err = seal.ParseRing(keys.Reveal()); err != nil {
		return fmt.Errorf("WAYBILL_SECRET_KEYS: %w", err)
	}
	return nil
}

func (s *Server) startDatabase(ctx context.Context) (err error) {
	s.DatabaseURL = s.Config.DatabaseURL
	if s.DatabaseURL == "" {
		s.Logger.Info("WAYBILL_DATABASE_URL is not set; starting the embedded Postgres", "data", s.Config.Data)
		if s.embedded, err = embedded.Start(ctx, embedded.Config{Dir: s.Config.Data, Logger: s.Logger}); err != nil {
			return err
		}
		s.onStop(func(context.Context) {
			if err := s.embedded.Close(); err != nil {
				s.Logger.Error("the embedded Postgres did not stop cleanly", "error", err)
			}
		})
		s.DatabaseURL = s.embedded.URL()
	}
	if s.Config.Migrate || s.embedded != nil {
		if _, err := db.Migrate(ctx, s.DatabaseURL, s.Logger); err != nil {
			return err
		}
	}
	if s.Pool, err = db.Open(ctx, s.DatabaseURL, db.Options{AppName: "waybill", MaxConns: webConns, Params: planOnce}); err != nil {
		return err
	}
	s.closeAtStop(s.Pool)
	state, err := db.SchemaState(ctx, s.Pool)
	if err != nil {
		return err
	}
	switch state {
	case db.Newer:
		return errors.New("the database's schema is newer than this program; run the version that migrated it, or a later one")
	case db.Behind:
		s.Logger.Warn("the database's schema is older than this program; run `waybill migrate`")
	}
	if s.Config.Has(Web) {
		if err := s.startWall(ctx); err != nil {
			return err
		}
	}
	return jobs.MakePartitions(ctx, s.Pool)
}

// closeAtStop closes a pool, and lets it be after a moment while its connections are in use: with the database away they may be so for long, and the
// end of the process closes them as well. The moment is one for all pools together.
func (s *Server) closeAtStop(pool *pgxpool.Pool) {
	s.onStop(func(context.Context) {
		closed := make(chan struct{})
		go func() {
			pool.Close()
			close(closed)
		}()
		s.poolsClose.Do(func() { s.poolsEnd = time.Now().Add(300 * time.Millisecond) })
		select {
		case <-closed:
		case <-time.After(max(time.Until(s.poolsEnd), 10*time.Millisecond)):
			s.Logger.Warn("connections to the database are still in use at the end")
		}
	})
}

func (s *Server) startProxy(ctx context.Context) (err error) {
	s.proxyURL = s.Config.ProxyURL
	alone := !s.needsDatabase()
	if s.proxyURL == "" {
		cfg := egress.Config{Allow: s.Config.EgressAllow, Logger: s.Logger}
		if alone {
			cfg.Addr = s.Config.Addr
		}
		if s.proxy, err = egress.Start(ctx, cfg); err != nil {
			return err
		}
		s.onStop(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, stopGrace)
			defer cancel()
			if err := s.proxy.Close(ctx); err != nil {
				s.Logger.Warn("the egress proxy did not stop cleanly", "error", err)
			}
		})
		s.proxyURL = s.proxy.URL()
	}
	if err := egress.SelfTest(ctx, s.proxyURL, s.Config.EgressAllow); err != nil {
		return fmt.Errorf("the egress proxy does not protect: %w", err)
	}
	s.goLoop(s.selfTestLoop)
	return nil
}

// selfTestLoop asks the running proxy every hour. A proxy that lets a forbidden address through ends the program: no promise is worth sending on.
func (s *Server) selfTestLoop(ctx context.Context) {
	tick := time.NewTicker(selfTestEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := egress.SelfTest(ctx, s.proxyURL, s.Config.EgressAllow); err != nil && ctx.Err() == nil {
			s.Logger.Error("the egress proxy failed its self-test", "error", err)
			if errors.Is(err, egress.ErrLetThrough) {
				s.fail(err)
				return
			}
		}
	}
}

// goLoop runs a loop from now until this point of the stop is reached.
func (s *Server) goLoop(loop func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		loop(ctx)
	}()
	s.onStop(func(context.Context) {
		cancel()
		<-ended
	})
}

func (s *Server) startSender(context.Context) (err error) {
	config := sender.Config{ProxyURL: s.proxyURL, Logger: s.Logger}
	if s.proxy != nil {
		config.Tunnel = s.proxy.Tunnel
	}
	if s.sender, err = sender.New(config); err != nil {
		return err
	}
	s.onStop(func(context.Context) { s.sender.Close() })
	return nil
}

func (s *Server) startWorkers(ctx context.Context) (err error) {
	if s.enginePool, err = db.Open(ctx, s.DatabaseURL, lane.PoolOptions("waybill lanes", laneConns)); err != nil {
		return err
	}
	s.closeAtStop(s.enginePool)
	if s.flushPool, err = db.Open(ctx, s.DatabaseURL, lane.PoolOptions("waybill results", flushConns)); err != nil {
		return err
	}
	s.closeAtStop(s.flushPool)
	if s.outboxPool, err = db.Open(ctx, s.DatabaseURL, lane.PoolOptions("waybill dispatcher", outboxConns)); err != nil {
		return err
	}
	s.closeAtStop(s.outboxPool)

	workers := jobs.DefaultWorkers
	s.Engine = lane.New(lane.Config{
		Pool: s.enginePool, FlushPool: s.flushPool, Tickets: s.Inserter, Sender: counted{s.sender, s.metrics}, Policies: s.Policies, Ring: s.Ring, Logger: s.Logger,
		UserAgent: UserAgent(s.Config.URL), Places: workers.Lanes, Teller: s.Services.Alerts,
	})
	if err := s.Engine.Join(ctx); err != nil {
		return err
	}
	s.goLoop(s.Engine.Run)
	s.dispatcher = outbox.NewDispatcher(outbox.Dispatcher{
		Pool: s.outboxPool, Waker: &lane.Waker{Tickets: s.Inserter, Worker: s.Engine.WorkerID}, Poke: s.Engine.Poke, URL: s.Config.URL, Logger: s.Logger, Reached: s.Services.Alerts.Reached})

	if s.river, err = jobs.NewClient(s.Pool, s.Engine, &jobs.Chores{Pool: s.Pool, Deliveries: s.Services.Deliveries, Retention: s.retention(), Mails: s.mailJob(), Digest: s.Services.Alerts.Digest, Reseal: s.reseal, Prunes: []jobs.Prune{
		s.Services.Accounts.Prune, (&operator.Service{DB: s.Pool}).Prune, (&operator.Service{DB: s.Pool}).Roll, s.Services.Endpoints.Prune, (&idempotency.Store{DB: s.Pool}).Prune, s.Services.Consumers.Prune, s.Services.Limits.Prune, s.Services.Mails.Prune,
		s.Services.Inboxes.Prune, s.Services.Deliveries.PruneFiles, s.Services.Deliveries.PruneRecoveries, s.Services.Deliveries.PruneRollups}}, workers, s.Logger); err != nil {
		return err
	}
	if err := s.river.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	s.onStop(s.stopWorkers)
	s.goLoop(func(ctx context.Context) {
		db.Listen(ctx, s.enginePool, s.Logger, []string{lane.ChannelOutbox, lane.ChannelLane}, s.dispatcher.Ring, func(channel, payload string) {
			if channel == lane.ChannelOutbox {
				s.dispatcher.Ring()
			} else {
				s.Engine.Poke(payload)
			}
		})
	})
	s.goLoop(s.dispatcher.Run)
	return nil
}

// stopWorkers lets what is on the wire be answered and recorded, gives the lanes back, and ends River.
func (s *Server) stopWorkers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.Policies.LongestTimeout()+recordGrace)
	defer cancel()
	// At the same time: River fetches no more, so that the tickets of the lanes that are given back go to others at once.
	ended := make(chan error, 1)
	go func() { ended <- s.river.Stop(ctx) }()
	if err := s.Engine.Drain(ctx); err != nil {
		lanes, hanging := s.Engine.Running()
		s.Logger.Warn("lanes did not end in time; others take them over when the lease is over", "lanes", lanes, "hanging", hanging)
	}
	if err := <-ended; err != nil {
		s.Logger.Warn("jobs did not end in time", "error", err)
	}
}

// UserAgent is what receivers see: who calls, and where that is explained.
func UserAgent(url string) string { return "Waybill/1 (+" + url + "/docs/receiving)" }
