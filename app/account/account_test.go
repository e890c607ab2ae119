package account

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/app/fault"
	"waybill/app/notice"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
)

const bootstrapKey = seal.Secret("a-platform-key-of-32-characters!")

func newService(t *testing.T) *Service {
	t.Helper()
	ring, err := seal.NewRing(bytes.Repeat([]byte{7}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	pool := dbtest.New(t)
	return &Service{DB: pool, Now: time.Now, KnowsPreset: func(name string) bool { return name == "commerce" },
		Mails: &notice.Outbox{DB: pool, Ring: ring, URL: "https://waybill.test", Now: time.Now}, Ring: ring}
}

// platform is a caller with every right of the platform.
func platform() Caller {
	return Caller{Kind: PlatformKey, ID: "key_platform", Name: "test", Scopes: PlatformScopes()}
}

// in is the platform at work in a tenant that is made for the test.
func (s *Service) in(t *testing.T, uid string) Caller {
	t.Helper()
	tenant, err := s.TenantPut(t.Context(), platform(), uid, TenantInput{Name: uid})
	if err != nil {
		t.Fatal(err)
	}
	return platform().In(tenant)
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

func count(t *testing.T, pool db.Pool, table string) int {
	t.Helper()
	var n int
	if err := pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// withoutAudit runs op while nothing can be recorded, so that it fails at its end, and checks that the table has as many rows as before.
func withoutAudit(t *testing.T, pool db.Pool, table string, op func(ctx context.Context) error) {
	t.Helper()
	before := count(t, pool, table)
	exec(t, pool, "alter table audit rename to audit_away")
	err := op(t.Context())
	exec(t, pool, "alter table audit_away rename to audit")
	wantKind(t, err, fault.Internal)
	if after := count(t, pool, table); after != before {
		t.Errorf("a failed operation changed %s from %d rows to %d", table, before, after)
	}
}

func exec(t *testing.T, pool db.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// actions are a tenant's activity log, newest first.
func (s *Service) actions(t *testing.T, caller Caller) []string {
	t.Helper()
	entries, _, err := s.AuditList(t.Context(), caller, AuditFilter{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, entry := range entries {
		actions = append(actions, entry.Action)
	}
	return actions
}

func TestCan(t *testing.T) {
	t.Parallel()
	member := Caller{Kind: Session, Scopes: Developer.Scopes()}
	suspended := Caller{Kind: TenantKey, Scopes: KeyScopes(), Suspended: true}
	for name, c := range map[string]struct {
		caller Caller
		scope  Scope
		want   fault.Kind
	}{
		"nobody":                         {Caller{}, CatalogRead, fault.Unauthenticated},
		"nobody with scopes":             {Caller{Scopes: KeyScopes()}, CatalogRead, fault.Unauthenticated},
		"has it":                         {Caller{Kind: TenantKey, Scopes: []Scope{CatalogRead}}, CatalogRead, ""},
		"lacks it":                       {Caller{Kind: TenantKey, Scopes: []Scope{CatalogRead}}, DeliveriesRead, fault.Forbidden},
		"the larger includes":            {Caller{Kind: TenantKey, Scopes: []Scope{EndpointsWrite}}, EndpointsRead, ""},
		"the smaller does not":           {Caller{Kind: TenantKey, Scopes: []Scope{EndpointsRead}}, EndpointsWrite, fault.Forbidden},
		"system":                         {Waybill("retention", "tnt_x"), TypesWrite, ""},
		"developer and the team":         {member, TeamWrite, fault.Forbidden},
		"developer and keys":             {member, KeysWrite, ""},
		"tenant key and the platform":    {Caller{Kind: TenantKey, Scopes: KeyScopes()}, EventsPublish, fault.Forbidden},
		"suspended reads":                {suspended, DeliveriesRead, ""},
		"suspended writes":               {suspended, EndpointsWrite, fault.Forbidden},
		"suspended reveals":              {suspended, SecretsReveal, fault.Forbidden},
		"the platform in such a tenant":  {Caller{Kind: PlatformKey, Scopes: PlatformScopes(), Suspended: true}, EndpointsWrite, ""},
		"the platform publishes":         {platform(), EventsPublish, ""},
		"the platform and a tenant's":    {platform(), SecretsReveal, ""},
		"the platform and people's team": {platform(), TeamWrite, fault.Forbidden},
	} {
		if got := fault.KindOf(c.caller.Can(c.scope)); got != c.want {
			t.Errorf("%s: Can(%s) is %q, want %q", name, c.scope, got, c.want)
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	roles := Roles()
	for i, role := range roles[1:] {
		for _, scope := range role.Scopes() {
			if !has(roles[i].Scopes(), scope) {
				t.Errorf("%s may %s, and %s may not", role, scope, roles[i])
			}
		}
	}
	for _, scope := range Viewer.Scopes() {
		if !slices.Contains(reads, scope) {
			t.Errorf("a viewer may %s, which is no reading", scope)
		}
	}
	if Role("stranger").Scopes() != nil {
		t.Error("an unknown role has rights")
	}
}

func TestInKeepsATenantsCallerAtHome(t *testing.T) {
	t.Parallel()
	there := Tenant{ID: "tnt_2", UID: "two"}
	if c := (Caller{Kind: TenantKey, TenantID: "tnt_1", TenantUID: "one"}).In(there); c.Tenant() != "tnt_1" || c.TenantUID != "one" {
		t.Errorf("a tenant's key works in %s", c.Tenant())
	}
	if c := platform().In(there); c.Tenant() != "tnt_2" || c.TenantUID != "two" {
		t.Errorf("the platform works in %q", c.Tenant())
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	for want, caller := range map[string]Caller{
		"platform key bootstrap": {Kind: PlatformKey, Name: "bootstrap"},
		"API key laptop":         {Kind: TenantKey, Name: "laptop"},
		"anna@example.com":       {Kind: Session, Name: "anna@example.com"},
		"waybill":                Waybill("retention", ""),
		"nobody":                 {},
	} {
		if got := caller.Actor(); got != want {
			t.Errorf("Actor() = %q, want %q", got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token, hash := newToken(tenantKeyPrefix)
		text := token.Reveal()
		if len(text) != 44 || !plausible(text) || seen[text] || string(hash) != string(hashOf(text)) {
			t.Fatalf("token %q, hash %x", text, hash)
		}
		if strings.Trim(text[4:], "0123456789abcdefghjkmnpqrstvwxyz") != "" {
			t.Fatalf("token %q has other letters", text)
		}
		seen[text] = true
	}
}
