package sender

import (
	"bufio"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// conn is one connection to an endpoint, through the proxy.
type conn struct {
	raw       net.Conn // what carries the deadlines
	rw        net.Conn // raw, or TLS over it
	br        *bufio.Reader
	sock      syscall.RawConn // for a look whether something came while it was idle; nil: no look
	tls       *TLSState
	h2        bool
	remote    string
	born      time.Time
	idle      time.Time // since when
	connected time.Duration
	shook     time.Duration
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// close ends a connection that is idle, over TLS with a farewell.
func (c *conn) close() {
	c.rw.Close()
	c.freeReader()
}

// abort ends a connection in whatever state it is. A farewell could wait for a receiver that does not read.
func (c *conn) abort() {
	c.raw.Close()
	c.freeReader()
}

func (c *conn) freeReader() {
	if c.br != nil {
		c.br.Reset(nil)
		readers.Put(c.br)
		c.br = nil
	}
}

// quiet readies a kept connection for a request that ends by deadline, unless it is of no more use: it was
// closed, or something came on it that nobody asked for.
func (c *conn) quiet(deadline time.Time) bool {
	c.raw.SetDeadline(deadline)
	if c.br.Buffered() > 0 || !c.silent() {
		return false
	}
	if c.tls != nil {
		// TLS may hold a record that came with the last answer. A deadline that has passed makes it look at what
		// it has and not read more.
		c.raw.SetReadDeadline(longAgo)
		if _, err := c.br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		c.raw.SetReadDeadline(deadline)
	}
	return true
}

// proxyAddr is where the egress proxy listens.
type proxyAddr struct {
	addr string
	auth string // a whole Proxy-Authorization line, or empty
}

func parseProxy(raw string) (proxyAddr, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" {
		return proxyAddr{}, errors.New("sender: the proxy's URL must be http://host:port")
	}
	p := proxyAddr{addr: u.Host}
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n"
	}
	return p, nil
}

// long ago is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// connect makes a connection to t: CONNECT, for http and https alike, then TLS. All of it ends at deadline or
// with ctx.
func (s *Sender) connect(ctx context.Context, t *target, deadline time.Time, config *tls.Config) (*conn, *failure) {
	start := time.Now()
	c, f := s.tunnel(ctx, t, deadline)
	if f != nil {
		if ctx.Err() != nil {
			f = fail(Canceled)
		}
		f.connected = time.Since(start)
		return nil, f
	}
	c.born = time.Now()
	c.connected = c.born.Sub(start)
	if !t.https {
		return c, nil
	}
	stop := context.AfterFunc(ctx, func() { c.raw.SetDeadline(longAgo) })
	f = c.handshake(config)
	c.shook = time.Since(c.born)
	if !stop() {
		f = fail(Canceled)
	}
	if f != nil {
		f.remote, f.connected, f.shook = c.remote, c.connected, c.shook
		c.abort()
		return nil, f
	}
	return c, nil
}

// tunnel gets a connection to t through the proxy. The proxy answers within connectLimit; if it does not, it is
// the proxy that is stuck and not the endpoint.
func (s *Sender) tunnel(ctx context.Context, t *target, deadline time.Time) (*conn, *failure) {
	until := time.Now().Add(s.connectLimit)
	if deadline.Before(until) {
		until = deadline
	}
	if s.direct != nil {
		return s.tunnelHere(ctx, t, until, deadline)
	}
	raw, err := (&net.Dialer{Deadline: until}).DialContext(ctx, "tcp", s.proxy.addr)
	if err != nil {
		return nil, fail(Proxy)
	}
	c := newConn(raw)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(longAgo) })
	defer stop()
	raw.SetDeadline(until)
	f := s.ask(c, t, until, deadline)
	if f == nil {
		raw.SetDeadline(deadline)
		if ctx.Err() != nil {
			f = fail(Canceled)
		}
	}
	if f != nil {
		c.close()
		return nil, f
	}
	return c, nil
}

// ask sends the CONNECT over c and reads the answer.
func (s *Sender) ask(c *conn, t *target, until, deadline time.Time) *failure {
	if _, err := io.WriteString(c.raw, "CONNECT "+t.addr+" HTTP/1.1\r\nHost: "+t.addr+"\r\n"+s.proxy.auth+"\r\n"); err != nil {
		return silence(err, until, deadline)
	}
	budget := 16 << 10
	h, _, err := readHead(c.br, nil, &budget)
	if err != nil {
		return silence(err, until, deadline)
	}
	field := func(name string) string {
		for _, f := range h.fields {
			if strings.EqualFold(f.Name, name) {
				return f.Value
			}
		}
		return ""
	}
	if f := connectFailure(h.status, field); f != nil {
		return f
	}
	c.remote = reached(field("X-Server-Ip"), t)
	return nil
}

// silence is what a proxy that did not answer means: at the end of the attempt's own time the endpoint is the
// likelier cause.
func silence(err error, until, deadline time.Time) *failure {
	if errors.Is(err, os.ErrDeadlineExceeded) && until.Equal(deadline) {
		return fail(ConnectTimeout)
	}
	return fail(Proxy)
}

// tunnelHere is tunnel for a proxy in this process.
func (s *Sender) tunnelHere(ctx context.Context, t *target, until, deadline time.Time) (*conn, *failure) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	raw, resp, err := s.direct(ctx, t.addr)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && until.Equal(deadline):
		return nil, fail(ConnectTimeout)
	case err != nil:
		return nil, fail(Proxy)
	}
	if f := connectFailure(resp.StatusCode, resp.Header.Get); f != nil {
		return nil, f
	}
	c := newConn(raw)
	raw.SetDeadline(deadline)
	c.remote = reached(resp.Header.Get("X-Server-Ip"), t)
	return c, nil
}

func newConn(raw net.Conn) *conn {
	c := &conn{raw: raw, rw: raw, br: readers.Get().(*bufio.Reader)}
	c.br.Reset(raw)
	tcp := raw
	if over, ok := raw.(interface{ NetConn() net.Conn }); ok {
		tcp = over.NetConn()
	}
	if sc, ok := tcp.(syscall.Conn); ok {
		c.sock, _ = sc.SyscallConn()
	}
	return c
}

// reached is the address that the proxy says it connected to, else the endpoint's own.
func reached(ip string, t *target) string {
	if net.ParseIP(ip) == nil {
		return t.addr
	}
	_, port, _ := net.SplitHostPort(t.addr)
	return net.JoinHostPort(ip, port)
}

// connectFailure reads the answer to a CONNECT; only there do these headers mean anything. Our own proxy says
// in one word why it refused; of another smokescreen the status and the text of its error header tell.
func connectFailure(status int, field func(string) string) *failure {
	if status == http.StatusOK {
		return nil
	}
	switch field("X-Waybill-Verdict") {
	case "blocked":
		return fail(BlockedAddress)
	case "dns":
		return fail(DNS)
	case "refused", "unreachable":
		return fail(Refused)
	case "timeout":
		return fail(ConnectTimeout)
	case "overloaded", "failed":
		return fail(Proxy)
	}
	why := field("X-Smokescreen-Error")
	switch {
	case why == "":
		return fail(Proxy)
	case status == http.StatusProxyAuthRequired:
		return fail(BlockedAddress)
	case strings.Contains(why, "resolve") || strings.Contains(why, "lookup ") || strings.Contains(why, "no IPs"):
		return fail(DNS)
	case status == http.StatusBadGateway:
		return fail(Refused)
	case status == http.StatusGatewayTimeout:
		return fail(ConnectTimeout)
	}
	return fail(Proxy)
}

// under is what TLS runs over: the tunnel, with the bytes that came with the answer to the CONNECT in front. A
// server that speaks first does not speak TLS, and must be heard to be found out.
type under struct {
	net.Conn
	c     *conn
	early *bufio.Reader // nil: none
}

func (u *under) Read(b []byte) (int, error) {
	if u.early != nil && u.early.Buffered() > 0 {
		return u.early.Read(b)
	}
	return u.Conn.Read(b)
}

// handshake makes c a TLS connection. Nothing of the request is written before the certificate is verified.
func (c *conn) handshake(config *tls.Config) *failure {
	u := &under{Conn: c.raw, c: c}
	if c.br.Buffered() > 0 {
		u.early, c.br = c.br, readers.Get().(*bufio.Reader)
	}
	tc := tls.Client(u, config)
	if err := tc.Handshake(); err != nil {
		return tlsFailure(err, tc.ConnectionState().Version != 0)
	}
	state := tc.ConnectionState()
	c.h2 = state.NegotiatedProtocol == "h2"
	c.tls = &TLSState{Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite),
		ServerName: config.ServerName, Resumed: state.DidResume}
	c.tls.certificate(state.PeerCertificates[0])
	c.rw = tc
	c.br.Reset(tc)
	return nil
}

func (s *TLSState) certificate(cert *x509.Certificate) {
	s.NotAfter = cert.NotAfter
	s.Issuer = cleanCut(cert.Issuer.String(), keptReason)
}

var errWeakKey = errors.New("the certificate's key is too short")

// minRSABits is what public issuers have signed since 2014; crypto/tls takes half of it.
const minRSABits = 2048

func verifyStrength(state tls.ConnectionState) error {
	if key, ok := state.PeerCertificates[0].PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
		return errWeakKey
	}
	return nil
}

// tlsFailure says why a handshake failed. spoke: the server's side of a TLS handshake had begun.
func tlsFailure(err error, spoke bool) *failure {
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f := &failure{class: TLS, cause: OtherTLS}
		if len(v.UnverifiedCertificates) > 0 {
			f.tls = &TLSState{}
			f.tls.certificate(v.UnverifiedCertificates[0])
		}
		if bad, ok := errors.AsType[x509.CertificateInvalidError](v.Err); ok && bad.Reason == x509.Expired {
			f.cause = Expired
		} else if _, ok := errors.AsType[x509.HostnameError](v.Err); ok {
			f.cause = WrongName
		} else if _, ok := errors.AsType[x509.UnknownAuthorityError](v.Err); ok {
			f.cause = UnknownIssuer
		}
		return f
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fail(NotHTTP)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{class: Timeout, cause: PhaseTLS}
	case errors.Is(err, errWeakKey):
		return &failure{class: TLS, cause: OtherTLS}
	case !spoke && isClosed(err):
		return fail(Reset)
	}
	return &failure{class: TLS, cause: Protocol, alert: isRemoteAlert(err)}
}

// isClosed says that the connection ended, as against a message that was not understood.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// isRemoteAlert says that the receiver answered with a TLS alert.
func isRemoteAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
