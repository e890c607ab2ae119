package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stripe/goproxy"
	"github.com/stripe/smokescreen/pkg/smokescreen/conntrack"
)

// tunnels is the register of open tunnels. One goroutine looks through it once a tick and closes what is idle
// or old, so that no read or write has to set a deadline.
type tunnels struct {
	idle, life time.Duration
	now        atomic.Int64 // nanoseconds since began, as of the last tick
	began      time.Time
	mu         sync.Mutex
	open       map[*tunnel]struct{}
	closed     bool
	empty      chan struct{} // closed when the last tunnel goes and somebody waits
	done       chan struct{}
	stopOnce   sync.Once
}

// tunnel is one connection pair: the client's and the endpoint's. In this process there is only the latter.
type tunnel struct {
	set            *tunnels
	client, target net.Conn
	born           int64
	used           atomic.Int64
	once           sync.Once
}

func (s *tunnels) start(idle, life time.Duration) {
	s.idle, s.life, s.began = idle, life, time.Now()
	s.open, s.done = map[*tunnel]struct{}{}, make(chan struct{})
	tick := min(time.Second, idle/4, life/4)
	go func() {
		t := time.NewTicker(max(tick, time.Millisecond))
		defer t.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-t.C:
				s.sweep()
			}
		}
	}()
}

func (s *tunnels) sweep() {
	now := int64(time.Since(s.began))
	s.now.Store(now)
	var over []*tunnel
	s.mu.Lock()
	for t := range s.open {
		if now-t.used.Load() > int64(s.idle) || now-t.born > int64(s.life) {
			over = append(over, t)
		}
	}
	s.mu.Unlock()
	for _, t := range over {
		t.close()
	}
}

// add registers a tunnel, or returns nil when the proxy is closed; then both connections are closed.
func (s *tunnels) add(client, target net.Conn) *tunnel {
	t := &tunnel{set: s, client: client, target: target, born: s.now.Load()}
	t.used.Store(t.born)
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.open[t] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		t.close()
		return nil
	}
	return t
}

func (s *tunnels) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// wait returns when no tunnel is open or ctx is over.
func (s *tunnels) wait(ctx context.Context) {
	s.mu.Lock()
	if len(s.open) == 0 {
		s.mu.Unlock()
		return
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// stop closes every tunnel and lets no new one in.
func (s *tunnels) stop() {
	s.stopOnce.Do(func() { close(s.done) })
	s.mu.Lock()
	s.closed = true
	left := make([]*tunnel, 0, len(s.open))
	for t := range s.open {
		left = append(left, t)
	}
	s.mu.Unlock()
	for _, t := range left {
		t.close()
	}
}

func (t *tunnel) close() {
	t.once.Do(func() {
		t.target.Close()
		if t.client != nil {
			t.client.Close()
		}
		t.set.mu.Lock()
		defer t.set.mu.Unlock()
		delete(t.set.open, t)
		if len(t.set.open) == 0 && t.set.empty != nil {
			close(t.set.empty)
			t.set.empty = nil
		}
	})
}

func (t *tunnel) touch() { t.used.Store(t.set.now.Load()) }

// connected takes over after the client was told 200.
func (p *Proxy) connected(pctx *goproxy.ProxyCtx, client, target net.Conn) {
	if asked := requestOf(pctx.Req); asked != nil && asked.direct != nil {
		if t := p.tunnels.add(nil, target); t != nil {
			asked.direct <- &directConn{Conn: target, t: t, tcp: below(target)}
		}
		close(asked.direct)
		return
	}
	t := p.tunnels.add(client, target)
	if t == nil {
		return
	}
	go t.toTarget()
	t.toClient()
}

// linger is how long a client may take to close after the endpoint did: it may still be reading the answer.
const linger = 2 * time.Second

// toTarget copies what the client sends. Our clients never close one direction only, so their end is the end
// of both, and an endpoint that keeps a dead client waiting learns of it at once.
func (t *tunnel) toTarget() {
	if _, ok := errors.AsType[writeError](t.copy(below(t.target), t.client)); ok {
		// The endpoint no longer reads, but its answer may be on the way: closing now would reset the client.
		io.Copy(io.Discard, t.client)
	}
	t.close()
}

// toClient copies what the endpoint sends, and passes on how it ended: a reset as a reset, since a body that
// ends with the connection must not look whole.
func (t *tunnel) toClient() {
	err := t.copy(t.client, below(t.target))
	tcp, ok := t.client.(*net.TCPConn)
	switch _, gone := errors.AsType[writeError](err); {
	case gone || !ok:
		t.close()
	case err != nil:
		tcp.SetLinger(0)
		t.close()
	default:
		tcp.CloseWrite()
		tcp.SetReadDeadline(time.Now().Add(linger))
	}
}

type writeError struct{ error }

// The first read of a message fits the small buffer; a client or endpoint that sends much gets the large one.
const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
)

var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// copy moves bytes until src ends, which is nil, or either side fails.
func (t *tunnel) copy(dst, src net.Conn) error {
	buf := make([]byte, smallBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			t.touch()
			if _, err := dst.Write(buf[:n]); err != nil {
				return writeError{err}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n == smallBuffer && len(buf) == smallBuffer {
			large := largeBuffers.Get().(*[largeBuffer]byte)
			defer largeBuffers.Put(large)
			buf = large[:]
		}
	}
}

// below is the TCP connection under smokescreen's counting one, whose clock reads at each call we do not need.
func below(conn net.Conn) net.Conn {
	if counted, ok := conn.(*conntrack.InstrumentedConn); ok {
		return counted.Conn
	}
	return conn
}
