package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

var (
	sqlDeliveryLock = queries.SQL("DeliveryLock")
	sqlResendLook   = queries.SQL("ResendLook")
	sqlDueResume    = queries.SQL("DueResume")
	sqlDueAgain     = queries.SQL("DueAgain")
)

// MaxResend is how many deliveries ResendMany takes.
const MaxResend = 200

// Reason is why a delivery cannot be resent now, as a word.
type Reason string

// The reasons.
const (
	NotFound   Reason = "not_found"   // there is none, or it is another tenant's
	OnWire     Reason = "on_wire"     // a request of it is under way
	Waiting    Reason = "waiting"     // it is due already
	JustResent Reason = "just_resent" // a resend of it ended less than a second ago: a double click
	Expired    Reason = "expired"     // older than its policy's resend window
	Paused     Reason = "paused"      // its endpoint is
	Disabled   Reason = "disabled"    // its endpoint is
	Deleted    Reason = "deleted"     // its endpoint was
	Suspended  Reason = "suspended"   // the tenant is
	Gone       Reason = "expunged"    // its event's content was taken out
	Changed    Reason = "changed"     // it moved while it was being looked at
)

// Refusal is why a delivery cannot be resent now, and what to do instead.
type Refusal struct {
	Reason Reason
	Detail string // one or two sentences
}

func (r *Refusal) fault() error {
	if r.Reason == NotFound {
		return errNoDelivery()
	}
	return fault.New(fault.Conflict, r.Detail)
}

// Resent is what became of one delivery in ResendMany.
type Resent struct {
	DeliveryID string
	Refusal    *Refusal // nil: it is about to be sent
}

// Resend sends a delivery of the caller's tenant again, now, whatever has become of it, and returns it as it is due. The attempt that follows has
// the trigger manual. A success makes the delivery delivered; a failure leaves it as it is: a schedule that was interrupted goes on at its time.
// It needs deliveries:resend and is recorded. It is a Conflict, with the reason, while the delivery is on the wire or due anyway, when its
// endpoint does not send, and when it is older than its policy's resend window.
func (s *Service) Resend(ctx context.Context, caller account.Caller, deliveryID string) (Delivery, error) {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return Delivery{}, err
	}
	d, err := s.byID(ctx, caller.Tenant(), deliveryID)
	if err != nil {
		return Delivery{}, err
	}
	results, err := s.resend(ctx, caller, []place{{id: d.ID, day: d.day}})
	if err != nil {
		return Delivery{}, err
	}
	if refusal := results[0].Refusal; refusal != nil {
		return Delivery{}, refusal.fault()
	}
	return s.byID(ctx, caller.Tenant(), d.ID)
}

// ResendMany is Resend for 1 to 200 deliveries at once. Each is sent or refused for itself, and what it returns says so, in the order given and
// without repeats: an unknown id, or another tenant's, is refused as not found. Either all that are not refused are sent, or, with an error, none.
func (s *Service) ResendMany(ctx context.Context, caller account.Caller, deliveryIDs []string) ([]Resent, error) {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return nil, err
	}
	var keys []place
	seen := map[string]bool{}
	for _, deliveryID := range deliveryIDs {
		if seen[deliveryID] {
			continue
		}
		seen[deliveryID] = true
		key := place{id: deliveryID}
		if id.Valid(id.Delivery, deliveryID) {
			key.day, _ = id.Day(deliveryID) // a valid id has one
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > MaxResend {
		return nil, fault.New(fault.Invalid, "That is not a list of deliveries to resend.").Field("deliveries", "must be 1 to 200 ids")
	}
	return s.resend(ctx, caller, keys)
}

// Refusal is why a delivery of the caller's tenant cannot be resent now, or nil when it can. It changes nothing, and needs deliveries:read.
func (s *Service) Refusal(ctx context.Context, caller account.Caller, deliveryID string) (*Refusal, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	d, err := s.byID(ctx, caller.Tenant(), deliveryID)
	if err != nil {
		return nil, err
	}
	looks, err := s.look(ctx, s.DB, caller.Tenant(), []place{{id: d.ID, day: d.day}})
	if err != nil {
		return nil, err
	}
	l, ok := looks[d.ID]
	if !ok {
		return nil, errNoDelivery()
	}
	return s.refusal(l), nil
}

// resend looks at the deliveries and makes those due that are not refused, in one transaction: lanes, then deliveries, then what is due of them.
func (s *Service) resend(ctx context.Context, caller account.Caller, keys []place) ([]Resent, error) {
	var results []Resent
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		results = results[:0]
		before, err := s.look(ctx, tx, caller.Tenant(), keys)
		if err != nil {
			return err
		}
		if err := s.lock(ctx, tx, caller.Tenant(), before, keys); err != nil {
			return err
		}
		looks, err := s.look(ctx, tx, caller.Tenant(), keys)
		if err != nil {
			return err
		}
		var pending, finished []string
		for _, key := range keys {
			l, ok := looks[key.id]
			result := Resent{DeliveryID: key.id, Refusal: s.refusal(l)}
			switch {
			case !ok:
				result.Refusal = &Refusal{Reason: NotFound, Detail: "There is no such delivery."}
			case result.Refusal != nil:
			case l.trigger != "":
				pending = append(pending, key.id)
			default:
				finished = append(finished, key.id)
			}
			results = append(results, result)
		}
		made, err := s.makeDue(ctx, tx, caller, keys, pending, finished)
		if err != nil || len(made) == 0 {
			return err
		}
		for i, result := range results {
			if result.Refusal == nil && !slices.Contains(made, result.DeliveryID) {
				results[i].Refusal = &Refusal{Reason: Changed, Detail: "Something happened to it at this moment. Look at it again first."}
			}
		}
		if err := s.record(ctx, tx, caller, looks, made); err != nil {
			return err
		}
		return s.Lanes.Wake(ctx, tx, endpointsOf(looks, made), nil)
	})
	return results, err
}

// lock takes the lanes of the deliveries that were found, then the deliveries, so that neither a lane nor a result moves them meanwhile.
func (s *Service) lock(ctx context.Context, tx pgx.Tx, tenant string, looks map[string]look, keys []place) error {
	found := make([]string, 0, len(looks))
	for deliveryID := range looks {
		found = append(found, deliveryID)
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	if err := s.Lanes.Lock(ctx, tx, endpointsOf(looks, found)...); err != nil {
		return err
	}
	args := daysOf(keys)
	args["tenant"], args["ids"] = tenant, found
	if _, err := tx.Exec(ctx, sqlDeliveryLock, args); err != nil {
		return fmt.Errorf("lock deliveries: %w", err)
	}
	return nil
}

// makeDue changes what is due of pending deliveries and makes finished ones due, and returns those for which it did.
func (s *Service) makeDue(ctx context.Context, tx pgx.Tx, caller account.Caller, keys []place, pending, finished []string) ([]string, error) {
	var made []string
	args := daysOf(keys)
	args["tenant"], args["by"] = caller.Tenant(), caller.Actor()
	for _, step := range []struct {
		sql string
		ids []string
	}{{sqlDueResume, pending}, {sqlDueAgain, finished}} {
		if len(step.ids) == 0 {
			continue
		}
		args["ids"] = step.ids
		rows, err := tx.Query(ctx, step.sql, args)
		if err != nil {
			return nil, fmt.Errorf("make deliveries due: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("make deliveries due: %w", err)
		}
		made = append(made, ids...)
	}
	return made, nil
}

// record writes one line into the activity log: of one delivery under its id, of several with the list of them.
func (s *Service) record(ctx context.Context, tx pgx.Tx, caller account.Caller, looks map[string]look, made []string) error {
	if len(made) == 1 {
		l := looks[made[0]]
		return s.Audit.Record(ctx, tx, caller, "delivery.resent", made[0],
			map[string]any{"endpoint_id": l.endpointID, "event_id": l.eventID, "status": l.status})
	}
	slices.Sort(made)
	return s.Audit.Record(ctx, tx, caller, "delivery.resent", "", map[string]any{"count": len(made), "deliveries": made})
}

func endpointsOf(looks map[string]look, deliveryIDs []string) []string {
	var endpoints []string
	for _, deliveryID := range deliveryIDs {
		endpoints = append(endpoints, looks[deliveryID].endpointID)
	}
	slices.Sort(endpoints)
	return slices.Compact(endpoints)
}

func daysOf(keys []place) pgx.NamedArgs {
	var days []time.Time
	for _, key := range keys {
		if !key.day.IsZero() {
			days = append(days, key.day)
		}
	}
	if len(days) == 0 {
		return pgx.NamedArgs{"from_day": farDay, "to_day": farDay} // no id is one
	}
	return pgx.NamedArgs{"from_day": earliest(days), "to_day": latest(days)}
}

// look is what decides whether a delivery can be resent.
type look struct {
	endpointID, eventID string
	status              Status
	attempts            int
	age                 time.Duration
	trigger             string // of what is due; empty: nothing is
	waiting, onWire     bool   // due now; given to a sender
	shut                bool   // the endpoint's lane does not send for a while
	again               bool   // the last attempt was a resend and ended within the last second
	state, reason       string // the endpoint's
	deleted, suspended  bool
	expunged            bool // the event's content was taken out
	preset              string
}

func (s *Service) look(ctx context.Context, conn db.Conn, tenant string, keys []place) (map[string]look, error) {
	args := daysOf(keys)
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = key.id
	}
	slices.Sort(ids)
	args["tenant"], args["ids"] = tenant, ids
	rows, err := conn.Query(ctx, sqlResendLook, args)
	if err != nil {
		return nil, fmt.Errorf("look at deliveries: %w", err)
	}
	looks := map[string]look{}
	var deliveryID string
	var age float64
	var l look
	_, err = pgx.ForEachRow(rows, []any{&deliveryID, &l.endpointID, &l.eventID, &l.status, &l.attempts, &age, &l.trigger, &l.waiting, &l.onWire,
		&l.shut, &l.again, &l.state, &l.reason, &l.deleted, &l.suspended, &l.expunged, &l.preset}, func() error {
		l.age = time.Duration(age * float64(time.Second))
		looks[deliveryID] = l
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look at deliveries: %w", err)
	}
	return looks, nil
}

// refusal says why a delivery cannot be resent (PAGES, resend rules; CASES B47), or nil. What the tenant can change comes first.
func (s *Service) refusal(l look) *Refusal {
	window := s.Policies.First(l.preset).ResendWindow
	switch {
	case l.expunged:
		return &Refusal{Gone, "The content of its event was taken out, so there is nothing left to send."}
	case l.deleted:
		return &Refusal{Deleted, "Its endpoint was deleted. A new endpoint gets new events; past ones can be read from the catalog."}
	case l.suspended:
		return &Refusal{Suspended, "The account is suspended: nothing is sent. Ask the platform."}
	case l.state == "paused":
		return &Refusal{Paused, "Its endpoint is paused. Switch the endpoint on first."}
	case l.state == "disabled":
		return &Refusal{Disabled, "Its endpoint is disabled. Mend what made it fail, and enable the endpoint first."}
	case l.age > window:
		return &Refusal{Expired, fmt.Sprintf("It is older than %d days, for which deliveries can be resent. The event can still be read from the catalog.",
			int(window.Hours()/24))}
	case l.onWire:
		return &Refusal{OnWire, "It is being sent at this moment. Wait for the answer."}
	case l.trigger == "manual":
		return &Refusal{Waiting, "It was resent already and is about to be sent."}
	case l.trigger == "recover":
		return &Refusal{Waiting, "A catch-up is about to send it."}
	case l.waiting && l.shut:
		return &Refusal{Waiting, "It waits for its endpoint, which has failed too often to be called now. It is sent as soon as the endpoint answers again."}
	case l.waiting:
		return &Refusal{Waiting, "It is due and waits for its turn."}
	case l.trigger == "test":
		return &Refusal{Waiting, "The test event is about to be sent."}
	case l.again:
		return &Refusal{JustResent, "It was resent a moment ago. Look at that attempt first."}
	}
	return nil
}
