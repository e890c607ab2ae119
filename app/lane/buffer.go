package lane

import (
	"context"
	"slices"
	"time"
)

// This is what a lane has been handed and has not started: its buffer, and how it is filled.

// startFetch asks for more, aside. mu is held.
func (l *lane) startFetch(ctx context.Context, n int) {
	l.fetching, l.poked = true, false
	f := &fetch{endpointID: l.endpointID, gen: l.gen, n: min(n, fetchMost, max(1, fetchBytes/max(1, l.largest))), held: l.heldIDs()}
	f.asked = l.e.Now()
	if now := f.asked; l.mark != nil && now.Sub(l.scanned) < fetchAfresh {
		f.from = l.mark
	} else {
		l.scanned = now
	}
	preset := ""
	if l.target != nil {
		f.applied, preset = l.target.rev, l.target.preset
	}
	go func() {
		var fresh *target
		err := l.e.fetches.do(ctx, f)
		if err == nil && f.found && (f.applied != f.rev || preset != f.preset) {
			read := &targetRead{endpointID: l.endpointID}
			if err = l.e.targets.do(ctx, read); err == nil {
				fresh = read.target
			}
			if fresh != nil && fresh.rev > f.rev {
				// Changed again since the fetch: what it said of the endpoint's state is older than this, so this counts as the older revision.
				older := *fresh
				older.rev = f.rev
				fresh = &older
			}
		}
		l.mu.Lock()
		l.fetching, l.hasFetched, l.fetchErr = false, true, err
		if err == nil {
			l.fetched = *f // after an error its batch may still be writing to it
		}
		if fresh != nil {
			l.renewed = l.target != nil
			l.target = fresh
			l.poked = true // tell the row which revision is in force now
		}
		l.mu.Unlock()
		l.kick()
	}()
}

// heldIDs is every delivery handed to this lane whose result is not committed. mu is held.
func (l *lane) heldIDs() []string {
	ids := make([]string, 0, len(l.buffer)+len(l.onWire)+len(l.answered))
	for i := range l.buffer {
		ids = append(ids, l.buffer[i].DeliveryID)
	}
	for d := range l.onWire {
		ids = append(ids, d)
	}
	for d := range l.answered {
		ids = append(ids, d)
	}
	return ids
}

// take puts a fetch's answer to use. It says whether there may be more, and when to look again if not. mu is held.
func (l *lane) take(poll time.Duration) (more bool, next time.Duration) {
	f := &l.fetched
	if !f.found {
		l.lost = true
		l.closed = true
		return false, poll
	}
	l.waiters = f.waiters
	l.inactive = !f.sends
	l.observe(f)
	if l.cap > f.cap {
		l.closed = true // others count on it that the tenant's lanes have no more than this: take the lane anew
	}
	l.cap = f.cap
	l.mark = nil
	if f.full {
		l.mark = f.end
	}
	if l.renewed {
		// What was handed to us before the change may have been taken back with it: none of it is started, and what is due still is fetched again.
		l.keepTests(true)
		l.renewed, l.mark = false, nil
	}
	tests := 0
	for tests < len(f.items) && f.items[tests].Trigger == triggerTest {
		tests++
	}
	l.buffer = append(slices.Insert(l.buffer, 0, f.items[:tests]...), f.items[tests:]...)
	for i := range f.items {
		if f.items[i].Trigger == triggerFirst {
			l.e.metrics.waited(f.items[i].waited)
		}
		l.largest = max(l.largest, len(f.items[i].Body))
	}
	if len(f.items) > 0 {
		return f.full, pollFirst
	}
	return f.full, min(2*poll, pollMost)
}

// room is how many more a lane asks for that has enough to do: one, in case it goes before the others, and none when it holds very many.
func (l *lane) room() int {
	if len(l.buffer) >= 2*fetchMost {
		return 0
	}
	return 1
}

// keepTests drops what was handed to us but not started, or all of it but the tests: it stays due and is fetched, or held, later. mu is held.
func (l *lane) keepTests(drop bool) {
	kept := l.buffer[:0]
	for _, it := range l.buffer {
		if !drop && it.Trigger == triggerTest {
			kept = append(kept, it)
		}
	}
	clear(l.buffer[len(kept):])
	l.buffer = kept
}
