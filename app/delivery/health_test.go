package delivery

import (
	"fmt"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

func TestHealthIsOfTheLastAttempts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})
	quiet := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})
	now := time.Now()
	one := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, CreatedAt: now.Add(-2 * time.Hour), Attempts: 5})
	test := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{TenantID: h.tenant.ID, Test: true}, Endpoint: e, Status: "undelivered", Reason: "test_failed"})
	for i, class := range []string{"status", "delivered", "refused", "proxy", "timeout"} {
		dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: one, Number: i + 1, Class: class, Code: map[string]int{"status": 500, "delivered": 200}[class],
			StartedAt: now.Add(time.Duration(i-10) * time.Minute)})
	}
	dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: test, Trigger: "test", Class: "status", Code: 404, StartedAt: now})
	all, err := h.Health(t.Context(), h.caller, []string{e.ID, quiet.ID, "ep_unknown"})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d endpoints, want 2", len(all))
	}
	got := all[e.ID]
	var classes []string
	for _, outcome := range got.Last {
		classes = append(classes, outcome.Class)
	}
	if want := "[timeout proxy no_answer delivered status]"; len(classes) != 5 || fmt.Sprint(classes) != want {
		t.Errorf("the last attempts are %v, want %s", classes, want)
	}
	failures, since := got.Failing()
	if failures != 2 || since.Sub(now.Add(-8*time.Minute)).Abs() > time.Millisecond {
		t.Errorf("failing for %d since %s, want 2 since the refused one", failures, since)
	}
	if got.Waiting != (Count{N: 1}) || got.Oldest.Sub(one.CreatedAt).Abs() > time.Second {
		t.Errorf("waiting %+v since %s, want one since %s", got.Waiting, got.Oldest, one.CreatedAt)
	}
	if q := all[quiet.ID]; len(q.Last) != 0 || q.Waiting.N != 0 || !q.Oldest.IsZero() {
		t.Errorf("an endpoint without anything has %+v", q)
	}
	if strange, err := h.Health(t.Context(), h.stranger, []string{e.ID}); err != nil || len(strange) != 0 {
		t.Errorf("a stranger sees %v, %v", strange, err)
	}
	if _, err := h.Health(t.Context(), keyOf(h.tenant, account.CatalogRead), nil); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("without the right: %v", err)
	}
}

// What was attempted is found where it is, with the fewest rows read: behind a backlog that nothing was attempted of, among what waits for its next
// attempt, however old, and behind what an endpoint that is off holds.
func TestHealthLooksBehindWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	now := time.Now()
	busy := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})
	off := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, State: "paused", Reason: "manual"})
	for _, e := range []dbtest.Endpoint{busy, off} {
		status := map[bool]string{true: "held", false: "pending"}[e.ID == off.ID]
		for i := range 3 { // older than everything that waits
			dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, Status: "delivered", CreatedAt: now.Add(-time.Duration(30+i) * time.Minute)})
		}
		first := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, Status: status, Reason: map[string]string{"held": "endpoint_paused"}[status],
			CreatedAt: now.Add(-20 * time.Minute)})
		h.exec(`insert into deliveries (id, day, tenant_id, endpoint_id, position, event_id, type, resource_type, resource_id, form, test, created_at, status)
			select left($2, 26) || lpad(n::text, 4, '0'), day, tenant_id, endpoint_id, 100000 + n, 'evt_' || n, type, resource_type, resource_id, form,
			       false, created_at, status
			from deliveries, generate_series(1, 1000) n where id = $1`, first.ID, id.New(id.Delivery, now.Add(-19*time.Minute)))
	}
	// It failed twice, long before all of that, and once more just now.
	retried := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: busy, CreatedAt: now.Add(-3 * 24 * time.Hour), Attempts: 3, Failures: 3, LastAt: now.Add(-time.Minute),
		LastClass: "status", LastCode: 503, NextAt: now.Add(time.Hour)})
	for i, ago := range []time.Duration{3 * 24 * time.Hour, 2 * 24 * time.Hour, time.Minute} {
		dbtest.AddAttempt(t, h.pool, dbtest.Attempt{Delivery: retried, Number: i + 1, Trigger: "retry", Class: "status", Code: 501 + i, StartedAt: now.Add(-ago)})
	}
	got, err := h.Health(t.Context(), h.caller, []string{busy.ID, off.ID})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		endpoint string
		want     string
	}{
		"behind a backlog":   {busy.ID, "[503 200 200 200 502 501]"},
		"behind what's held": {off.ID, "[200 200 200]"},
	} {
		var codes []int
		for _, outcome := range got[c.endpoint].Last {
			codes = append(codes, outcome.Code)
		}
		if fmt.Sprint(codes) != c.want {
			t.Errorf("%s: the last answers are %v, want %s", name, codes, c.want)
		}
	}
	if w := got[busy.ID].Waiting; w != (Count{N: 2}) {
		t.Errorf("waiting %+v, want what is due: two", w)
	}
}

// What waits is counted less far when many endpoints are asked for, and then says so.
func TestHealthCountsOfManyLessFar(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID})
	first := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e})
	h.exec(`insert into due (delivery_id, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger)
		select delivery_id || n, day, tenant_id, endpoint_id, position, event_id, form, priority, next_at, trigger from due, generate_series(1, 600) n where delivery_id = $1`, first.ID)
	many := make([]string, 200)
	many[0] = e.ID
	for name, c := range map[string]struct {
		asked []string
		want  Count
	}{
		"one": {many[:1], Count{N: 601}}, "many": {many, Count{N: 500, More: true}},
	} {
		got, err := h.Health(t.Context(), h.caller, c.asked)
		if err != nil {
			t.Fatal(err)
		}
		if w := got[e.ID].Waiting; w != c.want || got[e.ID].Oldest.IsZero() != c.want.More {
			t.Errorf("%s: %+v with the oldest of %s, want %+v", name, w, got[e.ID].Oldest, c.want)
		}
	}
}

func TestParkedIsCountedByEndpointAndReason(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	e := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, Description: "Orders"})
	off := dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, State: "paused", Reason: "manual"})
	for range 3 {
		dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, Status: "undelivered", Reason: "schedule_exhausted"})
	}
	dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: e, Status: "undelivered", Reason: "gone"})
	first := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: off, Status: "held", Reason: "paused", CreatedAt: time.Now().Add(-time.Hour)})
	dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Endpoint: off, Status: "held", Reason: "paused"})
	got, err := h.Parked(t.Context(), h.caller)
	if err != nil {
		t.Fatal(err)
	}
	if got.Undelivered != (Count{N: 4}) || got.Held != (Count{N: 2}) || len(got.Groups) != 3 {
		t.Fatalf("got %+v", got)
	}
	if g := got.Groups[0]; g.EndpointID != e.ID || g.N != 3 || g.Reason != "schedule_exhausted" || g.EndpointName != "Orders" || g.EndpointURL != e.URL {
		t.Errorf("the largest group is %+v", g)
	}
	if g := got.Groups[1]; g.Status != Held || g.N != 2 || g.Oldest.Sub(first.CreatedAt).Abs() > time.Second {
		t.Errorf("what is held is %+v", g)
	}
	if n, err := h.UndeliveredCount(t.Context(), h.caller, 3); err != nil || n != 3 {
		t.Errorf("counted %d up to 3: %v", n, err)
	}
	if strange, err := h.Parked(t.Context(), h.stranger); err != nil || len(strange.Groups) != 0 {
		t.Errorf("a stranger sees %+v, %v", strange, err)
	}
	if n, err := h.UndeliveredCount(t.Context(), h.stranger, 10); err != nil || n != 0 {
		t.Errorf("a stranger counts %d, %v", n, err)
	}
}
