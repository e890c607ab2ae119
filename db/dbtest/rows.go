package dbtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"waybill/app/id"
)

// DB is what rows are put into: a pool, a connection or a transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// The Add functions put one row straight into its table, with what belongs to it, and return it as it was stored. A field that
// is left zero gets a value that no test should depend on; times are stored in UTC, in microseconds. They go around the operations
// on purpose: for tests of what reads. Partitions of other days are made as they are needed.

// Tenant is a row of table tenants.
type Tenant struct {
	ID, UID, Name, Preset, TimeZone string
	Concurrency                     int
	SuspendedAt                     time.Time
}

// AddTenant puts a tenant in.
func AddTenant(t testing.TB, on DB, row Tenant) Tenant {
	t.Helper()
	row.ID = cmp.Or(row.ID, id.New(id.Tenant, time.Now()))
	row.UID = cmp.Or(row.UID, "uid-"+row.ID)
	row.Name = cmp.Or(row.Name, "Tenant "+row.UID)
	row.TimeZone = cmp.Or(row.TimeZone, "UTC")
	row.Concurrency = cmp.Or(row.Concurrency, 50)
	row.SuspendedAt = stored(row.SuspendedAt)
	run(t, on, `insert into tenants (id, uid, name, preset, time_zone, concurrency, suspended_at) values ($1, $2, $3, $4, $5, $6, $7)`,
		row.ID, row.UID, row.Name, orNull(row.Preset), row.TimeZone, row.Concurrency, orNull(row.SuspendedAt))
	return row
}

// Endpoint is a row of table endpoints with its subscriptions and its lane.
type Endpoint struct {
	TenantID                                                              string // empty: a tenant of its own
	ID, URL, Description, State, Reason, StateBy, Scheme, Payload, Preset string
	HeaderSetID                                                           string
	Types                                                                 []string // nil: every type
	Unverified                                                            bool
	Concurrency                                                           int
	CreatedAt, StateAt, VerifiedAt, DeletedAt                             time.Time
}

// AddEndpoint puts an endpoint in: active, verified, subscribed to every type, with an idle lane.
func AddEndpoint(t testing.TB, on DB, row Endpoint) Endpoint {
	t.Helper()
	if row.TenantID == "" {
		row.TenantID = AddTenant(t, on, Tenant{}).ID
	}
	row.CreatedAt = stored(cmpTime(row.CreatedAt, time.Now()))
	row.ID = cmp.Or(row.ID, id.New(id.Endpoint, row.CreatedAt))
	row.URL = cmp.Or(row.URL, "https://receiver.test/hooks/"+row.ID)
	row.State = cmp.Or(row.State, "active")
	row.Scheme = cmp.Or(row.Scheme, "v1")
	row.Payload = cmp.Or(row.Payload, "full")
	row.Concurrency = cmp.Or(row.Concurrency, 10)
	row.StateAt = stored(cmpTime(row.StateAt, row.CreatedAt))
	if !row.Unverified {
		row.VerifiedAt = stored(cmpTime(row.VerifiedAt, row.CreatedAt))
	}
	row.DeletedAt = stored(row.DeletedAt)
	if row.Types == nil {
		row.Types = []string{"*"}
	}
	run(t, on, `insert into endpoints (id, tenant_id, url, description, state, reason, state_by, state_at, verified_at, scheme, payload, preset,
			header_set_id, concurrency, created_at, updated_at, deleted_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15, $16)`,
		row.ID, row.TenantID, row.URL, row.Description, row.State, orNull(row.Reason), orNull(row.StateBy), row.StateAt, orNull(row.VerifiedAt),
		row.Scheme, row.Payload, orNull(row.Preset), orNull(row.HeaderSetID), row.Concurrency, row.CreatedAt, orNull(row.DeletedAt))
	run(t, on, `insert into subscriptions (tenant_id, pattern, endpoint_id, ordinal) select $1, p, $2, n from unnest($3::text[]) with ordinality as u(p, n)`,
		row.TenantID, row.ID, row.Types)
	run(t, on, `insert into lanes (endpoint_id, tenant_id) values ($1, $2)`, row.ID, row.TenantID)
	return row
}

// Event is a row of table events. Position and Day are given when it is stored.
type Event struct {
	TenantID                           string // empty: a tenant of its own
	ID, Type, ResourceType, ResourceID string
	Version                            int
	Sequence                           int64
	OccurredAt, CreatedAt              time.Time
	Test                               bool
	Body, Thin                         string
	Position                           int64
	Day                                time.Time
}

// AddEvent puts an event in, as dispatched at CreatedAt (now, if zero), with the next position, and raises its resource to its sequence.
func AddEvent(t testing.TB, on DB, row Event) Event {
	t.Helper()
	if row.TenantID == "" {
		row.TenantID = AddTenant(t, on, Tenant{}).ID
	}
	row.CreatedAt = stored(cmpTime(row.CreatedAt, time.Now()))
	row.OccurredAt = stored(cmpTime(row.OccurredAt, row.CreatedAt))
	row.ID = cmp.Or(row.ID, id.New(id.Event, row.CreatedAt))
	row.Type = cmp.Or(row.Type, "consignment.loaded")
	row.ResourceType = cmp.Or(row.ResourceType, "consignment")
	row.ResourceID = cmp.Or(row.ResourceID, "C-"+row.ID[max(0, len(row.ID)-6):])
	row.Version = cmp.Or(row.Version, 1)
	row.Sequence = cmp.Or(row.Sequence, 1)
	if row.Body == "" {
		row.Body = body(t, row)
	}
	row.Day = AddDay(t, on, row.CreatedAt)
	if err := on.QueryRow(t.Context(), `update positions set last = last + 1 returning last`).Scan(&row.Position); err != nil {
		t.Fatalf("dbtest: the next position: %v", err)
	}
	run(t, on, `insert into events (position, day, tenant_id, id, type, version, resource_type, resource_id, sequence, occurred_at, published_at,
			created_at, test, body, thin)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12, $13, $14)`,
		row.Position, row.Day, row.TenantID, row.ID, row.Type, row.Version, row.ResourceType, row.ResourceID, row.Sequence, row.OccurredAt,
		row.CreatedAt, row.Test, row.Body, orNull(row.Thin))
	if !row.Test {
		run(t, on, `insert into resources as r (tenant_id, type, id, sequence, position, day) values ($1, $2, $3, $4, $5, $6)
			on conflict (tenant_id, type, id) do update set sequence = excluded.sequence, position = excluded.position, day = excluded.day
			where excluded.sequence >= r.sequence`,
			row.TenantID, row.ResourceType, row.ResourceID, row.Sequence, row.Position, row.Day)
	}
	return row
}

func body(t testing.TB, row Event) string {
	t.Helper()
	test := ""
	if row.Test {
		test = `,"test":true`
	}
	resource, err := json.Marshal(map[string]string{"type": row.ResourceType, "id": row.ResourceID})
	if err != nil {
		t.Fatalf("dbtest: %v", err)
	}
	at := row.OccurredAt.Format("2006-01-02T15:04:05.000Z")
	return fmt.Sprintf(`{"id":%q,"type":%q,"version":%d,"timestamp":%q,"occurred_at":%q,"resource":%s,"sequence":%d%s,"data":{"n":9007199254740993}}`,
		row.ID, row.Type, row.Version, at, at, resource, row.Sequence, test)
}

// Delivery is a row of table deliveries, with its marker in due or parked.
type Delivery struct {
	Event    Event    // without ID: one is added, for the endpoint's tenant
	Endpoint Endpoint // without ID: one is added, for the event's tenant

	ID, Form, Status, Reason      string
	Attempts, Failures            int
	CreatedAt, LastAt, FinishedAt time.Time
	LastClass                     string
	LastCode, LastMS              int
	Day                           time.Time

	// Of its row in due; without NextAt only a pending delivery has one, due when it was made.
	NextAt, ResumeAt     time.Time
	Trigger, RequestedBy string
	Priority             int
}

// AddDelivery puts a delivery in: pending and due at once unless Status says otherwise. An undelivered or held one is parked,
// unless it is a test.
func AddDelivery(t testing.TB, on DB, row Delivery) Delivery {
	t.Helper()
	row.CreatedAt = stored(cmpTime(row.CreatedAt, row.Event.CreatedAt, time.Now()))
	if row.Event.ID == "" {
		row.Event.TenantID = cmp.Or(row.Event.TenantID, row.Endpoint.TenantID)
		row.Event.CreatedAt = cmpTime(row.Event.CreatedAt, row.CreatedAt)
		row.Event = AddEvent(t, on, row.Event)
	}
	if row.Endpoint.ID == "" {
		row.Endpoint.TenantID = cmp.Or(row.Endpoint.TenantID, row.Event.TenantID)
		row.Endpoint = AddEndpoint(t, on, row.Endpoint)
	}
	row.ID = cmp.Or(row.ID, id.New(id.Delivery, row.CreatedAt))
	row.Form = cmp.Or(row.Form, row.Endpoint.Payload, "full")
	row.Status = cmp.Or(row.Status, "pending")
	row.LastAt = stored(row.LastAt)
	row.Day = AddDay(t, on, row.CreatedAt)
	if row.Status == "delivered" {
		row.Attempts = cmp.Or(row.Attempts, 1)
		row.LastClass = cmp.Or(row.LastClass, "delivered")
		row.LastCode = cmp.Or(row.LastCode, 200)
	}
	if row.Attempts > 0 {
		row.LastAt = stored(cmpTime(row.LastAt, row.CreatedAt))
		row.LastMS = cmp.Or(row.LastMS, 42)
		row.LastClass = cmp.Or(row.LastClass, "status")
	}
	if row.Status != "pending" {
		row.FinishedAt = stored(cmpTime(row.FinishedAt, row.LastAt, row.CreatedAt))
	}
	run(t, on, `insert into deliveries (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test,
			created_at, status, reason, attempts, failures, last_at, last_class, last_code, last_ms, finished_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		row.ID, row.Day, row.Endpoint.TenantID, row.Endpoint.ID, row.Event.Position, row.Event.ID, row.Event.Type, row.Event.ResourceType,
		row.Event.ResourceID, row.Form, row.Event.Test, row.CreatedAt, row.Status, orNull(row.Reason), row.Attempts, row.Failures,
		orNull(row.LastAt), orNull(row.LastClass), orNull(row.LastCode), orNull(row.LastMS), orNull(row.FinishedAt))

	if row.Status == "pending" || !row.NextAt.IsZero() {
		addDue(t, on, &row)
	}
	if !row.Event.Test && (row.Status == "undelivered" || row.Status == "held") {
		run(t, on, `insert into parked (delivery_id, day, tenant_id, endpoint_id, status, reason, since) values ($1, $2, $3, $4, $5, $6, $7)`,
			row.ID, row.Day, row.Endpoint.TenantID, row.Endpoint.ID, row.Status, row.Reason, row.FinishedAt)
	}
	return row
}

func addDue(t testing.TB, on DB, row *Delivery) {
	t.Helper()
	row.NextAt = stored(cmpTime(row.NextAt, row.CreatedAt))
	row.ResumeAt = stored(row.ResumeAt)
	if row.Trigger == "" {
		switch {
		case row.Event.Test:
			row.Trigger = "test"
		case row.Status != "pending":
			row.Trigger = "manual"
		case row.Attempts > 0:
			row.Trigger = "retry"
		default:
			row.Trigger = "first"
		}
	}
	switch row.Trigger {
	case "test":
	case "recover":
		row.Priority = 2
	default:
		row.Priority = 1
	}
	run(t, on, `insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger, failures,
			resume_at, requested_by)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		row.ID, row.Day, row.Endpoint.TenantID, row.Endpoint.ID, row.Event.Position, row.Event.ID, row.Form, row.Priority, row.NextAt,
		row.Trigger, row.Failures, orNull(row.ResumeAt), orNull(row.RequestedBy))
}

// Attempt is a row of table attempts.
type Attempt struct {
	Delivery Delivery // without ID: one is added

	ID, Trigger, RequestedBy, Class, Cause, Detail, URL string
	Number, Code                                        int
	StartedAt                                           time.Time
	RequestHeaders, HeaderSetID                         string // RequestHeaders: JSON [["name","value"],…]
	ResponseHeaders, ResponseNote                       string
	ResponseBody                                        []byte
	ResponseSize                                        int64
	Proto, Remote, TLS                                  string
	ConnectUS, TLSUS, WaitUS, ReadUS, TotalUS           int
	WorkerID                                            string
}

// AddAttempt puts an attempt in: a first one, answered 200, unless its fields say otherwise. The delivery's row stays as it is.
func AddAttempt(t testing.TB, on DB, row Attempt) Attempt {
	t.Helper()
	if row.Delivery.ID == "" {
		row.Delivery = AddDelivery(t, on, Delivery{Status: "delivered"})
	}
	row.StartedAt = stored(cmpTime(row.StartedAt, row.Delivery.CreatedAt))
	row.ID = cmp.Or(row.ID, id.New(id.Attempt, row.StartedAt))
	row.Number = cmp.Or(row.Number, 1)
	row.Trigger = cmp.Or(row.Trigger, map[bool]string{true: "first", false: "retry"}[row.Number == 1])
	if row.Class == "" {
		row.Class, row.Code = "delivered", cmp.Or(row.Code, 200)
	}
	row.URL = cmp.Or(row.URL, row.Delivery.Endpoint.URL)
	row.RequestHeaders = cmp.Or(row.RequestHeaders, fmt.Sprintf(`[["content-type","application/json"],["webhook-id",%q]]`, row.Delivery.Event.ID))
	row.TotalUS = cmp.Or(row.TotalUS, 42_000)
	row.WorkerID = cmp.Or(row.WorkerID, id.New(id.Worker, row.StartedAt))
	sent := row.Delivery.Event.Body
	if row.Delivery.Form == "thin" {
		sent = row.Delivery.Event.Thin
	}
	run(t, on, `insert into attempts (id, day, tenant_id, endpoint_id, delivery_id, number, trigger, requested_by, started_at, class, detail, code,
			url, request_headers, header_set_id, body_size, response_headers, response_body, response_size, response_note, proto, remote, tls,
			connect_us, tls_us, wait_us, read_us, total_us, worker_id, cause)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27,
			$28, $29, $30)`,
		row.ID, AddDay(t, on, row.StartedAt), row.Delivery.Endpoint.TenantID, row.Delivery.Endpoint.ID, row.Delivery.ID, row.Number, row.Trigger,
		orNull(row.RequestedBy), row.StartedAt, row.Class, orNull(row.Detail), orNull(row.Code), row.URL, row.RequestHeaders,
		orNull(row.HeaderSetID), len(sent), orNull(row.ResponseHeaders), row.ResponseBody, orNull(row.ResponseSize), orNull(row.ResponseNote),
		orNull(row.Proto), orNull(row.Remote), orNull(row.TLS), orNull(row.ConnectUS), orNull(row.TLSUS), orNull(row.WaitUS), orNull(row.ReadUS),
		row.TotalUS, row.WorkerID, orNull(row.Cause))
	return row
}

// AddDay makes the partitions of at's UTC day, unless they are there, and returns midnight of that day.
func AddDay(t testing.TB, on DB, at time.Time) time.Time {
	t.Helper()
	year, month, day := at.UTC().Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	run(t, on, `select make_partitions($1, $1)`, midnight)
	return midnight
}

func run(t testing.TB, on DB, sql string, args ...any) {
	t.Helper()
	if _, err := on.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("dbtest: %v\n%s", err, sql)
	}
}

// orNull is v, or nil for the zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func cmpTime(times ...time.Time) time.Time {
	for _, at := range times {
		if !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// stored is the time as Postgres keeps it.
func stored(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.UTC().Truncate(time.Microsecond)
}
