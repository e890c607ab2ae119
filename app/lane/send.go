package lane

import (
	"context"
	"time"

	"waybill/app/id"
	"waybill/app/sender"
	"waybill/app/signing"
)

// send makes one attempt and sees it recorded.
func (l *lane) send(ctx context.Context, it item, t *target) {
	e := l.e
	started := e.stamp(e.Now())
	r := &result{lane: l, item: it, target: t, attemptID: id.New(id.Attempt, started), started: started, worker: e.WorkerID()}
	r.out = e.attempt(ctx, l.endpointID, &it, t, r)
	if r.out.Class == sender.Canceled && (l.isLost() || !r.out.Sent) {
		// Nothing left us; or our lease is over, and whoever takes the lane records this attempt as unknown, from what the row says we held.
		l.dropped(it.DeliveryID)
		return
	}
	r.verdict = judge(t.policy, &it, &r.out, e.Random(), e.stamp(e.Now()))
	if t.lost {
		r.verdict = waitForKey(&it, e.Random())
	}
	l.answer(r)
	e.gate.enter()
	err := e.flushes.do(context.WithoutCancel(ctx), r)
	e.gate.leave()
	if err == nil {
		l.heed(r.restraint, r.failures)
	}
	l.committed(it.DeliveryID)
}

// attempt signs and sends. The signature carries the time of this attempt.
func (e *Engine) attempt(ctx context.Context, endpointID string, it *item, t *target, r *result) sender.Outcome {
	if t.broken != "" {
		return sender.Outcome{Class: sender.BadConfig, Started: r.started, Err: t.broken}
	}
	if it.Body == nil {
		return sender.Outcome{Class: sender.BadConfig, Started: r.started, Err: "the event's text is no longer kept"}
	}
	signed, err := signing.Headers(t.scheme, t.signingKeys(r.started), it.EventID, r.started.Unix(), it.Body)
	if err != nil {
		return sender.Outcome{Class: sender.BadConfig, Started: r.started, Err: "this endpoint has no signing secret for its scheme; rotate its secret"}
	}
	r.headers = make([]sender.Header, 0, len(signed)+2+len(t.headers))
	r.headers = append(r.headers, sender.Header{Name: "Content-Type", Value: "application/json"}, sender.Header{Name: "User-Agent", Value: e.UserAgent})
	for _, h := range signed {
		r.headers = append(r.headers, sender.Header{Name: h.Name, Value: h.Value})
	}
	r.own = len(r.headers)
	all := append(r.headers, t.headers...)
	if r.lane.refuses(it) {
		return sender.Outcome{Class: sender.Canceled, Started: r.started}
	}
	return e.Sender.Send(ctx, sender.Request{EndpointID: endpointID, URL: t.url, Header: all, Body: it.Body, Timeout: t.policy.Timeout, MaxConns: t.concurrency})
}

// refuses is the last look before a request starts: much can have happened since it was decided on, on a machine that is busy.
func (l *lane) refuses(it *item) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost || l.closed || (l.inactive || l.doorShut(l.e.Now())) && it.Trigger != triggerTest
}

func (l *lane) isLost() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.lost }

// answer frees the slot and learns from the outcome.
func (l *lane) answer(r *result) {
	l.mu.Lock()
	delete(l.onWire, r.item.DeliveryID)
	l.answered[r.item.DeliveryID] = struct{}{}
	l.lastAnswer = l.e.Now()
	switch {
	case r.out.Class != sender.Proxy:
		l.stranded, l.proxyAt = 0, time.Time{}
	case !l.lastAnswer.Before(l.proxyAt): // else it was under way when the first one failed
		l.proxyAt = l.lastAnswer.Add(min(proxyFirst<<min(l.stranded, 8), proxyMost))
		l.stranded++
	}
	if r.item.Trigger != triggerTest {
		switch r.out.Class {
		case sender.Delivered:
			l.streak = 0
		case sender.Proxy, sender.Canceled:
		default:
			l.ailing = true
			l.failures++
			l.streak++
		}
		r.ailing, r.failures = l.ailing, l.failures
		switch {
		case r.out.Class == sender.Delivered:
			l.suspect, l.ok, l.proven = false, true, true
			l.prove(r.target)
		case r.out.TimedOut():
			l.suspect = true
		}
	} else if r.out.Class == sender.Delivered {
		l.prove(r.target)
	}
	if r.verdict.gone {
		l.closed = true
	}
	l.mu.Unlock()
	l.kick()
}

// prove notes the first success of an endpoint. mu is held.
func (l *lane) prove(t *target) {
	if t.verified || l.target == nil || l.target.verified || l.target.url != t.url {
		return
	}
	known := *l.target
	known.verified = true
	l.target, l.verified = &known, t.url
}

func (l *lane) committed(deliveryID string) {
	l.mu.Lock()
	delete(l.answered, deliveryID)
	l.mu.Unlock()
	l.kick()
}

func (l *lane) dropped(deliveryID string) {
	l.mu.Lock()
	delete(l.onWire, deliveryID)
	l.mu.Unlock()
	l.kick()
}
