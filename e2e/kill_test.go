package e2e

import (
	"fmt"
	"testing"
	"time"
)

// recovered is how long after the kill every place that had something due sent again, or had nothing due any more.
func (r *rig) recovered(killed time.Time, within time.Duration) time.Duration {
	r.t.Helper()
	sends := func(p *Place) (time.Time, bool) {
		requests := r.ledger.Requests()
		for i := len(requests) - 1; i >= 0 && requests[i].Arrived.After(killed); i-- {
			if requests[i].Place == p {
				return requests[i].Arrived, true
			}
		}
		return time.Time{}, false
	}
	last := killed
	for _, p := range r.ledger.Places() {
		err := Until(r.t.Context(), within, p.Key+" sends again", func() (bool, error) {
			if _, ok := sends(p); ok {
				return true, nil
			}
			due, err := r.Count(r.t.Context(), `select count(*) from due where endpoint_id = $1 and next_at <= now()`, p.EndpointID)
			return err == nil && due == 0, err
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	first := map[*Place]bool{}
	for _, it := range r.ledger.Requests() {
		if it.Arrived.After(killed) && !first[it.Place] {
			first[it.Place] = true
			if it.Arrived.After(last) {
				last = it.Arrived
			}
		}
	}
	return last.Sub(killed)
}

func TestKilledWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	worker := r.start(Launch{})
	each := mostly(240)
	for tenant := range 2 {
		uid := fmt.Sprintf("kill-%d", tenant)
		r.tenant(uid, 0)
		for n := range 4 {
			wait := time.Duration(30+r.random.IntN(70)) * time.Millisecond
			p := r.place(uid, fmt.Sprintf("kill-%d-%d", tenant, n), Always(Answer{Kind: Reply, Status: 200, After: wait}))
			r.publish(p, "k", each)
		}
	}
	for n := range 3 {
		// Somewhere in the first, the second and the third quarter of the work.
		if err := r.ledger.WaitSeen(2*each*n+each/4+r.random.IntN(2*each-each/4), time.Minute); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		r.Kill(worker)
		worker = r.start(Launch{})
		up := time.Since(killed)
		took := r.recovered(killed, 30*time.Second)
		t.Logf("kill %d: the next process was ready after %.1f s, the last lane sent again %.1f s after the kill", n+1, up.Seconds(), took.Seconds())
		if took > 30*time.Second {
			t.Errorf("the lanes were running again only after %s", took)
		}
	}
	v := r.balances(time.Minute)
	if v.Delivered != 8*each {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, 8*each)
	}
	if v.Unknown == 0 {
		t.Error("no interrupted attempt is in the history as of unknown outcome")
	}
}

// TestLimitsUnderKills watches, at the receiver, what three processes do while they are killed one after the other.
func TestLimitsUnderKills(t *testing.T) {
	t.Parallel()
	const tenants, places = 4, 5
	r := newRig(t, quick, false)
	programs := []*Program{r.start(Launch{})}
	var all []*Place
	for tenant := range tenants {
		uid := fmt.Sprintf("caps-%d", tenant)
		r.tenant(uid, 3)
		for n := range places {
			wait := time.Duration(5+r.random.IntN(40)) * time.Millisecond
			fails := n%3 == 0
			script := func(h Hit) Answer {
				if fails && h.N == 1 {
					return Answer{Kind: Reply, Status: 500, After: wait}
				}
				return Answer{Kind: Reply, Status: 200, After: wait}
			}
			all = append(all, r.place(uid, fmt.Sprintf("caps-%d-%d", tenant, n), script, func(p *Place) { p.Limit = 2 }))
		}
	}
	for range 2 {
		programs = append(programs, r.start(Launch{}))
	}
	each := mostly(160)
	for _, p := range all {
		r.publish(p, "a", each)
	}
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for kill := range 4 {
		<-tick.C
		n := r.random.IntN(len(programs))
		r.Kill(programs[n])
		programs[n] = r.start(Launch{})
		for _, p := range all {
			r.publish(p, fmt.Sprint("b", kill), each/8)
		}
	}
	v := r.balances(90 * time.Second)
	if want := len(all) * (each + 4*(each/8)); v.Delivered != want {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, want)
	}
	if v.PeakTenant < 3 || v.PeakPlace < 2 {
		t.Errorf("at most %d requests of a tenant and %d of an endpoint were on the wire: the limits were never put to the test", v.PeakTenant, v.PeakPlace)
	}
}
