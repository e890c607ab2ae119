package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/sender"
	"waybill/db/queries"
)

var (
	sqlWhyLines      = queries.SQL("WhyLines")
	sqlEventOutcomes = queries.SQL("EventOutcomes")
)

// Cause is what became of an event at one endpoint, as a word.
type Cause string

// The causes: first those of an event that was sent there, or will be.
const (
	WasDelivered  Cause = "delivered"
	IsOnWire      Cause = "on_wire"     // a request is under way
	IsRetrying    Cause = "retrying"    // it failed, and is tried again at At: attempt N of Of
	IsWaiting     Cause = "waiting"     // it is due and waits behind N others; with At, for its endpoint's circuit as well
	IsHeld        Cause = "held"        // its endpoint was paused or disabled at At by By, or is active again and waits for a catch-up
	IsUndelivered Cause = "undelivered" // its schedule has ended; it can be resent
	NotAllowed    Cause = "not_allowed" // its endpoint's address is not public, or its port is not served
	IsExpired     Cause = "expired"     // undelivered for so long that it cannot be resent, or its history is no longer kept
	WasCancelled  Cause = "cancelled"   // its endpoint was deleted
	NotSubscribed Cause = "not_subscribed"
	CreatedLater  Cause = "created_later"    // the endpoint did not exist yet
	ChangedLater  Cause = "subscribed_later" // it subscribes to the type now and did not then
)

// whyLimit is how many lines Why has at most.
const whyLimit = 1000

// Fix is what its tenant can do about it.
type Fix string

// The fixes.
const (
	NoFix        Fix = ""           // nothing, or nothing needs to be done
	FixResend    Fix = "resend"     // resend the delivery
	FixEnable    Fix = "enable"     // enable the endpoint
	FixRecover   Fix = "recover"    // send what the endpoint holds
	FixSubscribe Fix = "subscribe"  // subscribe the endpoint to the type
	FixURL       Fix = "change_url" // change the endpoint's URL
	FixPull      Fix = "pull"       // read the event from the catalog
)

// Line says why an event did or did not arrive at one endpoint.
type Line struct {
	EndpointID          string
	EndpointHost        string
	EndpointDescription string
	DeliveryID          string // empty: there is none

	Cause Cause
	Fix   Fix
	// What the cause speaks of.
	At     *time.Time
	By     string // who paused or disabled the endpoint
	Reason string // why: a word of the endpoint's state, or of the delivery
	N, Of  int
	Class  string // of the last attempt: a word of package verdict
	Code   int    // of the last attempt
}

// Why says for each endpoint of the caller's tenant, the newest first, at most 1,000, what became of the event there and what can be done. It is the
// answer to "why did it not arrive?". It needs deliveries:read.
func (s *Service) Why(ctx context.Context, caller account.Caller, event catalog.Event) ([]Line, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	rows, err := s.DB.Query(ctx, sqlWhyLines, pgx.NamedArgs{
		"tenant": caller.Tenant(), "event": event.ID, "day": event.Day, "created_at": event.CreatedAt, "type": event.Type, "test": event.Test, "limit": whyLimit,
	})
	if err != nil {
		return nil, fmt.Errorf("explain event: %w", err)
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Line, error) {
		var f whyFacts
		var age float64
		var address string
		err := row.Scan(&f.EndpointID, &address, &f.EndpointDescription, &f.state, &f.stateReason, &f.stateBy, &f.stateAt, &f.deleted,
			&f.createdLater, &f.subscribed, &f.preset, &f.gone, &f.DeliveryID, &f.status, &f.reason, &f.attempts, &f.failures, &f.Class, &f.Code,
			&f.finishedAt, &age, &f.nextAt, &f.due, &f.onWire, &f.shutUntil, &f.ahead)
		_, _, f.EndpointHost, _ = split(address)
		f.Class = public(f.Class)
		f.age = time.Duration(age * float64(time.Second))
		return s.line(f), err
	})
	if err != nil {
		return nil, fmt.Errorf("explain event: %w", err)
	}
	return lines, nil
}

// whyFacts is a row of statement WhyLines.
type whyFacts struct {
	Line
	state, stateReason, stateBy string // the endpoint's
	stateAt                     time.Time
	deleted, createdLater       bool
	subscribed, gone            bool // to the event's type, now; the history of that day
	preset                      string

	status             Status
	reason             string
	attempts, failures int
	finishedAt         *time.Time
	age                time.Duration
	nextAt, shutUntil  *time.Time
	due, onWire        bool
	ahead              int
}

// line decides. Order matters: what the tenant can change comes before what takes its course.
func (s *Service) line(f whyFacts) Line {
	l := f.Line
	p := s.Policies.First(f.preset)
	blocked := f.Class == string(sender.BlockedAddress)
	switch {
	case f.DeliveryID == "":
		l.Cause, l.Fix = notSent(f)
	case f.status == Delivered:
		l.Cause, l.At, l.N = WasDelivered, f.finishedAt, f.attempts
	case f.status == Cancelled, f.deleted:
		l.Cause, l.Fix, l.At, l.Reason = WasCancelled, FixPull, f.finishedAt, f.reason
	case f.onWire:
		l.Cause, l.N, l.Of = IsOnWire, f.attempts+1, p.Attempts()
	case f.status == Held, f.status == Pending && f.state != "active":
		l.Cause, l.Fix, l.Reason = IsHeld, FixRecover, f.reason
		if f.state != "active" {
			l.Fix, l.At, l.By, l.Reason = FixEnable, &f.stateAt, f.stateBy, f.state+": "+f.stateReason
		}
	case blocked && f.failures > 0:
		l.Cause, l.Fix, l.At = NotAllowed, FixURL, f.nextAt
	case f.status == Undelivered && f.age > p.ResendWindow:
		l.Cause, l.Fix, l.At, l.Reason = IsExpired, FixPull, f.finishedAt, f.reason
	case f.status == Undelivered:
		l.Cause, l.Fix, l.At, l.Reason, l.N = IsUndelivered, FixResend, f.finishedAt, f.reason, f.attempts
	case f.due:
		l.Cause, l.At, l.N = IsWaiting, f.shutUntil, f.ahead
	default:
		l.Cause, l.At, l.N, l.Of = IsRetrying, f.nextAt, f.failures+1, max(p.Attempts(), f.failures+1)
		if f.nextAt != nil {
			l.Fix = FixResend
		}
	}
	return l
}

func notSent(f whyFacts) (Cause, Fix) {
	switch {
	case f.gone:
		return IsExpired, FixPull
	case f.createdLater:
		return CreatedLater, FixPull
	case f.subscribed:
		return ChangedLater, FixPull
	default:
		return NotSubscribed, FixSubscribe
	}
}

// Outcomes counts, for the events of a page, their deliveries by status. An event without deliveries is missing. It needs deliveries:read.
func (s *Service) Outcomes(ctx context.Context, caller account.Caller, events []catalog.Event) (map[string]map[Status]int, error) {
	if err := caller.Can(account.DeliveriesRead); err != nil {
		return nil, err
	}
	counts := map[string]map[Status]int{}
	if len(events) == 0 {
		return counts, nil
	}
	ids, days := make([]string, len(events)), make([]time.Time, len(events))
	for i, event := range events {
		ids[i], days[i] = event.ID, event.Day
	}
	rows, err := s.DB.Query(ctx, sqlEventOutcomes, pgx.NamedArgs{
		"tenant": caller.Tenant(), "ids": ids, "days": days, "first_day": earliest(days), "last_day": latest(days),
	})
	if err != nil {
		return nil, fmt.Errorf("count outcomes: %w", err)
	}
	var eventID string
	var status Status
	var n int
	_, err = pgx.ForEachRow(rows, []any{&eventID, &status, &n}, func() error {
		if counts[eventID] == nil {
			counts[eventID] = map[Status]int{}
		}
		counts[eventID][status] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count outcomes: %w", err)
	}
	return counts, nil
}
