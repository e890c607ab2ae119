package lane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/lane"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

func always(code int) sendFunc {
	return func(context.Context, sender.Request) sender.Outcome { return answer(code) }
}

const undone = `select count(*) from deliveries where status <> 'delivered'`

// A lane whose ticket River will never hand out again gets a new one: a process killed between River's fetch and our claim leaves a job that is
// running for ever.
func TestLostTicket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ways := map[string]string{
		"fetched by a process that died": `update river_job set state = 'running', attempt = 1, attempted_at = now(), attempted_by = array['dead'] where args->>'endpoint' = $1`,
		"gone":                           `delete from river_job where args->>'endpoint' = $1`,
		"discarded":                      `update river_job set state = 'discarded', finalized_at = now() where args->>'endpoint' = $1`,
		"done, and never claimed":        `update river_job set state = 'completed', finalized_at = now() where args->>'endpoint' = $1`,
	}
	for way, sql := range ways {
		d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{Description: way})})
		if n := r.count(`select count(*) from river_job where args->>'endpoint' = $1 and state = 'available'`, d.Endpoint.ID); n != 1 {
			t.Fatalf("%d tickets", n)
		}
		r.run(sql, d.Endpoint.ID)
	}
	r.process(always(200))
	r.until(8*time.Second, 0, undone)
	r.until(5*time.Second, len(ways), `select count(*) from lanes where state = 'idle' and gen > 1`)
	if n := r.count(`select count(*) from attempts`); n != len(ways) {
		t.Errorf("%d attempts for %d deliveries", n, len(ways))
	}
}

// A ticket that waits in a long queue is not lost: its lane keeps it.
func TestWaitingTicketIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	// River is told to hand it out later; a process sweeps meanwhile.
	r.run(`update river_job set scheduled_at = now() + interval '1 hour' where args->>'endpoint' = $1`, d.Endpoint.ID)
	r.run(`update lanes set since = now() - interval '1 hour'`)
	r.process(always(200))
	lost := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	r.run(`delete from river_job where args->>'endpoint' = $1 and state = 'available'`, lost.Endpoint.ID)
	r.until(8*time.Second, 1, `select count(*) from deliveries where id = $1 and status = 'delivered'`, lost.ID) // so a sweep has taken place
	if n := r.count(`select count(*) from lanes where endpoint_id = $1 and state = 'queued' and gen = 1`, d.Endpoint.ID); n != 1 {
		t.Errorf("the lane was queued anew: %s", r.dump())
	}
}

// Tickets of other generations, of lanes that rest and of endpoints that are not there do nothing.
func TestStaleTickets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ep := r.endpoint(dbtest.Endpoint{})
	d := r.delivery(dbtest.Delivery{Endpoint: ep})
	stale := []lane.Ticket{{EndpointID: "ep_none", TenantID: ep.TenantID, Gen: 1}, {EndpointID: ep.ID, TenantID: "tnt_none", Gen: 1}}
	for gen := range int64(20) {
		stale = append(stale, lane.Ticket{EndpointID: ep.ID, TenantID: ep.TenantID, Gen: gen, Suspect: gen%2 == 0})
	}
	if err := pgx.BeginFunc(t.Context(), r.Pool, func(tx pgx.Tx) error { return r.insert.InsertTickets(t.Context(), tx, append(stale, stale...)) }); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	r.process(func(context.Context, sender.Request) sender.Outcome { sent.Add(1); return answer(200) })
	r.until(10*time.Second, 0, `select count(*) from river_job where kind = 'lane' and state <> 'completed'`)
	if s := r.state(d); s.status != "delivered" || s.attempts != 1 || sent.Load() != 1 {
		t.Errorf("%d requests, %+v", sent.Load(), s)
	}
	if n := r.count(`select count(*) from lanes where state = 'idle' and slots = 0 and owner is null`); n != 1 {
		t.Error(r.dump())
	}
}

// A lane that is ours by its row and that nobody of us works on, because the answer to a claim was lost, is found.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.process(always(200))
	ep := r.endpoint(dbtest.Endpoint{})
	err := pgx.BeginFunc(t.Context(), r.Pool, func(tx pgx.Tx) error {
		dbtest.AddDelivery(t, tx, dbtest.Delivery{Endpoint: ep})
		_, err := tx.Exec(t.Context(), `update lanes set state = 'running', gen = 1, owner = $1, slots = 2, since = statement_timestamp() where endpoint_id = $2`, p.WorkerID(), ep.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.until(8*time.Second, 0, undone)
	r.until(5*time.Second, 1, `select count(*) from lanes where state = 'idle' and slots = 0`)
}

// The lanes of a process that is gone run elsewhere. What it held and did not record is in the history as unknown, under its name, and is sent again.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(r *rig, p *process){
		"killed":        func(r *rig, p *process) { p.stop() },
		"lost its row":  func(r *rig, p *process) { r.run(`delete from workers where id = $1`, p.WorkerID()) },
		"lost its time": func(r *rig, p *process) { r.run(`update workers set lease_until = now() where id = $1`, p.WorkerID()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var open atomic.Bool
			started := make(chan string, 1000)
			send := func(ctx context.Context, q sender.Request) sender.Outcome {
				if open.Load() {
					return answer(200)
				}
				started <- q.EndpointID
				return hang(ctx, q)
			}
			const endpoints, each = 4, 12
			for range endpoints {
				ep := r.endpoint(dbtest.Endpoint{Concurrency: 2})
				for range each {
					r.delivery(dbtest.Delivery{Endpoint: ep})
				}
			}
			first := r.process(send)
			worker := first.WorkerID()
			for range 2 * endpoints { // every lane has its two requests on the wire
				<-started
			}
			r.process(send)
			open.Store(true)
			gone(r, first)
			r.until(15*time.Second, 0, undone)
			r.until(5*time.Second, endpoints, `select count(*) from lanes where state = 'idle' and slots = 0 and handed = '{}'`)
			unknown := r.count(`select count(*) from attempts where class = 'unknown' and worker_id = $1 and code is null and trigger = 'first'`, worker)
			if unknown < 2*endpoints {
				t.Errorf("%d attempts of unknown outcome under the name of the first process, want %d and what else it held", unknown, 2*endpoints)
			}
			if n := r.count(`select coalesce(max(n), 0) from (select count(*) as n from attempts where class = 'unknown' group by delivery_id) x`); n > 2 {
				t.Errorf("%d attempts of unknown outcome for one delivery", n)
			}
			strange := `select coalesce(string_agg(format('%s #%s %s by %s at %s: %s', delivery_id, number, class, worker_id, started_at, detail), E'\n' order by started_at), '')
				from attempts where class not in ('unknown', 'delivered') or class = 'unknown' and worker_id <> $1`
			var found string
			if err := r.QueryRow(t.Context(), strange, worker).Scan(&found); err != nil || found != "" {
				t.Errorf("attempts of another class or another process than %s: %v\n%s", worker, err, found)
			}
			if n := r.count(`select count(*) from deliveries d where attempts <> (select count(*) from attempts a where a.delivery_id = d.id)
				or attempts <> (select max(number) from attempts a where a.delivery_id = d.id) or failures <> 0`); n != 0 {
				t.Errorf("%d deliveries whose attempts have gaps, or that count a failure", n)
			}
			if n := r.count(`select count(*) from attempts where class = 'delivered'`); n != endpoints*each {
				t.Errorf("%d successes for %d deliveries", n, endpoints*each)
			}
		})
	}
}

// A process whose lease was taken stops what it sends, comes back under another id and goes on.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var open atomic.Bool
	started, cancelled := make(chan struct{}, 10), make(chan struct{}, 10)
	p := r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		if open.Load() {
			return answer(200)
		}
		started <- struct{}{}
		out := hang(ctx, q)
		cancelled <- struct{}{}
		return out
	})
	d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	<-started
	before := p.WorkerID()
	r.run(`delete from workers`)
	<-cancelled
	open.Store(true)
	s := r.attempted(d, 2)
	if s.status != "delivered" || p.WorkerID() == before {
		t.Errorf("%+v under worker %s, was %s", s, p.WorkerID(), before)
	}
	if n := r.count(`select count(*) from attempts where worker_id = case number when 1 then $1 else $2 end and class = case number when 1 then 'unknown' else 'delivered' end`,
		before, p.WorkerID()); n != 2 {
		t.Error("the history does not say which process made which attempt")
	}
	if n := r.count(`select count(*) from workers where id = $1 and lease_until > now()`, p.WorkerID()); n != 1 {
		t.Error("the process is no worker")
	}
}

// Interrupted attempts use no step of the schedule, but the third in a row counts as a failure, so that a delivery which kills its process ends.
func TestThreeUnknownsAreOneFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	started := make(chan struct{}, 100)
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		started <- struct{}{}
		return hang(ctx, q)
	})
	d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	for n := 1; n <= 6; n++ {
		<-started
		r.run(`delete from workers`)
		s := r.attempted(d, n)
		if s.failures != n/3 || s.lastClass != "unknown" || s.status != "pending" || s.dueFailures != n/3 {
			t.Fatalf("after %d interrupted attempts: %+v", n, s)
		}
		step := []time.Duration{0, 5 * time.Second, 5 * time.Minute}[n/3]
		if n%3 != 0 {
			step = 0
		}
		if n%3 == 0 && !near(s.wait, step) {
			t.Errorf("after %d interrupted attempts the next is %s later, want %s", n, s.wait, step)
		}
		if n == 3 {
			r.hurry(d)
		}
	}
}

// However wakes and the ends of lanes meet, nothing that is due stays behind: two processes, lanes that linger, give back, sleep and hand over.
func TestNoWakeIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	quick, err := policy.Load([]byte("webhook_delivery: {waits_between_attempts: [1s, 1s]}"))
	if err != nil {
		t.Fatal(err)
	}
	var failed sync.Map
	send := func(_ context.Context, q sender.Request) sender.Outcome {
		if _, again := failed.LoadOrStore(header(q, "webhook-id"), true); !again && rand.IntN(20) == 0 {
			return answer(503)
		}
		return answer(200)
	}
	for range 2 {
		r.process(send, func(c *lane.Config) { c.Policies = quick })
	}
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 6})
	const endpoints, rounds = 8, 40
	var publishers sync.WaitGroup
	for i := range endpoints {
		ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 2, Types: []string{fmt.Sprint("type_", i)}})
		publishers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 3))
			for round := range rounds {
				d := r.delivery(dbtest.Delivery{Endpoint: ep, Event: dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: tenant.ID})})
				if round%3 == 0 {
					// The next wake comes while the lane runs, lingers or has just been given back.
					time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
				} else {
					deadline := time.Now().Add(10 * time.Second)
					for r.count(`select attempts from deliveries where id = $1`, d.ID) == 0 {
						if time.Now().After(deadline) {
							t.Errorf("round %d: not attempted in 10 s\n%s", round, r.dump())
							return
						}
						time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
					}
				}
			}
		})
	}
	publishers.Wait()
	r.until(20*time.Second, 0, `select count(*) from deliveries where attempts = 0`)
	r.until(20*time.Second, 0, undone) // those that failed come again a second later
	r.until(5*time.Second, endpoints, `select count(*) from lanes where state = 'idle' and slots = 0`)
}

// A missing partition of attempts is made, by whoever records one.
func TestMissingAttemptPartition(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	drop := func() {
		for _, day := range []time.Time{time.Now(), time.Now().AddDate(0, 0, 1)} {
			r.run("drop table if exists attempts_" + day.UTC().Format("20060102"))
		}
	}
	var open atomic.Bool
	started := make(chan struct{}, 100)
	send := func(ctx context.Context, q sender.Request) sender.Outcome {
		if open.Load() {
			return answer(200)
		}
		started <- struct{}{}
		return hang(ctx, q)
	}
	drop()
	p := r.process(send)
	r.run(`delete from attempts`)
	d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	<-started
	drop() // the process has made them at its start
	r.run(`delete from workers where id = $1`, p.WorkerID())
	r.attempted(d, 1) // recorded as unknown by the sweeper
	<-started
	drop()
	r.run(`update deliveries set attempts = 0`)
	open.Store(true)
	r.run(`delete from workers`)
	r.until(15*time.Second, 0, undone)
}

// A delivery whose event is no longer kept ends undelivered; nothing is sent in its place.
func TestEventNoLongerKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var sent atomic.Int64
	r.process(func(context.Context, sender.Request) sender.Outcome { sent.Add(1); return answer(200) })
	ep := r.endpoint(dbtest.Endpoint{})
	old := time.Now().AddDate(0, 0, -10)
	kept := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID, CreatedAt: old.AddDate(0, 0, -1)})
	gone := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID, CreatedAt: old})
	r.run("drop table events_" + old.UTC().Format("20060102"))
	first := r.delivery(dbtest.Delivery{Endpoint: ep, Event: gone})
	second := r.delivery(dbtest.Delivery{Endpoint: ep, Event: kept})
	if s := r.attempted(first, 1); s.status != "undelivered" || s.reason != lane.ReasonConfiguration {
		t.Errorf("without its event: %+v", s)
	}
	if s := r.attempted(second, 1); s.status != "delivered" || sent.Load() != 1 {
		t.Errorf("of eleven days ago: %+v, %d requests", s, sent.Load())
	}
}

// A ticket that failed because the database did, several times in a row, is tried again as soon as that is back.
func TestTicketsAfterAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{})})
	r.run(`alter table tenants rename to tenants_away`)
	r.process(always(200))
	r.until(15*time.Second, 1, `select count(*) from river_job where kind = 'lane' and attempt >= 3`)
	r.run(`alter table tenants_away rename to tenants`)
	begun := time.Now()
	r.until(10*time.Second, 0, undone)
	t.Logf("delivered %s after the end of the outage", time.Since(begun))
	if s := r.state(d); s.attempts != 1 {
		t.Errorf("%+v", s)
	}
}
