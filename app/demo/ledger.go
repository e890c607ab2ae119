package demo

import (
	"sync"
	"time"

	"waybill/app/receive"
)

// Tally is what the demo has counted of one seller since it started.
type Tally struct {
	Committed  int // moves that were committed with their event
	RolledBack int // moves that published and were then rolled back

	Stored   int // events that came into the inbox
	Repeats  int // came again and were skipped by their id
	Refused  int // came without a valid signature
	Failed   int // came and were answered with an error by the seller's own fault
	Unsigned int // of Refused: those with status 401

	Applied int // changed a consignment of the seller's
	Stale   int // older than what the seller knew, and ignored

	// Ghosts are arrivals of events whose move was rolled back. There must be none.
	Ghosts int
	// Slowest is the longest time from the commit of a move to its first arrival.
	Slowest time.Duration
}

// ledger keeps the tallies and the ids that are under way. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	tallies map[string]*Tally
	// sent is when a move was about to be committed, until its event arrives.
	sent map[string]time.Time
	// undone are the ids of rolled-back moves.
	undone map[string]struct{}
	// slow is Slowest since mark.
	slow map[string]time.Duration
}

func newLedger(sellers ...string) *ledger {
	l := &ledger{tallies: map[string]*Tally{}, sent: map[string]time.Time{}, undone: map[string]struct{}{}, slow: map[string]time.Duration{}}
	for _, s := range sellers {
		l.tallies[s] = &Tally{}
	}
	return l
}

func (l *ledger) tally(seller string) Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.tallies[seller]
}

// sum is over all sellers.
func (l *ledger) sum() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum Tally
	for _, t := range l.tallies {
		sum.Committed += t.Committed
		sum.RolledBack += t.RolledBack
		sum.Stored += t.Stored
		sum.Repeats += t.Repeats
		sum.Refused += t.Refused
		sum.Failed += t.Failed
		sum.Unsigned += t.Unsigned
		sum.Applied += t.Applied
		sum.Stale += t.Stale
		sum.Ghosts += t.Ghosts
		sum.Slowest = max(sum.Slowest, t.Slowest)
	}
	return sum
}

// committing notes an event before its commit: its arrival can be faster than the commit's answer.
func (l *ledger) committing(seller, eventID string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[eventID] = at
}

func (l *ledger) committed(seller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies[seller].Committed++
}

func (l *ledger) rolledBack(seller, eventID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tallies[seller].RolledBack++
	l.undone[eventID] = struct{}{}
}

func (l *ledger) forget(eventID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sent, eventID)
}

// arrived notes what a seller's receiver did with a request.
func (l *ledger) arrived(seller string, a receive.Arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tallies[seller]
	switch a.Outcome {
	case receive.Stored:
		t.Stored++
		if _, undone := l.undone[a.EventID]; undone {
			t.Ghosts++
		}
		if at, known := l.sent[a.EventID]; known {
			delete(l.sent, a.EventID)
			took := a.At.Sub(at)
			t.Slowest = max(t.Slowest, took)
			l.slow[seller] = max(l.slow[seller], took)
		}
	case receive.Repeat:
		t.Repeats++
	case receive.Refused:
		t.Refused++
		if a.Status == 401 {
			t.Unsigned++
		}
	case receive.Failed:
		t.Failed++
	}
}

// worked notes what a seller did with a stored event.
func (l *ledger) worked(seller string, applied bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if applied {
		l.tallies[seller].Applied++
	} else {
		l.tallies[seller].Stale++
	}
}

// mark starts measuring the slowest arrival of a seller anew; slowest is what it was since.
func (l *ledger) mark(seller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow[seller] = 0
}

func (l *ledger) slowest(seller string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slow[seller]
}
