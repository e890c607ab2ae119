package catalog

import (
	"slices"
	"testing"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

// The types of operational events stand in the catalog of the tenant that gets them, in their places, and in no other.
func TestOperationalTypes(t *testing.T) {
	t.Parallel()
	pool := dbtest.New(t)
	ops, other := dbtest.AddTenant(t, pool, dbtest.Tenant{UID: "ops"}), dbtest.AddTenant(t, pool, dbtest.Tenant{})
	types := &Types{DB: pool, Operations: "ops"}
	of := func(tenant dbtest.Tenant) account.Caller {
		return account.Caller{Kind: account.Session, TenantID: tenant.ID, TenantUID: tenant.UID, Scopes: account.Viewer.Scopes()}
	}
	for _, name := range []string{"a.first", "delivery.sent", "zebra.last"} {
		if _, err := pool.Exec(t.Context(), `insert into event_types (name) values ($1)`, name); err != nil {
			t.Fatal(err)
		}
	}
	names := func(caller account.Caller, group string, limit int) (all []string) {
		for after := ""; ; {
			page, next, err := types.EventTypeList(t.Context(), caller, group, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range page {
				all = append(all, one.Name)
			}
			if after = next; next == "" {
				return all
			}
		}
	}
	want := []string{"a.first", "delivery.exhausted", "delivery.sent", "endpoint.disabled", "endpoint.failing", "endpoint.recovered", "endpoint.warned", "tenant.limit_reached", "zebra.last"}
	for limit := 1; limit < 11; limit++ {
		if got := names(of(ops), "", limit); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q", limit, got)
		}
	}
	if got := names(of(ops), "Operations", 3); len(got) != len(operationalTypes) {
		t.Errorf("of the group: %q", got)
	}
	if got := names(of(other), "", 2); !slices.Equal(got, []string{"a.first", "delivery.sent", "zebra.last"}) {
		t.Errorf("another tenant's: %q", got)
	}
	if _, err := types.EventTypeRead(t.Context(), of(other), "endpoint.disabled"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("read by another: %v", err)
	}
	for _, known := range operationalTypes {
		got, err := types.EventTypeRead(t.Context(), of(ops), known.Name)
		if err != nil || got.Description == "" {
			t.Fatalf("%s: %v", known.Name, err)
		}
		schema, err := compile(got.Schema)
		if err != nil {
			t.Fatalf("%s: %v", known.Name, err)
		}
		if wrong := validate(schema, got.Example); len(wrong) > 0 {
			t.Errorf("the example of %s: %+v", known.Name, wrong)
		}
	}
	// A name that the platform uses itself keeps the platform's words.
	if _, err := pool.Exec(t.Context(), `insert into event_types (name, description) values ('endpoint.failing', 'ours')`); err != nil {
		t.Fatal(err)
	}
	if got, err := types.EventTypeRead(t.Context(), of(ops), "endpoint.failing"); err != nil || got.Description != "ours" {
		t.Errorf("%+v %v", got, err)
	}
	if got := names(of(ops), "", 4); !slices.Equal(got, want) {
		t.Errorf("with one of the platform's: %q", got)
	}
}
