package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
)

func TestAKeyIsShownOnceAndAuthenticates(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	key, text, err := s.KeyCreate(t.Context(), owner, KeyInput{Name: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.Reveal(), key.Prefix) || len(key.Prefix) != 12 || !slices.Equal(key.Scopes, KeyScopes()) || key.LastUsedAt != nil {
		t.Errorf("made %+v", key)
	}
	var stored string
	if err := s.DB.QueryRow(t.Context(), "select k::text from api_keys k where id = $1", key.ID).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, text.Reveal()[12:]) {
		t.Error("the key itself is stored")
	}
	caller, err := s.Authenticate(t.Context(), text.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if caller.Kind != TenantKey || caller.ID != key.ID || caller.Tenant() != owner.Tenant() || caller.TenantUID != "one" || caller.Name != "laptop" || caller.Suspended {
		t.Errorf("caller %+v", caller)
	}
	keys, _, err := s.KeyList(t.Context(), owner, "", 10)
	if err != nil || len(keys) != 1 || keys[0].LastUsedAt == nil {
		t.Fatalf("listed %+v, %v", keys, err)
	}
	// Used again within the minute, nothing is written.
	if _, err := s.Authenticate(t.Context(), text.Reveal()); err != nil {
		t.Fatal(err)
	}
	again, _, err := s.KeyList(t.Context(), owner, "", 10)
	if err != nil || !again[0].LastUsedAt.Equal(*keys[0].LastUsedAt) {
		t.Errorf("last used %v, then %v, %v", keys[0].LastUsedAt, again[0].LastUsedAt, err)
	}
	if err := s.KeyRevoke(t.Context(), owner, key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Authenticate(t.Context(), text.Reveal())
	wantKind(t, err, fault.Unauthenticated)
	wantKind(t, s.KeyRevoke(t.Context(), owner, key.ID), fault.NotFound)
	if got, want := s.actions(t, owner), []string{"key.revoked", "key.created", "tenant.created"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestKeyCreateRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	past, far, zero, many := time.Now().Add(-time.Second), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), 0, 10_001
	for name, c := range map[string]struct {
		in    KeyInput
		field string
	}{
		"no name":           {KeyInput{}, "name"},
		"name with a NUL":   {KeyInput{Name: "a\x00"}, "name"},
		"name too long":     {KeyInput{Name: strings.Repeat("a", 101)}, "name"},
		"no scopes":         {KeyInput{Name: "a", Scopes: []Scope{}}, "scopes"},
		"unknown scope":     {KeyInput{Name: "a", Scopes: []Scope{CatalogRead, "root"}}, "scopes"},
		"the platform's":    {KeyInput{Name: "a", Scopes: []Scope{EventsPublish}}, "scopes"},
		"people's":          {KeyInput{Name: "a", Scopes: []Scope{KeysWrite}}, "scopes"},
		"expired":           {KeyInput{Name: "a", ExpiresAt: &past}, "expires_at"},
		"expires never":     {KeyInput{Name: "a", ExpiresAt: &far}, "expires_at"},
		"no requests":       {KeyInput{Name: "a", RequestsPerSecond: &zero}, "requests_per_second"},
		"too many requests": {KeyInput{Name: "a", RequestsPerSecond: &many}, "requests_per_second"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := s.KeyCreate(t.Context(), owner, c.in)
			wantFields(t, err, c.field)
		})
	}
	if n := count(t, s.DB, "api_keys"); n != 0 {
		t.Errorf("%d keys were made", n)
	}
}

func TestNobodyGivesWhatTheyLack(t *testing.T) {
	t.Parallel()
	s := newService(t)
	narrow := s.in(t, "one")
	narrow.Scopes = []Scope{KeysWrite, EndpointsWrite}
	key, _, err := s.KeyCreate(t.Context(), narrow, KeyInput{Name: "a"})
	if err != nil || !slices.Equal(key.Scopes, []Scope{EndpointsRead, EndpointsWrite}) {
		t.Errorf("made a key with %q, %v", key.Scopes, err)
	}
	_, _, err = s.KeyCreate(t.Context(), narrow, KeyInput{Name: "a", Scopes: []Scope{SecretsReveal}})
	wantFields(t, err, "scopes")
	narrow.Scopes = []Scope{EndpointsWrite}
	_, _, err = s.KeyCreate(t.Context(), narrow, KeyInput{Name: "a"})
	wantKind(t, err, fault.Forbidden)
	// In no tenant there is nothing to make a key for, and above all no platform key.
	if _, _, err = s.KeyCreate(t.Context(), platform(), KeyInput{Name: "a"}); err == nil {
		t.Error("a key was made outside of any tenant")
	}
}

func TestAnotherTenantsKeysAreNotFound(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	key, text, err := s.KeyCreate(t.Context(), one, KeyInput{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.KeyRevoke(t.Context(), two, key.ID), fault.NotFound)
	for _, nonsense := range []string{"", "key_x", key.ID + " ", id.New(id.Key, time.Now()), "key_\x00"} {
		wantKind(t, s.KeyRevoke(t.Context(), one, nonsense), fault.NotFound)
	}
	if keys, _, err := s.KeyList(t.Context(), two, "", 10); err != nil || len(keys) != 0 {
		t.Errorf("another tenant lists %+v, %v", keys, err)
	}
	if _, err := s.Authenticate(t.Context(), text.Reveal()); err != nil {
		t.Errorf("the key was hurt: %v", err)
	}
}

func TestKeyListTurnsPagesOfOneTenant(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	var want []string
	for i := range 5 {
		key, _, err := s.KeyCreate(t.Context(), one, KeyInput{Name: fmt.Sprint(i)})
		if err != nil {
			t.Fatal(err)
		}
		want = append([]string{key.ID}, want...)
	}
	first, next, err := s.KeyList(t.Context(), one, "", 3)
	if err != nil || next == "" {
		t.Fatalf("%q, %v", next, err)
	}
	rest, last, err := s.KeyList(t.Context(), one, next, 3)
	if err != nil || last != "" {
		t.Fatalf("%q, %v", last, err)
	}
	var got []string
	for _, key := range append(first, rest...) {
		got = append(got, key.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	// The cursor of one tenant pages the other's own rows: none.
	if keys, _, err := s.KeyList(t.Context(), two, next, 3); err != nil || len(keys) != 0 {
		t.Errorf("another tenant lists %+v, %v", keys, err)
	}
	for _, bad := range []string{"x", next + "A", strings.Repeat("a", 10_000)} {
		_, _, err := s.KeyList(t.Context(), one, bad, 3)
		wantKind(t, err, fault.Malformed)
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	soon := time.Now().Add(time.Hour)
	key, text, err := s.KeyCreate(t.Context(), owner, KeyInput{Name: "a", ExpiresAt: &soon})
	if err != nil {
		t.Fatal(err)
	}
	for _, bearer := range []string{"", " ", text.Reveal() + "x", strings.ToUpper(text.Reveal()), text.Reveal()[:40], "a\x00b", "\xff", strings.Repeat("a", 100_000), "Bearer " + text.Reveal()} {
		_, err := s.Authenticate(t.Context(), bearer)
		wantKind(t, err, fault.Unauthenticated)
	}
	if _, err := s.Authenticate(t.Context(), text.Reveal()); err != nil {
		t.Errorf("before its end: %v", err)
	}
	exec(t, s.DB, "update api_keys set expires_at = now() - interval '1 second' where id = $1", key.ID)
	_, err = s.Authenticate(t.Context(), text.Reveal())
	wantKind(t, err, fault.Unauthenticated)
}

func TestASuspendedTenantsKeySaysSo(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	_, text, err := s.KeyCreate(t.Context(), owner, KeyInput{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s.DB, "update tenants set suspended_at = now()")
	caller, err := s.Authenticate(t.Context(), text.Reveal())
	if err != nil || !caller.Suspended {
		t.Errorf("caller %+v, %v", caller, err)
	}
}

// A database that cannot answer is never taken for a key that is not valid (CASES B61).
func TestAuthenticateAtABusyDatabase(t *testing.T) {
	t.Parallel()
	url := dbtest.NewURL(t)
	busy, impatient := dbtest.Open(t, url, db.Options{}), dbtest.Open(t, url, db.Options{LockTimeout: 20 * time.Millisecond})
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "lock table api_keys"); err != nil {
		t.Fatal(err)
	}
	_, err = (&Service{DB: impatient, Now: time.Now}).Authenticate(t.Context(), "wbt_0123456789abcdef")
	if !db.IsUnavailable(err) || fault.KindOf(err) == fault.Unauthenticated {
		t.Errorf("error is %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var all sync.WaitGroup
	for range 5 { // processes that start together
		all.Go(func() {
			if err := s.Bootstrap(t.Context(), bootstrapKey); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	caller, err := s.Authenticate(t.Context(), bootstrapKey.Reveal())
	if err != nil || caller.Kind != PlatformKey || caller.Tenant() != "" || !slices.Equal(caller.Scopes, PlatformScopes()) {
		t.Fatalf("caller %+v, %v", caller, err)
	}
	if n := count(t, s.DB, "api_keys"); n != 1 {
		t.Errorf("%d platform keys", n)
	}
	other := seal.Secret("another-platform-key-of-some-length")
	if err := s.Bootstrap(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(t.Context(), other.Reveal()); err != nil {
		t.Error(err)
	}
	_, err = s.Authenticate(t.Context(), bootstrapKey.Reveal())
	wantKind(t, err, fault.Unauthenticated)
	for _, bad := range []string{"", strings.Repeat("a", 31), strings.Repeat("a", 513), "with spaces between its characters!", "with-a-line-end-at-the-end-of-it!!\n"} {
		if s.Bootstrap(t.Context(), seal.Secret(bad)) == nil {
			t.Errorf("%q became the platform's key", bad)
		}
	}
}

func TestFailedKeyOperationsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	owner := s.in(t, "one")
	key, text, err := s.KeyCreate(t.Context(), owner, KeyInput{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	withoutAudit(t, s.DB, "api_keys", func(ctx context.Context) error {
		_, _, err := s.KeyCreate(ctx, owner, KeyInput{Name: "b"})
		return err
	})
	withoutAudit(t, s.DB, "api_keys", func(ctx context.Context) error { return s.KeyRevoke(ctx, owner, key.ID) })
	if _, err := s.Authenticate(t.Context(), text.Reveal()); err != nil {
		t.Error(err)
	}
}
