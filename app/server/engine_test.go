package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/outbox"
	"waybill/app/server"
	"waybill/db"
	"waybill/db/dbtest"
)

// another is one more process of the program on the same database.
func (s *system) another(change ...func(*server.Config)) *system {
	s.t.Helper()
	more := &system{t: s.t, ring: s.ring, keys: s.keys, url: s.url}
	more.run(change...)
	return more
}

func quickly(policy string) func(*server.Config) {
	return func(c *server.Config) { c.PolicyText = "webhook_delivery: " + policy }
}

// next waits for the next request.
func (r *receiver) next(t testing.TB) *received {
	t.Helper()
	select {
	case got := <-r.seen:
		return got
	case <-time.After(15 * time.Second):
		t.Fatalf("no request in 15 s; %d so far", r.count())
		return nil
	}
}

// The first attempt, its retry by another process, a resend and what the history says carry the same bytes (CASES B26), each signed anew (B30).
func TestBytesStayTheSame(t *testing.T) {
	t.Parallel()
	quick := quickly("{waits_between_attempts: [2s, 2s]}")
	sys := start(t, quick)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	var refuse atomic.Bool
	refuse.Store(true)
	rcv := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	ep, key := sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL + "/hooks"})
	library, err := standardwebhooks.NewWebhook(key.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	data := []string{
		`{ "b":1, "a":"<b>&é😀", "n":9007199254740993, "f":1.0, "z":null, "a":2 }`, `{}`, `1`, "\t[ ]\n", `"\u0000\ud800\u2028"`,
		`{"type":"x","TYPE":"y","data":{"data":1e400}}`, `"` + strings.Repeat("é", 100_000) + `"`,
	}
	events := make([]outbox.Event, len(data))
	for i, text := range data {
		events[i] = outbox.Event{Data: []byte(text)}
	}
	published := sys.publish(tenant.UID, events...)
	digests, stamps := map[string][32]byte{}, map[string]string{}
	check := func(what string) {
		t.Helper()
		for range data {
			got := rcv.next(t)
			id, stamp := got.header.Get("webhook-id"), got.header.Get("webhook-timestamp")
			if err := library.Verify(got.body, got.header); err != nil {
				t.Errorf("%s of %s: the reference library refuses it: %v", what, id, err)
			}
			if l := got.header.Get("content-length"); l != "" && l != fmt.Sprint(len(got.body)) {
				t.Errorf("%s of %s: Content-Length %s for %d bytes", what, id, l, len(got.body))
			}
			digest := sha256.Sum256(got.body)
			if first, ok := digests[id]; ok && first != digest {
				t.Errorf("%s of %s: other bytes than at first: %q", what, id, got.body)
			} else if ok && stamps[id] == stamp {
				t.Errorf("%s of %s: the time of an earlier attempt, %s", what, id, stamp)
			}
			digests[id], stamps[id] = digest, stamp
		}
		if len(digests) != len(data) {
			t.Errorf("%s: %d ids, want %d", what, len(digests), len(data))
		}
	}
	check("the first attempt")
	for i, p := range published {
		sent := bodies(rcv, p.ID)
		if !bytes.HasSuffix(sent[0], []byte(`"data":`+data[i]+"}")) {
			t.Errorf("%.100q is not what was published, %.100q", sent[0], data[i])
		}
	}
	eventually(t, sys.Pool, 10*time.Second, len(data), `select count(*) from deliveries where attempts = 1`)
	sys.Stop(context.Background())
	refuse.Store(false)
	sys = sys.another(quick)
	check("the retry by another process")
	eventually(t, sys.Pool, 10*time.Second, len(data), `select count(*) from deliveries where status = 'delivered'`)

	caller := account.Waybill("test", tenant.ID)
	page, err := sys.Services.Deliveries.List(t.Context(), caller, deliveryFilter(ep.ID), "", 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range page.Deliveries {
		body, _, err := sys.Services.Deliveries.Body(t.Context(), caller, d)
		if err != nil || sha256.Sum256(body) != digests[d.EventID] {
			t.Errorf("the history shows other bytes for %s: %v", d.EventID, err)
		}
		// The time in a signature is in whole seconds; a resend within the second of the retry would carry the same.
		time.Sleep(time.Until(d.LastAt.Truncate(time.Second).Add(time.Second)))
		if _, err := sys.Services.Deliveries.Resend(t.Context(), caller, d.ID); err != nil {
			t.Fatal(err)
		}
	}
	check("the resend")
}

func bodies(r *receiver, eventID string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list [][]byte
	for _, got := range r.got {
		if got.header.Get("webhook-id") == eventID {
			list = append(list, got.body)
		}
	}
	return list
}

// gauge counts how many requests are under way, and the most there were at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }

// Two processes, one cap of a tenant and the limits of its endpoints: never more on the wire than they say, and everything arrives.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	sys := start(t)
	sys.another()
	capped := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{Concurrency: 3})
	var all gauge
	limits := make([]gauge, 6)
	const each = 60
	for i := range limits {
		rcv := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			all.enter()
			limits[i].enter()
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond) // the receiver's time
			limits[i].leave()
			all.leave()
		})
		sys.endpoint(dbtest.Endpoint{TenantID: capped.ID, URL: rcv.URL, Concurrency: 2, Types: []string{fmt.Sprint("type_", i)}})
	}
	var publishers sync.WaitGroup
	for i := range limits {
		publishers.Go(func() {
			for range each / 10 {
				events := make([]outbox.Event, 10)
				for n := range events {
					events[n].Type = fmt.Sprint("type_", i)
				}
				sys.publish(capped.UID, events...)
			}
		})
	}
	publishers.Wait()
	eventually(t, sys.Pool, 30*time.Second, each*len(limits), `select count(*) from deliveries where status = 'delivered'`)
	if most := all.most.Load(); most > 3 {
		t.Errorf("%d requests of the tenant at once, its cap is 3", most)
	} else if most < 2 {
		t.Errorf("%d request of the tenant at a time, its cap is 3", most)
	}
	for i := range limits {
		if most := limits[i].most.Load(); most > 2 {
			t.Errorf("%d requests of endpoint %d at once, its limit is 2", most, i)
		}
	}
	eventually(t, sys.Pool, 10*time.Second, len(limits), `select count(*) from lanes where state = 'idle' and slots = 0`)
	if n := len(duplicates(t, sys)); n != 0 {
		t.Errorf("%d deliveries were attempted more than once", n)
	}
}

func duplicates(t testing.TB, sys *system) []string {
	t.Helper()
	rows, err := sys.Pool.Query(t.Context(), `select id from deliveries where attempts <> 1`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Ten endpoints of a tenant that hang do not delay its healthy one.
func TestHangingEndpointsDelayNobody(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	ended := make(chan struct{})
	hanging := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-ended:
		case <-q.Context().Done():
		}
	})
	var hung sync.WaitGroup // before the receiver closes
	t.Cleanup(func() { close(ended); hung.Wait() })
	for range 10 {
		sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: hanging.URL, Types: []string{"slow.*"}})
	}
	healthy := newReceiver(t, nil)
	sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: healthy.URL, Types: []string{"quick.*"}})
	slow := make([]outbox.Event, 30)
	for i := range slow {
		slow[i].Type = "slow.event"
	}
	sys.publish(tenant.UID, slow...)
	for deadline := time.Now().Add(15 * time.Second); hanging.count() < 10; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests hang, want 10 at least", hanging.count())
		}
	}
	var latest time.Duration
	for range 50 {
		begun := time.Now()
		sys.publish(tenant.UID, outbox.Event{Type: "quick.event"})
		healthy.next(t)
		latest = max(latest, time.Since(begun))
	}
	if latest > 2*time.Second {
		t.Errorf("beside ten endpoints that hang an event took %s", latest)
	}
	t.Logf("the slowest of 50 took %s beside %d requests that hang", latest, hanging.count())
}

// A publisher that sits in its transaction delays nobody's events, not even its own tenant's.
func TestIdlePublisher(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, nil)
	sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL})
	idle, err := sys.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late, err := outbox.Publish(t.Context(), idle, outbox.Event{Tenant: tenant.UID, Type: "a.b", ResourceType: "r", ResourceID: "1", Data: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		p := sys.publish(tenant.UID, outbox.Event{})
		if got := rcv.next(t); got.header.Get("webhook-id") != p[0].ID {
			t.Errorf("received %s, want %s", got.header.Get("webhook-id"), p[0].ID)
		}
	}
	if err := idle.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rcv.next(t); got.header.Get("webhook-id") != late[0].ID {
		t.Errorf("received %s, want %s", got.header.Get("webhook-id"), late[0].ID)
	}
}

// traffic publishes events one by one until it is stopped, and returns the ids of all that were published.
func (s *system) traffic(uid string) (stop func() map[string]bool) {
	ctx, cancel := context.WithCancel(s.t.Context())
	pool := dbtest.Open(s.t, s.url, poolOptions)
	ids := map[string]bool{}
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			// The publisher's own id: an attempt that failed is repeated under it.
			ev := outbox.Event{ID: fmt.Sprint("e", n), Tenant: uid, Type: "a.b", ResourceType: "r", ResourceID: fmt.Sprint(n % 7), Data: []byte(fmt.Sprint(n))}
			for s.t.Context().Err() == nil {
				if _, err := outbox.Publish(s.t.Context(), pool, ev); err == nil {
					ids[ev.ID] = true
					break
				}
			}
			time.Sleep(time.Duration(rand.IntN(6)) * time.Millisecond)
		}
	})
	return func() map[string]bool { cancel(); publisher.Wait(); return ids }
}

// times says how often each event was received.
func (r *receiver) times() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, got := range r.got {
		n[got.header.Get("webhook-id")]++
	}
	return n
}

// A stop in the middle of traffic loses nothing and repeats nothing; lanes are given back, and another process goes on at once.
func TestStopLosesNothing(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) })
	for range 3 {
		sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL, Concurrency: 3})
	}
	stop := sys.traffic(tenant.UID)
	reached := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(15 * time.Second); rcv.count() < n; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d requests in 15 s, want %d", rcv.count(), n)
			}
		}
	}
	reached(60)
	// Alone: afterwards nothing runs, and nothing is held.
	sys.Stop(context.Background())
	watch := dbtest.Open(t, sys.url, poolOptions)
	before := rcv.count()
	eventually(t, watch, 0, 0, `select count(*) from lanes where state = 'running' or slots > 0 or owner is not null`)
	eventually(t, watch, 0, 0, `select count(*) from workers`)
	eventually(t, watch, 0, 0, `select (select count(*) from attempts) - $1::integer`, before)
	// Beside another process, which takes over.
	first, second := sys.another(), (*system)(nil)
	reached(before + 60)
	for range 2 {
		second = sys.another()
		n := rcv.count()
		reached(n + 30)
		first.Stop(context.Background())
		n = rcv.count()
		begun := time.Now()
		reached(n + 30)
		t.Logf("30 requests %s after a stop", time.Since(begun))
		first = second
	}
	ids := stop()
	eventually(t, watch, 20*time.Second, 3*len(ids), `select count(*) from deliveries where status = 'delivered'`)
	eventually(t, watch, 5*time.Second, 3, `select count(*) from lanes where state = 'idle'`)
	got := rcv.times()
	for id := range ids {
		if got[id] != 3 {
			t.Errorf("%s was received %d times by 3 endpoints", id, got[id])
		}
	}
	if len(got) != len(ids) {
		t.Errorf("%d events received, %d published", len(got), len(ids))
	}
	eventually(t, watch, 0, 0, `select count(*) from attempts where class <> 'delivered'`)
}

// Every connection of the database is cut, again and again, in the middle of traffic: everything arrives, and the books agree.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	sys := start(t)
	sys.another()
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, nil)
	for range 2 {
		sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL})
	}
	stop := sys.traffic(tenant.UID)
	watch := dbtest.Open(t, sys.url, poolOptions)
	for cut := range 5 {
		n := rcv.count()
		for deadline := time.Now().Add(20 * time.Second); rcv.count() < n+25; time.Sleep(2 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after cut %d: %d requests in 20 s", cut, rcv.count()-n)
			}
		}
		if _, err := watch.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`); err != nil {
			t.Fatal(err)
		}
	}
	ids := stop()
	eventually(t, watch, 30*time.Second, 2*len(ids), `select count(*) from deliveries where status = 'delivered'`)
	eventually(t, watch, 15*time.Second, 2, `select count(*) from lanes where state = 'idle' and slots = 0`)
	got := rcv.times()
	for id := range ids {
		if got[id] < 2 {
			t.Errorf("%s was received %d times by 2 endpoints", id, got[id])
		}
	}
	eventually(t, watch, 0, 0, `select count(*) from deliveries d where attempts <> (select count(*) from attempts a where a.delivery_id = d.id)`)
	eventually(t, watch, 0, 0, `select count(*) from due`)
	t.Logf("%d requests for %d deliveries", rcv.count(), 2*len(ids))
}

// When tickets cannot be inserted, publishing goes on and nothing is half done; afterwards everything is delivered once (CASES B23).
func TestTicketsFail(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, nil)
	sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL})
	if _, err := sys.Pool.Exec(t.Context(), `alter table river_job rename to river_job_away`); err != nil {
		t.Fatal(err)
	}
	sys.publish(tenant.UID, make([]outbox.Event, 20)...)
	// The dispatcher has tried: Postgres counts rows also of transactions that were rolled back.
	eventually(t, sys.Pool, 10*time.Second, 1, `select count(*) from (select sum(n_tup_ins) as n from pg_stat_user_tables where relname ~ '^events_2') x where n > 0`)
	eventually(t, sys.Pool, 0, 20, `select count(*) from outbox`)
	eventually(t, sys.Pool, 0, 0, `select count(*) from events`)
	if n := rcv.count(); n != 0 {
		t.Errorf("%d requests without a ticket", n)
	}
	if _, err := sys.Pool.Exec(t.Context(), `alter table river_job_away rename to river_job`); err != nil {
		t.Fatal(err)
	}
	eventually(t, sys.Pool, 20*time.Second, 20, `select count(*) from deliveries where status = 'delivered' and attempts = 1`)
	if n := rcv.count(); n != 20 {
		t.Errorf("%d requests for 20 events", n)
	}
}

// Publishing and delivering one event after the other, in two processes: none is forgotten, and none waits for a poll.
func TestOneAfterTheOther(t *testing.T) {
	t.Parallel()
	sys := start(t)
	sys.another()
	var all sync.WaitGroup
	for i := range 4 {
		tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{Concurrency: 1 + i})
		rcv := newReceiver(t, nil)
		sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL, Concurrency: 1 + i%2})
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for round := range 40 {
				sys.publish(tenant.UID, outbox.Event{})
				select {
				case <-rcv.seen:
				case <-time.After(10 * time.Second):
					t.Errorf("endpoint %d, round %d: nothing in 10 s", i, round)
					return
				}
				// Sometimes at once, sometimes while the lane lingers, sometimes when it has been given back.
				time.Sleep(time.Duration(random.IntN(3)*random.IntN(80)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	eventually(t, sys.Pool, 5*time.Second, 160, `select count(*) from deliveries where status = 'delivered' and attempts = 1`)
}

var poolOptions = db.Options{MaxConns: 4}

func deliveryFilter(endpointID string) delivery.Filter {
	return delivery.Filter{EndpointID: endpointID}
}

func (r *receiver) count() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.got) }
