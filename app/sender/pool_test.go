package sender

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counter is a receiver that counts its connections and says on which one it was asked.
type counter struct {
	url   string
	conns atomic.Int64
	open  atomic.Int64
}

type connKey struct{}

func newCounter(t testing.TB, protocol string, h http.HandlerFunc) *counter {
	t.Helper()
	c := &counter{}
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	if h == nil {
		h = ok
	}
	srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c.conns.Load())
	}, ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			c.conns.Add(1)
			c.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			c.open.Add(-1)
		}
	}}
	t.Cleanup(func() { srv.Close() })
	if protocol == "" {
		c.url = "http://" + ln.Addr().String()
		go srv.Serve(ln)
		return c
	}
	srv.TLSConfig = tlsConfig(t, protocol)
	c.url = "https://" + ln.Addr().String()
	go srv.ServeTLS(ln, "", "")
	return c
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		for _, way := range ways {
			t.Run(protocol+"/"+way, func(t *testing.T) {
				t.Parallel()
				c := newCounter(t, protocol, nil)
				s := newSender(t, way, nil)
				for i := range 20 {
					out := post(t, s, c.url)
					want(t, out, Delivered, "")
					if out.Reused != (i > 0) || string(out.Body) != "ok" {
						t.Errorf("attempt %d: %+v", i, out)
					}
				}
				if n := c.conns.Load(); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

func TestEndpointsNeverShareConnections(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		c := newCounter(t, protocol, nil)
		s := newSender(t, "tcp", nil)
		for range 3 {
			for _, id := range []string{"ep_1", "ep_2", "ep_3"} {
				want(t, s.Send(t.Context(), Request{EndpointID: id, URL: c.url, Timeout: ample, MaxConns: 2}), Delivered, "")
			}
		}
		if n := c.conns.Load(); n != 3 {
			t.Errorf("%q: %d connections for 3 endpoints", protocol, n)
		}
	}
}

func TestAChangedURLTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		one, two := newCounter(t, protocol, nil), newCounter(t, "", nil)
		s := newSender(t, "tcp", nil)
		want(t, post(t, s, one.url), Delivered, "")
		if out := post(t, s, one.url+"/other?path"); !out.Reused {
			t.Errorf("%q: another path made another connection", protocol)
		}
		if out := post(t, s, two.url); out.Class != Delivered || two.conns.Load() != 1 {
			t.Errorf("%q: %+v", protocol, out)
		}
		eventually(t, "the old connection is closed", func() bool { return one.open.Load() == 0 })
		want(t, post(t, s, one.url), Delivered, "")
		if n := one.conns.Load(); n != 2 {
			t.Errorf("%q: %d connections to the first", protocol, n)
		}
	}
}

// At most MaxConns stay open, also when the limit is lowered.
func TestIdleConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	gate := make(chan struct{})
	c := newCounter(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-gate
		}
	})
	s := newSender(t, "tcp", nil)
	send := func(path string, limit int) {
		if out := s.Send(t.Context(), Request{EndpointID: "a", URL: c.url + path, Timeout: ample, MaxConns: limit}); out.Class != Delivered {
			t.Errorf("%+v", out)
		}
	}
	for range 8 {
		wg.Go(func() { send("/wait", 5) })
	}
	eventually(t, "eight on the wire", func() bool { return c.open.Load() == 8 })
	close(gate)
	wg.Wait()
	eventually(t, "five are kept", func() bool { return c.open.Load() == 5 })
	if n := s.kept.Load(); n != 5 {
		t.Errorf("kept %d", n)
	}
	send("/", 2)
	s.sweepOnce(time.Now())
	eventually(t, "two are kept", func() bool { return c.open.Load() == 2 })
	send("/", 2)
	if n := c.conns.Load(); n != 8 {
		t.Errorf("%d connections were made", n)
	}
	s.sweepOnce(time.Now().Add(idleLife + time.Second))
	eventually(t, "none is kept", func() bool { return c.open.Load() == 0 && s.kept.Load() == 0 })
	s.mu.Lock()
	n := len(s.pools)
	s.mu.Unlock()
	if n != 1 {
		t.Errorf("the endpoint was forgotten too early")
	}
	s.sweepOnce(time.Now().Add(poolLife + time.Second))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pools) != 0 {
		t.Errorf("%d endpoints are remembered", len(s.pools))
	}
}

func TestEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", func(c *Config) { c.ProxyURL = "http://" + closedPort(t) })
	for i := range mostPools + 100 {
		s.pool(&Request{EndpointID: fmt.Sprint(i), URL: "http://r.t.test/"}).leave()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pools) > mostPools {
		t.Errorf("%d endpoints are remembered", len(s.pools))
	}
}

func TestOldConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		c := newCounter(t, protocol, nil)
		s := newSender(t, "tcp", nil)
		want(t, post(t, s, c.url), Delivered, "")
		age(s, connLife+time.Second)
		out := post(t, s, c.url)
		if want(t, out, Delivered, ""); out.Reused || c.conns.Load() != 2 {
			t.Errorf("%q: %d connections, reused %v", protocol, c.conns.Load(), out.Reused)
		}
		eventually(t, "the old one is closed", func() bool { return c.open.Load() == 1 })
	}
}

// A receiver that closes its side while the connection is idle costs no attempt.
func TestAConnectionThatWasClosedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"closed": "", "spoken on": "HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", "a byte": "x"} {
		for _, behindTLS := range []bool{false, true} {
			for _, way := range ways {
				t.Run(fmt.Sprint(name, behindTLS, way), func(t *testing.T) {
					t.Parallel()
					said := make(chan struct{}, 100)
					scheme, config := "http", tlsConfig(t, "http/1.1")
					if !behindTLS {
						config = nil
					} else {
						scheme = "https"
					}
					var conns atomic.Int64
					addr := serve(t, config, func(c net.Conn) {
						conns.Add(1)
						br := bufio.NewReader(c)
						for {
							if _, err := readRequest(br); err != nil {
								return
							}
							io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
							if last == "" {
								c.Close()
								said <- struct{}{}
								return
							}
							io.WriteString(c, last)
							said <- struct{}{}
						}
					})
					s := newSender(t, way, nil)
					for i := range 5 {
						out := post(t, s, scheme+"://"+addr)
						if want(t, out, Delivered, ""); out.Status != 200 || string(out.Body) != "ok" {
							t.Errorf("attempt %d: %+v", i, out)
						}
						<-said
						settle(s)
					}
					if n := conns.Load(); n != 5 {
						t.Errorf("%d connections for 5 attempts", n)
					}
				})
			}
		}
	}
}

// settle returns when each kept connection has seen what its receiver did last.
func settle(s *Sender) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		noisy := true
		s.mu.Lock()
		for _, p := range s.pools {
			p.mu.Lock()
			for _, c := range p.idle {
				noisy = noisy && !c.quiet(time.Now().Add(time.Minute))
			}
			p.mu.Unlock()
		}
		s.mu.Unlock()
		if noisy {
			return
		}
		<-time.After(time.Millisecond)
	}
}

// A connection that dies under the request is a failed attempt: the receiver may have got it, and nothing is
// sent twice in silence.
func TestNoSilentReplay(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		var requests atomic.Int64
		addr := serve(t, nil, func(c net.Conn) {
			br := bufio.NewReader(c)
			for i := 0; ; i++ {
				if _, err := readRequest(br); err != nil {
					return
				}
				requests.Add(1)
				if i == 1 {
					return // without an answer
				}
				io.WriteString(c, "HTTP/1.1 204 x\r\n\r\n")
			}
		})
		s := newSender(t, way, nil)
		want(t, post(t, s, "http://"+addr), Delivered, "")
		out := post(t, s, "http://"+addr)
		if want(t, out, Reset, ""); !out.Reused || !out.Sent || requests.Load() != 2 {
			t.Errorf("%d requests, %+v", requests.Load(), out)
		}
	}
}

func TestAnAnswerThatLeavesTheConnectionUnfit(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"over the cap":    "HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + strings.Repeat("x", 2_000_000),
		"204 with a body": "HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\nabc",
		"two answers":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n",
		"101":             "HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{}, 2)
			addr := serve(t, nil, func(c net.Conn) {
				br := bufio.NewReader(c)
				readRequest(br)
				io.WriteString(c, answer)
				if text, err := readRequest(br); err == nil {
					t.Errorf("another request came: %q", text)
				}
				ended <- struct{}{}
			})
			s := newSender(t, "tcp", nil)
			first := post(t, s, "http://"+addr)
			<-ended // it was closed, not drained
			if second := post(t, s, "http://"+addr); second.Status != first.Status || second.Reused {
				t.Errorf("%+v", second)
			}
			<-ended
		})
	}
}

func TestCloseDropsWhatIsIdle(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		c := newCounter(t, protocol, nil)
		s := newSender(t, "tcp", nil)
		want(t, post(t, s, c.url), Delivered, "")
		s.Close()
		s.Close()
		eventually(t, "the connection is closed", func() bool { return c.open.Load() == 0 })
		want(t, post(t, s, c.url), Delivered, "") // what is under way goes on, and keeps nothing
		eventually(t, "that of the late attempt too", func() bool { return c.open.Load() == 0 })
	}
}

// Many at once, over few connections, each answer its own.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		for _, way := range ways {
			t.Run(protocol+"/"+way, func(t *testing.T) {
				t.Parallel()
				c := newCounter(t, protocol, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Id", r.Header.Get("webhook-id"))
					io.Copy(w, r.Body)
				})
				s := newSender(t, way, nil)
				var wg sync.WaitGroup
				for e := range 5 {
					for i := range 8 {
						wg.Go(func() {
							for n := range 20 {
								id := fmt.Sprintf("%d-%d-%d", e, i, n)
								out := s.Send(t.Context(), Request{EndpointID: fmt.Sprint(e), URL: c.url, Body: []byte(id), Timeout: time.Minute, MaxConns: 8,
									Header: []Header{{"webhook-id", id}}})
								if out.Class != Delivered || string(out.Body) != id || field(out, "X-Id") != id {
									t.Errorf("%s: %+v", id, out)
								}
							}
						})
					}
				}
				wg.Wait()
				if n := c.conns.Load(); n > 5*8+5 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}
