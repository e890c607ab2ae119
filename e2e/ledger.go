package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Place is one endpoint: what the API said of it, and how its receiver behaves.
type Place struct {
	Key    string // its path at the receiver
	Tenant string // uid
	Types  []string
	Scheme string // v1, v1+v1a, v1a, hex
	Form   string // full or thin
	Limit  int    // requests at once; 0: not watched
	Script Script // nil: 200 to everything

	EndpointID string
	Secret     string // whsec_…
	PublicKey  string // whpk_…, when the scheme has one
	Deleted    bool   // its deliveries may be missing or cancelled
}

// Event is what a publisher published.
type Event struct {
	ID, Tenant, Type string
	Data             string // as JSON, byte for byte
}

// Request is one request as a receiver saw it.
type Request struct {
	Place  *Place
	ID     string // webhook-id
	Path   string
	Header http.Header
	Hash   [sha256.Size]byte // of the body
	Size   int
	Bad    string // why its signature does not verify; empty: it does
	Answer Answer

	Arrived time.Time // when all of it was there
	Ended   time.Time // just before the last of the answer went out, or when the sender was gone; zero: it has not ended
	Left    bool      // the sender closed the connection before it had the whole answer

	AtPlace, AtTenant int // requests on the wire when it arrived, itself included, by the receiver's own count
}

// Ledger is the two books of a run: what publishers committed, and every request that receivers saw. Its methods may be called at the same time.
type Ledger struct {
	mu         sync.Mutex
	places     map[string]*Place
	caps       map[string]int // by tenant uid; 0: not watched
	committed  map[string]Event
	rolledBack map[string]bool
	requests   []*Request
	times      map[string]int // place and id → requests
	bodies     map[[sha256.Size]byte][]byte
	atPlace    map[*Place]int
	atTenant   map[string]int
	silences   []silence
	forgotten  []span
	anew       map[string]bool // events that were committed again after that
	complaints []string
	more       chan struct{} // closed and replaced when a request arrives
}

// NewLedger is an empty one.
func NewLedger() *Ledger {
	return &Ledger{places: map[string]*Place{}, caps: map[string]int{}, committed: map[string]Event{}, rolledBack: map[string]bool{}, anew: map[string]bool{}, times: map[string]int{},
		bodies: map[[sha256.Size]byte][]byte{}, atPlace: map[*Place]int{}, atTenant: map[string]int{}, more: make(chan struct{})}
}

// AddTenant says how many requests at once a tenant may have; 0: that is not watched.
func (l *Ledger) AddTenant(uid string, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caps[uid] = limit
}

// AddPlace makes a place known to the receiver.
func (l *Ledger) AddPlace(p *Place) { l.mu.Lock(); defer l.mu.Unlock(); l.places[p.Key] = p }

// Place is the one with this key, or nil.
func (l *Ledger) Place(key string) *Place { l.mu.Lock(); defer l.mu.Unlock(); return l.places[key] }

// Places are all of them, by key.
func (l *Ledger) Places() []*Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := make([]*Place, 0, len(l.places))
	for _, p := range l.places {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b *Place) int { return strings.Compare(a.Key, b.Key) })
	return places
}

// IsDeleted says that a place's endpoint was, or is about to be.
func (l *Ledger) IsDeleted(p *Place) bool { l.mu.Lock(); defer l.mu.Unlock(); return p.Deleted }

// SetDeleted notes that a place's endpoint was deleted.
func (l *Ledger) SetDeleted(p *Place) { l.mu.Lock(); defer l.mu.Unlock(); p.Deleted = true }

// Commit writes down events whose transaction is known to have committed.
func (l *Ledger) Commit(events ...Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		if _, known := l.committed[e.ID]; known && len(l.forgotten) > 0 {
			l.anew[e.ID] = true
		}
		l.committed[e.ID] = e
	}
}

// RollBack writes down events whose transaction is known to have been rolled back: nobody may ever hear of them.
func (l *Ledger) RollBack(events ...Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		l.rolledBack[e.ID] = true
	}
}

// Committed is how many events were.
func (l *Ledger) Committed() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.committed) }

type silence struct {
	place    *Place
	from, to time.Time
}

// Silent writes down that nothing but tests may arrive at a place between from and to.
func (l *Ledger) Silent(p *Place, from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silences = append(l.silences, silence{p, from, to})
}

type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.from) && !t.After(s.to) }

// Forget writes down that the database was put back from to to the state it had at from: what arrived in between may be missing in the history.
func (l *Ledger) Forget(from, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten = append(l.forgotten, span{from, to})
}

// Complain writes down something that must not happen. At most some of one run are kept.
func (l *Ledger) Complain(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.complaints) < 100 {
		l.complaints = append(l.complaints, fmt.Sprintf(format, arguments...))
	}
}

// arrive writes a request down and returns how many of its id its place has seen, it included.
func (l *Ledger) arrive(it *Request, body []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	it.Arrived = time.Now()
	l.requests = append(l.requests, it)
	if _, ok := l.bodies[it.Hash]; !ok {
		l.bodies[it.Hash] = slices.Clone(body)
	}
	l.atPlace[it.Place]++
	l.atTenant[it.Place.Tenant]++
	it.AtPlace, it.AtTenant = l.atPlace[it.Place], l.atTenant[it.Place.Tenant]
	key := it.Place.Key + " " + it.ID
	l.times[key]++
	close(l.more)
	l.more = make(chan struct{})
	return l.times[key]
}

// decide notes how a request is going to be answered.
func (l *Ledger) decide(it *Request, a Answer) { l.mu.Lock(); defer l.mu.Unlock(); it.Answer = a }

// end notes that the answer is about to be complete; leave, that the sender did not wait for it.
func (l *Ledger) end(it *Request)   { l.finish(it, false) }
func (l *Ledger) leave(it *Request) { l.finish(it, true) }

func (l *Ledger) finish(it *Request, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !it.Ended.IsZero() {
		return
	}
	it.Ended, it.Left = time.Now(), left
	l.atPlace[it.Place]--
	l.atTenant[it.Place.Tenant]--
}

// Requests are copies of all that have arrived, in that order.
func (l *Ledger) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Request, len(l.requests))
	for i, it := range l.requests {
		all[i] = *it
	}
	return all
}

// Seen is how many requests have arrived.
func (l *Ledger) Seen() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.requests) }

// OnWire is how many requests have arrived at the places and not ended.
func (l *Ledger) OnWire(places ...*Place) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range places {
		n += l.atPlace[p]
	}
	return n
}

// WaitSeen waits until n requests have arrived.
func (l *Ledger) WaitSeen(n int, within time.Duration) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		l.mu.Lock()
		seen, more := len(l.requests), l.more
		l.mu.Unlock()
		if seen >= n {
			return nil
		}
		select {
		case <-more:
		case <-timer.C:
			return fmt.Errorf("%d of %d requests arrived within %s", seen, n, within)
		}
	}
}

// Times is how many requests with an id have arrived at a place.
func (l *Ledger) Times(p *Place, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[p.Key+" "+id]
}
