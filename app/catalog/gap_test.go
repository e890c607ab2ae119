package catalog

import (
	"fmt"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestGap(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	c := s.consumers()
	reader := s.caller
	reader.Scopes = append(reader.Scopes, account.DeliveriesRead)
	endpoint := dbtest.AddEndpoint(t, s.pool, dbtest.Endpoint{TenantID: s.tenant.ID})
	since := time.Now().Add(-time.Hour)
	s.put(dbtest.Event{CreatedAt: since.Add(-time.Minute)})
	s.put(dbtest.Event{Test: true})
	add := func(eventType, status string) string {
		e := s.put(dbtest.Event{Type: eventType})
		if status != "" {
			dbtest.AddDelivery(t, s.pool, dbtest.Delivery{Event: e, Endpoint: endpoint, Status: status, Reason: "because"})
		}
		return e.ID
	}
	var want []string
	add("order.paid", "delivered")
	want = append(want, add("order.paid", "undelivered"), add("order.lost", ""))
	check := func(name string, published, pushed, pulled int64, neither []string) {
		t.Helper()
		until := time.Now().Add(time.Hour)
		got, err := s.Gap(t.Context(), reader, since, until)
		if err != nil || got.Published != published || got.Pushed != pushed || got.Pulled != pulled || got.Neither != int64(len(neither)) || !got.Complete {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		var ids []string
		after := ""
		for range 20 {
			page, err := s.GapList(t.Context(), reader, since, until, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				ids = append(ids, e.ID)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint(neither) {
			t.Errorf("%s: %v, want %v", name, ids, neither)
		}
	}
	check("pushed", 3, 1, 0, want)

	// What a consumer of some types acknowledges is pulled, what it is only handed is not, and what it was put behind is not either.
	if _, err := c.Put(t.Context(), s.caller, "late", nil, Place{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), s.caller, "paid", []string{"order.p*"}, Place{}); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
	if _, err := c.Put(t.Context(), s.caller, "paid", []string{"order.paid"}, Place{Start: true}); err != nil {
		t.Fatal(err)
	}
	h, err := c.Next(t.Context(), s.caller, "paid", 0, 0, 0)
	if err != nil || len(h.Events) != 2 {
		t.Fatal(bodies(h), err)
	}
	check("handed out", 3, 1, 0, want)
	if _, err := c.Ack(t.Context(), s.caller, "paid", h.Events[1].Cursor); err != nil {
		t.Fatal(err)
	}
	check("acknowledged", 3, 1, 2, want[1:])

	// It stays so when the consumer is put back, passes events over, wants other types, or is deleted.
	for name, do := range map[string]func() error{
		"sought back":  func() error { _, err := c.Seek(t.Context(), s.caller, "paid", Place{Start: true}); return err },
		"sought ahead": func() error { _, err := c.Seek(t.Context(), s.caller, "paid", Place{}); return err },
		"other types": func() error {
			_, err := c.Put(t.Context(), s.caller, "paid", []string{"order.lost"}, Place{})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		check(name, 3, 1, 2, want[1:])
	}
	if err := c.Delete(t.Context(), s.caller, "paid"); err != nil {
		t.Fatal(err)
	}
	check("deleted", 3, 1, 2, want[1:])

	stranger := s.stranger
	stranger.Scopes = append(stranger.Scopes, account.DeliveriesRead)
	if got, err := s.Gap(t.Context(), stranger, since, time.Now()); err != nil || got.Published != 0 {
		t.Errorf("another tenant: %+v, %v", got, err)
	}
	if _, err := s.Gap(t.Context(), s.caller, since, time.Now()); fault.KindOf(err) != fault.Forbidden {
		t.Error(err)
	}
	_, err = s.Gap(t.Context(), reader, since, since)
	wantFields(t, err, "until")
	_, err = s.GapList(t.Context(), reader, since.AddDate(-1, 0, 0), since, "", 0)
	wantFields(t, err, "since")
	if _, err := s.GapList(t.Context(), reader, since, time.Now(), "nonsense", 0); fault.KindOf(err) != fault.Malformed {
		t.Error(err)
	}
}
