package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/e2e"
)

// policy has a schedule that is over in some ten seconds.
const policy = `
webhook_delivery:
  timeout_seconds: 2
  waits_between_attempts: [1s, 1s, 1s, 2s, 2s]
  circuit_breaker: {consecutive_failures: 10, probe_every: [1s, 2s]}
presets:
  commerce: {timeout_seconds: 2}
`

// The longest a worker may take to stop: the timeout, the grace, and something for a machine with too much to do.
const stopsWithin = 2*time.Second + 5*time.Second + 3*time.Second

// chaos is one run.
type chaos struct {
	o      options
	out    io.Writer
	begun  time.Time
	system *e2e.System
	ledger *e2e.Ledger
	hooks  *e2e.Receiver
	relay  *e2e.Relay
	places []*e2e.Place
	types  map[string][]string // by tenant

	deleted int // endpoints; known to the stream of people alone

	mu      sync.Mutex
	workers []*e2e.Program
	web     *e2e.Program
	proxy   *e2e.Program
	done    map[string]int // troubles by name
}

// random is a stream of its own for each part of the run, so that one part's pace does not change another's choices.
func (c *chaos) random(part string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(part) {
		h = (h ^ uint64(part[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(c.o.seed, h))
}

// tell adds a line to the timeline.
func (c *chaos) tell(format string, arguments ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "%7.2f s  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, arguments...))
}

// run makes trouble and returns what the ledger says of it. An error means that the run itself failed.
func run(ctx context.Context, o options, binary string, out io.Writer) (*e2e.Verdict, error) {
	c := &chaos{o: o, out: out, begun: time.Now(), ledger: e2e.NewLedger(), types: map[string][]string{}, done: map[string]int{}}
	fmt.Fprintf(out, "seed %d, %s\n", o.seed, o.length)
	if err := c.build(ctx, binary); err != nil {
		return nil, errors.Join(err, c.close())
	}
	verdict, err := c.live(ctx)
	if closing := c.close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	c.report(verdict)
	return verdict, nil
}

// build sets everything up that the run needs.
func (c *chaos) build(ctx context.Context, binary string) (err error) {
	var show func(string, []byte)
	if c.o.verbose {
		show = func(program string, line []byte) {
			if text := string(line); !strings.Contains(text, `"level":"INFO"`) && !strings.Contains(text, `"msg":"api request"`) {
				c.tell("%s: %s", program, line)
			}
		}
	}
	if c.system, err = e2e.New(ctx, e2e.Options{Binary: binary, Policy: policy, Keep: c.o.keep, Line: show, Offline: c.o.offline}); err != nil {
		return err
	}
	if c.hooks, err = e2e.NewReceiver(c.ledger); err != nil {
		return err
	}
	if c.proxy, err = c.system.Start(ctx, proxyLaunch(1)); err != nil {
		return err
	}
	if c.relay, err = e2e.NewRelay(c.proxy.Addr()); err != nil {
		return err
	}
	if c.web, err = c.system.Start(ctx, c.launch("web", 1)); err != nil {
		return err
	}
	if err := c.plan(ctx); err != nil {
		return err
	}
	for n := range c.o.workers {
		p, err := c.system.Start(ctx, c.launch("worker", n+1))
		if err != nil {
			return err
		}
		c.workers = append(c.workers, p)
	}
	return nil
}

func (c *chaos) close() error {
	if c.system != nil {
		c.system.Close()
	}
	if c.relay != nil {
		c.relay.Close()
	}
	if c.hooks != nil {
		c.hooks.Close()
	}
	return nil
}

// proxyLaunch is a proxy without a way to the database.
func proxyLaunch(n int) e2e.Launch {
	return e2e.Launch{Name: fmt.Sprint("proxy ", n), Roles: []string{"proxy"},
		Env: map[string]string{"WAYBILL_DATABASE_URL": "", "WAYBILL_SECRET_KEYS": "", "WAYBILL_PLATFORM_KEY": "", "WAYBILL_URL": ""}}
}

func (c *chaos) launch(role string, n int) e2e.Launch {
	return e2e.Launch{Name: fmt.Sprint(role, " ", n), Roles: []string{role}, Env: map[string]string{"WAYBILL_PROXY_URL": "http://" + c.relay.Addr()}}
}

// live makes trouble for as long as it was asked to, lets everything come to rest, and checks.
func (c *chaos) live(ctx context.Context) (*e2e.Verdict, error) {
	c.begun = time.Now()
	c.tell("it is %s; trouble begins", c.begun.UTC().Format("15:04:05.000"))
	trouble, calm := context.WithTimeout(ctx, c.o.length)
	defer calm()
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	wg.Go(func() { c.publishers(trouble) })
	for _, stream := range []func(context.Context) error{c.processes, c.stalls, c.people, c.watch} {
		wg.Go(func() {
			if err := stream(trouble); err != nil {
				errs <- err
				calm()
			}
		})
	}
	reading, stopReading := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { c.readCatalog(reading) })
	defer reader.Wait()
	defer stopReading()
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.hooks.Calm()
	c.tell("calm: every receiver answers 200, everything must come to rest; %d events committed, %d requests seen", c.ledger.Committed(), c.ledger.Seen())
	rest := c.system.UntilIdle(ctx, c.o.drain)
	c.tell("at rest")
	verdict, err := c.ledger.Check(ctx, c.system.Pool)
	if err != nil {
		return nil, err
	}
	if rest != nil {
		verdict.Wrong("%v%s", rest, c.stuck(ctx))
	}
	c.stopAll(verdict)
	return verdict, nil
}

// stuck says where what is due has come to, and makes the workers write what each of their goroutines does into their logs; that ends them.
func (c *chaos) stuck(ctx context.Context) string {
	rows, err := c.system.Pool.Query(ctx, `
		select format(E'\n\t%s %s gen %s since %s, slots %s, owner %s (lease until %s), %s due from %s, tenant has %s of %s slots, tickets: %s',
		              l.endpoint_id, l.state, l.gen, l.since, l.slots, l.owner, w.lease_until, d.n, d.first,
		              (select sum(r.slots) from lanes r where r.tenant_id = l.tenant_id and r.state = 'running'), t.concurrency,
		              (select string_agg(concat_ws(' ', j.args ->> 'gen', j.queue, j.state, j.attempted_by[array_upper(j.attempted_by, 1)]), '; ')
		               from river_job j where j.kind = 'lane' and j.args ->> 'endpoint' = l.endpoint_id and (j.args ->> 'gen')::bigint >= l.gen - 1))
		from lanes l
		join tenants t on t.id = l.tenant_id
		join (select endpoint_id, count(*) as n, min(next_at) as first from due group by endpoint_id) d on d.endpoint_id = l.endpoint_id
		left join workers w on w.id = l.owner
		order by l.endpoint_id`)
	if err != nil {
		return err.Error()
	}
	lanes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err.Error()
	}
	waiting, err := c.system.Count(ctx, `select count(*) from outbox`)
	for _, p := range c.workers {
		_ = p.Signal(syscall.SIGQUIT) // one that has ended is found out below
	}
	return fmt.Sprintf("\n\tthe outbox has %d, %v%s", waiting, err, strings.Join(lanes, ""))
}

// watch ends the run when a process ends that nobody here has ended.
func (c *chaos) watch(ctx context.Context) error {
	for ; ctx.Err() == nil; wait(ctx, 200*time.Millisecond) {
		for _, p := range c.system.Programs() {
			if died := p.Died(); died != "" && p.Addr() != "" { // one that could not start is tried again
				return errors.New(died)
			}
		}
	}
	return nil
}

// stopAll ends the processes as a platform would and looks into their logs.
func (c *chaos) stopAll(v *e2e.Verdict) {
	for _, p := range c.system.Programs() {
		if code, err := c.system.Stop(p, stopsWithin); err != nil || code != 0 {
			v.Wrong("%s ended with code %d, %v:\n%s", p.Name, code, err, p.Tail(8))
		}
	}
	for _, p := range c.system.Ever() {
		if died := p.Died(); died != "" && p.Addr() != "" {
			v.Wrong("%s", died)
		}
		for _, crash := range p.Crashes() {
			v.Wrong("%s: %s", p.Name, crash)
		}
	}
}

func (c *chaos) report(v *e2e.Verdict) {
	fmt.Fprint(c.out, "\ntrouble:")
	for _, name := range sortedKeys(c.done) {
		fmt.Fprintf(c.out, " %s %d,", name, c.done[name])
	}
	fmt.Fprint(c.out, "\nattempts:")
	for _, class := range sortedKeys(v.ByClass) {
		fmt.Fprintf(c.out, " %s %d,", class, v.ByClass[class])
	}
	fmt.Fprintln(c.out)
	v.Print(c.out)
	if !v.Balanced() {
		c.evidence()
		fmt.Fprintf(c.out, "again: go run ./e2e/chaos -seed %d -for %s\n", c.o.seed, c.o.length)
	}
}

// evidence keeps the programs' logs and every request, if a folder was named for them.
func (c *chaos) evidence() {
	if c.o.evidence == "" {
		return
	}
	err := os.MkdirAll(c.o.evidence, 0o755)
	for n, p := range c.system.Ever() {
		if err == nil {
			err = os.WriteFile(filepath.Join(c.o.evidence, fmt.Sprintf("%02d-%s.log", n, strings.ReplaceAll(p.Name, " ", "-"))), []byte(strings.Join(p.Log(), "\n")), 0o644)
		}
	}
	var text strings.Builder
	for _, r := range c.ledger.Requests() {
		fmt.Fprintln(&text, r)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(c.o.evidence, "requests.txt"), []byte(text.String()), 0o644)
	}
	fmt.Fprintln(c.out, "evidence in", c.o.evidence, errors.Join(err))
}
