package lane_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/lane"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/db/dbtest"
	"waybill/db/queries"
)

// observed is a sender that notes when each request started, and answers it as the test says.
type observed struct {
	mu     sync.Mutex
	starts map[string][]start // by endpoint
	answer func(n int, q sender.Request) sender.Outcome
}

type start struct {
	at time.Time
	q  sender.Request
}

func (o *observed) send(ctx context.Context, q sender.Request) sender.Outcome {
	if ctx.Err() != nil {
		return sender.Outcome{Class: sender.Canceled}
	}
	o.mu.Lock()
	if o.starts == nil {
		o.starts = map[string][]start{}
	}
	o.starts[q.EndpointID] = append(o.starts[q.EndpointID], start{time.Now(), q})
	n := len(o.starts[q.EndpointID])
	o.mu.Unlock()
	return o.answer(n, q)
}

func (o *observed) of(endpointID string) []start {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.starts[endpointID])
}

// reached waits until an endpoint has had n requests.
func (o *observed) reached(t testing.TB, endpointID string, n int) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); len(o.of(endpointID)) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests in 15 s, want %d", len(o.of(endpointID)), n)
		}
	}
}

// stopping is a way to stop an endpoint, and what becomes of its deliveries.
type stopping struct {
	stop           func(r *rig, ep dbtest.Endpoint) error
	status, reason string
	parked         bool
	enable         bool // it can be enabled again
}

var stoppings = map[string]stopping{
	"pause": {func(r *rig, ep dbtest.Endpoint) error {
		_, err := r.endpoints().Pause(r.t.Context(), account.Waybill("test", ep.TenantID), ep.ID)
		return err
	}, "held", "endpoint_paused", true, true},
	"disable": {func(r *rig, ep dbtest.Endpoint) error {
		_, err := r.endpoints().Disable(r.t.Context(), account.Waybill("test", ep.TenantID), ep.ID)
		return err
	}, "held", "endpoint_disabled", true, true},
	"change, then pause": {func(r *rig, ep dbtest.Endpoint) error {
		caller, address := account.Waybill("test", ep.TenantID), "https://other.example.com/hooks"
		changed := make(chan error, 1)
		go func() {
			_, err := r.endpoints().Update(r.t.Context(), caller, ep.ID, endpoint.Change{URL: &address})
			changed <- err
		}()
		if _, err := r.endpoints().Pause(r.t.Context(), caller, ep.ID); err != nil {
			return err
		}
		return <-changed
	}, "held", "endpoint_paused", true, true},
	"delete": {func(r *rig, ep dbtest.Endpoint) error {
		return r.endpoints().Delete(r.t.Context(), account.Waybill("test", ep.TenantID), ep.ID)
	}, "cancelled", "endpoint_deleted", false, false},
	"suspend": {func(r *rig, ep dbtest.Endpoint) error {
		var rev int64
		err := pgx.BeginFunc(r.t.Context(), r.Pool, func(tx pgx.Tx) error {
			// Tenants come before lanes.
			if _, err := tx.Exec(r.t.Context(), `select from tenants where id = $1 for no key update`, ep.TenantID); err != nil {
				return err
			}
			if err := lane.Lock(r.t.Context(), tx, ep.ID); err != nil {
				return err
			}
			if _, err := tx.Exec(r.t.Context(), `update tenants set suspended_at = now() where id = $1`, ep.TenantID); err != nil {
				return err
			}
			if err := tx.QueryRow(r.t.Context(), `update endpoints set rev = rev + 1 where id = $1 returning rev`, ep.ID).Scan(&rev); err != nil {
				return err
			}
			return r.waker.Wake(r.t.Context(), tx, []string{ep.ID}, nil)
		})
		if err != nil {
			return err
		}
		return lane.Settle(r.t.Context(), r.Pool, ep.ID, rev)
	}, "held", "tenant_suspended", true, false},
}

// After pausing, disabling, deleting or suspending has returned no request starts, whatever dispatch and lane are doing; everything due ends held or
// cancelled, and enabling again sends only what is new (CASES B18).
func TestStopping(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &observed{answer: func(int, sender.Request) sender.Outcome {
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond) // the receiver's time
		return answer(200)
	}}
	r.process(o.send)
	r.process(o.send)
	const rounds = 20
	for name, way := range stoppings {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			limit := make(chan struct{}, 5)
			for round := range rounds {
				all.Go(func() {
					limit <- struct{}{}
					defer func() { <-limit }()
					stopOnce(t, r, o, way, round)
				})
			}
			all.Wait()
		})
	}
	r.until(5*time.Second, 0, `select count(*) from lanes where state not in ('idle', 'sleeping')`)
}

func stopOnce(t *testing.T, r *rig, o *observed, way stopping, round int) {
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 4, URL: "https://receiver.example.com/hooks"})
	sent := 40
	r.publish(tenant.UID, 40)
	o.reached(t, ep.ID, round%12)
	var beside sync.WaitGroup
	for range 2 {
		sent += 6
		beside.Go(func() { r.publish(tenant.UID, 6) })
	}
	err := way.stop(r, ep)
	stopped := time.Now()
	if err != nil {
		t.Error(err)
		return
	}
	beside.Wait()
	sent += 3
	r.publish(tenant.UID, 3)
	r.until(15*time.Second, 0, `select count(*) from outbox where tenant_id = $1`, tenant.ID)
	r.until(15*time.Second, 0, `select count(*) from due where endpoint_id = $1`, ep.ID)
	r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, ep.ID)
	starts := o.of(ep.ID)
	for _, s := range starts {
		if s.at.After(stopped) {
			t.Errorf("a request started %s after it had returned", s.at.Sub(stopped))
		}
	}
	delivered := r.count(`select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	rest := r.count(`select count(*) from deliveries where endpoint_id = $1 and status = $2 and reason = $3 and finished_at is not null`, ep.ID, way.status, way.reason)
	// What was published after the end of a deleted endpoint is for nobody.
	if delivered != len(starts) || delivered+rest != sent && way.status != "cancelled" || delivered+rest > sent {
		t.Errorf("%d sent, %d delivered, %d %s (%s), of %d", len(starts), delivered, rest, way.status, way.reason, sent)
	}
	if n := r.count(`select count(*) from parked where endpoint_id = $1 and status = $2 and reason = $3`, ep.ID, way.status, way.reason); way.parked && n != rest || !way.parked && n != 0 {
		t.Errorf("%d are parked, %d are %s", n, rest, way.status)
	}
	if !way.enable {
		return
	}
	if _, err := r.endpoints().Enable(t.Context(), account.Waybill("test", tenant.ID), ep.ID); err != nil {
		t.Error(err)
	}
	fresh := r.publish(tenant.UID, 2)
	r.until(15*time.Second, 2, `select count(*) from deliveries where endpoint_id = $1 and event_id = any($2) and status = 'delivered'`, ep.ID, fresh)
	r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, ep.ID)
	if n := len(o.of(ep.ID)); n != delivered+2 {
		t.Errorf("after it was enabled %d requests more, want 2", n-delivered)
	}
}

// A 410 disables at once: what met it is undelivered, the rest is held, and no request starts afterwards.
func TestGoneAmongOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &observed{answer: func(n int, _ sender.Request) sender.Outcome {
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		if n%7 == 0 {
			return answer(410)
		}
		return answer(200)
	}}
	r.process(o.send)
	var all sync.WaitGroup
	limit := make(chan struct{}, 5)
	for range 20 {
		all.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
			ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 5})
			r.publish(tenant.UID, 50)
			r.until(15*time.Second, 1, `select count(*) from endpoints where id = $1 and state = 'disabled' and reason = 'gone' and state_by = 'system'`, ep.ID)
			r.publish(tenant.UID, 5)
			r.until(15*time.Second, 55, `select count(*) from deliveries where endpoint_id = $1 and status <> 'pending'`, ep.ID)
			r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, ep.ID)
			var disabled time.Time
			var rev int
			if err := r.QueryRow(t.Context(), `select state_at, rev from endpoints where id = $1`, ep.ID).Scan(&disabled, &rev); err != nil {
				t.Error(err)
			}
			starts := o.of(ep.ID)
			for _, s := range starts {
				if s.at.After(disabled) {
					t.Errorf("a request started %s after the endpoint was disabled", s.at.Sub(disabled))
				}
			}
			gone := r.count(`select count(*) from deliveries d join parked p on p.delivery_id = d.id and p.status = d.status and p.reason = d.reason
				where d.endpoint_id = $1 and d.status = 'undelivered' and d.reason = 'gone'`, ep.ID)
			held := r.count(`select count(*) from deliveries d join parked p on p.delivery_id = d.id and p.status = d.status and p.reason = d.reason
				where d.endpoint_id = $1 and d.status = 'held' and d.reason = 'endpoint_disabled'`, ep.ID)
			delivered := r.count(`select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
			if gone < 1 || gone+delivered != len(starts) || gone+held+delivered != 55 || rev != 2 {
				t.Errorf("%d requests; %d gone, %d held, %d delivered of 55; revision %d", len(starts), gone, held, delivered, rev)
			}
		})
	}
	all.Wait()
}

// An answer speaks for the address that gave it: a late 410 from an old one disables nothing, a late success of an old one proves nothing.
func TestLateAnswerOfAnOldAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release, started := make(chan struct{}), make(chan struct{}, 10)
	const oldURL, newURL = "https://old.example.com/hooks", "https://new.example.com/hooks"
	codes := map[string]int{}
	r.process(func(_ context.Context, q sender.Request) sender.Outcome {
		if q.URL == oldURL {
			started <- struct{}{}
			<-release
			return answer(codes[q.EndpointID])
		}
		return answer(500)
	})
	var eps []dbtest.Endpoint
	var ds []dbtest.Delivery
	for _, code := range []int{410, 200} {
		ep := r.endpoint(dbtest.Endpoint{URL: oldURL, Unverified: true})
		codes[ep.ID] = code
		eps = append(eps, ep)
	}
	for _, ep := range eps {
		ds = append(ds, r.delivery(dbtest.Delivery{Endpoint: ep}))
		<-started
		address := newURL
		if _, err := r.endpoints().Update(t.Context(), account.Waybill("test", ep.TenantID), ep.ID, endpoint.Change{URL: &address}); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if s := r.attempted(ds[0], 1); s.status != "undelivered" || s.reason != "gone" {
		t.Errorf("what met the 410: %+v", s)
	}
	if s := r.attempted(ds[1], 1); s.status != "delivered" {
		t.Errorf("what met the 200: %+v", s)
	}
	r.until(5*time.Second, 2, `select count(*) from lanes where state = 'idle'`)
	if n := r.count(`select count(*) from endpoints where state = 'active' and verified_at is null and url = $1`, newURL); n != 2 {
		t.Errorf("%d of 2 endpoints are active and unverified at their new address", n)
	}
}

// The first success at an address proves it; the next change of the address makes it unproven again.
func TestVerified(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(200))
	ep := r.endpoint(dbtest.Endpoint{Unverified: true, URL: "https://one.example.com/"})
	verified := `select count(*) from endpoints where id = $1 and verified_at is not null`
	r.delivery(dbtest.Delivery{Endpoint: ep})
	r.until(5*time.Second, 1, verified, ep.ID)
	address := "https://two.example.com/"
	if _, err := r.endpoints().Update(t.Context(), account.Waybill("test", ep.TenantID), ep.ID, endpoint.Change{URL: &address}); err != nil {
		t.Fatal(err)
	}
	if n := r.count(verified, ep.ID); n != 0 {
		t.Error("verified at an address that was never called")
	}
	r.delivery(dbtest.Delivery{Endpoint: ep})
	r.until(5*time.Second, 1, verified, ep.ID)
}

// What is changed of an endpoint is obeyed by every request that starts after the change has returned, in the middle of traffic (CASES B36).
func TestChangesAreObeyed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &observed{answer: func(int, sender.Request) sender.Outcome { time.Sleep(time.Millisecond); return answer(200) }}
	r.process(o.send)
	r.process(o.send)
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: "https://e0.example.com/"})
	caller, s := account.Waybill("test", tenant.ID), r.endpoints()
	traffic, stop := context.WithCancel(t.Context())
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for traffic.Err() == nil {
			r.publish(tenant.UID, 2)
			time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
		}
	})
	defer publisher.Wait()
	defer stop()

	// changed makes a change and looks at the requests that start afterwards, until there were five.
	changed := func(what string, change func() error, obeyed func(q sender.Request) error) {
		t.Helper()
		o.reached(t, ep.ID, len(o.of(ep.ID))+3)
		if err := change(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		after := time.Now()
		deadline := after.Add(10 * time.Second)
		for seen := 0; seen < 5; {
			seen = 0
			for _, start := range o.of(ep.ID) {
				if !start.at.After(after) {
					continue
				}
				if err := obeyed(start.q); err != nil {
					t.Fatalf("%s: a request %s after it: %v", what, start.at.Sub(after), err)
				}
				seen++
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d requests in 10 s\n%s", what, seen, r.dump())
			}
		}
	}
	update := func(change endpoint.Change) func() error {
		return func() error { _, err := s.Update(t.Context(), caller, ep.ID, change); return err }
	}
	headers := func(q sender.Request) http.Header {
		h := http.Header{}
		for _, one := range q.Header {
			h.Add(one.Name, one.Value)
		}
		return h
	}
	var key signing.Key
	verifies := func(q sender.Request) error {
		_, err := signing.Verify(headers(q), q.Body, []signing.Key{key}, time.Now(), time.Minute)
		return err
	}
	for round := range 3 {
		address := fmt.Sprintf("https://e%d.example.com/", round+1)
		changed("address", update(endpoint.Change{URL: &address}), func(q sender.Request) error {
			if q.URL != address {
				return fmt.Errorf("went to %s", q.URL)
			}
			return nil
		})
		overlap := time.Duration(0)
		changed("secret", func() error {
			rotated, err := s.Rotate(t.Context(), caller, ep.ID, endpoint.Rotation{Overlap: &overlap})
			if err != nil {
				return err
			}
			key, err = signing.ParseKey(rotated.Secret.Reveal())
			return err
		}, func(q sender.Request) error {
			if n := len(headers(q).Values("webhook-signature")); n != 1 {
				return fmt.Errorf("%d signature headers", n)
			}
			return verifies(q)
		})
		value := fmt.Sprint("v", round)
		changed("header", update(endpoint.Change{Headers: &[]endpoint.Header{{Name: "X-Token", Value: value}}}), func(q sender.Request) error {
			if got := header(q, "x-token"); got != value {
				return fmt.Errorf("X-Token is %q", got)
			}
			return nil
		})
		for _, preset := range []string{policy.Commerce, policy.Standard, policy.Commerce, ""} { // the tenant's is the standard one
			changed("preset "+preset, update(endpoint.Change{Preset: &preset}), func(q sender.Request) error {
				if want := policy.Builtin().First(preset).Timeout; q.Timeout != want {
					return fmt.Errorf("it has %s, want %s", q.Timeout, want)
				}
				return nil
			})
		}
		for _, scheme := range []signing.Scheme{signing.Hex, signing.V1} {
			changed("scheme "+string(scheme), update(endpoint.Change{Scheme: &scheme}), func(q sender.Request) error {
				if hex := header(q, "Webhook-Id") != "" && slices.ContainsFunc(q.Header, func(h sender.Header) bool { return h.Name == "Webhook-Id" }); hex != (scheme == signing.Hex) {
					return fmt.Errorf("signed by another scheme: %v", q.Header)
				}
				return verifies(q)
			})
		}
	}
}

// A tenant's policy is in force for its endpoints at their next attempt.
func TestTenantPresetIsObeyed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(401))
	ep := r.endpoint(dbtest.Endpoint{})
	if s := r.attempted(r.delivery(dbtest.Delivery{Endpoint: ep}), 1); s.status != "pending" {
		t.Fatalf("by the standard policy: %+v", s)
	}
	r.run(`update tenants set preset = $1, updated_at = now() where id = $2`, policy.Commerce, ep.TenantID)
	if s := r.attempted(r.delivery(dbtest.Delivery{Endpoint: ep}), 1); s.status != "undelivered" {
		t.Errorf("by the tenant's policy, which does not retry a 401: %+v", s)
	}
}

// A success that arrives after its delivery was held wins; a failure leaves it held.
func TestAnswerAfterAHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	codes := map[string]int{}
	release, started := make(chan struct{}), make(chan struct{}, 10)
	r.process(func(_ context.Context, q sender.Request) sender.Outcome {
		started <- struct{}{}
		<-release
		return answer(codes[q.EndpointID])
	})
	var eps []dbtest.Endpoint
	for _, code := range []int{200, 500, 410} {
		eps = append(eps, r.endpoint(dbtest.Endpoint{}))
		codes[eps[len(eps)-1].ID] = code
	}
	var ds []dbtest.Delivery
	for _, ep := range eps {
		ds = append(ds, r.delivery(dbtest.Delivery{Endpoint: ep}))
		<-started
		r.run(`update endpoints set state = 'paused', rev = rev + 1 where id = $1`, ep.ID)
		r.run(queries.SQL("LaneHold"), ep.ID, 100)
		if s := r.state(ds[len(ds)-1]); s.status != "held" || s.reason != "endpoint_paused" || s.parked != "held endpoint_paused" || s.due {
			t.Fatalf("held: %+v", s)
		}
	}
	close(release)
	for i, want := range []state{
		{status: "delivered", attempts: 1, lastClass: "delivered", attemptTriggers: "first"},
		{status: "held", reason: "endpoint_paused", parked: "held endpoint_paused", attempts: 1, failures: 1, lastClass: "status", attemptTriggers: "first"},
		{status: "held", reason: "endpoint_paused", parked: "held endpoint_paused", attempts: 1, failures: 1, lastClass: "gone", attemptTriggers: "first"},
	} {
		if s := r.attempted(ds[i], 1); s != want {
			t.Errorf("%+v\nwant %+v", s, want)
		}
	}
}

// Deleting also cancels what was held, at rest, and leaves what is finished as it is.
func TestDeleteCancelsWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.process(always(200))
	ep := r.endpoint(dbtest.Endpoint{State: "paused", Reason: "manual"})
	var held []dbtest.Delivery
	for range 3 {
		held = append(held, dbtest.AddDelivery(t, r.Pool, dbtest.Delivery{Endpoint: ep, Status: "held", Reason: "endpoint_paused"}))
	}
	undelivered := dbtest.AddDelivery(t, r.Pool, dbtest.Delivery{Endpoint: ep, Status: "undelivered", Reason: lane.ReasonExhausted, Attempts: 10, Failures: 10})
	later := dbtest.AddDelivery(t, r.Pool, dbtest.Delivery{Endpoint: ep, Attempts: 1, Failures: 1, NextAt: time.Now().Add(time.Hour)})
	if err := r.endpoints().Delete(t.Context(), account.Waybill("test", ep.TenantID), ep.ID); err != nil {
		t.Fatal(err)
	}
	r.until(10*time.Second, 4, `select count(*) from deliveries where status = 'cancelled' and reason = 'endpoint_deleted' and id = any($1)`,
		[]string{held[0].ID, held[1].ID, held[2].ID, later.ID})
	r.until(5*time.Second, 1, `select count(*) from lanes where state = 'idle'`)
	if s := r.state(undelivered); s.status != "undelivered" || s.parked != "undelivered "+lane.ReasonExhausted {
		t.Errorf("what was undelivered: %+v", s)
	}
	if n := r.count(`select count(*) from parked where status = 'held'`) + r.count(`select count(*) from due`) + r.count(`select count(*) from attempts`); n != 0 {
		t.Errorf("%d rows held, due or attempted", n)
	}
	if err := r.endpoints().Delete(t.Context(), account.Waybill("test", ep.TenantID), ep.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
}
