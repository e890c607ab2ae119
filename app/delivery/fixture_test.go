package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db/dbtest"
)

// house is a service on a database of its own, with a tenant and a stranger.
type house struct {
	*Service
	t        testing.TB
	pool     *pgxpool.Pool
	tenant   dbtest.Tenant
	caller   account.Caller
	stranger account.Caller
	lanes    *lanesSpy
}

func newHouse(t testing.TB) *house {
	t.Helper()
	pool := dbtest.New(t)
	key := make([]byte, seal.KeySize)
	ring, err := seal.NewRing(key)
	if err != nil {
		t.Fatal(err)
	}
	accounts := &account.Service{DB: pool, Now: time.Now, KnowsPreset: func(string) bool { return true }}
	h := &house{t: t, pool: pool, lanes: &lanesSpy{}}
	h.Service = &Service{DB: pool, Ring: ring, Policies: policy.Builtin(), Lanes: h.lanes, Audit: accounts}
	h.tenant = dbtest.AddTenant(t, pool, dbtest.Tenant{})
	h.caller = keyOf(h.tenant)
	h.stranger = keyOf(dbtest.AddTenant(t, pool, dbtest.Tenant{}))
	return h
}

// keyOf is a key of the tenant that may do all that a key can, or only the scopes named.
func keyOf(tenant dbtest.Tenant, scopes ...account.Scope) account.Caller {
	if scopes == nil {
		scopes = account.KeyScopes()
	}
	return account.Caller{Kind: account.TenantKey, ID: "key_1", Name: "main", TenantID: tenant.ID, TenantUID: tenant.UID, Scopes: scopes}
}

// lanesSpy locks lanes for real and remembers which were woken.
type lanesSpy struct {
	woken [][]string
	fail  error // what Wake returns
}

func (l *lanesSpy) Lock(ctx context.Context, tx pgx.Tx, endpointIDs ...string) error {
	_, err := tx.Exec(ctx, `select from lanes where endpoint_id = any($1) order by endpoint_id for no key update`, endpointIDs)
	return err
}

func (l *lanesSpy) Wake(_ context.Context, _ pgx.Tx, endpointIDs, _ []string) error {
	if l.fail != nil {
		return l.fail
	}
	l.woken = append(l.woken, endpointIDs)
	return nil
}

func (l *lanesSpy) Settle(context.Context, string, int64) error { return nil }

func (h *house) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

// one is the single value that the query returns.
func one[T any](h *house, sql string, args ...any) T {
	h.t.Helper()
	var value T
	if err := h.pool.QueryRow(h.t.Context(), sql, args...).Scan(&value); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func wantKind(t testing.TB, err error, kind fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != kind {
		t.Errorf("%v, want a fault of kind %s", err, kind)
	}
}

// quietLanes is lanesSpy for callers at once.
type quietLanes struct{ *lanesSpy }

func (quietLanes) Wake(context.Context, pgx.Tx, []string, []string) error { return nil }
