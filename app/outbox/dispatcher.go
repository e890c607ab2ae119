package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/lane"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlIsWaiting      = queries.SQL("OutboxIsWaiting")
	sqlDispatchLock   = queries.SQL("DispatchLock")
	sqlWaiting        = queries.SQL("OutboxWaiting")
	sqlSleep          = queries.SQL("DispatcherSleep")
	sqlLeave          = queries.SQL("DispatcherLeave")
	sqlPartitionsMake = queries.SQL("PartitionsMake")
	sqlTidy           = queries.SQL("OutboxTidy")
)

const (
	pollBusy   = 5 * time.Millisecond   // while events come in
	pollAsleep = 250 * time.Millisecond // the fallback for a NOTIFY that was lost
	busyFor    = 2 * time.Second        // without an event, then publishers must ring
	awakeEvery = time.Second            // and says so again: another process that gets no events thinks that everybody sleeps
	// A batch grows while it takes less than batchTarget and shrinks above twice that: a newcomer waits behind one batch at most.
	batchTarget = 20 * time.Millisecond
	batchFirst  = 250
	batchLeast  = 250
	batchMost   = 1000
	tenantsMost = 100 // looked at for one batch; the next one begins behind the last that was served
	// A tenant with longQueue rows waiting or more is served that many at once and then waits for the other long queues' turns: lanes get several
	// deliveries with one look. Tenants with less go first, at every second batch at the latest.
	longQueue = 100
	// tidyAfter rows have gone since the tables were tidied last, or tidyIdle when there is time for it.
	tidyAfter    = 20_000
	tidyIdle     = 2_000
	partitionDay = 8
	leaveWithin  = 300 * time.Millisecond
)

// Dispatcher moves outbox rows on. Run it in every process that works: one of them dispatches at a time.
type Dispatcher struct {
	Pool   *pgxpool.Pool // with the engine's settings (lane.PoolOptions)
	Waker  *lane.Waker
	Poke   func(endpointID string) // makes a lane of this process look again; may be nil
	URL    string                  // the public base URL, for resource.url of thin events
	Logger *slog.Logger
	// Reached, unless nil, tells that tenants have reached limits of their day, in the transaction that does. What it cannot tell keeps nothing from being dispatched.
	Reached func(ctx context.Context, tx pgx.Tx, reached []Reached) error
	Now     func() time.Time // time.Now when nil

	ring  chan struct{}
	size  int
	after string          // the last tenant served of those that must wait for their turn
	moved bool            // the last step did, so there is likely to be more
	short bool            // the last batch left out the long queues
	long  map[string]bool // tenants that had a long queue when they were served last

	done *struct{ batches, events atomic.Int64 } // committed since the start

	gone   int // rows since the tables were tidied
	tidied chan struct{}
}

// NewDispatcher makes a dispatcher that can be rung before it runs.
func NewDispatcher(d Dispatcher) *Dispatcher {
	d.ring = make(chan struct{}, 1)
	d.size = batchFirst
	d.long = map[string]bool{}
	d.done = new(struct{ batches, events atomic.Int64 })
	d.tidied = make(chan struct{}, 1)
	d.tidied <- struct{}{}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &d
}

// Dispatched is how many batches this process has committed, and how many events were in them.
func (d *Dispatcher) Dispatched() (batches, events int64) {
	return d.done.batches.Load(), d.done.events.Load()
}

// Ring wakes the dispatcher: somebody has published.
func (d *Dispatcher) Ring() {
	select {
	case d.ring <- struct{}{}:
	default:
	}
}

// Run dispatches until ctx ends, and then rings whoever is to go on. An error of the database is logged and tried again.
func (d *Dispatcher) Run(ctx context.Context) {
	defer d.leave(ctx)
	lastEvent := d.Now()
	asleep, saidAwake := false, time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		begun := d.Now()
		moved, mine, err := d.step(ctx)
		now := d.Now()
		// While somebody writes many events in a transaction of his own, each look passes all of them: then look less often.
		wait := min(max(pollBusy, 10*now.Sub(begun)), pollAsleep)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.Logger.Error("dispatch failed; it is tried again", "error", err)
			wait = pollAsleep
		case moved > 0:
			if asleep || now.Sub(saidAwake) > awakeEvery {
				asleep, saidAwake = false, now
				d.sayAsleep(ctx, false)
			}
			lastEvent = now
			continue
		case !mine:
			wait = pollAsleep // another process dispatches
		case now.Sub(lastEvent) > busyFor:
			if !asleep {
				// From here on publishers ring. One that looked a moment ago and commits a moment later is found by the next poll.
				d.sayAsleep(ctx, true)
				asleep = true
				continue
			}
			wait = pollAsleep
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-d.ring:
			lastEvent = now
		case <-timer.C:
		}
	}
}

// leave spares those that wait for the right to dispatch the rest of their pause. It waits for nobody: the database may be away.
func (d *Dispatcher) leave(ctx context.Context) {
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
		defer cancel()
		_, _ = d.Pool.Exec(ctx, sqlLeave) // without it they look a quarter of a second later
	}()
}

func (d *Dispatcher) sayAsleep(ctx context.Context, asleep bool) {
	if _, err := d.Pool.Exec(ctx, sqlSleep, asleep); err != nil && ctx.Err() == nil {
		d.Logger.Warn("the dispatcher cannot say whether it sleeps", "error", err)
	}
}

// step moves one batch. mine is false when another process held the right to dispatch.
func (d *Dispatcher) step(ctx context.Context) (moved int, mine bool, err error) {
	if !d.moved {
		var waiting bool
		if err := d.Pool.QueryRow(ctx, sqlIsWaiting).Scan(&waiting); err != nil {
			return 0, false, fmt.Errorf("look into the outbox: %w", err)
		}
		if !waiting {
			d.tidy(ctx, tidyIdle)
			return 0, true, nil
		}
	}
	d.moved = false
	begun := d.Now()
	var batch dispatched
	var next turn
	move := func(tx pgx.Tx) error {
		var waits []queue
		var err error
		if mine, waits, err = d.waiting(ctx, tx); err != nil || len(waits) == 0 {
			return err
		}
		next = d.choose(waits)
		if batch, err = d.dispatch(ctx, tx, next.tenants, next.each); err != nil {
			return err
		}
		if err := d.tell(ctx, tx, batch.reached); err != nil {
			return err
		}
		return d.Waker.Wake(ctx, tx, batch.endpoints, batch.tests)
	}
	if err = db.Tx(ctx, d.Pool, move); db.NoPartition(err) {
		// The maintenance job is late; publishing went on, and so do we.
		if _, err := d.Pool.Exec(ctx, sqlPartitionsMake, partitionDay); err != nil {
			return 0, true, fmt.Errorf("make missing partitions: %w", err)
		}
		err = db.Tx(ctx, d.Pool, move) // once: with a clock that is days wrong it is missing again
	}
	if err != nil || !mine {
		return 0, mine, err
	}
	d.after, d.short, d.moved = next.after, next.short, batch.events > 0
	for _, id := range next.tenants {
		// One with very many subscriptions gives fewer rows than it was asked for, and is counted again.
		if delete(d.long, id); batch.taken[id] == next.each {
			d.long[id] = true
		}
	}
	if d.Poke != nil {
		for _, endpointID := range batch.endpoints {
			d.Poke(endpointID)
		}
	}
	took := d.Now().Sub(begun)
	switch {
	case took < batchTarget && batch.events >= d.size*3/4:
		d.size = min(2*d.size, batchMost)
	case took > 2*batchTarget:
		d.size = max(d.size/2, batchLeast)
	}
	if batch.events > 0 {
		d.Logger.Debug("dispatched", "events", batch.events, "deliveries", batch.deliveries, "tenants", len(next.tenants), "took_ms", took.Milliseconds())
	}
	d.done.batches.Add(1)
	d.done.events.Add(int64(batch.events))
	d.gone += max(batch.events, batch.deliveries)
	d.tidy(ctx, tidyAfter)
	return batch.events, true, nil
}

// tidy forgets what has gone from the tables, aside, once that is at least so many rows.
func (d *Dispatcher) tidy(ctx context.Context, rows int) {
	if d.gone < rows {
		return
	}
	select {
	case <-d.tidied:
	default:
		return // the last one is still at it
	}
	d.gone = 0
	go func() {
		defer func() { d.tidied <- struct{}{} }()
		if _, err := d.Pool.Exec(ctx, sqlTidy); err != nil && ctx.Err() == nil {
			d.Logger.Warn("the outbox could not be tidied; the server's own vacuum will", "error", err)
		}
	}()
}

// queue is one tenant's in the outbox.
type queue struct {
	tenantID string
	rows     int // longQueue at most
}

func (q queue) long() bool { return q.rows >= longQueue }

// waiting takes the right to dispatch and lists up to tenantsMost tenants that have something waiting, those after the last one served first.
// mine is false, and there are none, when another process has the right.
func (d *Dispatcher) waiting(ctx context.Context, tx pgx.Tx) (mine bool, waits []queue, err error) {
	b := &pgx.Batch{}
	b.Queue(sqlDispatchLock).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
	// Statements of their own: their snapshots are taken after the lock, so they see what the last dispatcher committed.
	list := func(upTo string) func(pgx.Rows) error {
		return func(rows pgx.Rows) error {
			var q queue
			_, err := pgx.ForEachRow(rows, []any{&q.tenantID, &q.rows}, func() error {
				if len(waits) < tenantsMost && (upTo == "" || q.tenantID <= upTo) {
					waits = append(waits, q)
				}
				return nil
			})
			return err
		}
	}
	long := slices.Collect(maps.Keys(d.long))
	b.Queue(sqlWaiting, d.after, tenantsMost, longQueue, long).Query(list(""))
	if d.after != "" {
		b.Queue(sqlWaiting, "", tenantsMost, longQueue, long).Query(list(d.after))
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return false, nil, fmt.Errorf("list waiting tenants: %w", err)
	}
	if !mine {
		return false, nil, nil
	}
	return mine, waits, nil
}

// turn is whose events one batch takes: up to each rows of every tenant.
type turn struct {
	tenants []string
	each    int
	after   string
	short   bool // it leaves out the long queues
}

// choose makes a batch of about d.size rows. Short queues go first and alone, so that a newcomer does not wait behind a flood, unless they did so the last
// time: then some of the long queues have their turn beside them.
func (d *Dispatcher) choose(waits []queue) turn {
	long := 0
	for _, q := range waits {
		if q.long() {
			long++
		}
	}
	t := turn{each: longQueue, after: d.after, short: long > 0 && long < len(waits) && !d.short}
	places := 0
	if !t.short && long > 0 {
		places = min(long, max(1, d.size/longQueue, long/10))
		t.each = max(longQueue, d.size/places)
	}
	room := d.size // rows of short queues
	if places > 0 && long < len(waits) {
		room = max(1, d.size/2)
	}
	cut, lastLong, last := false, "", ""
	for _, q := range waits {
		switch {
		case q.long() && places > 0:
			places--
			lastLong = q.tenantID
		case !q.long() && room > 0:
			room -= q.rows
		default:
			cut = cut || !q.long()
			continue
		}
		last = q.tenantID
		t.tenants = append(t.tenants, q.tenantID)
	}
	switch {
	case lastLong != "":
		t.after = lastLong
	case cut || !t.short:
		t.after = last
	}
	return t
}
