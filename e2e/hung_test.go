package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// latencies publishes one event every 25 ms for each place in turn and returns the times from commit to arrival, sorted.
func (r *rig) latencies(places []*Place, prefix string, n int) []time.Duration {
	r.t.Helper()
	committed := map[string]time.Time{}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		e := r.publish(places[i%len(places)], fmt.Sprint(prefix, i), 1)[0]
		committed[e.ID] = time.Now()
		<-tick.C
	}
	for id := range committed {
		if err := Until(r.t.Context(), 20*time.Second, id+" arrives", func() (bool, error) {
			for _, p := range places {
				if r.ledger.Times(p, id) > 0 {
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	var took []time.Duration
	for _, it := range r.ledger.Requests() {
		if at, ok := committed[it.ID]; ok {
			took = append(took, it.Arrived.Sub(at))
		}
	}
	slices.Sort(took)
	return took
}

// quantiles are for people. d is sorted.
func quantiles(d []time.Duration) string {
	at := func(q float64) time.Duration {
		return d[min(int(q*float64(len(d))), len(d)-1)].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, most %s", at(0.5), at(0.99), at(1))
}

// TestHungEndpoints holds healthy endpoints against endpoints that never answer, of their own tenant and of others. A hung request keeps its slot for 15 s
// (the standard policy), so whoever had to wait behind one would wait that long.
func TestHungEndpoints(t *testing.T) {
	t.Parallel()
	tenants, each := 30, mostly(8)
	r := newRig(t, "", false)
	r.start(Launch{})
	var hung, healthy []*Place
	for tenant := range tenants {
		uid := fmt.Sprintf("hung-%d", tenant)
		r.tenant(uid, 0)
	}
	r.tenant("mixed", 0)
	r.tenant("well", 0)
	var wg sync.WaitGroup
	var mu sync.Mutex
	hang := func(tenant string, n int) {
		wg.Go(func() {
			for i := range n {
				p := r.place(tenant, fmt.Sprintf("%s-h%d", tenant, i), Always(Answer{Kind: Hang}))
				mu.Lock()
				hung = append(hung, p)
				mu.Unlock()
			}
		})
	}
	for tenant := range tenants {
		hang(fmt.Sprintf("hung-%d", tenant), each)
	}
	hang("mixed", 10)
	wg.Wait()
	healthy = append(healthy, r.place("mixed", "mixed-ok", nil), r.place("well", "well-ok", nil))

	alone := r.latencies(healthy, "alone", 60)
	var events []Event
	for _, p := range hung {
		events = append(events, Events(p.Tenant, p.Types[0], "h-"+p.Key, 20)...)
	}
	if err := r.PublishSQL(t.Context(), r.ledger, events...); err != nil {
		t.Fatal(err)
	}
	if err := Until(t.Context(), 20*time.Second, "every hung endpoint holds a request", func() (bool, error) {
		for _, p := range hung {
			if r.ledger.OnWire(p) == 0 {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		t.Fatalf("%v (%d requests hang at %d endpoints)", err, r.ledger.OnWire(hung...), len(hung))
	}
	beside := r.latencies(healthy, "beside", 120)
	t.Logf("commit to receipt alone: %s; beside %d hung endpoints with %d requests on the wire: %s", quantiles(alone), len(hung), r.ledger.OnWire(hung...), quantiles(beside))
	if most := beside[len(beside)-1]; most > 5*time.Second {
		t.Errorf("a healthy endpoint waited %s for its event", most)
	}
}

// TestBacklog holds a tenant with a steady trickle against one with thousands of events waiting, half of which fail the first time (CASES B72).
func TestBacklog(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	r.start(Launch{})
	r.tenant("loud", 10)
	r.tenant("quiet", 0)
	var loud []*Place
	for n := range 3 {
		loud = append(loud, r.place("loud", fmt.Sprintf("loud-%d", n), func(h Hit) Answer {
			a := Answer{Kind: Reply, Status: 200, After: 3 * time.Millisecond}
			if h.N == 1 && len(h.ID)%2 == 0 {
				a.Status = 503
			}
			return a
		}))
	}
	quiet := r.place("quiet", "quiet", nil)
	alone := r.latencies([]*Place{quiet}, "alone", 40)
	each := mostly(2000)
	for _, p := range loud {
		r.publish(p, "l", each)
	}
	if err := r.ledger.WaitSeen(len(alone)+50, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	beside := r.latencies([]*Place{quiet}, "beside", 80)
	left := r.count(`select (select count(*) from outbox) + (select count(*) from due)`)
	t.Logf("commit to receipt alone: %s; beside %d events of another tenant, of which %d still waited at the end: %s", quantiles(alone), 3*each, left, quantiles(beside))
	if most := beside[len(beside)-1]; most > 5*time.Second {
		t.Errorf("the quiet tenant waited %s for its event", most)
	}
	if v := r.balances(time.Minute); v.Delivered != v.Deliveries {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, v.Deliveries)
	}
}
