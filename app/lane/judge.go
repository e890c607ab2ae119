package lane

import (
	"time"

	"waybill/app/policy"
	"waybill/app/sender"
)

// The actions of statement ResultMove: what an attempt does to its delivery.
const (
	actionDone      = "done"      // delivered
	actionRetry     = "retry"     // goes on by its schedule
	actionExhausted = "exhausted" // undelivered
	actionKeep      = "keep"      // stays what it is
)

// The reasons for which a delivery ends undelivered.
const (
	ReasonExhausted     = "schedule_exhausted"
	ReasonGone          = "gone"
	ReasonConfiguration = "configuration_error"
	ReasonTestFailed    = "test_failed"
)

// The classes of attempts that are not an Outcome's own: nobody knows how the call ended.
const classUnknown = "unknown"

// unknownsPerFailure interrupted attempts in a row count as one failure.
const unknownsPerFailure = 3

// proxyWait is how long a delivery waits when our own proxy was down or overloaded; it uses no step of the schedule.
const proxyWait = 5 * time.Second

// verdict is what one attempt's outcome means for its delivery.
type verdict struct {
	action   string
	reason   string
	failures int // of the delivery from now on: steps of its schedule used
	unknowns int
	// wait until the next attempt; nil with actionRetry: where the interrupted schedule stood.
	wait    *time.Duration
	trigger string // why the row in table due is due from now on
	// keepsDue: the row in table due stays, with the values above; else it goes.
	keepsDue bool
	gone     bool // the endpoint said 410
}

// judge says what an outcome means, by the endpoint's policy. random (0 to 1) places the jitter.
func judge(p *policy.Policy, it *item, out *sender.Outcome, random float64, now time.Time) verdict {
	v := verdict{failures: it.Failures, trigger: triggerRetry}
	switch {
	case p.Success(out.Status):
		v.action = actionDone
		return v
	case out.Class == sender.Canceled:
		return interrupted(p, it, random)
	case it.Trigger == triggerTest:
		v.action, v.reason = actionExhausted, ReasonTestFailed
		return v
	case p.Gone(out.Status):
		v.action, v.reason, v.gone = actionExhausted, ReasonGone, true
		v.failures++
		return v
	case it.Trigger == triggerManual && it.Resumes:
		v.action, v.keepsDue = actionRetry, true
		return v
	case it.Trigger == triggerManual:
		v.action = actionKeep
		return v
	case out.Class == sender.Proxy:
		wait := proxyWait + time.Duration(random*float64(proxyWait))
		v.action, v.wait, v.keepsDue = actionRetry, &wait, true
		return v
	}
	v.failures++
	if out.Class == sender.BadConfig || (out.Status != 0 && !p.Retries(out.Status)) {
		v.action, v.reason = actionExhausted, ReasonConfiguration
		return v
	}
	wished, _ := p.RetryAfter(out.RetryAfter, now)
	next, ok := p.NextAttempt(v.failures, random, wished, now)
	if !ok {
		v.action, v.reason = actionExhausted, ReasonExhausted
		return v
	}
	wait := next.Sub(now)
	v.action, v.wait, v.keepsDue = actionRetry, &wait, true
	return v
}

// keyWait is how long a delivery waits at least for a key of the ring that is missing.
const keyWait = 10 * time.Minute

// waitForKey is the verdict on an attempt that could not be made because the key ring lacks the key of the endpoint's secret or headers: that is ours to put
// right, and uses up nothing of the schedule. A test says so at once.
func waitForKey(it *item, random float64) verdict {
	if it.Trigger == triggerTest {
		return verdict{action: actionExhausted, reason: ReasonTestFailed, failures: it.Failures}
	}
	wait := keyWait + time.Duration(random*float64(keyWait))
	return verdict{action: actionRetry, failures: it.Failures, trigger: it.Trigger, keepsDue: true, wait: &wait}
}

// interrupted is the verdict on an attempt whose outcome nobody knows: again at once, and every third in a row is a failure.
func interrupted(p *policy.Policy, it *item, random float64) verdict {
	v := verdict{action: actionRetry, failures: it.Failures, unknowns: it.Unknowns + 1, trigger: it.Trigger, keepsDue: true,
		wait: new(time.Duration)}
	switch {
	case v.unknowns < unknownsPerFailure:
		return v
	case it.Trigger == triggerTest:
		return verdict{action: actionExhausted, reason: ReasonTestFailed, failures: it.Failures}
	case it.Trigger == triggerManual && it.Resumes:
		return verdict{action: actionRetry, failures: it.Failures, trigger: triggerRetry, keepsDue: true}
	case it.Trigger == triggerManual:
		return verdict{action: actionKeep, failures: it.Failures}
	}
	v.unknowns, v.failures, v.trigger = 0, v.failures+1, triggerRetry
	wait, ok := p.Wait(v.failures, random)
	if !ok {
		return verdict{action: actionExhausted, reason: ReasonExhausted, failures: v.failures}
	}
	v.wait = &wait
	return v
}

// The triggers of table due.
const (
	triggerTest   = "test"
	triggerManual = "manual"
	triggerRetry  = "retry"
)
