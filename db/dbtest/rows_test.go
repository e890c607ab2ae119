package dbtest_test

import (
	"testing"
	"time"

	"waybill/db/dbtest"
)

// Each kind of row goes in with nothing said, in any day, and brings along what belongs to it.
func TestRowsGoIn(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	attempt := dbtest.AddAttempt(t, pool, dbtest.Attempt{})
	old := time.Now().Add(-40 * 24 * time.Hour)
	pending := dbtest.AddDelivery(t, pool, dbtest.Delivery{CreatedAt: old})
	held := dbtest.AddDelivery(t, pool, dbtest.Delivery{Endpoint: pending.Endpoint, Status: "held"})
	resent := dbtest.AddDelivery(t, pool, dbtest.Delivery{Event: pending.Event, Status: "delivered", NextAt: time.Now()})

	if held.Event.TenantID != pending.Endpoint.TenantID || resent.Endpoint.TenantID != pending.Event.TenantID {
		t.Error("what was filled in belongs to another tenant")
	}
	for sql, want := range map[string]int{
		"select count(*) from tenants": 2,
		"select count(*) from attempts where delivery_id = '" + attempt.Delivery.ID + "'": 1,
		"select count(*) from due": 2,
		"select count(*) from due where trigger = 'first' and delivery_id = '" + pending.ID + "'": 1,
		"select count(*) from due where trigger = 'manual' and delivery_id = '" + resent.ID + "'": 1,
		"select count(*) from parked where delivery_id = '" + held.ID + "'":                       1,
		"select count(*) from lanes": 3,
		"select count(*) from deliveries d join events e on e.position = d.position and e.day = d.day": 4,
		"select last from positions": 3,
	} {
		var got int
		if err := pool.QueryRow(t.Context(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", sql, got, err, want)
		}
	}
}
