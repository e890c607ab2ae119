package policy

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Attempts is how many attempts the schedule has, the immediate first one included.
func (p Policy) Attempts() int { return len(p.Waits) + 1 }

// Total is how long after the first attempt the last one is, without jitter and without what the attempts take.
func (p Policy) Total() time.Duration {
	var sum time.Duration
	for _, w := range p.Waits {
		sum += w
	}
	return sum
}

// Shortest is Total with every wait shrunk by the whole jitter.
func (p Policy) Shortest() time.Duration {
	var sum time.Duration
	for _, w := range p.Waits {
		sum += w - p.jitter(w)
	}
	return sum
}

// Longest is Total with every wait stretched by the whole jitter: a delivery older than this is past its schedule,
// unless a Retry-After lengthened it.
func (p Policy) Longest() time.Duration {
	var sum time.Duration
	for _, w := range p.Waits {
		sum += w + p.jitter(w)
	}
	return sum
}

// jitter is by how much w may shrink and stretch.
func (p Policy) jitter(w time.Duration) time.Duration {
	return w * time.Duration(p.JitterPercent) / 100
}

// Wait is the wait before the next attempt after this many failed ones, counted from 1; false when the schedule is
// over. Random, from 0 to 1, places it between the shrunk and the stretched wait. With no failure yet the first
// attempt is due at once.
func (p Policy) Wait(failures int, random float64) (time.Duration, bool) {
	if failures < 1 {
		return 0, true
	}
	if failures > len(p.Waits) {
		return 0, false
	}
	w := p.Waits[failures-1]
	j := p.jitter(w)
	if !(random > 0) { // also what is no number
		random = 0
	}
	return w - j + time.Duration(min(random, 1)*float64(2*j)), true
}

// NextAttempt is when the next attempt is due, now being when the last one ended; false when the schedule is over.
// It is Wait's step, or the receiver's wish if that is later; the wish is capped at the longest wait of the schedule,
// so that a receiver can neither hurry us nor hold a delivery for ever (CASES B09).
func (p Policy) NextAttempt(failures int, random float64, retryAfter time.Duration, now time.Time) (time.Time, bool) {
	step, ok := p.Wait(failures, random)
	if !ok {
		return time.Time{}, false
	}
	return now.Add(max(step, min(retryAfter, p.longestWait()))), true
}

func (p Policy) longestWait() time.Duration {
	var longest time.Duration
	for _, w := range p.Waits {
		longest = max(longest, w)
	}
	return longest
}

// Probe is the wait before the nth probe of an open circuit, counted from 1; the last of the list repeats.
func (p Policy) Probe(n int) time.Duration {
	list := p.Breaker.ProbeEvery
	if len(list) == 0 {
		return maxProbe
	}
	return list[min(max(n, 1), len(list))-1]
}

// EagerFor is how long an endpoint counts as just fallen over, most often for an upgrade. The waits between its probes grow no further than to EagerProbe until
// then, so that it is found again within minutes.
const EagerFor, eagerProbe = time.Hour, 5 * time.Minute

// EagerProbe is the longest wait before a probe while an endpoint has failed for less than EagerFor: five minutes, or the first of the list if that is longer.
func (p Policy) EagerProbe() time.Duration { return max(eagerProbe, p.Probe(1)) }

// maxRetryAfter is the longest Retry-After that is looked at, in bytes: the longest date has 34.
const maxRetryAfter = 64

// RetryAfter reads the values of the Retry-After headers of one answer (RFC 9110, section 10.2.3): a whole number of
// seconds, or an HTTP date in one of its three forms, judged by now. It is capped at the longest wait of the
// schedule, and 0 for what has passed. False means that the answer says nothing: no header, a policy that does not
// respect it, nonsense (a sign, a fraction, an exponent), or several headers that disagree.
func (p Policy) RetryAfter(values []string, now time.Time) (time.Duration, bool) {
	if !p.RespectRetryAfter || len(values) == 0 {
		return 0, false
	}
	text := strings.Trim(values[0], " \t")
	for _, other := range values[1:] {
		if strings.Trim(other, " \t") != text {
			return 0, false
		}
	}
	if text == "" || len(text) > maxRetryAfter {
		return 0, false
	}
	limit := p.longestWait()
	if isDigits(text) {
		seconds, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seconds > uint64(limit/time.Second) { // compared before it is multiplied
			return limit, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, ok := httpDate(text, now)
	if !ok {
		return 0, false
	}
	return min(max(at.Sub(now), 0), limit), true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// httpDate reads the three forms of RFC 9110, section 5.6.7. In the second one the year has two digits: what would
// be more than 50 years ahead is the century before, and the nearest reading is taken.
func httpDate(s string, now time.Time) (time.Time, bool) {
	if t, err := time.Parse(http.TimeFormat, s); err == nil {
		return t, true
	}
	if t, err := time.Parse("Monday, 02-Jan-06 15:04:05 GMT", s); err == nil {
		year := now.Year() - now.Year()%100 + t.Year()%100
		for year > now.Year()+50 {
			year -= 100
		}
		for year <= now.Year()-50 {
			year += 100
		}
		return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC), true
	}
	if t, err := time.Parse(time.ANSIC, s); err == nil {
		return t, true
	}
	return time.Time{}, false
}
