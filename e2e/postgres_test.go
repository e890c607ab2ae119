package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// steady publishes a few events for every place, again and again, until stop is called, and goes on when the database is away: an event counts as
// committed once a publisher has heard so, and one that was in doubt is published again under its id.
func (r *rig) steady(places []*Place, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			var events []Event
			for _, p := range places {
				events = append(events, Events(p.Tenant, p.Types[0], fmt.Sprintf("s%d-%s", n, p.Key), 3)...)
			}
			for r.PublishSQL(context.WithoutCancel(ctx), r.ledger, events...) != nil {
				<-tick.C
			}
			<-tick.C
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// watchReady asks a program's /readyz all the time and counts what it says.
func (r *rig) watchReady(p *Program) (stop func() map[int]int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	said := map[int]int{}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			asking, cancel := context.WithTimeout(ctx, 5*time.Second)
			status, err := p.Ready(asking)
			cancel()
			if err == nil {
				said[status]++
			}
			<-tick.C
		}
	})
	return func() map[int]int {
		cancel()
		wg.Wait()
		return said
	}
}

func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, true)
	programs := []*Program{r.start(Launch{}), r.start(Launch{Roles: []string{"worker"}})}
	r.tenant("pg", 0)
	var places []*Place
	for n := range 6 {
		places = append(places, r.place("pg", fmt.Sprintf("pg-%d", n), Always(Answer{Kind: Reply, Status: 200, After: time.Duration(5+5*n) * time.Millisecond})))
	}
	stop := r.steady(places, 50*time.Millisecond)
	for _, way := range []struct {
		name string
		end  func() error
	}{
		{"fast restart", func() error { return r.Postgres.Restart(t.Context()) }},
		{"immediate shutdown", func() error { return r.CrashPostgres(t.Context(), syscall.SIGQUIT, 30*time.Second) }},
		{"kill -9", func() error { return r.CrashPostgres(t.Context(), syscall.SIGKILL, 30*time.Second) }},
	} {
		if err := r.ledger.WaitSeen(r.ledger.Seen()+200, 30*time.Second); err != nil {
			t.Fatalf("before the %s: %v", way.name, err)
		}
		watch := r.watchReady(programs[0])
		if err := way.end(); err != nil {
			t.Fatalf("%s: %v", way.name, err)
		}
		back := time.Now()
		for _, p := range places {
			r.arrives(p, "after-"+way.name[:4], back.Add(30*time.Second))
		}
		running := time.Since(back)
		for _, p := range programs {
			if err := Until(t.Context(), 30*time.Second, p.Name+" is ready", func() (bool, error) {
				status, err := p.Ready(t.Context())
				return status == http.StatusOK, err
			}); err != nil {
				t.Fatal(err)
			}
		}
		said := watch()
		t.Logf("%s: all lanes ran again %.1f s, and all was ready %.1f s after Postgres answered; readyz said %v", way.name, running.Seconds(), time.Since(back).Seconds(), said)
		if said[http.StatusServiceUnavailable] == 0 {
			t.Errorf("%s: /readyz never said that the database was away", way.name)
		}
	}
	stop()
	if v := r.balances(time.Minute); v.Delivered != v.Deliveries {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, v.Deliveries)
	}
}

// arrives publishes one event for a place and waits until it is received.
func (r *rig) arrives(p *Place, prefix string, deadline time.Time) {
	r.t.Helper()
	events := Events(p.Tenant, p.Types[0], prefix+"-"+p.Key, 1)
	if err := Until(r.t.Context(), time.Until(deadline), "an event for "+p.Key+" is published", func() (bool, error) {
		err := r.PublishSQL(r.t.Context(), r.ledger, events...)
		return err == nil, err
	}); err != nil {
		r.t.Fatal(err)
	}
	if err := Until(r.t.Context(), time.Until(deadline), "an event for "+p.Key+" arrives", func() (bool, error) { return r.ledger.Times(p, events[0].ID) > 0, nil }); err != nil {
		r.t.Fatal(err)
	}
}

// TestPostgresSilent has a database that neither answers nor refuses, for longer than a lease: requests on the wire must be let go before others could
// take their lanes, and everything must go on by itself afterwards.
func TestPostgresSilent(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", true)
	program := r.start(Launch{})
	r.tenant("silent", 0)
	hang := r.place("silent", "silent-hang", func(h Hit) Answer {
		if h.N == 1 {
			return Answer{Kind: Hang} // for the 15 s of the standard policy
		}
		return Answer{Kind: Reply, Status: http.StatusOK}
	})
	well := r.place("silent", "silent-well", Always(Answer{Kind: Reply, Status: http.StatusOK, After: 20 * time.Millisecond}))
	r.publish(hang, "a", 2)
	r.publish(well, "a", mostly(400))
	if err := Until(t.Context(), 20*time.Second, "both places hold requests", func() (bool, error) {
		return r.ledger.OnWire(well) > 0 && r.ledger.OnWire(hang) > 0, nil
	}); err != nil {
		t.Fatal(err)
	}
	postmaster := r.Postgres.PID()
	frozen := time.Now()
	r.freeze(postmaster)
	defer r.thaw(postmaster)
	if status, _ := program.Ready(t.Context()); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d while the database is silent", status)
	}
	// The last heartbeat was answered at most a moment before; the lanes stop four seconds after it was sent, and others may take them after five.
	if err := Until(t.Context(), 5*time.Second-time.Since(frozen), "the requests on the wire are let go", func() (bool, error) { return r.ledger.OnWire(hang, well) == 0, nil }); err != nil {
		t.Error(err)
	}
	t.Logf("the last request was let go %.1f s after the database had fallen silent", time.Since(frozen).Seconds())
	if err := Until(t.Context(), 10*time.Second, "the lease is over", func() (bool, error) { return time.Since(frozen) > 6*time.Second, nil }); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	r.thaw(postmaster)
	for _, p := range []*Place{hang, well} {
		r.arrives(p, "after", back.Add(30*time.Second))
	}
	t.Logf("all lanes ran again %.1f s after the database spoke", time.Since(back).Seconds())
	if v := r.balances(time.Minute); v.Delivered != v.Deliveries {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, v.Deliveries)
	}
}

// TestConnectionsCut ends the program's connections to Postgres several times a second, so that now and then a commit's answer is lost: nobody may take that
// for a failure and forget what was committed.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	for range 2 {
		r.start(Launch{})
	}
	var places []*Place
	for n := range 3 {
		uid := fmt.Sprintf("cut-%d", n)
		r.tenant(uid, 4)
		for i := range 8 {
			wait := time.Duration(r.random.IntN(10)) * time.Millisecond
			places = append(places, r.place(uid, fmt.Sprintf("%s-%d", uid, i), Always(Answer{Kind: Reply, Status: http.StatusOK, After: wait}), func(p *Place) { p.Limit = 2 }))
		}
	}
	stop := r.steady(places, 100*time.Millisecond)
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	cut := 0
	for begun := time.Now(); time.Since(begun) < 8*time.Second; <-tick.C {
		cut += r.count(`select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and application_name like 'waybill%'`)
	}
	stop()
	t.Logf("%d connections were cut", cut)
	if v := r.balances(30 * time.Second); v.Delivered != v.Deliveries {
		t.Errorf("%d of %d deliveries are delivered", v.Delivered, v.Deliveries)
		for _, line := range r.stuck() {
			t.Log(line)
		}
	}
}

// stuck says where the lanes are that have something due.
func (r *rig) stuck() []string {
	rows, err := r.Pool.Query(r.t.Context(), `
		select format('%s %s gen %s since %s, slots %s, owner %s (lease until %s)', l.endpoint_id, l.state, l.gen, l.since, l.slots, l.owner, w.lease_until)
		from lanes l left join workers w on w.id = l.owner
		where exists (select from due d where d.endpoint_id = l.endpoint_id)`)
	if err != nil {
		return []string{err.Error()}
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return []string{err.Error()}
	}
	return append(lines, fmt.Sprintf("at %s", time.Now().UTC()))
}
