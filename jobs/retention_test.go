package jobs_test

import (
	"log/slog"
	"testing"
	"time"

	"waybill/db/dbtest"
	"waybill/jobs"
)

// Days go when their time is over, the history before the catalog; one that something is due of stays; a tenant that keeps less loses its rows alone.
func TestRetention(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	now := time.Now()
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	tenant, brief := dbtest.AddTenant(t, pool, dbtest.Tenant{}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	if _, err := pool.Exec(t.Context(), `insert into tenant_limits (tenant_id, retention_days) values ($1, 33)`, brief.ID); err != nil {
		t.Fatal(err)
	}
	made := map[string]dbtest.Delivery{}
	add := func(name string, days int, of dbtest.Tenant, row dbtest.Delivery) {
		row.CreatedAt, row.Event.TenantID = ago(days), of.ID
		d := dbtest.AddDelivery(t, pool, row)
		dbtest.AddAttempt(t, pool, dbtest.Attempt{Delivery: d})
		made[name] = d
	}
	add("fresh", 1, tenant, dbtest.Delivery{Status: "delivered"})
	add("fresh of the brief", 1, brief, dbtest.Delivery{Status: "delivered"})
	add("middling", 35, tenant, dbtest.Delivery{Status: "delivered"})
	add("middling of the brief", 35, brief, dbtest.Delivery{Status: "undelivered", Reason: "schedule_exhausted"})
	add("old history", 50, tenant, dbtest.Delivery{Status: "held", Reason: "endpoint_paused"})
	add("old and due", 52, tenant, dbtest.Delivery{})
	add("ancient", 120, tenant, dbtest.Delivery{Status: "delivered"})
	if _, err := pool.Exec(t.Context(), `insert into event_ids (tenant_id, id, content, day) values ($1, 'old', '', current_date - 120), ($1, 'new', '', current_date)`, tenant.ID); err != nil {
		t.Fatal(err)
	}
	r := &jobs.Retention{Pool: pool, Events: 90 * 24 * time.Hour, Deliveries: 40 * 24 * time.Hour, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	for range 2 { // again changes nothing
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	count := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, want := range map[string][4]int{ // delivery, attempts, parked, event
		"fresh": {1, 1, 0, 1}, "fresh of the brief": {1, 1, 0, 1}, "middling": {1, 1, 0, 1}, "middling of the brief": {0, 0, 0, 0},
		"old history": {0, 0, 0, 1}, "old and due": {1, 1, 0, 1}, "ancient": {0, 0, 0, 0},
	} {
		d := made[name]
		got := [4]int{
			count(`select count(*) from deliveries where id = $1`, d.ID), count(`select count(*) from attempts where delivery_id = $1`, d.ID),
			count(`select count(*) from parked where delivery_id = $1`, d.ID), count(`select count(*) from events where id = $1`, d.Event.ID),
		}
		if got != want {
			t.Errorf("%s: %v of delivery, attempts, parked and event are left, want %v", name, got, want)
		}
	}
	if n := count(`select count(*) from event_ids`); n != 1 {
		t.Errorf("%d ids are remembered, want 1", n)
	}
	if n := count(`select count(*) from pg_inherits where inhparent = 'deliveries'::regclass and inhrelid::regclass::text like '%' || to_char(current_date - 50, 'YYYYMMDD')`); n != 0 {
		t.Error("the partition of a day that is over is still there")
	}
}
