package delivery

import (
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

func TestRead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	next := time.Now().Add(time.Hour)
	made := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{
		Endpoint: dbtest.AddEndpoint(t, h.pool, dbtest.Endpoint{TenantID: h.tenant.ID, URL: "https://anna:secret@shop.test:8443/x?y=z", Description: "The shop"}),
		Attempts: 2, Failures: 2, LastClass: "status", LastCode: 503, LastMS: 1200, NextAt: next,
	})
	got, err := h.Read(t.Context(), h.caller, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != made.ID || got.EventID != made.Event.ID || got.EndpointID != made.Endpoint.ID || got.Type != made.Event.Type ||
		got.ResourceID != made.Event.ResourceID || !got.CreatedAt.Equal(made.CreatedAt) || got.Status != Pending || got.Attempts != 2 ||
		got.LastCode != 503 || got.Last != 1200*time.Millisecond || got.NextAt == nil || !got.NextAt.Equal(next.Truncate(time.Microsecond)) ||
		got.NextTrigger != "retry" || got.EndpointHost != "shop.test:8443" || got.EndpointDescription != "The shop" || got.Scheduled != 10 {
		t.Errorf("%+v", got)
	}
	if got.Outcome() != "Retrying 2/10" {
		t.Errorf("outcome %q", got.Outcome())
	}
	for _, deliveryID := range []string{"", "dlv_1", made.Event.ID, id.New(id.Delivery, time.Now()), id.New(id.Delivery, time.Now().AddDate(-3, 0, 0))} {
		_, err := h.Read(t.Context(), h.caller, deliveryID)
		wantKind(t, err, fault.NotFound)
	}
	_, mine := h.Read(t.Context(), h.caller, id.New(id.Delivery, time.Now()))
	_, theirs := h.Read(t.Context(), h.stranger, made.ID)
	if theirs == nil || theirs.Error() != mine.Error() {
		t.Errorf("another tenant's delivery: %v, an unknown one: %v", theirs, mine)
	}
	_, err = h.Read(t.Context(), keyOf(h.tenant, account.CatalogRead), made.ID)
	wantKind(t, err, fault.Forbidden)
}

// A test event's delivery has its id from when it was asked for; its row is of the day on which it was dispatched.
func TestReadOfALaterDay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for days := range 4 {
		deliveryID := id.New(id.Delivery, time.Now().AddDate(0, 0, -days))
		dbtest.AddDelivery(t, h.pool, dbtest.Delivery{ID: deliveryID, Event: dbtest.Event{TenantID: h.tenant.ID, Test: true}})
		if got, err := h.Read(t.Context(), h.caller, deliveryID); err != nil || got.ID != deliveryID {
			t.Errorf("%d days later: %v", days, err)
		}
		_, err := h.Read(t.Context(), h.stranger, deliveryID)
		wantKind(t, err, fault.NotFound)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before := now.Add(-time.Minute)
	for want, d := range map[string]Delivery{
		"Pending":                {Status: Pending},
		"Retrying 3/10":          {Status: Pending, Failures: 3, Scheduled: 10},
		"Retrying 12/12":         {Status: Pending, Failures: 12, Scheduled: 10},
		"Delivered":              {Status: Delivered, Attempts: 2},
		"Recovered by attempt 4": {Status: Delivered, Failures: 3, Attempts: 4, LastAt: &before, FinishedAt: &now},
		"Recovered":              {Status: Delivered, Failures: 3, Attempts: 5, LastAt: &now, FinishedAt: &before},
		"Undelivered":            {Status: Undelivered, Failures: 10},
		"Held":                   {Status: Held},
		"Cancelled":              {Status: Cancelled},
	} {
		if got := d.Outcome(); got != want {
			t.Errorf("%+v: %q, want %q", d, got, want)
		}
	}
}
