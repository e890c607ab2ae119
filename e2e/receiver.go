package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Receiver is many tenants' servers in one: each Place of its ledger has a URL here. A request is written down when all of it has arrived,
// before it is answered.
type Receiver struct {
	ledger *Ledger
	server *http.Server
	url    string
	done   chan struct{} // closed by Close: whoever hangs lets go

	mu   sync.Mutex
	calm bool
}

// NewReceiver starts one on a free port of ReceiverHost. Close it.
func NewReceiver(ledger *Ledger) (*Receiver, error) {
	ln, err := net.Listen("tcp", ReceiverHost+":0")
	if err != nil {
		return nil, err
	}
	r := &Receiver{ledger: ledger, url: "http://" + ln.Addr().String(), done: make(chan struct{})}
	r.server = &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = r.server.Serve(ln) }() // ends with Close
	return r, nil
}

// Close drops every connection.
func (r *Receiver) Close() {
	close(r.done)
	_ = r.server.Close()
}

// URL is the address of a place.
func (r *Receiver) URL(place string) string { return r.url + "/at/" + place }

// Calm makes every place answer 200 at once from now on, whatever its script says.
func (r *Receiver) Calm() { r.mu.Lock(); defer r.mu.Unlock(); r.calm = true }

func (r *Receiver) isCalm() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.calm }

// redirected is where redirects lead. Nobody may come here.
const redirected = "/followed"

// maxRead is more than any event.
const maxRead = 1 << 20

func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key, ok := strings.CutPrefix(q.URL.Path, "/at/")
	place := r.ledger.Place(key)
	if !ok || place == nil {
		r.ledger.Complain("a request for %s, where no endpoint is", q.URL.Path)
		http.Error(w, "nobody is here", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, maxRead))
	if err != nil {
		return // not a whole request: the sender went away
	}
	it := &Request{Place: place, ID: q.Header.Get("webhook-id"), Path: q.URL.Path, Header: q.Header.Clone(), Hash: sha256.Sum256(body), Size: len(body)}
	if err := place.verify(q.Header, body); err != nil {
		it.Bad = err.Error()
	}
	n := r.ledger.arrive(it, body)
	answer := Answer{Kind: Reply, Status: http.StatusOK}
	if place.Script != nil && !r.isCalm() {
		answer = place.Script(Hit{Place: place, ID: it.ID, N: n})
	}
	r.ledger.decide(it, answer)
	r.answer(w, q, it)
}

// Hit is what a script is told of a request.
type Hit struct {
	Place *Place
	ID    string
	N     int // the how many-th request with this id at this place it is; the first is 1
}

// Script decides how a place answers. It is called at the same time for several requests.
type Script func(Hit) Answer

// Always answers all alike.
func Always(a Answer) Script { return func(Hit) Answer { return a } }

// Kind is a way to answer.
type Kind string

// The ways. All but Reply are those of a receiver that is broken or hostile.
const (
	Reply    Kind = "reply"     // with Status, after a wait
	Hang     Kind = "hang"      // never
	Trickle  Kind = "trickle"   // the head a byte at a time, never all of it
	Redirect Kind = "redirect"  // 302 to an address that must not be called
	Cut      Kind = "cut"       // the connection ends without a byte
	CutHead  Kind = "cut head"  // the connection ends within the head
	CutBody  Kind = "cut body"  // 200, and the connection ends within the body
	NULs     Kind = "nuls"      // 500 with NUL bytes in header and body
	Bomb     Kind = "bomb"      // 200 with a small gzip body that is 512 MB
	Endless  Kind = "endless"   // 200 with a body that never ends
	Storm    Kind = "storm"     // 103, again and again
	Garbage  Kind = "garbage"   // not HTTP
	BigHead  Kind = "big head"  // 200 with a head of a megabyte
	Lies     Kind = "lies"      // 200 whose Content-Length is not the body's
	Reset    Kind = "reset"     // the connection is reset within the body of a 500
	SlowBody Kind = "slow body" // 200 whose body comes a byte at a time
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{Reply, Hang, Trickle, Redirect, Cut, CutHead, CutBody, NULs, Bomb, Endless, Storm, Garbage, BigHead, Lies, Reset, SlowBody}
}

// Answer is how one request is answered.
type Answer struct {
	Kind   Kind
	Status int           // of Reply
	After  time.Duration // the wait before it
}

// Code is the status that a sender can make out, and 0 when there is none.
func (a Answer) Code() int {
	switch a.Kind {
	case Reply:
		return a.Status
	case Redirect:
		return http.StatusFound
	case NULs, Reset:
		return http.StatusInternalServerError
	case Storm:
		return http.StatusEarlyHints
	case CutBody, Bomb, Endless, BigHead, Lies, SlowBody:
		return http.StatusOK
	}
	return 0
}

func (a Answer) String() string {
	if a.Kind == Reply {
		return fmt.Sprint(a.Status)
	}
	return string(a.Kind)
}

func (r *Receiver) answer(w http.ResponseWriter, q *http.Request, it *Request) {
	if it.Answer.After > 0 {
		timer := time.NewTimer(it.Answer.After)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-q.Context().Done():
			r.ledger.leave(it)
			return
		case <-r.done:
			return
		}
	}
	switch it.Answer.Kind {
	case Reply, Redirect:
		// Before the answer goes out: the sender may begin the next request as soon as it has it.
		r.ledger.end(it)
		if it.Answer.Kind == Redirect {
			w.Header().Set("Location", redirected)
		}
		w.WriteHeader(it.Answer.Code())
		_, _ = io.WriteString(w, "seen\n")
	case Hang:
		select {
		case <-q.Context().Done():
		case <-r.done:
		}
		r.ledger.leave(it)
	default:
		r.raw(w, it)
	}
}
