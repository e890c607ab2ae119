package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlSweepSleeping = queries.SQL("SweepSleeping")
	sqlSweepOrphans  = queries.SQL("SweepOrphans")
	sqlSweepHanded   = queries.SQL("SweepHanded")
	sqlSweepRequeue  = queries.SQL("SweepRequeue")
	sqlSweepStale    = queries.SQL("SweepStale")
	sqlSweepBlocked  = queries.SQL("SweepBlocked")
	sqlWorkerForget  = queries.SQL("WorkerForget")
)

const sweepEvery = 250 * time.Millisecond

// sweepLoop wakes what sleeps and finds what was left behind. Every process sweeps; rows that another holds are skipped.
func (e *Engine) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if e.draining.Load() {
			continue
		}
		sweeps := []sweep{{"sleeping lanes", e.sweepTickets(sqlSweepSleeping)}, {"orphaned lanes", e.sweepOrphans}}
		if n%2 == 0 {
			sweeps = append(sweeps, sweep{"blocked lanes", e.sweepTickets(sqlSweepBlocked)})
		}
		if n%8 == 0 {
			sweeps = append(sweeps, sweep{"stale tickets", e.sweepStale})
		}
		if n%1200 == 0 {
			sweeps = append(sweeps, sweep{"dead workers", func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sqlWorkerForget)
				return err
			}})
		}
		for _, s := range sweeps {
			if err := db.Tx(ctx, e.pool, func(tx pgx.Tx) error { return s.run(ctx, tx) }); err != nil && ctx.Err() == nil {
				e.Logger.Warn("a sweep failed; it is tried again", "sweep", s.name, "error", err)
				break
			}
		}
	}
}

type sweep struct {
	name string
	run  func(ctx context.Context, tx pgx.Tx) error
}

// sweepTickets runs a statement that queues lanes and inserts their tickets.
func (e *Engine) sweepTickets(sql string, args ...any) func(context.Context, pgx.Tx) error {
	return func(ctx context.Context, tx pgx.Tx) error {
		tickets, err := queryTickets(ctx, tx, sql, args...)
		if err != nil || len(tickets) == 0 {
			return err
		}
		return e.Tickets.InsertTickets(ctx, tx, tickets)
	}
}

// sweepStale finds lanes whose ticket River will never hand out again.
func (e *Engine) sweepStale(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, sqlSweepStale, e.Lease)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(ids) == 0 {
		return err
	}
	e.Logger.Warn("lanes had lost their tickets", "lanes", len(ids))
	return e.sweepTickets(sqlSweepRequeue, ids)(ctx, tx)
}

// sweepOrphans takes the lanes of dead processes: what their senders held and did not commit becomes attempts of unknown outcome, and the
// lanes are queued again.
func (e *Engine) sweepOrphans(ctx context.Context, tx pgx.Tx) error {
	type orphan struct {
		endpointID, tenantID, owner string
		handed                      []string
		at                          *time.Time
	}
	rows, err := tx.Query(ctx, sqlSweepOrphans)
	if err != nil {
		return err
	}
	orphans, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o orphan, err error) {
		err = row.Scan(&o.endpointID, &o.tenantID, &o.owner, &o.handed, &o.at)
		return o, err
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	ids := make([]string, len(orphans))
	for i, o := range orphans {
		ids[i] = o.endpointID
	}
	results, err := e.interruptedResults(ctx, tx, ids)
	if err != nil {
		return err
	}
	if len(results) > 0 {
		if err := e.record(ctx, tx, results, false); err != nil {
			return fmt.Errorf("record interrupted attempts: %w", err)
		}
	}
	e.Logger.Warn("took over the lanes of a process that is gone", "lanes", len(ids), "interrupted_attempts", len(results), "worker_id", orphans[0].owner)
	return e.sweepTickets(sqlSweepRequeue, ids)(ctx, tx)
}

// interruptedResults makes an attempt of unknown outcome for each delivery that the lanes' dead owners held.
func (e *Engine) interruptedResults(ctx context.Context, tx pgx.Tx, endpointIDs []string) ([]*result, error) {
	rows, err := tx.Query(ctx, sqlSweepHanded, endpointIDs)
	if err != nil {
		return nil, fmt.Errorf("read what orphaned lanes held: %w", err)
	}
	now := e.Now()
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*result, error) {
		r := &result{attemptID: id.New(id.Attempt, now), out: sender.Outcome{Class: sender.Canceled, Err: "the process that sent this ended before the answer was recorded"}}
		var endpointID, tenantID, url, preset string
		if err := row.Scan(&r.item.DeliveryID, &r.item.Day, &r.item.Trigger, &r.item.Failures, &r.item.Unknowns, &r.item.Resumes, &r.item.RequestedBy,
			&endpointID, &tenantID, &r.worker, &r.started, &url, &r.bodySize, &preset); err != nil {
			return nil, err
		}
		r.target = &target{url: url}
		r.verdict = interrupted(e.policyFor(preset), &r.item, e.Random())
		return r, nil
	})
}
