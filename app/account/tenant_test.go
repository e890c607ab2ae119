package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"waybill/app/fault"
)

func TestTenantPut(t *testing.T) {
	t.Parallel()
	s := newService(t)
	limit, preset, zone := 7, "commerce", "Asia/Kolkata"
	made, err := s.TenantPut(t.Context(), platform(), "shop:1", TenantInput{Name: "Saree shop"})
	if err != nil {
		t.Fatal(err)
	}
	if made.UID != "shop:1" || made.Name != "Saree shop" || made.Concurrency != 50 || made.Preset != "" || made.TimeZone != "UTC" || made.SuspendedAt != nil {
		t.Errorf("made %+v", made)
	}
	changed, err := s.TenantPut(t.Context(), platform(), "shop:1", TenantInput{Name: "Sarees", Concurrency: &limit, Preset: &preset, TimeZone: &zone})
	if err != nil {
		t.Fatal(err)
	}
	if changed.ID != made.ID || changed.Name != "Sarees" || changed.Concurrency != 7 || changed.Preset != "commerce" || changed.TimeZone != zone {
		t.Errorf("changed %+v", changed)
	}
	// A PUT without limits keeps them, and one that changes nothing is not recorded.
	for range 2 {
		kept, err := s.TenantPut(t.Context(), platform(), "shop:1", TenantInput{Name: "Sarees & more"})
		if err != nil {
			t.Fatal(err)
		}
		if kept.Concurrency != 7 || kept.Preset != "commerce" || kept.TimeZone != zone {
			t.Errorf("kept %+v", kept)
		}
	}
	none := ""
	standard, err := s.TenantPut(t.Context(), platform(), "shop:1", TenantInput{Name: "Sarees & more", Preset: &none})
	if err != nil || standard.Preset != "" {
		t.Errorf("back to the standard policy: %+v, %v", standard, err)
	}
	got := s.actions(t, platform().In(made))
	if want := []string{"tenant.changed", "tenant.changed", "tenant.changed", "tenant.created"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestTenantPutRefuses(t *testing.T) {
	t.Parallel()
	s := newService(t)
	n := func(n int) *int { return &n }
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		uid   string
		in    TenantInput
		field string
	}{
		"empty uid":         {"", TenantInput{Name: "a"}, "uid"},
		"uid with a slash":  {"a/b", TenantInput{Name: "a"}, "uid"},
		"uid with a NUL":    {"a\x00", TenantInput{Name: "a"}, "uid"},
		"uid with a line":   {"a\n", TenantInput{Name: "a"}, "uid"},
		"uid too long":      {strings.Repeat("a", 129), TenantInput{Name: "a"}, "uid"},
		"uid in Devanagari": {"साड़ी", TenantInput{Name: "a"}, "uid"},
		"no name":           {"a", TenantInput{}, "name"},
		"name too long":     {"a", TenantInput{Name: strings.Repeat("é", 201)}, "name"},
		"name with a NUL":   {"a", TenantInput{Name: "a\x00"}, "name"},
		"name not UTF-8":    {"a", TenantInput{Name: "a\xff"}, "name"},
		"no concurrency":    {"a", TenantInput{Name: "a", Concurrency: n(0)}, "limits.concurrency"},
		"huge concurrency":  {"a", TenantInput{Name: "a", Concurrency: n(1001)}, "limits.concurrency"},
		"unknown preset":    {"a", TenantInput{Name: "a", Preset: text("none")}, "preset"},
		"unknown zone":      {"a", TenantInput{Name: "a", TimeZone: text("Mars/Olympus")}, "time_zone"},
		"the server's zone": {"a", TenantInput{Name: "a", TimeZone: text("Local")}, "time_zone"},
		"empty zone":        {"a", TenantInput{Name: "a", TimeZone: text("")}, "time_zone"},
		"zone as a path":    {"a", TenantInput{Name: "a", TimeZone: text("../../etc/passwd")}, "time_zone"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.TenantPut(t.Context(), platform(), c.uid, c.in)
			wantFields(t, err, c.field)
		})
	}
	if n := count(t, s.DB, "tenants"); n != 0 {
		t.Errorf("%d tenants were made", n)
	}
	for uid, name := range map[string]string{strings.Repeat("a", 128): strings.Repeat("é", 200), "A-z_0.9:": "x"} {
		if _, err := s.TenantPut(t.Context(), platform(), uid, TenantInput{Name: name, Concurrency: n(1000)}); err != nil {
			t.Errorf("at the limit: %v", err)
		}
	}
}

func TestTenantsAreThePlatforms(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.in(t, "one")
	narrow := Caller{Kind: PlatformKey, Scopes: []Scope{TenantsRead}}
	seller := Caller{Kind: TenantKey, Scopes: KeyScopes(), TenantUID: "one"}
	if _, err := s.TenantRead(t.Context(), narrow, "one"); err != nil {
		t.Error(err)
	}
	_, err := s.TenantPut(t.Context(), narrow, "one", TenantInput{Name: "x"})
	wantKind(t, err, fault.Forbidden)
	_, err = s.TenantRead(t.Context(), seller, "one")
	wantKind(t, err, fault.Forbidden)
	_, _, err = s.TenantList(t.Context(), seller, "", 10)
	wantKind(t, err, fault.Forbidden)
	// For whom belongs to a tenant there is no other.
	s.in(t, "two")
	_, err = s.TenantOf(t.Context(), seller, "two")
	wantKind(t, err, fault.NotFound)
	for _, uid := range []string{"three", "", "a/b", "a\x00", strings.Repeat("a", 129)} {
		_, err = s.TenantOf(t.Context(), platform(), uid)
		wantKind(t, err, fault.NotFound)
	}
}

func TestTenantListTurnsPages(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var want []string
	for i := range 7 {
		uid := fmt.Sprintf("shop-%d", i)
		s.in(t, uid)
		want = append(want, uid)
	}
	var got []string
	after := ""
	for pages := 1; ; pages++ {
		tenants, next, err := s.TenantList(t.Context(), platform(), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range tenants {
			got = append(got, tenant.UID)
		}
		if after = next; after == "" {
			break
		}
		if pages > 3 {
			t.Fatal("the list does not end")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	_, _, err := s.TenantList(t.Context(), platform(), "nonsense", 3)
	wantKind(t, err, fault.Malformed)
}

func TestAFailedTenantPutLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newService(t)
	withoutAudit(t, s.DB, "tenants", func(ctx context.Context) error {
		_, err := s.TenantPut(ctx, platform(), "one", TenantInput{Name: "One"})
		return err
	})
}
