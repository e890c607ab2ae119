package lane

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"waybill/app/policy"
)

var breakerSeed = flag.Uint64("breaker.seed", 0, "the seed of the simulation; 0: a new one")

// at is the fake clock's beginning.
var at = time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)

// clinic drives a health through outcomes at a fake clock.
type clinic struct {
	health
	p    policy.Policy
	full int
	now  time.Time
	all  signals
}

func newClinic(change ...func(*policy.Policy)) *clinic {
	p := policy.Builtin().First("")
	for _, f := range change {
		f(&p)
	}
	return &clinic{health: healthy(), p: p, full: 10, now: at}
}

func (c *clinic) after(d time.Duration) *clinic { c.now = c.now.Add(d); return c }

func (c *clinic) take1(o outcome) signals {
	o.At = c.now
	if o.Started.IsZero() {
		o.Started = c.now
	}
	s := c.take(&c.p, c.full, o)
	c.all.add(s)
	return s
}

func (c *clinic) ok(delivery int) signals {
	return c.take1(outcome{Delivery: int64(delivery), OK: true, Counts: true, Code: 200})
}

func (c *clinic) fails(delivery int) signals {
	return c.take1(outcome{Delivery: int64(delivery), Counts: true, Code: 500, Class: "status"})
}

func (c *clinic) failTimes(n int) {
	for i := range n {
		c.fails(1000 + i)
	}
}

func wantDoor(t *testing.T, c *clinic, wait time.Duration) {
	t.Helper()
	if c.Phase != openCircuit || c.Door == nil || c.Door.Sub(c.now) != wait || c.Limit != 1 {
		t.Fatalf("phase %s, door %v, limit %d; want open, a door in %s, limit 1", c.Phase, c.Door, c.Limit, wait)
	}
}

func TestBreakerOpensAfterDifferentDeliveries(t *testing.T) {
	t.Parallel()
	c := newClinic()
	for range 50 { // one delivery's retries
		c.fails(1)
	}
	if c.Phase != closedCircuit || c.Limit != unlimited {
		t.Fatalf("one delivery opened the circuit: %+v", c.health)
	}
	for i := 2; i <= 9; i++ {
		c.fails(i)
	}
	if c.Phase != closedCircuit {
		t.Fatal("nine deliveries opened the circuit")
	}
	c.fails(10)
	wantDoor(t, c, 30*time.Second)

	// What was on the wire when it opened is no probe.
	c.take1(outcome{Delivery: 11, Counts: true, Started: c.now.Add(-5 * time.Second)})
	c.after(10 * time.Second).take1(outcome{Delivery: 12, Counts: true, Started: c.now.Add(-15 * time.Second)})
	if c.Step != 0 {
		t.Fatalf("step %d after what was on the wire", c.Step)
	}
	c.after(20 * time.Second).fails(13)
	wantDoor(t, c, time.Minute)
	for _, step := range []struct{ wait, next time.Duration }{
		{time.Minute, 2 * time.Minute}, {2 * time.Minute, 5 * time.Minute}, {5 * time.Minute, 5 * time.Minute}, // ten minutes in the list, but it is young
		{5 * time.Minute, 5 * time.Minute},
	} {
		c.after(step.wait).fails(14)
		wantDoor(t, c, step.next)
	}
	c.after(time.Hour).fails(14)
	wantDoor(t, c, 10*time.Minute)
}

// Probes are five minutes apart at most in the first hour, and as far as the list says from then on; a list that begins later is never hurried.
func TestProbesInTheFirstHour(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list []time.Duration
		want map[time.Duration]time.Duration // failing for so long → the wait before the next probe, from the last of the list
	}{
		"as built in": {nil, map[time.Duration]time.Duration{0: 5 * time.Minute, 59 * time.Minute: 5 * time.Minute, time.Hour: 10 * time.Minute}},
		"later":       {[]time.Duration{8 * time.Minute, time.Hour}, map[time.Duration]time.Duration{0: 8 * time.Minute, 59 * time.Minute: 8 * time.Minute, time.Hour: time.Hour}},
		"soon":        {[]time.Duration{time.Second}, map[time.Duration]time.Duration{0: time.Second, 2 * time.Hour: time.Second}},
	} {
		for failing, want := range c.want {
			k := newClinic(func(p *policy.Policy) {
				if c.list != nil {
					p.Breaker.ProbeEvery = c.list
				}
			})
			since := at
			k.FailingSince, k.Step = &since, 9
			k.shut(&k.p, at.Add(failing))
			if wait := k.Door.Sub(at.Add(failing)); wait != want {
				t.Errorf("%s: failing for %s, the next probe is %s away, want %s", name, failing, wait, want)
			}
		}
	}
}

func TestBreakerClosesGently(t *testing.T) {
	t.Parallel()
	c := newClinic()
	c.failTimes(10)
	if s := c.after(30 * time.Second).ok(1); !s.Pull || c.Phase != halfCircuit || c.Limit != 2 || c.Door != nil {
		t.Fatalf("after a probe that succeeded: %+v, %+v", s, c.health)
	}
	// One delivery that always fails does not open it again, two do.
	for range 5 {
		c.after(time.Second).fails(7)
		c.ok(8)
	}
	if c.Phase != halfCircuit || c.Limit != 7 {
		t.Fatalf("phase %s, limit %d; want half, 7", c.Phase, c.Limit)
	}
	c.fails(7)
	c.fails(9)
	wantDoor(t, c, time.Minute)
	c.after(time.Minute)
	for i := range 9 {
		c.ok(i)
	}
	if c.Phase != closedCircuit || c.Limit != unlimited || c.Step != 0 || c.FailingSince != nil {
		t.Fatalf("it did not close: %+v", c.health)
	}
	if c.Ailing() && !c.Told {
		t.Errorf("it is well, and its successes still matter: %+v", c.health)
	}
}

func TestBreakerManualResends(t *testing.T) {
	t.Parallel()
	c := newClinic()
	for i := range 100 {
		c.take1(outcome{Delivery: int64(i), Code: 500})
	}
	if c.Phase != closedCircuit || c.FailingSince != nil || len(c.Failed) != 0 || c.all != (signals{}) {
		t.Fatalf("manual resends count: %+v", c.health)
	}
	c.failTimes(10)
	since := *c.FailingSince
	c.after(30 * time.Second).take1(outcome{Delivery: 5, Code: 500})
	wantDoor(t, c, time.Minute)
	c.after(time.Minute).take1(outcome{Delivery: 5, OK: true, Code: 200})
	if c.Phase != halfCircuit || c.FailingSince == nil || *c.FailingSince != since {
		t.Fatalf("a manual resend as a probe: %+v", c.health)
	}
	c.p.Breaker.ConsecutiveFailures = 0 // the operator takes the breaker out
	c.fails(3)
	if c.Phase != closedCircuit || c.Limit != unlimited {
		t.Fatalf("without a breaker: %+v", c.health)
	}
}

func TestThrottle(t *testing.T) {
	t.Parallel()
	c := newClinic()
	busy := func(started time.Time, pause time.Duration) {
		c.take1(outcome{Delivery: 1, Counts: true, Throttle: true, Pause: pause, Started: started, Code: 429})
	}
	started := c.now
	c.after(time.Second)
	for range 10 { // all of one round
		busy(started, 0)
	}
	if c.Limit != 5 {
		t.Fatalf("limit %d after one round, want 5", c.Limit)
	}
	for _, want := range []int{2, 1, 1} {
		if c.after(time.Second); true {
			busy(c.now, 0)
		}
		if c.Limit != want {
			t.Fatalf("limit %d, want %d", c.Limit, want)
		}
	}
	for i := range 10 {
		c.ok(i)
	}
	if c.Limit != 2 {
		t.Fatalf("limit %d after 10 successes, want 2", c.Limit)
	}
	for i := range 80 {
		c.ok(i)
	}
	if c.Limit != unlimited || c.Ailing() {
		t.Fatalf("limit %d after 90 successes: %+v", c.Limit, c.health)
	}
	busy(c.now, 20*time.Second)
	if c.Door == nil || c.Door.Sub(c.now) != 20*time.Second {
		t.Fatalf("door %v", c.Door)
	}
	c.ok(1) // of the same round
	if c.Door == nil {
		t.Fatal("what was on the wire opened the door")
	}
	busy(c.now, 24*time.Hour)
	if c.Door.Sub(c.now) != pauseMost {
		t.Fatalf("door in %s", c.Door.Sub(c.now))
	}
	if c.after(pauseMost).ok(2); c.Door != nil {
		t.Fatal("the door stays shut")
	}
}

func TestTelling(t *testing.T) {
	t.Parallel()
	c := newClinic()
	if s := c.fails(1); s != (signals{}) {
		t.Fatalf("the first failure is told: %+v", s)
	}
	if s := c.after(10 * time.Second).ok(1); s != (signals{}) {
		t.Fatalf("its end is told: %+v", s)
	}
	c.fails(2)
	if s := c.after(tellAfter).fails(2); !s.Failing {
		t.Fatal("after two minutes it is not told")
	}
	if s := c.after(time.Hour * 3).fails(3); s.Failing {
		t.Fatal("it is told twice")
	}
	if s := c.ok(1); !s.Recovered {
		t.Fatal("that it works again is not told")
	}
	// It comes and goes: told once an hour.
	told := 0
	for range 60 {
		if c.after(time.Minute).fails(4).Failing {
			told++
		}
		if c.after(tellAfter).fails(4).Failing {
			told++
		}
		c.ok(5)
	}
	if told != 3 {
		t.Errorf("told %d times in three hours, want 3", told)
	}

	// What only they can mend is told at once, and once.
	c = newClinic()
	refused := outcome{Delivery: 1, Counts: true, Setting: true, Code: 401}
	if !c.take1(refused).Failing || c.take1(refused).Failing {
		t.Error("a 401 is not told at once, or twice")
	}
	c = newClinic()
	blocked := outcome{Delivery: 1, Setting: true, Class: "blocked_address"}
	if !c.take1(blocked).Failing || c.take1(blocked).Failing || !c.Flagged || c.FailingSince != nil {
		t.Errorf("an address that is not allowed: %+v", c.health)
	}
	for range 30 {
		c.after(24 * time.Hour).take1(blocked)
	}
	if c.all.Disable || c.all.Warn || c.Phase != closedCircuit {
		t.Errorf("what our proxy refused counts: %+v", c.all)
	}
	if s := c.ok(1); !s.Recovered || c.Ailing() {
		t.Errorf("its end: %+v, %+v", s, c.health)
	}
}

func TestDisabling(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	c := newClinic()
	var warned, disabled time.Duration
	for disabled == 0 && c.now.Sub(at) < 30*day {
		s := c.fails(int(c.now.Sub(at) / time.Hour))
		if s.Warn && warned == 0 {
			warned = c.now.Sub(at)
		}
		if s.Disable {
			disabled = c.now.Sub(at)
		}
		c.after(10 * time.Minute)
	}
	if warned != 4*day || disabled != 5*day {
		t.Errorf("warned after %s, disabled after %s", warned, disabled)
	}

	for name, step := range map[string]func(c *clinic){
		"two different deliveries":          func(c *clinic) { c.fails(int(c.now.Unix() / 600 % 2)) },
		"one success a day":                 func(c *clinic) { c.ok(1); c.failTimes(20) },
		"manual resends and our own faults": func(c *clinic) { c.take1(outcome{Delivery: c.now.Unix()}) },
	} {
		c := newClinic()
		for range 60 {
			step(c)
			c.after(20 * time.Hour)
		}
		if c.all.Disable {
			t.Errorf("%s disable", name)
		}
	}

	// Nothing is tried for long, then it fails: it is warned of first, the whole lead before.
	c = newClinic()
	c.failTimes(3)
	if s := c.after(20 * day).fails(1); s.Disable || !s.Warn || !c.DisableAt.Equal(c.now.Add(day)) {
		t.Errorf("after silence: %+v, disabled at %v", s, c.DisableAt)
	}
	if s := c.after(day - time.Second).fails(2); s.Disable || s.Warn {
		t.Errorf("before the end of the lead: %+v", s)
	}
	if s := c.after(time.Second).fails(3); !s.Disable {
		t.Error("after the lead it is not disabled")
	}
}

// A receiver with a script of its own is driven for simulated weeks; after each step what is promised is checked. What an endpoint is, and when it
// is up, comes from a printed seed.
func TestBreakerSimulation(t *testing.T) {
	t.Parallel()
	seed := *breakerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (-breaker.seed)", seed)
	for n := range 300 {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		simulate(t, fmt.Sprintf("seed %d, endpoint %d", seed, n), random)
	}
}

func simulate(t *testing.T, name string, random *rand.Rand) {
	c := newClinic(func(p *policy.Policy) {
		p.Breaker.ConsecutiveFailures = []int{0, 1, 3, 10, 200}[random.IntN(5)]
		p.DisableAfterFailingFor = time.Duration(1+random.IntN(10)) * 24 * time.Hour
	})
	c.full = 1 + random.IntN(30)
	var (
		up, poison = true, random.IntN(3) == 0 // one delivery that always fails, among others
		changes    = c.now
		lastOK     time.Time
		distinct   = map[int64]bool{}
	)
	for step := range 3000 {
		if !c.now.Before(changes) {
			up = !up
			changes = c.now.Add(time.Duration(random.ExpFloat64() * float64([]time.Duration{time.Minute, time.Hour, 4 * 24 * time.Hour}[random.IntN(3)])))
		}
		c.after(time.Duration(random.ExpFloat64() * float64(20*time.Second)))
		if c.Door != nil && c.now.Before(*c.Door) {
			c.now = *c.Door // a lane does not send before
		}
		delivery, ok := int64(step/2), up
		if poison && random.IntN(3) == 0 {
			delivery, ok = -1, false
		}
		before := c.health
		o := outcome{Delivery: delivery, OK: ok, Counts: true, Code: 500, Throttle: !ok && random.IntN(4) == 0}
		s := c.take1(o)
		if ok {
			lastOK = c.now
			clear(distinct)
		} else {
			distinct[delivery] = true
		}
		fail := func(format string, args ...any) {
			t.Fatalf("%s, step %d: %s\nbefore %+v\nafter %+v", name, step, fmt.Sprintf(format, args...), before, c.health)
		}
		most := c.p.Breaker.ConsecutiveFailures
		switch {
		case c.Limit < 1 || c.Limit > unlimited:
			fail("limit %d", c.Limit)
		case c.Phase == openCircuit && (c.Limit != 1 || c.Door == nil || !c.Door.After(c.now)):
			fail("open without a door")
		case c.Phase == openCircuit && c.Door.Sub(c.now) > 10*time.Minute:
			fail("probed in %s only", c.Door.Sub(c.now))
		case c.Phase == openCircuit && most == 0:
			fail("opened without a breaker")
		case before.Phase == closedCircuit && c.Phase == openCircuit && len(distinct) < most:
			fail("opened by %d different deliveries, needs %d", len(distinct), most)
		case before.Phase == halfCircuit && c.Phase == openCircuit && len(distinct) < min(halfMost, most):
			fail("opened again by %d", len(distinct))
		case ok && (c.Phase == openCircuit || len(c.Failed) != 0 || c.FailingSince != nil):
			fail("a success leaves it failing")
		case ok && c.Limit < min(before.Limit, c.full):
			fail("a success lowers the limit")
		case !ok && c.FailingSince == nil, len(c.Failed) > 1000:
			fail("a failure is not noted")
		case s.Disable && (c.now.Sub(lastOK) < c.p.DisableAfterFailingFor || len(distinct) < disableLeast || before.WarnedAt == nil):
			fail("disabled %s after the last success, by %d different ones", c.now.Sub(lastOK), len(distinct))
		case s.Recovered && (!before.Told || !ok), s.Failing && (before.Told || ok):
			fail("told wrongly: %+v", s)
		case !s.Disable && !ok && len(distinct) >= disableLeast && before.WarnedAt != nil && c.now.Sub(*c.FailingSince) > c.p.DisableAfterFailingFor+30*time.Hour:
			fail("it should be disabled by now")
		}
		if s.Disable { // and somebody enables it again
			c.health = healthy()
			clear(distinct)
		}
	}
}

// The first seed's bad week: a receiver is down for 40 minutes, in which 300 events come. Whenever it returns, all of them are delivered within six
// minutes, and none has used more of its schedule than its half. The model sends what is due as a lane does, by the breaker, the schedule and the rule of
// statement HealthPull.
func TestBadWeek(t *testing.T) {
	t.Parallel()
	for _, burst := range []bool{false, true} {
		for extra := range 40 {
			outage := 40*time.Minute + time.Duration(extra)*15*time.Second
			took, most := badWeek(newClinic(), outage, burst)
			if took > 6*time.Minute || most > 5 {
				t.Errorf("down for %s, all at once %t: all delivered %s after its return, with %d failures at most", outage, burst, took, most)
			}
		}
	}
}

// badWeek is how long after the receiver's return everything was delivered, and the most failures of one delivery.
func badWeek(c *clinic, outage time.Duration, burst bool) (took time.Duration, most int) {
	type waiting struct {
		next     time.Time
		failures int
		done     bool
	}
	var all []*waiting
	begin, left := c.now, 300
	for i := range 300 {
		at := begin
		if !burst {
			at = begin.Add(time.Duration(i) * 40 * time.Minute / 300)
		}
		all = append(all, &waiting{next: at})
	}
	for left > 0 && c.now.Sub(begin) < 100*time.Hour {
		sent := 0
		for i, w := range all {
			if c.Door != nil && c.now.Before(*c.Door) || sent == min(c.Limit, c.full) {
				break
			}
			if w.done || c.now.Before(w.next) {
				continue
			}
			sent++
			if c.now.Sub(begin) < outage {
				c.fails(i)
				w.failures++
				most = max(most, w.failures)
				w.next, _ = c.p.NextAttempt(w.failures, 1, 0, c.now)
				continue
			}
			w.done = true
			left--
			if c.ok(i).Pull {
				for _, other := range all {
					if !other.done && other.failures > 0 && other.failures <= len(c.p.Waits)/2 {
						other.next = c.now
					}
				}
			}
		}
		c.after(time.Second / 10)
	}
	return c.now.Sub(begin.Add(outage)), most
}
