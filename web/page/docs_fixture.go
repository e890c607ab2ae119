package page

import (
	"time"

	"waybill/app/verdict"
	"waybill/web/page/snippets"
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
		Host: "hooks.freight.example", UserAgent: "Waybill/1 (+https://hooks.freight.example/docs/receiving)", KeptEvents: "90 days", KeptAnswer: "16 KiB"}
	retries := DocsRetries{
		KeptHistory: "30 days", Resend: "30 days", Gone: "After 410 the endpoint is disabled.", Schedules: []DocsSchedule{
			{Name: "standard", Timeout: "15 s", Jitter: "20 % either way", Disable: "5 days", Circuit: "After 10 failures in a row the circuit opens.", Throttle: "429, 502 or 504", Steps: []DocsAttempt{{Number: "1", Wait: "at once"}, {Number: "2", Wait: "5 s", Total: "5 s"}, {Number: "3", Wait: "5 min", Total: "5 min 5 s"}}},
			{Name: "commerce", Note: "After 401, 403 or 404 nothing is tried again.", Timeout: "10 s", Jitter: "20 % either way", Disable: "5 days", Steps: []DocsAttempt{{Number: "1", Wait: "at once"}, {Number: "2", Wait: "1 min", Total: "1 min"}}}}}
	concepts := DocsConcepts{Terms: []DocsTerm{{"Tenant", "A customer of the platform. `uid` is the platform's own id for it."}, {"Event", "`evt_…`: one thing that happened to one resource of one tenant."}},
		Statuses: []DocsStatus{{ui.Stamp{Tone: ui.Good, Word: "Delivered"}, "The endpoint answered 200 to 299."}, {ui.Stamp{Tone: ui.Hold, Word: "Held"}, "It came while the endpoint was paused or disabled."}}}
	promises := DocsPromises{Kept: []DocsTerm{{"Nothing is lost", "An event is attempted until an answer from 200 to 299, or until its schedule ends."}},
		Not: []DocsTerm{{"Order", "Apply one only when its `sequence` is higher."}}}
	limits := DocsLimits{Parts: []DocsPart{{"Events", []DocsTerm{{"Data of an event", "256 KiB"}, {"Events in one call of the API", "1,000"}}}, {"Endpoints", []DocsTerm{{"Requests at once: usual, and at most", "10, 100"}}}}}
	keys := PublicKeys{Endpoint: orderHooks.ID, Keys: []PublicKey{
		{Value: "whpk_6Xf2mB8pLw4fT1kq0ZrJc3vYh5Nn7sQe9uAaGdKyI8o=", Fingerprint: "9f86d081", Created: before(2 * time.Hour)},
		{Value: "whpk_k2mB8pLw4fT1kq0ZrJc3vYh5Nn7sQe9uAaGdKyI8o6X=", Fingerprint: "60303ae2", Created: before(400 * 24 * time.Hour), Ends: after(22 * time.Hour)},
	}}
	start := Docs{Steps: []DocsStep{{Title: "1. Publish", Text: "In SQL, or `events` with up to 1,000.", Code: "select waybill.publish(tenant => 'meenakshi-sarees', type => 'consignment.delivered',\n                       resource_type => 'consignment', resource_id => 'C-4471',\n                       data => '{\"status\":\"delivered\"}');"},
		{Title: "2. Receive", Text: "Verify the signature, store the event under its id, answer 200."}}}
	states := []Fixture{
		{State: "start", Page: start}, {State: "concepts", Page: concepts}, {State: "promises", Page: promises}, {State: "receiving", Page: receiving},
		{State: "verify", Page: DocsVerify{Host: "https://hooks.freight.example"}}, {State: "receiver", Page: DocsReceiver{Receiver: snippets.Receivers()[0]}},
		{State: "retries", Page: retries}, {State: "errors", Page: DocsErrors{Verdicts: verdict.Table()[:8]}}, {State: "limits", Page: limits},
		{State: "sources", Page: DocsSources{Sources: []string{"198.51.100.7", "2001:db8:7::/64"}}}, {State: "sources-not-told", Page: DocsSources{}}, {State: "public-keys", Page: keys},
		{State: "api", Page: Reference{API: api}}, {State: "api-noun", Page: ReferenceNoun{API: api, Noun: noun}},
	}
	for i := range states {
		states[i].Name, states[i].Frame = "docs", ui.Frame{}
	}
	return states
}
