package listen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/signing"
)

// screen is what the developer sees.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !strings.Contains(s.String(), want) {
		if time.Now().After(deadline) {
			t.Fatalf("the screen does not show %q:\n%s", want, s)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

// program is the developer's, which checks signatures and keeps what it is sent.
func program(t *testing.T, status int) (url string, got func() []string) {
	t.Helper()
	key, err := signing.ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, err := signing.Verify(r.Header, body, []signing.Key{key}, time.Now(), signing.Tolerance); err != nil {
			t.Errorf("the signature: %v", err)
		}
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		http.Redirect(w, r, "/elsewhere", status)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, bodies...)
	}
}

func event(n int) string {
	return fmt.Sprintf(`{"id":"evt_%d","type":"order.paid","data":{"n":%d}}`, n, n)
}

// The stream breaks in every way, and the program is sent each event once, in order.
func TestListenSurvivesReconnects(t *testing.T) {
	t.Parallel()
	connection := 0
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection++
		asked = append(asked, r.Header.Get("Last-Event-ID")+" "+r.URL.RawQuery)
		if r.Header.Get("Authorization") != "Bearer wbt_key" {
			t.Errorf("key %q", r.Header.Get("Authorization"))
		}
		say := func(text string) {
			fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
		}
		switch connection {
		case 1: // breaks off in the middle of a message
			w.Header().Set("Content-Type", "text/event-stream")
			say("retry: 5\nid: c0\n\n: beat\nid: c0\n\nid: c1\ndata: " + event(1) + "\n\nid: c2\ndata: " + event(2)[:10])
			panic(http.ErrAbortHandler)
		case 2: // ends in order, with an event on two lines
			say("id: c2\ndata: " + event(2)[:20] + "\ndata: " + event(2)[20:] + "\n\n: connect again\n\n")
		case 3:
			w.Header().Set("Retry-After", "0")
			http.Error(w, `{"detail":"Busy \u001b[31mjust now."}`, http.StatusServiceUnavailable)
		case 4: // goes silent
			say("id: c3\ndata: " + event(3) + "\n\n")
			<-r.Context().Done()
		case 5:
			http.Error(w, `{"detail":"too old"}`, http.StatusGone)
		case 6:
			say("id: c9\ndata: " + event(9) + "\n\n")
			<-r.Context().Done()
		}
	}))
	defer api.Close()
	url, got := program(t, 302)
	var out screen
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Config{Server: Server{URL: api.URL + "/", Key: "wbt_key"}, ForwardTo: url + "/hooks", Secret: secret, Types: []string{"order.*"}, Replay: 3,
			Out: &out, Quiet: 300 * time.Millisecond, Backoff: 20 * time.Millisecond})
	}()
	out.await(t, "evt_9")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	want := []string{event(1), event(2)[:20] + "\n" + event(2)[20:], event(3), event(9)}
	if fmt.Sprint(got()) != fmt.Sprint(want) {
		t.Errorf("the program is sent %q", got())
	}
	if wantAsked := "[ last=3&type=order.%2A c1 type=order.%2A c2 type=order.%2A c2 type=order.%2A c3 type=order.%2A  type=order.%2A]"; fmt.Sprint(asked) != wantAsked {
		t.Errorf("the server is asked %q", asked)
	}
	for _, words := range []string{"signed with " + secret, "302", "order.paid  evt_1", "the connection broke", "Busy ?[31mjust now.", "gone silent", "older than what is kept"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("the screen does not show %q:\n%s", words, out.String())
		}
	}
}

func TestListenGivesUp(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"detail":"This API key is not valid."}`, http.StatusUnauthorized)
	}))
	defer api.Close()
	good := Config{Server: Server{URL: api.URL, Key: "wbt_key"}, ForwardTo: "http://localhost:1/"}
	for want, change := range map[string]func(*Config){
		"This API key is not valid.": func(*Config) {},
		"an API key is missing":      func(c *Config) { c.Key = "" },
		"the API key is not one":     func(c *Config) { c.Key = "wbt_\n" },
		"--url must be":              func(c *Config) { c.URL = "localhost:8080" },
		"--forward-to must be":       func(c *Config) { c.ForwardTo = "3000" },
		"--secret must be":           func(c *Config) { c.Secret = "whsec_AAAA" },
		"--replay must be 0 to 1000": func(c *Config) { c.Replay = 1001 },
	} {
		c := good
		change(&c)
		var out screen
		c.Out = &out
		if err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A program that does not run is no reason to stop.
func TestListenWithoutAProgram(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: "+event(1)+"\n\ndata: not JSON\x1b[2J\n\ndata: "+event(2)+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer api.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	var out screen
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Config{Server: Server{URL: api.URL, Key: "k"}, ForwardTo: dead.URL, Out: &out})
	}()
	out.await(t, "evt_2")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Count(text, "refused") != 2 || !strings.Contains(text, "cannot be read") || strings.Contains(text, "\x1b") ||
		!strings.Contains(text, "signed with whsec_") {
		t.Errorf("%s", text)
	}
}

func TestTrigger(t *testing.T) {
	t.Parallel()
	asked := 0
	status := "delivered"
	endpoints := `[{"id":"ep_1","url":"https://a.example/"}]`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.Method + " " + r.URL.Path {
		case "GET /v1/endpoints":
			fmt.Fprintf(w, `{"data":%s,"next":null}`, endpoints)
		case "POST /v1/endpoints/ep_1/test":
			if string(body) != `{"data":{"n":1},"type":"order.paid"}` {
				t.Errorf("%s", body)
			}
			w.WriteHeader(202)
			fmt.Fprint(w, `{"event_id":"evt_1","delivery_id":"dlv_1"}`)
		case "GET /v1/deliveries/dlv_1":
			switch asked++; asked {
			case 1:
				http.Error(w, `{"detail":"There is no such delivery."}`, 404)
			case 2:
				fmt.Fprint(w, `{"status":"pending","last_attempt":null}`)
			default:
				fmt.Fprintf(w, `{"status":%q,"last_attempt":{"code":200,"class":"delivered","duration_ms":42}}`, status)
			}
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}))
	defer api.Close()
	send := func() (string, error) {
		var out screen
		asked = 0
		err := Trigger{Server: Server{URL: api.URL, Key: "k"}, Type: "order.paid", Data: []byte(`{"n":1}`), Within: 10 * time.Second, Out: &out}.Send(t.Context())
		return out.String(), err
	}
	if text, err := send(); err != nil || text != "evt_1 is on its way to ep_1\ndelivered: 200 in 42 ms\n" {
		t.Errorf("%q, %v", text, err)
	}
	status = "undelivered"
	if _, err := send(); err == nil || err.Error() != "undelivered: 200 in 42 ms" {
		t.Error(err)
	}
	endpoints = `[]`
	if _, err := send(); err == nil || !strings.Contains(err.Error(), "no endpoint") {
		t.Error(err)
	}
	endpoints = `[{"id":"ep_1","url":"https://a.example/"},{"id":"ep_2","url":"https://b.example/"}]`
	if _, err := send(); err == nil || !strings.Contains(err.Error(), "ep_2  https://b.example/") {
		t.Error(err)
	}
}
