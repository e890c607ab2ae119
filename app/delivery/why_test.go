package delivery

import (
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

// eventOf is the event as the catalog shows it.
func eventOf(e dbtest.Event) catalog.Event {
	return catalog.Event{ID: e.ID, Type: e.Type, CreatedAt: e.CreatedAt, Day: e.Day, Test: e.Test}
}

// why is the only line of the event.
func (h *house) why(event dbtest.Event) Line {
	h.t.Helper()
	lines, err := h.Why(h.t.Context(), h.caller, eventOf(event))
	if err != nil || len(lines) != 1 {
		h.t.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines[0]
}

func TestWhy(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Microsecond)
	hour := now.Add(time.Hour)
	day := now.Add(-24 * time.Hour)
	off := dbtest.Endpoint{State: "disabled", Reason: "gone", StateBy: "system", StateAt: day, CreatedAt: day}
	for name, c := range map[string]struct {
		row     dbtest.Delivery
		prepare func(h *house, d dbtest.Delivery)
		want    Line
	}{
		"delivered":       {row: dbtest.Delivery{Status: "delivered", Attempts: 2, FinishedAt: now}, want: Line{Cause: WasDelivered, At: &now, N: 2, Class: "delivered", Code: 200}},
		"first, in line":  {row: dbtest.Delivery{}, want: Line{Cause: IsWaiting}},
		"retrying":        {row: dbtest.Delivery{Attempts: 3, Failures: 3, NextAt: hour, LastCode: 503}, want: Line{Cause: IsRetrying, Fix: FixResend, At: &hour, N: 4, Of: 10, Class: "status", Code: 503}},
		"a retry in line": {row: dbtest.Delivery{Attempts: 1, Failures: 1, LastClass: "refused"}, want: Line{Cause: IsWaiting, Class: "no_answer"}},
		"on the wire": {row: dbtest.Delivery{Attempts: 1, Failures: 1}, want: Line{Cause: IsOnWire, N: 2, Of: 10, Class: "status"}, prepare: func(h *house, d dbtest.Delivery) {
			h.exec(`update lanes set state = 'running', owner = 'wrk_1', slots = 1, handed = array[$1], handed_at = now()`, d.ID)
		}},
		"behind the circuit": {row: dbtest.Delivery{}, want: Line{Cause: IsWaiting, At: &hour}, prepare: func(h *house, d dbtest.Delivery) {
			h.exec(`update lanes set not_before = $1`, hour)
		}},
		"behind others": {row: dbtest.Delivery{}, want: Line{Cause: IsWaiting, N: 2}, prepare: func(h *house, d dbtest.Delivery) {
			for range 2 {
				other := dbtest.AddEvent(h.t, h.pool, dbtest.Event{TenantID: h.tenant.ID})
				dbtest.AddDelivery(h.t, h.pool, dbtest.Delivery{Endpoint: d.Endpoint, Event: other, NextAt: now.Add(-time.Hour)})
				dbtest.AddDelivery(h.t, h.pool, dbtest.Delivery{Endpoint: d.Endpoint, Event: other, NextAt: hour})
			}
		}},
		"held": {row: dbtest.Delivery{Status: "held", Endpoint: off}, want: Line{Cause: IsHeld, Fix: FixEnable, At: &day, By: "system", Reason: "disabled: gone"}},
		"about to be held": {row: dbtest.Delivery{Endpoint: dbtest.Endpoint{State: "paused", Reason: "manual", StateBy: "anna", StateAt: day, CreatedAt: day}},
			want: Line{Cause: IsHeld, Fix: FixEnable, At: &day, By: "anna", Reason: "paused: manual"}},
		"held, and active again": {row: dbtest.Delivery{Status: "held", Reason: "paused"}, want: Line{Cause: IsHeld, Fix: FixRecover, Reason: "paused"}},
		"undelivered": {row: dbtest.Delivery{Status: "undelivered", Reason: "schedule_exhausted", Attempts: 10, Failures: 10, LastCode: 500, FinishedAt: now},
			want: Line{Cause: IsUndelivered, Fix: FixResend, At: &now, Reason: "schedule_exhausted", N: 10, Class: "status", Code: 500}},
		"undelivered long ago": {row: dbtest.Delivery{Status: "undelivered", Reason: "schedule_exhausted", CreatedAt: now.AddDate(0, 0, -31), FinishedAt: day},
			want: Line{Cause: IsExpired, Fix: FixPull, At: &day, Reason: "schedule_exhausted"}},
		"not allowed": {row: dbtest.Delivery{Attempts: 2, Failures: 2, NextAt: hour, LastClass: "blocked_address"},
			want: Line{Cause: NotAllowed, Fix: FixURL, At: &hour, Class: "blocked_address"}},
		"cancelled": {row: dbtest.Delivery{Status: "cancelled", Reason: "deleted", FinishedAt: now, Endpoint: dbtest.Endpoint{State: "disabled", DeletedAt: now}},
			want: Line{Cause: WasCancelled, Fix: FixPull, At: &now, Reason: "deleted"}},
		"a test": {row: dbtest.Delivery{Event: dbtest.Event{Test: true}, Status: "delivered", FinishedAt: now},
			want: Line{Cause: WasDelivered, At: &now, N: 1, Class: "delivered", Code: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			c.row.Event.TenantID = h.tenant.ID
			d := dbtest.AddDelivery(t, h.pool, c.row)
			if c.prepare != nil {
				c.prepare(h, d)
			}
			got := h.why(d.Event)
			if got.DeliveryID != d.ID || got.EndpointID != d.Endpoint.ID || got.EndpointHost != "receiver.test" {
				t.Errorf("%+v", got)
			}
			got.DeliveryID, got.EndpointID, got.EndpointHost = "", "", ""
			if (got.At == nil) != (c.want.At == nil) || got.At != nil && !got.At.Equal(*c.want.At) {
				t.Errorf("at %v, want %v", got.At, c.want.At)
			}
			got.At, c.want.At = nil, nil
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if lines, err := h.Why(t.Context(), h.stranger, eventOf(d.Event)); err != nil || len(lines) != 0 {
				t.Errorf("a stranger sees %+v, %v", lines, err)
			}
		})
	}
}

// Endpoints that were not sent the event have a line each as well.
func TestWhyNot(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	before := time.Now().Add(-time.Hour)
	event := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, Type: "order.paid", CreatedAt: before})
	want := map[string]Line{}
	add := func(row dbtest.Endpoint, cause Cause, fix Fix) {
		row.TenantID = h.tenant.ID
		want[dbtest.AddEndpoint(t, h.pool, row).ID] = Line{Cause: cause, Fix: fix}
	}
	old := before.Add(-time.Hour)
	add(dbtest.Endpoint{CreatedAt: old, Types: []string{"order.created", "orders.*"}}, NotSubscribed, FixSubscribe)
	add(dbtest.Endpoint{CreatedAt: old, Types: []string{"order.*"}}, ChangedLater, FixPull)
	add(dbtest.Endpoint{Types: []string{"order.paid"}}, CreatedLater, FixPull)
	dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, CreatedAt: old, DeletedAt: time.Now()})
	dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{CreatedAt: old})
	check := func(want map[string]Line) {
		t.Helper()
		lines, err := h.Why(t.Context(), h.caller, eventOf(event))
		if err != nil || len(lines) != len(want) {
			t.Fatalf("%d lines, %v, want %d", len(lines), err, len(want))
		}
		for _, got := range lines {
			if w := want[got.EndpointID]; got.Cause != w.Cause || got.Fix != w.Fix || got.DeliveryID != "" {
				t.Errorf("%+v, want %+v", got, w)
			}
		}
	}
	check(want)
	// A test event went to one endpoint and to no other.
	test := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID, Test: true})
	if lines, err := h.Why(t.Context(), h.caller, eventOf(test)); err != nil || len(lines) != 0 {
		t.Errorf("%+v, %v", lines, err)
	}
	// The history of that day is no longer kept: nobody knows.
	h.exec("drop table deliveries_" + event.Day.Format("20060102"))
	for id := range want {
		want[id] = Line{Cause: IsExpired, Fix: FixPull}
	}
	check(want)
	_, err := h.Why(t.Context(), keyOf(h.tenant, account.CatalogRead), eventOf(event))
	wantKind(t, err, fault.Forbidden)
}

func TestEventOutcomes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	many := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID})
	for _, status := range []string{"delivered", "delivered", "pending", "held"} {
		dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: many, Status: status})
	}
	old := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{TenantID: h.tenant.ID}, CreatedAt: time.Now().AddDate(0, 0, -9), Status: "undelivered"}).Event
	none := dbtest.AddEvent(t, h.pool, dbtest.Event{TenantID: h.tenant.ID})
	foreign := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{}).Event
	got, err := h.Outcomes(t.Context(), h.caller, []catalog.Event{eventOf(many), eventOf(old), eventOf(none), eventOf(foreign)})
	if err != nil || len(got) != 2 || len(got[many.ID]) != 3 || got[many.ID][Delivered] != 2 || got[many.ID][Pending] != 1 || got[many.ID][Held] != 1 ||
		got[old.ID][Undelivered] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := h.Outcomes(t.Context(), h.caller, nil); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = h.Outcomes(t.Context(), keyOf(h.tenant, account.CatalogRead), nil)
	wantKind(t, err, fault.Forbidden)
}
