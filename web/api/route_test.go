package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/db/dbtest"
)

func TestTheTableIsComplete(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, route := range (&API{}).Routes() {
		if names[route.Name] {
			t.Errorf("%s stands twice in the table", route.Name)
		}
		names[route.Name] = true
		if (route.Scope == "") != (route.Audience == ForPublic) {
			t.Errorf("%s is for %s and needs the right %q", route.Name, route.Audience, route.Scope)
		}
		tenantScope := slices.Contains(account.KeyScopes(), route.Scope)
		if (route.Audience == ForTenant || route.Audience == ForAnyone) && !tenantScope {
			t.Errorf("%s is for tenants, whose keys never have the right %s", route.Name, route.Scope)
		}
		if len(route.Answers) == 0 || route.Answers[0].Status/100 != 2 || route.Handle == nil || route.Summary == "" || strings.HasSuffix(route.Summary, ".") {
			t.Errorf("%s is not complete: %+v", route.Name, route)
		}
		if !strings.HasPrefix(route.Pattern, "/v1/") {
			t.Errorf("%s is at %s", route.Name, route.Pattern)
		}
		if strings.Contains(route.Pattern, "{uid}") && !strings.HasPrefix(route.Pattern, "/v1/tenants/{uid}") {
			t.Errorf("%s: uid is a tenant's, and stands behind tenants/ only: %s", route.Name, route.Pattern)
		}
		if route.Body != nil && (route.Method == http.MethodGet || route.Method == http.MethodDelete) {
			t.Errorf("%s: %s takes no body", route.Name, route.Method)
		}
	}
}

// The document describes every route as it is, and nothing else; every reference in it leads somewhere.
func TestTheDocument(t *testing.T) {
	t.Parallel()
	routes := (&API{}).Routes()
	var spec struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Security    []map[string]any
			Parameters  []struct{ Name, In string }
			RequestBody *struct {
				Content map[string]any
			} `json:"requestBody"`
			Responses map[string]struct {
				Content map[string]any
			}
		}
		Components struct {
			Schemas map[string]json.RawMessage
		}
	}
	text := document("https://waybill.test", routes)
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(spec.OpenAPI, "3.1.") {
		t.Errorf("version %s", spec.OpenAPI)
	}
	described := 0
	for _, path := range spec.Paths {
		described += len(path)
	}
	if described != len(routes) {
		t.Errorf("%d operations for %d routes", described, len(routes))
	}
	for _, route := range routes {
		op, found := spec.Paths[route.Pattern][strings.ToLower(route.Method)]
		if !found || op.OperationID != route.Name || op.Summary != route.Summary {
			t.Errorf("%s is described as %+v", route.Name, op)
			continue
		}
		if (len(op.Security) == 0) != (route.Audience == ForPublic) || (op.RequestBody != nil) != (route.Body != nil) {
			t.Errorf("%s: security %v, body %v", route.Name, op.Security, op.RequestBody)
		}
		want := map[string]bool{}
		for _, answer := range route.Answers {
			want[fmt.Sprint(answer.Status)] = true
			if content := op.Responses[fmt.Sprint(answer.Status)].Content; (len(content) > 0) != (answer.Body != nil) {
				t.Errorf("%s, %d: content %v", route.Name, answer.Status, content)
			}
		}
		for _, kind := range route.faults() {
			want[fmt.Sprint(kind.Status())] = true
			if op.Responses[fmt.Sprint(kind.Status())].Content["application/problem+json"] == nil {
				t.Errorf("%s, %s is not described as a problem", route.Name, kind)
			}
		}
		if got := slices.Sorted(maps.Keys(op.Responses)); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s answers %q, want %q", route.Name, got, slices.Sorted(maps.Keys(want)))
		}
		var parameters []string
		for _, match := range wildcard.FindAllStringSubmatch(route.Pattern, -1) {
			parameters = append(parameters, "path "+match[1])
		}
		var described []string
		for _, parameter := range op.Parameters {
			if parameter.In == "path" {
				described = append(described, "path "+parameter.Name)
			}
		}
		if !slices.Equal(described, parameters) {
			t.Errorf("%s has parameters %q, want %q", route.Name, described, parameters)
		}
	}
	for _, match := range regexp.MustCompile(`"\$ref":"#/components/schemas/([^"]+)"`).FindAllSubmatch(text, -1) {
		if spec.Components.Schemas[string(match[1])] == nil {
			t.Errorf("no schema is called %s", match[1])
		}
	}
	for name := range spec.Components.Schemas {
		if !regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`).MatchString(name) {
			t.Errorf("a schema is called %q", name)
		}
	}
}

// stranger is what a foreign key tries: the ids of another tenant's things.
type stranger struct {
	ids map[string]string // by the noun before the wildcard
}

// path fills the wildcards of a pattern with another tenant's ids; with none, it says so.
func (s stranger) path(t *testing.T, route Route, uid string) string {
	t.Helper()
	nouns := strings.Split(route.Pattern, "/")
	parts := slices.Clone(nouns)
	for i, part := range nouns {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		if part == "{uid}" {
			parts[i] = uid
			continue
		}
		id, known := s.ids[nouns[i-1]]
		if !known {
			t.Fatalf("%s: teach this test what another tenant's %s is", route.Name, nouns[i-1])
		}
		parts[i] = id
	}
	return strings.Join(parts, "/")
}

// owned says whether the pattern names a thing of a tenant.
func owned(route Route) bool {
	if strings.HasSuffix(route.Name, "ConsumerPut") {
		return false // each tenant has names of its own: another's is free
	}
	return route.Audience == ForTenant && strings.Contains(strings.TrimPrefix(route.Pattern, tenantPath), "{")
}

// CASES B20: every route, made from the table, with one tenant's key and another's ids: not found, word for word as what does not exist, and nothing
// changes.
func TestNoRouteLeadsToAnotherTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mine, theirs := b.tenantKey(t, "one", `{"requests_per_second":10000}`), b.tenantKey(t, "two", "")
	made := b.call(t, theirs, "POST", "/v1/endpoints", `{"url":"https://two.example/","types":["*"],"scheme":"v1+v1a","headers":{"X-A":"1"}}`).body
	endpointID := field(t, made, "id")
	b.call(t, theirs, "POST", "/v1/endpoints/"+endpointID+"/rotate", "")
	secrets := b.call(t, theirs, "GET", "/v1/endpoints/"+endpointID+"/secrets", "").body
	keys := b.call(t, platformKey, "GET", "/v1/tenants/two/keys", "").body
	var tenantID string
	if err := b.DB.QueryRow(t.Context(), "select id from tenants where uid = 'two'").Scan(&tenantID); err != nil {
		t.Fatal(err)
	}
	delivery := dbtest.AddDelivery(t, b.DB, dbtest.Delivery{
		Event: dbtest.Event{TenantID: tenantID, ResourceType: "consignment", ResourceID: "C-4471"}, Endpoint: dbtest.Endpoint{TenantID: tenantID},
	})
	recovery := field(t, b.call(t, theirs, "POST", "/v1/endpoints/"+endpointID+"/recover", `{"since":"2026-01-01T00:00:00Z"}`).body, "id")
	b.call(t, theirs, "PUT", "/v1/consumers/warehouse", "")
	foreign := stranger{ids: map[string]string{
		"endpoints": endpointID, "secrets": field(t, secrets, "data", "2", "id"), "keys": field(t, keys, "data", "0", "id"),
		"deliveries": delivery.ID, "events": delivery.Event.ID, "attempts": "att_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "resources": "consignment", "{type}": "C-4471",
		"event-types": "consignment.delivered", "consumers": "warehouse", "recoveries": recovery,
	}}
	nothing := stranger{ids: map[string]string{
		"endpoints": "ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "secrets": "sec_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "keys": "key_01J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"deliveries": "dlv_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "events": "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R", "attempts": "att_01J9X3ZK7Q8W2M4T5V6B7N8P9R",
		"resources": "consignment", "{type}": "C-0", "event-types": "consignment.delivered", "consumers": "nobody", "recoveries": "rcv_01J9X3ZK7Q8W2M4T5V6B7N8P9R",
	}}
	before := b.everything(t, tenantID)
	requestID := regexp.MustCompile(`req_[0-9a-f]+`)
	call := func(key string, route Route, path string) answer {
		body := ""
		if route.Body != nil {
			body = "{}"
		}
		got := b.call(t, key, route.Method, path, body)
		got.body = requestID.ReplaceAllString(got.body, "req")
		return got
	}
	for _, route := range b.Routes() {
		if route.Audience == ForPublic {
			continue
		}
		if strings.Contains(route.Pattern, "{uid}") {
			theirAnswer, noAnswer := call(mine, route, foreign.path(t, route, "two")), call(mine, route, nothing.path(t, route, "three"))
			if theirAnswer.status != 404 || theirAnswer.body != noAnswer.body {
				t.Errorf("%s under another's address: %d %s\nand under nobody's: %d %s", route.Name, theirAnswer.status, theirAnswer.body, noAnswer.status, noAnswer.body)
			}
		}
		if route.Audience == ForPlatform {
			if got := call(mine, route, foreign.path(t, route, "one")); got.status != 403 {
				t.Errorf("%s with a tenant's key: %d %s", route.Name, got.status, got.body)
			}
		}
		if owned(route) {
			key := mine
			if route.inTenant() {
				key = platformKey // in the tenant of the caller's address, and no other
			}
			theirAnswer, noAnswer := call(key, route, foreign.path(t, route, "one")), call(key, route, nothing.path(t, route, "one"))
			if theirAnswer.status != 404 || theirAnswer.body != noAnswer.body {
				t.Errorf("%s of another's: %d %s\nand of nobody's: %d %s", route.Name, theirAnswer.status, theirAnswer.body, noAnswer.status, noAnswer.body)
			}
		}
		if route.Method == http.MethodGet && route.Audience == ForTenant && !owned(route) && !route.inTenant() && !route.Stream {
			if got := call(mine, route, route.Pattern); got.status != 200 || strings.Contains(got.body, endpointID) || strings.Contains(got.body, delivery.ID) ||
				strings.Contains(got.body, delivery.Event.ID) {
				t.Errorf("%s shows another's: %d %s", route.Name, got.status, got.body)
			}
		}
	}
	if after := b.everything(t, tenantID); after != before {
		t.Errorf("something of the other tenant's has changed:\n%s\nbefore\n%s", after, before)
	}
}

// everything is a tenant's rows, as text.
func (b *bench) everything(t *testing.T, tenantID string) string {
	t.Helper()
	var text string
	for _, table := range []string{"endpoints", "subscriptions", "header_sets", "signing_secrets", "deliveries", "due", "parked", "events", "outbox", "memberships", "sessions", "audit", "consumers", "consumer_ranges", "recoveries"} {
		var rows string
		err := b.DB.QueryRow(t.Context(), "select coalesce(string_agg(r::text, E'\\n' order by r::text), '') from "+table+" r where r.tenant_id = $1", tenantID).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		text += table + "\n" + rows + "\n"
	}
	return text
}

// A foreign secret under one's own endpoint, and other mixtures of mine and theirs.
func TestMixturesOfMineAndTheirs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mine, theirs := b.tenantKey(t, "one", ""), b.tenantKey(t, "two", "")
	create := `{"url":"https://seller.example/","types":["*"]}`
	own := field(t, b.call(t, mine, "POST", "/v1/endpoints", create).body, "id")
	other := field(t, b.call(t, theirs, "POST", "/v1/endpoints", create).body, "id")
	rotated := b.call(t, theirs, "POST", "/v1/endpoints/"+other+"/rotate", "").body
	for i := range 2 {
		secret := field(t, rotated, "secrets", fmt.Sprint(i), "id")
		for _, action := range []string{"reveal", "expire"} {
			wantProblem(t, b.call(t, mine, "POST", "/v1/endpoints/"+own+"/secrets/"+secret+"/"+action, ""), fault.NotFound)
		}
	}
	next := field(t, b.call(t, mine, "POST", "/v1/endpoints", create).body, "id")
	cursorOfMine := field(t, b.call(t, mine, "GET", "/v1/endpoints?limit=1", "").body, "next")
	if got := b.call(t, theirs, "GET", "/v1/endpoints?after="+cursorOfMine, ""); got.status != 200 || strings.Contains(got.body, own) || strings.Contains(got.body, next) {
		t.Errorf("another's cursor shows %d %s", got.status, got.body)
	}
	var events int
	wantProblem(t, b.call(t, theirs, "POST", "/v1/events", `{"tenant":"one","type":"a","resource":{"type":"a","id":"1"},"data":1}`), fault.Forbidden)
	if err := b.DB.QueryRow(t.Context(), "select count(*) from outbox").Scan(&events); err != nil || events != 0 {
		t.Errorf("%d events, %v", events, err)
	}
}

// Names that clients compile in: a change here breaks them.
func TestScopesAndStates(t *testing.T) {
	t.Parallel()
	if got := fmt.Sprint(account.KeyScopes()); got != "[catalog:read endpoints:read endpoints:write deliveries:read deliveries:resend secrets:reveal]" {
		t.Errorf("key scopes %s", got)
	}
	if got := fmt.Sprint([]endpoint.State{endpoint.Active, endpoint.Paused, endpoint.Disabled}); got != "[active paused disabled]" {
		t.Errorf("states %s", got)
	}
}
