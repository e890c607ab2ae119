package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/outbox"
	"waybill/app/seal"
	"waybill/app/server"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

// pullSystem is the whole program with a tenant "one", and a key of it.
type pullSystem struct {
	*server.Server
	t        *testing.T
	url, key string
}

const bootKey = "0123456789abcdef0123456789abcdef"

func newPullSystem(t *testing.T) *pullSystem {
	t.Helper()
	c := server.Config{DatabaseURL: dbtest.NewURL(t), Addr: "127.0.0.1:0", URL: "http://waybill.test", SecretKeys: seal.NewKey(), PlatformKey: bootKey,
		AllowHTTP: true, EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Data: t.TempDir(), Migrate: true}
	srv, err := server.Start(t.Context(), c, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop(context.Background()) })
	s := &pullSystem{Server: srv, t: t, url: "http://" + srv.Addr()}
	s.call("PUT", "/v1/tenants/one", `{"name":"One"}`, nil)
	var made struct{ Key string }
	s.call("POST", "/v1/tenants/one/keys", ``, &made)
	s.key = made.Key
	return s
}

// call asks the API with the platform's key.
func (s *pullSystem) call(method, path, body string, into any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bootKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			s.t.Fatal(err)
		}
	}
}

// run carries out a command with the tenant's key in the environment.
func (s *pullSystem) run(ctx context.Context, out io.Writer, args ...string) (code int, log string) {
	var errs bytes.Buffer
	env := map[string]string{"WAYBILL_KEY": s.key, "WAYBILL_URL": s.url}
	code = run(ctx, args, streams{out: out, err: &errs, getenv: func(name string) string { return env[name] }})
	return code, errs.String()
}

// shared is a screen that is read while it is written.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *pullSystem) publish(n int) {
	s.t.Helper()
	_, err := outbox.Publish(s.t.Context(), s.Pool, outbox.Event{ID: fmt.Sprintf("e%d", n), Tenant: "one", Type: "order.paid", ResourceType: "order",
		ResourceID: "1", Data: []byte(`{"n": 9007199254740993}`)})
	if err != nil {
		s.t.Fatal(err)
	}
}

// What is published arrives, signed, at a program on the developer's machine, with what came before.
func TestListenCommand(t *testing.T) {
	t.Parallel()
	s := newPullSystem(t)
	key := signing.NewSecret()
	var mu sync.Mutex
	var got []string
	arrived := make(chan struct{}, 100)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		match, err := signing.Verify(r.Header, body, []signing.Key{key}, time.Now(), signing.Tolerance)
		if err != nil {
			t.Errorf("the signature: %v", err)
		}
		if !bytes.Contains(body, []byte(`"data":{"n": 9007199254740993}`)) {
			t.Errorf("%s", body)
		}
		mu.Lock()
		got = append(got, match.ID)
		mu.Unlock()
		arrived <- struct{}{}
	}))
	defer program.Close()
	for n := range 3 {
		s.publish(n)
	}
	deadline := time.Now().Add(10 * time.Second)
	for n := 0; n < 3; {
		if err := s.Pool.QueryRow(t.Context(), `select count(*) from events`).Scan(&n); err != nil || time.Now().After(deadline) {
			t.Fatal(n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	var out shared
	go func() {
		code, log := s.run(ctx, &out, "listen", "--forward-to", program.URL+"/hooks", "--secret", key.Reveal(), "--type", "order.*", "--replay", "2")
		if log != "" {
			t.Log(log)
		}
		ended <- code
	}()
	await := func(n int) {
		t.Helper()
		for range n {
			select {
			case <-arrived:
			case <-time.After(10 * time.Second):
				t.Fatalf("arrived so far: %q", got)
			}
		}
	}
	await(2)
	s.publish(3)
	await(1)
	for deadline := time.Now().Add(10 * time.Second); strings.Count(out.String(), "  200 ") < 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != "[e1 e2 e3]" || !strings.Contains(out.String(), "order.paid  e3") || strings.Count(out.String(), "  200 ") != 3 {
		t.Errorf("arrived: %q\n%s", got, out.String())
	}
}

func TestTriggerCommand(t *testing.T) {
	t.Parallel()
	s := newPullSystem(t)
	if code, log := s.run(t.Context(), io.Discard, "trigger", "order.paid"); code != 1 || !strings.Contains(log, "there is no endpoint") {
		t.Errorf("%d %s", code, log)
	}
	listener, err := net.Listen("tcp", "127.0.0.2:0") // which only this test's proxy allows
	if err != nil {
		t.Fatal(err)
	}
	status := http.StatusNoContent
	seller := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })}}
	seller.Start()
	defer seller.Close()
	s.call("POST", "/v1/tenants/one/endpoints", fmt.Sprintf(`{"url":%q,"types":["*"]}`, seller.URL), nil)
	var out bytes.Buffer
	code, log := s.run(t.Context(), &out, "trigger", "order.paid", "--data", `{"n":1}`)
	if code != 0 || !strings.Contains(out.String(), "is on its way to ep_") || !strings.Contains(out.String(), "delivered: 204 in ") {
		t.Errorf("%d %s %s", code, out.String(), log)
	}
	status = http.StatusTeapot
	if code, log := s.run(t.Context(), io.Discard, "trigger", "order.paid"); code != 1 || !strings.Contains(log, "undelivered: 418") {
		t.Errorf("%d %s", code, log)
	}
	if code, log := s.run(t.Context(), io.Discard, "trigger", "order.*"); code != 1 || !strings.Contains(log, "type must be words") {
		t.Errorf("%d %s", code, log)
	}
}

func TestTypesImportCommand(t *testing.T) {
	t.Parallel()
	s := newPullSystem(t)
	file := filepath.Join(t.TempDir(), "freight.yaml")
	text := "openapi: 3.1.0\nwebhooks:\n  consignment.delivered:\n    post:\n      description: It has arrived.\n      requestBody:\n        content:\n" +
		"          application/json:\n            schema: {type: object, properties: {weight: {type: number}}}\n            example: {weight: 12.5}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code, log := s.run(t.Context(), &out, "types", "import", file); code != 1 || !strings.Contains(log, "Only a platform key") {
		t.Errorf("%d %s", code, log)
	}
	for _, want := range []string{"created    consignment.delivered\n", "unchanged  consignment.delivered\n"} {
		out.Reset()
		if code, log := s.run(t.Context(), &out, "types", "import", file, "--key", bootKey); code != 0 || out.String() != want {
			t.Errorf("%d %q %s", code, out.String(), log)
		}
	}
	var got struct{ Example struct{ Weight float64 } }
	s.call("GET", "/v1/event-types/consignment.delivered", "", &got)
	if got.Example.Weight != 12.5 {
		t.Errorf("%+v", got)
	}
}
