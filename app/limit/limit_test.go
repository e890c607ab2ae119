package limit

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

type house struct {
	*Service
	pool   *pgxpool.Pool
	tenant account.Tenant
	caller account.Caller
	clock  atomic.Int64 // added to the time
}

func newHouse(t *testing.T) *house {
	pool := dbtest.New(t)
	row := dbtest.AddTenant(t, pool, dbtest.Tenant{UID: "shop-1"})
	h := &house{pool: pool, tenant: account.Tenant{ID: row.ID, UID: row.UID},
		caller: account.Caller{Kind: account.PlatformKey, Name: "main", Scopes: account.PlatformScopes()}}
	h.Service = &Service{DB: pool, Audit: &account.Service{DB: pool, Now: time.Now}, MinDays: 30, MaxDays: 90, Now: func() time.Time { return time.Now().Add(time.Duration(h.clock.Load())) }}
	return h
}

func n[T any](v T) *T { return &v }

func TestPutKeepsWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	put := func(c Change, want Limits) {
		t.Helper()
		got, err := h.Put(t.Context(), h.caller, h.tenant, c)
		if err != nil || got != want {
			t.Errorf("%+v gives %+v, %v", c, got, err)
		}
	}
	put(Change{}, Limits{})
	put(Change{Endpoints: n(3), EventsPerDay: n(int64(1000))}, Limits{Endpoints: 3, EventsPerDay: 1000})
	put(Change{EventsPerSecond: n(50), EventsPerDaySoft: n(int64(800)), PayloadBytes: n(1000), RetentionDays: n(40)},
		Limits{Endpoints: 3, EventsPerDay: 1000, EventsPerSecond: 50, EventsPerDaySoft: 800, PayloadBytes: 1000, RetentionDays: 40})
	put(Change{Endpoints: n(0)}, Limits{EventsPerDay: 1000, EventsPerSecond: 50, EventsPerDaySoft: 800, PayloadBytes: 1000, RetentionDays: 40})
	put(Change{Endpoints: n(0)}, Limits{EventsPerDay: 1000, EventsPerSecond: 50, EventsPerDaySoft: 800, PayloadBytes: 1000, RetentionDays: 40})
	var logged int
	if err := h.pool.QueryRow(t.Context(), `select count(*) from audit where tenant_id = $1 and action = 'tenant.limits_changed'`, h.tenant.ID).Scan(&logged); err != nil || logged != 3 {
		t.Errorf("%d lines in the log, %v", logged, err)
	}
	for name, c := range map[string]Change{
		"shorter than the resend window": {RetentionDays: n(29)}, "longer than the policy": {RetentionDays: n(91)}, "negative": {EventsPerSecond: n(-1)},
		"more than any may have": {PayloadBytes: n(MaxPayload + 1)},
	} {
		if _, err := h.Put(t.Context(), h.caller, h.tenant, c); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	tenant := account.Caller{Kind: account.Session, TenantID: h.tenant.ID, TenantUID: h.tenant.UID, Scopes: account.Owner.Scopes()}
	if _, err := h.Put(t.Context(), tenant, h.tenant, Change{}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("an owner's: %v", err)
	}
	if u, err := h.Usage(t.Context(), tenant); err != nil || u.EventsPerDay != 1000 {
		t.Errorf("%+v %v", u, err)
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	other := dbtest.AddTenant(t, h.pool, dbtest.Tenant{})
	if _, err := h.Put(t.Context(), h.caller, h.tenant, Change{EventsPerDay: n(int64(10)), EventsPerDaySoft: n(int64(5)), PayloadBytes: n(100), EventsPerSecond: n(4)}); err != nil {
		t.Fatal(err)
	}
	admit := func(uid string, count, bytes int) (time.Duration, fault.Kind) {
		t.Helper()
		events := make([]Event, count)
		for i := range events {
			events[i] = Event{Tenant: uid, Bytes: bytes}
		}
		wait, err := h.Admit(t.Context(), events)
		return wait, fault.KindOf(err)
	}
	if _, kind := admit(other.UID, 1000, 1<<20); kind != "" {
		t.Errorf("a tenant without limits is refused: %s", kind)
	}
	if _, kind := admit("nobody", 1, 1); kind != "" {
		t.Errorf("an unknown tenant is not for limits to refuse: %s", kind)
	}
	if _, kind := admit("shop-1", 1, 101); kind != fault.TooLarge {
		t.Errorf("a payload too large: %q", kind)
	}
	if wait, kind := admit("shop-1", 9, 10); kind != fault.RateLimited || wait != 0 {
		t.Errorf("more in one call than in two seconds: %q %s", kind, wait)
	}
	if _, kind := admit("shop-1", 4, 100); kind != "" {
		t.Errorf("what is allowed: %q", kind)
	}
	if _, kind := admit("shop-1", 4, 100); kind != "" {
		t.Errorf("what is allowed: %q", kind)
	}
	if wait, kind := admit("shop-1", 1, 100); kind != fault.RateLimited || wait != time.Second {
		t.Errorf("a ninth in the same moment: %q %s", kind, wait)
	}
	if level, used, _ := h.Day(t.Context(), "shop-1"); level != Soft || used != 8 {
		t.Errorf("level %d with %d", level, used)
	}
	h.clock.Add(int64(time.Second))
	if wait, kind := admit("shop-1", 3, 100); kind != fault.RateLimited || wait <= 0 || wait > 24*time.Hour {
		t.Errorf("an eleventh of the day: %q %s", kind, wait)
	}
	if _, kind := admit("shop-1", 2, 100); kind != "" {
		t.Errorf("the ninth and tenth: %q", kind)
	}
	if level, _, _ := h.Day(t.Context(), "shop-1"); level != Hard {
		t.Errorf("level %d at the end", level)
	}
	// What the dispatcher has counted is what counts from the next look on.
	if _, err := h.pool.Exec(t.Context(), `insert into tenant_days (tenant_id, day, events) values ($1, (now() at time zone 'UTC')::date, 3)`, h.tenant.ID); err != nil {
		t.Fatal(err)
	}
	h.clock.Add(int64(2 * lookEvery))
	if level, used, _ := h.Day(t.Context(), "shop-1"); level != Free || used != 3 {
		t.Errorf("level %d with %d", level, used)
	}
	h.pool.Close()
	h.clock.Add(int64(2 * lookEvery))
	if _, kind := admit("shop-1", 1, 1); kind != "" {
		t.Errorf("without a database: %q", kind)
	}
}
