package api

import (
	"strings"
	"testing"

	"waybill/app/fault"
)

func TestImportRoute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v1/event-types/import"
	list := `{"event_types":[{"name":"order.paid","schema":{"type":"object","required":["n"]},"enforced":true},{"name":"order.lost"}]}`
	if got := b.call(t, platformKey, "POST", path, list); got.status != 200 || strings.Count(got.body, `"outcome":"created"`) != 2 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	open := `{"openapi":"3.1.0","webhooks":{"order.lost":{"post":{"description":"It is lost."}}}}`
	if got := b.call(t, platformKey, "POST", path, open); got.status != 200 || !strings.Contains(got.body, `{"name":"order.lost","outcome":"changed"}`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	for text, want := range map[string]fault.Kind{
		`{"event_types":[]}`:                                 fault.Invalid,
		`{"event_types":[{"name":"a","nmae":"b"}]}`:          fault.Invalid,
		`{"event_types":[{"name":"a.b"}],"more":1}`:          fault.Invalid,
		strings.Replace(open, "3.1.0", "3.0.3", 1):           fault.Invalid,
		strings.Replace(open, `"post"`, `"delete"`, 1):       fault.Invalid,
		`{"event_types":[{"name":"a","schema":{"type":1}}]}`: fault.Invalid,
		`{"openapi"`: fault.Malformed,
	} {
		wantProblem(t, b.call(t, platformKey, "POST", path, text), want)
	}
	b.tenantKey(t, "one", "")
	// What is enforced is refused at publish, with the field; what is not known is published.
	event := `{"tenant":"one","type":"order.paid","resource":{"type":"order","id":"1"},"data":{}}`
	problem := wantProblem(t, b.call(t, platformKey, "POST", "/v1/events", event), fault.Invalid)
	if len(problem.Errors) != 1 || problem.Errors[0].Field != "data" || !strings.Contains(problem.Errors[0].Detail, "'n'") {
		t.Errorf("%+v", problem.Errors)
	}
	for _, ok := range []string{strings.Replace(event, `"data":{}`, `"data":{"n":1}`, 1), strings.Replace(event, "order.paid", "order.lost", 1)} {
		if got := b.call(t, platformKey, "POST", "/v1/events", ok); got.status != 202 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if got := b.call(t, "", "GET", "/v1/openapi.json", ""); got.status != 200 || !strings.Contains(got.body, "/v1/problems/") {
		t.Errorf("the document: %d", got.status)
	}
}
