package outbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlDayAdd  = queries.SQL("TenantDayAdd")
	sqlDayTold = queries.SQL("TenantDayTold")
)

// Reached is a limit of a tenant's day that its events have reached, told once.
type Reached struct {
	TenantID, UID, Name string
	Day                 time.Time // midnight UTC
	Used, Allowed       int64
	Hard                bool // from now on the API refuses; else it is only told
}

// count adds a batch's events, without tests, to their tenants' day: in the round trip that writes them.
func count(b *pgx.Batch, rows []*row, out *dispatched) {
	counts := map[string]int64{}
	for _, r := range rows {
		if !r.test() {
			counts[r.tenantID]++
		}
	}
	if len(counts) == 0 {
		return
	}
	tenants := slices.Sorted(maps.Keys(counts))
	ns := make([]int64, len(tenants))
	for i, id := range tenants {
		ns[i] = counts[id]
	}
	b.Queue(sqlDayAdd, tenants, ns).Query(func(found pgx.Rows) error {
		var r Reached
		var soft, hard int64
		var told int
		_, err := pgx.ForEachRow(found, []any{&r.TenantID, &r.UID, &r.Name, &r.Day, &r.Used, &soft, &hard, &told}, func() error {
			r.Hard = hard > 0 && r.Used >= hard && told < 2
			if r.Allowed = soft; r.Hard {
				r.Allowed = hard
			}
			out.reached = append(out.reached, r)
			return nil
		})
		return err
	})
}

// tell notes that limits were told of, and tells.
func (d *Dispatcher) tell(ctx context.Context, tx pgx.Tx, reached []Reached) error {
	if len(reached) == 0 {
		return nil
	}
	for _, r := range reached {
		level := 1
		if r.Hard {
			level = 2
		}
		if _, err := tx.Exec(ctx, sqlDayTold, r.TenantID, r.Day, level); err != nil {
			return err
		}
	}
	if d.Reached == nil {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return d.Reached(ctx, tx, reached) })
	if err == nil || db.IsRetryable(err) || ctx.Err() != nil {
		return err
	}
	d.Logger.Error("that tenants have reached limits could not be told", "tenants", len(reached), "first", reached[0].TenantID, "error", err)
	return nil
}
