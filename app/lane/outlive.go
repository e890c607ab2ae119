package lane

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db"
	"waybill/db/queries"
)

// Deliveries that wait at the closed door of an endpoint until their schedule is over end undelivered. They are looked for before each probe, at a cost that does not grow
// with the backlog: those older than the whole schedule stand at the front of the index; among the others, which may have less of it left, each look goes on where
// the last one ended.

var (
	sqlDueOldest   = queries.SQL("DueOldest")
	sqlDueWalk     = queries.SQL("DueWalk")
	sqlDueOutlived = queries.SQL("DueOutlived")
)

const (
	// outliveGrace is how long after the end of its schedule a delivery that waits at a closed door may still be sent, if the door opens.
	outliveGrace = 15 * time.Minute
	outliveBatch = 500
	outliveWalk  = 5000 // rows that one look passes
)

// dueMark is a row of table due in the order of its index; the zero mark stands before all.
type dueMark struct {
	priority   int16
	nextAt     time.Time
	deliveryID string
}

// outlive ends what has outlived its schedule, as far as one look finds it.
func (e *Engine) outlive(ctx context.Context, endpointID, tenantID string, t *target) error {
	left := make([]time.Duration, len(t.policy.Waits)+1) // of a schedule, after so many failures
	for i := len(t.policy.Waits) - 1; i >= 0; i-- {
		left[i] = left[i+1] + t.policy.Waits[i]*time.Duration(100+t.policy.JitterPercent)/100
	}
	for {
		var ids []string
		rows, err := e.pool.Query(ctx, sqlDueOldest, endpointID, outliveGrace+left[0], outliveBatch)
		if err == nil {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err == nil {
			err = e.endOutlived(ctx, endpointID, tenantID, t, left, ids)
		}
		if err != nil {
			return fmt.Errorf("end what has outlived its schedule: %w", err)
		}
		if len(ids) < outliveBatch {
			break
		}
	}
	ids, next, err := e.walkDue(ctx, endpointID, left, e.outliveMark(endpointID))
	if err == nil {
		err = e.endOutlived(ctx, endpointID, tenantID, t, left, ids)
	}
	if err != nil {
		return fmt.Errorf("end what has outlived its schedule: %w", err)
	}
	e.keepOutliveMark(endpointID, next)
	return nil
}

// walkDue passes up to outliveWalk rows behind from and picks those that have outlived their schedule. next is where the walk goes on; the zero mark: it has been
// through.
func (e *Engine) walkDue(ctx context.Context, endpointID string, left []time.Duration, from dueMark) (ids []string, next dueMark, err error) {
	rows, err := e.pool.Query(ctx, sqlDueWalk, endpointID, left, outliveGrace, outliveWalk, from.priority, from.nextAt, from.deliveryID)
	if err != nil {
		return nil, next, err
	}
	var at dueMark
	var over, edge bool
	_, err = pgx.ForEachRow(rows, []any{&at.priority, &at.nextAt, &at.deliveryID, &over, &edge}, func() error {
		if over {
			ids = append(ids, at.deliveryID)
		}
		if edge {
			next = at
		}
		return nil
	})
	return ids, next, err
}

// endOutlived ends those of the deliveries that nobody has moved meanwhile, a batch at a time, and tells of them.
func (e *Engine) endOutlived(ctx context.Context, endpointID, tenantID string, t *target, left []time.Duration, ids []string) error {
	for len(ids) > 0 {
		batch := ids[:min(len(ids), outliveBatch)]
		ids = ids[len(batch):]
		err := db.Tx(ctx, e.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, sqlDueOutlived, endpointID, left, outliveGrace, batch)
			if err != nil {
				return err
			}
			var news []News
			n := News{Kind: DeliveryExhausted, TenantID: tenantID, EndpointID: endpointID, URL: t.url, Reason: ReasonExhausted, At: e.Now(), Mail: t.policy.Does(policy.EmailSeller)}
			_, err = pgx.ForEachRow(rows, []any{&n.DeliveryID, &n.TenantID, &n.Class, &n.Code}, func() error {
				n.Class = string(sender.Class(n.Class).Public())
				news = append(news, n)
				return nil
			})
			if err != nil {
				return err
			}
			return e.tell(ctx, tx, news)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// outliveMark is where the next look at an endpoint goes on.
func (e *Engine) outliveMark(endpointID string) dueMark {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.outlives[endpointID]
}

func (e *Engine) keepOutliveMark(endpointID string, m dueMark) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m == (dueMark{}) {
		delete(e.outlives, endpointID)
		return
	}
	if len(e.outlives) >= targetsCached {
		clear(e.outlives) // the walks begin anew
	}
	e.outlives[endpointID] = m
}
