// Package lane sends what is due, one endpoint at a time.
//
// A lane is the right to send to one endpoint. There is one row of table lanes for each endpoint; a River job {endpoint, gen} is
// only a ticket to take it, and the row, not the ticket, is the truth. The package promises:
//
//   - at most one lane runs for an endpoint, across all processes, and at most its limit and its tenant's cap of requests are
//     on the wire at any moment, also while a dead process's lanes are taken over;
//   - a wake is never lost: whoever makes a delivery due locks the lane's row after inserting it, and whoever finishes looks for
//     due rows in a statement that starts after it has locked the row, so the second of the two sees the first;
//   - an attempt is in the history before its outcome is acted on; between the call and the commit a crash can only repeat the
//     call, and the interrupted attempt is recorded as of unknown outcome;
//   - a paused, disabled, suspended or deleted endpoint's due rows become held (or cancelled) by the same lane that would have sent them.
//
// Lock order, everywhere: tenants rows by id, lanes rows by endpoint id, deliveries. All times are compared by the database's clock.
package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/db"
	"waybill/db/queries"
)

// Ticket is what a River job of kind "lane" carries: the lane it may take, if the generation still matches.
type Ticket struct {
	EndpointID string
	TenantID   string
	Gen        int64
	// Suspect sends the ticket to the queue for endpoints whose last attempts timed out.
	Suspect bool
}

// Tickets inserts tickets as River jobs inside a transaction.
type Tickets interface {
	InsertTickets(ctx context.Context, tx pgx.Tx, tickets []Ticket) error
}

// Channels of NOTIFY: the dispatcher is to look at the outbox; a running lane is to look again (payload: its endpoint's id).
const (
	ChannelOutbox = "waybill_outbox"
	ChannelLane   = "waybill_lane"
)

var (
	sqlLock    = queries.SQL("LaneLock")
	sqlWake    = queries.SQL("LaneWake")
	sqlSettled = queries.SQL("LaneSettled")
)

// Lock takes the lanes rows of the endpoints, in the one order everybody takes them. Whatever changes an endpoint takes its row first.
func Lock(ctx context.Context, tx pgx.Tx, endpointIDs ...string) error {
	if _, err := tx.Exec(ctx, sqlLock, endpointIDs); err != nil {
		return fmt.Errorf("lock lanes: %w", err)
	}
	return nil
}

// Waker wakes lanes inside a caller's transaction.
type Waker struct {
	Tickets Tickets
	// Worker, unless nil, says which worker's running lanes the caller tells itself (Engine.Poke) when its transaction has committed; the
	// lanes of all others are told by NOTIFY.
	Worker func() string
}

// Wake locks the lanes of endpointIDs and queues a ticket for each that rests. Call it after the rows of table due are inserted, or the endpoint
// changed, in the same transaction. Endpoints also named in testIDs have a test event and are woken even while their door is closed.
// Lanes that run already are told to look again when the transaction commits.
func (w *Waker) Wake(ctx context.Context, tx pgx.Tx, endpointIDs, testIDs []string) error {
	if len(endpointIDs) == 0 {
		return nil
	}
	if testIDs == nil {
		testIDs = []string{}
	}
	worker := ""
	if w.Worker != nil {
		worker = w.Worker()
	}
	var tickets []Ticket
	b := &pgx.Batch{}
	b.Queue(sqlLock, endpointIDs)
	b.Queue(sqlWake, endpointIDs, testIDs, worker).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var endpointID string
			var tenantID *string
			var gen *int64
			var suspect *bool
			if err := rows.Scan(&endpointID, &tenantID, &gen, &suspect); err != nil {
				return err
			}
			if gen != nil {
				tickets = append(tickets, Ticket{EndpointID: endpointID, TenantID: *tenantID, Gen: *gen, Suspect: *suspect})
			}
		}
		return rows.Err()
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("wake lanes: %w", err)
	}
	if len(tickets) == 0 {
		return nil
	}
	if err := w.Tickets.InsertTickets(ctx, tx, tickets); err != nil {
		return fmt.Errorf("insert lane tickets: %w", err)
	}
	return nil
}

func scanTicket(row pgx.CollectableRow) (t Ticket, err error) {
	err = row.Scan(&t.EndpointID, &t.TenantID, &t.Gen, &t.Suspect)
	return t, err
}

// settlePolls are the waits between two looks of Settle: 2 s in all, twice the time within which a running lane reads its endpoint again.
var settlePolls = slices.Repeat([]time.Duration{5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond}, 40)

// ErrNotSettled says that a running lane has not confirmed a change in time: its process is stalled, or gone and its lease not yet over.
var ErrNotSettled = errors.New("lane: the running lane has not confirmed the change")

// Settle waits until no running lane works on an older revision of the endpoint than rev (2 s at most): after it returns nil no new request
// starts under the old settings. Call it after the change is committed.
func Settle(ctx context.Context, conn db.Conn, endpointID string, rev int64) error {
	for _, wait := range settlePolls {
		var settled bool
		if err := conn.QueryRow(ctx, sqlSettled, endpointID, rev).Scan(&settled); err != nil {
			return fmt.Errorf("look whether a lane has settled: %w", err)
		}
		if settled {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return ErrNotSettled
}

// The states of a lane; decide.go says which may follow which.
const (
	stateIdle     = "idle"     // nothing due
	stateSleeping = "sleeping" // something due later; the sweeper queues it at wake_at
	stateQueued   = "queued"   // a ticket exists
	stateRunning  = "running"  // an owner holds it
	stateBlocked  = "blocked"  // waits for the tenant's cap
)
