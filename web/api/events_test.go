package api

import (
	"net/http"
	"strings"
	"testing"

	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestEventsByDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	narrow := field(t, b.call(t, platformKey, "POST", "/v1/tenants/one/keys", `{"scopes":["catalog:read"]}`).body, "key")
	var tenant string
	if err := b.DB.QueryRow(t.Context(), `select id from tenants where uid = 'one'`).Scan(&tenant); err != nil {
		t.Fatal(err)
	}
	endpoints := []dbtest.Endpoint{dbtest.AddEndpoint(t, b.DB, dbtest.Endpoint{TenantID: tenant}), dbtest.AddEndpoint(t, b.DB, dbtest.Endpoint{TenantID: tenant})}
	events := map[string]string{}
	for name, statuses := range map[string][2]string{
		"both": {"delivered", "delivered"}, "half": {"delivered", "undelivered"}, "one": {"held", ""}, "neither": {"", ""},
	} {
		event := dbtest.AddEvent(t, b.DB, dbtest.Event{TenantID: tenant})
		events[name] = event.ID
		for i, status := range statuses {
			if status != "" {
				dbtest.AddDelivery(t, b.DB, dbtest.Delivery{Event: event, Endpoint: endpoints[i], Status: status, Reason: "because"})
			}
		}
	}
	for query, want := range map[string]string{
		"delivery_status=delivered":                                    "both half",
		"delivery_status=undelivered":                                  "half",
		"delivery_status=none":                                         "neither",
		"endpoint_id=" + endpoints[1].ID:                               "both half",
		"delivery_status=none&endpoint_id=" + endpoints[1].ID:          "one neither",
		"delivery_status=held&endpoint_id=" + endpoints[1].ID:          "",
		"delivery_status=held&endpoint_id=" + endpoints[0].ID:          "one",
		"delivery_status=delivered&type=never.*":                       "",
		"endpoint_id=ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R&delivery_status=":   "?",
		"endpoint_id=ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R&type=consignment.*": "",
	} {
		got := b.call(t, key, "GET", "/v1/events?"+query, "")
		if want == "?" {
			wantProblem(t, got, fault.Invalid)
			continue
		}
		for name, id := range events {
			is := strings.Contains(" "+want+" ", " "+name+" ")
			if got.status != 200 || strings.Contains(got.body, id) != is {
				t.Errorf("%s: event %q shown: %v, %d %s", query, name, !is, got.status, got.body)
			}
		}
	}
	wantProblem(t, b.call(t, narrow, "GET", "/v1/events?delivery_status=held", ""), fault.Forbidden)
	wantProblem(t, b.call(t, key, "GET", "/v1/events?delivery_status=lost", ""), fault.Invalid)
	wantProblem(t, b.call(t, key, "GET", "/v1/events?endpoint_id=x", ""), fault.Invalid)
}

func TestTheTagOfAResource(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	b.put(t, "one", dbtest.Event{ResourceType: "order", ResourceID: "O 1/2", Sequence: 1})
	get := func(match ...string) answer {
		r, err := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/v1/resources/order/O%201%2F2", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header["If-None-Match"] = match
		got := send(t, r)
		b.conform(t, r, got)
		return got
	}
	tag := get().header.Get("ETag")
	for name, c := range map[string]struct {
		match []string
		want  int
	}{
		"none": {nil, 200}, "the same": {[]string{tag}, 304}, "weak": {[]string{"W/" + tag}, 304}, "any": {[]string{"*"}, 304},
		"one of several": {[]string{`"a", ` + tag + ` , "b"`}, 304}, "on two lines": {[]string{`"a"`, tag}, 304}, "another": {[]string{`"a"`}, 200},
		"a part": {[]string{strings.Trim(tag, `"`)}, 200},
	} {
		if got := get(c.match...); got.status != c.want || got.header.Get("ETag") != tag || (got.body == "") != (c.want == 304) {
			t.Errorf("%s: %d %q %q", name, got.status, got.header.Get("ETag"), got.body)
		}
	}
	b.put(t, "one", dbtest.Event{ResourceType: "order", ResourceID: "O 1/2", Sequence: 2})
	if got := get(tag); got.status != 200 || got.header.Get("ETag") == tag {
		t.Errorf("after a change: %d %q", got.status, got.header.Get("ETag"))
	}
}

func TestEventThatBreaksItsSchemaIsFlagged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, narrow := b.tenantKey(t, "one", ""), b.tenantKey(t, "one", `{"scopes":["catalog:read"]}`)
	b.call(t, platformKey, "PUT", "/v1/event-types/order.paid", `{"schema":{"type":"object","required":["n"]},"enforced":true}`)
	body := `{"id":"x","type":"order.paid","version":1,"timestamp":"2026-11-17T09:41:05.123Z","occurred_at":"2026-11-17T09:41:05.123Z",` +
		`"resource":{"type":"order","id":"O-1"},"sequence":1,"data":%s}`
	bad := b.put(t, "one", dbtest.Event{Type: "order.paid", Body: strings.Replace(body, "%s", `{"m":1.0}`, 1)})
	good := b.put(t, "one", dbtest.Event{Type: "order.paid", Body: strings.Replace(body, "%s", `{"n":1.0}`, 1)})
	for _, with := range []string{key, narrow} {
		got := b.call(t, with, "GET", "/v1/events/"+bad.ID, "")
		if got.status != 200 || !strings.HasPrefix(got.body, strings.TrimSuffix(bad.Body, "}")+`,"schema_errors":[{"field":"data","detail":"`) || strings.Contains(got.body, `"why"`) != (with == key) {
			t.Errorf("%d %s", got.status, got.body)
		}
		if got := b.call(t, with, "GET", "/v1/events/"+good.ID, ""); got.status != 200 || strings.Contains(got.body, "schema_errors") {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestEventExpunge(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key, stranger := b.tenantKey(t, "one", ""), b.tenantKey(t, "two", "")
	event := b.put(t, "one", dbtest.Event{ResourceType: "order", ResourceID: "O-1"})
	d := dbtest.AddDelivery(t, b.DB, dbtest.Delivery{Event: event})
	before := b.call(t, key, "GET", "/v1/resources/order/O-1", "").header.Get("ETag")
	wantProblem(t, b.call(t, key, "POST", "/v1/tenants/one/events/"+event.ID+"/expunge", ""), fault.Forbidden)
	wantProblem(t, b.call(t, stranger, "POST", "/v1/tenants/one/events/"+event.ID+"/expunge", ""), fault.NotFound)
	wantProblem(t, b.call(t, platformKey, "POST", "/v1/tenants/two/events/"+event.ID+"/expunge", ""), fault.NotFound)
	done := b.call(t, platformKey, "POST", "/v1/tenants/one/events/"+event.ID+"/expunge", "")
	if done.status != 200 || !strings.Contains(done.body, `"cancelled":1`) || !strings.Contains(done.body, `"expunged_by":"platform key`) {
		t.Fatalf("%d %s", done.status, done.body)
	}
	if again := b.call(t, platformKey, "POST", "/v1/tenants/one/events/"+event.ID+"/expunge", ""); again.status != 200 ||
		field(t, again.body, "expunged_at") != field(t, done.body, "expunged_at") || !strings.Contains(again.body, `"cancelled":0`) {
		t.Errorf("%d %s", again.status, again.body)
	}
	for _, path := range []string{"/v1/events/" + event.ID, "/v1/events", "/v1/resources/order/O-1"} {
		got := b.call(t, key, "GET", path, "")
		if got.status != 200 || !strings.Contains(got.body, `"data":null,"expunged_at":"`) || strings.Contains(got.body, "9007199254740993") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
		if tag := got.header.Get("ETag"); tag == before && tag != "" {
			t.Errorf("%s: the tag is %s as before", path, tag)
		}
	}
	got := b.call(t, key, "GET", "/v1/deliveries/"+d.ID, "")
	if !strings.Contains(got.body, `"status":"cancelled"`) || !strings.Contains(got.body, `"reason":"event_expunged"`) {
		t.Error(got.body)
	}
	wantProblem(t, b.call(t, key, "POST", "/v1/deliveries/"+d.ID+"/resend", ""), fault.Conflict)
}
