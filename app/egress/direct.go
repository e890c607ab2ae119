package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Tunnel is CONNECT for a client in this process: the same handler judges, resolves and dials, but the
// connection is handed over instead of being copied through two more sockets. hostport is as in a CONNECT.
//
// The response is the answer to the CONNECT; its status and VerdictHeader say what became of it. The
// connection is nil unless that is 200, and is to be closed by the caller; it ends at Config.TunnelLife too. An
// error means that there is no answer: the proxy is closed or ctx is over.
func (p *Proxy) Tunnel(ctx context.Context, hostport string) (net.Conn, *http.Response, error) {
	r := (&http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: hostport}, Host: hostport,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, RemoteAddr: "direct",
	})
	type result struct {
		conn net.Conn
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		var res result
		res.conn, res.resp, res.err = p.direct(r)
		done <- res
	}()
	select {
	case res := <-done:
		return res.conn, res.resp, res.err
	case <-ctx.Done():
		go func() {
			if res := <-done; res.conn != nil {
				res.conn.Close()
			}
		}()
		return nil, nil, ctx.Err()
	}
}

func (p *Proxy) direct(r *http.Request) (net.Conn, *http.Response, error) {
	given := make(chan net.Conn, 1)
	w := &directWriter{header: http.Header{}}
	p.connect(w, r.WithContext(context.WithValue(context.Background(), directKey{}, given)))
	resp, err := w.response(r)
	if err != nil {
		return nil, nil, fmt.Errorf("egress: answer to CONNECT: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, resp, nil
	}
	conn, ok := <-given
	if !ok {
		return nil, nil, errors.New("egress: the proxy is closed")
	}
	return conn, resp, nil
}

type directKey struct{}

// directWriter collects the answer to a CONNECT that came from this process.
type directWriter struct {
	header http.Header
	status int
	raw    bytes.Buffer // a whole response when the connection was hijacked, else a body nobody reads
	taken  bool
}

func (w *directWriter) Header() http.Header         { return w.header }
func (w *directWriter) WriteHeader(status int)      { w.status = status }
func (w *directWriter) Write(b []byte) (int, error) { return len(b), nil }

func (w *directWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.taken = true
	return &answerConn{w: w}, nil, nil
}

func (w *directWriter) response(r *http.Request) (*http.Response, error) {
	if !w.taken {
		return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header,
			Body: http.NoBody, Request: r}, nil
	}
	return http.ReadResponse(bufio.NewReader(&w.raw), r)
}

// answerConn stands where the client's connection would; only the answer to the CONNECT is written to it.
type answerConn struct{ w *directWriter }

func (c *answerConn) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (c *answerConn) Write(b []byte) (int, error)      { return c.w.raw.Write(b) }
func (c *answerConn) Close() error                     { return nil }
func (c *answerConn) LocalAddr() net.Addr              { return directAddr{} }
func (c *answerConn) RemoteAddr() net.Addr             { return directAddr{} }
func (c *answerConn) SetDeadline(time.Time) error      { return nil }
func (c *answerConn) SetReadDeadline(time.Time) error  { return nil }
func (c *answerConn) SetWriteDeadline(time.Time) error { return nil }

type directAddr struct{}

func (directAddr) Network() string { return "direct" }
func (directAddr) String() string  { return "direct" }

// directConn is a judged connection handed to a client in this process.
type directConn struct {
	net.Conn
	t   *tunnel
	tcp net.Conn
}

func (c *directConn) Read(b []byte) (int, error) {
	c.t.touch()
	return c.tcp.Read(b)
}

func (c *directConn) Write(b []byte) (int, error) {
	c.t.touch()
	return c.tcp.Write(b)
}

// NetConn is the TCP connection below, for those who look at the socket.
func (c *directConn) NetConn() net.Conn { return c.tcp }

func (c *directConn) Close() error {
	c.t.close()
	return nil
}
