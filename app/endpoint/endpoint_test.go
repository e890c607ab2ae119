package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/egress"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db/dbtest"
)

// watched are lanes that note what they are asked, on the true rows.
type watched struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	log  []string
	fail error // what Wake returns
}

func (w *watched) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *watched) notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

func (w *watched) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	w.note("lock")
	_, err := tx.Exec(ctx, "select from lanes where endpoint_id = any($1) order by endpoint_id for no key update", ids)
	return err
}

func (w *watched) Wake(context.Context, pgx.Tx, []string, []string) error {
	w.note("wake")
	return w.fail
}

// Settle sees what the change committed: before that there is nothing to settle.
func (w *watched) Settle(ctx context.Context, endpointID string, rev int64) error {
	var stored int64
	if err := w.pool.QueryRow(ctx, "select rev from endpoints where id = $1", endpointID).Scan(&stored); err != nil {
		return err
	}
	w.note("settle %d of %d", rev, stored)
	return nil
}

// sentTests keeps test events instead of an outbox.
type sentTests struct {
	mu   sync.Mutex
	sent []Test
}

func (s *sentTests) AddTest(_ context.Context, _ pgx.Tx, test Test) (string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, test)
	return id.New(id.Event, time.Now()), id.New(id.Delivery, time.Now()), nil
}

type bench struct {
	*Service
	accounts *account.Service
	lanes    *watched
	tests    *sentTests
	logs     *bytes.Buffer
	tenants  int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	pool := dbtest.New(t)
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	knows := func(name string) bool { return name == "commerce" }
	b := &bench{
		accounts: &account.Service{DB: pool, Now: time.Now, KnowsPreset: knows},
		lanes:    &watched{pool: pool}, tests: &sentTests{}, logs: &bytes.Buffer{},
	}
	b.Service = &Service{
		DB: pool, Audit: b.accounts, Ring: ring, Lanes: b.lanes, Tests: b.tests, URLs: egress.URLOptions{}, KnowsPreset: knows, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(b.logs, nil)),
	}
	return b
}

// seller is a caller with every right of a key, in a tenant of its own.
func (b *bench) seller(t *testing.T) account.Caller {
	t.Helper()
	b.tenants++
	tenant := dbtest.AddTenant(t, b.DB, dbtest.Tenant{})
	return account.Caller{Kind: account.TenantKey, ID: "key_seller", Name: "seller", TenantID: tenant.ID, TenantUID: tenant.UID, Scopes: account.KeyScopes()}
}

// platform is the platform's caller in the seller's tenant.
func platform(seller account.Caller) account.Caller {
	seller.Kind, seller.ID, seller.Scopes = account.PlatformKey, "key_platform", account.PlatformScopes()
	return seller
}

func (b *bench) create(t *testing.T, caller account.Caller, in Input) Created {
	t.Helper()
	if in.URL == "" {
		in.URL = "https://seller.example/hooks"
	}
	if in.Types == nil {
		in.Types = []string{"*"}
	}
	made, err := b.Create(t.Context(), caller, in)
	if err != nil {
		t.Fatal(err)
	}
	b.lanes.notes()
	return made
}

func wantKind(t *testing.T, err error, want fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != want {
		t.Fatalf("error is %v, want %s", err, want)
	}
}

func wantFields(t *testing.T, err error, want ...string) {
	t.Helper()
	wantKind(t, err, fault.Invalid)
	var names []string
	for _, field := range fault.From(err).Fields {
		names = append(names, field.Name)
	}
	if !slices.Equal(names, want) {
		t.Fatalf("wrong fields %q, want %q: %v", names, want, err)
	}
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.DB.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// tables is how many rows every table has that an operation here may write, and the sum of all revisions.
func (b *bench) tables(t *testing.T) string {
	t.Helper()
	var text string
	err := b.DB.QueryRow(t.Context(), `select format('endpoints %s, revisions %s, subscriptions %s, lanes %s, secrets %s %s, header sets %s',
		(select count(*) from endpoints where deleted_at is null), (select sum(rev) from endpoints), (select count(*) from subscriptions),
		(select count(*) from lanes), (select count(*) from signing_secrets), (select count(expires_at) from signing_secrets),
		(select count(*) from header_sets))`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// leavesNothing runs op once while nothing can be recorded and once while no lane can be woken, so that it fails at its end, and checks that nothing
// is left behind.
func (b *bench) leavesNothing(t *testing.T, name string, wakes bool, op func(ctx context.Context) error) {
	t.Helper()
	before := b.tables(t)
	b.exec(t, "alter table audit rename to audit_away")
	err := op(t.Context())
	b.exec(t, "alter table audit_away rename to audit")
	if fault.KindOf(err) != fault.Internal {
		t.Errorf("%s, not recorded: %v", name, err)
	}
	if after := b.tables(t); after != before {
		t.Errorf("%s failed and left\n%s\ninstead of\n%s", name, after, before)
	}
	if !wakes {
		return
	}
	b.lanes.fail = errors.New("no tickets today")
	err = op(t.Context())
	b.lanes.fail = nil
	if !strings.Contains(fmt.Sprint(err), "no tickets today") {
		t.Errorf("%s, not woken: %v", name, err)
	}
	if after := b.tables(t); after != before {
		t.Errorf("%s failed and left\n%s\ninstead of\n%s", name, after, before)
	}
}

func TestFailedOperationsLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{Headers: []Header{{Name: "X-Shop", Value: "1"}}})
	rotated, err := b.Rotate(t.Context(), seller, e.ID, Rotation{})
	if err != nil {
		t.Fatal(err)
	}
	old, url, headers := rotated.Secrets[1].ID, "https://other.example/", []Header{{Name: "X-New", Value: "2"}}
	b.leavesNothing(t, "create", false, func(ctx context.Context) error {
		_, err := b.Create(ctx, seller, Input{URL: url, Types: []string{"a.b"}, Headers: headers})
		return err
	})
	b.leavesNothing(t, "update", true, func(ctx context.Context) error {
		_, err := b.Update(ctx, seller, e.ID, Change{URL: &url, Types: []string{"a.b", "c"}, Headers: &headers})
		return err
	})
	b.leavesNothing(t, "pause", true, func(ctx context.Context) error { _, err := b.Pause(ctx, seller, e.ID); return err })
	b.leavesNothing(t, "disable", true, func(ctx context.Context) error { _, err := b.Disable(ctx, seller, e.ID); return err })
	b.leavesNothing(t, "delete", true, func(ctx context.Context) error { return b.Delete(ctx, seller, e.ID) })
	b.leavesNothing(t, "rotate", true, func(ctx context.Context) error { _, err := b.Rotate(ctx, seller, e.ID, Rotation{}); return err })
	b.leavesNothing(t, "expire", true, func(ctx context.Context) error { return b.SecretExpire(ctx, seller, e.ID, old) })
	b.leavesNothing(t, "reveal", false, func(ctx context.Context) error { _, err := b.SecretReveal(ctx, seller, e.ID, old); return err })
	b.leavesNothing(t, "reveal headers", false, func(ctx context.Context) error { _, err := b.HeadersReveal(ctx, seller, e.ID); return err })
	b.leavesNothing(t, "test", false, func(ctx context.Context) error { _, err := b.SendTest(ctx, seller, e.ID, TestInput{}); return err })
	if got, err := b.Read(t.Context(), seller, e.ID); err != nil || got.State != Active || got.URL != e.URL {
		t.Errorf("afterwards %+v, %v", got, err)
	}
}

// calls are all operations on one endpoint.
func (b *bench) calls(endpointID, secretID string) map[string]func(context.Context, account.Caller) error {
	url := "https://other.example/"
	return map[string]func(context.Context, account.Caller) error{
		"read": func(ctx context.Context, c account.Caller) error { _, err := b.Read(ctx, c, endpointID); return err },
		"update": func(ctx context.Context, c account.Caller) error {
			_, err := b.Update(ctx, c, endpointID, Change{URL: &url})
			return err
		},
		"pause":   func(ctx context.Context, c account.Caller) error { _, err := b.Pause(ctx, c, endpointID); return err },
		"disable": func(ctx context.Context, c account.Caller) error { _, err := b.Disable(ctx, c, endpointID); return err },
		"enable":  func(ctx context.Context, c account.Caller) error { _, err := b.Enable(ctx, c, endpointID); return err },
		"delete":  func(ctx context.Context, c account.Caller) error { return b.Delete(ctx, c, endpointID) },
		"secrets": func(ctx context.Context, c account.Caller) error { _, err := b.Secrets(ctx, c, endpointID); return err },
		"rotate": func(ctx context.Context, c account.Caller) error {
			_, err := b.Rotate(ctx, c, endpointID, Rotation{})
			return err
		},
		"reveal": func(ctx context.Context, c account.Caller) error {
			_, err := b.SecretReveal(ctx, c, endpointID, secretID)
			return err
		},
		"expire": func(ctx context.Context, c account.Caller) error { return b.SecretExpire(ctx, c, endpointID, secretID) },
		"headers": func(ctx context.Context, c account.Caller) error {
			_, err := b.HeadersReveal(ctx, c, endpointID)
			return err
		},
		"test": func(ctx context.Context, c account.Caller) error {
			_, err := b.SendTest(ctx, c, endpointID, TestInput{})
			return err
		},
	}
}

func TestAnotherTenantsEndpointIsNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.seller(t), b.seller(t)
	theirs := b.create(t, one, Input{Headers: []Header{{Name: "Authorization", Value: "Bearer x"}}})
	mine := b.create(t, two, Input{})
	rotated, err := b.Rotate(t.Context(), one, theirs.ID, Rotation{})
	if err != nil {
		t.Fatal(err)
	}
	old := rotated.Secrets[1].ID
	b.lanes.notes()
	before := b.tables(t)
	for name, call := range b.calls(theirs.ID, old) {
		theirError, noError := call(t.Context(), two), b.calls(id.New(id.Endpoint, time.Now()), old)[name](t.Context(), two)
		if fault.KindOf(theirError) != fault.NotFound || fault.From(theirError).Detail != fault.From(noError).Detail {
			t.Errorf("%s: %v, and of none at all %v", name, theirError, noError)
		}
		if err := call(t.Context(), platform(two)); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s by the platform in the wrong tenant: %v", name, err)
		}
	}
	if log := b.lanes.notes(); len(log) != 0 {
		t.Errorf("another tenant's lane was touched: %q", log)
	}
	// Another's secret under one's own endpoint.
	for _, name := range []string{"reveal", "expire"} {
		if err := b.calls(mine.ID, old)[name](t.Context(), two); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s another's secret: %v", name, err)
		}
	}
	if after := b.tables(t); after != before {
		t.Errorf("something changed: %s, before %s", after, before)
	}
	if list, _, err := b.List(t.Context(), two, "", "", 10); err != nil || len(list) != 1 || list[0].ID != mine.ID {
		t.Errorf("listed %+v, %v", list, err)
	}
	// In no tenant at all there is nothing.
	nowhere := platform(two)
	nowhere.TenantID = ""
	if _, err := b.Read(t.Context(), nowhere, mine.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("read from nowhere: %v", err)
	}
}

func TestEveryOperationChecksItsRight(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	needs := map[string]account.Scope{
		"read": account.EndpointsRead, "secrets": account.EndpointsRead, "reveal": account.SecretsReveal, "headers": account.SecretsReveal,
	}
	for name, call := range b.calls(e.ID, "sec_x") {
		scope := needs[name]
		if scope == "" {
			scope = account.EndpointsWrite
		}
		weak := seller
		weak.Scopes = slices.DeleteFunc(account.KeyScopes(), func(s account.Scope) bool {
			return s == scope || scope == account.EndpointsRead && s == account.EndpointsWrite
		})
		if err := call(t.Context(), weak); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s without %s: %v", name, scope, err)
		}
		if err := call(t.Context(), account.Caller{}); fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%s by nobody: %v", name, err)
		}
	}
	reader := seller
	reader.Scopes = []account.Scope{account.EndpointsRead}
	_, err := b.Create(t.Context(), reader, Input{URL: "https://a.example/", Types: []string{"*"}})
	wantKind(t, err, fault.Forbidden)
	reader.Scopes = []account.Scope{account.DeliveriesRead}
	_, _, err = b.List(t.Context(), reader, "", "", 10)
	wantKind(t, err, fault.Forbidden)
}

func TestNonsenseIDsAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	e := b.create(t, seller, Input{})
	for _, nonsense := range []string{"", "ep_", "ep_\x00", e.ID + "\x00", "\xff", strings.ToLower(e.ID), " " + e.ID, strings.Repeat("e", 10_000)} {
		for name, call := range b.calls(nonsense, "sec_x") {
			if err := call(t.Context(), seller); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s of %.20q: %v", name, nonsense, err)
			}
		}
		for _, name := range []string{"reveal", "expire"} {
			if err := b.calls(e.ID, nonsense)[name](t.Context(), seller); fault.KindOf(err) != fault.NotFound {
				t.Errorf("%s of secret %.20q: %v", name, nonsense, err)
			}
		}
	}
}

func TestListTurnsPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seller := b.seller(t)
	var want []string
	for i := range 7 {
		e := b.create(t, seller, Input{Description: fmt.Sprint(i)})
		want = append([]string{e.ID}, want...)
		if i%2 == 0 {
			if _, err := b.Pause(t.Context(), seller, e.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	walk := func(state State, size int) []string {
		var got []string
		after := ""
		for range 10 {
			page, next, err := b.List(t.Context(), seller, state, after, size)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page {
				got = append(got, e.ID)
			}
			if after = next; after == "" {
				return got
			}
		}
		t.Fatal("the list does not end")
		return nil
	}
	for _, size := range []int{1, 3, 7, 200} {
		if got := walk("", size); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q, want %q", size, got, want)
		}
	}
	if got := walk(Paused, 2); !slices.Equal(got, []string{want[0], want[2], want[4], want[6]}) {
		t.Errorf("paused: %q", got)
	}
	_, next, err := b.List(t.Context(), seller, "", "", 2)
	if err != nil {
		t.Fatal(err)
	}
	// Deleted rows, the cursor's own among them, are no trouble.
	for _, endpointID := range want[1:3] {
		if err := b.Delete(t.Context(), seller, endpointID); err != nil {
			t.Fatal(err)
		}
	}
	page, _, err := b.List(t.Context(), seller, "", next, 2)
	if err != nil || len(page) != 2 || page[0].ID != want[3] {
		t.Errorf("went on with %+v, %v", page, err)
	}
	for _, bad := range []string{"x", next[:len(next)-2], strings.Repeat("A", 10_000)} {
		_, _, err := b.List(t.Context(), seller, "", bad, 2)
		wantKind(t, err, fault.Malformed)
	}
	// Another tenant's cursor turns the pages of one's own list.
	other := b.seller(t)
	own := b.create(t, other, Input{})
	if page, _, err := b.List(t.Context(), other, "", next, 5); err != nil || slices.ContainsFunc(page, func(e Endpoint) bool { return e.ID != own.ID }) {
		t.Errorf("a stranger listed %+v, %v", page, err)
	}
}
