package lane

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lane is one lane that this process owns. Its loop (run) alone starts requests and talks to the control loop; answers and commits arrive from
// the goroutines of the requests, under mu, and kick it.
type lane struct {
	e          *Engine
	endpointID string
	tenantID   string
	gen        int64
	claimed    time.Time
	kicked     chan struct{}
	// hung is closed when the lane has waited a second for an answer: its River job may then end, and its place go to another lane, while
	// the requests on the wire keep their slots until they are answered.
	hung chan struct{}
	done chan struct{}

	mu         sync.Mutex
	slots      int
	target     *target
	buffer     []item               // handed to us, not started
	onWire     map[string]time.Time // delivery id → start
	answered   map[string]struct{}  // answered, not yet committed
	lost       bool                 // the row is no longer ours: the lease ran out or the generation moved on
	closed     bool                 // start nothing: inactive, gone, or yielding
	inactive   bool                 // the endpoint does not send; hold what is due
	poked      bool                 // somebody made something due, or changed the endpoint
	waiters    bool
	suspect    bool
	ok         bool   // a success not yet written to the row
	verified   string // the address of an unverified endpoint that has answered well for the first time, not yet written
	proven     bool   // a success since the claim, or in the minute before it: may grow
	lastAnswer time.Time
	stranded   int       // attempts in a row that our own proxy failed
	proxyAt    time.Time // until then none is started: one at a time finds out whether the proxy is back
	limit      int       // of requests at once, by the endpoint's health; 0: not known yet
	shut       bool      // its door was shut when the row was last looked at
	shutUntil  time.Time // it is, by a commit of ours
	marked     time.Time // when a commit of ours last said so
	ailing     bool      // successes are held against its health as well
	failures   int       // answered
	streak     int       // of them, since the last success
	pace       pace
	fetching   bool
	largest    int // bytes of the largest body fetched
	cap        int // the tenant's, when it was last read
	fetched    fetch
	fetchErr   error
	hasFetched bool
	mark       *mark     // where the next fetch may go on
	renewed    bool      // the endpoint was read anew since the last fetch was taken over
	scanned    time.Time // when a fetch last began at the start
}

const (
	sliceLength  = time.Second      // after it a lane makes room for those who wait
	laneLifetime = 60 * time.Second // after it a lane is handed back whatever happens
	hungAfter    = time.Second
	linger       = 500 * time.Millisecond // an empty lane waits for the next event before it is given back: a claim costs more
	fetchMost    = 200
	fetchAfresh  = 250 * time.Millisecond // a fetch begins at the start this often at least: something may have become due behind where the last one ended
	fetchBytes   = 4 << 20                // bodies that a lane asks for at once, by the largest it has seen
	pollFirst    = 100 * time.Millisecond // whoever makes something due says so; a look finds what was said in vain
	pollMost     = 900 * time.Millisecond // the endpoint is read again within a second of any send
	holdBatch    = 500
	growEvery    = 5 * time.Millisecond
	errorBackoff = 200 * time.Millisecond
	proxyFirst   = 250 * time.Millisecond // the first pause after our own proxy has failed; it doubles up to proxyMost
	proxyMost    = 5 * time.Second
	// A fetch used up faster than fetchConsumed asks for twice as many next, one that lasts longer than fetchSlow for half: what a lane holds
	// is what it sends in a tenth of a second or so, and no more is in doubt after a crash.
	fetchConsumed = 40 * time.Millisecond
	fetchSlow     = 150 * time.Millisecond
)

func (l *lane) kick() {
	select {
	case l.kicked <- struct{}{}:
	default:
	}
}

// poke says that something new may be due or that the endpoint has changed.
func (l *lane) poke() {
	l.mu.Lock()
	l.poked = true
	l.mu.Unlock()
	l.kick()
}

// makeRoom says that another lane of the tenant is blocked by its cap.
func (l *lane) makeRoom() {
	l.mu.Lock()
	l.waiters = true
	l.mu.Unlock()
	l.kick()
}

// run works the lane until its right is given back or lost.
func (l *lane) run(ctx context.Context) {
	defer close(l.done)
	defer l.e.forget(l)
	now := l.e.Now()
	l.claimed, l.lastAnswer = now, now
	sliceStart, lastGrow := now, now
	nextFetch, poll, ask, more, busy := now, pollFirst, 2*l.slots, true, now
	var lookedAt, fetchedAt time.Time // the last fetch, and the last one for which there was too little to do
	hungry := true                    // the last fetch was one of those
	outlived := false                 // what has outlived its schedule at a closed door was looked for
	timer := time.NewTimer(0)
	defer timer.Stop()

	for {
		now = l.e.Now()
		draining := l.e.draining.Load()

		l.mu.Lock()
		if l.hasFetched {
			l.hasFetched = false
			if l.fetchErr != nil {
				nextFetch = now.Add(errorBackoff)
				more = false
			} else {
				more, poll = l.take(poll)
				nextFetch = now.Add(poll)
				if hungry && more && now.Sub(fetchedAt) < fetchConsumed {
					ask = min(2*ask, fetchMost)
				} else if hungry && more && now.Sub(fetchedAt) > fetchSlow {
					ask = max(ask/2, 2*l.slots)
				}
			}
			lookedAt = now
			if hungry {
				fetchedAt = now
			}
		}
		if l.lost {
			l.mu.Unlock()
			return
		}
		yield := draining || now.Sub(l.claimed) > laneLifetime
		if yield {
			l.closed = true
		}
		shut := l.doorShut(now)
		if l.closed || l.inactive || shut {
			l.keepTests(yield || l.closed)
		}
		// Before the first request to an endpoint whose circuit is open: a probe is no chance for what has outlived its schedule.
		expire := !outlived && !l.closed && !l.inactive && (shut || l.ailing && l.limit == 1) && l.target != nil && len(l.onWire) == 0 && len(l.answered) == 0
		gated := !expire && l.startSome(ctx, now)
		quiet := len(l.onWire) == 0 && len(l.answered) == 0
		idle := quiet && len(l.buffer) == 0
		stuck := len(l.onWire) > 0 && now.Sub(l.lastAnswer) > hungAfter && now.Sub(oldest(l.onWire, now)) > hungAfter
		enough := len(l.buffer) >= max(2*l.slots, ask/2)
		if enough && l.target != nil && l.fetchErr == nil {
			nextFetch = lookedAt.Add(pollMost) // only to read the endpoint again
		}
		wantFetch := !l.fetching && !l.closed && (l.poked || l.target == nil || !now.Before(nextFetch) || (more && !enough))
		endOfSlice := now.Sub(sliceStart) > sliceLength && !l.closed
		waiters := l.waiters
		grow := l.proven && !l.closed && !l.suspect && len(l.buffer) > 0 && (len(l.buffer) >= l.slots || stuck) && len(l.onWire) >= l.slots &&
			l.target != nil && l.slots < min(l.target.concurrency, max(1, l.limit)) && now.Sub(lastGrow) > growEvery
		shrink := l.suspect && l.slots > max(1, len(l.onWire)) || l.oversized() && now.Sub(lastGrow) > growEvery*20
		if !idle {
			busy = now
		}
		exhausted := idle && !l.fetching && !more && !l.poked && l.target != nil
		lingering := exhausted && !waiters && !draining && now.Sub(busy) < linger && !l.e.crowded()
		inactive := l.inactive
		if wantFetch {
			n := max(ask, 1)
			if hungry = !enough; enough {
				n = l.room()
			}
			l.startFetch(ctx, n)
		}
		l.mu.Unlock()

		if stuck {
			l.detach()
		}
		switch {
		case inactive && quiet && !l.isFetching():
			if !l.hold(ctx) {
				nextFetch = l.e.Now().Add(errorBackoff)
			}
			l.mu.Lock()
			l.inactive = false // looked after; the next fetch says again if there is more
			l.mu.Unlock()
			if l.finish(ctx, yield) {
				return
			}
			more = true
			continue
		case l.isClosed() && quiet && !l.isFetching():
			if l.finish(ctx, true) {
				return
			}
			continue
		case expire && !wantFetch && !l.isFetching():
			outlived, more = true, true
			l.outlive(ctx)
			continue
		case exhausted && !wantFetch && !lingering:
			if l.finish(ctx, false) {
				return
			}
			more, poll = true, pollFirst
			continue
		case grow || shrink:
			lastGrow = now
			l.adjust(ctx)
			l.mu.Lock()
			full := l.slots < l.target.concurrency
			l.mu.Unlock()
			if full && grow {
				lastGrow = now.Add(100 * time.Millisecond) // the cap left no more: do not ask again at once
			}
			continue
		case endOfSlice && (waiters || l.e.crowded()):
			sliceStart = now
			before := l.slots
			l.adjust(ctx)
			l.mu.Lock()
			if l.slots >= before && !stuck {
				l.closed = true // our share is no smaller than one slot: give the whole lane to the next
			}
			l.mu.Unlock()
			continue
		}
		if endOfSlice {
			sliceStart = now
		}

		wait := nextFetch.Sub(now)
		if l.isFetching() || l.isClosed() {
			wait = hungAfter
		}
		if gated {
			wait = hungAfter // the gate kicks us when it opens
		}
		if lingering {
			wait = linger - now.Sub(busy)
		}
		for _, pause := range []time.Duration{l.proxyPause(now), l.pacePause(now)} {
			if pause > 0 {
				wait = min(wait, pause)
			}
		}
		if stuckIn := hungAfter - now.Sub(l.lastAnswerAt()); stuckIn > 0 {
			wait = min(wait, stuckIn+time.Millisecond)
		}
		timer.Reset(max(wait, time.Millisecond))
		select {
		case <-l.kicked:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

func oldest(onWire map[string]time.Time, now time.Time) time.Time {
	first := now
	for _, t := range onWire {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// proxyPause is how long nothing is started because our own proxy fails.
func (l *lane) proxyPause(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.proxyAt.Sub(now)
}

func (l *lane) isFetching() bool        { l.mu.Lock(); defer l.mu.Unlock(); return l.fetching }
func (l *lane) isClosed() bool          { l.mu.Lock(); defer l.mu.Unlock(); return l.closed }
func (l *lane) lastAnswerAt() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.lastAnswer }

// startSome puts requests on the wire while there are slots. It says whether it stopped because too much is answered and uncommitted. mu is held.
func (l *lane) startSome(ctx context.Context, now time.Time) (gated bool) {
	if l.target == nil || l.closed || !l.e.alive(now) {
		return false
	}
	if now.Before(l.proxyAt) {
		return false
	}
	for most := l.most(); len(l.buffer) > 0 && l.busy() < most; {
		if l.e.gate.shut(l) {
			return true
		}
		if l.target.rate > 0 && !l.pace.take(now, l.target.rate) {
			return false
		}
		it := l.buffer[0]
		l.buffer[0] = item{}
		l.buffer = l.buffer[1:]
		if len(l.onWire) == 0 {
			l.lastAnswer = now
		}
		l.onWire[it.DeliveryID] = now
		go l.send(ctx, it, l.target)
	}
	return false
}

// request fills in what every request to the control loop says of the lane.
func (l *lane) request(v verb) *control {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &control{verb: v, endpointID: l.endpointID, tenantID: l.tenantID, gen: l.gen, onWire: len(l.onWire), suspect: l.suspect,
		ok: l.ok, verified: l.verified, want: len(l.buffer) + len(l.onWire)}
	return c
}

// applied takes over the control loop's answer.
func (l *lane) applied(c *control, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		// If only the answer was lost, the row may have fewer slots than we think, and others have the rest. It never has fewer than one.
		l.slots = min(l.slots, 1)
	case !c.mine:
		l.lost = true
	default:
		l.slots, l.waiters = c.slots, c.waiters
		l.ok, l.verified = false, ""
	}
}

func (l *lane) adjust(ctx context.Context) {
	c := l.request(adjust)
	err := l.e.controls.do(ctx, c)
	l.applied(c, err)
	if err != nil {
		l.pause(ctx, err)
	}
}

// finish gives the lane back, or learns that there is more to do: then it returns false.
func (l *lane) finish(ctx context.Context, yield bool) bool {
	c := l.request(finish)
	c.yield = yield
	err := l.e.controls.do(ctx, c)
	if err != nil {
		l.applied(c, err)
		l.pause(ctx, err)
		return ctx.Err() != nil
	}
	if !c.mine {
		return true
	}
	l.applied(c, nil)
	l.mu.Lock()
	l.poked = true
	l.mu.Unlock()
	return false
}

// pause waits a little after the database has failed us.
func (l *lane) pause(ctx context.Context, err error) {
	if !errors.Is(err, context.Canceled) {
		l.e.Logger.Warn("lane waits for the database", "endpoint_id", l.endpointID, "error", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(errorBackoff):
	}
}

// hold moves what is due at an endpoint that does not send to held, or cancels it. It says whether it succeeded.
func (l *lane) hold(ctx context.Context) bool {
	if err := l.e.hold(ctx, l.endpointID); err != nil {
		l.pause(ctx, err)
		return false
	}
	return true
}

// outlive ends what has waited at the closed door for longer than its schedule lasts.
func (l *lane) outlive(ctx context.Context) {
	l.mu.Lock()
	t := l.target
	l.keepTests(false) // some of it may be gone
	l.mark, l.poked = nil, true
	l.mu.Unlock()
	if err := l.e.outlive(ctx, l.endpointID, l.tenantID, t); err != nil {
		l.pause(ctx, err)
	}
}

// detach lets the lane's River job end while its requests hang.
func (l *lane) detach() {
	select {
	case <-l.hung:
	default:
		if l.e.detached.Add(1) > detachedMost {
			l.e.detached.Add(-1)
			return
		}
		close(l.hung)
	}
}

const triggerFirst = "first"
