package sender

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// attempt is one Send under way.
type attempt struct {
	s        *Sender
	p        view
	r        *Request
	out      *Outcome
	ctx      context.Context
	deadline time.Time
}

// run sends over a kept connection or a new one.
func (a *attempt) run() *failure {
	for {
		now := time.Now()
		if h := a.p.http2(now); h != nil {
			c, f := a.sendHTTP2(h)
			if c == nil {
				return f
			}
			return a.first(c) // the server no longer speaks HTTP/2
		}
		c := a.p.take(now)
		if c == nil {
			break
		}
		if !c.quiet(a.deadline) {
			c.close() // closed by the receiver meanwhile, or it says something that nobody asked for
			continue
		}
		a.out.Reused = true
		f, unsent := a.exchange(c)
		if !unsent {
			return f
		}
		a.out.Reused = false
	}
	c, f := a.s.connectOffering(a.ctx, a.p, a.deadline)
	if f != nil {
		return f
	}
	if c.h2 {
		h := a.p.adopt(c)
		c, f = a.sendHTTP2(h)
		if c == nil {
			return f
		}
	}
	return a.first(c)
}

// first sends over a new connection.
func (a *attempt) first(c *conn) *failure {
	a.out.Connect, a.out.TLSTime = c.connected, c.shook
	f, _ := a.exchange(c)
	return f
}

// smallBody is the largest body that goes out in one write with the head, by the goroutine that then reads.
const smallBody = 16 << 10

var wires = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// appendHead writes the request's head as it goes over the wire.
func appendHead(b []byte, t *target, headers []Header, body int) []byte {
	b = append(b, "POST "...)
	b = append(b, t.path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, t.host...)
	b = append(b, "\r\n"...)
	auth := t.auth
	for i := range headers {
		h := &headers[i]
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
		if auth != "" && strings.EqualFold(h.Name, "authorization") {
			auth = "" // the endpoint's own header is the more explicit one
		}
	}
	if auth != "" {
		b = append(b, "Authorization: "...)
		b = append(b, auth...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(body), 10)
	return append(b, "\r\n\r\n"...)
}

// exchange sends the request over c and reads the answer. unsent: not a byte of it left us, since the kept
// connection was no longer one; then the attempt may go on with another. c is kept or closed.
func (a *attempt) exchange(c *conn) (f *failure, unsent bool) {
	keep := false
	stop := context.AfterFunc(a.ctx, func() { c.raw.SetDeadline(longAgo) })
	defer func() {
		if stop() && keep {
			a.p.put(c, time.Now())
		} else {
			c.abort()
		}
		if f != nil && a.ctx.Err() != nil {
			f = fail(Canceled)
		}
	}()
	a.out.RemoteAddr, a.out.TLS = c.remote, c.tls

	start := time.Now()
	space := wires.Get().(*[]byte)
	defer wires.Put(space)
	wire := appendHead((*space)[:0], a.p.target, a.r.Header, len(a.r.Body))
	defer func() { *space = wire[:0] }()
	var w *writer
	if len(a.r.Body) <= smallBody {
		wire = append(wire, a.r.Body...)
		n, err := c.rw.Write(wire)
		a.out.Sent = n > 0
		if err != nil && n == 0 && a.out.Reused && isClosed(err) {
			return fail(Reset), true
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return &failure{class: Timeout, cause: PhaseWrite}, false
		}
		// Any other error: it may have answered before it hung up.
	} else {
		a.out.Sent = true
		w = startWriter(c, wire, a.r.Body)
		defer func() {
			if !w.ended() {
				keep = false
				c.raw.Close() // ends the write
				<-w.done
			}
		}()
	}
	written := time.Now()
	a.out.Write = written.Sub(start)

	h, f := a.readHead(c, w)
	answered := time.Now()
	if w != nil && w.ended() {
		written = w.at
		a.out.Write = written.Sub(start)
	}
	a.out.Wait = answered.Sub(written)
	if f != nil {
		return f, false
	}
	if h.status == 101 {
		keep = false
		return nil, false
	}
	b := readBody(c.br, &h)
	a.out.Read = time.Since(answered)
	a.out.Body, a.out.BodySize, a.out.BodyTruncated, a.out.BodyNote = b.bytes, b.size, b.cut, b.note
	keep = b.ended && !h.close && (w == nil || w.ended() && w.err == nil) && c.br.Buffered() == 0
	return nil, false
}

// readHead reads heads until one is not interim, and writes it into the outcome.
func (a *attempt) readHead(c *conn, w *writer) (head, *failure) {
	space := wires.Get().(*[]byte)
	defer wires.Put(space)
	budget := maxHead
	for {
		h, buf, err := readHead(c.br, *space, &budget)
		*space = buf[:0]
		if cap(buf) > 16<<10 {
			*space = make([]byte, 0, 4<<10)
		}
		if err != nil {
			return h, a.readFailure(err, w)
		}
		// What the receiver last said stands in the history also when no final answer follows.
		a.out.Status, a.out.StatusText, a.out.Proto = h.status, h.text, h.proto
		if h.status >= 100 && h.status <= 199 && h.status != 101 {
			continue
		}
		a.out.Header, a.out.HeaderCut, a.out.RetryAfter = h.fields, h.cut, h.retryAfter
		a.out.classify()
		return h, nil
	}
}

// readFailure says why no head came.
func (a *attempt) readFailure(err error, w *writer) *failure {
	switch {
	case err == errNotHTTP:
		return fail(NotHTTP)
	case err == errTooLarge:
		return fail(TooLargeHeader)
	case errors.Is(err, os.ErrDeadlineExceeded):
		if w != nil && (!w.ended() || w.err != nil) {
			return &failure{class: Timeout, cause: PhaseWrite}
		}
		return &failure{class: Timeout, cause: PhaseWait}
	}
	return a.cutOff(err)
}

// cutOff is what a connection that ended without an answer means. TLS 1.3 tells of a missing client certificate
// only after the handshake, by an alert that the reset behind it may overtake.
func (a *attempt) cutOff(err error) *failure {
	if a.p.wantsCert.Load() && (isRemoteAlert(err) || !a.out.Reused && a.out.Status == 0) {
		return &failure{class: TLS, cause: ClientCertificate}
	}
	return fail(Reset)
}

// writer sends a large request beside the reading, since a receiver may answer, and stop reading, before it has
// all.
type writer struct {
	done chan struct{}
	err  error
	at   time.Time
}

func startWriter(c *conn, head, body []byte) *writer {
	w := &writer{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		if _, w.err = c.rw.Write(head); w.err == nil {
			_, w.err = c.rw.Write(body)
		}
		w.at = time.Now()
	}()
	return w
}

func (w *writer) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}
