package outbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/id"
	"waybill/app/outbox"
	"waybill/db"
	"waybill/db/dbtest"
)

// One delivery for each endpoint, whatever of its patterns match (CASES B69).
func TestPatterns(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant, other := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	types := []string{"user", "user.created", "user.created.late", "users.created", "User.created", "user_x.created", "order.paid"}
	wants := map[string][]string{
		"*":                                     types,
		"user.created":                          {"user.created"},
		"user.*":                                {"user.created", "user.created.late"},
		"user.created.*":                        {"user.created.late"},
		"* user.* user.created":                 types,
		"user.* user.created user.created.late": {"user.created", "user.created.late"},
		"user order.*":                          {"user", "order.paid"},
		"User.*":                                {"User.created"},
		"user_.* use.*":                         nil,
		"":                                      nil,
	}
	endpoints := map[string]string{}
	for patterns := range wants {
		endpoints[patterns] = dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID, Types: strings.Fields(patterns)}).ID
	}
	dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: other.ID})
	deleted := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID, DeletedAt: now()})
	paused := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID, State: "paused"})
	for _, typ := range types {
		publish(t, pool, event(tenant.UID, func(e *outbox.Event) { e.Type = typ }))
	}
	drain(t, dispatcher(t, pool, &tickets{}))
	for patterns, want := range wants {
		rows, err := pool.Query(t.Context(), `select type from deliveries where endpoint_id = $1 order by position`, endpoints[patterns])
		if err != nil {
			t.Fatal(err)
		}
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q got %v, want %v", patterns, got, want)
		}
	}
	if n := count(t, pool, `select count(*) from deliveries where tenant_id = $1 or endpoint_id = $2`, other.ID, deleted.ID); n != 0 {
		t.Errorf("%d deliveries for another tenant's endpoint or for a deleted one", n)
	}
	if n := count(t, pool, `select count(*) from due where endpoint_id = $1`, paused.ID); n != len(types) {
		t.Errorf("%d deliveries for a paused endpoint, want %d: its lane is to hold them", n, len(types))
	}
	if n := count(t, pool, `select count(*) from deliveries d full join due u on u.delivery_id = d.id
		where d.id is null or u.delivery_id is null or (d.day, d.endpoint_id, d.tenant_id, d.event_id, d.position) <> (u.day, u.endpoint_id, u.tenant_id, u.event_id, u.position)`); n != 0 {
		t.Errorf("%d deliveries and due rows do not agree", n)
	}
	if n := count(t, pool, `select count(distinct id) - count(*) from deliveries`); n != 0 {
		t.Error("two deliveries share an id")
	}
}

// A thin endpoint's text has the id and where to read the rest, and is fixed at fan-out.
func TestThinForm(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	thin := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID, Payload: "thin"})
	full := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	publish(t, pool, event(tenant.UID, func(e *outbox.Event) {
		e.ID, e.ResourceID, e.OccurredAt, e.Data = "e1", `C/4 ü"%`, at(2026), []byte(`{"secret":1}`)
	}))
	drain(t, dispatcher(t, pool, &tickets{}))
	var text string
	if err := pool.QueryRow(t.Context(), `select e.thin from due d join events e using (position, day) where d.endpoint_id = $1 and d.form = 'thin'`, thin.ID).Scan(&text); err != nil {
		t.Fatal(err)
	}
	want := `{"id":"e1","type":"consignment.loaded","version":1,"timestamp":"2026-06-01T12:00:00.000Z","occurred_at":"2026-06-01T12:00:00.000Z",` +
		`"resource":{"type":"consignment","id":"C/4 ü\"%","url":"https://hooks.test/v1/resources/consignment/C%2F4%20%C3%BC%22%25"},"sequence":1,` +
		`"data":{"id":"C/4 ü\"%"}}`
	if text != want {
		t.Errorf("thin text\n%s\nwant\n%s", text, want)
	}
	if n := count(t, pool, `select count(*) from due where endpoint_id = $1 and form = 'full'`, full.ID); n != 1 {
		t.Errorf("the full endpoint has %d full deliveries", n)
	}
}

// One event for thousands of endpoints, and thousands of events for them that wait behind it, go out in batches of a bounded size.
func TestWideFanOut(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	const endpoints = 4_000
	for _, sql := range []string{
		`insert into endpoints (id, tenant_id, url) select 'ep_' || n, $1, 'https://receiver.test/' from generate_series(1, $2::integer) n`,
		`insert into subscriptions (tenant_id, pattern, endpoint_id, ordinal) select $1, '*', 'ep_' || n, 1 from generate_series(1, $2::integer) n`,
		`insert into lanes (endpoint_id, tenant_id) select 'ep_' || n, $1 from generate_series(1, $2::integer) n`,
	} {
		if _, err := pool.Exec(t.Context(), sql, tenant.ID, endpoints); err != nil {
			t.Fatal(err)
		}
	}
	events := make([]outbox.Event, 8)
	for i := range events {
		events[i] = event(tenant.UID)
	}
	publish(t, pool, events...)
	k := &tickets{}
	d := dispatcher(t, pool, k)
	moved, _, err := d.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `select count(*) from deliveries`); n != moved*endpoints || n > 20_000 || moved < 1 {
		t.Errorf("a batch of %d events made %d deliveries", moved, n)
	}
	drain(t, d)
	stored(t, pool, 0, 8, 8, 8*endpoints, 8*endpoints)
	if len(k.given) != endpoints {
		t.Errorf("%d tickets for %d lanes", len(k.given), endpoints)
	}
}

// A test that was asked for in the last moment of a day is dispatched in the next one and found where its id says.
func TestTestAtMidnight(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	var deliveryID string
	err := db.Tx(t.Context(), pool, func(tx pgx.Tx) (err error) {
		_, deliveryID, err = outbox.AddTest(t.Context(), tx, now().AddDate(0, 0, -1), outbox.Test{TenantID: tenant.ID, EndpointID: ep.ID, Type: "consignment.loaded",
			Data: []byte(`{}`), RequestedBy: "somebody"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, pool, event(tenant.UID))
	if n := drain(t, dispatcher(t, pool, &tickets{})); n != 2 {
		t.Fatalf("%d events were dispatched", n)
	}
	day, err := id.Day(deliveryID)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool, `select count(*) from deliveries d join events e on e.position = d.position and e.day = d.day join due u on u.delivery_id = d.id and u.day = d.day
		where d.id = $1 and d.day = $2 and d.test`, deliveryID, day); n != 1 {
		t.Error("the test's delivery is not on the day of its id, with its event")
	}
	if n := count(t, pool, `select count(*) from deliveries where day = $1`, now().UTC().Truncate(24*time.Hour)); n != 1 {
		t.Errorf("%d deliveries of today", n)
	}
}
