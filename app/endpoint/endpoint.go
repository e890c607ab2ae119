// Package endpoint keeps where a tenant's events go: URLs with their subscriptions, static headers, limits, state and signing secrets.
//
// It promises that what is stored can be used: a URL, header, secret or subscription that could not be is refused when it is saved,
// by name; that a change is seen by a running lane before the operation returns, so that after pausing, say, no new request starts; that secrets
// and header values are sealed at rest, shown on demand only, and then recorded; that an endpoint of another tenant is not found; and
// that an operation that fails leaves nothing behind.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/egress"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/app/signing"
	"waybill/db"
	"waybill/db/queries"
)

// Service performs the operations on endpoints. All fields are required.
type Service struct {
	DB    db.Pool
	Audit Audit
	Ring  *seal.Ring // seals secrets and header values
	Lanes Lanes
	Tests Tests
	URLs  egress.URLOptions // which URLs may be saved
	// KnowsPreset says whether a delivery policy of this name exists.
	KnowsPreset func(name string) bool
	Now         func() time.Time // the time inside new ids; what expires is judged by the database's clock
	Log         *slog.Logger
}

// Audit records what was done, in the transaction that does it. *account.Service is one.
type Audit interface {
	Record(ctx context.Context, tx pgx.Tx, caller account.Caller, action, object string, detail map[string]any) error
}

// Lanes are the rights to send. Whatever changes an endpoint takes its lane's row first, wakes the lane in the same transaction, and lets
// it settle after the commit.
type Lanes interface {
	// Lock takes the rows of the endpoints' lanes.
	Lock(ctx context.Context, tx pgx.Tx, endpointIDs ...string) error
	// Wake makes the lanes look again when the transaction commits; testIDs names those that have a test event.
	Wake(ctx context.Context, tx pgx.Tx, endpointIDs, testIDs []string) error
	// Settle waits until no running lane works on an older revision of the endpoint.
	Settle(ctx context.Context, endpointID string, rev int64) error
}

// Tests puts a test event for one endpoint into the outbox and returns the ids that the event and its delivery will have.
type Tests interface {
	AddTest(ctx context.Context, tx pgx.Tx, test Test) (eventID, deliveryID string, err error)
}

// Test is a test event for one endpoint.
type Test struct {
	TenantID, EndpointID string
	Type                 string
	Data                 []byte // JSON
	RequestedBy          string // the actor
}

// State says whether an endpoint is sent to.
type State string

// The states.
const (
	Active   State = "active"
	Paused   State = "paused"   // by hand, for a while: its deliveries are held
	Disabled State = "disabled" // by hand, by a 410 or after failing for long: its deliveries are held
)

// Payload says how much of an event is sent.
type Payload string

// The payloads.
const (
	Full Payload = "full"
	Thin Payload = "thin" // the id of the resource, and where to read it
)

// Reasons of a state that a person chose; Waybill's own are "gone" and "failing".
const (
	ReasonManual  = "manual"
	ReasonDeleted = "deleted"
)

// Endpoint is an endpoint as its tenant sees it.
type Endpoint struct {
	ID            string // ep_…
	TenantID      string
	URL           string
	Description   string
	Types         []string // exact types, prefixes as "order.*", or "*"; in the order they were given
	State         State
	Reason        string // why it is in its state; empty for one that was always active
	StateBy       string // the actor who put it there
	StateAt       time.Time
	VerifiedAt    *time.Time // the first 2xx at this URL; nil: none yet
	Scheme        signing.Scheme
	Payload       Payload
	HeaderNames   []string // of its static headers; the values are read with HeadersReveal
	Concurrency   int      // requests on the wire at once, 1 to 100
	RatePerSecond *int     // requests a second, 1 to 10,000; nil: no limit of its own
	Preset        string   // delivery policy; empty: the tenant's
	PublicKey     string   // whpk_… in force; empty without an ed25519 scheme
	Health        Health   // what its last attempts say
	Rev           int64    // grows with every change
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// HealthState is how an endpoint fares, in a word.
type HealthState string

// The states of health.
const (
	OK      HealthState = "ok"
	Failing HealthState = "failing" // its last attempt failed, or nothing can be sent to it
	Open    HealthState = "open"    // so many failed that its circuit is open: what is due waits, and one probe at a time finds out when it is back
)

// Health is what the attempts of an endpoint's schedule say about it; tests, manual resends and faults of our own do not count.
type Health struct {
	State        HealthState
	FailingSince *time.Time // the first failure since the last success
	Failures     int        // different deliveries that failed since then, as far as they are counted (100 or so)
	NextProbeAt  *time.Time // while the circuit is open
	DisableAt    *time.Time // when it is disabled if every attempt fails until then
}

var (
	endpointRead = queries.SQL("EndpointRead")
	endpointList = queries.SQL("EndpointList")
)

func scanEndpoint(row pgx.CollectableRow) (Endpoint, error) {
	var e Endpoint
	var phase string
	var flagged bool
	err := row.Scan(&e.ID, &e.TenantID, &e.URL, &e.Description, &e.State, &e.Reason, &e.StateBy, &e.StateAt, &e.VerifiedAt, &e.Scheme, &e.Payload,
		&e.HeaderNames, &e.Concurrency, &e.RatePerSecond, &e.Preset, &e.Rev, &e.CreatedAt, &e.UpdatedAt, &e.Types, &e.PublicKey,
		&phase, &flagged, &e.Health.FailingSince, &e.Health.DisableAt, &e.Health.Failures, &e.Health.NextProbeAt)
	switch {
	case phase == "open":
		e.Health.State = Open
	case flagged || e.Health.FailingSince != nil:
		e.Health.State = Failing
	default:
		e.Health.State = OK
	}
	if e.State != Active {
		e.Health.NextProbeAt, e.Health.DisableAt = nil, nil
	}
	return e, err
}

func errNoEndpoint() error { return fault.New(fault.NotFound, "There is no such endpoint.") }

// read is one endpoint of a tenant, or a NotFound fault: also for what is another tenant's, is deleted, or is no id at all.
func read(ctx context.Context, conn db.Conn, tenantID, endpointID string) (Endpoint, error) {
	if !id.Valid(id.Endpoint, endpointID) {
		return Endpoint{}, errNoEndpoint()
	}
	rows, err := conn.Query(ctx, endpointRead, tenantID, endpointID)
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, scanEndpoint)
	if errors.Is(err, pgx.ErrNoRows) {
		return Endpoint{}, errNoEndpoint()
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("read endpoint: %w", err)
	}
	return found, nil
}

// Read is one endpoint of the caller's tenant. It needs endpoints:read.
func (s *Service) Read(ctx context.Context, caller account.Caller, endpointID string) (Endpoint, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return Endpoint{}, err
	}
	return read(ctx, s.DB, caller.Tenant(), endpointID)
}

const listCursor = "endpoints"

// List is a page of at most limit endpoints of the caller's tenant, newest first, in one state or (empty) in any, and the cursor of the
// next page or "". It needs endpoints:read.
func (s *Service) List(ctx context.Context, caller account.Caller, state State, after string, limit int) ([]Endpoint, string, error) {
	if err := caller.Can(account.EndpointsRead); err != nil {
		return nil, "", err
	}
	from, err := listFrom(after)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.DB.Query(ctx, endpointList, caller.Tenant(), state, from, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanEndpoint)
	if err != nil {
		return nil, "", fmt.Errorf("list endpoints: %w", err)
	}
	if len(found) <= limit {
		return found, "", nil
	}
	return found[:limit], cursor.Encode(listCursor, found[limit-1].ID), nil
}

// listFrom is the id below which the page behind a cursor begins; empty is the first page.
func listFrom(after string) (string, error) {
	if after == "" {
		return "", nil
	}
	keys, err := cursor.Decode(listCursor, after, 1)
	if err != nil {
		return "", err
	}
	if !id.Valid(id.Endpoint, keys[0]) {
		return "", cursor.ErrForeign()
	}
	return keys[0], nil
}

// change runs fn on an endpoint of the caller's tenant in a transaction that holds its lane, so that changes of one endpoint come one after
// the other. fn returns the endpoint's new revision, or 0 when it left everything as it was; then the lane is woken and, after the commit, has settled when
// change returns. The endpoint is returned as it then is; deleted, it is the one that was found.
func (s *Service) change(ctx context.Context, caller account.Caller, endpointID string, fn func(tx pgx.Tx, found Endpoint) (int64, error)) (Endpoint, error) {
	var now Endpoint
	var rev int64
	err := db.Tx(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := read(ctx, tx, caller.Tenant(), endpointID); err != nil {
			return err // before the lock: nobody takes another tenant's lane
		}
		if err := s.Lanes.Lock(ctx, tx, endpointID); err != nil {
			return err
		}
		found, err := read(ctx, tx, caller.Tenant(), endpointID)
		if err != nil {
			return err
		}
		if rev, err = fn(tx, found); err != nil {
			return err
		}
		if now = found; rev == 0 {
			return nil
		}
		if err := s.Lanes.Wake(ctx, tx, []string{endpointID}, nil); err != nil {
			return err
		}
		now, err = read(ctx, tx, caller.Tenant(), endpointID)
		if fault.KindOf(err) == fault.NotFound {
			now, err = found, nil
		}
		return err
	})
	if err != nil {
		return Endpoint{}, err
	}
	if rev != 0 {
		// The change is made, whatever comes of waiting: a lane that does not answer is stalled, and its lease will end.
		if err := s.Lanes.Settle(ctx, endpointID, rev); err != nil {
			s.Log.WarnContext(ctx, "endpoint changed, its lane has not settled", "endpoint_id", endpointID, "rev", rev, "error", err)
		}
	}
	return now, nil
}
