package sender

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// memoryConn is a connection in memory: a receiver that takes any request and answers with a stream.
type memoryConn struct {
	in     io.Reader
	mu     sync.Mutex
	read   int
	wrote  strings.Builder
	closed bool
}

func (c *memoryConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.read += n
	return n, err
}

func (c *memoryConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrote.Write(b)
}

func (c *memoryConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *memoryConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *memoryConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *memoryConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *memoryConn) SetDeadline(time.Time) error      { return nil }
func (c *memoryConn) SetReadDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error { return nil }

// memorySender reaches conn, whatever the URL says.
func memorySender(t testing.TB, conn net.Conn) *Sender {
	t.Helper()
	s, err := New(Config{Tunnel: func(context.Context, string) (net.Conn, *http.Response, error) {
		return conn, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// memory sends one request to a receiver that answers with these bytes and closes, and says whether the
// connection was kept.
func memory(t testing.TB, answer string) (Outcome, bool) {
	t.Helper()
	conn := &memoryConn{in: strings.NewReader(answer)}
	out := post(t, memorySender(t, conn), "http://r.t.test/")
	return out, !conn.isClosed()
}

// Whatever bytes come, an attempt ends in an outcome that can be stored.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n", "HTTP/1.0 500 caf\xe9\r\nX: \x00\r\n y\r\n\r\n\xff", "SSH-2.0-x\r\n",
		"HTTP/1.1 301 x\r\nLocation: /\r\nRetry-After: 1\r\nConnection: close\r\n\r\n", "HTTP/1.1 200\n\n", "HTTP/1.1 999 \u009b\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		out, kept := memory(t, string(answer))
		checkStorable(t, out)
		if kept && (out.Status == 0 || out.BodyNote != "" || out.BodyTruncated) {
			t.Errorf("kept a connection after %+v", out)
		}
		if out.Class == Delivered && !strings.Contains(string(answer), "HTTP/") {
			t.Errorf("delivered by %q", answer)
		}
	})
}

var discard = slog.New(slog.DiscardHandler)
