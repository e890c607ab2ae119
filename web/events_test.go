package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/db/dbtest"
)

func TestEventSaysWhyItDidNotArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	then := time.Now().Add(-2 * time.Hour)
	event := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", ResourceID: "C-7", Sequence: 2, CreatedAt: then})
	dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.sent", ResourceID: "C-7", Sequence: 3, CreatedAt: then.Add(time.Minute)})
	endpoint := func(e dbtest.Endpoint) dbtest.Endpoint {
		e.TenantID, e.CreatedAt = b.tenant.ID, then.Add(-time.Hour)
		return dbtest.AddEndpoint(t, b.pool, e)
	}
	good := endpoint(dbtest.Endpoint{URL: "https://good.example/in"})
	failing := endpoint(dbtest.Endpoint{URL: "https://failing.example/in"})
	paused := endpoint(dbtest.Endpoint{URL: "https://paused.example/in", State: "paused", Reason: "manual", StateBy: "meera"})
	dead := endpoint(dbtest.Endpoint{URL: "https://dead.example/in"})
	endpoint(dbtest.Endpoint{URL: "https://other.example/in", Types: []string{"invoice.*"}})
	dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, URL: "https://late.example/in"})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: good, Status: "delivered"})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: failing, Attempts: 2, Failures: 2, LastClass: "status", LastCode: 401, NextAt: time.Now().Add(time.Hour)})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: paused, Status: "held", Reason: "paused"})
	lost := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: dead, Status: "undelivered", Reason: "schedule_exhausted", Attempts: 10, Failures: 10, LastClass: "refused"})

	who := b.signedIn(b.tenant, account.PortalInput{})
	page := who.get("/events/" + event.ID)
	page.says(t, http.StatusOK, "order.paid", "C-7 , sequence 2", "Newer news of this resource exists.",
		"good.example /in Delivered on the first attempt",
		"failing.example /in Retrying your server answered 401 Unauthorized; attempt 3 of 10 is due at",
		"paused.example /in Held paused by meera since", "Enable…",
		"dead.example /in Undelivered no HTTP answer came; every attempt of the schedule failed", "See what to mend",
		"other.example /in Not subscribed to order.paid Change subscriptions",
		"late.example /in Added later the endpoint did not exist yet",
		"3 · order.sent", "2 · order.paid", "9007199254740993")
	if first := strings.Index(page.body, "dead.example"); first > strings.Index(page.body, "good.example") {
		t.Error("what needs somebody does not come first")
	}
	if !strings.Contains(page.body, `href="/deliveries/`+lost.ID+`"`) {
		t.Error("the delivery is not linked")
	}
	body := who.get("/events/" + event.ID + "/body")
	if body.body != event.Body || body.header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(body.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the body is not the event's bytes as text: %v %q", body.header, body.body)
	}
	who.get("/events/evt_none").says(t, http.StatusNotFound)
}

func TestEventsAreFoundByTypeResourceAndID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/events").says(t, http.StatusOK, "Nothing has been published yet", "90 days")
	then := time.Now().Add(-time.Hour)
	lone := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", ResourceID: "C-1", CreatedAt: then})
	sent := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.sent", ResourceID: "C-2", CreatedAt: then})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: sent, Status: "delivered"})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: sent, Status: "held", Reason: "paused", Endpoint: dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID})})
	who.get("/events").says(t, http.StatusOK, "2 events", "order.paid", "No endpoint subscribed", "order.sent", "Delivered Held")
	for query, want := range map[string]string{
		"q=C-1": lone.ID, "q=" + sent.ID: sent.ID, "type=order.paid": lone.ID, "type=order.*&q=C-2": sent.ID, "q=" + sent.ID + "&type=order.sent": sent.ID,
	} {
		got := who.get("/events?" + query)
		if got.status != http.StatusOK || strings.Count(got.body, `<tr id="evt_`) != 1 || !strings.Contains(got.body, `<tr id="`+want+`"`) {
			t.Errorf("%q answered %d and shows not just %s", query, got.status, want)
		}
	}
	who.get("/events?q=C-9").says(t, http.StatusOK, "Nothing matches")
	who.get("/events?type=%3Cb%3E").says(t, http.StatusUnprocessableEntity, "This filter is not valid", "Event type: it must be")
	who.get("/events?cursor=x").says(t, http.StatusBadRequest)
	blind := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.DeliveriesRead}})
	blind.get("/events").says(t, http.StatusForbidden, "catalog:read")
}

func TestExpungeAsksOwnersAndSaysWhatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.join(t, b.tenant, "meera@example.com", account.Owner)
	b.join(t, b.tenant, "dev@example.com", account.Developer)
	event := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", ResourceID: "C-7"})
	ep := dbtest.AddEndpoint(t, b.pool, dbtest.Endpoint{TenantID: b.tenant.ID, State: "paused", Reason: "manual", URL: "https://paused.example/in"})
	held := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Endpoint: ep, Status: "held", Reason: "endpoint_paused"})
	sent := dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: event, Status: "delivered"})
	dbtest.AddAttempt(t, b.pool, dbtest.Attempt{Delivery: sent, ResponseHeaders: `[]`, ResponseBody: []byte("secret answer"), ResponseSize: 13})
	ask := "/events/" + event.ID + "/expunge"

	dev := b.as(t, "dev@example.com")
	if got := dev.get("/events/" + event.ID); strings.Contains(got.body, ask) {
		t.Error("a developer is offered to expunge")
	}
	dev.get(ask).says(t, http.StatusForbidden)
	dev.post(ask, nil).says(t, http.StatusForbidden)
	owner := b.as(t, "meera@example.com")
	owner.get("/events/"+event.ID).says(t, http.StatusOK, "Expunge content…", "9007199254740993")
	owner.get(ask).says(t, http.StatusOK, "Expunge content", "order.paid of C-7", "1 delivery that waits is cancelled.", "cannot be brought back")
	owner.get("/events/evt_none/expunge").says(t, http.StatusNotFound)
	owner.follow(ask, nil).says(t, http.StatusOK, "The event's content is expunged. 1 delivery was cancelled.", "Content expunged on", "by meera@example.com",
		"paused.example /in Cancelled the event's content was expunged")
	if got := owner.get("/events/" + event.ID); strings.Contains(got.body, "9007199254740993") || strings.Contains(got.body, "Expunge content…") {
		t.Error("the content is shown, or offered to be expunged again")
	}
	owner.get("/deliveries/"+held.ID).says(t, http.StatusOK, "It was cancelled. Content expunged on", "by meera@example.com.", "nothing left to send")
	page := owner.get("/deliveries/" + sent.ID)
	page.says(t, http.StatusOK, "Delivered", "Content expunged on", "nothing left to send")
	if strings.Contains(page.body, "secret answer") || strings.Contains(page.body, "9007199254740993") {
		t.Error("the delivery's page shows content")
	}
	owner.get("/activity").says(t, http.StatusOK, "meera@example.com expunged the content of")
}
