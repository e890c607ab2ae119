// Package delivery shows what became of events, and sends them again.
//
// It promises that a list, whatever its filter, reads a bounded number of rows, and that turning its pages shows every delivery of the
// tenant that matches exactly once, however many share an instant and whatever is added meanwhile; that the evidence of an attempt is what
// was sent and received, byte for byte, with static headers and the secret parts of addresses hidden from whoever may not reveal them;
// that a resend takes place once for each call that was not refused, goes through the endpoint's lane like every other attempt, and neither
// shortens nor doubles the schedule that it interrupts; that a catch-up sends what its preview counted, once, but for what was delivered
// meanwhile, and ends within a second of being cancelled; that an export has every delivery that matches once, and nothing in it that its reader may not see; and that another tenant's delivery is not found.
package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db"
)

// Service performs the operations on deliveries. All fields are required.
type Service struct {
	DB       db.Pool
	Ring     *seal.Ring // opens static headers
	Policies policy.Set
	Lanes    Lanes
	Audit    Audit
	// Recoveries inserts the jobs of catch-ups.
	Recoveries RecoveryQueue
	// Files inserts the jobs of exports.
	Files FileQueue

	bounds bounds // of lists; zero: the usual ones
}

// Lanes are the rights to send, as package lane has them.
type Lanes interface {
	// Lock takes the rows of the endpoints' lanes.
	Lock(ctx context.Context, tx pgx.Tx, endpointIDs ...string) error
	// Wake makes the lanes look for what is due when the transaction commits.
	Wake(ctx context.Context, tx pgx.Tx, endpointIDs, testIDs []string) error
	// Settle waits until no running lane works on an older revision of the endpoint.
	Settle(ctx context.Context, endpointID string, rev int64) error
}

// Audit records what was done, in the transaction that does it. *account.Service is one.
type Audit interface {
	Record(ctx context.Context, tx pgx.Tx, caller account.Caller, action, object string, detail map[string]any) error
}

// Status is what a delivery is, as stored.
type Status string

// The statuses.
const (
	Pending     Status = "pending"     // is to be attempted, now or on its schedule
	Delivered   Status = "delivered"   // has had a 2xx
	Undelivered Status = "undelivered" // its schedule has ended, or its endpoint has said 410; it can be resent
	Held        Status = "held"        // waits for its endpoint, which was paused or disabled, and for a catch-up
	Cancelled   Status = "cancelled"   // its endpoint was deleted, or its event's content taken out
)

// Delivery is one event for one endpoint.
type Delivery struct {
	ID           string // dlv_…
	EventID      string
	EndpointID   string
	Type         string
	ResourceType string
	ResourceID   string
	Form         string // full or thin: which of the event's bodies is sent
	Test         bool
	CreatedAt    time.Time

	Status     Status
	Reason     string // of undelivered, held and cancelled: a word; of delivered: ReasonExpunged or nothing
	Attempts   int    // made so far
	Failures   int    // steps of the schedule that were used up
	Scheduled  int    // attempts that the schedule has in all
	FinishedAt *time.Time

	// Of the last attempt; zero before the first.
	LastAt    *time.Time
	LastClass string // a word of package verdict, of those that a tenant may be told
	LastCode  int    // HTTP status; 0: no answer
	Last      time.Duration

	// What is due; nil when nothing is. A delivery of any status can be due, for a resend.
	NextAt      *time.Time
	NextTrigger string // first, retry, manual, recover or test
	RequestedBy string // who asked for what is due; empty for the schedule

	EndpointHost        string // of its address, without user and password
	EndpointDescription string

	day      time.Time
	position int64
}

// Expunged says that its event's content was taken out.
func (d Delivery) Expunged() bool { return d.Reason == ReasonExpunged }

// Retrying says that the delivery has failed and its schedule goes on.
func (d Delivery) Retrying() bool { return d.Status == Pending && d.Failures > 0 }

// Recovered says that the delivery was delivered after it had failed.
func (d Delivery) Recovered() bool { return d.Status == Delivered && d.Failures > 0 }

// Outcome is the status in words, with what is derived from it: "Retrying 2/10", of whose attempts the first number has been used;
// "Recovered by attempt 3", as long as nothing was sent after that; "Delivered".
func (d Delivery) Outcome() string {
	switch {
	case d.Retrying():
		return fmt.Sprintf("Retrying %d/%d", d.Failures, max(d.Scheduled, d.Failures))
	case d.Recovered() && d.FinishedAt != nil && d.LastAt != nil && !d.LastAt.After(*d.FinishedAt):
		return fmt.Sprintf("Recovered by attempt %d", d.Attempts)
	case d.Recovered():
		return "Recovered"
	}
	switch d.Status {
	case Delivered:
		return "Delivered"
	case Undelivered:
		return "Undelivered"
	case Held:
		return "Held"
	case Cancelled:
		return "Cancelled"
	default:
		return "Pending"
	}
}

// row is a delivery as statement DeliveryRows returns it.
func row(from pgx.CollectableRow, policies policy.Set) (Delivery, error) {
	var d Delivery
	var ms int64
	var address, preset string
	err := from.Scan(&d.ID, &d.day, &d.position, &d.EventID, &d.EndpointID, &d.Type, &d.ResourceType, &d.ResourceID, &d.Form, &d.Test,
		&d.CreatedAt, &d.Status, &d.Reason, &d.Attempts, &d.Failures, &d.LastAt, &d.LastClass, &d.LastCode, &ms, &d.FinishedAt,
		&d.NextAt, &d.NextTrigger, &d.RequestedBy, &address, &d.EndpointDescription, &preset)
	d.Last = time.Duration(ms) * time.Millisecond
	d.LastClass = public(d.LastClass)
	d.Scheduled = policies.First(preset).Attempts()
	_, _, d.EndpointHost, _ = split(address)
	return d, err
}
