package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/policy"
	"waybill/db/dbtest"
)

func TestExportAsAFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := seed(t, b)
	dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: all["undelivered"], Number: 10, Class: "status", Code: 401})
	b.join(t, b.tenant, "anna@example.com", account.Owner)
	anna := b.as(t, "anna@example.com")
	begun := anna.post("/deliveries/export?status=undelivered", url.Values{"kind": {"attempts"}})
	if begun.status != http.StatusSeeOther || !strings.HasPrefix(begun.location(), "/exports/exp_") {
		t.Fatalf("it begins with %d to %q", begun.status, begun.location())
	}
	anna.get(begun.location()).says(t, http.StatusOK, "Export of attempts", "Running", "Cancel export", "It goes on if you leave this page.")
	again := anna.post("/deliveries/export", url.Values{"kind": {"deliveries"}})
	anna.get(again.location()).says(t, http.StatusOK, "Another export is being made.", "A file is being made")
	if got := anna.get(begun.location() + "/file"); got.status != http.StatusConflict {
		t.Errorf("it is there before it is done: %d", got.status)
	}
	worker := &delivery.Service{DB: b.pool, Policies: policy.Builtin(), Lanes: lanes{b.pool}, Audit: b.accounts, Files: exports{}}
	ticket := delivery.FileTicket{ID: strings.TrimPrefix(begun.location(), "/exports/"), TenantID: b.tenant.ID, Gen: 1}
	if over, err := worker.FileRun(t.Context(), ticket, time.Minute); err != nil || !over {
		t.Fatal(over, err)
	}
	anna.get(begun.location()).says(t, http.StatusOK, "Done", "Download CSV", "1 line", "It is removed in")
	file := anna.get(begun.location() + "/file")
	if file.status != http.StatusOK || strings.Count(file.body, "\n") < 2 || !strings.Contains(file.body, all["undelivered"].ID) || strings.Contains(file.body, all["held"].ID) ||
		file.header.Get("Content-Type") != "text/csv; charset=utf-8" || file.header.Get("Content-Length") != fmt.Sprint(len(file.body)) {
		t.Errorf("the file is %d %v %q", file.status, file.header, file.body)
	}
	// It holds what may be revealed: a viewer is told, and has none of it.
	b.join(t, b.tenant, "ben@example.com", account.Viewer)
	ben := b.as(t, "ben@example.com")
	ben.get(begun.location()).says(t, http.StatusOK, "This file is not for you")
	if got := ben.get(begun.location() + "/file"); got.status != http.StatusForbidden {
		t.Errorf("a viewer has it: %d", got.status)
	}
	ben.get("/deliveries/export").says(t, http.StatusOK, "Of the whole history: 6 deliveries.", "Attempts, with static headers")
	ben.get("/deliveries/export?status=lost").says(t, http.StatusUnprocessableEntity, "This filter is not valid")
	ben.get("/deliveries/export?q=C-99").says(t, http.StatusOK, "Nothing matches the filter.")
	if got := anna.post(begun.location()+"/cancel", nil); got.status != http.StatusSeeOther {
		t.Errorf("cancelling a done one: %d", got.status)
	}
	anna.get(begun.location()).says(t, http.StatusOK, "This export has ended already.")
}

func TestSavedFiltersOnThePage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	seed(t, b)
	b.join(t, b.tenant, "anna@example.com", account.Viewer)
	anna := b.as(t, "anna@example.com")
	anna.get("/deliveries?status=held").says(t, http.StatusOK, "Save this filter")
	saved := anna.post("/deliveries/filters?status=held&cursor=x", url.Values{"name": {"What is <held>"}})
	if saved.location() != "/deliveries?status=held" {
		t.Fatalf("saving led to %q", saved.location())
	}
	page := anna.get(saved.location())
	page.says(t, http.StatusOK, "Filter saved.", "What is <held>")
	if strings.Contains(page.body, "<held>") || strings.Contains(page.body, "Save this filter") {
		t.Error("the name is markup, or the filter can be saved twice")
	}
	anna.get("/deliveries").says(t, http.StatusOK, "What is <held>")
	anna.post("/deliveries/filters?status=undelivered", url.Values{"name": {"What is <held>"}})
	anna.get("/deliveries").says(t, http.StatusOK, "Its name: it is that of another filter of yours.")
	remove := page.body[strings.Index(page.body, "/deliveries/filters/flt_"):]
	remove = strings.ReplaceAll(remove[:strings.IndexByte(remove, '"')], "&amp;", "&")
	guest := b.signedIn(b.tenant, account.PortalInput{})
	if got := guest.post(remove, nil); got.status != http.StatusNotFound {
		t.Errorf("somebody else deletes it: %d", got.status)
	}
	if got := anna.post(remove, nil); got.location() != "/deliveries?status=held" {
		t.Errorf("deleting led to %d %q", got.status, got.location())
	}
	if page := anna.get("/deliveries?status=held"); strings.Contains(page.words(), "What is") {
		t.Error("it is still there")
	}
	if page := guest.get("/deliveries?status=held"); strings.Contains(page.body, "Save this filter") {
		t.Error("who comes by a link is offered what they cannot have")
	}
}

// TestManyEndpoints walks the pages with 3,000 endpoints, of which the oldest are the ones that need somebody.
func TestManyEndpoints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://oldest.example/hooks", State: "disabled", Reason: "gone", CreatedAt: time.Now().Add(-time.Hour)})
	failing := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://failing.example/hooks", CreatedAt: time.Now().Add(-time.Hour)})
	d := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Endpoint: failing, Status: "undelivered", Reason: "schedule_exhausted", Attempts: 1})
	for _, sql := range []string{
		`insert into endpoint_health (endpoint_id, tenant_id, failing_since) values ('` + failing.ID + `', $1, now() - interval '1 hour')`,
		`insert into endpoints (id, tenant_id, url, description, state_by)
		 select 'ep_' || '7ZZZZZZZZZZZZZZZZZZZZZ' || lpad(n::text, 4, '0'), $1, 'https://hooks-' || n || '.shop.example/webhooks/consignments/inbound', 'Shop number ' || n, 'tests' from generate_series(1, 3000) n`,
		`insert into lanes (endpoint_id, tenant_id) select id, tenant_id from endpoints where tenant_id = $1 on conflict do nothing`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql, b.tenant.ID); err != nil {
			t.Fatal(err)
		}
	}
	who := b.signedIn(b.tenant, account.PortalInput{})
	for _, address := range []string{"/", "/endpoints", "/deliveries", "/undelivered", "/endpoints/new", "/event-types"} {
		begun := time.Now()
		got := who.get(address)
		t.Logf("%s: %d bytes in %s", address, len(got.body), time.Since(begun).Round(time.Millisecond))
		if got.status != http.StatusOK || len(got.body) > 60_000 {
			t.Errorf("%s answers %d with %d bytes", address, got.status, len(got.body))
		}
	}
	who.get("/").says(t, http.StatusOK, "oldest.example")
	who.get("/endpoints").says(t, http.StatusOK, "40 of 3,002 endpoints", "2 endpoints need attention")
	who.get("/endpoints?show=attention").says(t, http.StatusOK, "oldest.example", "failing.example", "2 endpoints")
	who.get("/endpoints?q=number+2718").says(t, http.StatusOK, "hooks-2718.shop.example", "1 endpoint")
	who.get("/endpoints?q=nothing").says(t, http.StatusOK, "Nothing matches", "None of your 3,002 endpoints")
	who.get("/endpoints?show=broken").says(t, http.StatusUnprocessableEntity, "This filter is not valid")

	// An endpoint is typed: one that is meant for sure, one of several, and none.
	who.get("/deliveries?endpoint=failing.exam").says(t, http.StatusOK, "1 to 1 of 1", d.Event.ResourceID)
	who.get("/deliveries?endpoint=number+271").says(t, http.StatusOK, "Which “number 271”?", "Shop number 2710", "Shop number 271")
	who.get("/deliveries?endpoint=number").says(t, http.StatusOK, "Many endpoints match")
	who.get("/deliveries?endpoint=nobody").says(t, http.StatusUnprocessableEntity, "Endpoint: it must be")
	who.get("/deliveries?endpoint="+old.ID).says(t, http.StatusOK, "This endpoint is off")
}
