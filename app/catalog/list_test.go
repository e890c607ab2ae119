package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

// shelf is a catalog on a database of its own, with a tenant and a stranger.
type shelf struct {
	*Events
	t                testing.TB
	pool             *pgxpool.Pool
	tenant           dbtest.Tenant
	caller, stranger account.Caller
}

func newShelf(t testing.TB) *shelf {
	t.Helper()
	pool := dbtest.New(t)
	s := &shelf{Events: &Events{DB: pool}, t: t, pool: pool, tenant: dbtest.AddTenant(t, pool, dbtest.Tenant{})}
	s.caller, s.stranger = readerOf(s.tenant), readerOf(dbtest.AddTenant(t, pool, dbtest.Tenant{}))
	return s
}

func readerOf(tenant dbtest.Tenant) account.Caller {
	return account.Caller{Kind: account.TenantKey, TenantID: tenant.ID, Scopes: []account.Scope{account.CatalogRead}}
}

func (s *shelf) add(row dbtest.Event) dbtest.Event {
	s.t.Helper()
	row.TenantID = s.tenant.ID
	return dbtest.AddEvent(s.t, s.pool, row)
}

func (s *shelf) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// days puts events of many days in, several of them at the same instant, with tests and another tenant's between them. Over one midnight the
// database's clock is set back: an earlier day comes after a later one.
func (s *shelf) days() []dbtest.Event {
	s.t.Helper()
	var all []dbtest.Event
	now := time.Now().UTC()
	noon := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.UTC)
	for _, ago := range []int{40, 39, 38, 20, 19, 20, 19, 18, 5, 1, 0} {
		at := noon.AddDate(0, 0, -ago)
		for n := range 4 {
			all = append(all, s.add(dbtest.Event{CreatedAt: at, Type: []string{"order.paid", "order.created", "orders.paid"}[n%3],
				ResourceType: []string{"order", "shop"}[n%2], ResourceID: fmt.Sprintf("C-%d", n%3), Sequence: int64(100 - ago)}))
			dbtest.AddEvent(s.t, s.pool, dbtest.Event{TenantID: s.stranger.TenantID, CreatedAt: at, ResourceID: "C-1", Type: "order.paid"})
			s.add(dbtest.Event{CreatedAt: at, Test: true, ResourceID: "C-1", Type: "order.paid"})
		}
	}
	return all
}

func eventFilters(all []dbtest.Event) []struct {
	f  EventFilter
	is func(dbtest.Event) bool
} {
	since := all[len(all)/2].CreatedAt
	is := func(e dbtest.Event, kind, id string) bool {
		return (kind == "" || e.ResourceType == kind) && (id == "" || e.ResourceID == id)
	}
	return []struct {
		f  EventFilter
		is func(dbtest.Event) bool
	}{
		{EventFilter{}, func(dbtest.Event) bool { return true }},
		{EventFilter{Types: []string{"order.paid"}}, func(e dbtest.Event) bool { return e.Type == "order.paid" }},
		{EventFilter{Types: []string{"order.*"}}, func(e dbtest.Event) bool { return strings.HasPrefix(e.Type, "order.") }},
		{EventFilter{Types: []string{"orders.paid", "order.created"}}, func(e dbtest.Event) bool { return e.Type != "order.paid" }},
		{EventFilter{Types: []string{"orders.paid", "*"}}, func(dbtest.Event) bool { return true }},
		{EventFilter{Types: []string{"never.happened"}}, func(dbtest.Event) bool { return false }},
		{EventFilter{ResourceID: "C-1"}, func(e dbtest.Event) bool { return is(e, "", "C-1") }},
		{EventFilter{ResourceType: "shop"}, func(e dbtest.Event) bool { return is(e, "shop", "") }},
		{EventFilter{ResourceType: "order", ResourceID: "C-0"}, func(e dbtest.Event) bool { return is(e, "order", "C-0") }},
		{EventFilter{ResourceID: "C-0", Types: []string{"order.paid"}, Since: since}, func(e dbtest.Event) bool {
			return is(e, "", "C-0") && e.Type == "order.paid" && !e.CreatedAt.Before(since)
		}},
		{EventFilter{Since: since}, func(e dbtest.Event) bool { return !e.CreatedAt.Before(since) }},
		{EventFilter{Until: since}, func(e dbtest.Event) bool { return e.CreatedAt.Before(since) }},
		{EventFilter{Since: since, Until: since.Add(time.Microsecond)}, func(e dbtest.Event) bool { return e.CreatedAt.Equal(since) }},
	}
}

// follow reads to the end of the catalog, as a reader does.
func (s *shelf) follow(caller account.Caller, f EventFilter, after string, limit int) (events []Event, next string) {
	s.t.Helper()
	for range 1000 {
		page, err := s.List(s.t.Context(), caller, f, after, limit)
		if err != nil {
			s.t.Fatalf("%+v: %v", f, err)
		}
		if page.Next == "" || len(page.Events) > limit {
			s.t.Fatalf("%+v: next %q, %d events", f, page.Next, len(page.Events))
		}
		events = append(events, page.Events...)
		if after = page.Next; !page.More {
			return events, after
		}
	}
	s.t.Fatalf("%+v: the pages do not end", f)
	return nil, ""
}

func (s *shelf) newest(caller account.Caller, f EventFilter, limit int) (events []Event) {
	s.t.Helper()
	after := ""
	for range 1000 {
		page, err := s.Newest(s.t.Context(), caller, f, after, limit)
		if err != nil {
			s.t.Fatalf("%+v: %v", f, err)
		}
		if (page.Next != "") != page.More || len(page.Events) > limit {
			s.t.Fatalf("%+v: next %q, more %v, %d events", f, page.Next, page.More, len(page.Events))
		}
		events = append(events, page.Events...)
		if after = page.Next; after == "" {
			return events
		}
	}
	s.t.Fatalf("%+v: the pages do not end", f)
	return nil
}

func idsOf(events []Event) []string {
	ids := []string{}
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// CASES B25, both directions: every page of every filter, within the usual bounds and within narrow ones.
func TestEveryEventOnce(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]bounds{"usual": {}, "narrow": {scanned: 5, bytes: 500}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			s.bounds = b
			all := s.days()
			for _, c := range eventFilters(all) {
				want := []string{}
				for _, e := range all {
					if c.is(e) {
						want = append(want, e.ID)
					}
				}
				for _, limit := range []int{1, 3, 50} {
					got, next := s.follow(s.caller, c.f, "", limit)
					if !slices.Equal(idsOf(got), want) {
						t.Errorf("%+v, limit %d: %v, want %v", c.f, limit, idsOf(got), want)
					}
					// At the end the cursor leads to what is yet to happen, and to nothing else.
					if again, _ := s.follow(s.caller, c.f, next, limit); len(again) != 0 {
						t.Errorf("%+v, limit %d: %v come again", c.f, limit, idsOf(again))
					}
					back := idsOf(s.newest(s.caller, c.f, limit))
					slices.Reverse(back)
					if !slices.Equal(back, want) {
						t.Errorf("%+v, limit %d, newest first: %v, want %v", c.f, limit, back, want)
					}
				}
			}
			for _, e := range s.newest(s.stranger, EventFilter{}, 200) {
				if slices.ContainsFunc(all, func(a dbtest.Event) bool { return a.ID == e.ID }) {
					t.Errorf("a stranger sees %s", e.ID)
				}
			}
		})
	}
}

// A reader that waits at the end gets what happens next, whatever it filters by, and exactly once.
func TestReaderAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for _, f := range []EventFilter{{}, {Types: []string{"order.paid"}}, {ResourceID: "C-9"}, {Since: time.Now().Add(-time.Hour)}} {
		_, next := s.follow(s.caller, f, "", 10) // for the first filter of an empty catalog
		var want, got []string
		for n := range 5 {
			s.add(dbtest.Event{Type: "order.created", ResourceID: "C-8"})
			s.add(dbtest.Event{Type: "order.paid", ResourceID: "C-9", Test: true})
			if n%2 == 0 {
				want = append(want, s.add(dbtest.Event{Type: "order.paid", ResourceID: "C-9"}).ID)
			}
			events, after := s.follow(s.caller, f, next, 10)
			for _, e := range events {
				if e.Type == "order.paid" {
					got = append(got, e.ID)
				}
			}
			next = after
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", f, got, want)
		}
	}
}

func TestListHasTheBytes(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	text := `{ "b":1, "a":"<b>&é😀\u0000", "n":9007199254740993, "f":1.0, "z":null, "a":2 }`
	made := s.add(dbtest.Event{Body: text, Thin: `{}`, Version: 3, Sequence: 7, OccurredAt: time.Date(1999, 1, 2, 3, 4, 5, 6000, time.UTC)})
	page, err := s.List(t.Context(), s.caller, EventFilter{}, "", 0)
	if err != nil || len(page.Events) != 1 {
		t.Fatal(page, err)
	}
	read, err := s.Read(t.Context(), s.caller, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	state, err := s.Resource(t.Context(), s.caller, made.ResourceType, made.ResourceID)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]Event{"listed": page.Events[0], "read": read, "resource": state} {
		if string(got.Body) != text || got.ID != made.ID || got.Type != made.Type || got.Version != 3 || got.Sequence != 7 || got.Test ||
			!got.OccurredAt.Equal(made.OccurredAt) || !got.CreatedAt.Equal(made.CreatedAt) || !got.Day.Equal(made.Day) ||
			got.ResourceType != made.ResourceType || got.ResourceID != made.ResourceID {
			t.Errorf("%s: %+v", name, got)
		}
	}
	newest, err := s.Newest(t.Context(), s.caller, EventFilter{}, "", 0)
	if err != nil || newest.Events[0].Body != nil {
		t.Errorf("%+v, %v", newest, err)
	}
}

// CASES B25, B20: cursors that are none, tampered with, of other lists and of other tenants.
func TestEventCursors(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	all := s.days()
	page, err := s.List(t.Context(), s.caller, EventFilter{}, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	newest, err := s.Newest(t.Context(), s.caller, EventFilter{}, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for name, text := range map[string]string{
		"nonsense": "x.y", "long": strings.Repeat("A", 10_000), "other direction": newest.Next, "tampered": page.Next[:len(page.Next)-1],
		"other list": cursor.Encode("deliveries", today, all[0].ID), "bad day": cursor.Encode(cursorOfEvents, "today", all[0].ID, today),
		"bad checked day": cursor.Encode(cursorOfEvents, today, all[0].ID, "x"), "bad id": cursor.Encode(cursorOfEvents, today, "a.b", today),
		"unknown event": cursor.Encode(cursorOfEvents, today, "evt_x", today),
		"other day":     cursor.Encode(cursorOfEvents, today, all[0].ID, today),
		"days to come":  cursor.Encode(cursorOfEvents, today, nothing, time.Now().AddDate(0, 0, 5).UTC().Format(time.DateOnly)),
	} {
		_, err := s.List(t.Context(), s.caller, EventFilter{}, text, 3)
		if fault.KindOf(err) != fault.Malformed {
			t.Errorf("%s: %v, want malformed", name, err)
		}
	}
	for name, text := range map[string]string{
		"other direction": page.Next, "bad day": cursor.Encode(cursorOfNewest, "x", all[0].ID), "unknown": cursor.Encode(cursorOfNewest, today, "evt_x"),
		"bad id": cursor.Encode(cursorOfNewest, today, "a.b"),
	} {
		_, err := s.Newest(t.Context(), s.caller, EventFilter{}, text, 3)
		if fault.KindOf(err) != fault.Malformed {
			t.Errorf("newest, %s: %v, want malformed", name, err)
		}
	}
	// Another tenant's cursor names an event that is none of ours.
	_, err = s.List(t.Context(), s.stranger, EventFilter{}, page.Next, 3)
	if fault.KindOf(err) != fault.Malformed {
		t.Errorf("a stranger's cursor: %v", err)
	}
	_, err = s.Newest(t.Context(), s.stranger, EventFilter{}, newest.Next, 3)
	if fault.KindOf(err) != fault.Malformed {
		t.Errorf("a stranger's cursor: %v", err)
	}
}

// A cursor from before what is kept says so; one of a reader that had read everything since does not.
func TestCursorAgesOut(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	all := s.days()
	drop := func(at time.Time) { s.exec("drop table events_" + at.Format("20060102")) }
	half, err := s.List(t.Context(), s.caller, EventFilter{}, "", 2)
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.Newest(t.Context(), s.caller, EventFilter{}, "", 200)
	if err != nil || back.More {
		t.Fatal(back.More, err)
	}
	backAt := cursor.Encode(cursorOfNewest, all[0].Day.Format(time.DateOnly), all[3].ID)
	drop(all[0].Day)
	_, err = s.List(t.Context(), s.caller, EventFilter{}, half.Next, 2)
	if fault.KindOf(err) != fault.CursorExpired {
		t.Errorf("a cursor in days that were dropped: %v, want gone", err)
	}
	if page, err := s.Newest(t.Context(), s.caller, EventFilter{}, backAt, 2); err != nil || len(page.Events) != 0 || page.More {
		t.Errorf("newest first, before what is kept: %+v, %v", page, err)
	}
	// A tenant that was quiet since, and polls at the end.
	quiet := &shelf{Events: s.Events, t: t, pool: s.pool, tenant: dbtest.AddTenant(t, s.pool, dbtest.Tenant{})}
	quiet.caller = readerOf(quiet.tenant)
	old := quiet.add(dbtest.Event{CreatedAt: all[4].CreatedAt})
	_, ended := quiet.follow(quiet.caller, EventFilter{}, "", 10)
	_, filtered := quiet.follow(quiet.caller, EventFilter{Types: []string{"never.happened"}}, "", 10)
	drop(old.Day)
	next := quiet.add(dbtest.Event{Type: "never.happened"})
	for _, after := range []string{ended, filtered} {
		got, _ := quiet.follow(quiet.caller, EventFilter{}, after, 10)
		if len(got) != 1 || got[0].ID != next.ID {
			t.Errorf("%v, want the one event since", idsOf(got))
		}
	}
	// One that saw nothing at all, long ago.
	_, err = s.List(t.Context(), s.caller, EventFilter{}, cursorOf(mark{}, all[0].Day), 10)
	if fault.KindOf(err) != fault.CursorExpired {
		t.Errorf("a cursor of an empty catalog long ago: %v, want gone", err)
	}
}

func TestListOfEventsRefuses(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for name, f := range map[string]EventFilter{
		"type":          {Types: []string{"order.paid", "a b"}},
		"resource_id":   {ResourceID: strings.Repeat("é", 201)},
		"resource_type": {ResourceType: "\x00"},
		"until":         {Since: time.Now(), Until: time.Now().Add(-time.Second)},
	} {
		for _, list := range []func() (EventPage, error){
			func() (EventPage, error) { return s.List(t.Context(), s.caller, f, "", 0) },
			func() (EventPage, error) { return s.Newest(t.Context(), s.caller, f, "", 0) },
		} {
			_, err := list()
			if shown := fault.From(err); shown == nil || shown.Kind != fault.Invalid || len(shown.Fields) != 1 || shown.Fields[0].Name != name {
				t.Errorf("%+v: %v, want field %s", f, err, name)
			}
		}
	}
	many := EventFilter{Types: slices.Repeat([]string{"a.b"}, maxTypes+1)}
	for _, err := range []error{
		second(s.List(t.Context(), s.caller, many, "", 0)), second(s.List(t.Context(), s.caller, EventFilter{}, "", 201)),
		second(s.List(t.Context(), s.caller, EventFilter{}, "", -1)),
	} {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%v, want invalid", err)
		}
	}
	for _, err := range []error{
		second(s.List(t.Context(), account.Caller{}, EventFilter{}, "", 0)), second(s.Newest(t.Context(), account.Caller{}, EventFilter{}, "", 0)),
		second(s.Read(t.Context(), account.Caller{}, "evt_1")), second(s.Resource(t.Context(), account.Caller{}, "a", "b")),
	} {
		if fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%v, want unauthenticated", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestReadEvent(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	old := time.Now().AddDate(0, 0, -30)
	ours := s.add(dbtest.Event{CreatedAt: old})
	chosen := s.add(dbtest.Event{ID: "order-4711", CreatedAt: old})
	remembered := s.add(dbtest.Event{ID: "order-4712", CreatedAt: old})
	s.exec(`insert into event_ids (tenant_id, id, content, day) values ($1, $2, '', $3)`, s.tenant.ID, remembered.ID, old.AddDate(0, 0, -1))
	late := s.add(dbtest.Event{ID: id.New(id.Event, old.AddDate(0, 0, -9)), CreatedAt: old}) // published nine days before it was dispatched
	test := s.add(dbtest.Event{Test: true})
	for _, want := range []dbtest.Event{ours, chosen, remembered, late, test} {
		got, err := s.Read(t.Context(), s.caller, want.ID)
		if err != nil || got.ID != want.ID || string(got.Body) != want.Body || got.Test != want.Test {
			t.Errorf("%s: %+v, %v", want.ID, got, err)
		}
		_, theirs := s.Read(t.Context(), s.stranger, want.ID)
		if fault.KindOf(theirs) != fault.NotFound {
			t.Errorf("a stranger reads %s: %v", want.ID, theirs)
		}
	}
	for _, eventID := range []string{"", "evt_1", "a.b", "\x00", strings.Repeat("a", 65), id.New(id.Event, time.Now())} {
		if _, err := s.Read(t.Context(), s.caller, eventID); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: %v", eventID, err)
		}
	}
	// The same id is another tenant's own event.
	dbtest.AddEvent(t, s.pool, dbtest.Event{TenantID: s.stranger.TenantID, ID: chosen.ID, Body: `{"theirs":1}`})
	if got, err := s.Read(t.Context(), s.caller, chosen.ID); err != nil || string(got.Body) != chosen.Body {
		t.Errorf("%s, %v", got.Body, err)
	}
}

func TestResource(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.add(dbtest.Event{ResourceType: "order", ResourceID: "C-1", Sequence: 3})
	highest := s.add(dbtest.Event{ResourceType: "order", ResourceID: "C-1", Sequence: 5, CreatedAt: time.Now().AddDate(0, 0, -3)})
	s.add(dbtest.Event{ResourceType: "order", ResourceID: "C-1", Sequence: 4})
	s.add(dbtest.Event{ResourceType: "order", ResourceID: "C-1", Sequence: 9, Test: true})
	s.add(dbtest.Event{ResourceType: "shop", ResourceID: "C-1", Sequence: 8})
	dbtest.AddEvent(t, s.pool, dbtest.Event{TenantID: s.stranger.TenantID, ResourceType: "order", ResourceID: "C-1", Sequence: 7})
	got, err := s.Resource(t.Context(), s.caller, "order", "C-1")
	if err != nil || got.ID != highest.ID || got.Sequence != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, name := range [][2]string{{"order", "C-2"}, {"x", "C-1"}, {"", ""}, {"order", "\x00"}, {"\xff", "C-1"}} {
		if _, err := s.Resource(t.Context(), s.caller, name[0], name[1]); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
	s.exec("drop table events_" + highest.Day.Format("20060102"))
	if _, err := s.Resource(t.Context(), s.caller, "order", "C-1"); fault.KindOf(err) != fault.Gone {
		t.Errorf("a state that is no longer kept: %v", err)
	}
}

// Every statement that a filter makes names the tenant, and uses no text of the filter's values.
func TestComposedEventStatements(t *testing.T) {
	t.Parallel()
	hostile := `'; drop table tenants --`
	for _, f := range []EventFilter{
		{}, {Types: []string{hostile, "x.*"}}, {ResourceType: hostile}, {ResourceID: hostile},
		{Types: []string{hostile}, ResourceType: hostile, ResourceID: hostile, Since: time.Now(), Until: time.Now()},
	} {
		for _, back := range []bool{true, false} {
			sql, args := f.statement("tnt_x", back)
			if strings.Contains(sql, hostile) || !strings.Contains(sql, "tenant_id = @tenant") || args["tenant"] != "tnt_x" {
				t.Errorf("%+v makes\n%s", f, sql)
			}
			if f.filters() == strings.Contains(sql, "/* filter */") {
				t.Errorf("%+v: its conditions are not in\n%s", f, sql)
			}
		}
	}
}
