package sender

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"
)

// How long connections live. idleLife is shorter than receivers commonly keep theirs (five seconds and more), so
// that ours is rarely the one that meets a closed door. connLife makes the proxy judge the name again.
const (
	idleLife   = 4 * time.Second
	connLife   = 4 * time.Minute
	poolLife   = 2 * time.Minute // of an endpoint without attempts
	sweepEvery = 500 * time.Millisecond
	mostKept   = 4000  // idle connections of all endpoints
	mostPools  = 20000 // endpoints remembered
)

// pool is what is kept for one endpoint: idle connections, TLS sessions, and which protocol it speaks.
type pool struct {
	s      *Sender
	flying atomic.Int32

	mu     sync.Mutex
	url    string
	target *target // nil: the URL cannot be sent
	gen    int     // counts changes of where the connections lead
	most   int
	idle   []*conn // the most recently used last
	used   time.Time
	tls    *tls.Config
	fresh  time.Time // when tls and h2 were made
	h2     *h2
	offer  bool // HTTP/2 too, since the receiver refused without
	// wantsCert: the receiver has asked for a client certificate.
	wantsCert atomic.Bool
}

// view is what an attempt needs of its pool; the pool may change under it.
type view struct {
	*pool
	target *target
	gen    int
}

// pool finds or makes the pool of r's endpoint and holds it until leave.
func (s *Sender) pool(r *Request) view {
	s.mu.Lock()
	p := s.pools[r.EndpointID]
	if p == nil {
		if len(s.pools) >= mostPools {
			s.forgetSome()
		}
		p = &pool{s: s, offer: s.http2}
		s.pools[r.EndpointID] = p
	}
	p.flying.Add(1)
	s.mu.Unlock()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = time.Now()
	p.most = max(r.MaxConns, 1)
	if p.url != r.URL || p.target == nil {
		old := p.target
		p.url = r.URL
		p.target, _ = parseTarget(r.URL)
		if old == nil || p.target == nil || old.https != p.target.https || old.addr != p.target.addr {
			p.reset()
		}
	}
	return view{p, p.target, p.gen}
}

func (v view) leave() { v.flying.Add(-1) }

// reset drops what leads to where the endpoint was.
func (p *pool) reset() {
	p.gen++
	p.dropIdle(len(p.idle))
	p.tls, p.offer = nil, p.s.http2
	if p.h2 != nil {
		p.h2.retire()
		p.h2 = nil
	}
}

// dropIdle closes the n longest idle connections.
func (p *pool) dropIdle(n int) {
	for _, c := range p.idle[:n] {
		c.close()
	}
	p.s.kept.Add(int64(-n))
	p.idle = append(p.idle[:0], p.idle[n:]...)
}

// take is an idle connection, or nil.
func (v view) take(now time.Time) *conn {
	p := v.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle); n > 0 && p.gen == v.gen; n-- {
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.s.kept.Add(-1)
		if now.Sub(c.idle) <= idleLife && now.Sub(c.born) <= connLife {
			return c
		}
		c.close()
	}
	return nil
}

// put keeps a connection for the next attempt, or closes it.
func (v view) put(c *conn, now time.Time) {
	p := v.pool
	c.idle = now
	p.mu.Lock()
	ok := p.gen == v.gen && len(p.idle) < p.most && now.Sub(c.born) < connLife && p.s.kept.Load() < mostKept && !p.s.closed()
	if ok {
		p.idle = append(p.idle, c)
		p.s.kept.Add(1)
	}
	p.mu.Unlock()
	if !ok {
		c.close()
	}
}

func (s *Sender) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// config is the TLS configuration with its session cache, made anew each connLife: a session that is resumed
// shows the certificate of when it began, and a change must show within that time.
func (v view) config(now time.Time) *tls.Config {
	p := v.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gen != v.gen { // the endpoint has moved since the attempt began
		return p.s.tlsConfig(v.target.name, &p.wantsCert)
	}
	if p.tls == nil || now.Sub(p.fresh) > connLife {
		p.tls, p.fresh = p.s.tlsConfig(v.target.name, &p.wantsCert), now
		if p.offer {
			p.tls.NextProtos = []string{"h2", "http/1.1"}
		}
	}
	return p.tls
}

// offerHTTP2 makes later handshakes offer HTTP/2, and says whether earlier ones did not.
func (v view) offerHTTP2() bool {
	p := v.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.offer || p.gen != v.gen {
		return false
	}
	p.offer, p.tls = true, nil
	return true
}

func (s *Sender) tlsConfig(name string, wantsCert *atomic.Bool) *tls.Config {
	return &tls.Config{
		ServerName: name, RootCAs: s.roots, MinVersion: tls.VersionTLS12, VerifyConnection: verifyStrength,
		NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(4),
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			wantsCert.Store(true)
			return &tls.Certificate{}, nil
		},
	}
}

// connectOffering connects, and offers HTTP/2 in a second handshake when the receiver refused the first with an
// alert. Nothing was sent by then.
func (s *Sender) connectOffering(ctx context.Context, p view, deadline time.Time) (*conn, *failure) {
	c, f := s.connect(ctx, p.target, deadline, p.config(time.Now()))
	if f != nil && f.alert && p.offerHTTP2() {
		c, f = s.connect(ctx, p.target, deadline, p.config(time.Now()))
	}
	if f != nil {
		f = p.explain(f)
	}
	return c, f
}

// explain makes an alert that nobody can read the missing client certificate that it is.
func (v view) explain(f *failure) *failure {
	if f.class == TLS && f.cause == Protocol && v.wantsCert.Load() {
		f.cause = ClientCertificate
	}
	return f
}

// sweep closes what is idle for too long and forgets endpoints without attempts.
func (s *Sender) sweep() {
	defer close(s.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			s.sweepOnce(time.Now().Add(time.Hour))
			return
		case <-tick.C:
			s.sweepOnce(time.Now())
		}
	}
}

func (s *Sender) sweepOnce(now time.Time) {
	s.mu.Lock()
	all := make([]*pool, 0, len(s.pools))
	for id, p := range s.pools {
		all = append(all, p)
		if p.flying.Load() == 0 && p.lastUse().Before(now.Add(-poolLife)) {
			delete(s.pools, id)
		}
	}
	s.mu.Unlock()
	for _, p := range all {
		p.sweep(now)
	}
}

// forgetSome makes room for new endpoints; s.mu is held.
func (s *Sender) forgetSome() {
	room := mostPools / 16
	for id, p := range s.pools {
		if p.flying.Load() == 0 {
			delete(s.pools, id)
			p.sweep(time.Now().Add(time.Hour))
			if room--; room == 0 {
				return
			}
		}
	}
}

func (p *pool) lastUse() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *pool) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle) && (len(p.idle)-n > p.most || now.Sub(p.idle[n].idle) > idleLife) {
		n++
	}
	if n > 0 {
		p.dropIdle(n)
	}
	if p.h2 != nil && now.Sub(p.h2.born) > connLife {
		p.h2.retire()
		p.h2 = nil
	}
}
