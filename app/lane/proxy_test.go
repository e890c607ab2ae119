package lane_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/sender"
	"waybill/db/dbtest"
)

// While our own proxy is away, an endpoint's waiting deliveries do not each find that out: a few attempts say so in the history, and all goes on by itself
// when the proxy is back.
func TestProxyAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var away atomic.Bool
	away.Store(true)
	r.process(func(context.Context, sender.Request) sender.Outcome {
		if away.Load() {
			return sender.Outcome{Class: sender.Proxy, Err: "our way out failed"}
		}
		return answer(200)
	})
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	r.endpoint(dbtest.Endpoint{TenantID: tenant.ID})
	const waiting = 300
	r.publish(tenant.UID, waiting)
	r.until(10*time.Second, waiting, `select count(*) from deliveries`)
	time.Sleep(3 * time.Second) // the length of the outage
	if n := r.count(`select count(*) from attempts where class = 'proxy'`); n < 1 || n > 20 {
		t.Errorf("%d attempts met the missing proxy, of %d deliveries waiting", n, waiting)
	}
	if n := r.count(`select count(*) from deliveries where failures > 0`); n != 0 {
		t.Errorf("%d deliveries have used a step of their schedule", n)
	}
	away.Store(false)
	r.until(20*time.Second, waiting, `select count(*) from deliveries where status = 'delivered'`)
}
