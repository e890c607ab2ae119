package sender

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestNetworkFailures(t *testing.T) {
	t.Parallel()
	world.zone.set("inside.t.test", "127.0.0.1")
	closed := closedPort(t)
	_, port, _ := net.SplitHostPort(closed)
	for host, class := range map[string]Class{
		"127.0.0.1:9000":         BlockedAddress,
		"10.0.0.1":               BlockedAddress,
		"169.254.169.254":        BlockedAddress,
		"[::1]":                  BlockedAddress,
		"[::ffff:127.0.0.1]":     BlockedAddress,
		"[64:ff9b::7f00:1]:8443": BlockedAddress,
		"inside.t.test:" + port:  BlockedAddress,
		"r.t.test:25":            BlockedAddress,
		"nx.t.test":              DNS,
		"silent.t.test":          DNS,
		closed:                   Refused,
		"r.t.test:" + port:       Refused,
	} {
		for _, way := range ways {
			s := newSender(t, way, nil)
			for _, scheme := range []string{"http", "https"} {
				t.Run(way+"/"+scheme+"/"+host, func(t *testing.T) {
					t.Parallel()
					out := post(t, s, scheme+"://"+host+"/hook?token=SECRET")
					want(t, out, class, "")
					checkStorable(t, out)
					if out.Status != 0 || out.Header != nil || out.Sent || out.RemoteAddr != "" {
						t.Errorf("%+v", out)
					}
				})
			}
		}
	}
}

// A name that moves to a forbidden address is refused at the next connection, and a kept connection does not
// outlive connLife.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			name := "flip-" + way + ".t.test"
			url := receiver(t, nil, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
			url = "http://" + name + ":" + port
			world.zone.set(name, "127.0.0.2", "127.0.0.1")
			s := newSender(t, way, nil)
			want(t, post(t, s, url), Delivered, "")
			out := post(t, s, url) // over the kept connection, which was judged
			if want(t, out, Delivered, ""); !out.Reused {
				t.Error("not reused")
			}
			age(s, connLife)
			want(t, post(t, s, url), BlockedAddress, "")
		})
	}
}

// age makes all idle connections of s older.
func age(s *Sender, by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		p.mu.Lock()
		for _, c := range p.idle {
			c.born = c.born.Add(-by)
		}
		if p.h2 != nil {
			p.h2.born = p.h2.born.Add(-by)
		}
		p.fresh = p.fresh.Add(-by)
		p.mu.Unlock()
	}
}

// proxyThat answers each CONNECT as told; an empty answer is silence until the client goes.
func proxyThat(t *testing.T, answer string) func(*Config) {
	addr := serve(t, nil, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		if answer == "hang up" {
			return
		}
		io.WriteString(c, answer)
		if answer == "" {
			io.Copy(io.Discard, br)
		}
	})
	return func(c *Config) { c.ProxyURL = "http://" + addr }
}

func TestWhatProxiesSay(t *testing.T) {
	t.Parallel()
	denied := func(status, why string) string {
		return "HTTP/1.1 " + status + "\r\nX-Smokescreen-Error: " + why + "\r\nContent-Length: 0\r\n\r\n"
	}
	for name, c := range map[string]struct {
		answer string
		class  Class
	}{
		"smokescreen denies":             {denied("407 Request rejected by proxy", "Egress proxying is denied to host 'x'"), BlockedAddress},
		"smokescreen finds no name":      {denied("502 Bad gateway", "Failed to resolve remote hostname: lookup x: no such host"), DNS},
		"smokescreen waits for DNS":      {denied("504 Gateway timeout", "Timed out connecting to remote host: lookup x: i/o timeout"), DNS},
		"smokescreen gets no address":    {denied("500 Internal server error", "An unexpected error occurred: no IPs resolved"), DNS},
		"smokescreen is refused":         {denied("502 Bad gateway", "Failed to connect to remote host: <nil> (*net.OpError)"), Refused},
		"smokescreen waits in vain":      {denied("504 Gateway timeout", "Timed out connecting to remote host: dial tcp 1.2.3.4:443: i/o timeout"), ConnectTimeout},
		"smokescreen has too many":       {denied("429 Too Many Requests", "maximum concurrent connect tunnels exceeded"), Proxy},
		"smokescreen is overloaded":      {"HTTP/1.1 503 x\r\nRetry-After: 1\r\n\r\nProxy overloaded", Proxy},
		"smokescreen limits its clients": {"HTTP/1.1 429 x\r\nRetry-After: 1\r\n\r\n", Proxy},
		"smokescreen fails":              {denied("500 Internal server error", "An unexpected error occurred: x"), Proxy},
		"ours waits in vain":             {"HTTP/1.1 504 x\r\nX-Waybill-Verdict: timeout\r\n\r\n", ConnectTimeout},
		"ours finds no way":              {"HTTP/1.1 502 x\r\nX-Waybill-Verdict: unreachable\r\n\r\n", Refused},
		"ours is overloaded":             {"HTTP/1.1 503 x\r\nX-Waybill-Verdict: overloaded\r\n\r\n", Proxy},
		"ours fails":                     {"HTTP/1.1 500 x\r\nX-Waybill-Verdict: failed\r\n\r\n", Proxy},
		"it wants a password":            {"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", Proxy},
		"another one is down":            {"HTTP/1.1 502 Bad Gateway\r\n\r\n", Proxy},
		"it redirects":                   {"HTTP/1.1 302 x\r\nLocation: /\r\n\r\n", Proxy},
		"it is no proxy":                 {"SSH-2.0-x\r\n", Proxy},
		"it hangs up":                    {"hang up", Proxy},
		"it breaks off":                  {"HTTP/1.1 200 O", Proxy},
		"its head has no end":            {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 10_000), Proxy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, "tcp", proxyThat(t, c.answer))
			for _, scheme := range []string{"http", "https"} {
				out := s.Send(t.Context(), Request{EndpointID: scheme, URL: scheme + "://r.t.test/", Timeout: ample})
				want(t, out, c.class, "")
				if out.Status != 0 || out.RetryAfter != nil || out.Sent {
					t.Errorf("%+v", out)
				}
			}
		})
	}
}

func TestAProxyThatIsDownOrStuckIsNotTheEndpointsFault(t *testing.T) {
	t.Parallel()
	down := newSender(t, "tcp", func(c *Config) { c.ProxyURL = "http://" + closedPort(t) })
	want(t, post(t, down, "https://r.t.test/"), Proxy, "")

	// It should have answered long before the attempt's own time was over.
	stuck := newSender(t, "tcp", func(c *Config) {
		proxyThat(t, "")(c)
		c.ProxyWithin = 50 * time.Millisecond
	})
	out := post(t, stuck, "https://r.t.test/")
	if want(t, out, Proxy, ""); out.Total > patience {
		t.Errorf("it took %v", out.Total)
	}
	// It had no time to answer, and the endpoint is the likelier cause.
	slow := newSender(t, "tcp", proxyThat(t, ""))
	out = postWithin(t, slow, "https://r.t.test/", nil)
	if want(t, out, ConnectTimeout, ""); !out.TimedOut() {
		t.Error("TimedOut() is false")
	}

	gone := newSender(t, "direct", func(c *Config) {
		c.Tunnel = func(context.Context, string) (net.Conn, *http.Response, error) { return nil, nil, errors.New("closed") }
	})
	want(t, post(t, gone, "https://r.t.test/"), Proxy, "")
	waits := newSender(t, "direct", func(c *Config) {
		c.Tunnel = func(ctx context.Context, _ string) (net.Conn, *http.Response, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}
	})
	want(t, postWithin(t, waits, "https://r.t.test/", nil), ConnectTimeout, "")
}

func TestAPanicIsAnOutcome(t *testing.T) {
	t.Parallel()
	s := newSender(t, "direct", func(c *Config) {
		c.Tunnel = func(context.Context, string) (net.Conn, *http.Response, error) { panic("boom") }
		c.Logger = discard
	})
	want(t, post(t, s, "https://r.t.test/"), Proxy, "")
}

func TestProxyCredentialsAreSent(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	addr := serve(t, nil, func(c net.Conn) {
		text, _ := readRequest(bufio.NewReader(c))
		seen <- text
	})
	s := newSender(t, "tcp", func(c *Config) { c.ProxyURL = "http://user:p%40ss@" + addr })
	post(t, s, "https://r.t.test:8443/hook")
	if got := <-seen; got != "CONNECT r.t.test:8443 HTTP/1.1\r\nHost: r.t.test:8443\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n" {
		t.Errorf("%q", got)
	}
}

func TestNewRefusesWhatIsNoProxy(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "127.0.0.1:4750", "http://proxy", "https://proxy:4750", "socks5://proxy:1080", "http://:4750", "http://%zz:1"} {
		if s, err := New(Config{ProxyURL: url}); err == nil {
			s.Close()
			t.Errorf("New(%q) made one", url)
		} else if strings.Contains(err.Error(), "zz") {
			t.Errorf("the URL, which may hold a password, is in %v", err)
		}
	}
}

// Every phase ends by the attempt's deadline.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	large := make([]byte, 32<<20)
	hang := func(c net.Conn) { io.Copy(io.Discard, c) }
	for name, c := range map[string]struct {
		scheme string
		body   []byte
		cause  string
		serve  func(net.Conn)
	}{
		"accepts and is silent":         {"http", nil, PhaseWait, hang},
		"is silent in the handshake":    {"https", nil, PhaseTLS, hang},
		"trickles in the handshake":     {"https", nil, PhaseTLS, func(c net.Conn) { trickle(c, "\x16\x03\x03\x40\x00"+strings.Repeat("\x00", 1000)) }},
		"does not take the request":     {"http", large, PhaseWrite, nil},
		"takes it slowly":               {"http", large, PhaseWrite, func(c net.Conn) { sip(c) }},
		"trickles its status line":      {"http", nil, PhaseWait, func(c net.Conn) { trickle(c, "HTTP/1.1 200 "+strings.Repeat("O", 1000)) }},
		"trickles its headers":          {"http", nil, PhaseWait, func(c net.Conn) { trickle(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 200)) }},
		"says Continue for ever":        {"http", nil, PhaseWait, func(c net.Conn) { trickleLines(c, "HTTP/1.1 100 Continue\r\n\r\n") }},
		"gives early hints for ever":    {"http", nil, PhaseWait, func(c net.Conn) { trickleLines(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }},
		"sends its status, and no more": {"http", nil, PhaseWait, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n"); hang(c) }},
	} {
		for _, way := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				f := c.serve
				if f == nil {
					f = func(net.Conn) { <-t.Context().Done() }
				}
				out := postWithin(t, newSender(t, way, nil), c.scheme+"://"+serve(t, nil, f)+"/", c.body)
				want(t, out, Timeout, c.cause)
				if !out.TimedOut() || out.Sent != (c.scheme == "http") || out.Status == 200 {
					t.Errorf("%+v", out)
				}
			})
		}
	}
}

func sip(c net.Conn) {
	for {
		if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

func trickleLines(c net.Conn, line string) {
	for {
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// When we give up, the receiver learns of it at once.
func TestTheReceiverSeesUsGo(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		ended := make(chan struct{})
		addr := serve(t, nil, func(c net.Conn) {
			io.Copy(io.Discard, c)
			close(ended)
		})
		want(t, postWithin(t, newSender(t, way, nil), "http://"+addr, nil), Timeout, PhaseWait)
		<-ended
	}
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		s := newSender(t, way, nil)
		before, cancel := context.WithCancel(t.Context())
		cancel()
		out := s.Send(before, Request{EndpointID: "a", URL: "http://" + closedPort(t), Timeout: 5 * time.Minute})
		if want(t, out, Canceled, ""); out.Sent {
			t.Error("sent, although the context was over")
		}

		ctx, cancel := context.WithCancel(t.Context())
		addr := serve(t, nil, func(c net.Conn) {
			readRequest(bufio.NewReader(c))
			cancel()
			io.Copy(io.Discard, c)
		})
		out = s.Send(ctx, Request{EndpointID: "b", URL: "http://" + addr, Timeout: 5 * time.Minute})
		if want(t, out, Canceled, ""); !out.Sent || out.Total > patience {
			t.Errorf("while it waited: %+v", out)
		}

		ctx, cancel = context.WithCancel(t.Context())
		addr = serve(t, nil, func(c net.Conn) {
			c.Read(make([]byte, 1))
			cancel()
			io.Copy(io.Discard, c)
		})
		out = s.Send(ctx, Request{EndpointID: "c", URL: "https://" + addr, Timeout: 5 * time.Minute})
		if want(t, out, Canceled, ""); out.Sent || out.Total > patience {
			t.Errorf("in the handshake: %+v", out)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := newSender(t, "tcp", func(c *Config) {
		c.ProxyURL = "http://" + serve(t, nil, func(nc net.Conn) {
			nc.Read(make([]byte, 1))
			cancel()
			io.Copy(io.Discard, nc)
		})
	})
	out := s.Send(ctx, Request{EndpointID: "d", URL: "http://r.t.test/", Timeout: 5 * time.Minute})
	if want(t, out, Canceled, ""); out.Sent || out.Total > patience {
		t.Errorf("while the proxy was asked: %+v", out)
	}
}

// A receiver may answer before it has read all, and stop reading.
func TestAnEarlyAnswerCounts(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		for _, size := range []int{1000, 8 << 20} {
			addr := serve(t, nil, func(c net.Conn) {
				io.ReadFull(c, make([]byte, 100))
				io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, io.LimitReader(c, 100_000))
			})
			s := newSender(t, way, nil)
			out := s.Send(t.Context(), Request{EndpointID: "a", URL: "http://" + addr, Body: make([]byte, size), Timeout: ample})
			want(t, out, Status, "")
			if out.Status != 413 || string(out.Body) != "no" {
				t.Errorf("%s, %d bytes: %+v", way, size, out)
			}
		}
	}
}
