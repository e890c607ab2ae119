package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Verdict is what Check found. A run balances when Problems is empty.
type Verdict struct {
	Events, Deliveries                               int
	Delivered, Undelivered, Held, Cancelled, Pending int
	Requests, Twice, Attempts, Unknown               int
	PeakPlace, PeakTenant                            int
	ByClass                                          map[string]int // attempts
	Problems                                         []string
	More                                             int // problems beyond those kept
}

const keptProblems = 40

// Wrong adds a problem that somebody else has found.
func (v *Verdict) Wrong(format string, arguments ...any) { v.wrong(format, arguments...) }

func (v *Verdict) wrong(format string, arguments ...any) {
	if len(v.Problems) == keptProblems {
		v.More++
		return
	}
	v.Problems = append(v.Problems, fmt.Sprintf(format, arguments...))
}

// Database is what Check reads from, in one snapshot: a pool.
type Database interface {
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

// Check compares the books with the database. It promises to find
//   - a committed event without exactly one delivery for each endpoint that subscribes, an event that was rolled back or never published;
//   - a delivery whose status has nothing to show for it: delivered without a request that was answered so, undelivered or held without its row
//     on the list, pending without a due row and a lane that will run;
//   - a signature that does not verify, two bodies of one event and form, a body that does not carry the published bytes;
//   - an attempt in the history that no receiver saw although it was answered, a request that no attempt stands for, numbers with gaps;
//   - a limit of an endpoint or a tenant that was exceeded at the receiver.
//
// Run it when nothing is published any more. Requests on the wire meanwhile would be missed in the history.
func (l *Ledger) Check(ctx context.Context, db Database) (*Verdict, error) {
	v := &Verdict{ByClass: map[string]int{}}
	requests := l.Requests()
	h, err := readHistory(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Problems = append(v.Problems, l.complaints...)
	byPlace := map[*Place][]Request{}
	byDelivery := map[string][]Request{}
	for _, r := range requests {
		byPlace[r.Place] = append(byPlace[r.Place], r)
		key := r.Place.EndpointID + " " + r.ID
		byDelivery[key] = append(byDelivery[key], r)
	}
	v.Requests = len(requests)
	for _, list := range byDelivery {
		v.Twice += len(list) - 1
	}
	l.checkRequests(v, h, requests)
	l.checkEvents(v, h)
	for _, s := range l.silences {
		for _, r := range byPlace[s.place] {
			if r.Arrived.After(s.from) && r.Arrived.Before(s.to) && !h.tests[r.ID] {
				v.wrong("%s was paused from %s to %s and was sent to: %s", s.place.Key, stamp(s.from), stamp(s.to), r)
			}
		}
	}
	for _, d := range h.deliveries {
		v.checkDelivery(h, d, byDelivery[d.endpointID+" "+d.eventID], l.forgotten)
	}
	v.checkLimits(byPlace, l.caps)
	return v, nil
}

// checkRequests looks at each request by itself and at those of one event and form together.
func (l *Ledger) checkRequests(v *Verdict, h *history, requests []Request) {
	first := map[string]Request{}
	for _, r := range requests {
		if r.Bad != "" {
			v.wrong("the signature does not verify (%s): %s", r.Bad, r)
		}
		if l.rolledBack[r.ID] {
			v.wrong("a receiver heard of an event that was rolled back: %s", r)
		}
		e, ok := l.committed[r.ID]
		if !ok {
			if !h.tests[r.ID] {
				v.wrong("a receiver heard of an event that nobody committed: %s", r)
			}
			continue
		}
		if e.Tenant != r.Place.Tenant || !subscribes(r.Place, e.Type) {
			v.wrong("event %s of tenant %s, type %s, came to %s, which has not asked for it", e.ID, e.Tenant, e.Type, r.Place.Key)
		}
		key := r.Place.Form + " " + r.ID
		if known, ok := first[key]; !ok {
			first[key] = r
			l.checkBody(v, e, r)
		} else if known.Hash != r.Hash && !l.anew[r.ID] { // an event that was published anew says when
			v.wrong("event %s (%s) went out with two bodies: %x to %s and %x to %s", r.ID, r.Place.Form, known.Hash[:4], known.Place.Key, r.Hash[:4], r.Place.Key)
		}
	}
}

func (l *Ledger) checkBody(v *Verdict, e Event, r Request) {
	body := l.bodies[r.Hash]
	if sha256.Sum256(body) != r.Hash || !bytes.Contains(body, []byte(`"id":"`+e.ID+`"`)) {
		v.wrong("the body of event %s does not name it: %.200s", e.ID, body)
	}
	if r.Place.Form == "full" && !bytes.HasSuffix(body, []byte(`,"data":`+e.Data+"}")) {
		v.wrong("event %s did not arrive with the bytes that were published: %.300s", e.ID, body)
	}
}

// checkEvents looks whether what was committed is there, once, with its deliveries, and nothing else is.
func (l *Ledger) checkEvents(v *Verdict, h *history) {
	v.Events = len(l.committed)
	for _, id := range h.waiting {
		v.wrong("event %s is still in the outbox", id)
	}
	for id, n := range h.events {
		if _, ok := l.committed[id]; !ok && !h.tests[id] {
			v.wrong("event %s is in the catalog, and nobody committed it (rolled back: %v)", id, l.rolledBack[id])
		}
		if n != 1 {
			v.wrong("event %s is in the catalog %d times", id, n)
		}
	}
	if int64(len(h.events)) != h.lastPosition {
		v.wrong("%d events have positions up to %d: there are gaps", len(h.events), h.lastPosition)
	}
	for _, id := range h.ids {
		if l.rolledBack[id] {
			v.wrong("event id %s is taken although its transaction was rolled back", id)
		}
	}
	found := map[string]int{}
	for _, d := range h.deliveries {
		found[d.endpointID+" "+d.eventID]++
	}
	for id, e := range l.committed {
		if h.events[id] == 0 {
			v.wrong("committed event %s is lost: it is not in the catalog", id)
		}
		for _, p := range l.places {
			if p.Tenant != e.Tenant || !subscribes(p, e.Type) {
				continue
			}
			if n := found[p.EndpointID+" "+id]; n > 1 || n == 0 && !p.Deleted {
				v.wrong("committed event %s has %d deliveries for %s", id, n, p.Key)
			}
		}
	}
}

// subscribes says whether a place asked for events of a type: exactly, by prefix.* or by *.
func subscribes(p *Place, eventType string) bool {
	for _, pattern := range p.Types {
		prefix, open := strings.CutSuffix(pattern, "*")
		if pattern == eventType || open && strings.HasPrefix(eventType, prefix) {
			return true
		}
	}
	return false
}

// Classes of attempts after which the receiver may or may not have seen the request. All others with a status, or that say what kind of nonsense
// was answered, prove that it did; the rest prove that nothing was sent.
var (
	provesSeen = map[string]bool{"delivered": true, "status": true, "gone": true, "redirect": true, "too_large_header": true, "not_http": true}
	mayBeSeen  = map[string]bool{"reset": true, "timeout": true, "unknown": true}
)

func (v *Verdict) checkDelivery(h *history, d delivery, seen []Request, forgotten []span) {
	v.Deliveries++
	attempts := h.attempts[d.id]
	var proven, maybe, delivered, unknown int
	codes := map[int]int{}
	for i, a := range attempts {
		v.Attempts++
		v.ByClass[a.class]++
		if a.number != i+1 {
			v.wrong("%s: its attempts are numbered %s", d, numbers(attempts))
			break
		}
		switch {
		case provesSeen[a.class]:
			proven++
		case mayBeSeen[a.class]:
			maybe++
		}
		if a.code != 0 {
			codes[a.code]++
		}
		if a.class == "delivered" {
			delivered++
		}
		if a.class == "unknown" {
			unknown++
		}
	}
	v.Unknown += unknown
	if len(attempts) != d.attempts {
		v.wrong("%s: it counts %d attempts and %d are in the history", d, d.attempts, len(attempts))
	}
	known := 0 // that nobody can have forgotten
	for _, r := range seen {
		if !slices.ContainsFunc(forgotten, func(s span) bool { return s.has(r.Arrived) }) {
			known++
		}
	}
	if len(seen) < proven || known > proven+maybe {
		v.wrong("%s: its receiver saw %d requests; the history has %d that were answered and %d that may have been sent\n\tseen: %s\n\thistory: %s",
			d, len(seen), proven, maybe, list(seen), list(attempts))
	}
	answered := map[int]int{}
	for _, r := range seen {
		answered[r.Answer.Code()]++
	}
	for code, n := range codes {
		if n > answered[code] {
			v.wrong("%s: the history has %d answers %d, and its receiver gave %d\n\tseen: %s\n\thistory: %s", d, n, code, answered[code], list(seen), list(attempts))
		}
	}
	if delivered > 1+unknown {
		v.wrong("%s: it was sent again after its success: %s", d, list(attempts))
	}
	v.checkStatus(h, d, delivered)
}

func (v *Verdict) checkStatus(h *history, d delivery, delivered int) {
	switch d.status {
	case "delivered":
		v.Delivered++
		if delivered == 0 {
			v.wrong("%s: no attempt of it succeeded", d)
		}
		if h.parked[d.id] != "" {
			v.wrong("%s: it is on the list of what is %s", d, h.parked[d.id])
		}
	case "undelivered":
		v.Undelivered++
		if h.parked[d.id] != "undelivered" && !d.test {
			v.wrong("%s: it is not on the undelivered list", d)
		}
	case "held":
		v.Held++
		if h.parked[d.id] != "held" {
			v.wrong("%s: it is not on the list of what is held", d)
		}
	case "cancelled":
		v.Cancelled++
	case "pending":
		v.Pending++
		if !h.due[d.id] {
			v.wrong("%s: nothing says that it is to be attempted", d)
		}
	}
	if delivered > 0 && d.status != "delivered" {
		v.wrong("%s: an attempt of it succeeded", d)
	}
	if why := h.stuck[d.endpointID]; h.due[d.id] && why != "" {
		v.wrong("%s: it is due, and its lane will not run: %s", d, why)
	}
}

func numbers(attempts []attempt) string {
	texts := make([]string, len(attempts))
	for i, a := range attempts {
		texts[i] = fmt.Sprint(a.number)
	}
	return strings.Join(texts, " ")
}

func list[T fmt.Stringer](items []T) string {
	texts := make([]string, 0, len(items))
	for i, item := range items {
		if i == 12 {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, item.String())
	}
	return strings.Join(texts, "; ")
}

// Balanced says that nothing is wrong.
func (v *Verdict) Balanced() bool { return len(v.Problems) == 0 }

// Print writes the verdict for people.
func (v *Verdict) Print(w io.Writer) {
	fmt.Fprintf(w, "events committed %d, deliveries %d: delivered %d, undelivered %d, held %d, cancelled %d, pending %d\n",
		v.Events, v.Deliveries, v.Delivered, v.Undelivered, v.Held, v.Cancelled, v.Pending)
	fmt.Fprintf(w, "requests seen %d (%d repeats of an id), attempts in the history %d, of unknown outcome %d\n", v.Requests, v.Twice, v.Attempts, v.Unknown)
	fmt.Fprintf(w, "most requests at once: endpoint %d, tenant %d\n", v.PeakPlace, v.PeakTenant)
	for _, p := range v.Problems {
		fmt.Fprintln(w, "WRONG:", p)
	}
	if v.More > 0 {
		fmt.Fprintf(w, "WRONG: and %d more\n", v.More)
	}
	if v.Balanced() {
		fmt.Fprintln(w, "the ledger balances")
	}
}
