package delivery

import (
	"fmt"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
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
