package lane

import (
	"testing"
	"time"

	"waybill/app/policy"
	"waybill/app/sender"
)

func status(code int) sender.Outcome {
	class := sender.Status
	switch {
	case code >= 200 && code <= 299:
		class = sender.Delivered
	case code == 410:
		class = sender.Gone
	}
	return sender.Outcome{Class: class, Status: code, Sent: true}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	standard, commerce := policy.Builtin().Standard(), policy.Builtin().First(policy.Commerce)
	now := time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)
	keep := func(v verdict) verdict { v.keepsDue = true; return v }
	for name, c := range map[string]struct {
		p    policy.Policy
		it   item
		out  sender.Outcome
		want verdict
		wait time.Duration // with random 0.5: the step without jitter; -1: none
	}{
		"200":                     {standard, item{Trigger: triggerFirst}, status(200), verdict{action: actionDone, trigger: triggerRetry}, -1},
		"299 of a retry":          {standard, item{Trigger: triggerRetry, Failures: 3, Unknowns: 2}, status(299), verdict{action: actionDone, failures: 3, trigger: triggerRetry}, -1},
		"300 is no success":       {standard, item{Trigger: triggerFirst}, status(300), keep(verdict{action: actionRetry, failures: 1, trigger: triggerRetry}), 5 * time.Second},
		"999":                     {standard, item{Trigger: triggerFirst}, status(999), keep(verdict{action: actionRetry, failures: 1, trigger: triggerRetry}), 5 * time.Second},
		"no answer":               {standard, item{Trigger: triggerRetry, Failures: 1}, sender.Outcome{Class: sender.Refused}, keep(verdict{action: actionRetry, failures: 2, trigger: triggerRetry}), 5 * time.Minute},
		"a failure ends unknowns": {standard, item{Trigger: triggerFirst, Unknowns: 2}, status(500), keep(verdict{action: actionRetry, failures: 1, trigger: triggerRetry}), 5 * time.Second},
		"the last but one":        {standard, item{Trigger: triggerRetry, Failures: 8}, status(500), keep(verdict{action: actionRetry, failures: 9, trigger: triggerRetry}), 24 * time.Hour},
		"the last":                {standard, item{Trigger: triggerRetry, Failures: 9}, status(500), verdict{action: actionExhausted, reason: ReasonExhausted, failures: 10, trigger: triggerRetry}, -1},
		"401, retried":            {standard, item{Trigger: triggerFirst}, status(401), keep(verdict{action: actionRetry, failures: 1, trigger: triggerRetry}), 5 * time.Second},
		"401, alert only":         {commerce, item{Trigger: triggerFirst}, status(401), verdict{action: actionExhausted, reason: ReasonConfiguration, failures: 1, trigger: triggerRetry}, -1},
		"403, alert only":         {commerce, item{Trigger: triggerRetry, Failures: 2}, status(403), verdict{action: actionExhausted, reason: ReasonConfiguration, failures: 3, trigger: triggerRetry}, -1},
		"400, alert only":         {commerce, item{Trigger: triggerFirst}, status(400), keep(verdict{action: actionRetry, failures: 1, trigger: triggerRetry}), time.Minute},
		"410":                     {standard, item{Trigger: triggerFirst}, status(410), verdict{action: actionExhausted, reason: ReasonGone, failures: 1, trigger: triggerRetry, gone: true}, -1},
		"410 of a manual resend":  {standard, item{Trigger: triggerManual}, status(410), verdict{action: actionExhausted, reason: ReasonGone, failures: 1, trigger: triggerRetry, gone: true}, -1},
		"410 of a test":           {standard, item{Trigger: triggerTest}, status(410), verdict{action: actionExhausted, reason: ReasonTestFailed, trigger: triggerRetry}, -1},
		"a test fails":            {standard, item{Trigger: triggerTest}, status(500), verdict{action: actionExhausted, reason: ReasonTestFailed, trigger: triggerRetry}, -1},
		"a test, proxy down":      {standard, item{Trigger: triggerTest}, sender.Outcome{Class: sender.Proxy}, verdict{action: actionExhausted, reason: ReasonTestFailed, trigger: triggerRetry}, -1},
		"manual, in a schedule":   {standard, item{Trigger: triggerManual, Failures: 4, Resumes: true}, status(500), keep(verdict{action: actionRetry, failures: 4, trigger: triggerRetry}), -1},
		"manual, 401 in alert only": {commerce, item{Trigger: triggerManual, Failures: 4, Resumes: true}, status(401),
			keep(verdict{action: actionRetry, failures: 4, trigger: triggerRetry}), -1},
		"manual, of something finished": {standard, item{Trigger: triggerManual, Failures: 10}, status(500), verdict{action: actionKeep, failures: 10, trigger: triggerRetry}, -1},
		"manual, proxy down":            {standard, item{Trigger: triggerManual}, sender.Outcome{Class: sender.Proxy}, verdict{action: actionKeep, trigger: triggerRetry}, -1},
		"manual success":                {standard, item{Trigger: triggerManual, Resumes: true, Failures: 2}, status(204), verdict{action: actionDone, failures: 2, trigger: triggerRetry}, -1},
		"proxy down": {standard, item{Trigger: triggerRetry, Failures: 2}, sender.Outcome{Class: sender.Proxy},
			keep(verdict{action: actionRetry, failures: 2, trigger: triggerRetry}), 7500 * time.Millisecond},
		"cannot be sent": {standard, item{Trigger: triggerFirst}, sender.Outcome{Class: sender.BadConfig},
			verdict{action: actionExhausted, reason: ReasonConfiguration, failures: 1, trigger: triggerRetry}, -1},
		"interrupted": {standard, item{Trigger: triggerFirst}, sender.Outcome{Class: sender.Canceled, Sent: true},
			keep(verdict{action: actionRetry, unknowns: 1, trigger: triggerFirst}), 0},
	} {
		v := judge(&c.p, &c.it, &c.out, 0.5, now)
		checkVerdict(t, name, v, c.want, c.wait)
	}
}

// checkVerdict compares a verdict with want and its wait with the one given (-1: none).
func checkVerdict(t *testing.T, name string, v, want verdict, wait time.Duration) {
	t.Helper()
	switch {
	case v.wait == nil && wait >= 0:
		t.Errorf("%s: no wait, want %s", name, wait)
	case v.wait != nil && *v.wait != wait:
		t.Errorf("%s: wait %s, want %s", name, *v.wait, wait)
	}
	v.wait = nil
	if v != want {
		t.Errorf("%s: %+v\nwant %+v", name, v, want)
	}
}

// A receiver can lengthen a wait up to the longest of the schedule, and do nothing else (CASES B09).
func TestJudgeRetryAfter(t *testing.T) {
	t.Parallel()
	p := policy.Builtin().Standard()
	now := time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)
	const step, longest = 5 * time.Second, 24 * time.Hour
	for value, want := range map[string]time.Duration{
		"60": time.Minute, "3": step, "0": step, "-5": step, "+5": step, "1.5": step, "1e3": step, "": step, "soon": step,
		"9223372037": longest, "315360000": longest, "99999999999999999999999999": longest, "Fri, 31 Dec 9999 23:59:59 GMT": longest,
		"Tue, 17 Nov 2015 09:41:05 GMT": step, "Tue, 17 Nov 2026 09:51:05 GMT": 10 * time.Minute, "Tuesday, 17-Nov-26 09:51:05 GMT": 10 * time.Minute,
		"Tue Nov 17 09:51:05 2026": 10 * time.Minute,
	} {
		for _, code := range []int{429, 503, 500} {
			out := status(code)
			out.RetryAfter = []string{value}
			v := judge(&p, &item{Trigger: triggerFirst}, &out, 0.5, now)
			if v.wait == nil || *v.wait != want || v.failures != 1 {
				t.Errorf("%d with Retry-After %q: %v after %d failures, want %s after 1", code, value, v.wait, v.failures, want)
			}
		}
	}
	out := status(429)
	out.RetryAfter = []string{"1", "3600"}
	if v := judge(&p, &item{Trigger: triggerFirst}, &out, 0.5, now); *v.wait != step {
		t.Errorf("two headers that disagree: %s, want %s", *v.wait, step)
	}
	out.RetryAfter = []string{"90000"}
	if v := judge(&p, &item{Trigger: triggerRetry, Failures: 9}, &out, 0.5, now); v.action != actionExhausted {
		t.Errorf("a wish after the last attempt: %s, want %s", v.action, actionExhausted)
	}
}

// Interrupted attempts use no step of the schedule; three in a row count as one failure.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	p := policy.Builtin().Standard()
	for name, c := range map[string]struct {
		it   item
		want verdict
		wait time.Duration
	}{
		"the first":             {item{Trigger: triggerFirst}, verdict{action: actionRetry, unknowns: 1, trigger: triggerFirst, keepsDue: true}, 0},
		"the second":            {item{Trigger: triggerFirst, Unknowns: 1}, verdict{action: actionRetry, unknowns: 2, trigger: triggerFirst, keepsDue: true}, 0},
		"the third":             {item{Trigger: triggerFirst, Unknowns: 2}, verdict{action: actionRetry, failures: 1, trigger: triggerRetry, keepsDue: true}, 5 * time.Second},
		"the third of the last": {item{Trigger: triggerRetry, Failures: 9, Unknowns: 2}, verdict{action: actionExhausted, reason: ReasonExhausted, failures: 10}, -1},
		"a test":                {item{Trigger: triggerTest}, verdict{action: actionRetry, unknowns: 1, trigger: triggerTest, keepsDue: true}, 0},
		"a test's third":        {item{Trigger: triggerTest, Unknowns: 2}, verdict{action: actionExhausted, reason: ReasonTestFailed}, -1},
		"manual": {item{Trigger: triggerManual, Failures: 4, Resumes: true},
			verdict{action: actionRetry, failures: 4, unknowns: 1, trigger: triggerManual, keepsDue: true}, 0},
		"manual's third, in a schedule": {item{Trigger: triggerManual, Failures: 4, Unknowns: 2, Resumes: true},
			verdict{action: actionRetry, failures: 4, trigger: triggerRetry, keepsDue: true}, -1},
		"manual's third, of something finished": {item{Trigger: triggerManual, Failures: 10, Unknowns: 2}, verdict{action: actionKeep, failures: 10}, -1},
	} {
		checkVerdict(t, name, interrupted(&p, &c.it, 0.5), c.want, c.wait)
	}
}

// Exactly 200 to 299 succeed, whatever number a receiver answers with (CASES B44).
func TestJudgeEveryStatus(t *testing.T) {
	t.Parallel()
	for _, p := range []policy.Policy{policy.Builtin().Standard(), policy.Builtin().First(policy.Commerce)} {
		for code := -1; code <= 1000; code++ {
			out := status(code)
			v := judge(&p, &item{Trigger: triggerFirst}, &out, 0.5, time.Now())
			if (v.action == actionDone) != (code >= 200 && code <= 299) || v.action != actionDone && v.failures != 1 {
				t.Errorf("%s, %d: %s after %d failures", p.Name, code, v.action, v.failures)
			}
		}
	}
}

// A key that the ring lacks is ours to put back: what waits for it keeps its schedule.
func TestWaitForKey(t *testing.T) {
	t.Parallel()
	for _, trigger := range []string{triggerFirst, triggerRetry, triggerManual} {
		v := waitForKey(&item{Trigger: trigger, Failures: 3}, 0.5)
		if v.action != actionRetry || v.failures != 3 || !v.keepsDue || v.trigger != trigger || v.wait == nil || *v.wait < keyWait {
			t.Errorf("%s: %+v", trigger, v)
		}
	}
	if v := waitForKey(&item{Trigger: triggerTest}, 0); v.action != actionExhausted || v.reason != ReasonTestFailed {
		t.Errorf("a test: %+v", v)
	}
}
