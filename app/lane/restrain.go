package lane

import "time"

// This is what a running lane knows of its endpoint's restraint: from the commits of its own results at once, and from its row at each fetch.

// heed takes over what the commit of a result has made of the endpoint's health. failures is how many had been answered when that result was.
func (l *lane) heed(m *restraint, failures int) {
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.e.Now()
	l.limit, l.shut, l.shutUntil, l.marked = m.limit, false, now.Add(m.shut), now
	l.ailing = m.ailing || l.failures != failures
	if m.off {
		l.closed = true // the next claim holds what is due
	}
}

// observe takes over what a fetch saw in the row, unless a commit of ours is newer. mu is held.
func (l *lane) observe(f *fetch) {
	l.ailing = l.ailing || f.ailing
	if f.asked.After(l.marked) {
		l.limit, l.shut, l.shutUntil = f.limit, !f.open, time.Time{}
	}
}

// doorShut says that nothing but tests is sent for now. mu is held.
func (l *lane) doorShut(now time.Time) bool { return l.shut || now.Before(l.shutUntil) }

// most is how many requests may be on the wire at once. mu is held.
func (l *lane) most() int {
	most := min(l.slots, l.target.concurrency)
	if l.limit > 0 {
		most = min(most, l.limit)
	}
	if l.suspect || l.stranded > 0 {
		most = 1
	}
	return most
}

// busy is how many of them are taken. While an endpoint is sent to with restraint, or as many have failed in a row as may open its circuit, an answer that is
// not committed yet counts as well: what it says may forbid the next. mu is held.
func (l *lane) busy() int {
	opens := l.target.policy.Breaker.ConsecutiveFailures
	if l.limit > 0 && l.limit < l.target.concurrency || l.streak > 0 && opens > 0 && l.streak+len(l.onWire) >= opens {
		return len(l.onWire) + len(l.answered)
	}
	return len(l.onWire)
}

// oversized says that the lane has more slots than its endpoint's restraint leaves it. mu is held.
func (l *lane) oversized() bool { return l.limit > 0 && l.slots > max(l.limit, len(l.onWire)) }

// pacePause is how long nothing is started because of the endpoint's own rate; zero or less: not for that reason.
func (l *lane) pacePause(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.target == nil || l.target.rate == 0 || len(l.buffer) == 0 {
		return 0
	}
	return l.pace.earliest(l.target.rate).Sub(now)
}
