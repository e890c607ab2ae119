package lane

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/app/signing"
)

// TestWeeks drives thousands of endpoints at a fake clock through weeks of outages, flaps, 410s, Retry-Afters, rotations, pauses and re-enables, all from a printed seed.
// What is judged, counted, waited for and signed is the program's own; the lane around it is a model: one clock, one endpoint at a time, what is due sent under
// the door and the limit. At each attempt, and for the ledger at every eighth look, it holds what DESIGN section 1 promises:
//
//   - every event is attempted until it gets a 2xx or its schedule ends, and none is lost: it is delivered, undelivered, held, or due;
//   - an attempt uses one step of the schedule, and none goes out before it is due, behind a shut door, above the limit, or at an endpoint that is off;
//   - a Retry-After is heeded, up to the longest wait, and a 410 ends the delivery and the endpoint at once;
//   - every attempt verifies with the secret that its receiver has at that moment, throughout a rotation;
//   - an endpoint is disabled by a 410 or after failing for the policy's time alone, and after it is enabled nothing of before counts.
func TestWeeks(t *testing.T) {
	t.Parallel()
	seed := *breakerSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (-breaker.seed)", seed)
	var all tallies
	endpoints := 2000
	if raced { // which makes it ten times slower, and has little to find in one goroutine
		endpoints = 80
	}
	for n := range endpoints {
		w := newWeeks(rand.New(rand.NewPCG(seed, uint64(n))), fmt.Sprintf("seed %d, endpoint %d", seed, n), t)
		w.live(3 * 7 * 24 * time.Hour)
		all.add(w.tallies)
	}
	t.Logf("%+v", all)
	// A simulation in which nothing happens proves nothing.
	for name, n := range map[string]int{"delivered": all.delivered, "undelivered": all.undelivered, "held": all.held, "rotations": all.rotations, "retry-afters": all.retryAfters,
		"gone": all.gone, "disabled": all.disabled, "enabled": all.enabled, "opened": all.opened, "recovered": all.recovered} {
		if n == 0 {
			t.Errorf("seed %d: nothing was ever %s", seed, name)
		}
	}
}

type tallies struct {
	events, attempts, delivered, undelivered, held, rotations, retryAfters, gone, disabled, enabled, opened, recovered int
}

func (a *tallies) add(b tallies) {
	a.events, a.attempts, a.delivered, a.undelivered, a.held = a.events+b.events, a.attempts+b.attempts, a.delivered+b.delivered, a.undelivered+b.undelivered, a.held+b.held
	a.rotations, a.retryAfters, a.gone, a.disabled = a.rotations+b.rotations, a.retryAfters+b.retryAfters, a.gone+b.gone, a.disabled+b.disabled
	a.enabled, a.opened, a.recovered = a.enabled+b.enabled, a.opened+b.opened, a.recovered+b.recovered
}

// parcel is one delivery of the model.
type parcel struct {
	id       int
	made     time.Time
	next     time.Time
	failures int
	attempts int
	state    string // due, delivered, undelivered or held
}

// keyed is a signing secret with the end of its overlap.
type keyed struct {
	key signing.Key
	end time.Time // zero: in force
}

// weeks is one endpoint's life.
type weeks struct {
	tallies
	t       *testing.T
	name    string
	random  *rand.Rand
	p       policy.Policy
	health  health
	full    int
	now     time.Time
	on      bool
	secrets []keyed     // newest first
	has     signing.Key // the receiver's
	takes   time.Time   // when the receiver takes over the newest
	up      bool
	turns   time.Time // when the receiver goes up or down
	all     []*parcel
	open    []*parcel // due
	lastOK  time.Time
	since   time.Time // it was made, or enabled
	off     time.Time
}

func newWeeks(random *rand.Rand, name string, t *testing.T) *weeks {
	w := &weeks{t: t, name: name, random: random, p: policy.Builtin().Standard(), health: healthy(), full: 1 + random.IntN(20), now: at, on: true, up: true, since: at}
	if random.IntN(3) == 0 {
		w.p, _ = policy.Builtin().Preset(policy.Commerce)
	}
	w.p.Breaker.ConsecutiveFailures = []int{0, 3, 10}[random.IntN(3)]
	w.secrets = []keyed{{key: signing.NewSecret()}}
	w.has = w.secrets[0].key
	return w
}

func (w *weeks) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s, %s: %s\n%+v", w.name, w.now.Format(time.RFC3339), fmt.Sprintf(format, args...), w.health)
}

func (w *weeks) span(mean time.Duration) time.Duration {
	return time.Duration(w.random.ExpFloat64() * float64(mean))
}

// live lets time pass.
func (w *weeks) live(span time.Duration) {
	end := w.now.Add(span)
	publish := w.now
	for w.now.Before(end) {
		if !w.now.Before(publish) {
			w.happen()
			for range 1 + w.random.IntN(3) {
				d := &parcel{id: len(w.all), made: w.now, next: w.now, state: "due"}
				w.all = append(w.all, d)
				w.events++
				if w.on {
					w.open = append(w.open, d)
				} else {
					d.state = "held"
				}
			}
			publish = w.now.Add(w.span(4 * time.Hour))
		}
		w.send()
		if w.random.IntN(8) == 0 {
			w.balance()
		}
		w.now = w.wakes(publish)
	}
	w.balance()
	for _, d := range w.all {
		switch d.state {
		case "delivered":
			w.delivered++
		case "undelivered":
			w.undelivered++
		case "held":
			w.held++
		}
	}
}

// wakes is when the lane has something to do next, or something is published.
func (w *weeks) wakes(publish time.Time) time.Time {
	next := publish
	for _, d := range w.open {
		due := d.next
		if w.health.Door != nil && w.health.Door.After(due) {
			due = *w.health.Door
		}
		if due.Before(next) {
			next = due
		}
	}
	if !next.After(w.now) {
		next = w.now.Add(time.Millisecond)
	}
	return next
}

// happen is what people and servers do.
func (w *weeks) happen() {
	if w.turns.IsZero() || !w.now.Before(w.turns) {
		w.up = w.turns.IsZero() || !w.up
		w.turns = w.now.Add(w.span([]time.Duration{10 * time.Minute, 6 * time.Hour, 5 * 24 * time.Hour}[w.random.IntN(3)]))
	}
	if w.random.IntN(60) == 0 && w.takes.IsZero() { // a rotation, with an overlap of up to a week; the receiver follows within it
		overlap := time.Duration(1+w.random.IntN(7*24)) * time.Hour
		for i := range w.secrets {
			if w.secrets[i].end.IsZero() {
				w.secrets[i].end = w.now.Add(overlap)
			}
		}
		w.secrets = append([]keyed{{key: signing.NewSecret()}}, w.secrets...)
		w.takes = w.now.Add(time.Duration(w.random.Float64() * float64(overlap)))
		w.rotations++
	}
	switch {
	case !w.on && w.now.Sub(w.off) > w.span(24*time.Hour):
		w.on, w.health, w.since = true, healthy(), w.now
		w.enabled++
		for _, d := range w.all { // and catches up on what was held
			if d.state == "held" {
				d.state, d.next = "due", w.now
				w.open = append(w.open, d)
			}
		}
	case w.on && w.random.IntN(100) == 0:
		w.stop("paused")
	}
}

// stop is a pause, or an endpoint that is disabled: what is due is held.
func (w *weeks) stop(string) {
	w.on, w.off = false, w.now
	w.health.off()
	for _, d := range w.open {
		d.state = "held"
	}
	w.open = nil
}

// send is a lane's look: what is due, up to the limit, one after the other.
func (w *weeks) send() {
	sent := 0
	for i := 0; i < len(w.open) && w.on; {
		if w.health.Door != nil && w.now.Before(*w.health.Door) || sent >= min(w.health.Limit, w.full) {
			return
		}
		d := w.open[i]
		if d.next.After(w.now) {
			i++
			continue
		}
		sent++
		w.attempt(d)
		if d.state == "due" {
			i++
		} else if w.on {
			w.open = append(w.open[:i], w.open[i+1:]...)
		}
	}
}

// answer is what the receiver says, and whether it says when to come again.
func (w *weeks) answer() (out sender.Outcome, asked time.Duration) {
	out = sender.Outcome{Class: sender.Status, Status: 200, Sent: true}
	switch n := w.random.IntN(1000); {
	case w.up && n < 2:
		out.Status = 410
	case w.up && n < 30:
		out.Status, asked = 429, time.Duration(1+w.random.IntN(7200))*time.Second
		out.RetryAfter = []string{strconv.Itoa(int(asked / time.Second))}
	case w.up && n < 40:
		out.Status = 404
	case !w.up && n < 500:
		out.Status = 503
	case !w.up:
		out = sender.Outcome{Class: sender.Timeout, Sent: true}
	}
	return out, asked
}

func (w *weeks) attempt(d *parcel) {
	w.attempts++
	if d.state != "due" || !w.on || d.next.After(w.now) || d.attempts >= w.p.Attempts() {
		w.fail("attempt %d of a delivery that is %s and due at %s", d.attempts+1, d.state, d.next)
	}
	w.verify()
	out, asked := w.answer()
	it := item{DeliveryID: strconv.Itoa(d.id), Trigger: triggerRetry, Failures: d.failures}
	v := judge(&w.p, &it, &out, w.random.Float64(), w.now)
	before := w.health.Phase
	target := &target{policy: &w.p, concurrency: w.full}
	o := outcomeOf(&result{item: it, target: target, out: out, started: w.now}, w.now, w.now)
	s := w.health.take(&w.p, w.full, o)
	d.attempts++
	ok := out.Status == 200
	if ok {
		w.lastOK = w.now
	}
	if before != openCircuit && w.health.Phase == openCircuit {
		w.opened++
	}
	if s.Recovered {
		w.recovered++
	}
	switch {
	case ok != (v.action == actionDone), v.failures != d.failures+map[bool]int{true: 0, false: 1}[ok]:
		w.fail("answer %d means %+v after %d failures", out.Status, v, d.failures)
	case v.action == actionRetry && v.wait == nil, v.action == actionRetry && v.failures >= w.p.Attempts():
		w.fail("answer %d is followed by %+v", out.Status, v)
	case v.action == actionExhausted && v.reason == ReasonExhausted && v.failures != w.p.Attempts():
		w.fail("the schedule ends after %d failures", v.failures)
	case asked > 0 && v.action == actionRetry && *v.wait < min(asked, longestWait(&w.p)):
		w.fail("a Retry-After of %s is followed by a wait of %s", asked, *v.wait)
	}
	if asked > 0 && v.action == actionRetry {
		w.retryAfters++
	}
	d.failures = v.failures
	switch v.action {
	case actionDone:
		d.state = "delivered"
	case actionExhausted:
		d.state = "undelivered"
	default:
		d.next = w.now.Add(*v.wait)
	}
	if s.Pull {
		for _, other := range w.open {
			if other.state == "due" && other.next.After(w.now) && other.failures <= len(w.p.Waits)/2 && other.failures > 0 {
				other.next = w.now
			}
		}
	}
	if v.gone || s.Disable {
		w.mustDisable(d, v, s)
	}
}

func (w *weeks) mustDisable(d *parcel, v verdict, s signals) {
	known := w.since
	if w.lastOK.After(known) {
		known = w.lastOK
	}
	if s.Disable && !v.gone && w.now.Sub(known) < w.p.DisableAfterFailingFor {
		w.fail("disabled %s after it was last known to work", w.now.Sub(known))
	}
	if v.gone {
		w.gone++
		if d.state != "undelivered" {
			w.fail("the delivery that met a 410 is %s", d.state)
		}
	} else {
		w.disabled++
	}
	left := w.open[:0:0]
	for _, other := range w.open {
		if other.state == "due" {
			left = append(left, other)
		}
	}
	w.open = left
	w.stop("disabled")
}

func longestWait(p *policy.Policy) (longest time.Duration) {
	for _, wait := range p.Waits {
		longest = max(longest, wait)
	}
	return longest
}

// verify signs as a sender does now, and verifies as the receiver does.
func (w *weeks) verify() {
	if !w.takes.IsZero() && !w.now.Before(w.takes) {
		w.has, w.takes = w.secrets[0].key, time.Time{}
	}
	var keys []signing.Key
	kept := w.secrets[:0:0]
	for _, k := range w.secrets {
		if k.end.IsZero() || w.now.Before(k.end) {
			keys, kept = append(keys, k.key), append(kept, k)
		}
	}
	w.secrets = kept
	if w.attempts%16 != 0 { // real signatures, of some
		for _, k := range keys {
			if k.Fingerprint() == w.has.Fingerprint() {
				return
			}
		}
		w.fail("nothing is signed with the secret that the receiver has")
	}
	body := []byte(`{"id":"evt_1","data":{}}`)
	signed, err := signing.Headers(signing.V1, keys, "evt_1", w.now.Unix(), body)
	if err != nil {
		w.fail("signing: %v", err)
	}
	header := http.Header{}
	for _, h := range signed {
		header.Add(h.Name, h.Value)
	}
	if _, err := signing.Verify(header, body, []signing.Key{w.has}, w.now, signing.Tolerance); err != nil {
		w.fail("the receiver cannot verify: %v", err)
	}
}

// balance holds the ledger: nothing is lost, and what is due is where lanes look.
func (w *weeks) balance() {
	due := 0
	for _, d := range w.all {
		switch d.state {
		case "due":
			due++
		case "delivered", "undelivered", "held":
		default:
			w.fail("delivery %d is %q", d.id, d.state)
		}
		if d.state == "undelivered" && d.attempts == 0 {
			w.fail("delivery %d is undelivered without an attempt", d.id)
		}
	}
	if due != len(w.open) || !w.on && due > 0 {
		w.fail("%d are due, lanes know of %d", due, len(w.open))
	}
}
