package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/id"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlHold        = queries.SQL("LaneHold")
	sqlCancelHeld  = queries.SQL("LaneCancelHeld")
	sqlWorkerStart = queries.SQL("WorkerStart")
	sqlWorkerBeat  = queries.SQL("WorkerBeat")
	sqlWorkerStop  = queries.SQL("WorkerStop")
)

// Sender makes one attempt; sender.Sender is one.
type Sender interface {
	Send(ctx context.Context, r sender.Request) sender.Outcome
}

// Config is what an Engine works with.
type Config struct {
	// Pool runs the control loop and the fetches, FlushPool the results. Both are opened with the options of this package: the
	// statements are written for one plan, and a fresh partition has no statistics to find it by.
	Pool, FlushPool *pgxpool.Pool
	Tickets         Tickets
	Sender          Sender
	Policies        policy.Set
	Ring            *seal.Ring
	Logger          *slog.Logger
	UserAgent       string
	// Teller, unless nil, is told what became of endpoints and deliveries.
	Teller Teller
	// Places is how many lanes run as River jobs at once in this process (the queue's MaxWorkers): when all are taken, others wait.
	Places int
	// Lease is how long this process's lanes are its own without a heartbeat; 5 s when zero. A heartbeat is sent every fifth of it.
	Lease time.Duration
	Now   func() time.Time // time.Now when nil
	// Random places the jitter: 0 to 1. math/rand/v2 when nil.
	Random func() float64
}

// detachedMost lanes may wait for hanging receivers beside those that hold a place in River's queue.
const detachedMost = 5000

// Errors of Work: the ticket is not used, and may be given to another process or to this one later.
var (
	ErrDraining = errors.New("lane: this process is stopping")
	ErrNoLease  = errors.New("lane: this process has no lease just now; it is joining again")
)

// Engine runs the lanes of one process.
type Engine struct {
	Config
	pool, flushPool *pgxpool.Pool
	waker           *Waker

	controls *batcher[*control]
	fetches  *batcher[*fetch]
	targets  *batcher[*targetRead]
	flushes  *batcher[*result]

	born     time.Time    // what heartbeats are measured from: a step of the wall clock does not lengthen a lease
	offset   atomic.Int64 // nanoseconds from this machine's clock to the database's, while it is more than a few seconds
	draining atomic.Bool
	gate     gate
	detached atomic.Int64
	working  atomic.Int64 // Work calls under way: places taken
	metrics  Metrics

	mu       sync.Mutex
	lanes    map[string]*lane
	cache    map[string]*target
	paces    map[string]pace
	outlives map[string]dueMark
	lease    *lease
	idle     chan struct{} // closed and replaced when the last lane ends
}

// lease is this process's membership in table workers, under one id.
type lease struct {
	id     string
	beat   atomic.Int64 // nanoseconds from the engine's birth to before the last heartbeat that succeeded was sent
	ctx    context.Context
	cancel context.CancelFunc
}

// New makes an engine; Run makes it work.
func New(c Config) *Engine {
	if c.Lease == 0 {
		c.Lease = 5 * time.Second
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	e := &Engine{Config: c, pool: c.Pool, flushPool: c.FlushPool, waker: &Waker{Tickets: c.Tickets}, lanes: map[string]*lane{}, cache: map[string]*target{}, paces: map[string]pace{}, outlives: map[string]dueMark{}}
	e.born = c.Now()
	e.controls = newBatcher(200, 0, e.steer)
	e.fetches = newBatcher(100, 0, e.fetchAll)
	e.targets = newBatcher(100, 0, e.readTargets)
	e.flushes = newBatcher(flushMost, flushLinger, e.flush)
	return e
}

// PoolOptions are the settings of the connections that dispatch, steer and fetch: one plan for each statement, whatever the statistics say. A
// bitmap scan would visit dead entries of table due again and again until vacuum; an ordered index scan marks them as it passes.
func PoolOptions(name string, conns int32) db.Options {
	return db.Options{AppName: name, MaxConns: conns, Params: map[string]string{
		"jit": "off", "enable_bitmapscan": "off", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
		"plan_cache_mode": "force_generic_plan",
	}}
}

// Run runs the loops and returns when ctx ends. Call Join before it, and Drain before ctx ends, to give the lanes back in order.
func (e *Engine) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){
		e.controls.loop, e.fetches.loop, e.targets.loop, e.flushes.loop, e.flushes.loop, e.beatLoop, e.sweepLoop,
	} {
		wg.Go(func() { loop(ctx) })
	}
	wg.Wait()
	e.currentLease().cancel()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := e.pool.Exec(leaving, sqlWorkerStop, e.WorkerID()); err != nil {
		e.Logger.Warn("this process could not leave the workers; its lease runs out by itself", "error", err)
	}
}

// Work uses a ticket: it takes the lane and sends what is due, and returns when the lane is given back or when it hangs, in which
// case it goes on without the ticket. A stale ticket is no error.
func (e *Engine) Work(ctx context.Context, t Ticket) error {
	if e.draining.Load() {
		return ErrDraining
	}
	e.working.Add(1)
	defer e.working.Add(-1)
	c := &control{verb: claim, endpointID: t.EndpointID, tenantID: t.TenantID, gen: t.Gen}
	if err := e.controls.do(ctx, c); err != nil {
		return fmt.Errorf("claim lane: %w", err)
	}
	if c.noLease {
		return ErrNoLease
	}
	if c.blocked {
		e.makeRoom(t.TenantID)
	}
	if !c.mine {
		return nil
	}
	lease := e.currentLease() // after the claim: if it was made under an older one, the first fetch finds that out
	l := &lane{e: e, endpointID: t.EndpointID, tenantID: t.TenantID, gen: t.Gen, slots: c.slots, proven: c.warm, waiters: c.waiters, suspect: t.Suspect,
		kicked: make(chan struct{}, 1), hung: make(chan struct{}), done: make(chan struct{}),
		onWire: map[string]time.Time{}, answered: map[string]struct{}{}}
	e.mu.Lock()
	l.target, l.pace = e.cache[l.endpointID], e.paces[l.endpointID]
	e.lanes[l.endpointID] = l
	e.mu.Unlock()
	// The lane lives as long as the lease, not as long as this job.
	go l.run(lease.ctx)
	select {
	case <-l.done:
	case <-l.hung:
	}
	return nil
}

func (e *Engine) forget(l *lane) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lanes[l.endpointID] == l {
		delete(e.lanes, l.endpointID)
	}
	select {
	case <-l.hung:
		e.detached.Add(-1)
	default:
	}
	l.mu.Lock()
	if l.target != nil && l.verified == "" {
		if len(e.cache) >= targetsCached {
			clear(e.cache)
		}
		e.cache[l.endpointID] = l.target
	}
	e.keepPace(l.endpointID, l.pace)
	l.mu.Unlock()
	if len(e.lanes) == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// targetsCached endpoints are remembered between claims; each fetch says whether the memory is still right.
const targetsCached = 5000

// Poke makes the lane of an endpoint look again at once, if this process runs it.
func (e *Engine) Poke(endpointID string) {
	e.mu.Lock()
	l := e.lanes[endpointID]
	e.mu.Unlock()
	if l != nil {
		l.poke()
	}
}

// makeRoom tells the lanes of a tenant that this process runs that another is blocked: those at rest give their places back at once. Those of
// other processes see it when they look next.
func (e *Engine) makeRoom(tenantID string) {
	e.mu.Lock()
	var of []*lane
	for _, l := range e.lanes {
		if l.tenantID == tenantID {
			of = append(of, l)
		}
	}
	e.mu.Unlock()
	for _, l := range of {
		l.makeRoom()
	}
}

// crowded says that every place of the queue is taken: others are likely to wait.
func (e *Engine) crowded() bool { return e.Places > 0 && int(e.working.Load()) >= e.Places }

// Drain starts nothing more and waits until every lane is given back or ctx ends.
func (e *Engine) Drain(ctx context.Context) error {
	e.draining.Store(true)
	e.mu.Lock()
	if len(e.lanes) == 0 {
		e.mu.Unlock()
		return nil
	}
	idle := make(chan struct{})
	e.idle = idle
	for _, l := range e.lanes {
		l.kick()
	}
	e.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Running is how many lanes this process holds, and how many of them hang.
func (e *Engine) Running() (lanes, hanging int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.lanes), int(e.detached.Load())
}

// Join enters table workers under a new id, under which lanes can be claimed.
func (e *Engine) Join(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	l := &lease{id: id.New(id.Worker, e.Now())}
	l.beat.Store(int64(e.Now().Sub(e.born)))
	var there time.Time
	if err := e.pool.QueryRow(ctx, sqlWorkerStart, l.id, e.Lease, host, os.Getpid()).Scan(&there); err != nil {
		return fmt.Errorf("join the workers: %w", err)
	}
	e.compareClocks(e.Now(), there)
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	e.mu.Lock()
	e.lease = l
	e.mu.Unlock()
	return nil
}

func (e *Engine) currentLease() *lease { e.mu.Lock(); defer e.mu.Unlock(); return e.lease }

// WorkerID is the id under which this process holds lanes now.
func (e *Engine) WorkerID() string { return e.currentLease().id }

// clockTolerance is how far this machine's clock may be from the database's before the latter is used: receivers refuse a signature that is minutes off.
const clockTolerance = 5 * time.Second

// compareClocks notes how far the database's clock, there, is from this machine's, and says so when that begins or ends.
func (e *Engine) compareClocks(here, there time.Time) {
	apart := there.Sub(here.Round(0))
	if apart.Abs() < clockTolerance {
		apart = 0
	}
	before := time.Duration(e.offset.Swap(int64(apart)))
	switch {
	case before == 0 && apart != 0:
		e.Logger.Error("this machine's clock is wrong; attempts are stamped and signed by the database's until it is set", "seconds", -apart.Seconds())
	case before != 0 && apart == 0:
		e.Logger.Info("this machine's clock is right again")
	}
}

// stamp is a moment of this machine's clock as the database would have called it: what is signed, shown and put into ids.
func (e *Engine) stamp(here time.Time) time.Time { return here.Add(time.Duration(e.offset.Load())) }

// alive says that the lease has a fifth of its time left at least: enough to stop in.
func (e *Engine) alive(now time.Time) bool {
	return now.Sub(e.born)-time.Duration(e.currentLease().beat.Load()) < e.Lease*4/5
}

// patience is how long a heartbeat that is sent now may take: not beyond the moment at which the lanes must stop, so that a database that neither
// answers nor refuses does not keep requests on the wire until others take the lanes. A process that was itself suspended until after that
// moment asks once more, shortly: the lease may not be over yet.
func (l *lease) patience(now, length time.Duration) time.Duration {
	left := length*4/5 - (now - time.Duration(l.beat.Load()))
	if left <= 0 {
		return length / 10
	}
	return min(left, length*2/5)
}

// beatLoop renews the lease. When four fifths of it have passed without a heartbeat, the lanes stop: what is on the wire is cancelled, and
// this process comes back under a new id, because the old one may already count as dead.
func (e *Engine) beatLoop(ctx context.Context) {
	tick := time.NewTicker(e.Lease / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l := e.currentLease()
		sent := e.Now()
		beat, cancel := context.WithTimeout(ctx, l.patience(sent.Sub(e.born), e.Lease))
		var there time.Time
		err := e.pool.QueryRow(beat, sqlWorkerBeat, l.id, e.Lease).Scan(&there)
		cancel()
		if err == nil {
			e.compareClocks(sent, there)
			l.beat.Store(int64(sent.Sub(e.born)))
			continue
		}
		if e.alive(e.Now()) && !errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		e.Logger.Error("the lease of this process is over; its lanes stop and it joins again", "worker_id", l.id, "error", err)
		e.abandon(l)
		for e.Join(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(e.Lease / 5):
			}
		}
	}
}

// abandon ends every lane held under a lease that is over.
func (e *Engine) abandon(old *lease) {
	e.mu.Lock()
	lanes := make([]*lane, 0, len(e.lanes))
	for _, l := range e.lanes {
		lanes = append(lanes, l)
	}
	e.mu.Unlock()
	for _, l := range lanes {
		l.mu.Lock()
		l.lost, l.closed = true, true
		l.mu.Unlock()
		l.kick()
	}
	old.cancel()
}

// targetRead asks for one endpoint as it is now.
type targetRead struct {
	endpointID string
	target     *target
}

func (e *Engine) readTargets(ctx context.Context, batch []*targetRead) error {
	ids := make([]string, len(batch))
	for i, r := range batch {
		ids[i] = r.endpointID
	}
	targets, err := e.loadTargets(ctx, ids)
	if err != nil {
		return err
	}
	for _, r := range batch {
		r.target = targets[r.endpointID]
	}
	return nil
}

// hold moves everything due at an endpoint that does not send to held, or cancels it, a batch at a time.
func (e *Engine) hold(ctx context.Context, endpointID string) error {
	for _, sql := range []string{sqlHold, sqlCancelHeld} {
		for {
			var moved int
			err := db.Tx(ctx, e.pool, func(tx pgx.Tx) error { return tx.QueryRow(ctx, sql, endpointID, holdBatch).Scan(&moved) })
			if err != nil {
				return fmt.Errorf("hold deliveries: %w", err)
			}
			if moved < holdBatch {
				break
			}
		}
	}
	return nil
}
