package lane_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/lane"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// Many endpoints of a tenant that answered well a moment ago begin to hang at once, with more slots than they use: its healthy one waits a moment at
// most, also when the hanging ones would have filled the tenant's cap.
func TestManyBeginToHang(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var hanging atomic.Int64
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		if strings.Contains(q.URL, "hangs") {
			hanging.Add(1)
			return hang(ctx, q)
		}
		return answer(200)
	})
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 40})
	const many = 25
	for range many {
		ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "https://hangs.example.com/", Types: []string{"a.b"}})
		r.run(`update lanes set ok_at = now() where endpoint_id = $1`, ep.ID)
		r.delivery(dbtest.Delivery{Endpoint: ep})
	}
	for deadline := time.Now().Add(10 * time.Second); hanging.Load() < many; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d endpoints are sent to\n%s", hanging.Load(), many, r.dump())
		}
	}
	healthy := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "https://healthy.example.com/"})
	for range 10 {
		begun := time.Now()
		d := r.delivery(dbtest.Delivery{Endpoint: healthy})
		r.attempted(d, 1)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the healthy endpoint's delivery took %s\n%s", took, r.dump())
		} else {
			t.Log(took)
		}
	}
}

// A tenant's cap that is lowered in the middle of traffic is in force within seconds, although lanes are busy and nobody waits.
func TestLoweredCap(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var now, most atomic.Int64
	r.process(func(context.Context, sender.Request) sender.Outcome {
		n := now.Add(1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		time.Sleep(20 * time.Millisecond) // the receiver's time
		now.Add(-1)
		return answer(200)
	})
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 20})
	for range 2 {
		r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 8})
	}
	r.run(`insert into outbox (tenant_id, id, type, version, resource_type, resource_id, occurred_at, data)
		select $1, 'e' || n, 'a.b', 1, 'r', 'r' || n, now(), '{}' from generate_series(1, 6000) n`, tenant.ID)
	peak := func(what string, within time.Duration, reached func(n int64) bool) {
		t.Helper()
		for deadline := time.Now().Add(within); ; {
			most.Store(0)
			before := r.count(`select count(*) from attempts`)
			for r.count(`select count(*) from attempts`) < before+60 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if n := most.Load(); reached(n) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%s: %d requests at once %s later\n%s", what, n, within, r.dump())
			}
		}
	}
	peak("with a cap of 20", 10*time.Second, func(n int64) bool { return n > 6 })
	r.run(`update tenants set concurrency = 3, updated_at = now()`)
	peak("with a cap of 3", 10*time.Second, func(n int64) bool { return n >= 1 && n <= 3 })
	peak("with a cap of 3, still", 10*time.Second, func(n int64) bool { return n >= 1 && n <= 3 })
	if n := r.count(`select max(cardinality(handed)) from lanes`); n > 250 {
		t.Errorf("a lane holds %d deliveries of a slow receiver", n)
	}
	if n := r.count(`select count(*) from due`); n < 100 {
		t.Errorf("%d deliveries are due at the end: the lanes were not busy all the time", n)
	}
}

// A lane holds what it sends in a moment, however much is due and however slow the receiver: the rest costs no memory and is in no
// doubt after a crash. A test event goes before all of it.
func TestSlowReceiverOfMuch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	started := make(chan struct{}, 10_000)
	var tested atomic.Bool
	r.process(func(_ context.Context, q sender.Request) sender.Outcome {
		started <- struct{}{}
		if strings.Contains(string(q.Body), `"test":true`) {
			tested.Store(true)
		}
		time.Sleep(50 * time.Millisecond) // the receiver's time
		return answer(200)
	})
	ep := r.endpoint(dbtest.Endpoint{Concurrency: 4})
	r.run(`insert into outbox (tenant_id, id, type, version, resource_type, resource_id, occurred_at, data)
		select $1, 'e' || n, 'a.b', 1, 'r', 'r' || n, now(), '{}' from generate_series(1, 3000) n`, ep.TenantID)
	for range 60 {
		<-started
	}
	for range 60 {
		<-started
		if n := r.count(`select cardinality(handed) from lanes`); n > 100 {
			t.Fatalf("a lane of four slots holds %d deliveries", n)
		}
	}
	// A test event goes before all that is due and held.
	ev := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID, Test: true})
	d := r.delivery(dbtest.Delivery{Endpoint: ep, Event: ev})
	r.attempted(d, 1)
	if n := r.count(`select count(*) from due`); n < 2000 || !tested.Load() {
		t.Errorf("the test event was sent when %d deliveries were left of 3000", n)
	}
}

// Lanes of endpoints that hang wait for their half of the cap without being tried again and again, and a healthy one goes by.
func TestBlockedSuspectsRest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		if strings.Contains(q.URL, "hangs") {
			return hang(ctx, q)
		}
		return answer(200)
	})
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 6})
	for range 9 {
		ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "https://hangs.example.com/"})
		r.run(`update lanes set suspect = true where endpoint_id = $1`, ep.ID)
		r.delivery(dbtest.Delivery{Endpoint: ep})
	}
	states := `select count(*) from (select count(*) filter (where state = 'running') as running, count(*) filter (where state = 'blocked') as blocked from lanes where suspect) x
		where running = 3 and blocked = 6`
	r.until(10*time.Second, 1, states)
	tickets := `select coalesce(max(id), 0) from river_job`
	before := r.count(tickets)
	healthy := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "https://healthy.example.com/"})
	const rounds = 8
	for range rounds {
		begun := time.Now()
		d := r.delivery(dbtest.Delivery{Endpoint: healthy})
		r.attempted(d, 1)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the healthy endpoint's delivery took %s\n%s", took, r.dump())
		}
		r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, healthy.ID)
	}
	// Two sweeps at least have looked at what is blocked.
	time.Sleep(1200 * time.Millisecond)
	if n := r.count(tickets) - before; n > rounds+3 {
		t.Errorf("%d tickets for %d deliveries: the blocked lanes are tried again and again", n, rounds)
	}
	if n := r.count(states); n != 1 {
		t.Error(r.dump())
	}
}

func few(places int) func(*lane.Config) { return func(c *lane.Config) { c.Places = places } }

// More lanes with endless work than places: each has its turn.
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(func(context.Context, sender.Request) sender.Outcome {
		time.Sleep(10 * time.Millisecond) // the receiver's time
		return answer(200)
	}, few(2))
	const endpoints = 8
	for range endpoints {
		ep := r.endpoint(dbtest.Endpoint{Concurrency: 2})
		r.run(`insert into outbox (tenant_id, id, type, version, resource_type, resource_id, occurred_at, data)
			select $1, 'e' || n, 'a.b', 1, 'r', 'r' || n, now(), '{}' from generate_series(1, 3000) n`, ep.TenantID)
	}
	// Four rounds of two lanes and a second each.
	r.until(15*time.Second, endpoints, `select count(distinct endpoint_id) from attempts`)
	if n := r.count(`select count(distinct endpoint_id) from due`); n != endpoints {
		t.Errorf("%d of %d endpoints have something left to do: they did not need to share", n, endpoints)
	}
}

// Endpoints of many tenants that hang hold neither a place for long nor, once known, any place of healthy ones.
func TestHangingLanesLeaveTheirPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var hanging atomic.Int64
	p := r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		if strings.Contains(q.URL, "hangs") {
			hanging.Add(1)
			return hang(ctx, q)
		}
		return answer(200)
	}, few(4))
	healthy := r.endpoint(dbtest.Endpoint{URL: "https://healthy.example.com/"})
	quick := func(what string, within time.Duration) {
		t.Helper()
		begun := time.Now()
		r.attempted(r.delivery(dbtest.Delivery{Endpoint: healthy}), 1)
		if took := time.Since(begun); took > within {
			t.Errorf("%s: the healthy endpoint's delivery took %s", what, took)
		}
	}
	for i := range 16 {
		ep := r.endpoint(dbtest.Endpoint{URL: "https://hangs.example.com/"})
		r.run(`update lanes set suspect = $2 where endpoint_id = $1`, ep.ID, i%2 == 0)
		r.delivery(dbtest.Delivery{Endpoint: ep})
	}
	quick("while eight unknown ones begin to hang in four places", 8*time.Second)
	for deadline := time.Now().Add(15 * time.Second); hanging.Load() < 16; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of 16 are sent to\n%s", hanging.Load(), r.dump())
		}
	}
	// The last of them have had their second.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, detached := p.Running(); detached == 16 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d of 16 have left their places", detached)
		}
	}
	for range 10 {
		quick("beside sixteen that hang", 2*time.Second)
	}
}
