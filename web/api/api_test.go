package api

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/lane"
	"waybill/app/limit"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
)

const platformKey = "platform-key-for-tests-0123456789"

// bench is an API on a database of its own, behind a real server.
type bench struct {
	*API
	server *httptest.Server
	logs   *safeBuffer
}

type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// lanes locks the true rows and wakes nobody: there are no workers here.
type lanes struct{ pool db.Pool }

func (l lanes) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	return lane.Lock(ctx, tx, ids...)
}
func (l lanes) Wake(context.Context, pgx.Tx, []string, []string) error { return nil }
func (l lanes) Settle(ctx context.Context, endpointID string, rev int64) error {
	return lane.Settle(ctx, l.pool, endpointID, rev)
}

type tests struct{}

func (tests) AddTest(ctx context.Context, tx pgx.Tx, t endpoint.Test) (string, string, error) {
	return outbox.AddTest(ctx, tx, time.Now(), outbox.Test(t))
}

func knowsPreset(name string) bool { return name == "standard" || name == "commerce" }

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, dbtest.New(t), time.Now)
}

func newBenchOn(t *testing.T, pool *pgxpool.Pool, now func() time.Time) *bench {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{logs: &safeBuffer{}}
	log := slog.New(slog.NewJSONHandler(b.logs, nil))
	wall := dbtest.Wall(t, pool, nil)
	accounts := &account.Service{DB: wall, Now: time.Now, KnowsPreset: knowsPreset}
	events := &catalog.Events{DB: wall, Feed: catalog.NewFeed(pool, log, accounts.KeysAlive)}
	b.API = New(Config{
		URL: "https://waybill.test", Log: log, Now: now, DB: pool, Ring: ring, Accounts: accounts,
		Endpoints: &endpoint.Service{
			DB: wall, Audit: accounts, Ring: ring, Lanes: lanes{wall}, Tests: tests{}, KnowsPreset: knowsPreset, Now: time.Now, Log: log,
		},
		Types:      &catalog.Types{DB: pool, Accounts: accounts},
		Events:     events,
		Consumers:  &catalog.Consumers{Events: events, Accounts: accounts},
		Deliveries: &delivery.Service{DB: wall, Ring: ring, Policies: policy.Builtin(), Lanes: lanes{wall}, Audit: accounts, Recoveries: recoveries{}},
		Limits:     &limit.Service{DB: wall, Audit: accounts, Now: time.Now, MinDays: 30, MaxDays: 90},
	})
	if err := accounts.Bootstrap(t.Context(), seal.Secret(platformKey)); err != nil {
		t.Fatal(err)
	}
	b.server = httptest.NewServer(b.API)
	t.Cleanup(b.server.Close)
	t.Cleanup(b.API.Close)
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends one request with a JSON body (none, if it is empty).
func (b *bench) call(t *testing.T, key, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	got := send(t, r)
	b.conform(t, r, got)
	return got
}

func send(t *testing.T, r *http.Request) answer {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}
