package sender

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"waybill/app/egress"
)

// receivers is the only address beside the public ones that the tests' proxy may reach. Never all of loopback:
// that would switch off what is tested.
var receivers = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}

// printed is what anybody wrote to the standard logger: nothing of a receiver's may get there.
var printed struct {
	sync.Mutex
	bytes.Buffer
}

type lockedLog struct{}

func (lockedLog) Write(b []byte) (int, error) {
	printed.Lock()
	defer printed.Unlock()
	return printed.Write(b)
}

// world is the one proxy, name server and authority of all tests.
var world struct {
	proxy *egress.Proxy
	zone  *zone
	ca    *authority
}

func TestMain(m *testing.M) {
	log.SetOutput(lockedLog{})
	os.Exit(func() int {
		var err error
		world.zone, err = newZone()
		if err == nil {
			world.proxy, err = egress.Start(context.Background(), egress.Config{Allow: receivers, Resolver: world.zone.resolver(),
				LookupTimeout: 500 * time.Millisecond})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		defer world.proxy.Close(ctx)
		world.zone.set("r.t.test", "127.0.0.2")
		world.ca = newCA()
		code := m.Run()
		printed.Lock()
		defer printed.Unlock()
		for line := range strings.Lines(printed.String()) {
			// net/http's HTTP/2 remarks on odd frames, in words of its own.
			if _, text, _ := strings.Cut(line, " http2: Transport received unsolicited DATA frame"); text == "" &&
				!strings.HasSuffix(line, " Transport: unhandled response frame type *http.http2UnknownFrame\n") {
				fmt.Fprintf(os.Stderr, "the standard logger was used: %s", line)
				return 1
			}
		}
		return code
	}())
}

// zone is a stub name server; each answer list is given out once, the last one stays.
type zone struct {
	mu      sync.Mutex
	answers map[string][]string
	addr    string
}

func newZone() (*zone, error) {
	z := &zone{answers: map[string][]string{}}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	z.addr = pc.LocalAddr().String()
	go (&dns.Server{PacketConn: pc, Handler: z}).ActivateAndServe()
	return z, nil
}

func (z *zone) set(name string, answers ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answers[name+"."] = answers
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	name, kind := q.Question[0].Name, q.Question[0].Qtype
	if strings.HasPrefix(name, "silent.") {
		return
	}
	m := new(dns.Msg).SetReply(q)
	z.mu.Lock()
	list, known := z.answers[name]
	if !known {
		m.Rcode = dns.RcodeNameError
	} else if kind == dns.TypeA {
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Class: dns.ClassINET, Rrtype: dns.TypeA}, A: net.ParseIP(list[0])}}
		if len(list) > 1 {
			z.answers[name] = list[1:]
		}
	}
	z.mu.Unlock()
	w.WriteMsg(m)
}

func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.addr)
	}}
}

// authority is a test CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newCA() *authority {
	a := &authority{pool: x509.NewCertPool()}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		panic(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate for the receivers' name and address, after change.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"r.t.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// ways are the two ways to the proxy: over its port, and in its process.
var ways = []string{"tcp", "direct"}

func newSender(t testing.TB, way string, change func(*Config)) *Sender {
	t.Helper()
	cfg := Config{ProxyURL: world.proxy.URL(), RootCAs: world.ca.pool, HTTP2: true}
	if way == "direct" {
		cfg.Tunnel = world.proxy.Tunnel
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// post sends one small request with an ample timeout.
func post(t testing.TB, s *Sender, url string) Outcome {
	t.Helper()
	return s.Send(t.Context(), Request{EndpointID: "ep_1", URL: url, Body: []byte(`{"a":1}`), Timeout: ample, MaxConns: 4,
		Header: []Header{{"Content-Type", "application/json"}, {"User-Agent", "Waybill/1"}, {"webhook-id", "evt_1"}}})
}

// ample is a timeout that no healthy receiver meets, on a machine that is busy with other things.
const ample = 2 * time.Minute

// within is a timeout short enough to be waited for.
const within = 300 * time.Millisecond

// patience is how much later than that an attempt may end on a machine that is busy with other things. What has
// no deadline does not end at all in these tests.
const patience = 45 * time.Second

func postWithin(t testing.TB, s *Sender, url string, body []byte) Outcome {
	t.Helper()
	out := s.Send(t.Context(), Request{EndpointID: "ep_1", URL: url, Body: body, Timeout: within, MaxConns: 4})
	if out.Total < within || out.Total > within+patience {
		t.Errorf("it took %v of %v", out.Total, within)
	}
	return out
}

// serve accepts on 127.0.0.2 and runs f for each connection, behind TLS when config is not nil.
func serve(t testing.TB, config *tls.Config, f func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				if config == nil {
					f(c)
					return
				}
				tc := tls.Server(c, config)
				if tc.Handshake() == nil {
					f(tc)
					tc.Close()
				}
			})
		}
	})
	return ln.Addr().String()
}

// raw reads one whole request from each connection, then writes exactly these bytes and closes.
func raw(t testing.TB, answer string) string {
	return serve(t, nil, func(c net.Conn) {
		if _, err := readRequest(bufio.NewReader(c)); err == nil {
			io.WriteString(c, answer)
		}
	})
}

func readRequest(br *bufio.Reader) (string, error) {
	var all strings.Builder
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(br, &all)))
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "", err
	}
	return all.String(), nil
}

// receiver is an ordinary server. The URL's host is the receivers' name when it is behind TLS.
func receiver(t testing.TB, config *tls.Config, h http.HandlerFunc) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { srv.Close() })
	if config == nil {
		go srv.Serve(ln)
		return "http://" + ln.Addr().String()
	}
	srv.TLSConfig = config
	if len(config.NextProtos) == 1 && config.NextProtos[0] == "http/1.1" {
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	go srv.ServeTLS(ln, "", "")
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return "https://r.t.test:" + port
}

func closedPort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// want checks the class, and that the phrase gives nothing away.
func want(t testing.TB, out Outcome, class Class, cause string) {
	t.Helper()
	if out.Class != class || out.Cause() != cause {
		t.Errorf("class %q, cause %q, want %q, %q: %+v", out.Class, out.Cause(), class, cause, out)
	}
	if (out.Err == "") != (class == Delivered) {
		t.Errorf("the phrase of %q is %q", out.Class, out.Err)
	}
	for _, secret := range []string{"127.0.0", "t.test", "SECRET", "SSH", "hook"} {
		if strings.Contains(out.Err, secret) {
			t.Errorf("the phrase holds %q: %q", secret, out.Err)
		}
	}
}

// tlsConfig is that of an honest receiver which offers only this protocol.
func tlsConfig(t testing.TB, protocol string) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{world.ca.issue(t, nil)}, NextProtos: []string{protocol}}
}
