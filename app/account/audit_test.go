package account

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"waybill/app/fault"
	"waybill/db"
)

func (s *Service) record(t *testing.T, caller Caller, action, object string, detail map[string]any) error {
	t.Helper()
	return db.Tx(t.Context(), s.DB, func(tx pgx.Tx) error { return s.Record(t.Context(), tx, caller, action, object, detail) })
}

func TestAuditList(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one, two := s.in(t, "one"), s.in(t, "two")
	for i := range 5 {
		if err := s.record(t, one, "endpoint.changed", fmt.Sprintf("ep_%d", i), map[string]any{"b": i, "a": "<é>"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.record(t, two, "endpoint.changed", "ep_1", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.record(t, Waybill("retention", one.Tenant()), "endpoint.disabled", "ep_1", nil); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter AuditFilter
		want   int
	}{
		"all":                {AuditFilter{}, 7},
		"one object":         {AuditFilter{Object: "ep_1"}, 2},
		"one actor":          {AuditFilter{ActorID: one.ID}, 6},
		"one noun":           {AuditFilter{Noun: "endpoint"}, 6},
		"a part of a noun":   {AuditFilter{Noun: "end"}, 0},
		"a pattern is none":  {AuditFilter{Noun: "%"}, 0},
		"together":           {AuditFilter{Object: "ep_1", ActorID: one.ID, Noun: "endpoint"}, 1},
		"what nobody stores": {AuditFilter{Object: "a\x00b\xff"}, 0},
	} {
		entries, next, err := s.AuditList(t.Context(), one, c.filter, "", 50)
		if err != nil || len(entries) != c.want || next != "" {
			t.Errorf("%s: %d entries, next %q, %v; want %d", name, len(entries), next, err, c.want)
		}
	}
	first, next, err := s.AuditList(t.Context(), one, AuditFilter{}, "", 4)
	if err != nil {
		t.Fatal(err)
	}
	rest, last, err := s.AuditList(t.Context(), one, AuditFilter{}, next, 4)
	if err != nil || last != "" || len(first)+len(rest) != 7 {
		t.Fatalf("%d and %d entries, %q, %v", len(first), len(rest), last, err)
	}
	if !slices.IsSortedFunc(append(first, rest...), func(x, y Entry) int {
		if x.ID > y.ID {
			return -1
		}
		return 1
	}) {
		t.Error("the pages are not newest first")
	}
	newest := first[0]
	if newest.Kind != System || newest.Actor != "waybill" || newest.Action != "endpoint.disabled" || string(newest.Detail) != "{}" || newest.At.IsZero() {
		t.Errorf("newest %+v", newest)
	}
	if got := string(first[1].Detail); got != `{"a":"<é>","b":4}` {
		t.Errorf("detail %s", got)
	}
	_, _, err = s.AuditList(t.Context(), Caller{Kind: TenantKey, TenantID: one.Tenant(), Scopes: KeyScopes()}, AuditFilter{}, "", 4)
	wantKind(t, err, fault.Forbidden)
	_, _, err = s.AuditList(t.Context(), one, AuditFilter{}, "x", 4)
	wantKind(t, err, fault.Malformed)
}

func TestRecordRefusesWhatIsNoAction(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.in(t, "one")
	for _, action := range []string{"", "endpoint", "Endpoint.Changed", "a.b.c"} {
		if err := s.record(t, one, action, "", nil); db.Constraint(err) != "audit_action_is_plain" {
			t.Errorf("%q: %v", action, err)
		}
	}
}
