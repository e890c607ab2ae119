package server_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/outbox"
	"waybill/db/dbtest"
)

// What an endpoint held while it was paused arrives once it is caught up, each event once, behind what is new; and a catch-up that is stopped
// sends no more within a second.
func TestCatchUpAfterAPause(t *testing.T) {
	t.Parallel()
	const held = 300
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	var slow atomic.Bool
	rcv := newReceiver(t, func(http.ResponseWriter, *http.Request) {
		if slow.Load() {
			time.Sleep(50 * time.Millisecond)
		}
	})
	ep, _ := sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL + "/hooks", State: "paused"})
	events := make([]outbox.Event, held)
	for i := range events {
		events[i] = outbox.Event{Data: []byte(`{}`)}
	}
	sys.publish(tenant.UID, events...)
	eventually(t, sys.Pool, 20*time.Second, held, `select count(*) from parked`)
	caller := account.Waybill("test", tenant.ID)
	if _, err := sys.Services.Endpoints.Enable(t.Context(), caller, ep.ID); err != nil {
		t.Fatal(err)
	}
	recover := func() delivery.Recovery {
		t.Helper()
		r, err := sys.Services.Deliveries.Recover(t.Context(), caller, ep.ID, delivery.RecoverInput{Since: time.Now().Add(-time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	slow.Store(true)
	first := recover()
	rcv.next(t)
	if _, err := sys.Services.Deliveries.RecoveryCancel(t.Context(), caller, first.ID); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	stopped := rcv.count()
	time.Sleep(500 * time.Millisecond)
	if more := rcv.count() - stopped; more > 20 || stopped > held*3/4 {
		t.Errorf("%d were sent before the stop was in force, and %d after it", stopped, more)
	}
	eventually(t, sys.Pool, 20*time.Second, 1, `select count(*) from recoveries where state = 'cancelled'`)
	slow.Store(false)
	second := recover()
	eventually(t, sys.Pool, 30*time.Second, 1, `select count(*) from recoveries where state = 'done'`)
	eventually(t, sys.Pool, 10*time.Second, held, `select count(*) from deliveries where status = 'delivered' and attempts = 1`)
	r, err := sys.Services.Deliveries.Recovery(t.Context(), caller, second.ID)
	if err != nil || r.Delivered != second.Total || r.Failed+r.Skipped() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if rcv.count() != held {
		t.Errorf("%d requests, want %d", rcv.count(), held)
	}
	var triggers int
	if err := sys.Pool.QueryRow(t.Context(), `select count(*) from attempts where trigger = 'recover' and requested_by = 'waybill'`).Scan(&triggers); err != nil || triggers != held {
		t.Errorf("%d attempts say that they are of a catch-up, %v", triggers, err)
	}
}
