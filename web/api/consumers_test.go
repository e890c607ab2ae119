package api

import (
	"strings"
	"testing"

	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestConsumerRoutes(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	const path = "/v1/consumers/warehouse"
	s.say(t, key, "PUT", path, `{"types":["order.*"],"from":{"at":"start"}}`, 200)
	s.say(t, key, "PUT", path, `{"types":["order.**"]}`, 422)
	s.say(t, key, "PUT", path, `{"from":{"at":"later"}}`, 422)
	s.say(t, key, "PUT", path, `{"from":{"at":"now","cursor":"x"}}`, 422)
	s.say(t, key, "PUT", "/v1/consumers/a%20b", "", 422)
	s.say(t, key, "POST", path+"/next", "", 200)
	for i := range 3 {
		s.put(t, "shop-1", dbtest.Event{Type: "order.paid", ResourceType: "order", ResourceID: "O-1", Sequence: int64(i + 1)})
	}
	s.say(t, key, "POST", path+"/next", `{"limit":0}`, 422)
	s.say(t, key, "POST", path+"/next", `{"lease_seconds":0}`, 422)
	s.say(t, key, "POST", path+"/next", `{"wait_seconds":31}`, 422)
	batch := s.say(t, key, "POST", path+"/next", `{"limit":2,"lease_seconds":3600}`, 200)
	held := s.call(t, key, "POST", path+"/next", "")
	wantProblem(t, held, fault.LeaseHeld)
	if held.header.Get("Retry-After") == "" {
		t.Error("it does not say when to come back")
	}
	s.say(t, key, "POST", path+"/ack", `{"cursor":"`+field(t, batch, "data", "0", "cursor")+`"}`, 200)
	s.say(t, key, "POST", path+"/ack", `{"cursor":"`+field(t, batch, "cursor")+`"}`, 200)
	s.say(t, key, "POST", path+"/ack", `{"cursor":"nonsense"}`, 400)
	s.say(t, key, "POST", path+"/ack", `{}`, 422)
	s.say(t, key, "POST", path+"/seek", `{}`, 422)
	s.say(t, key, "POST", path+"/seek", `{"at":"start"}`, 200)
	s.say(t, key, "GET", path, "", 200)
	s.say(t, key, "GET", "/v1/consumers", "", 200)
	s.say(t, platformKey, "GET", "/v1/tenants/shop-1/consumers", "", 200)
	s.say(t, key, "DELETE", path, "", 204)
	s.say(t, key, "POST", path+"/next", "", 404)
	s.compare(t, "consumers")
}

// What is handed out is the bytes that endpoints are sent.
func TestConsumersHandOutBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.tenantKey(t, "one", "")
	b.call(t, key, "PUT", "/v1/consumers/a", `{"from":{"at":"start"}}`)
	body := b.put(t, "one", dbtest.Event{Body: `{"id":"x","type":"a","version":1,"timestamp":"2026-11-17T09:41:05.123Z","occurred_at":"2026-11-17T09:41:05.123Z",` +
		`"resource":{"type":"a","id":"1"},"sequence":1,"data":{"n": 9007199254740993, "s":"\u0000"}}`}).Body
	if got := b.call(t, key, "POST", "/v1/consumers/a/next", ""); got.status != 200 || !strings.Contains(got.body, `"event":`+body+`}],`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A sleeper learns that it has missed something.
	b.call(t, key, "PUT", "/v1/consumers/b", `{"from":{"time":"2026-01-01T00:00:00Z"}}`)
	if _, err := b.DB.Exec(t.Context(), `update consumers set cursor = $1`, "ZXZlbnRzHzIwMjAtMDEtMDEfLR8yMDIwLTAxLTAx"); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, b.call(t, key, "POST", "/v1/consumers/b/next", ""), fault.CursorExpired)
	wantProblem(t, b.call(t, key, "POST", "/v1/consumers/b/next", ""), fault.CursorExpired) // and keeps no lease
}
