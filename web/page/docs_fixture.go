package page

import (
	"waybill/app/verdict"
	"waybill/web/reference"
	"waybill/web/ui"
)

func docsFixtures() []Fixture {
	problems := []reference.Problem{
		{Slug: "invalid", Status: 422, Title: "A value is not valid", Meaning: "The request can be read, and a value breaks a rule: errors says which and what is allowed.", Retry: "The same request will be refused again: change it first."},
		{Slug: "rate-limited", Status: 429, Title: "Too many requests", Meaning: "The key asks more often than it may.", Retry: "After the seconds of Retry-After."},
	}
	noun := reference.Noun{Name: "event types", Slug: "event-types", Operations: []reference.Operation{
		{Name: "EventTypePut", Method: "PUT", Path: "/v1/event-types/{name}", Summary: "Create or replace an event type", Detail: "Types need not stand in the catalog, or match `order.*`, to be published.",
			Who: "The platform's keys", Scope: "types:write", HasBody: true, MaxBody: 262144, Problems: problems,
			Parameters: []reference.Field{{Name: "name", In: "path", Kind: "text", Required: true}, {Name: "Idempotency-Key", In: "header", Kind: "text", About: "Of your own making, new for each call.", Rules: "at most 255 characters"}},
			Body:       []reference.Field{{Name: "description", Kind: "text", Rules: "at most 2000 characters"}, {Name: "schema", Kind: "any JSON", About: "JSON Schema 2020-12 of the event's data."}},
			Answers:    []reference.Answer{{Status: 200, Title: "OK", Fields: []reference.Field{{Name: "name", Kind: "text", Required: true}, {Name: "deprecated_at", Kind: "time or null", Required: true}}}},
			Example:    "curl -X PUT \"https://hooks.freight.example/v1/event-types/consignment.delivered\" \\\n  -H \"Authorization: Bearer $WAYBILL_KEY\" \\\n  -d '{\"description\": \"The goods were handed over.\"}'"},
		{Name: "EventStream", Method: "GET", Path: "/v1/events/stream", Also: "/v1/tenants/{uid}/events/stream", Summary: "Follow events as they happen", Who: "A tenant's keys, and the platform's below a tenant's address",
			Scope: "catalog:read", Problems: problems, Answers: []reference.Answer{{Status: 200, Title: "OK", Stream: true}, {Status: 204, Title: "No Content"}}, Example: "curl -N \"https://hooks.freight.example/v1/events/stream\""},
	}}
	api := reference.API{URL: "https://hooks.freight.example", SpecPath: "/v1/openapi.json", About: []string{"Send an API key as a bearer token. A platform key calls a tenant's routes below `/v1/tenants/{uid}`."},
		Nouns: []reference.Noun{noun}, Problems: problems}
	receiving := DocsReceiving{
		Host: "hooks.freight.example", UserAgent: "Waybill/1 (+https://hooks.freight.example/docs/receiving)", Verdicts: verdict.Table()[:8], Sources: []string{"198.51.100.7", "2001:db8:7::/64"},
		KeptEvents: "90 days", KeptHistory: "30 days", Resend: "30 days", Schedules: []DocsSchedule{
			{Name: "standard", Timeout: "15 s", Jitter: "20 % either way", Disable: "5 days", Steps: []DocsAttempt{{Number: "1", Wait: "at once"}, {Number: "2", Wait: "5 s", Total: "5 s"}, {Number: "3", Wait: "5 min", Total: "5 min 5 s"}}},
			{Name: "commerce", Note: "After 401, 403 or 404 nothing is tried again.", Timeout: "10 s", Jitter: "20 % either way", Disable: "5 days", Steps: []DocsAttempt{{Number: "1", Wait: "at once"}, {Number: "2", Wait: "1 min", Total: "1 min"}}}}}
	anywhere := receiving
	anywhere.Sources, anywhere.Schedules = nil, receiving.Schedules[:1]
	start := Docs{Steps: []DocsStep{{Title: "1. Publish", Text: "In SQL, or `events` with up to 1,000.", Code: "select waybill.publish(tenant => 'meenakshi-sarees', type => 'consignment.delivered',\n                       resource_type => 'consignment', resource_id => 'C-4471',\n                       data => '{\"status\":\"delivered\"}');"},
		{Title: "2. Receive", Text: "Verify the signature, store the event under its id, answer 200."}}}
	states := []Fixture{
		{State: "start", Page: start}, {State: "receiving", Page: receiving}, {State: "receiving-from-anywhere", Page: anywhere},
		{State: "api", Page: Reference{API: api}}, {State: "api-noun", Page: ReferenceNoun{API: api, Noun: noun}},
	}
	for i := range states {
		states[i].Name, states[i].Frame = "docs", ui.Frame{}
	}
	return states
}
