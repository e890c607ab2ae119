package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
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
	sqlPartitionsMake = queries.SQL("PartitionsMake")
)

const (
	pollBusy   = 5 * time.Millisecond   // while events come in
	pollAsleep = 250 * time.Millisecond // the fallback for a NOTIFY that was lost
	busyFor    = 2 * time.Second        // without an event, then publishers must ring
	awakeEvery = time.Second            // and says so again: another process that gets no events thinks that everybody sleeps
	// A batch grows while it takes less than batchTarget and shrinks above twice that: a newcomer waits behind one batch at most.
	batchTarget  = 20 * time.Millisecond
	batchFirst   = 250
	batchLeast   = 250
	batchMost    = 1000
	tenantsMost  = 100 // in one batch; the next batch goes on behind the last of them
	partitionDay = 8
)

// Dispatcher moves outbox rows on. Run it in every process that works: one of them dispatches at a time.
type Dispatcher struct {
	Pool   *pgxpool.Pool // with the engine's settings (lane.PoolOptions)
	Waker  *lane.Waker
	Poke   func(endpointID string) // makes a lane of this process look again; may be nil
	URL    string                  // the public base URL, for resource.url of thin events
	Logger *slog.Logger
	Now    func() time.Time // time.Now when nil

	ring  chan struct{}
	size  int
	after string // the last tenant served by a full round: the next one begins behind it
}

// NewDispatcher makes a dispatcher that can be rung before it runs.
func NewDispatcher(d Dispatcher) *Dispatcher {
	d.ring = make(chan struct{}, 1)
	d.size = batchFirst
	if d.Now == nil {
		d.Now = time.Now
	}
	return &d
}

// Ring wakes the dispatcher: somebody has published.
func (d *Dispatcher) Ring() {
	select {
	case d.ring <- struct{}{}:
	default:
	}
}

// Run dispatches until ctx ends. An error of the database is logged and tried again.
func (d *Dispatcher) Run(ctx context.Context) {
	lastEvent := d.Now()
	asleep, saidAwake := false, time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := pollBusy
		moved, mine, err := d.step(ctx)
		now := d.Now()
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

func (d *Dispatcher) sayAsleep(ctx context.Context, asleep bool) {
	if _, err := d.Pool.Exec(ctx, sqlSleep, asleep); err != nil && ctx.Err() == nil {
		d.Logger.Warn("the dispatcher cannot say whether it sleeps", "error", err)
	}
}

// step moves one batch. mine is false when another process held the right to dispatch.
func (d *Dispatcher) step(ctx context.Context) (moved int, mine bool, err error) {
	var waiting bool
	if err := d.Pool.QueryRow(ctx, sqlIsWaiting).Scan(&waiting); err != nil {
		return 0, false, fmt.Errorf("look into the outbox: %w", err)
	}
	if !waiting {
		return 0, true, nil
	}
	begun := d.Now()
	var batch dispatched
	after, tenants := d.after, 0
	move := func(tx pgx.Tx) error {
		var ids []string
		var next string
		var err error
		if mine, ids, next, err = d.waiting(ctx, tx); err != nil || len(ids) == 0 {
			return err
		}
		after, tenants = next, len(ids)
		each := max(1, d.size/len(ids))
		batch, err = d.dispatch(ctx, tx, ids, each)
		if err != nil {
			return err
		}
		return d.Waker.Wake(ctx, tx, batch.endpoints, batch.tests)
	}
	if err = db.Tx(ctx, d.Pool, move); noPartition(err) {
		// The maintenance job is late; publishing went on, and so do we.
		if _, err := d.Pool.Exec(ctx, sqlPartitionsMake, partitionDay); err != nil {
			return 0, true, fmt.Errorf("make missing partitions: %w", err)
		}
		err = db.Tx(ctx, d.Pool, move) // once: with a clock that is days wrong it is missing again
	}
	if err != nil || !mine {
		return 0, mine, err
	}
	d.after = after
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
		d.Logger.Debug("dispatched", "events", batch.events, "deliveries", batch.deliveries, "tenants", tenants, "ms", took.Milliseconds())
	}
	return batch.events, true, nil
}

func noPartition(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no partition of relation")
}

// waiting takes the right to dispatch and says whose turn it is: up to tenantsMost tenants from where the last round ended, and where this
// one ends. mine is false, and there are no ids, when another process has the right.
func (d *Dispatcher) waiting(ctx context.Context, tx pgx.Tx) (mine bool, ids []string, after string, err error) {
	for _, from := range []string{d.after, ""} {
		b := &pgx.Batch{}
		b.Queue(sqlDispatchLock).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
		// A statement of its own: its snapshot is taken after the lock, so it sees what the last dispatcher committed.
		b.Queue(sqlWaiting, from, tenantsMost).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return false, nil, "", fmt.Errorf("list waiting tenants: %w", err)
		}
		if !mine {
			return false, nil, "", nil
		}
		if len(ids) > 0 || from == "" {
			break
		}
	}
	if len(ids) == tenantsMost {
		after = ids[len(ids)-1]
	}
	return mine, ids, after, nil
}
