package web_test

import (
	"bufio"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/db/dbtest"
)

// seed puts deliveries of each kind in, the oldest first, and returns them by a name.
func seed(t *testing.T, b *bench) map[string]dbtest.Delivery {
	t.Helper()
	e := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://orders.example/hooks", Description: "Orders"})
	at := time.Now().Add(-3 * time.Hour)
	add := func(d dbtest.Delivery) dbtest.Delivery {
		at = at.Add(time.Minute)
		d.Endpoint, d.CreatedAt = e, at
		return dbtest.AddDelivery(t, b.pool, d)
	}
	event := func(kind, resource string) dbtest.Event {
		return dbtest.Event{TenantID: b.tenant.ID, Type: kind, ResourceID: resource, CreatedAt: at}
	}
	return map[string]dbtest.Delivery{
		"delivered":   add(dbtest.Delivery{Event: event("order.paid", "C-1"), Status: "delivered"}),
		"recovered":   add(dbtest.Delivery{Event: event("order.paid", "C-2"), Status: "delivered", Attempts: 3, Failures: 2}),
		"retrying":    add(dbtest.Delivery{Event: event("order.sent", "C-3"), Attempts: 1, Failures: 1, LastCode: 500, NextAt: time.Now().Add(time.Hour)}),
		"undelivered": add(dbtest.Delivery{Event: event("order.sent", "C-4"), Status: "undelivered", Reason: "schedule_exhausted", Attempts: 10, Failures: 10, LastCode: 401}),
		"held":        add(dbtest.Delivery{Event: event("order.paid", "C-5"), Status: "held", Reason: "paused"}),
		"cancelled":   add(dbtest.Delivery{Event: event("order.paid", "C-6"), Status: "cancelled", Reason: "deleted"}),
	}
}

// rowsOf says which of the deliveries a page has rows of.
func rowsOf(a answer, all map[string]dbtest.Delivery) []string {
	var names []string
	for name, d := range all {
		if strings.Contains(a.body, `<tr id="`+d.ID+`"`) {
			names = append(names, name)
		}
	}
	return names
}

func TestDeliveriesUnderEveryFacet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: all["undelivered"], Number: 10, Trigger: "manual", Class: "status", Code: 401})
	dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: all["recovered"], Number: 3})
	who := b.signedIn(b.tenant, account.PortalInput{})
	endpoint := all["held"].Endpoint.ID
	for query, want := range map[string]string{
		"":                                       "delivered recovered retrying undelivered held cancelled",
		"status=delivered":                       "delivered recovered",
		"status=recovered":                       "recovered",
		"status=retrying":                        "retrying",
		"status=pending":                         "retrying",
		"status=undelivered":                     "undelivered",
		"status=held":                            "held",
		"status=cancelled":                       "cancelled",
		"type=order.sent":                        "retrying undelivered",
		"type=order.*&status=held":               "held",
		"code=401":                               "undelivered",
		"code=4xx":                               "undelivered",
		"trigger=manual":                         "undelivered",
		"endpoint=" + endpoint:                   "delivered recovered retrying undelivered held cancelled",
		"q=C-3":                                  "retrying",
		"q=" + all["held"].Event.ID:              "held",
		"q=" + all["cancelled"].ID:               "cancelled",
		"range=1h":                               "",
		"range=24h":                              "delivered recovered retrying undelivered held cancelled",
		"range=custom&to=2020-01-01T00%3A00":     "",
		"slower=1000":                            "",
		"slower=41":                              "delivered recovered retrying undelivered",
		"q=C-1&status=held":                      "",
		"endpoint=ep_01J00000000000000000000000": "",
	} {
		got := who.get("/deliveries?" + query)
		if got.status != http.StatusOK {
			t.Errorf("%q answered %d", query, got.status)
			continue
		}
		shown := map[string]bool{}
		for _, name := range rowsOf(got, all) {
			shown[name] = true
		}
		if wanted := strings.Fields(want); len(wanted) != len(shown) {
			t.Errorf("%q shows %v, want %s", query, shown, want)
		}
		for _, name := range strings.Fields(want) {
			if !shown[name] {
				t.Errorf("%q does not show what is %s", query, name)
			}
		}
	}
	who.get("/deliveries?range=custom&to=2020-01-01T00%3A00").says(t, http.StatusOK, "Older than the history", "90 days")
	who.get("/deliveries?q=C-999").says(t, http.StatusOK, "Nothing matches", "Clear the filters")
	who.get("/deliveries").says(t, http.StatusOK, "1 to 6 of 6", "Retrying next", "Recovered", "Orders", "order.paid C-1")
	who.get("/deliveries/export?status=held").says(t, http.StatusOK, "Of the history under the filter: 1 delivery.", "Download CSV", "Make the file")
	csv := who.get("/deliveries/export/file?status=held")
	if csv.status != http.StatusOK || !strings.HasPrefix(csv.header.Get("Content-Type"), "text/csv") || !strings.Contains(csv.header.Get("Content-Disposition"), "attachment") ||
		strings.Count(csv.body, "\n") != 2 || !strings.Contains(csv.body, all["held"].ID) {
		t.Errorf("the export is not that of the filter: %d %v %q", csv.status, csv.header, csv.body)
	}
}

func TestFiltersThatCannotBeMatchNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seed(t, b)
	who := b.signedIn(b.tenant, account.PortalInput{})
	for query, words := range map[string]string{
		"status=lost": "Outcome: it must be", "code=abc": "Answer: it must be", "type=%3Cscript%3E": "Event type: it must be", "slower=x": "Slower than: it must be",
		"range=century": "From: it must be", "range=custom&from=soon": "From: it must be", "endpoint=ep_1": "Endpoint: it must be", "trigger=x": "Sent because: it must be",
	} {
		got := who.get("/deliveries?" + query)
		got.says(t, http.StatusUnprocessableEntity, "This filter is not valid", words, "Nothing matches")
		if live := who.get("/deliveries/live?" + query); live.status != http.StatusNoContent {
			t.Errorf("the stream of %q answered %d", query, live.status)
		}
		if strings.Contains(got.body, "<script>") {
			t.Error("a filter is markup")
		}
	}
	who.get("/deliveries?cursor=nonsense").says(t, http.StatusBadRequest)
	for _, query := range []string{"status=%00", "q=%ff", "q=%1b%5b31m", "%zz=1", "q=a%0ab"} {
		if got := who.get("/deliveries?" + query); got.status != http.StatusBadRequest {
			t.Errorf("%q answered %d, want 400", query, got.status)
		}
	}
	long := who.get("/deliveries?q=" + strings.Repeat("x", 5000))
	long.says(t, http.StatusUnprocessableEntity, "at most 200 characters")
}

func TestPagesOfDeliveriesShowEachOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID})
	event := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID})
	at := time.Now().Add(-time.Minute)
	want := map[string]bool{}
	for range 120 { // all of one instant
		want[dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: e, CreatedAt: at, Status: "delivered"}).ID] = true
	}
	who := b.signedIn(b.tenant, account.PortalInput{})
	address, pages := "/deliveries?status=delivered", 0
	for address != "" {
		got := who.get(address)
		got.says(t, http.StatusOK, "of 120")
		if pages++; pages > 5 {
			t.Fatal("the pages do not end")
		}
		for id := range want {
			if strings.Contains(got.body, `<tr id="`+id+`"`) {
				delete(want, id)
			}
		}
		_, rest, more := strings.Cut(got.body, `rel="next"`)
		address = ""
		if more {
			link := got.body[:len(got.body)-len(rest)]
			link = link[strings.LastIndex(link, `href="`)+6:]
			address, _, _ = strings.Cut(strings.ReplaceAll(link, "&amp;", "&"), `"`)
		}
	}
	if pages != 3 || len(want) != 0 {
		t.Errorf("%d pages, and %d deliveries are on none", pages, len(want))
	}
}

func TestDeliveryShowsItsEvidence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	d := all["retrying"]
	const hostile = `<script>alert(1)</script>` + "\x1b[31m" + `"><img src=x onerror=alert(2)>`
	first := dbtest.AddAttempt(t, b.pool, dbtest.Attempt{
		Delivery: d, Class: "status", Code: 500, ResponseHeaders: `[["Content-Type","text/html"],["X-Odd","<b>"]]`, ResponseBody: []byte(hostile), ResponseSize: int64(len(hostile)),
		Proto: "HTTP/1.1", Remote: "203.0.113.24:443", TLS: `{"version":"TLS 1.3","not_after":"2020-01-02T03:04:05Z"}`, ConnectUS: 18_000, TLSUS: 31_000, WaitUS: 1_100_000, ReadUS: 900, TotalUS: 1_149_900,
		StartedAt: d.CreatedAt.Add(time.Second),
	})
	second := dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: d, Number: 2, Trigger: "manual", RequestedBy: "meera", Class: "refused", StartedAt: d.CreatedAt.Add(6 * time.Minute)})
	who := b.signedIn(b.tenant, account.PortalInput{})
	at := "/deliveries/" + d.ID

	page := who.get(at)
	page.says(t, http.StatusOK, "order.sent", "Retrying 1 of 10 attempts failed", "C-3", "sequence 1", "Orders", "1 · 500", "2 · no answer", "Resent by meera", "later",
		"Attempt 2", "No HTTP answer came", "Attempt 2 of 10", "more attempts", "Resend now", "No answer came.")
	if page.header.Get("Cache-Control") != "no-store" {
		t.Error("evidence may be kept by the browser")
	}
	earlier := who.get(at + "/attempts/" + first.ID)
	earlier.says(t, http.StatusOK, "Your server answered 500 Internal Server Error", "HTTP/1.1 500 Internal Server Error", "POST /hooks HTTP/1.1", "webhook-id "+d.Event.ID, "Connect 18 ms", "Waiting 1.1 s",
		"203.0.113.24:443", "ended on 2 Jan 2020", "Attempt 2 came", "<script>alert(1)</script>", "X-Odd <b>")
	for _, forbidden := range []string{"<script>alert", "<img src=x", "\x1b", "<b>\n"} {
		if strings.Contains(earlier.body, forbidden) {
			t.Errorf("the receiver's %q is not inert", forbidden)
		}
	}
	who.get(at+"/attempts/"+first.ID+"?view=hex").says(t, http.StatusOK, "3c 73 63 72 69 70 74")
	who.get(at+"/attempts/att_01J00000000000000000000000").says(t, http.StatusNotFound)

	raw := who.get(at + "/attempts/" + first.ID + "/response")
	if raw.body != hostile || raw.header.Get("Content-Type") != "text/plain; charset=utf-8" || raw.header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.Contains(raw.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the answer's body is not plain text in a sandbox: %v %q", raw.header, raw.body)
	}
	if curl := who.get(at + "/attempts/" + second.ID + "/curl"); curl.status != http.StatusOK || !strings.HasPrefix(curl.body, "curl ") || !strings.Contains(curl.body, "https://orders.example/hooks") {
		t.Errorf("curl: %d %q", curl.status, curl.body)
	}
	if text := who.get(at + "/attempts/" + second.ID + "/http"); !strings.HasPrefix(text.body, "POST /hooks HTTP/1.1\r\nHost: orders.example\r\n") || !strings.HasSuffix(text.body, d.Event.Body) {
		t.Errorf("HTTP: %q", text.body)
	}

	// Without the catalog there are no payloads.
	blind := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.DeliveriesRead}})
	hidden := blind.get(at + "/attempts/" + first.ID)
	hidden.says(t, http.StatusOK, "Your access does not include payloads.")
	if strings.Contains(hidden.words(), "9007199254740993") || strings.Contains(hidden.words(), "alert(1)") {
		t.Error("a payload is shown to who may not see it")
	}
	blind.get(at+"/attempts/"+first.ID+"/response").says(t, http.StatusForbidden, "catalog:read")
	blind.get(at+"/attempts/"+first.ID+"/curl").says(t, http.StatusForbidden)
}

func TestResendFromThePages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	who := b.signedIn(b.tenant, account.PortalInput{Label: "meera"})
	due := func(d dbtest.Delivery) (n int, trigger string) {
		t.Helper()
		if err := b.pool.QueryRow(t.Context(), `select count(*), coalesce(max(trigger), '') from due where delivery_id = $1`, d.ID).Scan(&n, &trigger); err != nil {
			t.Fatal(err)
		}
		return n, trigger
	}
	at := "/deliveries/" + all["undelivered"].ID
	who.follow(at+"/resend", nil).says(t, http.StatusOK, "It is on its way again.")
	if n, trigger := due(all["undelivered"]); n != 1 || trigger != "manual" {
		t.Errorf("%d are due, for %q", n, trigger)
	}
	who.follow(at+"/resend", nil).says(t, http.StatusOK, "It was not resent.") // a second click
	who.get("/deliveries/"+all["delivered"].ID).says(t, http.StatusOK, "Resend…")
	who.get("/deliveries/"+all["delivered"].ID+"/resend").says(t, http.StatusOK, "Your server accepted it before.")

	// Several at once: first the question, then the deed; what cannot be is said.
	stranger := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Status: "undelivered", Reason: "gone"})
	chosen := url.Values{"delivery": {all["delivered"].ID, all["recovered"].ID, all["undelivered"].ID, stranger.ID}}
	who.post("/deliveries/resend", chosen).says(t, http.StatusOK, "Resend 4 deliveries")
	if n, _ := due(all["delivered"]); n != 0 {
		t.Error("the question has sent something")
	}
	chosen.Set("confirmed", "yes")
	who.follow("/deliveries/resend", chosen).says(t, http.StatusOK, "2 deliveries are on their way again. 2 were left out:")
	if n, _ := due(stranger); n != 0 {
		t.Error("another tenant's delivery is sent")
	}
	who.follow("/deliveries/resend", nil).says(t, http.StatusOK, "Nothing was chosen.")
	looker := b.signedIn(b.tenant, account.PortalInput{ReadOnly: true})
	looker.post("/deliveries/"+all["held"].ID+"/resend", nil).says(t, http.StatusForbidden, "deliveries:resend")
	if page := looker.get("/deliveries/" + all["held"].ID); strings.Contains(page.body, "Resend now") {
		t.Error("a resend is offered to who may not")
	}
}

func TestUndeliveredAndHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/undelivered").says(t, http.StatusOK, "Nothing is parked")
	all := seed(t, b)
	page := who.get("/undelivered")
	page.says(t, http.StatusOK, "All 2 Undelivered 1 Held 1", "Every attempt of the schedule failed; the first ages out on", "every attempt of the schedule failed", "1 to 2 of 2", "Undelivered 1 waiting")
	if got := rowsOf(page, all); len(got) != 2 {
		t.Errorf("rows of %v", got)
	}
	if got := rowsOf(who.get("/undelivered?status=held"), all); len(got) != 1 || got[0] != "held" {
		t.Errorf("under held: rows of %v", got)
	}
	who.get("/undelivered?status=everything").says(t, http.StatusNotFound)
	who.get("/undelivered?endpoint=ep_01J00000000000000000000000").says(t, http.StatusOK, "Nothing is parked")
}

func TestOverviewSaysWhatNeedsSomebody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/").says(t, http.StatusOK, "From here to your first event", "Add the URL of your server")
	all := seed(t, b)
	e := all["held"].Endpoint
	who.get("/").says(t, http.StatusOK, "All endpoints are well", "Waiting 1", "Undelivered 1")
	for i := range 4 {
		dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: all["retrying"], Number: i + 2, Class: "status", Code: 503, StartedAt: time.Now().Add(time.Duration(i-10) * time.Minute)})
	}
	if _, err := b.pool.Exec(t.Context(), `update deliveries set attempts = 5, failures = 5, last_at = now(), last_code = 503 where id = $1`, all["retrying"].ID); err != nil {
		t.Fatal(err)
	}
	who.get("/").says(t, http.StatusOK, "Failing", "Answers 503 since", "1 delivery waits.")
	who.get("/endpoints").says(t, http.StatusOK, "Failing", "answers 503 since", "1 of the last 5 attempts delivered", "503")
	who.get("/endpoints/"+e.ID).says(t, http.StatusOK, "Your server answered 503 Service Unavailable, since", "4 attempts have failed in a row", "Recent deliveries", "C-3")
	who.post("/endpoints/"+e.ID+"/pause", nil)
	who.get("/").says(t, http.StatusOK, "Paused", "Its events are held.")
}

// events reads server-sent events from a stream until one of the name comes.
func (w *browser) events(address string) (next func(name string) string, end func()) {
	w.t.Helper()
	r := w.request(http.MethodGet, address, nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		w.t.Fatalf("%s answered %d %s", address, response.StatusCode, response.Header.Get("Content-Type"))
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(response.Body)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	next = func(name string) string {
		w.t.Helper()
		late := time.After(20 * time.Second)
		event, data := "", ""
		for {
			select {
			case line, open := <-lines:
				field, value, _ := strings.Cut(line, ": ")
				switch {
				case !open:
					return "closed"
				case field == "event":
					event = value
				case field == "data":
					data += value
				case line == "" && event == name:
					return data
				case line == "":
					event, data = "", ""
				}
			case <-late:
				w.t.Fatalf("no event %q came", name)
			}
		}
	}
	return next, func() { response.Body.Close() }
}

func TestLiveRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	who := b.signedIn(b.tenant, account.PortalInput{})
	page := who.get("/deliveries")
	_, rest, found := strings.Cut(page.body, `data-live="`)
	if !found {
		t.Fatal("the page has no stream")
	}
	address, _, _ := strings.Cut(strings.ReplaceAll(rest, "&amp;", "&"), `"`)

	// What came between the page and its stream is told first, then what is new, then what changes.
	missed := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: all["held"].Endpoint})
	next, end := who.events(address)
	defer end()
	if got := next("row"); !strings.Contains(got, `<tr id="`+missed.ID+`"`) {
		t.Errorf("the first row is %q, want %s", got, missed.ID)
	}
	fresh := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: all["held"].Endpoint})
	if got := next("row"); !strings.Contains(got, `<tr id="`+fresh.ID+`"`) || !strings.Contains(got, "Pending") {
		t.Errorf("the next row is %q, want %s", got, fresh.ID)
	}
	if _, err := b.pool.Exec(t.Context(), `update deliveries set status = 'delivered', attempts = 1, last_at = now(), last_class = 'delivered', last_code = 204, finished_at = now() where id = $1`, fresh.ID); err != nil {
		t.Fatal(err)
	}
	if got := next("row"); !strings.Contains(got, `<tr id="`+fresh.ID+`"`) || !strings.Contains(got, "204") {
		t.Errorf("the changed row is %q", got)
	}

	// Another tenant hears nothing of it; a session that ends takes its streams along.
	if _, err := b.pool.Exec(t.Context(), `delete from sessions`); err != nil {
		t.Fatal(err)
	}
	if got := next("row"); got != "closed" {
		t.Errorf("the stream of a session that was revoked goes on: %q", got)
	}
	if got := who.get(address); got.status != http.StatusUnauthorized {
		t.Errorf("coming back answered %d, want 401", got.status)
	}
}

func TestLivePagesEndWithTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	who := b.signedIn(b.tenant, account.PortalInput{})
	for _, address := range []string{"/live", "/deliveries/live", "/deliveries/" + all["held"].ID + "/live", "/endpoints/" + all["held"].Endpoint.ID + "/live"} {
		next, end := who.events(address)
		defer end()
		defer func() {
			if got := next("row"); got != "closed" {
				t.Errorf("%s goes on: %q", address, got)
			}
		}()
	}
	b.Close()
	if got := who.get("/live"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("a stream while stopping answered %d", got.status)
	}
	who.get("/deliveries").says(t, http.StatusOK, "1 to 6")
}

func TestDeliveryIsToldWhenItHasChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	d := seed(t, b)["retrying"]
	who := b.signedIn(b.tenant, account.PortalInput{})
	page := who.get("/deliveries/" + d.ID)
	_, rest, _ := strings.Cut(page.body, `data-live="`)
	address, _, _ := strings.Cut(strings.ReplaceAll(rest, "&amp;", "&"), `"`)
	if _, err := b.pool.Exec(t.Context(), `update deliveries set attempts = attempts + 1 where id = $1`, d.ID); err != nil {
		t.Fatal(err)
	}
	next, end := who.events(address) // it changed before the stream began
	defer end()
	next("changed")
	if _, err := b.pool.Exec(t.Context(), `update deliveries set attempts = attempts + 1 where id = $1`, d.ID); err != nil {
		t.Fatal(err)
	}
	next("changed")
}
