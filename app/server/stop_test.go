package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"waybill/app/server"
)

// get asks one address over a connection of its own.
func (s *system) get(path string) (status int, body string, closes bool, err error) {
	q, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.Addr()+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.PlatformKey.Reveal())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(q)
	if err != nil {
		return 0, "", false, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Close, err
}

// Who is told to stop says so first, answers for a while whoever has not heard it yet, on connections that end with the answer, and only then closes.
func TestStopsWhenNobodyComesAnyMore(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	s := start(t, func(c *server.Config) { c.Drain = drain })
	for _, path := range []string{"/readyz", "/healthz", "/v1/tenants"} {
		if status, body, closes, err := s.get(path); status != http.StatusOK || closes || err != nil {
			t.Fatalf("before: %s answers %d %q, closes %v, %v", path, status, body, closes, err)
		}
	}
	begun, stopped := time.Now(), make(chan struct{})
	go func() {
		s.Stop(context.Background())
		close(stopped)
	}()
	for {
		status, body, _, err := s.get("/readyz")
		if err != nil {
			t.Fatalf("it closed before it said that it is not ready: %v", err)
		}
		if status == http.StatusServiceUnavailable && strings.Contains(body, "stopping") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	served := 0
	for {
		status, _, closes, err := s.get("/v1/tenants")
		if err != nil {
			if took := time.Since(begun); took < drain || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s after it was told to stop: %v", took, err)
			}
			break
		}
		if status != http.StatusOK || !closes {
			t.Fatalf("while it stops a call is answered %d, and the connection stays open: %v", status, !closes)
		}
		if served++; served == 1 {
			if alive, _, _, err := s.get("/healthz"); alive != http.StatusOK {
				t.Errorf("while it stops it is not alive: %d, %v", alive, err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	<-stopped
	if served == 0 {
		t.Error("nothing was answered after the stop had begun")
	}
}

// A stream lives until the drain is over, and then ends as streams do.
func TestStreamsEndLast(t *testing.T) {
	t.Parallel()
	const drain = time.Second
	s := start(t, func(c *server.Config) { c.Drain = drain })
	if _, err := s.Pool.Exec(t.Context(), `insert into tenants (id, uid, name) values ('tnt_01J9X3ZK7Q8W2M4T5V6B7N8P9R', 'stream', 'Stream')`); err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+"/v1/tenants/stream/events/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.PlatformKey.Reveal())
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	begun := time.Now()
	go s.Stop(context.Background())
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
	if took := time.Since(begun); took < drain {
		t.Errorf("the stream ended after %s, within the drain", took)
	}
}

// A program goes on when a newer one has migrated the database under it, and is ready; one that starts then is refused in words. On a schema that is
// older than itself it is not ready.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s := start(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := s.Pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, status int, words string) {
		t.Helper()
		if got, body, _, err := s.get("/readyz"); got != status || !strings.Contains(body, words) {
			t.Errorf("%s: %d %q, %v; want %d, %q", when, got, body, err, status, words)
		}
	}
	exec(`alter table endpoints add column of_later text; insert into migrations (name, checksum) values ('9999_later', 'x')`)
	expect("migrated by a newer program", http.StatusOK, "newer")
	if status, body, _, err := s.get("/v1/tenants"); status != http.StatusOK {
		t.Errorf("on a newer schema the API answers %d %s, %v", status, body, err)
	}
	for _, migrate := range []bool{false, true} {
		c := s.Config
		c.Migrate = migrate
		other, err := server.Start(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil {
			other.Stop(context.Background())
			t.Errorf("a program has started on a schema newer than itself (migrate: %v)", migrate)
		} else if !strings.Contains(err.Error(), "schema is newer than this program") {
			t.Errorf("migrate %v: %v", migrate, err)
		}
	}
	exec(`delete from migrations where name = '9999_later'`)
	expect("as it was", http.StatusOK, "ready")
	exec(`delete from migrations where name = (select max(name) from migrations)`)
	expect("before the migration", http.StatusServiceUnavailable, "waybill migrate")
}

func TestDrainIsRead(t *testing.T) {
	t.Parallel()
	env := map[string]string{"WAYBILL_SECRET_KEYS": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "WAYBILL_PLATFORM_KEY": strings.Repeat("k", 40),
		"WAYBILL_URL": "https://hooks.example.com"}
	for _, c := range []struct{ set, development, want string }{
		{"", "", "5s"}, {"", "true", "0s"}, {"12s", "true", "12s"}, {"0s", "", "0s"}, {"10", "", ""}, {"-1s", "", ""}, {"6m", "", ""}, {"soon", "", ""},
	} {
		env["WAYBILL_DRAIN"], env["WAYBILL_ALLOW_HTTP"] = c.set, c.development
		config, err := server.FromEnv(func(name string) string { return env[name] }, nil)
		got := ""
		if err == nil {
			got = fmt.Sprint(config.Drain)
		} else if !strings.Contains(err.Error(), "WAYBILL_DRAIN: must be 0s to 5m") {
			t.Errorf("%+v: %v", c, err)
		}
		if got != c.want {
			t.Errorf("WAYBILL_DRAIN=%s, development %q: %q, want %q", c.set, c.development, got, c.want)
		}
	}
}
