package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlRetentionPartitions = queries.SQL("RetentionPartitions")
	sqlRetentionBusy       = queries.SQL("RetentionBusy")
	sqlRetentionUnpark     = queries.SQL("RetentionUnpark")
	sqlRetentionEventIds   = queries.SQL("RetentionEventIds")
	sqlRetentionTenants    = queries.SQL("RetentionTenants")
	sqlRetentionDeliveries = queries.SQL("RetentionDeliveries")
	sqlRetentionEvents     = queries.SQL("RetentionEvents")
)

// Retention removes what is older than it is kept. A day that something is still due of stays until it is not.
type Retention struct {
	Pool *pgxpool.Pool
	// Events is how long the catalog is kept, Deliveries the history with its attempts.
	Events, Deliveries time.Duration
	Logger             *slog.Logger
	Now                func() time.Time
}

// RetentionArgs asks for what is no longer kept to be removed.
type RetentionArgs struct{}

// Kind names the job.
func (RetentionArgs) Kind() string { return "retention" }

// RetentionWorker removes it.
type RetentionWorker struct {
	river.WorkerDefaults[RetentionArgs]
	*Retention
}

// Timeout is more than the usual minute: a tenant whose time was shortened may have much to delete.
func (w *RetentionWorker) Timeout(*river.Job[RetentionArgs]) time.Duration { return 30 * time.Minute }

// Work does it once.
func (w *RetentionWorker) Work(ctx context.Context, _ *river.Job[RetentionArgs]) error {
	return w.Run(ctx)
}

// Run removes what is older than it is kept: the history first, then the catalog, then what single tenants keep for less.
func (r *Retention) Run(ctx context.Context) error {
	today := r.Now().UTC().Truncate(24 * time.Hour)
	for _, table := range []struct {
		name string
		kept time.Duration
	}{{"attempts", r.Deliveries}, {"deliveries", r.Deliveries}, {"events", r.Events}} {
		// A whole day more: what is of a day's last moment is kept for as long as what is of its first.
		if err := r.drop(ctx, table.name, today.Add(-table.kept)); err != nil {
			return err
		}
	}
	if err := r.batches(ctx, sqlRetentionEventIds, today.Add(-r.Events)); err != nil {
		return fmt.Errorf("forget the ids of events: %w", err)
	}
	return r.tenants(ctx, today)
}

// drop removes a table's partitions of the days before a day.
func (r *Retention) drop(ctx context.Context, table string, before time.Time) error {
	rows, err := r.Pool.Query(ctx, sqlRetentionPartitions, table, before)
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return fmt.Errorf("list partitions: %w", err)
	}
	for _, day := range days {
		var busy bool
		if err := r.Pool.QueryRow(ctx, sqlRetentionBusy, day).Scan(&busy); err != nil {
			return fmt.Errorf("look for what is due: %w", err)
		}
		if busy {
			r.Logger.Warn("a day is kept for longer than it should be: something of it is due still", "table", table, "day", day.Format(time.DateOnly))
			continue
		}
		if table == "deliveries" {
			if err := r.batches(ctx, sqlRetentionUnpark, day); err != nil {
				return fmt.Errorf("end what was parked: %w", err)
			}
		}
		if err := r.dropOne(ctx, table, day); err != nil {
			return err
		}
		r.Logger.Info("a day is no longer kept", "table", table, "day", day.Format(time.DateOnly))
	}
	return nil
}

// dropTries is how often a partition's lock is asked for, shortly each time: who waits for it keeps everybody else waiting.
const dropTries = 20

func (r *Retention) dropOne(ctx context.Context, table string, day time.Time) error {
	child := pgx.Identifier{table + "_" + day.Format("20060102")}.Sanitize()
	for try := 1; ; try++ {
		err := db.Tx(ctx, r.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `set local lock_timeout = '300ms'`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "drop table if exists "+child)
			return err
		})
		const lockNotAvailable = "55P03"
		switch {
		case err == nil:
			return nil
		case db.Code(err) != lockNotAvailable || try == dropTries:
			return fmt.Errorf("drop %s: %w", child, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// batches runs a statement that removes some rows until it removes none.
func (r *Retention) batches(ctx context.Context, sql string, day time.Time) error {
	for {
		tag, err := r.Pool.Exec(ctx, sql, day)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
	}
}

// tenants deletes what single tenants keep for less than all.
func (r *Retention) tenants(ctx context.Context, today time.Time) error {
	rows, err := r.Pool.Query(ctx, sqlRetentionTenants)
	if err != nil {
		return fmt.Errorf("read who keeps less: %w", err)
	}
	kept := map[string]int{}
	var id string
	var days int
	if _, err := pgx.ForEachRow(rows, []any{&id, &days}, func() error { kept[id] = days; return nil }); err != nil {
		return fmt.Errorf("read who keeps less: %w", err)
	}
	for tenantID, keptDays := range kept {
		before := today.AddDate(0, 0, -keptDays)
		for _, table := range []struct{ name, sql string }{{"deliveries", sqlRetentionDeliveries}, {"events", sqlRetentionEvents}} {
			if err := r.deleteOf(ctx, tenantID, table.name, table.sql, before); err != nil {
				return fmt.Errorf("delete %s of a tenant: %w", table.name, err)
			}
		}
	}
	return nil
}

func (r *Retention) deleteOf(ctx context.Context, tenantID, table, sql string, before time.Time) error {
	rows, err := r.Pool.Query(ctx, sqlRetentionPartitions, table, before)
	if err != nil {
		return err
	}
	days, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return err
	}
	for _, day := range days {
		for {
			var n int
			if err := r.Pool.QueryRow(ctx, queries.ForDay(sql, day), tenantID, day).Scan(&n); err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}
