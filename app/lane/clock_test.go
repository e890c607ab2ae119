package lane_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"waybill/app/lane"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// CASES B64: a worker whose clock is six minutes wrong signs, stamps and names by the database's.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"fast": 6 * time.Minute, "slow": -6 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var mu sync.Mutex
			var signed []int64
			r.process(func(_ context.Context, q sender.Request) sender.Outcome {
				at, err := strconv.ParseInt(header(q, "webhook-timestamp"), 10, 64)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				signed = append(signed, at)
				mu.Unlock()
				return answer(200)
			}, func(c *lane.Config) { c.Now = func() time.Time { return time.Now().Add(wrong) } })
			tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
			r.endpoint(dbtest.Endpoint{TenantID: tenant.ID})
			r.publish(tenant.UID, 3)
			r.until(10*time.Second, 3, `select count(*) from deliveries where status = 'delivered'`)
			mu.Lock()
			defer mu.Unlock()
			for _, at := range signed {
				if off := time.Since(time.Unix(at, 0)); off.Abs() > 5*time.Second {
					t.Errorf("a signature is %s off", off)
				}
			}
			if n := r.count(`select count(*) from attempts where abs(extract(epoch from clock_timestamp() - started_at)) > 15`); n != 0 {
				t.Errorf("%d attempts stand at a wrong time in the history", n)
			}
		})
	}
}
