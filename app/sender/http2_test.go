package sender

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestHTTP2Request(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"/hook", "/", "//a%2Fb;c=[d]/../e?q=a+b%20c&d={|}^~", "/?"} {
		for _, way := range ways {
			var got *http.Request
			var body []byte
			url := receiver(t, tlsConfig(t, "h2"), func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				w.Header()["retry-after"] = []string{"7"}
				w.Header().Add("X-A", "1")
				w.Header().Add("X-A", "2")
				w.WriteHeader(503)
				io.WriteString(w, "later")
			})
			sent := []byte(strings.Repeat("x", 100_000))
			out := newSender(t, way, nil).Send(t.Context(), Request{EndpointID: "a", URL: url + target, Body: sent, Timeout: ample,
				Header: []Header{{"Content-Type", "application/json"}, {"Webhook-Id", "evt_1"}}})
			want(t, out, Status, "")
			checkStorable(t, out)
			if got.RequestURI != target || got.Proto != "HTTP/2.0" || got.Method != "POST" || got.Host != strings.TrimPrefix(url, "https://") || !bytes.Equal(body, sent) || got.ContentLength != 100_000 {
				t.Errorf("%s: %+v", target, got)
			}
			if fmt.Sprint(got.Header) != "map[Content-Length:[100000] Content-Type:[application/json] Webhook-Id:[evt_1]]" {
				t.Errorf("%v", got.Header)
			}
			if out.Status != 503 || out.Proto != "HTTP/2.0" || string(out.Body) != "later" || fmt.Sprint(out.RetryAfter) != "[7]" || !out.Sent ||
				field(out, "X-A") != "1" || out.Wait <= 0 || out.TLS == nil || !strings.HasPrefix(out.RemoteAddr, "127.0.0.2:") {
				t.Errorf("%+v", out)
			}
		}
	}
}

// A server that takes one request a connection and says so by GOAWAY loses no attempt and gets none twice.
func TestGracefulGoAway(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		var requests atomic.Int64
		c := newCounter(t, "h2", func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.Header().Set("Connection", "close")
			ok(w, r)
		})
		s := newSender(t, way, nil)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 15 {
					out := post(t, s, c.url)
					if out.Class != Delivered {
						t.Errorf("%+v", out)
					}
				}
			})
		}
		wg.Wait()
		if n := requests.Load(); n != 90 {
			t.Errorf("%d requests for 90 attempts", n)
		}
	}
}

func TestHTTP2Deadlines(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 10)
	config := tlsConfig(t, "h2")
	url := receiver(t, config, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			gone <- struct{}{}
		case "/takes-nothing":
			<-r.Context().Done()
		case "/hints":
			for r.Context().Err() == nil {
				w.Header().Set("Link", "</a>")
				w.WriteHeader(103)
				<-time.After(5 * time.Millisecond)
			}
		case "/trickles":
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				w.(http.Flusher).Flush()
				<-time.After(5 * time.Millisecond)
			}
		default:
			ok(w, r)
		}
	})
	s := newSender(t, "tcp", nil)
	want(t, post(t, s, url), Delivered, "")
	out := postWithin(t, s, url+"/silent", []byte("x"))
	if want(t, out, Timeout, PhaseWait); !out.Sent || !out.Reused {
		t.Errorf("%+v", out)
	}
	<-gone // the receiver learns of it
	out = postWithin(t, s, url+"/takes-nothing", make([]byte, 8<<20))
	want(t, out, Timeout, PhaseWrite)
	out = s.Send(t.Context(), Request{EndpointID: "ep_1", URL: url + "/hints", Timeout: within})
	if out.Class != Timeout && out.Class != Reset || out.Total > within+patience {
		t.Errorf("hints without end: %+v", out)
	}
	out = postWithin(t, s, url+"/trickles", nil)
	if want(t, out, Delivered, ""); out.BodyNote != NoteDeadline || len(out.Body) == 0 {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	out = s.Send(ctx, Request{EndpointID: "ep_1", URL: url + "/silent", Timeout: time.Minute})
	want(t, out, Canceled, "")
	want(t, post(t, s, url), Delivered, "")
}

func TestHTTP2Bodies(t *testing.T) {
	t.Parallel()
	c := newCounter(t, "h2", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			io.Copy(w, io.LimitReader(zeros{}, 100<<20))
		case "/short":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "abc")
		case "/breaks":
			io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/headers":
			for i := range 200 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
			}
		case "/cookies":
			for i := range 150 {
				w.Header().Add("Set-Cookie", fmt.Sprint(i))
			}
		case "/999":
			w.WriteHeader(999)
		}
	})
	s := newSender(t, "tcp", nil)
	for path, check := range map[string]func(Outcome) bool{
		"/large":   func(o Outcome) bool { return o.BodyTruncated && o.BodyNote == NoteCut && len(o.Body) == KeptBody },
		"/short":   func(o Outcome) bool { return string(o.Body) == "abc" && o.BodyNote == NoteBroken },
		"/breaks":  func(o Outcome) bool { return string(o.Body) == "abc" && o.BodyNote == NoteBroken },
		"/cookies": func(o Outcome) bool { return len(o.Header) == keptHeaders && o.HeaderCut },
		"/headers": func(o Outcome) bool { return o.Class == Reset && o.Status == 0 },
		"/999":     func(o Outcome) bool { return o.Class == Status && o.Status == 999 },
		"/":        func(o Outcome) bool { return o.Class == Delivered && o.BodyNote == "" && len(o.Body) == 0 },
	} {
		out := post(t, s, c.url+path)
		checkStorable(t, out)
		if !check(out) {
			out.Body = nil
			t.Errorf("%s: %+v", path, out)
		}
	}
	// A body that was not drained cost its stream, not the connection; headers over the limit cost that.
	post(t, s, c.url)
	if out := post(t, s, c.url); !out.Reused || c.conns.Load() > 2 {
		t.Errorf("%d connections, reused %v", c.conns.Load(), out.Reused)
	}
}

// A server that stops offering HTTP/2 is spoken to in HTTP/1.1, and the other way round.
func TestHTTP2ComesAndGoes(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		one, two := tlsConfig(t, "http/1.1"), tlsConfig(t, "h2")
		var plain atomic.Bool
		config := tlsConfig(t, "h2")
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if plain.Load() {
				return one, nil
			}
			return two, nil
		}
		var protos []string
		url := receiver(t, config, func(w http.ResponseWriter, r *http.Request) {
			protos = append(protos, r.Proto)
			w.Header().Set("Connection", "close") // a new connection each time
		})
		s := newSender(t, way, nil)
		for _, p := range []bool{false, false, true, true, false} {
			plain.Store(p)
			out := post(t, s, url)
			if want(t, out, Delivered, ""); out.Proto != protos[len(protos)-1] {
				t.Errorf("%s, but the receiver says %s", out.Proto, protos[len(protos)-1])
			}
			drain(s)
		}
		if got := fmt.Sprint(protos); got != "[HTTP/2.0 HTTP/2.0 HTTP/1.1 HTTP/1.1 HTTP/2.0]" {
			t.Errorf("%s: %s", way, got)
		}
	}
}

// drain makes the next attempt of s dial.
func drain(s *Sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		p.mu.Lock()
		if p.h2 != nil {
			p.h2.tr.CloseIdleConnections()
		}
		p.mu.Unlock()
	}
}

func TestHTTP2FailuresInTheMiddleOfALife(t *testing.T) {
	t.Parallel()
	current := tlsConfig(t, "h2")
	var broken atomic.Bool
	current.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if broken.Load() {
			return &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}, NextProtos: []string{"h2"}}, nil
		}
		return nil, nil
	}
	current.SessionTicketsDisabled = true
	url := receiver(t, current, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") })
	s := newSender(t, "tcp", nil)
	want(t, post(t, s, url), Delivered, "")
	broken.Store(true)
	drain(s)
	out := post(t, s, url) // dialled by the transport, which carries our failure
	if want(t, out, TLS, UnknownIssuer); out.Sent {
		t.Error("sent")
	}
	broken.Store(false)
	want(t, post(t, s, url), Delivered, "")
}

// scripted is an HTTP/2 server that does to its nth stream, from 0, what f says.
func scripted(t *testing.T, f func(n int, fr *http2.Framer, stream uint32, enc func(...string) []byte) (hangUp bool)) (string, *atomic.Int64) {
	var streams atomic.Int64
	addr := serve(t, tlsConfig(t, "h2"), func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		fr := http2.NewFramer(c, c)
		fr.WriteSettings()
		enc := func(pairs ...string) []byte {
			var b bytes.Buffer
			e := hpack.NewEncoder(&b)
			for i := 0; i < len(pairs); i += 2 {
				e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
			}
			return b.Bytes()
		}
		for {
			frame, err := fr.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					fr.WriteSettingsAck()
				}
			case *http2.PingFrame:
				fr.WritePing(true, frame.Data)
			case *http2.HeadersFrame:
				if f(int(streams.Add(1)-1), fr, frame.StreamID, enc) {
					return
				}
			}
		}
	})
	return "https://" + addr, &streams
}

func answer(fr *http2.Framer, stream uint32, block []byte) {
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndHeaders: true, EndStream: true})
}

func TestHTTP2Oddities(t *testing.T) {
	t.Parallel()
	type enc = func(...string) []byte
	for name, c := range map[string]struct {
		serve   func(n int, fr *http2.Framer, stream uint32, e enc) bool
		class   Class
		status  int
		streams int64
	}{
		"refused streams, then an answer": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			if n == 0 {
				fr.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			} else {
				answer(fr, stream, e(":status", "204"))
			}
			return false
		}, Delivered, 204, 2},
		"a stream that was begun is not repeated": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			fr.WriteRSTStream(stream, http2.ErrCodeInternal)
			return false
		}, Reset, 0, 1},
		"GOAWAY that says it was not begun": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			if n == 0 {
				fr.WriteGoAway(0, http2.ErrCodeNo, []byte("SECRET"))
				return true
			}
			answer(fr, stream, e(":status", "204"))
			return false
		}, Delivered, 204, 2},
		"GOAWAY that says it was": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			fr.WriteGoAway(stream, http2.ErrCodeInternal, []byte("SECRET"))
			return true
		}, Reset, 0, 1},
		"hangs up": {func(int, *http2.Framer, uint32, enc) bool { return true }, Reset, 0, 1},
		"no status": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			answer(fr, stream, e("x", "y"))
			return false
		}, Reset, 0, 1},
		"a status of letters": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			answer(fr, stream, e(":status", "SECRET"))
			return false
		}, Reset, 0, 1},
		"a status of 99": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			answer(fr, stream, e(":status", "099"))
			return false
		}, Status, 99, 1},
		"garbage for headers": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			answer(fr, stream, []byte("\xff\xff\xff\xff\xff\xff"))
			return false
		}, Reset, 0, 1},
		"data for another stream": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			fr.WriteData(stream+100, true, []byte("SECRET"))
			return false
		}, Reset, 0, 1},
		"an unknown frame, answer": {func(n int, fr *http2.Framer, stream uint32, e enc) bool {
			fr.WriteRawFrame(0xee, 0, 0, []byte("SECRET"))
			answer(fr, stream, e(":status", "200", "x", "caf\xc3\xa9"))
			return false
		}, Delivered, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, streams := scripted(t, c.serve)
			out := newSender(t, "tcp", nil).Send(t.Context(), Request{EndpointID: "a", URL: url, Timeout: ample})
			want(t, out, c.class, "")
			checkStorable(t, out)
			if out.Status != c.status || streams.Load() != c.streams {
				t.Errorf("status %d, %d streams: %+v", out.Status, streams.Load(), out)
			}
		})
	}
}

// Unless told otherwise we speak HTTP/1.1, and HTTP/2 to those that take nothing else.
func TestHTTP2OnlyWhereItIsNeeded(t *testing.T) {
	t.Parallel()
	var handshakes atomic.Int64
	config := tlsConfig(t, "h2")
	config.NextProtos = append(config.NextProtos, "http/1.1")
	both := receiver(t, config, ok)
	strict := tlsConfig(t, "h2")
	strict.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		handshakes.Add(1)
		if !slices.Contains(h.SupportedProtos, "h2") {
			return nil, errors.New("HTTP/2 only")
		}
		return nil, nil
	}
	only := receiver(t, strict, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") })
	for _, way := range ways {
		handshakes.Store(0)
		s := newSender(t, way, func(c *Config) { c.HTTP2 = false })
		for range 2 {
			if out := post(t, s, both); out.Class != Delivered || out.Proto != "HTTP/1.1" {
				t.Errorf("%s: %+v", way, out)
			}
		}
		for range 3 {
			if out := s.Send(t.Context(), Request{EndpointID: "h2", URL: only, Timeout: ample}); out.Class != Delivered || out.Proto != "HTTP/2.0" {
				t.Errorf("%s: %+v", way, out)
			}
		}
		if n := handshakes.Load(); n != 4 {
			t.Errorf("%s: %d handshakes for 3 attempts over HTTP/2", way, n)
		}
	}
}
