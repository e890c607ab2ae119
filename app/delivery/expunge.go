package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
	"waybill/app/inbox"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlExpungeDeliveries = queries.SQL("ExpungeDeliveries")
	sqlExpungeLock       = queries.SQL("ExpungeLock")
	sqlExpungeMove       = queries.SQL("ExpungeMove")
	sqlExpungeAnswers    = queries.SQL("ExpungeAnswers")
	sqlExpungeEvent      = queries.SQL("ExpungeEvent")
	sqlExpungeTouch      = queries.SQL("ExpungeTouch")
	sqlExpunged          = queries.SQL("ExpungedRead")
)

// ReasonExpunged is the reason of deliveries whose event's content was taken out: of cancelled ones why they were, of delivered ones why they cannot be
// sent again.
const ReasonExpunged = "event_expunged"

// noteExpunged stands beside an answer whose body was taken out with its event's content.
const noteExpunged = "taken out with the event's content"

// Expunged says of an event's content that it was taken out.
type Expunged struct {
	At        time.Time
	By        string // the actor who did
	Cancelled int    // deliveries that were still to be sent, or waited for somebody
}

// Expunge takes the content of an event of the caller's tenant out, for good: its data, the bodies that receivers answered with, and what
// the tenant's own inboxes have of it. The record stays: id, type, resource,
// sequence, times, deliveries, attempts. Deliveries that were still to be made, and those that are held or undelivered, are cancelled; what is on the wire at this moment is
// let go, and its answer is recorded without a body. The id stays taken: the same content published under it again counts as a repeat and brings nothing
// back, other content is a conflict. Done again, it changes nothing and says who did it first. It needs settings:write, which owners and the platform's keys have,
// and is recorded.
func (s *Service) Expunge(ctx context.Context, caller account.Caller, event catalog.Event) (Expunged, error) {
	if err := caller.Can(account.SettingsWrite); err != nil {
		return Expunged{}, err
	}
	var out Expunged
	var revs map[string]int64
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) (err error) {
		out, revs, err = s.expunge(ctx, tx, caller, event)
		return err
	})
	if err != nil {
		return Expunged{}, err
	}
	for endpointID, rev := range revs {
		// A process that is stalled does not confirm. What it may still send of this is recorded without the answer.
		_ = s.Lanes.Settle(ctx, endpointID, rev)
	}
	return out, nil
}

func (s *Service) expunge(ctx context.Context, tx pgx.Tx, caller account.Caller, event catalog.Event) (out Expunged, revs map[string]int64, err error) {
	args := pgx.NamedArgs{"tenant": caller.Tenant(), "event": event.ID, "day": event.Day, "position": event.Position(), "by": caller.Actor(), "note": noteExpunged}
	var ids, endpoints []string
	rows, err := tx.Query(ctx, sqlExpungeDeliveries, args)
	if err != nil {
		return out, nil, fmt.Errorf("find the deliveries of an event: %w", err)
	}
	var deliveryID, endpointID string
	if _, err := pgx.ForEachRow(rows, []any{&deliveryID, &endpointID}, func() error {
		ids, endpoints = append(ids, deliveryID), append(endpoints, endpointID)
		return nil
	}); err != nil {
		return out, nil, fmt.Errorf("find the deliveries of an event: %w", err)
	}
	slices.Sort(endpoints)
	endpoints = slices.Compact(endpoints)
	args["ids"], args["endpoints"] = ids, endpoints
	if len(ids) > 0 {
		if err := s.Lanes.Lock(ctx, tx, endpoints...); err != nil {
			return out, nil, err
		}
		if _, err := tx.Exec(ctx, sqlExpungeLock, args); err != nil {
			return out, nil, fmt.Errorf("lock the deliveries of an event: %w", err)
		}
	}
	err = tx.QueryRow(ctx, sqlExpungeEvent, args).Scan(&out.At)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, sqlExpunged, args).Scan(&out.At, &out.By)
		if errors.Is(err, pgx.ErrNoRows) {
			return out, nil, fault.New(fault.NotFound, "There is no such event.")
		}
		return out, nil, err
	}
	if err != nil {
		return out, nil, fmt.Errorf("expunge an event: %w", err)
	}
	out.By = caller.Actor()
	if err := inbox.Forget(ctx, tx, caller.Tenant(), event.ID); err != nil {
		return out, nil, err
	}
	if len(ids) > 0 {
		if revs, out.Cancelled, err = s.expungeDeliveries(ctx, tx, args); err != nil {
			return out, nil, err
		}
		if err := s.Lanes.Wake(ctx, tx, endpoints, nil); err != nil {
			return out, nil, err
		}
	}
	return out, revs, s.Audit.Record(ctx, tx, caller, "event.expunged", event.ID, map[string]any{
		"type": event.Type, "resource": event.ResourceType + " " + event.ResourceID, "deliveries": len(ids), "cancelled": out.Cancelled})
}

// expungeDeliveries cancels what is left to do, takes out what was answered, and makes running lanes forget what they were handed: it returns the revisions
// from which on they have.
func (s *Service) expungeDeliveries(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) (revs map[string]int64, cancelled int, err error) {
	if err := tx.QueryRow(ctx, sqlExpungeMove, args).Scan(&cancelled); err != nil {
		return nil, 0, fmt.Errorf("cancel the deliveries of an event: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlExpungeAnswers, args); err != nil {
		return nil, 0, fmt.Errorf("expunge answers: %w", err)
	}
	rows, err := tx.Query(ctx, sqlExpungeTouch, args)
	if err != nil {
		return nil, 0, fmt.Errorf("touch endpoints: %w", err)
	}
	revs = map[string]int64{}
	var endpointID string
	var rev int64
	if _, err := pgx.ForEachRow(rows, []any{&endpointID, &rev}, func() error { revs[endpointID] = rev; return nil }); err != nil {
		return nil, 0, fmt.Errorf("touch endpoints: %w", err)
	}
	return revs, cancelled, nil
}
