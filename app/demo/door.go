package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"waybill/app/receive"
)

// mood is how a seller's server takes one request.
type mood int

const (
	well     mood = iota
	dawdles       // answers well, after some time
	breaks        // answers 500 and has stored nothing
	lies          // stores the event and answers 500 all the same
	sleeps        // never answers
	upgrades      // answers 503: somebody is at work on it
)

// rule gives a mood to the next request about one consignment in one status.
type rule struct {
	consignment, status string
	mood                mood
	met                 chan struct{} // closed when the request came
}

// door is the seller's HTTP server: it can be shut, opened again at the same address, and have moods.
type door struct {
	receiver http.Handler
	stopping chan struct{}
	stopOnce sync.Once

	mu     sync.Mutex
	addr   netip.AddrPort
	server *http.Server // nil: shut
	served chan struct{}
	always mood // of every request that no rule names
	rules  []rule
	lively *rand.Rand // not nil: a mood at random now and then
	failed int        // requests answered with an error, or not at all, by a mood
}

func newDoor(receiver http.Handler) *door {
	return &door{receiver: receiver, stopping: make(chan struct{})}
}

// reopenWithin bounds the wait for an address that was ours a moment ago.
const reopenWithin = 3 * time.Second

// open listens at addr, whose port may be 0. It is a no-op while the door is open.
func (d *door) open(addr netip.AddrPort) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != nil {
		return nil
	}
	ln, err := net.Listen("tcp", addr.String())
	for end := time.Now().Add(reopenWithin); errors.Is(err, syscall.EADDRINUSE) && addr == d.addr && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		ln, err = net.Listen("tcp", addr.String())
	}
	if err != nil {
		return fmt.Errorf("open a seller's receiver: %w", err)
	}
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	d.addr = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 90 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: log.New(io.Discard, "", 0)}
	d.served = make(chan struct{})
	go func(s *http.Server, served chan struct{}) {
		defer close(served)
		_ = s.Serve(ln) // ends with ErrServerClosed when the door is shut
	}(d.server, d.served)
	return nil
}

// shut closes the server as a power cut would: connections break, new ones are refused.
func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != nil {
		_ = d.server.Close()
		<-d.served // until then the system would still take calls, for nobody
		d.server = nil
	}
}

// reopen opens a shut door at the address it had.
func (d *door) reopen() error {
	d.mu.Lock()
	addr := d.addr
	d.mu.Unlock()
	return d.open(addr)
}

// wake ends every sleep, those to come too.
func (d *door) wake() { d.stopOnce.Do(func() { close(d.stopping) }) }

// close lets the requests in hand end.
func (d *door) close() {
	d.wake()
	d.mu.Lock()
	server := d.server
	d.server = nil
	d.mu.Unlock()
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

func (d *door) address() netip.AddrPort { d.mu.Lock(); defer d.mu.Unlock(); return d.addr }
func (d *door) failures() int           { d.mu.Lock(); defer d.mu.Unlock(); return d.failed }
func (d *door) setAlways(m mood)        { d.mu.Lock(); defer d.mu.Unlock(); d.always = m }

// setLively gives it a mood of its own now and then, as servers have, or takes that away again.
func (d *door) setLively(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lively = nil
	if on {
		d.lively = rand.New(rand.NewPCG(4471, 4))
	}
}

// expect gives a mood to the next request about this; met is closed when it comes.
func (d *door) expect(consignment, status string, m mood) (met <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rule{consignment: consignment, status: status, mood: m, met: make(chan struct{})}
	d.rules = append(d.rules, r)
	return r.met
}

// moodFor is the mood for one request.
func (d *door) moodFor(body []byte) mood {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.rules) > 0 {
		// Not verified yet, and good enough to choose a mood by.
		if e, err := (receive.Message{Body: body}).Event(); err == nil {
			for i, r := range d.rules {
				if r.consignment == e.Resource.ID && "consignment."+r.status == e.Type {
					d.rules = append(d.rules[:i:i], d.rules[i+1:]...)
					close(r.met)
					return r.mood
				}
			}
		}
	}
	if d.always != well || d.lively == nil {
		return d.always
	}
	switch n := d.lively.IntN(100); {
	case n < 2:
		return breaks
	case n < 4:
		return lies
	case n < 20:
		return dawdles
	default:
		return well
	}
}

// ServeHTTP has a mood, and hands over to the receiver if that allows it.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, receive.DefaultMaxBody))
	if err != nil {
		http.Error(w, "The body did not arrive whole.", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	m := d.moodFor(body)
	if m == breaks || m == lies || m == sleeps || m == upgrades {
		d.mu.Lock()
		d.failed++
		d.mu.Unlock()
	}
	switch m {
	case breaks:
		http.Error(w, "NullPointerException at OrderSystem.java:214", http.StatusInternalServerError)
	case lies:
		d.receiver.ServeHTTP(nowhere{http.Header{}}, r)
		http.Error(w, "Something went wrong after we had saved it.", http.StatusInternalServerError)
	case upgrades:
		http.Error(w, "We are upgrading and back soon.", http.StatusServiceUnavailable)
	case sleeps:
		select {
		case <-r.Context().Done():
		case <-d.stopping:
			http.Error(w, "The server is going down.", http.StatusServiceUnavailable)
		}
	case dawdles:
		select {
		case <-time.After(100*time.Millisecond + rand.N(500*time.Millisecond)):
		case <-d.stopping:
		}
		fallthrough
	default:
		d.receiver.ServeHTTP(w, r)
	}
}

// nowhere is an answer that nobody gets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n nowhere) WriteHeader(int)             {}
