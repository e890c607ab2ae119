package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func newTypes(t *testing.T) *Types {
	t.Helper()
	pool := dbtest.New(t)
	return &Types{DB: pool, Accounts: &account.Service{DB: pool, Now: time.Now, KnowsPreset: func(string) bool { return false }}}
}

var (
	platform = account.Caller{Kind: account.PlatformKey, ID: "key_platform", Name: "test", Scopes: account.PlatformScopes()}
	seller   = account.Caller{Kind: account.TenantKey, ID: "key_seller", Name: "test", TenantID: "tnt_1", Scopes: account.KeyScopes()}
)

func wantKind(t *testing.T, err error, want fault.Kind) {
	t.Helper()
	if fault.KindOf(err) != want {
		t.Fatalf("error is %v, want %s", err, want)
	}
}

func TestEventTypePut(t *testing.T) {
	t.Parallel()
	c := newTypes(t)
	in := EventTypeInput{
		Description: "It has arrived.", Group: "Consignments", Schema: []byte(`{ "type":"object" }`), Example: []byte(`{"n":9007199254740993}`),
		SchemaVersion: 3, Deprecated: true,
	}
	made, err := c.EventTypePut(t.Context(), platform, "consignment.delivered", in)
	if err != nil {
		t.Fatal(err)
	}
	if made.Name != "consignment.delivered" || made.Description != in.Description || made.Group != in.Group || string(made.Schema) != string(in.Schema) ||
		string(made.Example) != string(in.Example) || made.SchemaVersion != 3 || made.DeprecatedAt == nil {
		t.Errorf("made %+v", made)
	}
	// Still deprecated, since the same day; then replaced by next to nothing.
	in.Description = "It has come."
	if again, err := c.EventTypePut(t.Context(), platform, made.Name, in); err != nil || !again.DeprecatedAt.Equal(*made.DeprecatedAt) || !again.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("again %+v, %v", again, err)
	}
	bare, err := c.EventTypePut(t.Context(), platform, made.Name, EventTypeInput{})
	if err != nil || bare.Description != "" || bare.Schema != nil || bare.Example != nil || bare.SchemaVersion != 1 || bare.DeprecatedAt != nil {
		t.Errorf("bare %+v, %v", bare, err)
	}
	if read, err := c.EventTypeRead(t.Context(), seller, made.Name); err != nil || !read.UpdatedAt.Equal(bare.UpdatedAt) {
		t.Errorf("read %+v, %v", read, err)
	}
	var actions string
	err = c.DB.QueryRow(t.Context(), "select string_agg(action, ' ' order by id) from audit where tenant_id is null and object = $1", made.Name).Scan(&actions)
	if err != nil || actions != "event_type.created event_type.changed event_type.changed" {
		t.Errorf("recorded %q, %v", actions, err)
	}
}

func TestEventTypePutRefuses(t *testing.T) {
	t.Parallel()
	c := newTypes(t)
	deep := []byte(strings.Repeat("[", 65) + strings.Repeat("]", 65))
	large := fmt.Appendf(nil, "%q", strings.Repeat("a", MaxDocument))
	for name, d := range map[string]struct {
		name  string
		in    EventTypeInput
		field string
	}{
		"no name":            {"", EventTypeInput{}, "name"},
		"a hyphen":           {"a-b", EventTypeInput{}, "name"},
		"a pattern":          {"a.*", EventTypeInput{}, "name"},
		"a long name":        {strings.Repeat("a", 129), EventTypeInput{}, "name"},
		"a NUL":              {"a\x00", EventTypeInput{}, "name"},
		"description":        {"a", EventTypeInput{Description: "a\x00"}, "description"},
		"long description":   {"a", EventTypeInput{Description: strings.Repeat("a", 2001)}, "description"},
		"group":              {"a", EventTypeInput{Group: strings.Repeat("a", 101)}, "group"},
		"version":            {"a", EventTypeInput{SchemaVersion: -1}, "schema_version"},
		"huge version":       {"a", EventTypeInput{SchemaVersion: 1_000_001}, "schema_version"},
		"schema is no JSON":  {"a", EventTypeInput{Schema: []byte("{")}, "schema"},
		"schema is a number": {"a", EventTypeInput{Schema: []byte("1")}, "schema"},
		"deep schema":        {"a", EventTypeInput{Schema: deep}, "schema"},
		"a name twice":       {"a", EventTypeInput{Schema: []byte(`{"a":1,"a":2}`)}, "schema"},
		"large example":      {"a", EventTypeInput{Example: large}, "example"},
		"broken example":     {"a", EventTypeInput{Example: []byte("\"\xff\"")}, "example"},
		"empty example":      {"a", EventTypeInput{Example: []byte("")}, "example"},
	} {
		_, err := c.EventTypePut(t.Context(), platform, d.name, d.in)
		if shown := fault.From(err); fault.KindOf(err) != fault.Invalid || len(shown.Fields) != 1 || shown.Fields[0].Name != d.field {
			t.Errorf("%s: %v, want field %s", name, err, d.field)
		}
	}
	_, err := c.EventTypePut(t.Context(), seller, "a", EventTypeInput{})
	wantKind(t, err, fault.Forbidden)
	for _, ok := range []string{`true`, `{}`} {
		if _, err := c.EventTypePut(t.Context(), platform, "a", EventTypeInput{Schema: []byte(ok), Example: []byte(`"\u0000"`)}); err != nil {
			t.Errorf("schema %s: %v", ok, err)
		}
	}
}

func TestEventTypeList(t *testing.T) {
	t.Parallel()
	c := newTypes(t)
	var want []string
	for i := range 7 {
		name := fmt.Sprintf("order.t%d", i)
		if _, err := c.EventTypePut(t.Context(), platform, name, EventTypeInput{Group: fmt.Sprintf("group %d", i%2)}); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	walk := func(group string) (got []string) {
		for after := ""; ; {
			page, next, err := c.EventTypeList(t.Context(), seller, group, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range page {
				got = append(got, found.Name)
			}
			if after = next; after == "" || len(got) > 20 {
				return got
			}
		}
	}
	if got := walk(""); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if got := walk("group 1"); !slices.Equal(got, []string{want[1], want[3], want[5]}) {
		t.Errorf("of one group: %q", got)
	}
	_, _, err := c.EventTypeList(t.Context(), seller, "", "x", 2)
	wantKind(t, err, fault.Malformed)
	_, err = c.EventTypeRead(t.Context(), seller, "nobody.knows")
	wantKind(t, err, fault.NotFound)
	_, err = c.EventTypeRead(t.Context(), seller, "\x00")
	wantKind(t, err, fault.NotFound)
	narrow := account.Caller{Kind: account.TenantKey, Scopes: []account.Scope{account.DeliveriesRead}}
	_, _, err = c.EventTypeList(t.Context(), narrow, "", "", 2)
	wantKind(t, err, fault.Forbidden)
	_, err = c.EventTypeRead(t.Context(), narrow, "order.t1")
	wantKind(t, err, fault.Forbidden)
}

func TestAFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newTypes(t)
	if _, err := c.DB.Exec(t.Context(), "alter table audit rename to audit_away"); err != nil {
		t.Fatal(err)
	}
	_, err := c.EventTypePut(t.Context(), platform, "a", EventTypeInput{})
	wantKind(t, err, fault.Internal)
	_, err = c.EventTypeRead(t.Context(), seller, "a")
	wantKind(t, err, fault.NotFound)
}
