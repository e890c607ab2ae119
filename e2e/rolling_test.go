package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// load publishes one event at a time through a balancer, for the places in turn, and reads beside it, until the returned function is called.
func (r *rig) load(b *Balancer, places []*Place, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var calls sync.WaitGroup
		defer calls.Wait()
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			p := places[n%len(places)]
			calls.Go(func() {
				// A failure is in the balancer's book. A call under way is let go to its end.
				_ = b.Publish(context.WithoutCancel(ctx), r.ledger, Events(p.Tenant, p.Types[0], fmt.Sprintf("load-%d", n), 1)...)
				if n%10 == 0 {
					_ = b.Call(context.WithoutCancel(ctx), http.MethodGet, "/v1/tenants/"+p.Tenant+"/endpoints", nil)
				}
			})
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestRollingRestart replaces two web and two worker processes one after the other under steady load, as a deployment does, and then migrates the
// database under the running ones as a later version would: no request to the API fails, and every event arrives.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, quick, false)
	launch := func(role string, n int) Launch {
		return Launch{Name: fmt.Sprintf("%s %d", role, n), Roles: []string{role}, Env: map[string]string{"WAYBILL_DRAIN": "2s"}}
	}
	var running []*Program
	for n := range 2 {
		running = append(running, r.start(launch("web", n)), r.start(launch("worker", n)))
	}
	// Jobs that another version has left (CASES B48): of a kind that this one does not know, with one try each, and tickets that it cannot use.
	if _, err := r.Pool.Exec(t.Context(), `
		insert into river_job (kind, queue, args, max_attempts) select 'deliver_v2', 'lanes', '{"delivery":1}', 1 from generate_series(1, 1000);
		insert into river_job (kind, queue, args, max_attempts) select 'lane', 'lanes', args::jsonb, 10
		from unnest(array['{"endpoint":"ep_none","tenant":"tnt_none","gen":1,"of_later":[1]}', '{}', '{"endpoint":7}', '[]']) args`); err != nil {
		t.Fatal(err)
	}
	var places []*Place
	for tenant := range 2 {
		uid := fmt.Sprintf("rolling-%d", tenant)
		r.tenant(uid, 0)
		for n := range 3 {
			places = append(places, r.place(uid, fmt.Sprintf("rolling-%d-%d", tenant, n), nil))
		}
	}
	balancer := NewBalancer(t.Context(), r.System, 50*time.Millisecond)
	defer balancer.Close()
	if n := balancer.Ready(); n != 2 {
		t.Fatalf("%d web processes are ready", n)
	}
	stop := r.load(balancer, places, mostly(50))
	stopLoad := sync.OnceFunc(stop)
	defer stopLoad()
	if err := r.ledger.WaitSeen(10, time.Minute); err != nil {
		t.Fatal(err)
	}

	for n, old := range running {
		begun := time.Now()
		code, err := r.Stop(old, 30*time.Second)
		if err != nil || code != 0 {
			t.Fatalf("%s ended with code %d: %v\n%s", old.Name, code, err, old.Tail(20))
		}
		down := time.Since(begun)
		running[n] = r.start(launch(old.Roles[0], n+2))
		t.Logf("%s stopped in %.1f s, the next was ready %.1f s later", old.Name, down.Seconds(), time.Since(begun).Seconds()-down.Seconds())
		if old.Has("web") {
			if err := Until(t.Context(), time.Minute, "both web processes get requests", func() (bool, error) { return balancer.Ready() == 2, nil }); err != nil {
				t.Fatal(err)
			}
		}
	}

	// The next version's migration, as its migrator would apply it, while this version runs.
	if _, err := r.Pool.Exec(t.Context(), `
		begin;
		alter table endpoints add column of_later text;
		alter table deliveries add column of_later text;
		create table of_later (id integer primary key);
		insert into migrations (name, checksum) values ('`+Later+`', 'x');
		commit`); err != nil {
		t.Fatal(err)
	}
	seen := r.ledger.Seen()
	if err := r.ledger.WaitSeen(seen+mostly(60), time.Minute); err != nil {
		t.Error(err)
	}
	for _, p := range running {
		if status, err := p.Ready(t.Context()); status != http.StatusOK {
			t.Errorf("%s, under which the database was migrated: /readyz says %d, %v", p.Name, status, err)
		}
	}
	late, err := r.Spawn(launch("worker", 9))
	if err != nil {
		t.Fatal(err)
	}
	code, err := late.WaitExit(time.Minute)
	if err != nil || code != 1 || !strings.Contains(late.Tail(5), "schema is newer than this program") {
		t.Errorf("a process that starts on a schema newer than itself ends with %d, %v:\n%s", code, err, late.Tail(5))
	}
	late.Kill() // it has ended, as it was asked to
	r.Forget(late)

	stopLoad()
	answered, refused, failures := balancer.Tally()
	t.Logf("%d requests answered, %d connections refused", answered, refused)
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed:\n%s", len(failures), answered+len(failures), strings.Join(failures, "\n"))
	}
	if v := r.balances(time.Minute); v.Delivered != r.ledger.Committed() || v.Unknown != 0 || v.Twice != 0 {
		t.Errorf("%d of %d events are delivered, %d repeats, %d of unknown outcome", v.Delivered, r.ledger.Committed(), v.Twice, v.Unknown)
	}
	if n := r.count(`select count(*) from river_job where kind = 'deliver_v2' and state = 'available' and attempt = 0`); n != 1000 {
		t.Errorf("%d of 1000 jobs of a kind of later wait untouched", n)
	}
	if n := r.count(`select count(*) from river_job where kind = 'lane' and state in ('discarded', 'cancelled')`); n != 0 {
		t.Errorf("%d tickets were thrown away", n)
	}
}
