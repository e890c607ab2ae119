package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/db/dbtest"
)

func TestGapPageSaysWhatDidNotArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/gap").says(t, http.StatusOK, "Nothing was published in this range", "Published 0")
	then := time.Now().Add(-2 * time.Hour)
	reached := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", ResourceID: "C-1", CreatedAt: then})
	dbtest.AddDelivery(t, b.pool, dbtest.Delivery{Event: reached, Status: "delivered"})
	who.get("/gap").says(t, http.StatusOK, "Everything arrived", "Published 1", "Delivered 1 100 %", "Neither 0")
	lost := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.sent", ResourceID: "C-2", CreatedAt: then})
	dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: dbtest.AddTenant(t, b.pool, dbtest.Tenant{}).ID, Type: "order.theirs", CreatedAt: then})
	page := who.get("/gap")
	page.says(t, http.StatusOK, "Published 2", "Delivered 1 50.0 %", "Neither 1 50.0 %", "order.sent", "C-2")
	for text, want := range map[string]bool{`href="/events/` + lost.ID + `#why-title"`: true, reached.ID: false, "order.theirs": false} {
		if strings.Contains(page.body, text) != want {
			t.Errorf("%q is on the page: %v", text, !want)
		}
	}
	who.get("/events").says(t, http.StatusOK, "What did not arrive")
	who.get("/events/"+lost.ID).says(t, http.StatusOK, "Did it arrive?")

	for range 50 {
		dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.more", CreatedAt: then.Add(time.Minute)})
	}
	page = who.get("/gap?range=7d")
	page.says(t, http.StatusOK, "Neither 51", "40 events on this page", "Newer")
	_, after, _ := strings.Cut(page.body, `href="/gap?cursor=`)
	next := "/gap?cursor=" + strings.ReplaceAll(after[:strings.IndexByte(after, '"')], "&amp;", "&")
	second := who.get(next)
	second.says(t, http.StatusOK, "11 events on this page", "Oldest")
	if strings.Contains(second.body, "figure-name") || strings.Count(second.body, `<tr id="`) != 11 {
		t.Error("the second page counts again, or has not just the rest")
	}

	who.get("/gap?range=1y").says(t, http.StatusUnprocessableEntity, "This filter is not valid")
	who.get("/gap?range=custom&from=yesterday").says(t, http.StatusUnprocessableEntity, "From: it must be a date and time")
	early := url.Values{"range": {"custom"}, "from": {"2026-01-01T00:00"}, "to": {"2026-06-01T00:00"}}
	who.get("/gap?"+early.Encode()).says(t, http.StatusUnprocessableEntity, "92 days")
	who.get("/gap?cursor=x").says(t, http.StatusBadRequest)
	blind := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.CatalogRead}})
	blind.get("/gap").says(t, http.StatusForbidden, "deliveries:read")
}

func TestConsumersAreShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/consumers").says(t, http.StatusOK, "No consumers yet")
	who.get("/keys").says(t, http.StatusOK, "Consumers")
	events := &catalog.Events{DB: b.pool, Feed: catalog.NewFeed(b.pool, nil, b.accounts.KeysAlive)}
	t.Cleanup(events.Feed.Close)
	all := &catalog.Consumers{Events: events, Accounts: b.accounts}
	dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid"})
	ours := account.Waybill("tests", b.tenant.ID)
	for name, at := range map[string]catalog.Place{"warehouse": {Start: true}, "shop": {}} {
		if _, err := all.Put(t.Context(), ours, name, []string{"order.*"}, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := all.Next(t.Context(), ours, "warehouse", 0, time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	who.get("/consumers").says(t, http.StatusOK, "warehouse order.* the beginning 1 event lease ends in", "shop order.*", "Nothing none")
	stranger := b.signedIn(dbtest.AddTenant(t, b.pool, dbtest.Tenant{}), account.PortalInput{})
	stranger.get("/consumers").says(t, http.StatusOK, "No consumers yet")
	blind := b.signedIn(b.tenant, account.PortalInput{Scopes: []account.Scope{account.DeliveriesRead}})
	blind.get("/consumers").says(t, http.StatusForbidden, "catalog:read")
}

func TestEventThatBreaksItsSchemaSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	types := &catalog.Types{DB: b.pool, Accounts: b.accounts}
	in := catalog.EventTypeInput{Schema: []byte(`{"type":"object","required":["weight_kg"]}`), Enforced: true}
	if _, err := types.EventTypePut(t.Context(), account.Waybill("tests", ""), "order.paid", in); err != nil {
		t.Fatal(err)
	}
	event := dbtest.AddEvent(t, b.pool, dbtest.Event{TenantID: b.tenant.ID, Type: "order.paid", Body: `{"id":"x","type":"order.paid","data":{}}`})
	who := b.signedIn(b.tenant, account.PortalInput{})
	who.get("/events/"+event.ID).says(t, http.StatusOK, "This event breaks the schema of its type", "missing property 'weight_kg'", "See the schema")
	who.get("/event-types").says(t, http.StatusOK, "version 1 enforced")
	who.get("/event-types/order.paid").says(t, http.StatusOK, "Enforced: the API refuses to publish")
}
