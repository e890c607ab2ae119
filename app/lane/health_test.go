package lane_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/alert"
	"waybill/app/endpoint"
	"waybill/app/id"
	"waybill/app/lane"
	"waybill/app/notice"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// policyOf is a process's configuration with a policy file of these lines.
func policyOf(t *testing.T, lines ...string) func(*lane.Config) {
	t.Helper()
	set, err := policy.Load([]byte("webhook_delivery:\n  " + strings.Join(lines, "\n  ") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *lane.Config) { c.Policies = set }
}

// alerts tells what the program tells; operations is the uid of the platform's own tenant.
func (r *rig) alerts(operations string) *alert.Service {
	return &alert.Service{Accounts: &account.Service{DB: r.Pool, Now: time.Now, KnowsPreset: func(string) bool { return true }},
		Mails: &notice.Outbox{DB: r.Pool, Ring: r.ring, URL: "https://waybill.test", Now: time.Now}, Operations: operations, Window: 30 * 24 * time.Hour}
}

func telling(teller lane.Teller) func(*lane.Config) {
	return func(c *lane.Config) { c.Teller = teller }
}

// member puts one with a confirmed address into a tenant.
func (r *rig) member(tenantID, role string) string {
	r.t.Helper()
	memberID := id.New(id.Member, time.Now())
	email := strings.ToLower(memberID) + "@seller.test"
	r.run(`insert into members (id, email, verified_at) values ($1, $2, now())`, memberID, email)
	r.run(`insert into memberships (tenant_id, member_id, role) values ($1, $2, $3)`, tenantID, memberID, role)
	return email
}

// switched answers 500 until it is switched on, and notes the most requests at once.
type switched struct {
	on         atomic.Bool
	bad        atomic.Int64
	wire, most atomic.Int64
	code       int
}

func (s *switched) send(_ context.Context, _ sender.Request) sender.Outcome {
	n := s.wire.Add(1)
	defer s.wire.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	time.Sleep(2 * time.Millisecond)
	if s.on.Load() {
		return answer(200)
	}
	s.bad.Add(1)
	return answer(max(s.code, 500))
}

// An open circuit holds what is due without using its attempts, sends one probe at a time, and once one succeeds lets the rest through, gently: also
// what had failed before and would have waited for half an hour.
func TestCircuit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := &switched{}
	r.process(s.send, policyOf(t, `waits_between_attempts: [1s, 30m, 2h, 5h]`, `jitter_percent: 0`, `circuit_breaker: {consecutive_failures: 5, probe_every: [1s]}`))
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 3})
	r.publish(tenant.UID, 60)
	r.until(5*time.Second, 1, `select count(*) from endpoint_health where endpoint_id = $1 and phase = 'open' and failing_since is not null`, ep.ID)
	r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and limit_now = 1 and not_before is not null and ailing`, ep.ID)
	opened := s.bad.Load()
	if opened < 5 || opened > 5+2*3 {
		t.Errorf("opened after %d attempts, want 5 and what was on the wire", opened)
	}
	time.Sleep(3500 * time.Millisecond)
	if probes := s.bad.Load() - opened; probes < 2 || probes > 4 {
		t.Errorf("%d probes in 3.5 s, want one a second", probes)
	}
	if n := r.count(`select count(*) from deliveries where endpoint_id = $1 and status = 'pending' and attempts = 0`, ep.ID); n < 60-int(s.bad.Load()) {
		t.Errorf("%d are without an attempt, after %d attempts of 60 deliveries", n, s.bad.Load())
	}
	s.most.Store(0)
	s.on.Store(true)
	r.until(6*time.Second, 60, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	if n := s.most.Load(); n > 3 {
		t.Errorf("%d requests at once on its return, the limit is 3", n)
	}
	r.until(2*time.Second, 1, `select count(*) from lanes l join endpoint_health h using (endpoint_id) where l.endpoint_id = $1 and l.limit_now = 100
		and l.not_before is null and not l.ailing and h.phase = 'closed' and h.failing_since is null`, ep.ID)
	if n := r.count(`select sum(attempts)::integer from deliveries where endpoint_id = $1`, ep.ID); n != 60+int(s.bad.Load()) {
		t.Errorf("%d attempts, want 60 successes and %d failures", n, s.bad.Load())
	}
}

// One delivery that always fails, while others pass, never opens the circuit and delays nobody.
func TestPoisonEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var poison atomic.Value
	poison.Store("")
	o := &observed{answer: func(_ int, q sender.Request) sender.Outcome {
		if header(q, "webhook-id") == poison.Load() {
			return answer(500)
		}
		return answer(200)
	}}
	r.process(o.send, policyOf(t, `circuit_breaker: {consecutive_failures: 2, probe_every: [1h]}`))
	ep := r.endpoint(dbtest.Endpoint{Concurrency: 3})
	ev := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID})
	poison.Store(ev.ID)
	bad := r.delivery(dbtest.Delivery{Endpoint: ep, Event: ev})
	for i := range 8 {
		r.attempted(bad, i+1)
		for range 3 {
			r.delivery(dbtest.Delivery{Endpoint: ep})
		}
		r.until(5*time.Second, 3*(i+1), `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
		r.hurry(bad)
	}
	if n := r.count(`select count(*) from lanes where endpoint_id = $1 and not_before is null and limit_now = 100`, ep.ID); n != 1 {
		t.Error("a delivery that always fails holds the others back")
	}
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1 and phase <> 'closed'`, ep.ID); n != 0 {
		t.Error("it opened the circuit")
	}
}

// Endpoints that answer 500 or hang take nothing from another of the same tenant.
func TestSickBesideHealthy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var healthy string
	o := &observed{}
	send := func(ctx context.Context, q sender.Request) sender.Outcome {
		if q.EndpointID == healthy {
			return o.send(ctx, q)
		}
		if q.URL == "https://hangs.test/" {
			return hang(ctx, q)
		}
		return answer(500)
	}
	o.answer = func(int, sender.Request) sender.Outcome { return answer(200) }
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 20})
	for i := range 6 {
		r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: []string{"https://hangs.test/", "https://breaks.test/"}[i%2]})
	}
	healthy = r.endpoint(dbtest.Endpoint{TenantID: tenant.ID}).ID
	r.process(send, policyOf(t, `timeout_seconds: 2`))
	r.publish(tenant.UID, 100)
	r.until(10*time.Second, 100, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, healthy)
	r.until(10*time.Second, 3, `select count(*) from endpoint_health h join endpoints e on e.id = h.endpoint_id where e.url = 'https://breaks.test/' and h.phase = 'open'`)
	began := time.Now()
	r.publish(tenant.UID, 100)
	r.until(5*time.Second, 200, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, healthy)
	t.Logf("100 events beside six sick endpoints: %s", time.Since(began))
}

// After failing for long enough an endpoint is disabled once: one entry in the log, one mail to each who wants it, one event for the platform. What waits
// is held. Enabling and a new address start clean (CASES B15, B16).
func TestDisabledForFailing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	operations := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	s := &switched{}
	tell := telling(r.alerts(operations.UID))
	breaker := policyOf(t, `circuit_breaker: {consecutive_failures: 0, probe_every: [1s]}`)
	r.process(s.send, tell, breaker)
	r.process(s.send, tell, breaker)
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Concurrency: 200})
	owner := r.member(tenant.ID, "owner")
	r.member(tenant.ID, "viewer") // has not chosen to be told
	const endpoints = 6
	eps := make([]dbtest.Endpoint, endpoints)
	for i := range eps {
		eps[i] = r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 20})
		r.run(`insert into endpoint_health (endpoint_id, tenant_id, failed, failing_since, warned_at, told, told_at)
			values ($1, $2, '{1,2}', now() - interval '5 days 1 second', now() - interval '25 hours', true, now() - interval '5 days')`, eps[i].ID, tenant.ID)
		r.run(`update lanes set ailing = true where endpoint_id = $1`, eps[i].ID)
	}
	r.publish(tenant.UID, 40)
	r.until(15*time.Second, endpoints, `select count(*) from endpoints where tenant_id = $1 and state = 'disabled' and reason = 'failing' and state_by = 'system'`, tenant.ID)
	r.until(15*time.Second, 0, `select count(*) from due where tenant_id = $1`, tenant.ID)
	if n := r.count(`select count(*) from deliveries where tenant_id = $1 and not (status = 'held' and reason = 'endpoint_disabled')`, tenant.ID); n != 0 {
		t.Errorf("%d deliveries are not held", n)
	}
	if n := r.count(`select count(*) from audit where tenant_id = $1 and action = 'endpoint.disabled' and kind = 'system'`, tenant.ID); n != endpoints {
		t.Errorf("%d entries in the log for %d endpoints", n, endpoints)
	}
	if n := r.count(`select count(*) from mails where tenant_id = $1 and kind = 'endpoint-disabled' and recipient = $2`, tenant.ID, owner); n != endpoints {
		t.Errorf("%d mails to the owner for %d endpoints", n, endpoints)
	}
	if n := r.count(`select count(*) from mails where recipient <> $1`, owner); n != 0 {
		t.Errorf("%d mails to somebody else", n)
	}
	r.until(10*time.Second, endpoints, `select count(*) from events where tenant_id = $1 and type = 'endpoint.disabled' and body like '%"reason":"failing"%'`, operations.ID)

	// It starts clean.
	caller := account.Waybill("test", tenant.ID)
	if _, err := r.endpoints().Enable(t.Context(), caller, eps[0].ID); err != nil {
		t.Fatal(err)
	}
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1`, eps[0].ID); n != 0 {
		t.Error("enabled, it is still known to fail")
	}
	d := r.delivery(dbtest.Delivery{Endpoint: eps[0]})
	r.attempted(d, 1)
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1 and failing_since > now() - interval '1 minute'`, eps[0].ID); n != 1 {
		t.Error("its new failure is not the first")
	}
	address := "https://other.example.com/hooks"
	if _, err := r.endpoints().Update(t.Context(), caller, eps[0].ID, endpoint.Change{URL: &address}); err != nil {
		t.Fatal(err)
	}
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1`, eps[0].ID); n != 0 {
		t.Error("with a new address, it is still known to fail")
	}
}

// Tests, manual resends and our own proxy's failures never count, whatever they come to.
func TestWhatNeverCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var class atomic.Value
	class.Store(sender.Status)
	r.process(func(context.Context, sender.Request) sender.Outcome {
		out := answer(500)
		if c := class.Load().(sender.Class); c != sender.Status {
			out = sender.Outcome{Class: c, Err: "ours"}
		}
		return out
	}, policyOf(t, `waits_between_attempts: []`, `circuit_breaker: {consecutive_failures: 1, probe_every: [1h]}`, `resend_window: 30d`))
	ep := r.endpoint(dbtest.Endpoint{})
	caller := account.Waybill("test", ep.TenantID)
	for range 5 {
		if _, err := r.endpoints().SendTest(t.Context(), caller, ep.ID, endpoint.TestInput{}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(10*time.Second, 5, `select count(*) from deliveries where endpoint_id = $1 and test and attempts = 1`, ep.ID)
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1`, ep.ID); n != 0 {
		t.Error("tests count")
	}
	class.Store(sender.BlockedAddress)
	blocked := r.delivery(dbtest.Delivery{Endpoint: ep})
	r.attempted(blocked, 1)
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1 and flagged and failing_since is null and phase = 'closed'`, ep.ID); n != 1 {
		t.Error("an address that is not allowed is not flagged, or counts")
	}
	class.Store(sender.Status)
	if err := r.resend(blocked); err != nil {
		t.Fatal(err)
	}
	r.attempted(blocked, 2)
	if n := r.count(`select count(*) from endpoint_health where endpoint_id = $1 and failing_since is null and phase = 'closed'`, ep.ID); n != 1 {
		t.Error("a manual resend counts")
	}
	r.delivery(dbtest.Delivery{Endpoint: ep})
	r.until(5*time.Second, 1, `select count(*) from endpoint_health where endpoint_id = $1 and failing_since is not null and phase = 'open'`, ep.ID)
}

// A 410 is written down and mailed once; a 401 under alert_only ends each delivery at once and is mailed once.
func TestToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tell := r.alerts("")
	code := func(q sender.Request) int {
		if strings.HasPrefix(q.URL, "https://gone") {
			return 410
		}
		return 401
	}
	send := func(_ context.Context, q sender.Request) sender.Outcome {
		time.Sleep(time.Millisecond)
		out := answer(code(q))
		out.Body = []byte("{\"error\": \"no such <key>\"}")
		return out
	}
	r.process(send, telling(tell))
	r.process(send, telling(tell))
	gone, refused := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{}), dbtest.AddTenant(t, r.Pool, dbtest.Tenant{Preset: policy.Commerce})
	r.member(gone.ID, "owner")
	r.member(refused.ID, "developer")
	ep := r.endpoint(dbtest.Endpoint{TenantID: gone.ID, URL: "https://gone.test/"})
	r.endpoint(dbtest.Endpoint{TenantID: refused.ID})
	r.publish(gone.UID, 20)
	r.publish(refused.UID, 20)
	r.until(10*time.Second, 1, `select count(*) from mails where tenant_id = $1 and kind = 'endpoint-disabled'`, gone.ID)
	r.until(10*time.Second, 0, `select count(*) from due where tenant_id = $1`, gone.ID)
	if n := r.count(`select count(*) from audit where object = $1 and action = 'endpoint.disabled' and detail->>'reason' = 'gone'`, ep.ID); n != 1 {
		t.Errorf("%d entries for a 410", n)
	}
	r.until(5*time.Second, 1, `select count(*) from mails where tenant_id = $1 and kind = 'endpoint-failing'`, refused.ID)
	r.until(5*time.Second, 1, `select count(*) from endpoint_health where tenant_id = $1 and phase = 'open' and told`, refused.ID)
	n := r.count(`select count(*) from deliveries where tenant_id = $1 and status = 'undelivered' and reason = $2`, refused.ID, lane.ReasonConfiguration)
	if n < 10 || n != r.count(`select sum(n)::integer from digests where tenant_id = $1`, refused.ID) {
		t.Errorf("%d undelivered, %d in the digest", n, r.count(`select sum(n)::integer from digests where tenant_id = $1`, refused.ID))
	}

	// The digest: one mail for the hour, when it is over, whoever writes it.
	if done, err := tell.Digest(t.Context()); err != nil || done != 0 {
		t.Errorf("an hour that is not over: %d, %v", done, err)
	}
	r.run(`update digests set hour = hour - interval '2 hours'`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := tell.Digest(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := r.count(`select count(*) from mails where kind = 'undelivered'`); n != 1 {
		t.Errorf("%d digests, want 1", n)
	}
	if n := r.count(`select count(*) from digests`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	// What is mailed.
	mails, err := tell.Mails.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mails {
		whole, err := tell.Mails.Read(t.Context(), m.ID)
		if err != nil {
			t.Fatal(err)
		}
		wanted := map[string][]string{
			notice.KindFailing:     {"401 Unauthorized", "no such <key>", "https://waybill.test/deliveries/dlv_", "/attempts/att_"},
			notice.KindDisabled:    {"410 Gone", "https://waybill.test/endpoints/ep_"},
			notice.KindUndelivered: {fmt.Sprint(n, " deliver"), "https://waybill.test/undelivered"},
		}[m.Kind]
		if m.Kind == notice.KindUndelivered {
			wanted = wanted[1:]
		}
		for _, want := range wanted {
			if !strings.Contains(whole.Text, want) {
				t.Errorf("%s has no %q:\n%s", m.Kind, want, whole.Text)
			}
		}
	}
}

// An endpoint's own rate is kept, also when its lane is given back in between.
func TestOwnRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &observed{answer: func(int, sender.Request) sender.Outcome { return answer(200) }}
	r.process(o.send)
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID})
	r.run(`update endpoints set rate_per_second = 20, rev = rev + 1 where id = $1`, ep.ID)
	r.publish(tenant.UID, 40)
	r.until(15*time.Second, 40, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	r.publish(tenant.UID, 20)
	r.until(15*time.Second, 60, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	starts := o.of(ep.ID)
	for i := range starts {
		in := 0
		for _, s := range starts[i:] {
			if s.at.Sub(starts[i].at) < time.Second {
				in++
			}
		}
		if in > 20+3 { // two in the bucket, and a scheduler's hiccup
			t.Fatalf("%d requests within a second", in)
		}
	}
	if took := starts[len(starts)-1].at.Sub(starts[0].at); took > 15*time.Second {
		t.Errorf("60 requests at 20 a second took %s", took)
	}
}

// A receiver that can take two at once and answers 429 to the rest gets fewer at once, and everything in the end.
func TestThrottledReceiver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wire, tooMany atomic.Int64
	r.process(func(context.Context, sender.Request) sender.Outcome {
		n := wire.Add(1)
		defer wire.Add(-1)
		time.Sleep(5 * time.Millisecond)
		if n > 2 {
			tooMany.Add(1)
			return answer(429)
		}
		return answer(200)
	}, policyOf(t, `waits_between_attempts: [1s, 1s, 2s, 2s, 2s, 2s]`, `circuit_breaker: {consecutive_failures: 0, probe_every: [1s]}`))
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID, Concurrency: 10})
	r.publish(tenant.UID, 400)
	r.until(30*time.Second, 400, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered'`, ep.ID)
	if n := tooMany.Load(); n == 0 || n > 120 {
		t.Errorf("%d answers of 429 for 400 deliveries", n)
	}
}

// What has waited at a closed door until its schedule was over is undelivered; what still has time waits on.
func TestOutlived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tell := r.alerts("")
	tenant := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	ep := r.endpoint(dbtest.Endpoint{TenantID: tenant.ID})
	r.shut(ep, time.Hour)
	old, late, fresh := r.delivery(dbtest.Delivery{Endpoint: ep}), r.delivery(dbtest.Delivery{Endpoint: ep}), r.delivery(dbtest.Delivery{Endpoint: ep})
	r.run(`update due set next_at = now() - interval '95 hours' where delivery_id = $1`, old.ID)
	r.run(`update due set next_at = now() - interval '30 hours', failures = 8, trigger = 'retry' where delivery_id = $1`, late.ID)
	r.run(`update due set next_at = now() - interval '80 hours' where delivery_id = $1`, fresh.ID)
	r.process(always(500), telling(tell))
	r.run(`update lanes set not_before = now() + interval '1 second', wake_at = now(), limit_now = 1, ailing = true where endpoint_id = $1`, ep.ID)
	r.run(`insert into endpoint_health (endpoint_id, tenant_id, phase, phase_at, failing_since) values ($1, $2, 'open', now() - interval '2 hours', now() - interval '2 hours')`, ep.ID, ep.TenantID)
	// The door opens, one probe goes out and fails, the door is shut again.
	r.until(10*time.Second, 2, `select count(*) from deliveries where endpoint_id = $1 and status = 'undelivered' and reason = 'schedule_exhausted'`, ep.ID)
	if n := r.count(`select count(*) from due where endpoint_id = $1`, ep.ID); n != 1 {
		t.Errorf("%d are due, want the one that has time", n)
	}
	if n := r.count(`select sum(n)::integer from digests where tenant_id = $1`, tenant.ID); n != 2 {
		t.Errorf("%d in the digest, want 2", n)
	}
	if s := r.state(fresh); s.status != "pending" {
		t.Errorf("what has time: %+v", s)
	}
}

// A teller that cannot write keeps nothing from being recorded, and says so in the log.
func TestTellerFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, teller := range map[string]tellFunc{
		"an error": func(context.Context, pgx.Tx, []lane.News) error { return errors.New("no words") },
		"a broken statement": func(ctx context.Context, tx pgx.Tx, _ []lane.News) error {
			_, err := tx.Exec(ctx, `insert into mails (id) values ('x')`)
			return err
		},
	} {
		p := r.process(always(410), telling(teller), func(c *lane.Config) { c.Logger = slog.New(slog.DiscardHandler) })
		ep := r.endpoint(dbtest.Endpoint{})
		d := r.delivery(dbtest.Delivery{Endpoint: ep})
		r.attempted(d, 1)
		r.until(5*time.Second, 1, `select count(*) from endpoints where id = $1 and state = 'disabled' and reason = 'gone'`, ep.ID)
		if s := r.state(d); s.status != "undelivered" {
			t.Errorf("%s: %+v", name, s)
		}
		p.stop()
	}
}

type tellFunc func(ctx context.Context, tx pgx.Tx, news []lane.News) error

func (f tellFunc) Tell(ctx context.Context, tx pgx.Tx, news []lane.News) error {
	return f(ctx, tx, news)
}

// What fails in the platform's own tenant makes no news there: it would feed itself.
func TestOperationsDoNotFeedThemselves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	operations := dbtest.AddTenant(t, r.Pool, dbtest.Tenant{})
	own := r.endpoint(dbtest.Endpoint{TenantID: operations.ID, URL: "https://operations.test/"})
	r.process(always(410), telling(r.alerts(operations.UID)))
	ep := r.endpoint(dbtest.Endpoint{})
	r.delivery(dbtest.Delivery{Endpoint: ep})
	// The seller's endpoint is disabled, which the platform is told; its own endpoint answers 410 to that, which it is not told.
	r.until(10*time.Second, 1, `select count(*) from endpoints where id = $1 and state = 'disabled'`, own.ID)
	r.until(5*time.Second, 0, `select count(*) from outbox`)
	if n := r.count(`select count(*) from events where tenant_id = $1`, operations.ID); n != 1 {
		t.Errorf("%d operational events, want 1", n)
	}
	if _, err := outbox.Publish(t.Context(), r.Pool, outbox.Event{Tenant: operations.UID, Type: "x", ResourceType: "x", ResourceID: "x", Data: []byte("1")}); err != nil {
		t.Error(err)
	}
}
