package api

import (
	"strings"
	"testing"

	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tenantKey(t, "two", "")
	b.tenantKey(t, "one", "")
	made := b.call(t, platformKey, "POST", "/v1/tenants/one/keys", `{"name":"shop","scopes":["catalog:read"],"requests_per_second":7}`).body
	old, path := field(t, made, "key"), "/v1/tenants/one/keys/"+field(t, made, "id")+"/rotate"
	wantProblem(t, b.call(t, platformKey, "POST", path, `{"overlap_seconds":2592001}`), fault.Invalid)
	wantProblem(t, b.call(t, platformKey, "POST", strings.Replace(path, "one", "two", 1), ""), fault.NotFound)
	rotated := b.call(t, platformKey, "POST", path, `{"overlap_seconds":3600}`)
	if rotated.status != 201 || !strings.Contains(rotated.body, `"name":"shop"`) || !strings.Contains(rotated.body, `"scopes":["catalog:read"]`) ||
		!strings.Contains(rotated.body, `"requests_per_second":7`) {
		t.Fatalf("%d %s", rotated.status, rotated.body)
	}
	for _, key := range []string{old, field(t, rotated.body, "key")} {
		if got := b.call(t, key, "GET", "/v1/events", ""); got.status != 200 {
			t.Errorf("in the overlap: %d %s", got.status, got.body)
		}
		wantProblem(t, b.call(t, key, "GET", "/v1/endpoints", ""), fault.Forbidden)
	}
	// Again, with no overlap: the old one ends at once, and an ended key is not rotated.
	next := b.call(t, platformKey, "POST", path, `{"overlap_seconds":0}`)
	if next.status != 201 {
		t.Fatal(next.body)
	}
	wantProblem(t, b.call(t, old, "GET", "/v1/events", ""), fault.Unauthenticated)
	wantProblem(t, b.call(t, platformKey, "POST", path, ""), fault.NotFound)
	if got := b.call(t, field(t, next.body, "key"), "GET", "/v1/events", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestGapReportRoute(t *testing.T) {
	t.Parallel()
	s := newTranscript(t)
	s.call(t, platformKey, "PUT", "/v1/tenants/shop-1", `{"name":"Saree shop"}`)
	key := field(t, s.call(t, platformKey, "POST", "/v1/tenants/shop-1/keys", "").body, "key")
	for i := range 3 {
		s.put(t, "shop-1", dbtest.Event{Type: "order.paid", ResourceType: "order", ResourceID: "O-1", Sequence: int64(i + 1)})
	}
	next := field(t, s.say(t, key, "GET", "/v1/reports/gap?limit=1&since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z", "", 200), "since")
	if next == "" {
		t.Error("the range is not told")
	}
	body := s.say(t, key, "GET", "/v1/reports/gap?limit=2", "", 200)
	s.say(t, key, "GET", "/v1/reports/gap?limit=2&after="+field(t, body, "next"), "", 200)
	s.say(t, key, "GET", "/v1/reports/gap?since=2020-01-01T00:00:00Z", "", 422)
	s.say(t, key, "GET", "/v1/reports/gap?after=nonsense", "", 400)
	s.compare(t, "gap")
}
