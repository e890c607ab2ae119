package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"waybill/app/fault"
	"waybill/db/dbtest"
)

// seller is a tenant with a key, and its id.
func (b *bench) seller(t *testing.T, uid string) (key, tenantID string) {
	t.Helper()
	key = b.tenantKey(t, uid, "")
	if err := b.DB.QueryRow(t.Context(), "select id from tenants where uid = $1", uid).Scan(&tenantID); err != nil {
		t.Fatal(err)
	}
	return key, tenantID
}

func TestDeliveryRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	key, tenantID := s.seller(t, "shop-1")
	at := time.Now().Add(-time.Hour)
	endpoint := dbtest.AddEndpoint(t, s.DB, dbtest.Endpoint{TenantID: tenantID, URL: "https://user:pw@h.test/hook/SECRETPATH?token=SECRET"})
	event := dbtest.Event{TenantID: tenantID, Type: "order.paid", ResourceType: "order", ResourceID: "O 1/é", CreatedAt: at}
	delivered := dbtest.AddDelivery(t, s.DB, dbtest.Delivery{Endpoint: endpoint, Event: event, Status: "delivered", LastMS: 12, FinishedAt: at})
	event.CreatedAt = at.Add(time.Minute)
	retrying := dbtest.AddDelivery(t, s.DB, dbtest.Delivery{
		Endpoint: endpoint, Event: event, Attempts: 2, Failures: 2, LastClass: "refused", LastMS: 3, NextAt: time.Now().Add(time.Hour),
	})
	dbtest.AddAttempt(t, s.DB, dbtest.Attempt{
		Delivery: retrying, Class: "status", Code: 500, Detail: "the answer's status is not 2xx", Proto: "HTTP/1.1", Remote: "203.0.113.10:443",
		RequestHeaders: `[["Content-Type","application/json"]]`, ResponseHeaders: `[["Content-Type","text/plain"],["X-Empty",""]]`,
		ResponseBody: []byte("no"), ResponseSize: 2, TLS: `{"version":"TLS 1.3","issuer":"R3","not_after":"2027-01-02T03:04:05Z"}`,
		ConnectUS: 1500, TLSUS: 2000, WaitUS: 30_000, ReadUS: 250, TotalUS: 33_750,
	})
	dbtest.AddAttempt(t, s.DB, dbtest.Attempt{
		Delivery: retrying, Number: 2, Class: "refused", Detail: "no HTTP answer", TotalUS: 3000, RequestHeaders: `[["Content-Type","application/json"]]`,
	})

	next := field(t, s.say(t, key, "GET", "/v1/deliveries?limit=1", "", 200), "next")
	s.say(t, key, "GET", "/v1/deliveries?limit=1&after="+next, "", 200)
	s.say(t, key, "GET", "/v1/deliveries?status=undelivered", "", 200)
	s.say(t, key, "GET", "/v1/deliveries?status=gone&code=7&since=yesterday&test=yes&colour=red", "", 422)
	s.say(t, key, "GET", "/v1/deliveries?after=x", "", 400)
	s.say(t, key, "GET", "/v1/deliveries/"+delivered.ID, "", 200)
	s.say(t, key, "GET", "/v1/deliveries/dlv_1", "", 404)
	s.say(t, key, "GET", "/v1/deliveries/"+retrying.ID+"/attempts", "", 200)
	reader := s.tenantKey(t, "shop-1", `{"scopes":["deliveries:read"]}`)
	s.say(t, reader, "GET", "/v1/deliveries/"+retrying.ID+"/attempts?limit=1&after="+
		field(t, s.call(t, key, "GET", "/v1/deliveries/"+retrying.ID+"/attempts?limit=1", "").body, "next"), "", 200)
	s.say(t, key, "GET", "/v1/deliveries/dlv_1/attempts", "", 404)
	s.say(t, reader, "POST", "/v1/deliveries/"+retrying.ID+"/resend", "", 403)
	s.say(t, key, "POST", "/v1/deliveries/"+retrying.ID+"/resend", "", 202)
	s.say(t, key, "POST", "/v1/deliveries/"+retrying.ID+"/resend", "", 409)
	s.say(t, key, "POST", "/v1/deliveries/dlv_1/resend", "", 404)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/deliveries?event_id="+delivered.Event.ID, "", 200)
	s.say(t, platformKey, "POST", "/v1/tenants/shop-1/deliveries/"+delivered.ID+"/resend", "{}", 202)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-2/deliveries", "", 404)
	s.say(t, platformKey, "GET", "/v1/deliveries", "", 403)
	s.compare(t, "deliveries")
}

// Every filter of the API reaches the operation.
func TestDeliveryFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, tenantID := b.seller(t, "shop-1")
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	d := dbtest.AddDelivery(t, b.DB, dbtest.Delivery{
		Event:  dbtest.Event{TenantID: tenantID, Type: "order.paid", ResourceType: "order", ResourceID: "O 1/é", CreatedAt: at},
		Status: "delivered", Failures: 1, Attempts: 2, LastMS: 500,
	})
	dbtest.AddAttempt(t, b.DB, dbtest.Attempt{Delivery: d, Class: "timeout"})
	dbtest.AddAttempt(t, b.DB, dbtest.Attempt{Delivery: d, Number: 2, Trigger: "manual"})
	dbtest.AddDelivery(t, b.DB, dbtest.Delivery{Event: dbtest.Event{TenantID: tenantID, Test: true}})
	for query, want := range map[string]bool{
		"endpoint_id=" + d.Endpoint.ID: true, "endpoint_id=ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R": false,
		"event_id=" + d.Event.ID: true, "event_id=evt_1": false,
		"type=order.paid": true, "type=order.*": true, "type=order.created": false,
		"resource_type=order": true, "resource_type=shop": false, "resource_id=O+1%2F%C3%A9": true, "resource_id=O": false,
		"status=delivered": true, "status=recovered": true, "status=held": false, "status=retrying": false,
		"code=2xx": true, "code=none": true, "code=500": false, "class=timeout": true, "class=tls": false,
		"trigger=manual": true, "trigger=recover": false, "slower_than=500": true, "slower_than=501": false, "test=false": true, "test=true": false,
		"since=" + at.Format(time.RFC3339): true, "since=" + at.Add(time.Second).Format(time.RFC3339): false,
		"until=" + at.Add(time.Second).Format("2006-01-02T15:04:05Z07:00"): true, "until=" + at.Format(time.RFC3339): false,
	} {
		got := b.call(t, key, "GET", "/v1/deliveries?"+query, "")
		if got.status != 200 || strings.Contains(got.body, d.ID) != want {
			t.Errorf("%s: %d %s, want it: %v", query, got.status, got.body, want)
		}
	}
}

// CASES B42: a receiver's bytes as text where they are text, whole to the last character; else in base64.
func TestResponseBodies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, tenantID := b.seller(t, "shop-1")
	d := dbtest.AddDelivery(t, b.DB, dbtest.Delivery{Event: dbtest.Event{TenantID: tenantID}, Status: "delivered", Attempts: 5})
	long := strings.Repeat("é", 8192)
	bodies := []string{"", "\x1b[31m<b>\u2028", "\xff\xfe\x00\x01", long[:16383], "a\xc3"}
	for i, body := range bodies {
		size := int64(len(body))
		if i == 3 {
			size = 100_000 // cut in the middle of a character
		}
		dbtest.AddAttempt(t, b.DB, dbtest.Attempt{Delivery: d, Number: i + 1, ResponseHeaders: `[]`, ResponseBody: []byte(body), ResponseSize: size})
	}
	var list struct {
		Data []struct {
			Response struct {
				Body  *string `json:"body"`
				Bytes []byte  `json:"body_base64"`
				Size  int64   `json:"body_size"`
			}
		}
	}
	if err := json.Unmarshal([]byte(b.call(t, key, "GET", "/v1/deliveries/"+d.ID+"/attempts", "").body), &list); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list.Data)
	for i, want := range []string{bodies[0], bodies[1], "", long[:16382], ""} {
		got := list.Data[i].Response
		switch text := got.Body; {
		case i == 2 || i == 4:
			if text != nil || string(got.Bytes) != bodies[i] {
				t.Errorf("%q: %v, %q", bodies[i], text, got.Bytes)
			}
		case text == nil || *text != want || got.Bytes != nil || !utf8.ValidString(*text):
			t.Errorf("%.20q: %v", bodies[i], text)
		}
	}
}

func TestEventRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	key, tenantID := s.seller(t, "shop-1")
	s.say(t, key, "GET", "/v1/events", "", 200)
	first := dbtest.AddEvent(t, s.DB, dbtest.Event{TenantID: tenantID, Type: "order.created", ResourceType: "order", ResourceID: "O 1/é"})
	second := dbtest.AddDelivery(t, s.DB, dbtest.Delivery{
		Event:  dbtest.Event{TenantID: tenantID, Type: "order.paid", ResourceType: "order", ResourceID: "O 1/é", Sequence: 2},
		Status: "undelivered", Reason: "schedule_exhausted", Attempts: 10, Failures: 10, LastCode: 500,
	})
	dbtest.AddEndpoint(t, s.DB, dbtest.Endpoint{TenantID: tenantID, Types: []string{"consignment.*"}, CreatedAt: time.Now().Add(-time.Hour)})
	dbtest.AddEvent(t, s.DB, dbtest.Event{TenantID: tenantID, ResourceType: "order", ResourceID: "O 1/é", Test: true})
	next := field(t, s.say(t, key, "GET", "/v1/events?limit=1", "", 200), "next")
	next = field(t, s.say(t, key, "GET", "/v1/events?after="+next, "", 200), "next")
	s.say(t, key, "GET", "/v1/events?after="+next, "", 200)
	s.say(t, key, "GET", "/v1/events?type=order.*&type=shop.closed&resource_type=order&resource_id=O+1%2F%C3%A9&since=2001-01-01T00:00:00Z&until=2101-01-01T00:00:00Z", "", 200)
	s.say(t, key, "GET", "/v1/events?type=a+b&limit=0&until=never", "", 422)
	s.say(t, key, "GET", "/v1/events?after=x", "", 400)
	s.say(t, key, "GET", "/v1/events/"+second.Event.ID, "", 200)
	s.say(t, s.tenantKey(t, "shop-1", `{"scopes":["catalog:read"]}`), "GET", "/v1/events/"+first.ID, "", 200)
	s.say(t, key, "GET", "/v1/events/evt_1", "", 404)
	s.say(t, key, "GET", "/v1/resources/order/O%201%2F%C3%A9", "", 200)
	s.say(t, key, "GET", "/v1/resources/order/C-4471", "", 404)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/events?limit=1", "", 200)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/resources/order/O%201%2F%C3%A9", "", 200)
	if _, err := s.DB.Exec(t.Context(), "drop table events_"+first.Day.Format("20060102")); err != nil {
		t.Fatal(err)
	}
	s.say(t, key, "GET", "/v1/resources/order/O%201%2F%C3%A9", "", 410)
	s.compare(t, "events")
}

// CASES B26: the bytes of an event are the same wherever it is read.
func TestEventBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, tenantID := b.seller(t, "shop-1")
	data := `{ "b":1, "a":"<b>&é😀\u0000", "n":9007199254740993, "f":1.0, "z":null, "a":2 }`
	body := `{"id":"order-1","type":"order.paid","version":1,"timestamp":"2026-11-17T09:41:05.123Z","occurred_at":"2026-11-17T09:41:05.123Z",` +
		`"resource":{"type":"order","id":"O-1"},"sequence":1,"data":` + data + `}`
	dbtest.AddEvent(t, b.DB, dbtest.Event{TenantID: tenantID, ID: "order-1", Body: body, ResourceType: "order", ResourceID: "O-1"})
	if got := b.call(t, key, "GET", "/v1/events", "").body; !strings.HasPrefix(got, `{"data":[`+body+`],"next":"`) || !json.Valid([]byte(got)) {
		t.Errorf("listed: %s", got)
	}
	if got := b.call(t, key, "GET", "/v1/events/order-1", "").body; !strings.HasPrefix(got, strings.TrimSuffix(body, "}")+`,"deliveries":[`) || !json.Valid([]byte(got)) {
		t.Errorf("read: %s", got)
	}
	reader := b.tenantKey(t, "shop-1", `{"scopes":["catalog:read"]}`)
	if got := b.call(t, reader, "GET", "/v1/events/order-1", "").body; strings.TrimSuffix(got, "\n") != body {
		t.Errorf("read without deliveries: %s", got)
	}
	got := b.call(t, key, "GET", "/v1/resources/order/O-1", "")
	if sha256.Sum256([]byte(got.body)) != sha256.Sum256([]byte(body)) {
		t.Errorf("resource: %s", got.body)
	}
	tag := got.header.Get("ETag")
	if tag != `"1-order-1"` {
		t.Errorf("ETag %s", tag)
	}
	for given, want := range map[string]int{tag: 304, `"0-order-1"`: 200, "": 200} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/v1/resources/order/O-1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("If-None-Match", given)
		if got := send(t, r); got.status != want || (want == 304) != (got.body == "") {
			t.Errorf("If-None-Match %s: %d %s", given, got.status, got.body)
		}
	}
}

// A reader turns the pages of the catalog and of the deliveries, and reads a stranger's with nothing but 400 and 404.
func TestPagesByTheAPI(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, tenantID := b.seller(t, "shop-1")
	other, _ := b.seller(t, "shop-2")
	var events, deliveries []string
	for range 7 {
		d := dbtest.AddDelivery(t, b.DB, dbtest.Delivery{Event: dbtest.Event{TenantID: tenantID}})
		events, deliveries = append(events, d.Event.ID), append(deliveries, d.ID)
	}
	slices.Reverse(deliveries)
	for path, want := range map[string][]string{"/v1/events": events, "/v1/deliveries": deliveries} {
		var got []string
		after := ""
		for range 10 {
			var page struct {
				Data []struct{ ID string }
				Next *string
				More bool
			}
			if err := json.Unmarshal([]byte(b.call(t, key, "GET", path+"?limit=3"+after, "").body), &page); err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Data {
				got = append(got, item.ID)
			}
			if page.Next == nil || len(page.Data) == 0 {
				break
			}
			after = "&after=" + *page.Next
		}
		slices.Sort(got) // of the same millisecond
		sorted := slices.Sorted(slices.Values(want))
		if !slices.Equal(got, sorted) {
			t.Errorf("%s: %v, want %v", path, got, sorted)
		}
		if theirs := b.call(t, other, "GET", path+"?limit=3"+after, ""); theirs.status != 200 && theirs.status != 400 || strings.Contains(theirs.body, want[0]) {
			t.Errorf("%s with a stranger's cursor: %d %s", path, theirs.status, theirs.body)
		}
	}
	for _, path := range []string{"/v1/events/" + events[0], "/v1/deliveries/" + deliveries[0], fmt.Sprintf("/v1/deliveries/%s/attempts", deliveries[0])} {
		wantProblem(t, b.call(t, other, "GET", path, ""), fault.NotFound)
	}
}
