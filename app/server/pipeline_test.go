package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/id"
	"waybill/app/lane"
	"waybill/app/outbox"
	"waybill/app/seal"
	"waybill/app/server"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

// system is the whole program on a database of its own, with receivers on an address that only its proxy allows.
type system struct {
	*server.Server
	t    testing.TB
	ring *seal.Ring
	keys seal.Secret
	url  string
}

func start(t testing.TB, change ...func(*server.Config)) *system {
	t.Helper()
	sys := &system{t: t, keys: seal.NewKey(), url: dbtest.NewURL(t)}
	sys.ring, _ = seal.ParseRing(sys.keys.Reveal())
	sys.run(change...)
	return sys
}

func (s *system) run(change ...func(*server.Config)) {
	s.t.Helper()
	c := server.Config{
		DatabaseURL: s.url, Addr: "127.0.0.1:0", URL: "http://waybill.test", SecretKeys: s.keys, PlatformKey: "0123456789abcdef0123456789abcdef",
		AllowHTTP: true, EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, Data: s.t.TempDir(), Migrate: true,
	}
	for _, f := range change {
		f(&c)
	}
	level := slog.LevelWarn
	if os.Getenv("WAYBILL_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	srv, err := server.Start(s.t.Context(), c, slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: level})))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Server = srv
	s.t.Cleanup(func() { srv.Stop(context.Background()) })
}

// receiver is an HTTP server on 127.0.0.2 that keeps what it received.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	got  []*received
	seen chan *received
}

type received struct {
	at     time.Time
	header http.Header
	body   []byte
}

func newReceiver(t testing.TB, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{seen: make(chan *received, 100_000)}
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		it := &received{at: time.Now(), header: q.Header.Clone(), body: body}
		r.mu.Lock()
		r.got = append(r.got, it)
		r.mu.Unlock()
		if answer != nil {
			answer(w, q)
		}
		r.seen <- it
	})}}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

// endpoint puts an endpoint in with a secret.
func (s *system) endpoint(row dbtest.Endpoint) (dbtest.Endpoint, signing.Key) {
	s.t.Helper()
	row = dbtest.AddEndpoint(s.t, s.Pool, row)
	key, sid := signing.NewSecret(), id.New(id.Secret, time.Now())
	if _, err := s.Pool.Exec(s.t.Context(), `insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, fingerprint) values ($1, $2, $3, 'hmac', $4, $5)`,
		sid, row.TenantID, row.ID, s.ring.Seal([]byte(key.Reveal()), lane.SecretAAD(sid)), key.Fingerprint()); err != nil {
		s.t.Fatal(err)
	}
	return row, key
}

func (s *system) publish(uid string, events ...outbox.Event) []outbox.Published {
	s.t.Helper()
	for i := range events {
		events[i].Tenant = uid
		if events[i].Type == "" {
			events[i].Type = "consignment.loaded"
		}
		if events[i].ResourceType == "" {
			events[i].ResourceType, events[i].ResourceID = "consignment", fmt.Sprintf("C-%d", i)
		}
		if events[i].Data == nil {
			events[i].Data = []byte(`{"status":"loaded"}`)
		}
	}
	p, err := outbox.Publish(s.t.Context(), s.Pool, events...)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// eventually polls a query that counts until it says want.
func eventually(t testing.TB, pool *pgxpool.Pool, within time.Duration, want int, sql string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		var n int
		if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %d, want %d: %s %v", within, n, want, sql, args)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAnEventArrivesSignedAndRecorded(t *testing.T) {
	t.Parallel()
	sys := start(t)
	tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
	rcv := newReceiver(t, nil)
	ep, key := sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: rcv.URL + "/hooks"})
	p := sys.publish(tenant.UID, outbox.Event{Data: []byte(`{ "b":1, "a":"<b>&é😀\u0000", "n":9007199254740993, "a":2 }`)})

	var got *received
	select {
	case got = <-rcv.seen:
	case <-time.After(5 * time.Second):
		t.Fatal("nothing arrived in 5 s")
	}
	if h := got.header["Webhook-Id"]; len(h) != 1 || h[0] != p[0].ID {
		t.Errorf("webhook-id is %q, want %q", h, p[0].ID)
	}
	if _, err := signing.Verify(got.header, got.body, []signing.Key{key}, time.Now(), 5*time.Minute); err != nil {
		t.Errorf("the signature does not verify: %v", err)
	}
	eventually(t, sys.Pool, 5*time.Second, 1, `select count(*) from deliveries where endpoint_id = $1 and status = 'delivered' and attempts = 1`, ep.ID)
	eventually(t, sys.Pool, 5*time.Second, 1, `select count(*) from attempts where endpoint_id = $1 and class = 'delivered' and code = 200`, ep.ID)
	eventually(t, sys.Pool, 5*time.Second, 0, `select count(*) from due`)
	eventually(t, sys.Pool, 5*time.Second, 1, `select count(*) from lanes where state = 'idle'`)
}
