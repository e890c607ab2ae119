package lane_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"waybill/app/id"
	"waybill/app/lane"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/db/dbtest"
)

// script is a sender that answers each attempt with the next outcome, and goes on with the last one.
type script struct {
	mu       sync.Mutex
	outcomes []sender.Outcome
	sent     int
}

func answers(codes ...int) *script {
	s := &script{}
	for _, code := range codes {
		s.outcomes = append(s.outcomes, answer(code))
	}
	return s
}

func (s *script) send(context.Context, sender.Request) sender.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.outcomes[min(s.sent, len(s.outcomes)-1)]
	s.sent++
	out.Started = time.Now()
	return out
}

// state is what the tables say of one delivery.
type state struct {
	status, reason, parked     string
	attempts, failures         int
	due                        bool
	dueTrigger                 string
	dueFailures                int
	wait                       time.Duration // from the last attempt's start to the next
	lastClass, attemptTriggers string
}

func (r *rig) state(d dbtest.Delivery) state {
	r.t.Helper()
	var s state
	var wait *float64
	err := r.QueryRow(r.t.Context(), `select d.status, coalesce(d.reason, ''), coalesce((select status || ' ' || reason from parked where delivery_id = d.id), ''),
			d.attempts, d.failures, u.delivery_id is not null, coalesce(u.trigger, ''), coalesce(u.failures, 0),
			extract(epoch from u.next_at - (select max(started_at) from attempts a where a.delivery_id = d.id))::float8,
			coalesce(d.last_class, ''), coalesce((select string_agg(trigger, ' ' order by number) from attempts a where a.delivery_id = d.id), '')
		from deliveries d left join due u on u.delivery_id = d.id where d.id = $1`, d.ID).
		Scan(&s.status, &s.reason, &s.parked, &s.attempts, &s.failures, &s.due, &s.dueTrigger, &s.dueFailures, &wait, &s.lastClass, &s.attemptTriggers)
	if err != nil {
		r.t.Fatal(err)
	}
	if wait != nil {
		s.wait = time.Duration(*wait * float64(time.Second))
	}
	return s
}

// attempted waits until a delivery has had n attempts.
func (r *rig) attempted(d dbtest.Delivery, n int) state {
	r.t.Helper()
	r.until(10*time.Second, n, `select attempts from deliveries where id = $1`, d.ID)
	return r.state(d)
}

// near says that a wait is the policy's, as it was written some moments after the attempt had begun.
func near(got, want time.Duration) bool { return got >= want && got < want+2*time.Second }

// A receiver that never succeeds: each wait is the policy's, shrunk or stretched by the jitter, and after the last attempt the delivery is
// undelivered and parked.
func TestScheduleToItsEnd(t *testing.T) {
	t.Parallel()
	for preset, random := range map[string]float64{policy.Standard: 1, policy.Commerce: 0} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			fails := answers(500, 0, 404, 302, 503)
			if preset == policy.Commerce {
				fails = answers(500, 0, 400, 302, 503) // a 404 ends its schedule
			}
			r.process(fails.send, func(c *lane.Config) { c.Random = func() float64 { return random } })
			p := policy.Builtin().First(preset)
			d := r.delivery(dbtest.Delivery{Endpoint: r.endpoint(dbtest.Endpoint{Preset: preset})})
			for n, step := range p.Waits {
				s := r.attempted(d, n+1)
				shift := step / 5
				if random == 0 {
					shift = -shift
				}
				if !near(s.wait, step+shift) || s.status != "pending" || s.failures != n+1 || s.dueFailures != n+1 || s.dueTrigger != "retry" || s.parked != "" {
					t.Fatalf("after %d failures: %+v, want a wait of %s", n+1, s, step+shift)
				}
				r.hurry(d)
			}
			s := r.attempted(d, p.Attempts())
			if s.status != "undelivered" || s.reason != lane.ReasonExhausted || s.parked != "undelivered "+lane.ReasonExhausted || s.due || s.failures != p.Attempts() {
				t.Errorf("at the end: %+v", s)
			}
			r.until(5*time.Second, 1, `select count(*) from lanes where state = 'idle' and endpoint_id = $1`, d.Endpoint.ID)
			if n := r.count(`select count(*) from attempts where delivery_id = $1 and number between 1 and $2 and trigger = case number when 1 then 'first' else 'retry' end`,
				d.ID, p.Attempts()); n != p.Attempts() {
				t.Errorf("%d attempts in the history, want %d in a row", n, p.Attempts())
			}
		})
	}
}

// What ends a schedule early, and what lengthens a wait.
func TestScheduleTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const step = 5 * time.Second
	wish := answer(429)
	wish.RetryAfter = []string{"60"}
	hurried := answer(503)
	hurried.RetryAfter = []string{"1"}
	never := answer(503)
	never.RetryAfter = []string{"9223372037"}
	proxy := sender.Outcome{Class: sender.Proxy, Err: "our way out failed"}
	broken := sender.Outcome{Class: sender.BadConfig, Err: "cannot be sent"}
	cases := map[string]struct {
		preset   string
		outcomes []sender.Outcome // all but the last are followed by a retry that is made to be due at once
		want     state
		wait     time.Duration
	}{
		"a success":               {"", []sender.Outcome{answer(204)}, state{status: "delivered", attempts: 1, lastClass: "delivered", attemptTriggers: "first"}, 0},
		"a success in the middle": {"", []sender.Outcome{answer(500), answer(0), answer(200)}, state{status: "delivered", attempts: 3, failures: 2, lastClass: "delivered", attemptTriggers: "first retry retry"}, 0},
		"Retry-After": {"", []sender.Outcome{wish}, state{status: "pending", attempts: 1, failures: 1, due: true, dueTrigger: "retry", dueFailures: 1,
			lastClass: "status", attemptTriggers: "first"}, time.Minute},
		"Retry-After cannot hurry": {"", []sender.Outcome{hurried}, state{status: "pending", attempts: 1, failures: 1, due: true, dueTrigger: "retry", dueFailures: 1,
			lastClass: "status", attemptTriggers: "first"}, step},
		"Retry-After is no eternity": {"", []sender.Outcome{never}, state{status: "pending", attempts: 1, failures: 1, due: true, dueTrigger: "retry", dueFailures: 1,
			lastClass: "status", attemptTriggers: "first"}, 24 * time.Hour},
		"401": {"", []sender.Outcome{answer(401)}, state{status: "pending", attempts: 1, failures: 1, due: true, dueTrigger: "retry", dueFailures: 1,
			lastClass: "status", attemptTriggers: "first"}, step},
		"401, alert only": {policy.Commerce, []sender.Outcome{answer(401)}, state{status: "undelivered", reason: lane.ReasonConfiguration,
			parked: "undelivered configuration_error", attempts: 1, failures: 1, lastClass: "status", attemptTriggers: "first"}, 0},
		"403 in the middle, alert only": {policy.Commerce, []sender.Outcome{answer(500), answer(403)}, state{status: "undelivered", reason: lane.ReasonConfiguration,
			parked: "undelivered configuration_error", attempts: 2, failures: 2, lastClass: "status", attemptTriggers: "first retry"}, 0},
		"410": {"", []sender.Outcome{answer(410)}, state{status: "undelivered", reason: lane.ReasonGone, parked: "undelivered gone", attempts: 1, failures: 1,
			lastClass: "gone", attemptTriggers: "first"}, 0},
		"cannot be sent": {"", []sender.Outcome{broken}, state{status: "undelivered", reason: lane.ReasonConfiguration, parked: "undelivered configuration_error",
			attempts: 1, failures: 1, lastClass: "bad_request_config", attemptTriggers: "first"}, 0},
		"our proxy is down": {"", []sender.Outcome{proxy}, state{status: "pending", attempts: 1, due: true, dueTrigger: "retry",
			lastClass: "proxy", attemptTriggers: "first"}, 7500 * time.Millisecond},
		"999 and strange evidence": {"", []sender.Outcome{{Class: sender.Status, Status: 999, StatusText: "\x00\xff", Header: []sender.Header{{Name: "X\x00", Value: "\xff\x00"}},
			Body: []byte("\x00\xff\xfe"), Sent: true, Err: "a\x00b"}}, state{status: "pending", attempts: 1, failures: 1, due: true, dueTrigger: "retry", dueFailures: 1,
			lastClass: "status", attemptTriggers: "first"}, step},
	}
	byEndpoint := sync.Map{}
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		s, _ := byEndpoint.Load(q.EndpointID)
		return s.(*script).send(ctx, q)
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ep := r.endpoint(dbtest.Endpoint{Preset: c.preset})
			byEndpoint.Store(ep.ID, &script{outcomes: c.outcomes})
			d := r.delivery(dbtest.Delivery{Endpoint: ep})
			for n := range c.outcomes[1:] {
				r.attempted(d, n+1)
				r.hurry(d)
			}
			s := r.attempted(d, len(c.outcomes))
			if c.wait > 0 && !near(s.wait, c.wait) {
				t.Errorf("waits %s, want %s", s.wait, c.wait)
			}
			s.wait = 0
			if s != c.want {
				t.Errorf("%+v\nwant %+v", s, c.want)
			}
		})
	}
}

// A manual resend neither shortens nor doubles the schedule that it interrupts (CASES B47).
func TestResend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	byEndpoint := sync.Map{}
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		s, _ := byEndpoint.Load(q.EndpointID)
		return s.(*script).send(ctx, q)
	})
	start := func(row dbtest.Delivery, codes ...int) dbtest.Delivery {
		ep := r.endpoint(dbtest.Endpoint{})
		byEndpoint.Store(ep.ID, answers(codes...))
		row.Endpoint = ep
		return r.delivery(row)
	}
	again := func(d dbtest.Delivery) {
		t.Helper()
		if err := r.resend(d); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("of a pending one, fails", func(t *testing.T) {
		d := start(dbtest.Delivery{}, 500)
		r.attempted(d, 1)
		var before, after time.Time
		next := `select next_at from due where delivery_id = $1`
		if err := r.QueryRow(t.Context(), next, d.ID).Scan(&before); err != nil {
			t.Fatal(err)
		}
		again(d)
		s := r.attempted(d, 2)
		if err := r.QueryRow(t.Context(), next, d.ID).Scan(&after); err != nil {
			t.Fatal(err)
		}
		if !after.Equal(before) || s.status != "pending" || s.failures != 1 || s.dueFailures != 1 || s.dueTrigger != "retry" || s.attemptTriggers != "first manual" {
			t.Errorf("next attempt %s, was %s; %+v", after, before, s)
		}
		if n := r.count(`select count(*) from attempts where delivery_id = $1 and number = 2 and requested_by = 'waybill'`, d.ID); n != 1 {
			t.Error("the history does not say who asked for the second attempt")
		}
		r.hurry(d)
		if s := r.attempted(d, 3); s.failures != 2 || !near(s.wait, 5*time.Minute) || s.attemptTriggers != "first manual retry" {
			t.Errorf("the schedule went on with %+v", s)
		}
	})
	t.Run("of a pending one, succeeds", func(t *testing.T) {
		d := start(dbtest.Delivery{}, 500, 200)
		r.attempted(d, 1)
		again(d)
		if s := r.attempted(d, 2); s.status != "delivered" || s.due || s.parked != "" || s.attemptTriggers != "first manual" {
			t.Errorf("%+v", s)
		}
	})
	t.Run("of a pending one, 410", func(t *testing.T) {
		d := start(dbtest.Delivery{}, 500, 410)
		r.attempted(d, 1)
		again(d)
		if s := r.attempted(d, 2); s.status != "undelivered" || s.reason != "gone" || s.due || s.parked != "undelivered gone" {
			t.Errorf("%+v", s)
		}
		r.until(5*time.Second, 1, `select count(*) from endpoints where id = $1 and state = 'disabled' and reason = 'gone'`, d.Endpoint.ID)
	})
	for _, finished := range []struct{ status, reason, parked string }{{"undelivered", lane.ReasonExhausted, "undelivered " + lane.ReasonExhausted},
		{"delivered", "", ""}, {"held", "endpoint_paused", "held endpoint_paused"}} {
		row := dbtest.Delivery{Status: finished.status, Reason: finished.reason, Attempts: 3, Failures: 3}
		t.Run("of a "+finished.status+" one, fails", func(t *testing.T) {
			d := start(row, 500)
			again(d)
			if s := r.attempted(d, 4); s.status != finished.status || s.reason != finished.reason || s.parked != finished.parked || s.due || s.failures != 3 ||
				s.attemptTriggers != "manual" {
				t.Errorf("%+v", s)
			}
		})
		t.Run("of a "+finished.status+" one, succeeds", func(t *testing.T) {
			d := start(row, 200)
			again(d)
			if s := r.attempted(d, 4); s.status != "delivered" || s.reason != "" || s.parked != "" || s.due || s.failures != 3 {
				t.Errorf("%+v", s)
			}
		})
	}
	t.Run("of an undelivered one, twice at once", func(t *testing.T) {
		d := start(dbtest.Delivery{Status: "undelivered", Reason: lane.ReasonExhausted, Attempts: 3, Failures: 3}, 500)
		var both sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			both.Go(func() { errs[i] = r.resend(d) })
		}
		both.Wait()
		r.attempted(d, 4)
		r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, d.Endpoint.ID)
		if (errs[0] == nil) == (errs[1] == nil) || r.state(d).attempts != 4 {
			t.Errorf("a double click: %v, %v and %+v", errs[0], errs[1], r.state(d))
		}
	})
}

// A test event is sent once, whatever comes back, and is neither retried nor parked; a 410 to it changes nothing.
func TestTestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	byEndpoint := sync.Map{}
	r.process(func(ctx context.Context, q sender.Request) sender.Outcome {
		s, _ := byEndpoint.Load(q.EndpointID)
		return s.(*script).send(ctx, q)
	})
	for _, c := range []struct {
		code          int
		state, status string
	}{{200, "active", "delivered"}, {500, "active", "undelivered"}, {0, "active", "undelivered"}, {410, "active", "undelivered"}, {401, "active", "undelivered"},
		{200, "paused", "delivered"}, {500, "disabled", "undelivered"}} {
		ep := r.endpoint(dbtest.Endpoint{State: c.state, Preset: policy.Commerce})
		byEndpoint.Store(ep.ID, answers(c.code))
		ev := dbtest.AddEvent(t, r.Pool, dbtest.Event{TenantID: ep.TenantID, Test: true})
		d := r.delivery(dbtest.Delivery{Endpoint: ep, Event: ev, ID: id.New(id.Delivery, time.Now())})
		s := r.attempted(d, 1)
		r.until(5*time.Second, 1, `select count(*) from lanes where endpoint_id = $1 and state = 'idle'`, ep.ID)
		if s = r.state(d); s.status != c.status || s.due || s.parked != "" || s.attempts != 1 || s.attemptTriggers != "test" {
			t.Errorf("answered %d at a %s endpoint: %+v", c.code, c.state, s)
		}
		if n := r.count(`select count(*) from endpoints where id = $1 and state = $2 and coalesce(reason, '') = ''`, ep.ID, c.state); n != 1 {
			t.Errorf("answered %d: the endpoint's state has changed from %s", c.code, c.state)
		}
	}
}
