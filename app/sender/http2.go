package sender

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// h2 is an endpoint's HTTP/2: net/http's transport over connections of ours. It repeats by itself only what the
// server says it had not begun.
type h2 struct {
	tr   *http.Transport
	born time.Time

	mu      sync.Mutex
	ready   []*conn // made before the transport asked for one
	plain   []*conn // on which the server chose HTTP/1.1 after all
	retired bool
}

// http2 is the endpoint's HTTP/2 when it is known to speak it.
func (v view) http2(now time.Time) *h2 {
	p := v.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.h2 == nil || p.gen != v.gen {
		return nil
	}
	if now.Sub(p.h2.born) > connLife {
		p.h2.retire()
		p.h2 = nil
	}
	return p.h2
}

// adopt makes c the endpoint's HTTP/2 connection, or one more of them.
func (v view) adopt(c *conn) *h2 {
	p := v.pool
	p.mu.Lock()
	h := p.h2
	if h == nil || p.gen != v.gen {
		h = newH2(v)
		if p.gen == v.gen {
			p.h2 = h
		}
	}
	p.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = append(h.ready, c)
	return h
}

// forget returns the endpoint to HTTP/1.1.
func (v view) forget(h *h2) {
	p := v.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.h2 == h {
		p.h2 = nil
	}
	h.retire()
}

type deadlineKey struct{}

func newH2(v view) *h2 {
	h := &h2{born: time.Now()}
	h.tr = &http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true, IdleConnTimeout: idleLife, MaxResponseHeaderBytes: maxHead,
		// A connection that fell silent is noticed by a ping, and not by one attempt after another.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 3 * time.Second, PingTimeout: 5 * time.Second, WriteByteTimeout: 10 * time.Second},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c := h.pop(&h.ready)
			if c == nil {
				// The transport takes the deadline off the context of a dial, which may serve a later attempt.
				deadline, _ := ctx.Value(deadlineKey{}).(time.Time)
				var f *failure
				if c, f = v.s.connect(ctx, v.target, deadline, v.config(time.Now())); f != nil {
					return nil, f
				}
			}
			c.raw.SetDeadline(time.Time{})
			if !c.h2 {
				h.push(&h.plain, c)
				return nil, errPlain
			}
			c.freeReader() // the transport brings its own
			return c.rw, nil
		},
	}
	return h
}

// errPlain: a server that spoke HTTP/2 before chose HTTP/1.1.
var errPlain = errors.New("the server chose HTTP/1.1")

func (h *h2) pop(list *[]*conn) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*list) == 0 {
		return nil
	}
	c := (*list)[0]
	*list = slices.Delete(*list, 0, 1)
	return c
}

func (h *h2) push(list *[]*conn, c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.retired {
		c.close()
		return
	}
	*list = append(*list, c)
}

// retire closes what is idle; what is busy closes when it is idle.
func (h *h2) retire() {
	h.mu.Lock()
	left := slices.Concat(h.ready, h.plain)
	h.ready, h.plain, h.retired = nil, nil, true
	h.mu.Unlock()
	for _, c := range left {
		c.close()
	}
	h.tr.CloseIdleConnections()
}

// sendHTTP2 makes the attempt over HTTP/2. When the server no longer speaks it, a connection comes back on which
// nothing was sent.
func (a *attempt) sendHTTP2(h *h2) (*conn, *failure) {
	ctx, cancel := context.WithDeadline(context.WithValue(a.ctx, deadlineKey{}, a.deadline), a.deadline)
	defer cancel()
	defer func() {
		if a.s.closed() {
			a.p.forget(h)
		}
	}()
	t := a.p.target
	req := &http.Request{
		Method: http.MethodPost,
		// The path as the URL has it: net/http would encode it anew. With the host in front it cannot be
		// taken for one.
		URL:    &url.URL{Scheme: "https", Host: t.host, Opaque: "//" + t.host + t.path},
		Header: make(http.Header, len(a.r.Header)), Host: t.host,
		Body: http.NoBody, ContentLength: int64(len(a.r.Body)),
	}
	if len(a.r.Body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(a.r.Body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.r.Body)), nil }
	}
	for _, f := range a.r.Header {
		req.Header.Add(f.Name, f.Value)
	}
	if _, given := req.Header["User-Agent"]; !given {
		req.Header["User-Agent"] = nil // else net/http puts in its own
	}
	if _, given := req.Header["Authorization"]; !given && t.auth != "" {
		req.Header.Set("Authorization", t.auth)
	}

	start := time.Now()
	var tr tracer
	resp, err := h.tr.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, tr.trace())))
	answered := time.Now()
	got, wrote := tr.times()
	a.out.Sent = tr.sent.Load()
	if c := tr.conn(); c != nil {
		a.out.RemoteAddr, a.out.TLS = c.remote, c.tls
		if a.out.Reused = tr.reused.Load(); !a.out.Reused {
			a.out.Connect, a.out.TLSTime = c.connected, c.shook
		}
	}
	if err != nil {
		if errors.Is(err, errPlain) {
			if c := h.pop(&h.plain); c != nil {
				c.raw.SetDeadline(a.deadline)
				a.p.forget(h)
				return c, nil
			}
		}
		return nil, a.http2Failure(err, !got.IsZero(), !wrote.IsZero())
	}
	if got.IsZero() {
		got = start
	}
	if wrote.IsZero() { // it answered before it had all, or faster than was noted
		wrote = got
	}
	a.out.Write, a.out.Wait = wrote.Sub(got), answered.Sub(wrote)
	a.readHTTP2(resp)
	a.out.Read = time.Since(answered)
	return nil, nil
}

func (a *attempt) readHTTP2(resp *http.Response) {
	defer resp.Body.Close()
	a.out.Status, a.out.Proto = resp.StatusCode, resp.Proto
	names := make([]string, 0, len(resp.Header))
	for name := range resp.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	size := 0
	for _, name := range names {
		for _, value := range resp.Header[name] {
			f := Header{clean(name), clean(value)}
			if size += len(f.Name) + len(f.Value); len(a.out.Header) == keptHeaders || size > keptHeaderText {
				a.out.HeaderCut = true
				break
			}
			a.out.Header = append(a.out.Header, f)
		}
	}
	for i, value := range resp.Header["Retry-After"] {
		if i < keptRetryAfter {
			a.out.RetryAfter = append(a.out.RetryAfter, cleanCut(value, 256))
		}
	}
	a.out.classify()

	space := scratch.Get().(*[KeptBody + 1]byte)
	defer scratch.Put(space)
	n, err := io.ReadFull(resp.Body, space[:])
	kept := min(n, KeptBody)
	a.out.Body = append(make([]byte, 0, kept), space[:kept]...)
	a.out.BodySize, a.out.BodyTruncated = int64(n), n > KeptBody
	switch {
	case n > KeptBody:
		a.out.BodyNote = NoteCut
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && int64(n) >= resp.ContentLength:
	case errors.Is(err, context.DeadlineExceeded):
		a.out.BodyNote = NoteDeadline
	default:
		a.out.BodyNote = NoteBroken
	}
}

// http2Failure says why there is no answer.
func (a *attempt) http2Failure(err error, connected, wrote bool) *failure {
	f, dialled := errors.AsType[*failure](err)
	switch {
	case a.ctx.Err() != nil:
		return fail(Canceled)
	case dialled:
		return a.p.explain(f)
	case !time.Now().Before(a.deadline):
		switch {
		case !connected:
			return fail(ConnectTimeout)
		case !wrote:
			return &failure{class: Timeout, cause: PhaseWrite}
		}
		return &failure{class: Timeout, cause: PhaseWait}
	}
	return a.cutOff(err)
}

// tracer notes when things happened. The transport may call it after the attempt has ended.
type tracer struct {
	mu           sync.Mutex
	c            *conn
	got, wrote   time.Time
	reused, sent atomic.Bool
}

func (t *tracer) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.got = time.Now()
			t.reused.Store(i.Reused)
			if tc, ok := i.Conn.(*tls.Conn); ok {
				if u, ok := tc.NetConn().(*under); ok {
					t.c = u.c
				}
			}
		},
		WroteHeaders: func() { t.sent.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if i.Err == nil {
				t.wrote = time.Now()
			}
		},
	}
}

func (t *tracer) conn() *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.c
}

func (t *tracer) times() (got, wrote time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.got, t.wrote
}
