package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// receivers is the only address beside the public ones that the tests' proxies may reach. Never all of
// loopback: that would switch off what is tested.
var receivers = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}

// patience is how long a test waits for what comes at once, on a machine that is busy with other things.
const patience = 45 * time.Second

// zone is a stub name server. Each question for a name takes the next of its answers; the last one stays.
type zone struct {
	mu      sync.Mutex
	answers map[string][][]string
	asked   map[string]int
	addr    string
}

func newZone(t testing.TB) *zone {
	t.Helper()
	z := &zone{answers: map[string][][]string{}, asked: map[string]int{}}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z.addr = pc.LocalAddr().String()
	srv := &dns.Server{PacketConn: pc, Handler: z}
	go srv.ActivateAndServe()
	t.Cleanup(func() { srv.Shutdown() })
	return z
}

func (z *zone) set(name string, answers ...[]string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answers[name+"."] = answers
}

// lookups is how often the IPv4 address of name was asked for.
func (z *zone) lookups(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked[name+"."]
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	name, kind := q.Question[0].Name, q.Question[0].Qtype
	if strings.HasPrefix(name, "silent.") {
		return
	}
	z.mu.Lock()
	all, known := z.answers[name]
	var now []string
	if known {
		now = all[min(z.asked[name], len(all)-1)]
		if kind == dns.TypeA {
			z.asked[name]++
		}
	}
	z.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	if !known {
		m.Rcode = dns.RcodeNameError
	}
	for _, text := range now {
		addr := netip.MustParseAddr(text)
		head := dns.RR_Header{Name: name, Class: dns.ClassINET}
		switch {
		case addr.Is4() && kind == dns.TypeA:
			head.Rrtype = dns.TypeA
			m.Answer = append(m.Answer, &dns.A{Hdr: head, A: addr.AsSlice()})
		case addr.Is6() && kind == dns.TypeAAAA:
			head.Rrtype = dns.TypeAAAA
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: head, AAAA: addr.AsSlice()})
		}
	}
	w.WriteMsg(m)
}

func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.addr)
	}}
}

func startProxy(t testing.TB, cfg Config, dial dialFunc) *Proxy {
	t.Helper()
	var p *Proxy
	var err error
	if dial == nil {
		p, err = Start(t.Context(), cfg)
	} else {
		p, err = start(t.Context(), cfg, dial)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return p
}

// client asks for a tunnel in one of the two ways there are.
type client func(t testing.TB, p *Proxy, target string) (net.Conn, *http.Response)

var clients = map[string]client{"tcp": overTCP, "direct": direct}

func overTCP(t testing.TB, p *Proxy, target string) (net.Conn, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatalf("CONNECT %s: %v", target, err)
	}
	if resp.StatusCode != http.StatusOK {
		conn.Close()
		return nil, resp
	}
	return buffered{conn, br}, resp
}

// buffered reads what came with the answer to the CONNECT first.
type buffered struct {
	net.Conn
	br *bufio.Reader
}

func (c buffered) Read(b []byte) (int, error) { return c.br.Read(b) }

func direct(t testing.TB, p *Proxy, target string) (net.Conn, *http.Response) {
	t.Helper()
	conn, resp, err := p.Tunnel(t.Context(), target)
	if err != nil {
		t.Fatalf("Tunnel %s: %v", target, err)
	}
	if conn != nil {
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(patience))
	}
	return conn, resp
}

// verdict asks for a tunnel, closes it and says what became of it.
func verdict(t testing.TB, ask client, p *Proxy, target string) Verdict {
	t.Helper()
	conn, resp := ask(t, p, target)
	if conn != nil {
		conn.Close()
		return Connected
	}
	if resp.Header.Get("X-Smokescreen-Error") == "" {
		t.Errorf("%s: no X-Smokescreen-Error beside status %d", target, resp.StatusCode)
	}
	return Verdict(resp.Header.Get(VerdictHeader))
}

// listen accepts on 127.0.0.2 and runs serve for each connection.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return ln.Addr().String()
}

func echo(c net.Conn) { io.Copy(c, c) }

func closedPort(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func portOf(t testing.TB, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	z := newZone(t)
	z.set("r.t.test", []string{"127.0.0.2"})
	z.set("inside.t.test", []string{"127.0.0.1"})
	z.set("inside6.t.test", []string{"::ffff:169.254.169.254", "fd00:ec2::254"})
	z.set("mixed.t.test", []string{"10.0.0.1", "127.0.0.2"})
	z.set("empty.t.test", nil)
	z.set("foo_bar.t.test", []string{"127.0.0.2"})
	p := startProxy(t, Config{Allow: receivers, Resolver: z.resolver(), LookupTimeout: 200 * time.Millisecond}, nil)
	open, closed := listen(t, echo), closedPort(t)
	port := portOf(t, open)
	for target, want := range map[string]Verdict{
		open:                               Connected,
		"r.t.test:" + port:                 Connected,
		"R.T.test.:" + port:                Connected,
		"foo_bar.t.test:" + port:           Connected,
		"mixed.t.test:" + port:             Connected,
		closed:                             Refused,
		"nx.t.test:443":                    Unresolved,
		"empty.t.test:443":                 Unresolved,
		"silent.t.test:443":                Unresolved,
		"inside.t.test:443":                Blocked,
		"inside6.t.test:443":               Blocked,
		"127.0.0.1:" + port:                Blocked,
		"[::ffff:7f00:1]:" + port:          Blocked,
		"2130706433:443":                   Unresolved,
		"r.t.test:22":                      Blocked,
		"127.0.0.2:25":                     Blocked,
		"127.0.0.2:1023":                   Blocked,
		"127.0.0.2:0":                      Blocked,
		"127.0.0.2:65536":                  Blocked,
		"127.0.0.2:http":                   Blocked,
		"a b.t.test:443":                   Blocked,
		p.Addr():                           Blocked,
		"localhost:" + portOf(t, p.Addr()): Blocked,
	} {
		for name, ask := range clients {
			if name == "tcp" && strings.ContainsAny(target, " h") {
				continue // net/http refuses the request
			}
			t.Run(name+"/"+target, func(t *testing.T) {
				t.Parallel()
				if got := verdict(t, ask, p, target); got != want {
					t.Errorf("verdict %q, want %q", got, want)
				}
			})
		}
	}
}

func TestVerdictKeepsTheReasonOfAFailedDial(t *testing.T) {
	t.Parallel()
	var fail error
	p := startProxy(t, Config{Allow: receivers}, func(context.Context, string, string, time.Duration) (net.Conn, error) {
		return nil, fail
	})
	for _, c := range []struct {
		err    error
		want   Verdict
		status int
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, Refused, 502},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, Unreachable, 502},
		{&net.OpError{Op: "dial", Err: syscall.ENETUNREACH}, Unreachable, 502},
		{&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, TimedOut, 504},
		{&net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, TimedOut, 504},
		{&net.OpError{Op: "dial", Err: syscall.EMFILE}, Overloaded, 503},
		{&net.OpError{Op: "dial", Err: syscall.EADDRNOTAVAIL}, Overloaded, 503},
	} {
		fail = c.err
		for name, ask := range clients {
			_, resp := ask(t, p, "127.0.0.2:443")
			if got := Verdict(resp.Header.Get(VerdictHeader)); got != c.want || resp.StatusCode != c.status {
				t.Errorf("%s, %v: %d %q, want %d %q", name, c.err, resp.StatusCode, got, c.status, c.want)
			}
		}
	}
}

func TestConnectTimeoutIsAnswered(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers, ConnectTimeout: 20 * time.Millisecond},
		func(ctx context.Context, network, _ string, timeout time.Duration) (net.Conn, error) {
			// A timeout that passes before the first packet is out: what a filtered port looks like.
			d := net.Dialer{Timeout: timeout, Control: func(string, string, syscall.RawConn) error {
				<-time.After(timeout)
				return nil
			}}
			return d.DialContext(ctx, network, "127.0.0.2:443")
		})
	for name, ask := range clients {
		if got := verdict(t, ask, p, "127.0.0.2:443"); got != TimedOut {
			t.Errorf("%s: %q, want %q", name, got, TimedOut)
		}
	}
}

func TestTooManyTunnelsAreOverload(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers, MaxTunnels: 1}, nil)
	open := listen(t, echo)
	for name, ask := range clients {
		// The tunnel of the client before may still be on its way out.
		var first net.Conn
		within(t, func() bool { first, _ = ask(t, p, open); return first != nil })
		conn, resp := ask(t, p, open)
		if conn != nil || resp.Header.Get(VerdictHeader) != string(Overloaded) || resp.StatusCode != 429 {
			t.Errorf("%s: the second tunnel: %v", name, resp)
		}
		first.Close()
		within(t, func() bool { return p.Tunnels() == 0 })
		within(t, func() bool { return verdict(t, ask, p, open) == Connected })
	}
}

// The address that is checked is the one that is dialled: a name is looked up once a tunnel.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for name, ask := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := newZone(t)
			z.set("flip.t.test", []string{"127.0.0.2"}, []string{"127.0.0.1"})
			var dialled []string
			p := startProxy(t, Config{Allow: receivers, Resolver: z.resolver()},
				func(_ context.Context, _, address string, _ time.Duration) (net.Conn, error) {
					dialled = append(dialled, address)
					return nil, syscall.ECONNREFUSED
				})
			verdict(t, ask, p, "flip.t.test:443")
			if len(dialled) != 1 || dialled[0] != "127.0.0.2:443" || z.lookups("flip.t.test") != 1 {
				t.Errorf("dialled %v after %d lookups", dialled, z.lookups("flip.t.test"))
			}
			if got := verdict(t, ask, p, "flip.t.test:443"); got != Blocked || len(dialled) != 1 {
				t.Errorf("the second time: %q, dialled %v", got, dialled)
			}
		})
	}
}

func TestWholeNamesAreLookedUp(t *testing.T) {
	t.Parallel()
	z := newZone(t)
	r := wholeNames{z.resolver()}
	z.set("r.t.test", []string{"127.0.0.2"})
	ips, err := r.LookupIP(t.Context(), "ip", "r.t.test")
	if err != nil || len(ips) != 1 {
		t.Errorf("a name: %v, %v", ips, err)
	}
	for _, literal := range []string{"127.0.0.2", "::1"} {
		if ips, err := r.LookupIP(t.Context(), "ip", literal); err != nil || len(ips) != 1 {
			t.Errorf("%s: %v, %v", literal, ips, err)
		}
	}
}

func TestOnlyConnectIsServed(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers}, nil)
	open := listen(t, func(c net.Conn) { t.Error("a plain request was passed on") })
	for _, request := range []string{
		"GET http://" + open + "/ HTTP/1.1\r\nHost: " + open + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: " + open + "\r\nContent-Length: 0\r\n\r\n",
		"GET http://" + open + "/healthz HTTP/1.1\r\nHost: " + open + "\r\n\r\n",
	} {
		if got := exchange(t, p, request); got != http.StatusMethodNotAllowed {
			t.Errorf("%q: %d", request, got)
		}
	}
	if got := exchange(t, p, "GET /healthz HTTP/1.1\r\nHost: proxy\r\n\r\n"); got != http.StatusOK {
		t.Errorf("/healthz: %d", got)
	}
}

func exchange(t testing.TB, p *Proxy, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Neither the environment nor a client's header puts another proxy behind this one.
func TestNoProxyBehindTheProxy(t *testing.T) {
	other := listen(t, func(c net.Conn) { t.Error("the other proxy was used") })
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://"+other)
	}
	p := startProxy(t, Config{Allow: receivers}, nil)
	open := listen(t, echo)
	for name, ask := range clients {
		conn, _ := ask(t, p, open)
		if conn == nil {
			t.Fatalf("%s: no tunnel", name)
		}
		sayAndHear(t, conn, name)
	}
	request := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\nX-Upstream-Https-Proxy: http://%s\r\n\r\n", open, open, other)
	if got := exchange(t, p, request); got != http.StatusOK {
		t.Errorf("with a header naming another proxy: %d", got)
	}
}

func sayAndHear(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, %v; want %q", got, err, text)
	}
}

// within polls until ok.
func within(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatal("not in time")
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", ":0", "0.0.0.0:0", "[::]:0"} {
		p := startProxy(t, Config{Addr: listen}, nil)
		if !strings.HasPrefix(p.URL(), "http://127.0.0.1:") || !strings.HasSuffix(p.URL(), portOf(t, p.Addr())) {
			t.Errorf("listening on %s: URL() = %s", listen, p.URL())
		}
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"a bad address":   {Addr: "nowhere:port"},
		"a taken address": {Addr: listen(t, echo)},
		"all of IPv4":     {Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		"no prefix":       {Allow: []netip.Prefix{{}}},
	} {
		if p, err := Start(t.Context(), cfg); err == nil {
			p.Close(t.Context())
			t.Errorf("%s: it started", name)
		}
	}
}
