package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
)

// again sends a call with an Idempotency-Key.
func (b *bench) again(t *testing.T, key, method, path, body, idempotencyKey string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set(idempotencyHeader, idempotencyKey)
	got := send(t, r)
	b.conform(t, r, got)
	return got
}

func (b *bench) rows(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := b.DB.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

const createBody = `{"url":"https://seller.example/hooks","types":["*"]}`

func TestACallIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, other := b.tenantKey(t, "one", ""), b.tenantKey(t, "two", "")
	first := b.again(t, key, "POST", "/v1/endpoints", createBody, "order-1")
	if first.status != 201 || first.header.Get(replayedHeader) != "" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	second := b.again(t, key, "POST", "/v1/endpoints", createBody, "order-1")
	if second.status != 201 || second.body != first.body || second.header.Get(replayedHeader) != "true" ||
		second.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("the repeat answers %d %v %s\nwant %s", second.status, second.header, second.body, first.body)
	}
	wantProblem(t, b.again(t, key, "POST", "/v1/endpoints", createBody+" ", "order-1"), fault.KeyReused)
	wantProblem(t, b.again(t, key, "POST", "/v1/tenants/one/endpoints", createBody, "order-1"), fault.KeyReused)
	wantProblem(t, b.again(t, key, "POST", "/v1/endpoints", createBody, "a b"), fault.Malformed)
	if n := b.rows(t, `select count(*) from endpoints`); n != 1 {
		t.Errorf("%d endpoints", n)
	}
	// The key is the caller's own.
	if got := b.again(t, other, "POST", "/v1/endpoints", createBody, "order-1"); got.status != 201 || got.body == first.body {
		t.Errorf("another tenant's call: %d %s", got.status, got.body)
	}
	// What is kept holds nothing that can be read.
	secret := field(t, first.body, "secret")
	var kept []byte
	if err := b.DB.QueryRow(t.Context(), `select reply from idempotency_keys where status is not null order by expires_at limit 1`).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(kept, []byte(secret)) || bytes.Contains(kept, []byte("seller")) {
		t.Error("the kept answer is not sealed")
	}
	// No body is kept, and no body is answered.
	id := field(t, first.body, "id")
	for i := range 2 {
		if got := b.again(t, key, "DELETE", "/v1/endpoints/"+id, "", "order-2"); got.status != 204 || got.body != "" {
			t.Errorf("delete %d: %d %q", i, got.status, got.body)
		}
	}
}

func TestARefusedCallLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	wantProblem(t, b.again(t, key, "POST", "/v1/endpoints", `{"url":"ftp://x/","types":["*"]}`, "k"), fault.Invalid)
	if n := b.rows(t, `select count(*) from idempotency_keys`); n != 0 {
		t.Errorf("%d keys are taken", n)
	}
	if got := b.again(t, key, "POST", "/v1/endpoints", createBody, "k"); got.status != 201 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Many at once: one is carried out, and none is answered with anything but its answer or that it is under way.
func TestTheSameCallAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, call := range map[string]struct{ key, path, body string }{
		"endpoint": {b.tenantKey(t, "one", `{"requests_per_second":1000}`), "/v1/endpoints", createBody},
		"event":    {platformKey, "/v1/events", `{"tenant":"one","type":"order.paid","resource":{"type":"order","id":"1"},"data":{}}`},
	} {
		var wait sync.WaitGroup
		var mu sync.Mutex
		bodies, statuses := map[string]int{}, map[int]int{}
		for range 30 {
			wait.Go(func() {
				got := b.again(t, call.key, "POST", call.path, call.body, "at-once")
				mu.Lock()
				defer mu.Unlock()
				statuses[got.status]++
				if got.status != 409 {
					bodies[got.body]++
				} else {
					wantProblem(t, got, fault.InProgress)
				}
			})
		}
		wait.Wait()
		if len(bodies) != 1 || statuses[201]+statuses[202]+statuses[409] != 30 {
			t.Errorf("%s: answers %v with %d bodies", name, statuses, len(bodies))
		}
	}
	if n, m := b.rows(t, `select count(*) from endpoints`), b.rows(t, `select count(*) from outbox`); n != 1 || m != 1 {
		t.Errorf("%d endpoints and %d events", n, m)
	}
}

// A process that dies before the commit leaves nothing; one that dies behind it leaves that the call was carried out.
func TestAProcessThatDiedInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	caller, err := b.Accounts.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, committed := range []bool{false, true} {
		name := fmt.Sprintf("died-%v", committed)
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/v1/endpoints", nil)
		if err != nil {
			t.Fatal(err)
		}
		call, _, err := b.calls.Claim(t.Context(), caller.ID, name, fingerprint(r, []byte(createBody)))
		if err != nil {
			t.Fatal(err)
		}
		wantProblem(t, b.again(t, key, "POST", "/v1/endpoints", createBody, name), fault.InProgress)
		broken := errors.New("died")
		err = db.Tx(call.Bind(t.Context()), b.DB, func(pgx.Tx) error {
			if committed {
				return nil
			}
			return broken
		})
		if committed != (err == nil) {
			t.Fatal(err)
		}
		if _, err := b.DB.Exec(t.Context(), `update idempotency_keys set busy_until = now() - interval '1 second' where key = $1`, name); err != nil {
			t.Fatal(err)
		}
		got := b.again(t, key, "POST", "/v1/endpoints", createBody, name)
		if committed {
			if problem := wantProblem(t, got, fault.InProgress); !strings.Contains(problem.Detail, "was carried out") {
				t.Error(problem.Detail)
			}
			continue
		}
		if got.status != 201 {
			t.Errorf("%d %s", got.status, got.body)
		}
		// The dead one comes back: it is too late.
		if err := db.Tx(call.Bind(t.Context()), b.DB, func(pgx.Tx) error { return nil }); err == nil {
			t.Error("a call that was taken over commits")
		}
	}
}

func TestAKeyIsFreeAfterADay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	first := b.again(t, key, "POST", "/v1/endpoints", createBody, "k")
	if _, err := b.DB.Exec(t.Context(), `update idempotency_keys set expires_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	if got := b.again(t, key, "POST", "/v1/endpoints", createBody+"\n", "k"); got.status != 201 || got.body == first.body {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n, err := b.calls.Prune(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
	if _, err := b.DB.Exec(t.Context(), `update idempotency_keys set expires_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	if n, err := b.calls.Prune(t.Context()); n != 1 || err != nil {
		t.Errorf("%d pruned, %v", n, err)
	}
}

// Every route that changes something takes the key, or says why not: what it commits goes through db.Tx, where the key is noted.
func TestEveryKeyedCallNotesItsKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "one", "")
	reached := false
	ctx := db.WithLast(t.Context(), func(context.Context, pgx.Tx) error { reached = true; return nil })
	caller := account.Waybill("test", "")
	if _, err := b.Accounts.TenantPut(ctx, caller, "three", account.TenantInput{Name: "x"}); err != nil || !reached {
		t.Errorf("%v, reached %v", err, reached)
	}
	for _, route := range b.Routes() {
		unsafe := route.Method != http.MethodGet && route.Method != http.MethodHead
		if unsafe && route.Audience != ForPublic && !route.keyed() && route.NoKey == "" {
			t.Errorf("%s neither takes an Idempotency-Key nor says why not", route.Name)
		}
	}
}
