// Package sender makes one attempt over HTTP and says how it ended. It is the only HTTP client that leaves the
// house, and it leaves through the egress proxy alone; it knows no database and no schedule.
//
// It promises that
//   - an attempt ends by its timeout, whatever the receiver does: a connection that is not accepted, a stalled
//     handshake, a request that is not taken, a status line that trickles, interim answers without end, a body
//     without end;
//   - one Send is at most one request on the wire: nothing is replayed, no redirect is followed, no cookie kept.
//     (Over HTTP/2 a request is repeated that the server said it had not begun, by GOAWAY or REFUSED_STREAM.)
//   - the status decides: 200 to 299 is Delivered, whatever becomes of the body;
//   - what the proxy says is never taken for an endpoint's answer, nor the other way round: both schemes go through
//     CONNECT, and only its answer is the proxy's;
//   - an attempt holds less than 1 MB, bodies are neither inflated nor drained, and what is returned is bounded
//     and fit to be stored and shown;
//   - connections are kept for one endpoint each, a few seconds, and never shared between endpoints.
//
// HTTP/1.1 is spoken by the package itself: the order and case of headers are the caller's, the request target
// is the URL's own bytes, and odd answers are reported as they came. HTTP/2, for receivers that want it, is
// net/http's.
package sender

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Request is one attempt to be made.
type Request struct {
	EndpointID string   // connections are kept for the endpoint, never shared with another
	URL        string   // as egress.CheckURL returned it
	Header     []Header // all but Host, Content-Length and, for a URL with a user, Authorization; in this order
	Body       []byte   // not changed, and not held after Send returns
	Timeout    time.Duration
	// MaxConns is the endpoint's limit, and how many of its connections are kept. Send does not queue: not to
	// call it more often at once than the limit says is the caller's part.
	MaxConns int
}

// Config is what New needs.
type Config struct {
	// ProxyURL is the egress proxy, http://[user:password@]host:port.
	ProxyURL string
	// Tunnel reaches a proxy in this process in place of ProxyURL: egress.Proxy's method of this name. It
	// returns the answer to a CONNECT to hostport, and the connection when that is 200.
	Tunnel func(ctx context.Context, hostport string) (net.Conn, *http.Response, error)
	// ProxyWithin is the longest the proxy may take to answer a CONNECT; 0: 8 s. Ours gives up on an endpoint after 5 s and says so, so one that is silent for
	// longer is stuck itself. Attempts with a shorter timeout cannot tell the two apart.
	ProxyWithin time.Duration
	RootCAs     *x509.CertPool   // nil: the system's (SSL_CERT_FILE works)
	Now         func() time.Time // for Outcome.Started; nil: time.Now
	Logger      *slog.Logger     // nil: slog.Default()
	// HTTP2 offers HTTP/2 to every receiver. Otherwise it is offered only to those that refuse the handshake
	// without it: over kept connections our HTTP/1.1 costs two thirds of its CPU.
	HTTP2 bool
}

// Sender sends. Its methods may be called from many goroutines.
type Sender struct {
	proxy        proxyAddr
	direct       func(context.Context, string) (net.Conn, *http.Response, error)
	connectLimit time.Duration
	roots        *x509.CertPool
	now          func() time.Time
	log          *slog.Logger
	http2        bool

	mu    sync.Mutex
	pools map[string]*pool
	kept  atomic.Int64 // idle connections
	done  chan struct{}
	swept chan struct{}
	once  sync.Once
}

// New makes a Sender. It opens no connection.
func New(cfg Config) (*Sender, error) {
	s := &Sender{
		direct: cfg.Tunnel, connectLimit: cmp.Or(cfg.ProxyWithin, 8*time.Second), roots: cfg.RootCAs, now: cfg.Now,
		log: cmp.Or(cfg.Logger, slog.Default()), http2: cfg.HTTP2,
		pools: map[string]*pool{}, done: make(chan struct{}), swept: make(chan struct{}),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.direct == nil {
		var err error
		if s.proxy, err = parseProxy(cfg.ProxyURL); err != nil {
			return nil, err
		}
	}
	go s.sweep()
	return s, nil
}

// Close drops the idle connections. Attempts that are under way go on and keep nothing.
func (s *Sender) Close() {
	s.once.Do(func() { close(s.done) })
	<-s.swept
}

// DefaultTimeout is that of a Request without one.
const DefaultTimeout = 15 * time.Second

// Send makes one attempt. It never returns an error and never panics: whatever happens is an Outcome. It ends
// with ctx, or at r.Timeout.
func (s *Sender) Send(ctx context.Context, r Request) (out Outcome) {
	start := time.Now()
	out.Started = s.now()
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("an attempt panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out.fail(fail(Proxy)) // our fault, not the endpoint's
		}
		out.Total = time.Since(start)
	}()
	p := s.pool(&r)
	defer p.leave()
	a := &attempt{s: s, p: p, r: &r, out: &out, ctx: ctx}
	a.deadline = start.Add(cmp.Or(max(r.Timeout, 0), DefaultTimeout))
	switch {
	case a.p.target == nil || !sendable(r.Header):
		out.fail(fail(BadConfig))
	case ctx.Err() != nil:
		out.fail(fail(Canceled))
	default:
		if f := a.run(); f != nil {
			out.fail(f)
		}
	}
	return out
}
