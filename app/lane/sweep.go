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
	sqlSweepOwned    = queries.SQL("SweepOwned")
	sqlSweepForgot   = queries.SQL("SweepForgotten")
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
			sweeps = append(sweeps, sweep{"stale tickets", e.sweepStale}, sweep{"forgotten lanes", e.sweepForgotten})
		}
		if n%1200 == 0 {
			sweeps = append(sweeps, sweep{"dead workers", func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, sqlWorkerForget)
				return err
			}})
		}
		for _, s := range sweeps {
			err := db.Tx(ctx, e.pool, func(tx pgx.Tx) error { return s.run(ctx, tx) })
			if db.NoPartition(err) {
				_, err = e.pool.Exec(ctx, sqlPartitions, partitionsAhead)
			}
			if err != nil && ctx.Err() == nil {
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

// sweepOrphans takes the lanes of dead processes.
func (e *Engine) sweepOrphans(ctx context.Context, tx pgx.Tx) error {
	return e.takeOver(ctx, tx, "took over the lanes of a process that is gone", sqlSweepOrphans)
}

// sweepForgotten takes the lanes that are this process's by their rows and that it knows nothing of: it never learned that its claim had succeeded.
func (e *Engine) sweepForgotten(ctx context.Context, tx pgx.Tx) error {
	worker := e.WorkerID()
	rows, err := tx.Query(ctx, sqlSweepOwned, worker, e.Lease)
	if err != nil {
		return err
	}
	var forgotten []string
	var gens []int64
	var endpointID string
	var gen int64
	_, err = pgx.ForEachRow(rows, []any{&endpointID, &gen}, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if l := e.lanes[endpointID]; l == nil || l.gen != gen {
			forgotten, gens = append(forgotten, endpointID), append(gens, gen)
		}
		return nil
	})
	if err != nil || len(forgotten) == 0 {
		return err
	}
	return e.takeOver(ctx, tx, "found lanes that this process did not know it holds", sqlSweepForgot, worker, forgotten, gens)
}

// takeOver queues the lanes that a statement finds again; what their senders held and did not commit becomes attempts of unknown outcome.
func (e *Engine) takeOver(ctx context.Context, tx pgx.Tx, what, sql string, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var ids []string
	var endpointID, owner string
	_, err = pgx.ForEachRow(rows, []any{&endpointID, &owner}, func() error {
		ids = append(ids, endpointID)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	results, err := e.interruptedResults(ctx, tx, ids)
	if err != nil {
		return err
	}
	if len(results) > 0 {
		if err := e.record(ctx, tx, results, false, true); err != nil {
			return fmt.Errorf("record interrupted attempts: %w", err)
		}
	}
	e.Logger.Warn(what, "lanes", len(ids), "interrupted_attempts", len(results), "worker_id", owner)
	return e.sweepTickets(sqlSweepRequeue, ids)(ctx, tx)
}

// interruptedResults makes an attempt of unknown outcome for each delivery that the lanes' dead owners held.
func (e *Engine) interruptedResults(ctx context.Context, tx pgx.Tx, endpointIDs []string) ([]*result, error) {
	rows, err := tx.Query(ctx, sqlSweepHanded, endpointIDs)
	if err != nil {
		return nil, fmt.Errorf("read what orphaned lanes held: %w", err)
	}
	now := e.stamp(e.Now())
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*result, error) {
		r := &result{attemptID: id.New(id.Attempt, now), out: sender.Outcome{Class: sender.Canceled, Err: "the process that sent this ended before the answer was recorded"}}
		var endpointID, tenantID, url, preset string
		if err := row.Scan(&r.item.DeliveryID, &r.item.Day, &r.item.Trigger, &r.item.Failures, &r.item.Unknowns, &r.item.Resumes, &r.item.RequestedBy,
			&endpointID, &tenantID, &r.worker, &r.started, &url, &r.bodySize, &preset); err != nil {
			return nil, err
		}
		r.target = &target{url: url, policy: e.policyFor(preset)}
		r.verdict = interrupted(r.target.policy, &r.item, e.Random())
		return r, nil
	})
}
