package lane

import (
	"hash/fnv"
	"slices"
	"time"

	"waybill/app/policy"
)

// The phases of an endpoint's circuit.
type phase string

const (
	closedCircuit phase = "closed" // everything due is sent
	openCircuit   phase = "open"   // one probe at each opening of the door
	halfCircuit   phase = "half"   // a probe has succeeded: one request more at once for every success
)

const (
	// unlimited is lanes.limit_now of an endpoint without restraint: no endpoint may have more.
	unlimited = 100
	// passesPerStep successes raise a throttled endpoint's limit by one.
	passesPerStep = 10
	// halfMost different deliveries in a row open a half-open circuit again. It is more than one, so that a delivery which always fails does not.
	halfMost = 2
	// pauseMost is how long a Retry-After may hold all of an endpoint's deliveries; the one that was answered waits for as long as it says.
	pauseMost = time.Minute
	// tellAfter is how long an endpoint must have failed before its people are told; of what only they can mend they are told at once.
	tellAfter = 2 * time.Minute
	// tellAgain is how long after one report that an endpoint fails the next one is kept back: one that comes and goes fills no mailbox.
	tellAgain = time.Hour
	// recoveredAfter is how long it must have failed for its recovery to be news.
	recoveredAfter = time.Minute
	// warnBefore is how long before it is disabled its people are warned, or half of the time until then if that is shorter.
	warnBefore = 24 * time.Hour
	// disableLeast different deliveries must have failed: one that can never succeed disables nothing.
	disableLeast = 3
	// failedKept of the different deliveries that failed are told apart, or as many as open the circuit.
	failedKept = 100
)

// outcome is one attempt's end as an endpoint's health sees it.
type outcome struct {
	Delivery int64 // the hash of its delivery
	Started  time.Time
	At       time.Time
	OK       bool
	// Counts: an attempt of the schedule that says something about the endpoint. A manual resend, and an address that our proxy refuses, do not count: they
	// only end a probe.
	Counts   bool
	Setting  bool          // waiting will not mend it: 401, 403 and 404, and what cannot be sent at all
	Throttle bool          // the status asks for fewer requests
	Pause    time.Duration // and the answer says for how long there should be none
	Class    string
	Code     int
	ID       string // the delivery
}

// health is what an endpoint's past says about how it is sent to: table endpoint_health, with the pace in lanes. The zero value, with Limit unlimited and
// Phase closed, is an endpoint of which nothing is known.
type health struct {
	Phase        phase      `json:"phase"`
	PhaseAt      *time.Time `json:"phase_at"`
	Step         int        `json:"step"` // probes that failed since the circuit opened
	Failed       []int64    `json:"failed"`
	FailingSince *time.Time `json:"failing_since"`
	DisableAt    *time.Time `json:"disable_at"`
	WarnedAt     *time.Time `json:"warned_at"`
	Told         bool       `json:"told"`
	ToldAt       *time.Time `json:"told_at"`
	Flagged      bool       `json:"flagged"`
	ThrottledAt  *time.Time `json:"throttled_at"`
	Passed       int        `json:"passed"` // successes since the limit was last raised
	LastAt       *time.Time `json:"last_at"`
	LastClass    *string    `json:"last_class"`
	LastCode     *int       `json:"last_code"`
	LastDelivery *string    `json:"last_delivery"`

	Limit int        `json:"limit_now"`  // lanes.limit_now
	Door  *time.Time `json:"not_before"` // lanes.not_before
}

// signals is what an outcome calls for beside the new state.
type signals struct {
	Failing   bool // tell that the endpoint fails
	Warn      bool // tell that it is about to be disabled
	Disable   bool // it has failed for too long
	Recovered bool // tell that it works again
	Pull      bool // it answers again: what waits for a retry need not wait
}

func (s *signals) add(t signals) {
	s.Failing, s.Warn, s.Disable = s.Failing || t.Failing, s.Warn || t.Warn, s.Disable || t.Disable
	s.Recovered, s.Pull = s.Recovered || t.Recovered, s.Pull || t.Pull
}

// healthy is an endpoint of which nothing is known.
func healthy() health { return health{Phase: closedCircuit, Failed: []int64{}, Limit: unlimited} }

// Ailing says that successes matter as well: there is something that they change.
func (h *health) Ailing() bool {
	return h.Phase != closedCircuit || h.FailingSince != nil || h.Told || h.Flagged || h.Limit < unlimited || h.Door != nil
}

// take is what an outcome makes of an endpoint's health, by its policy and its own limit of requests at once.
func (h *health) take(p *policy.Policy, concurrency int, o outcome) signals {
	if o.OK {
		return h.succeed(concurrency, o)
	}
	return h.fail(p, concurrency, o)
}

func (h *health) succeed(concurrency int, o outcome) (s signals) {
	switch h.Phase {
	case openCircuit:
		// Also of a request that was on the wire when the circuit opened: it answers, whatever was asked.
		h.turn(halfCircuit, o.At)
		h.Door, h.Limit, h.Passed, s.Pull = nil, 2, 0, true
	case halfCircuit:
		h.Limit++
	default:
		if h.Limit < unlimited {
			if h.Passed++; h.Passed >= passesPerStep {
				h.Limit, h.Passed = h.Limit+1, 0
			}
		}
	}
	if h.Door != nil && !o.At.Before(*h.Door) {
		h.Door = nil
	}
	if h.Phase != openCircuit && h.Limit >= concurrency {
		if h.Phase == halfCircuit {
			h.turn(closedCircuit, o.At)
		}
		h.Limit, h.Passed, h.Step, h.ThrottledAt = unlimited, 0, 0, nil
	}
	if !o.Counts {
		return s
	}
	if h.Told {
		since := h.ToldAt
		if h.FailingSince != nil {
			since = h.FailingSince
		}
		s.Recovered = since == nil || o.At.Sub(*since) >= recoveredAfter
	}
	h.Failed, h.FailingSince, h.DisableAt, h.WarnedAt, h.Told, h.Flagged = []int64{}, nil, nil, nil, false, false
	return s
}

func (h *health) fail(p *policy.Policy, concurrency int, o outcome) (s signals) {
	at, class, code, id := o.At, o.Class, o.Code, o.ID
	h.LastAt, h.LastClass, h.LastCode, h.LastDelivery = &at, &class, &code, &id
	if o.Throttle {
		h.throttle(concurrency, o)
	}
	if o.Counts {
		if h.FailingSince == nil {
			h.FailingSince = &at
		}
		kept := max(failedKept, p.Breaker.ConsecutiveFailures)
		if !slices.Contains(h.Failed, o.Delivery) && len(h.Failed) < kept {
			h.Failed = append(h.Failed, o.Delivery)
		}
	} else if o.Setting {
		h.Flagged = true
	}
	h.circuit(p, o)
	s = h.count(p, o)
	s.Failing = s.Failing || h.tell(o)
	return s
}

// throttle halves the limit, once for all requests that were on the wire together, and shuts the door for as long as the answer asks.
func (h *health) throttle(concurrency int, o outcome) {
	if h.ThrottledAt == nil || o.Started.After(*h.ThrottledAt) {
		at := o.At
		h.ThrottledAt, h.Passed = &at, 0
		h.Limit = max(1, min(h.Limit, concurrency)/2)
	}
	if o.Pause > 0 && h.Phase != openCircuit {
		if until := o.At.Add(min(o.Pause, pauseMost)); h.Door == nil || until.After(*h.Door) {
			h.Door = &until
		}
	}
}

// circuit opens the circuit, or keeps it open until the next probe.
func (h *health) circuit(p *policy.Policy, o outcome) {
	most := p.Breaker.ConsecutiveFailures
	switch {
	case most == 0:
		if h.Phase != closedCircuit { // the policy had a breaker when it opened
			h.turn(closedCircuit, o.At)
			h.Limit, h.Door, h.Step = unlimited, nil, 0
		}
	case h.Phase == openCircuit:
		if h.Door == nil || !o.Started.Before(*h.Door) { // else it was on the wire when the door was shut
			h.Step++
			h.shut(p, o.At)
		}
	case !o.Counts:
	case h.Phase == halfCircuit:
		if len(h.Failed) >= min(halfMost, most) && !o.Started.Before(*h.PhaseAt) {
			h.Step++
			h.turn(openCircuit, o.At)
			h.shut(p, o.At)
		}
	case len(h.Failed) >= most:
		h.Step = 0
		h.turn(openCircuit, o.At)
		h.shut(p, o.At)
	}
}

func (h *health) turn(to phase, at time.Time) { h.Phase, h.PhaseAt = to, &at }

// shut closes the door until the next probe.
func (h *health) shut(p *policy.Policy, at time.Time) {
	wait := p.Probe(h.Step + 1)
	if h.FailingSince != nil && at.Sub(*h.FailingSince) < policy.EagerFor {
		wait = min(wait, p.EagerProbe())
	}
	until := at.Add(wait)
	h.Door, h.Limit, h.Passed = &until, 1, 0
}

// count says whether the endpoint has failed for so long that it is to be disabled, or is about to have. Its people have been warned the whole lead before.
func (h *health) count(p *policy.Policy, o outcome) (s signals) {
	if !o.Counts {
		return s
	}
	lead := min(warnBefore, p.DisableAfterFailingFor/2)
	disable := h.FailingSince.Add(p.DisableAfterFailingFor)
	enough := len(h.Failed) >= disableLeast
	if h.WarnedAt == nil && enough && !o.At.Before(disable.Add(-lead)) {
		at := o.At
		h.WarnedAt, s.Warn = &at, true
	}
	if h.WarnedAt != nil && h.WarnedAt.Add(lead).After(disable) {
		disable = h.WarnedAt.Add(lead)
	}
	h.DisableAt = &disable
	s.Disable = enough && h.WarnedAt != nil && !o.At.Before(disable)
	return s
}

// tell says whether it is time to tell that the endpoint fails: once for each time that it does.
func (h *health) tell(o outcome) bool {
	switch {
	case h.Told || h.ToldAt != nil && o.At.Sub(*h.ToldAt) < tellAgain:
		return false
	case o.Setting:
	case !o.Counts || o.At.Sub(*h.FailingSince) < tellAfter:
		return false
	}
	at := o.At
	h.Told, h.ToldAt = true, &at
	return true
}

// off is the health of an endpoint that was just disabled: what is known stays readable, and nothing holds its lane back.
func (h *health) off() { h.Limit, h.Door, h.DisableAt = unlimited, nil, nil }

// hashed tells deliveries apart in eight bytes.
func hashed(deliveryID string) int64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(deliveryID))
	return int64(sum.Sum64())
}
