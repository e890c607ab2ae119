package lane_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// The first seed's bad week in seconds instead of minutes, against a receiver that is really down and really comes back: 300 events come while it is away; all of them are
// delivered soon after its return, never more at once than its limit, none twice, and the history says of each that it recovered.
func TestBadWeekOfARealReceiver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const events, limit = 300, 4
	var down atomic.Bool
	var wire, most, refused atomic.Int64
	var mu sync.Mutex
	seen := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n := wire.Add(1)
		defer wire.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		_, _ = io.Copy(io.Discard, q.Body)
		if down.Load() {
			refused.Add(1)
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				conn.Close() // as a server that is being restarted
			}
			return
		}
		time.Sleep(2 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		seen[q.Header.Get("webhook-id")]++
	}))
	defer receiver.Close()
	s, err := sender.New(sender.Config{Logger: r.log, Tunnel: func(ctx context.Context, address string) (net.Conn, *http.Response, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return c, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	change := policyOf(t, `timeout_seconds: 5`, `waits_between_attempts: [1s, 2s, 4s, 1h, 2h, 5h]`, `circuit_breaker: {consecutive_failures: 5, probe_every: [1s, 1s, 2s]}`)
	r.process(s.Send, change)
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: receiver.URL, Concurrency: limit})
	r.publish(tenant.UID, 1)
	r.until(15*time.Second, 1, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)

	down.Store(true)
	for range 15 {
		r.publish(tenant.UID, events/15)
		time.Sleep(200 * time.Millisecond)
	}
	r.until(15*time.Second, 1, `select count(*) from endpoint_health where endpoint_id = $1 and phase = 'open' and failing_since is not null`, ep.ID)
	met := refused.Load()
	down.Store(false)
	back := time.Now()
	r.until(30*time.Second, events+1, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	t.Logf("down for %d attempts; %d deliveries were there %s after its return", met, events, time.Since(back).Round(time.Millisecond))
	if met > 40 {
		t.Errorf("it was called %d times while it was down, with an open circuit", met)
	}
	if n := most.Load(); n > limit {
		t.Errorf("%d requests at once, its limit is %d", n, limit)
	}
	mu.Lock()
	for eventID, n := range seen {
		if n != 1 {
			t.Errorf("event %s was accepted %d times", eventID, n)
		}
	}
	if len(seen) != events+1 {
		t.Errorf("%d events were accepted, want %d", len(seen), events+1)
	}
	mu.Unlock()
	r.until(15*time.Second, 1, `select count(*) from lanes l join endpoint_health h using (endpoint_id) where l.endpoint_id = $1 and l.limit_now = 100
		and l.not_before is null and not l.ailing and h.phase = 'closed' and h.failing_since is null`, ep.ID)
	// What the pages tell: those that had failed have recovered, the others were delivered at their first attempt.
	history := &delivery.Service{DB: r.Pool, Ring: r.ring, Policies: policy.Builtin(), Lanes: lanes{r}, Audit: &account.Service{DB: r.Pool, Now: time.Now}}
	page, err := history.List(t.Context(), account.Waybill("test", tenant.ID), delivery.Filter{EndpointID: ep.ID, Status: delivery.Recovered}, "", 200)
	if err != nil {
		t.Fatal(err)
	}
	failed := r.count(`select count(*) from deliveries where endpoint_id = $1 and failures > 0`, ep.ID)
	if len(page.Deliveries) != failed || failed == 0 || failed > 60 {
		t.Errorf("%d have recovered by the history, %d had failed", len(page.Deliveries), failed)
	}
	for _, d := range page.Deliveries {
		if outcome := d.Outcome(); outcome != "Recovered by attempt "+string(rune('0'+d.Attempts)) {
			t.Errorf("%q after %d attempts", outcome, d.Attempts)
		}
	}
}
