package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Relay is a TCP relay that can stall: it takes everything in and passes nothing on. What a client had sent when it gave up and closed is then dropped
// instead of arriving late, so that a receiver never hears of a request whose sender has long let go of its slot.
type Relay struct {
	ln     net.Listener
	passed atomic.Int64 // bytes passed on

	mu      sync.Mutex
	target  string
	moving  chan struct{} // closed while it does not stall
	stalls  [][2]time.Time
	conns   map[net.Conn]struct{}
	stopped bool
}

// NewRelay listens on a free port of 127.0.0.1 and passes every connection on to target, host:port. Close it.
func NewRelay(target string) (*Relay, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Relay{ln: ln, target: target, moving: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(r.moving)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			go r.serve(conn)
		}
	}()
	return r, nil
}

// Addr is where it listens.
func (r *Relay) Addr() string { return r.ln.Addr().String() }

// SetTarget sends new connections to another address.
func (r *Relay) SetTarget(target string) { r.mu.Lock(); defer r.mu.Unlock(); r.target = target }

// Stall stops everything until Resume.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moving = make(chan struct{})
	r.stalls = append(r.stalls, [2]time.Time{time.Now(), {}})
}

// Resume ends a stall.
func (r *Relay) Resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.moving)
	r.stalls[len(r.stalls)-1][1] = time.Now()
}

// Stalled says whether it stalled at some time between from and to.
func (r *Relay) Stalled(from, to time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stalls {
		if s[0].Before(to) && (s[1].IsZero() || s[1].After(from)) {
			return true
		}
	}
	return false
}

// Close ends all connections.
func (r *Relay) Close() {
	_ = r.ln.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *Relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		_ = c.Close()
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Relay) drop(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(r.conns, c)
	}
}

func (r *Relay) gate() <-chan struct{} { r.mu.Lock(); defer r.mu.Unlock(); return r.moving }

func (r *Relay) serve(client net.Conn) {
	if !r.keep(client) {
		return
	}
	defer r.drop(client)
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil || !r.keep(server) {
		return
	}
	defer r.drop(server)
	over := make(chan struct{}, 2)
	gone := make(chan struct{}) // closed when the client has closed
	go r.pass(server, client, gone, gone, over)
	go r.pass(client, server, make(chan struct{}), gone, over)
	<-over
}

// pass moves bytes from one side to the other. ended is closed when from has ended; when gone is, nobody waits for what is held back.
func (r *Relay) pass(to, from net.Conn, ended, gone chan struct{}, over chan<- struct{}) {
	done := make(chan struct{})
	defer func() {
		close(done)
		over <- struct{}{}
	}()
	parts := make(chan []byte, 64) // more than any request
	go func() {
		defer close(parts)
		defer close(ended)
		for {
			part := make([]byte, 16<<10)
			n, err := from.Read(part)
			if n > 0 {
				select {
				case parts <- part[:n]:
				case <-done:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	for part := range parts {
		select {
		case <-r.gate():
		default:
			select {
			case <-r.gate():
			case <-gone:
				return
			}
		}
		n, err := to.Write(part)
		r.passed.Add(int64(n))
		if err != nil {
			return
		}
	}
}
