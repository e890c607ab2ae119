package e2e

import (
	"testing"
	"time"
)

// TestParts runs web, worker and proxy as processes of their own; the proxy knows neither database nor keys.
func TestParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	alone := map[string]string{"WAYBILL_DATABASE_URL": "", "WAYBILL_SECRET_KEYS": "", "WAYBILL_PLATFORM_KEY": "", "WAYBILL_URL": ""}
	proxy := r.start(Launch{Name: "proxy", Roles: []string{"proxy"}, Env: alone})
	through := map[string]string{"WAYBILL_PROXY_URL": "http://" + proxy.Addr()}
	web := r.start(Launch{Name: "web", Roles: []string{"web"}, Env: through})
	r.tenant("parts", 0)
	place := r.place("parts", "parts", nil)
	if err := r.PublishAPI(t.Context(), r.ledger, Events("parts", "e2e.parts", "api", 5)...); err != nil {
		t.Fatal(err)
	}
	r.publish(place, "sql", 5)
	if n := r.count(`select count(*) from outbox`); n != 10 || r.ledger.Seen() != 0 {
		t.Errorf("with no worker %d events wait and %d requests were sent, want 10 and 0", n, r.ledger.Seen())
	}
	worker := r.start(Launch{Name: "worker", Roles: []string{"worker"}, Env: through})
	if err := r.ledger.WaitSeen(10, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Program{web, worker} {
		if status, err := p.Ready(t.Context()); status != 200 {
			t.Errorf("/readyz of the %s answers %d, %v", p.Name, status, err)
		}
	}
	var refusal *Refusal
	if err := r.CallAt(t.Context(), worker.Addr(), "GET", "/v1/tenants", nil, nil); !asRefusal(err, &refusal) || refusal.Status != 404 {
		t.Errorf("the worker serves the API: %v", err)
	}

	// Without the way out nothing is sent and nothing is lost, and it is no failure of the receiver's.
	addr := proxy.Addr()
	r.Kill(proxy)
	r.publish(place, "dark", 5)
	r.eventually(20*time.Second, 5, `select count(distinct delivery_id) from attempts where class = 'proxy'`)
	if n := r.count(`select count(*) from deliveries where status = 'pending' and failures = 0`); n != 5 {
		t.Errorf("%d deliveries wait with a whole schedule, want 5", n)
	}
	alone["WAYBILL_ADDR"] = addr
	r.start(Launch{Name: "proxy", Roles: []string{"proxy"}, Env: alone})
	if v := r.balances(30 * time.Second); v.Delivered != 15 {
		t.Errorf("%d of 15 deliveries are delivered", v.Delivered)
	}
}

// TestPublishedWhileDown publishes while no process of the program runs.
func TestPublishedWhileDown(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	program := r.start(Launch{})
	r.tenant("down", 0)
	place := r.place("down", "down", nil)
	if err := r.PublishAPI(t.Context(), r.ledger, Events("down", "e2e.down", "api", 20)...); err != nil {
		t.Fatal(err)
	}
	r.Kill(program) // perhaps before it has dispatched
	r.publish(place, "sql", 20)
	begun := time.Now()
	r.start(Launch{})
	if err := r.ledger.WaitSeen(40, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("everything had arrived %.1f s after the start", time.Since(begun).Seconds())
	if v := r.balances(30 * time.Second); v.Delivered != 40 {
		t.Errorf("%d of 40 deliveries are delivered", v.Delivered)
	}
}

// TestRiverAway takes River's table away for a while (CASES B23): what is published meanwhile is either dispatched with its tickets or not at all.
func TestRiverAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	r.start(Launch{})
	r.tenant("river", 0)
	place := r.place("river", "river", nil)
	r.publish(place, "before", 5)
	if err := r.ledger.WaitSeen(5, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	r.eventually(10*time.Second, 1, `select count(*) from lanes where state = 'idle'`)
	rename := func(from, to string) {
		if _, err := r.Pool.Exec(t.Context(), "alter table "+from+" rename to "+to); err != nil {
			t.Fatal(err)
		}
	}
	rename("river_job", "river_job_away")
	r.publish(place, "meanwhile", 20)
	// The dispatcher tries again and again; each time all of it is rolled back.
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if n := r.count(`select count(*) from outbox`); n != 20 {
			t.Fatalf("%d of 20 events are in the outbox while nothing can be queued", n)
		}
	}
	rename("river_job_away", "river_job")
	back := time.Now()
	if err := r.ledger.WaitSeen(25, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("everything had arrived %.1f s after the table was back", time.Since(back).Seconds())
	if v := r.balances(30 * time.Second); v.Delivered != 25 || v.Twice != 0 {
		t.Errorf("%d of 25 deliveries are delivered, %d were repeated", v.Delivered, v.Twice)
	}
}
