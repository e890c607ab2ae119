package operator_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/db/dbtest"
)

// rested locks the true rows and notes whom it would wake.
type rested struct{ woken *[]string }

func (r rested) Lock(ctx context.Context, tx pgx.Tx, ids ...string) error {
	_, err := tx.Exec(ctx, `select from lanes where endpoint_id = any ($1) order by endpoint_id for no key update`, ids)
	return err
}

func (r rested) Wake(_ context.Context, _ pgx.Tx, ids, _ []string) error {
	*r.woken = append(*r.woken, ids...)
	return nil
}

type rig struct {
	*operator.Service
	pool           *pgxpool.Pool
	woken          []string
	admin, support account.Caller
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{pool: dbtest.New(t)}
	accounts := &account.Service{DB: r.pool, Now: time.Now, KnowsPreset: func(string) bool { return true }}
	r.Service = &operator.Service{DB: r.pool, Now: time.Now, Accounts: accounts, Lanes: rested{&r.woken}}
	as := func(email string, role operator.Role) account.Caller {
		made, _, err := r.Add(t.Context(), operator.Command(), email, role)
		if err != nil {
			t.Fatal(err)
		}
		return account.Caller{Kind: account.Operator, ID: made.ID, Name: made.Email, Scopes: role.Scopes()}
	}
	r.admin, r.support = as("admin@platform.example", operator.Admin), as("help@platform.example", operator.Support)
	return r
}

func wantKind(t *testing.T, what string, err error, want fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != want {
		t.Errorf("%s: error is %v, want %s", what, err, want)
	}
}

// TestOperationsAreForOperators: no key, member or role below may do what is not theirs, and nothing is left behind.
func TestOperationsAreForOperators(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	tenant := dbtest.AddTenant(t, r.pool, dbtest.Tenant{})
	key := account.Caller{Kind: account.PlatformKey, ID: "key_1", Name: "key", Scopes: account.PlatformScopes()}
	owner := account.Caller{Kind: account.Session, ID: "ses_1", Name: "owner", TenantID: tenant.ID, TenantUID: tenant.UID, Scopes: account.Owner.Scopes()}
	reads := map[string]func(account.Caller) error{
		"tenants":   func(c account.Caller) error { _, _, err := r.Tenants(ctx, c, "", "", 10); return err },
		"attention": func(c account.Caller) error { _, _, err := r.Attention(ctx, c, 0, "", 10); return err },
		"counts":    func(c account.Caller) error { _, err := r.AttentionCount(ctx, c); return err },
		"incidents": func(c account.Caller) error { _, err := r.Incidents(ctx, c); return err },
		"find":      func(c account.Caller) error { _, err := r.Find(ctx, c, "C-1", "", ""); return err },
		"lag":       func(c account.Caller) error { _, err := r.Lag(ctx, c); return err },
		"log":       func(c account.Caller) error { _, _, err := r.Log(ctx, c, "", "", 10); return err },
		"enter":     func(c account.Caller) error { _, _, err := r.Enter(ctx, c, tenant.UID); return err },
		"usage":     func(c account.Caller) error { _, err := r.Usage(ctx, c); return err },
	}
	writes := map[string]func(account.Caller) error{
		"add":     func(c account.Caller) error { _, _, err := r.Add(ctx, c, "x@y.example", operator.Admin); return err },
		"list":    func(c account.Caller) error { _, err := r.List(ctx, c); return err },
		"remove":  func(c account.Caller) error { return r.Remove(ctx, c, r.support.ID) },
		"suspend": func(c account.Caller) error { return r.Suspend(ctx, c, tenant.UID, false) },
		"key": func(c account.Caller) error {
			_, _, err := r.Accounts.PlatformKeyCreate(ctx, c, account.KeyInput{Name: "k"})
			return err
		},
		"keys": func(c account.Caller) error { _, _, err := r.Accounts.PlatformKeyList(ctx, c, "", 10); return err },
	}
	for name, op := range reads {
		for _, c := range []account.Caller{key, owner, {}} {
			wantKind(t, name+" as "+string(c.Kind), op(c), fault.Forbidden)
		}
		if err := op(r.support); err != nil {
			t.Errorf("%s as support: %v", name, err)
		}
	}
	for name, op := range writes {
		for _, c := range []account.Caller{key, owner, {}, r.support} {
			wantKind(t, name+" as "+string(c.Kind), op(c), fault.Forbidden)
		}
	}
	if _, err := r.Accounts.SupportView(ctx, key.In(account.Tenant{ID: tenant.ID}), "", account.Client{}); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a key looks at a tenant's pages: %v", err)
	}
	for _, scope := range []account.Scope{account.SecretsReveal, account.EndpointsWrite, account.TeamWrite} {
		if slices.Contains(operator.Admin.Scopes(), scope) {
			t.Errorf("an admin has %s", scope)
		}
	}
	var logged int
	if err := r.pool.QueryRow(ctx, `select count(*) from operator_log where operator_id <> ''`).Scan(&logged); err != nil || logged != 0 {
		t.Errorf("%d entries of what was refused, %v", logged, err)
	}
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	wantKind(t, "remove", r.Remove(ctx, r.admin, r.admin.ID), fault.Conflict)
	_, _, err := r.Add(ctx, r.admin, r.admin.Name, operator.Support)
	wantKind(t, "demote", err, fault.Conflict)
	if _, _, err := r.Add(ctx, r.admin, "second@platform.example", operator.Admin); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(ctx, r.admin, r.admin.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "remove twice", r.Remove(ctx, r.admin, r.admin.ID), fault.NotFound)
}

// TestSuspend: every endpoint's lane is woken to hold what is due, running ones are told by the revision, and both logs have it.
func TestSuspend(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	tenant := dbtest.AddTenant(t, r.pool, dbtest.Tenant{})
	one := dbtest.AddEndpoint(t, r.pool, dbtest.Endpoint{TenantID: tenant.ID})
	two := dbtest.AddEndpoint(t, r.pool, dbtest.Endpoint{TenantID: tenant.ID, State: "paused"})
	other := dbtest.AddEndpoint(t, r.pool, dbtest.Endpoint{})
	if err := r.Suspend(ctx, r.admin, tenant.UID, false); err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.woken)
	if want := []string{one.ID, two.ID}; !slices.Equal(r.woken, want) {
		t.Errorf("woken are %v, want %v", r.woken, want)
	}
	revs := func(id string) (rev int) {
		if err := r.pool.QueryRow(ctx, `select rev from endpoints where id = $1`, id).Scan(&rev); err != nil {
			t.Fatal(err)
		}
		return rev
	}
	if revs(one.ID) != 2 || revs(other.ID) != 1 {
		t.Errorf("revisions are %d and, of another tenant, %d", revs(one.ID), revs(other.ID))
	}
	wantKind(t, "twice", r.Suspend(ctx, r.admin, tenant.UID, false), fault.Conflict)
	wantKind(t, "nobody", r.Suspend(ctx, r.admin, "nobody", false), fault.NotFound)
	if err := r.Suspend(ctx, r.admin, tenant.UID, true); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "resumed twice", r.Suspend(ctx, r.admin, tenant.UID, true), fault.Conflict)
	var both int
	if err := r.pool.QueryRow(ctx, `select count(*) from operator_log l join audit a on a.id = l.id and a.action = l.action
		where a.tenant_id = $1 and a.kind = 'operator' and a.actor = 'platform support' and l.operator = 'admin@platform.example'`, tenant.ID).Scan(&both); err != nil || both != 2 {
		t.Errorf("%d entries stand in both logs, %v", both, err)
	}
}

// TestAttention: the worst first, page by page, each endpoint once, and none that is in order.
func TestAttention(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	health := func(e dbtest.Endpoint, phase, failing, class string) {
		_, err := r.pool.Exec(ctx, `insert into endpoint_health (endpoint_id, tenant_id, phase, failing_since, last_at, last_class, last_delivery) values ($1, $2, $3, now() - $4::interval, now(), $5, $6)`,
			e.ID, e.TenantID, phase, failing, class, "dlv_01J00000000000000000000000")
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(url, state, reason string) dbtest.Endpoint {
		return dbtest.AddEndpoint(t, r.pool, dbtest.Endpoint{URL: url, State: state, Reason: reason})
	}
	failing, open, long := at("https://a.example/1", "active", ""), at("https://A.example:8443/2", "active", ""), at("https://b.example/3", "active", "")
	gone, byHand, fine, deleted := at("https://c.example", "disabled", "gone"), at("https://d.example", "disabled", "manual"), at("https://e.example", "active", ""), at("https://f.example", "active", "")
	late := at("https://g.example", "active", "")
	health(failing, "closed", "1 hour", "status")
	health(open, "open", "10 minutes", "dns")
	health(long, "closed", "3 hours", "dns")
	health(deleted, "open", "3 hours", "dns")
	for _, sql := range []string{`update endpoints set deleted_at = now() where id = '` + deleted.ID + `'`, `update lanes set state = 'queued', since = now() - interval '5 minutes' where endpoint_id = '` + late.ID + `'`} {
		if _, err := r.pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{open.ID, long.ID, failing.ID, gone.ID, late.ID}
	var got []string
	for after := ""; ; {
		page, next, err := r.Attention(ctx, r.support, 0, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			got = append(got, p.EndpointID)
		}
		if after = next; after == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v (%s and %s are in order)", got, want, byHand.ID, fine.ID)
	}
	counts, err := r.AttentionCount(ctx, r.support)
	if err != nil || counts[operator.NeedOpen] != 1 || counts[operator.NeedFailing] != 2 || counts[operator.NeedDisabled] != 1 || counts[operator.NeedWaiting] != 1 {
		t.Errorf("counts are %v, %v", counts, err)
	}
	only, _, err := r.Attention(ctx, r.support, operator.NeedDisabled, "", 10)
	if err != nil || len(only) != 1 || only[0].EndpointID != gone.ID {
		t.Errorf("of one need: %v, %v", only, err)
	}
	_, _, err = r.Attention(ctx, r.support, 0, "nonsense", 10)
	wantKind(t, "cursor", err, fault.Malformed)
	all, err := r.Incidents(ctx, r.support)
	if err != nil || all.Looked != 3 || len(all.Hosts) != 1 || all.Hosts[0].Key != "a.example" || all.Hosts[0].Tenants != 2 || len(all.Verdicts) != 2 || all.Verdicts[0].Key != "dns" {
		t.Errorf("incidents are %+v, %v", all, err)
	}
}

// TestFindObject: an object is found in every tenant that has it, whatever its type; a search that stopped says so and goes on.
func TestFindObject(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	var tenants []dbtest.Tenant
	for range 3 {
		tenants = append(tenants, dbtest.AddTenant(t, r.pool, dbtest.Tenant{}))
	}
	for i, tenant := range tenants {
		dbtest.AddEvent(t, r.pool, dbtest.Event{TenantID: tenant.ID, ResourceType: "order", ResourceID: "O-1"})
		if i != 1 {
			dbtest.AddEvent(t, r.pool, dbtest.Event{TenantID: tenant.ID, ResourceType: "consignment", ResourceID: "C-4471", ID: "chosen-id"})
		}
	}
	found, err := r.Find(ctx, r.support, " C-4471 ", "", "")
	if err != nil || len(found.Resources) != 2 || found.Pairs != 5 || found.Rest != "" {
		t.Errorf("found %+v, %v", found, err)
	}
	found, err = r.Find(ctx, r.support, "C-4471", tenants[1].UID, "")
	if err != nil || !found.Nothing() {
		t.Errorf("in a tenant without it: %+v, %v", found, err)
	}
	found, err = r.Find(ctx, r.support, "C-4471", tenants[2].UID, "")
	if err != nil || len(found.Resources) != 1 || found.Resources[0].TenantUID != tenants[2].UID {
		t.Errorf("in a tenant with it: %+v, %v", found, err)
	}
	found, err = r.Find(ctx, r.support, "chosen-id", "", "")
	if err != nil || len(found.Events) != 2 {
		t.Errorf("by an id that the platform chose: %+v, %v", found, err)
	}
	_, err = r.Find(ctx, r.support, "C-4471", "nobody", "")
	wantKind(t, "in nobody", err, fault.NotFound)
}

// TestRoll: a day is written once, after its end, whatever is counted later.
func TestRoll(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), t.Context()
	yesterday := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
	e := dbtest.AddEndpoint(t, r.pool, dbtest.Endpoint{})
	dbtest.AddEvent(t, r.pool, dbtest.Event{TenantID: e.TenantID, CreatedAt: yesterday})
	dbtest.AddEvent(t, r.pool, dbtest.Event{TenantID: e.TenantID, CreatedAt: yesterday, Test: true})
	dbtest.AddEvent(t, r.pool, dbtest.Event{TenantID: e.TenantID})
	roll := func() {
		t.Helper()
		if _, err := r.pool.Exec(ctx, `insert into rollups (endpoint_id, slot, tenant_id, delivered, broken) values ($1, $2, $3, 5, 2) on conflict (endpoint_id, slot) do update set delivered = 50`, e.ID, yesterday, e.TenantID); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Roll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	roll()
	roll()
	in := r.support
	in.TenantID = e.TenantID
	usage, err := r.Usage(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if len(usage.Days) != operator.UsageDays || usage.Days[0].Events != 1 {
		t.Errorf("today is %+v", usage.Days[0])
	}
	written := usage.Days[1]
	if time.Now().UTC().Hour() == 0 && time.Now().UTC().Minute() < 40 {
		return // yesterday may not be written yet
	}
	if written.Events != 1 || written.Delivered != 5 || written.Attempted != 7 {
		t.Errorf("yesterday is %+v", written)
	}
}
