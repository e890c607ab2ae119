package delivery

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/cursor"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/db/dbtest"
)

// sample is a delivery as it was put in, with what its attempts were.
type sample struct {
	dbtest.Delivery
	attempts []dbtest.Attempt
}

// population puts n deliveries of every kind into the house's tenant, in groups of the same instant, over five days.
func (h *house) population(n int, random *rand.Rand) []sample {
	h.t.Helper()
	tx, err := h.pool.Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(h.t.Context()) }()
	var endpoints []dbtest.Endpoint
	for range 3 {
		endpoints = append(endpoints, dbtest.AddEndpoint(h.t, tx, dbtest.Endpoint{TenantID: h.tenant.ID}))
	}
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	types := []string{"order.created", "order.paid", "orders.created", "consignment.loaded"}
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	var all []sample
	for at := now.Add(-5 * 24 * time.Hour); len(all) < n; at = at.Add(time.Duration(1+random.IntN(2*5*24*60*10/n)) * time.Minute) {
		// A group shares the millisecond, some only differ in microseconds (CASES B25).
		for range min(1+random.IntN(20), n-len(all)) {
			event := dbtest.AddEvent(h.t, tx, dbtest.Event{TenantID: h.tenant.ID, Type: pick(types), Test: random.IntN(10) == 0,
				ResourceType: pick([]string{"order", "consignment"}), ResourceID: pick([]string{"C-1", "C-2", "C-3"}),
				CreatedAt: at.Add(time.Duration(random.IntN(3)) * time.Microsecond)})
			for _, endpoint := range endpoints[:1+random.IntN(2)] {
				all = append(all, h.sample(tx, random, event, endpoint))
			}
		}
	}
	if err := tx.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return all
}

func (h *house) sample(on dbtest.DB, random *rand.Rand, event dbtest.Event, endpoint dbtest.Endpoint) sample {
	h.t.Helper()
	row := dbtest.Delivery{Event: event, Endpoint: endpoint}
	kinds := []string{"delivered", "recovered", "pending", "retrying", "undelivered", "held", "cancelled", "resent"}
	var made []dbtest.Attempt
	failed := func(number int) {
		a := dbtest.Attempt{Number: number, Class: "status", Code: []int{404, 500, 503}[random.IntN(3)]}
		switch random.IntN(6) {
		case 0:
			a.Class, a.Code = "timeout", 0
		case 1:
			a.Class, a.Code = []string{"refused", "reset", "connect_timeout", "not_http"}[random.IntN(4)], 0
		}
		made = append(made, a)
	}
	succeeded := func(number int, trigger string) {
		made = append(made, dbtest.Attempt{Number: number, Class: "delivered", Code: 200 + random.IntN(2), Trigger: trigger})
	}
	kind := kinds[random.IntN(len(kinds))]
	row.Status = kind
	switch kind {
	case "delivered":
		succeeded(1, "")
	case "recovered":
		row.Status, row.Failures = "delivered", 1
		failed(1)
		succeeded(2, []string{"retry", "manual", "recover"}[random.IntN(3)])
	case "retrying":
		row.Status, row.Failures = "pending", 2
		failed(1)
		failed(2)
	case "undelivered":
		row.Failures = 3
		failed(1)
		failed(2)
		failed(3)
	case "resent": // delivered at first, then resent in vain
		row.Status = "delivered"
		succeeded(1, "")
		failed(2)
		made[1].Trigger = "manual"
	}
	row.Attempts = len(made)
	if len(made) > 0 {
		last := made[len(made)-1]
		row.LastClass, row.LastCode, row.LastMS = last.Class, last.Code, 1+random.IntN(900)
	}
	s := sample{Delivery: dbtest.AddDelivery(h.t, on, row)}
	for _, a := range made {
		a.Delivery = s.Delivery
		s.attempts = append(s.attempts, dbtest.AddAttempt(h.t, on, a))
	}
	return s
}

// filters are every filter alone and many together, each with what it must find.
func filters(all []sample) map[Filter]func(sample) bool {
	any1 := func(s sample, is func(dbtest.Attempt) bool) bool { return slices.ContainsFunc(s.attempts, is) }
	first := all[0]
	instant := all[len(all)/2].CreatedAt.Truncate(time.Millisecond)
	status := func(word string) func(sample) bool { return func(s sample) bool { return s.Status == word } }
	code := func(from, to int) func(sample) bool {
		return func(s sample) bool {
			return any1(s, func(a dbtest.Attempt) bool { return from <= a.Code && a.Code <= to })
		}
	}
	retrying := func(s sample) bool { return s.Status == "pending" && s.Failures > 0 }
	recovered := func(s sample) bool { return s.Status == "delivered" && s.Failures > 0 }
	trigger := func(word string) func(sample) bool {
		return func(s sample) bool { return any1(s, func(a dbtest.Attempt) bool { return a.Trigger == word }) }
	}
	both := func(is ...func(sample) bool) func(sample) bool {
		return func(s sample) bool {
			for _, f := range is {
				if !f(s) {
					return false
				}
			}
			return true
		}
	}
	test := func(s sample) bool { return s.Event.Test }
	onFirst := func(s sample) bool { return s.Endpoint.ID == first.Endpoint.ID }
	resource := func(s sample) bool { return s.Event.ResourceID == "C-2" }
	return map[Filter]func(sample) bool{
		{}:                              func(sample) bool { return true },
		{EndpointID: first.Endpoint.ID}: onFirst,
		{EventID: first.Event.ID}:       func(s sample) bool { return s.Event.ID == first.Event.ID },
		{Search: first.Event.ID}:        func(s sample) bool { return s.Event.ID == first.Event.ID },
		{Search: " C-2 "}:               resource,
		{Search: first.ID}:              func(s sample) bool { return s.ID == first.ID },
		{ResourceID: "C-2"}:             resource,
		{ResourceID: "C-2", ResourceType: "order"}: both(resource, func(s sample) bool { return s.Event.ResourceType == "order" }),
		{ResourceType: "order"}:                    func(s sample) bool { return s.Event.ResourceType == "order" },
		{Type: "order.paid"}:                       func(s sample) bool { return s.Event.Type == "order.paid" },
		{Type: "order.*"}:                          func(s sample) bool { return strings.HasPrefix(s.Event.Type, "order.") },
		{Type: "*"}:                                func(sample) bool { return true },
		{Status: "pending"}:                        status("pending"),
		{Status: "retrying"}:                       retrying,
		{Status: "delivered"}:                      status("delivered"),
		{Status: "recovered"}:                      recovered,
		{Status: "undelivered"}:                    status("undelivered"),
		{Status: "held"}:                           status("held"),
		{Status: "cancelled"}:                      status("cancelled"),
		{Code: "500"}:                              code(500, 500),
		{Code: "5xx"}:                              code(500, 599),
		{Code: "2xx"}:                              func(s sample) bool { return s.LastCode/100 == 2 },
		{Code: "201"}:                              func(s sample) bool { return s.LastCode == 201 },
		{Code: "none"}:                             trigged(any1, func(a dbtest.Attempt) bool { return a.Code == 0 }),
		{Class: "timeout"}:                         trigged(any1, func(a dbtest.Attempt) bool { return a.Class == "timeout" }),
		{Class: "no_answer"}: trigged(any1, func(a dbtest.Attempt) bool {
			return slices.Contains([]string{"refused", "reset", "connect_timeout", "not_http"}, a.Class)
		}),
		{Class: "delivered"}:             func(s sample) bool { return s.LastClass == "delivered" },
		{Trigger: "retry"}:               trigger("retry"),
		{Trigger: "manual"}:              trigger("manual"),
		{Trigger: "recover"}:             trigger("recover"),
		{Trigger: "probe"}:               trigger("probe"),
		{Trigger: "schedule"}:            func(s sample) bool { return s.Attempts > 0 && !test(s) },
		{Trigger: "test"}:                test,
		{Tests: OnlyTests}:               test,
		{Tests: WithoutTests}:            func(s sample) bool { return !test(s) },
		{Slower: 300 * time.Millisecond}: func(s sample) bool { return s.LastMS >= 300 },
		{Since: instant}:                 func(s sample) bool { return !s.CreatedAt.Before(instant) },
		{Until: instant}:                 func(s sample) bool { return s.CreatedAt.Before(instant) },
		{Since: instant.Add(-24 * time.Hour), Until: instant.Add(time.Nanosecond)}: func(s sample) bool {
			return !s.CreatedAt.Before(instant.Add(-24*time.Hour)) && s.CreatedAt.Before(instant.Add(time.Millisecond))
		},

		{EndpointID: first.Endpoint.ID, Status: "undelivered"}:                     both(onFirst, status("undelivered")),
		{EndpointID: first.Endpoint.ID, Status: "held", Type: "order.paid"}:        both(onFirst, status("held"), func(s sample) bool { return s.Event.Type == "order.paid" }),
		{EndpointID: first.Endpoint.ID, Status: "pending"}:                         both(onFirst, status("pending")),
		{EndpointID: first.Endpoint.ID, Status: "retrying", ResourceType: "order"}: both(onFirst, retrying, func(s sample) bool { return s.Event.ResourceType == "order" }),
		{EndpointID: first.Endpoint.ID, Code: "404"}:                               both(onFirst, code(404, 404)),
		{EndpointID: first.Endpoint.ID, Tests: OnlyTests}:                          both(onFirst, test),
		{EndpointID: first.Endpoint.ID, Status: "cancelled", Since: instant}:       both(onFirst, status("cancelled"), func(s sample) bool { return !s.CreatedAt.Before(instant) }),
		{ResourceID: "C-2", Code: "5xx"}:                                           both(resource, code(500, 599)),
		{ResourceID: "C-2", Trigger: "manual", Until: instant}:                     both(resource, trigger("manual"), func(s sample) bool { return s.CreatedAt.Before(instant) }),
		{ResourceID: "C-2", Since: instant}:                                        both(resource, func(s sample) bool { return !s.CreatedAt.Before(instant) }),
		{EventID: first.Event.ID, Class: "timeout"}:                                both(func(s sample) bool { return s.Event.ID == first.Event.ID }, trigged(any1, func(a dbtest.Attempt) bool { return a.Class == "timeout" })),
		{Status: "undelivered", Code: "404", Tests: WithoutTests}:                  both(status("undelivered"), code(404, 404), func(s sample) bool { return !test(s) }),
		{Status: "undelivered", Tests: OnlyTests}:                                  both(status("undelivered"), test),
		{Status: "held", Until: instant}:                                           both(status("held"), func(s sample) bool { return s.CreatedAt.Before(instant) }),
		{Status: "recovered", Trigger: "manual"}:                                   both(recovered, trigger("manual")),
		{Code: "2xx", Trigger: "manual"}:                                           trigged(any1, func(a dbtest.Attempt) bool { return a.Trigger == "manual" && a.Code/100 == 2 }),
		{Code: "500", Trigger: "manual", Status: "delivered"}:                      both(status("delivered"), trigged(any1, func(a dbtest.Attempt) bool { return a.Trigger == "manual" && a.Code == 500 })),
	}
}

func trigged(any1 func(sample, func(dbtest.Attempt) bool) bool, is func(dbtest.Attempt) bool) func(sample) bool {
	return func(s sample) bool { return any1(s, is) }
}

// turn reads all pages of a list.
func (h *house) turn(caller account.Caller, f Filter, limit int, between func()) []Delivery {
	h.t.Helper()
	var all []Delivery
	after := ""
	for pages := 0; ; pages++ {
		page, err := h.List(h.t.Context(), caller, f, after, limit)
		if err != nil {
			h.t.Fatalf("%+v: %v", f, err)
		}
		if len(page.Deliveries) > limit {
			h.t.Fatalf("%+v: a page of %d", f, len(page.Deliveries))
		}
		if (page.SearchedTo != nil) != (page.Next != "" && len(page.Deliveries) < limit) {
			h.t.Errorf("%+v: a page of %d with next %q says that it searched to %v", f, len(page.Deliveries), page.Next, page.SearchedTo)
		}
		all = append(all, page.Deliveries...)
		if after = page.Next; after == "" {
			return all
		}
		if pages > 5000 {
			h.t.Fatalf("%+v: the pages do not end", f)
		}
		if between != nil {
			between()
		}
	}
}

// CASES B25: every page of every filter, with rows that share an instant and rows that arrive meanwhile; within usual bounds and within bounds
// so narrow that each is met all the time.
func TestPagesShowEachOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bounds bounds
		limit  int
	}{"usual": {bounds{}, 50}, "narrow": {bounds{scanned: 7, read: 11, events: 3, due: 2}, 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.bounds = c.bounds
			random := rand.New(rand.NewPCG(1, 2))
			all := h.population(250, random)
			foreign := dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: dbtest.Event{ResourceID: "C-2", Type: "order.paid"}, Status: "undelivered"})
			newcomer := func() {
				dbtest.AddDelivery(t, h.pool, dbtest.Delivery{Event: all[0].Event, Endpoint: all[0].Endpoint, CreatedAt: time.Now().Add(time.Hour)})
			}
			for f, is := range filters(all) {
				h.checkPages(f, is, all, c.limit, foreign.ID, newcomer)
				if got := h.turn(h.stranger, f, 50, nil); len(got) != 0 {
					t.Errorf("%+v shows %d deliveries to a stranger", f, len(got))
				}
			}
		})
	}
}

func (h *house) checkPages(f Filter, is func(sample) bool, all []sample, limit int, foreign string, newcomer func()) {
	h.t.Helper()
	known := map[string]sample{}
	want := map[string]bool{}
	for _, s := range all {
		known[s.ID] = s
		if is(s) {
			want[s.ID] = true
		}
	}
	arrived := 0
	got := h.turn(h.caller, f, limit, func() {
		if arrived++; arrived < 3 {
			newcomer()
		}
	})
	seen := map[string]bool{}
	var last Delivery
	for i, d := range got {
		if seen[d.ID] {
			h.t.Errorf("%+v shows %s twice", f, d.ID)
		}
		seen[d.ID] = true
		if d.ID == foreign {
			h.t.Errorf("%+v shows another tenant's delivery", f)
		}
		if s, ok := known[d.ID]; ok {
			if !want[d.ID] {
				h.t.Errorf("%+v shows %+v, which does not match", f, s.Delivery)
			}
			delete(want, d.ID)
		}
		if i > 0 && d.CreatedAt.After(last.CreatedAt.Add(time.Millisecond)) {
			h.t.Errorf("%+v shows %s of %v behind %s of %v", f, d.ID, d.CreatedAt, last.ID, last.CreatedAt)
		}
		last = d
	}
	for missing := range want {
		h.t.Errorf("%+v, limit %d: %s is missing: %+v", f, limit, missing, known[missing].Delivery)
	}
}

// Count agrees with the pages, and says when it stopped.
func TestCountAgrees(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	all := h.population(120, rand.New(rand.NewPCG(3, 4)))
	narrow := *h.Service
	narrow.bounds = bounds{scanned: 7, read: 11, events: 3, due: 2}
	for f, is := range filters(all) {
		want := 0
		for _, s := range all {
			if is(s) {
				want++
			}
		}
		if got, err := h.Count(t.Context(), h.caller, f); err != nil || got != (Count{N: want}) {
			t.Errorf("%+v: %+v, %v, want %d", f, got, err, want)
		}
		if got, err := narrow.Count(t.Context(), h.caller, f); err != nil || got.N > want || !got.More && got.N != want {
			t.Errorf("%+v in narrow bounds: %+v, %v, want at most %d", f, got, err, want)
		}
		if got, err := h.Count(t.Context(), h.stranger, f); err != nil || got != (Count{}) {
			t.Errorf("%+v: a stranger counts %+v, %v", f, got, err)
		}
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for name, f := range map[string]Filter{
		"endpoint_id":   {EndpointID: "ep_1"},
		"event_id":      {EventID: "a.b"},
		"resource_id":   {ResourceID: strings.Repeat("x", 201)},
		"resource_type": {ResourceType: "a\x00"},
		"search":        {Search: "\xff"},
		"type":          {Type: "order*"},
		"status":        {Status: "Delivered"},
		"code":          {Code: "6"},
		"class":         {Class: "refused"}, // tells more than no_answer
		"trigger":       {Trigger: "first"},
		"test":          {Tests: "maybe"},
		"slower_than":   {Slower: -1},
		"until":         {Since: time.Now(), Until: time.Now().Add(-time.Hour)},
	} {
		_, err := h.List(t.Context(), h.caller, f, "", 0)
		if shown := fault.From(err); shown == nil || shown.Kind != fault.Invalid || len(shown.Fields) != 1 || shown.Fields[0].Name != name {
			t.Errorf("%+v: %v, want field %s", f, err, name)
		}
		_, err = h.Count(t.Context(), h.caller, f)
		wantKind(t, err, fault.Invalid)
	}
	for _, limit := range []int{-1, 201} {
		_, err := h.List(t.Context(), h.caller, Filter{}, "", limit)
		wantKind(t, err, fault.Invalid)
	}
	_, err := h.List(t.Context(), keyOf(h.tenant, account.CatalogRead), Filter{}, "", 0)
	wantKind(t, err, fault.Forbidden)
	_, err = h.List(t.Context(), account.Caller{}, Filter{}, "", 0)
	wantKind(t, err, fault.Unauthenticated)
}

// CASES B25: cursors that are none, that were tampered with, of other lists, of rows that are gone, and a stranger's.
func TestListCursors(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	all := h.population(30, rand.New(rand.NewPCG(5, 6)))
	page, err := h.List(t.Context(), h.caller, Filter{}, "", 10)
	if err != nil || page.Next == "" {
		t.Fatal(page.Next, err)
	}
	turned := []byte(page.Next)
	turned[len(turned)/2] ^= 1
	for name, text := range map[string]string{
		"tampered":   string(turned[:len(turned)-1]),
		"nonsense":   "x.y",
		"long":       strings.Repeat("A", 10_000),
		"other list": cursor.Encode("endpoints", all[0].Endpoint.ID),
		"resource's": cursor.Encode(cursorByPosition, "17", all[0].ID),
		"bad day":    cursor.Encode(cursorByDay, "2026-13-01", all[0].ID),
		"no id":      cursor.Encode(cursorByDay, "2026-01-01", "dlv_1"),
		"other id":   cursor.Encode(cursorByDay, "2026-01-01", all[0].Event.ID),
	} {
		_, err := h.List(t.Context(), h.caller, Filter{}, text, 10)
		if fault.KindOf(err) != fault.Malformed {
			t.Errorf("%s: %v, want malformed", name, err)
		}
	}
	for _, text := range []string{cursor.Encode(cursorByPosition, "x", all[0].ID), cursor.Encode(cursorByPosition, "-1", all[0].ID), page.Next} {
		_, err := h.List(t.Context(), h.caller, Filter{ResourceID: "C-2"}, text, 10)
		wantKind(t, err, fault.Malformed)
	}
	if got, err := h.List(t.Context(), h.stranger, Filter{}, page.Next, 10); err != nil || len(got.Deliveries) != 0 {
		t.Errorf("a stranger with our cursor: %d, %v", len(got.Deliveries), err)
	}
	rest, err := h.List(t.Context(), h.caller, Filter{}, page.Next, 200)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`delete from deliveries where id = $1`, page.Deliveries[9].ID)
	again, err := h.List(t.Context(), h.caller, Filter{}, page.Next, 200)
	if err != nil || len(again.Deliveries) != len(rest.Deliveries) {
		t.Errorf("behind a row that is gone: %d, %v, want %d", len(again.Deliveries), err, len(rest.Deliveries))
	}
	// A later filter's cursor in a list that ends earlier starts at that end.
	until := Filter{Until: page.Deliveries[9].CreatedAt.Add(-48 * time.Hour)}
	early, err := h.List(t.Context(), h.caller, until, page.Next, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range early.Deliveries {
		if !d.CreatedAt.Before(until.Until) {
			t.Errorf("%s of %v is shown in a list until %v", d.ID, d.CreatedAt, until.Until)
		}
	}
}

// Every statement that a filter makes names the tenant, and uses no text of the filter's values.
func TestComposedStatements(t *testing.T) {
	t.Parallel()
	hostile := `'; drop table tenants --`
	endpoint := id.New(id.Endpoint, time.Now())
	made := map[string]bool{}
	for _, f := range everyFilter(endpoint, hostile) {
		for _, few := range []bool{true, false} {
			src := f.source("tnt_x", few, usual)
			rows := filled(sqlRows, []string{src.rest})
			for _, sql := range []string{src.sql, rows} {
				made[sql] = true
				if strings.Contains(sql, hostile) || strings.Contains(sql, endpoint) {
					t.Fatalf("%+v: a value stands in the statement:\n%s", f, sql)
				}
			}
			if !strings.Contains(src.sql, "tenant_id = @tenant") || src.args["tenant"] != "tnt_x" {
				t.Fatalf("%+v: names no tenant:\n%s", f, src.sql)
			}
			if src.rest != "" && !strings.Contains(rows, src.rest) || len(src.rest) == 0 && src.rows != nil {
				t.Fatalf("%+v: conditions are lost", f)
			}
		}
	}
	if len(made) < 100 {
		t.Errorf("only %d statements were made", len(made))
	}
}

func everyFilter(endpoint, text string) []Filter {
	all := []Filter{{}}
	vary := func(change func(f *Filter)) {
		for _, f := range all[:len(all):len(all)] {
			change(&f)
			all = append(all, f)
		}
	}
	vary(func(f *Filter) { f.EndpointID = endpoint })
	vary(func(f *Filter) { f.ResourceID, f.ResourceType = text, text })
	vary(func(f *Filter) { f.EventID = text })
	vary(func(f *Filter) { f.Type = text })
	vary(func(f *Filter) { f.Slower, f.Tests = time.Second, OnlyTests })
	vary(func(f *Filter) { f.Since, f.Until = time.Now(), time.Now() })
	vary(func(f *Filter) { f.Code, f.Trigger = "5xx", "manual" })
	for _, status := range []string{"held", "pending", "retrying", "recovered", "cancelled"} {
		vary(func(f *Filter) { f.Status = status })
	}
	return all
}
