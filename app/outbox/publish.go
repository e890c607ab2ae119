// Package outbox takes events in and hands them on.
//
// Publishing writes one row into table outbox, inside the publisher's own transaction if it wishes; the rules of what an event may be
// stand in the SQL function outbox_add and nowhere else, so that SQL and API agree. The Dispatcher moves rows to events, deliveries
// and due, gives each event its catalog position, and wakes the lanes, all in one transaction: a crash in the middle leaves nothing done.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db"
	"waybill/db/queries"
)

// The limits of an event. The SQL function outbox_add holds them too, for publishers in SQL.
const (
	MaxData  = 256 << 10 // bytes of data
	MaxDepth = 64        // levels of nesting in data
	MaxBatch = 1000      // events in one call
)

var (
	sqlAdd     = queries.SQL("OutboxAdd")
	sqlAddTest = queries.SQL("OutboxAddTest")
	sqlRing    = queries.SQL("OutboxRing")
)

// Event is what a publisher says. Data is JSON, sent on byte for byte.
type Event struct {
	ID           string // the publisher's id, its idempotency key; empty: one is made
	Tenant       string // the tenant's uid
	Type         string
	ResourceType string
	ResourceID   string
	Sequence     *int64 // nil: the next of this resource, given at dispatch
	Version      int    // schema version; 0 means 1
	OccurredAt   *time.Time
	Data         []byte
}

// Published is what became of an event: its id, and whether it had been published before with the same content.
type Published struct {
	ID       string
	Repeated bool
}

// Conn is a pool, a connection or a transaction: Publish writes through whichever it is given, so that an event can share its caller's commit.
type Conn interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Publish puts events into the outbox, all or none, and returns them in the same order. A refused event is a fault.Error that names the field,
// with the event's index when there are several. Inside a transaction such an error ends the transaction, as any error of SQL does.
func Publish(ctx context.Context, conn Conn, events ...Event) ([]Published, error) {
	if len(events) == 0 {
		return nil, fault.New(fault.Invalid, "there are no events; send 1 to 1000").Field("events", "must have 1 to 1000 items")
	}
	if len(events) > MaxBatch {
		return nil, fault.Newf(fault.Invalid, "there are %d events; 1 to %d are allowed in one call", len(events), MaxBatch).Field("events", "must have 1 to 1000 items")
	}
	n := len(events)
	tenants, types, rtypes, rids, data := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	sequences, versions, times, ids := make([]*int64, n), make([]int32, n), make([]*time.Time, n), make([]*string, n)
	for i := range events {
		ev := &events[i]
		if err := ev.storable(); err != nil {
			return nil, at(err, i, n)
		}
		tenants[i], types[i], rtypes[i], rids[i], data[i] = ev.Tenant, ev.Type, ev.ResourceType, ev.ResourceID, string(ev.Data)
		sequences[i], times[i] = ev.Sequence, ev.OccurredAt
		versions[i] = int32(ev.Version)
		if ev.Version == 0 {
			versions[i] = 1
		}
		if ev.ID != "" {
			ids[i] = &ev.ID
		}
	}
	_, alone := conn.(*pgxpool.Pool)
	for try := 1; ; try++ {
		published, err := add(ctx, conn, tenants, types, rtypes, rids, data, sequences, versions, times, ids)
		switch {
		case err == nil:
			return published, nil
		case alone && try < publishTries && db.IsRetryable(err):
			// Another batch with some of the same ids in another order was let through. Once it is done, what it has published is a repeat.
			select {
			case <-time.After(time.Duration(try) * time.Duration(20+rand.IntN(80)) * time.Millisecond):
			case <-ctx.Done():
				return nil, refused(err, events)
			}
		default:
			return nil, refused(err, events)
		}
	}
}

// publishTries is how often a batch in a transaction of its own is tried when others with the same ids lock it out.
const publishTries = 5

func add(ctx context.Context, conn Conn, args ...any) ([]Published, error) {
	rows, err := conn.Query(ctx, sqlAdd, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Published, err error) {
		var index int
		err = row.Scan(&index, &p.ID, &p.Repeated)
		return p, err
	})
}

// storable finds what the database could not even be asked about: bytes that are no text.
func (ev *Event) storable() *fault.Error {
	for _, f := range []struct{ name, value string }{
		{"tenant", ev.Tenant}, {"type", ev.Type}, {"resource.type", ev.ResourceType}, {"resource.id", ev.ResourceID}, {"id", ev.ID}, {"data", string(ev.Data)},
	} {
		if strings.ContainsRune(f.value, 0) || !validText(f.value) {
			return fault.Newf(fault.Invalid, "%s has a NUL or is not valid UTF-8", f.name).Field(f.name, "must be valid UTF-8 without NUL")
		}
	}
	if ev.Version < 0 || ev.Version > 1_000_000 {
		return fault.New(fault.Invalid, "version must be 1 to 1000000").Field("version", "must be 1 to 1000000")
	}
	if len(ev.Data) > MaxData {
		return fault.Newf(fault.TooLarge, "data is %d bytes; %d are allowed", len(ev.Data), MaxData).Field("data", "must be at most 262144 bytes")
	}
	return nil
}

func validText(s string) bool { return strings.ToValidUTF8(s, "") == s }

// fields names the field that each constraint of outbox_add is about.
var fields = map[string]string{
	"outbox_tenant_exists":          "tenant",
	"outbox_type_is_plain":          "type",
	"outbox_resource_type_is_plain": "resource.type",
	"outbox_resource_id_is_plain":   "resource.id",
	"outbox_sequence_range":         "sequence",
	"outbox_version_range":          "version",
	"outbox_occurred_at_range":      "occurred_at",
	"outbox_id_is_plain":            "id",
	"outbox_data_present":           "data",
	"outbox_data_size":              "data",
	"outbox_data_depth":             "data",
	"event_ids_content":             "id",
}

// refused turns the function's error into one that people may see.
func refused(err error, events []Event) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("publish: %w", err)
	}
	detail := strings.TrimPrefix(pg.Message, "waybill: ")
	if field, ok := fields[pg.ConstraintName]; ok {
		kind := fault.Invalid
		switch pg.ConstraintName {
		case "event_ids_content":
			kind = fault.Conflict
		case "outbox_data_size":
			kind = fault.TooLarge
		}
		f := fault.Wrap(kind, detail, err).Field(field, detail)
		return at(f, culprit(pg, events), len(events))
	}
	if pg.Code == "22P02" || pg.Code == "22P05" || pg.Code == "54001" { // not JSON, not representable, nested beyond the parser's stack
		return at(fault.Wrap(fault.Invalid, "data is not JSON that can be stored: "+pg.Message, err).Field("data", "must be JSON"), culprit(pg, events), len(events))
	}
	return fmt.Errorf("publish: %w", err)
}

// at says which event of several a refusal is about.
func at(f *fault.Error, index, of int) *fault.Error {
	if of < 2 || index < 0 {
		return f
	}
	for i := range f.Fields {
		f.Fields[i].Name = fmt.Sprintf("events[%d].%s", index, f.Fields[i].Name)
	}
	f.Detail = fmt.Sprintf("events[%d]: %s", index, f.Detail)
	return f
}

// Test is a test event for one endpoint.
type Test struct {
	TenantID    string // tnt_…
	EndpointID  string
	Type        string
	Data        []byte // JSON, checked by the caller
	RequestedBy string
}

// AddTest puts a test event into the outbox: it goes to its one endpoint, first, and takes no part in catalog, sequences or health. It returns the
// ids that the event and its delivery will have.
func AddTest(ctx context.Context, tx pgx.Tx, now time.Time, t Test) (eventID, deliveryID string, err error) {
	eventID, deliveryID = id.New(id.Event, now), id.New(id.Delivery, now)
	resourceType, _, _ := strings.Cut(t.Type, ".")
	_, err = tx.Exec(ctx, sqlAddTest, t.TenantID, eventID, t.Type, resourceType, "TEST-"+eventID[len(eventID)-6:], string(t.Data), t.EndpointID, deliveryID, t.RequestedBy)
	if err != nil {
		return "", "", fmt.Errorf("add test event: %w", err)
	}
	if _, err := tx.Exec(ctx, sqlRing); err != nil {
		return "", "", fmt.Errorf("ring the dispatcher: %w", err)
	}
	return eventID, deliveryID, nil
}
