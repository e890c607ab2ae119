package lane

import "time"

// pace spaces the requests of an endpoint that has a rate of its own: a token bucket that holds a tenth of a second's worth, at least one.
type pace struct {
	next time.Time // when the bucket is full again
}

// earliest is when the next request may start.
func (p *pace) earliest(rate int) time.Time {
	interval := time.Second / time.Duration(rate)
	return p.next.Add(-interval * time.Duration(max(1, rate/10)-1))
}

// take says whether a request may start now, and if so counts it.
func (p *pace) take(now time.Time, rate int) bool {
	if now.Before(p.earliest(rate)) {
		return false
	}
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Second / time.Duration(rate))
	return true
}

// keepPace remembers an endpoint's pace between two claims, so that giving its lane back and taking it again earns nothing. e.mu is held.
func (e *Engine) keepPace(endpointID string, p pace) {
	now := e.Now()
	if !p.next.After(now) {
		delete(e.paces, endpointID)
		return
	}
	if len(e.paces) >= targetsCached {
		for id, other := range e.paces {
			if !other.next.After(now) {
				delete(e.paces, id)
			}
		}
	}
	e.paces[endpointID] = p
}
