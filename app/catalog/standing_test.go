package catalog

import (
	"fmt"
	"testing"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestHowFarConsumersAre(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	first := s.put(dbtest.Event{Type: "order.paid"})
	s.put(dbtest.Event{Type: "order.paid", Test: true})
	s.put(dbtest.Event{Type: "order.sent"})
	put := func(name string, types []string, at Place) {
		t.Helper()
		if _, err := c.Put(t.Context(), s.caller, name, types, at); err != nil {
			t.Fatal(err)
		}
	}
	put("begins", nil, Place{Start: true})
	put("paid", []string{"order.paid"}, Place{Start: true})
	put("prefix", []string{"order.*"}, Place{Start: true})
	put("up-to-date", nil, Place{})
	put("working", nil, Place{Start: true})
	h, err := c.Next(t.Context(), s.caller, "working", 1, 0, 0)
	if err != nil || len(h.Events) != 1 {
		t.Fatal(h, err)
	}
	if _, err := c.Ack(t.Context(), s.caller, "working", h.Events[0].Cursor); err != nil {
		t.Fatal(err)
	}
	list := func(caller account.Caller) map[string]Standing {
		t.Helper()
		all, after := map[string]Standing{}, ""
		for range 10 {
			found, next, err := c.Standings(t.Context(), caller, after, 2)
			if err != nil || len(found) > 2 {
				t.Fatal(found, err)
			}
			for _, one := range found {
				all[one.Name] = one
			}
			if after = next; after == "" {
				break
			}
		}
		return all
	}
	got := list(s.caller)
	for name, want := range map[string]string{"begins": "2 ", "paid": "1 ", "prefix": "2 ", "working": "1 " + first.ID} {
		if have := fmt.Sprintf("%d %s", got[name].Lag, got[name].EventID); have != want || got[name].LagCut {
			t.Errorf("%s: %q, want %q", name, have, want)
		}
	}
	if now := got["up-to-date"]; now.Lag != 0 || now.EventID == "" || now.AckedAt != nil || got["working"].AckedAt == nil {
		t.Errorf("%+v", now)
	}
	other := s.caller
	other.TenantID = dbtest.AddTenant(t, s.pool, dbtest.Tenant{}).ID
	if found := list(other); len(found) != 0 {
		t.Errorf("another tenant sees %v", found)
	}
	if _, _, err := c.Standings(t.Context(), account.Caller{}, "", 2); fault.KindOf(err) != fault.Unauthenticated {
		t.Error(err)
	}
}
