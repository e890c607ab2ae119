package dashboard

import (
	"fmt"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/endpoint"
	"waybill/app/outbox"
	"waybill/app/policy"
	"waybill/app/sender"
	"waybill/app/signing"
	"waybill/app/signing/lab"
	"waybill/web/page"
	"waybill/web/ui"
)

// concepts are the words, in the order in which they build on each other.
var concepts = []page.DocsTerm{
	{Name: "Platform", Text: "Who runs Waybill and publishes events."},
	{Name: "Tenant", Text: "A customer of the platform, with endpoints, people and keys of its own. `uid` is the platform's own id for it. Tenants never see each other's anything."},
	{Name: "Member", Text: "A person of a tenant: owner, developer or viewer."},
	{Name: "Event type", Text: "What kind of thing happened: `resource.event`, such as `consignment.delivered`. The catalog describes it, with a schema and an example."},
	{Name: "Event", Text: "`evt_…`: one thing that happened to one resource of one tenant. Its id is the same in every repeat, in the dashboard and in the API."},
	{Name: "Resource and sequence", Text: "What it happened to, such as the consignment `C-4471`. `sequence` grows with every change of that resource, so that old news is told from new."},
	{Name: "Endpoint", Text: "`ep_…`: a URL of a tenant, with the types it is subscribed to, its secrets, limits and health."},
	{Name: "Delivery", Text: "`dlv_…`: one event for one endpoint. Its body is made once; every attempt sends exactly these bytes."},
	{Name: "Attempt", Text: "`att_…`: one HTTP request of a delivery, kept with everything that was sent and answered."},
	{Name: "Signing secret", Text: "`whsec_…`, of an endpoint. Each request is signed with it, and your server checks that. A fingerprint names a secret without showing it."},
	{Name: "Test event", Text: "An event with `\"test\": true` that somebody sends to try an endpoint. It is in no catalog and counts for nothing."},
	{Name: "Resend", Text: "Sending a delivery again. It is a new attempt; what was there before stays as it is."},
	{Name: "Catch-up", Text: "Sending again what was held or undelivered over a time, at a pace, with its progress."},
	{Name: "Catalog", Text: "Every event of the last weeks, to be read from the API by cursor, as a stream, or by a named consumer: the same events under the same ids."},
}

var statuses = []page.DocsStatus{
	{Stamp: ui.Stamp{Tone: ui.Info, Word: "Pending"}, Text: "Due now or later."},
	{Stamp: ui.Stamp{Tone: ui.Wait, Word: "Retrying"}, Text: "Pending, after an attempt that failed. The page says when the next one comes."},
	{Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}, Text: "The endpoint answered 200 to 299."},
	{Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}, Text: "Every attempt of the schedule failed, or your server said 410. It can be sent again."},
	{Stamp: ui.Stamp{Tone: ui.Hold, Word: "Held"}, Text: "It came while the endpoint was paused or disabled. It waits for a catch-up; switching on alone sends nothing."},
	{Stamp: ui.Stamp{Tone: ui.Mute, Word: "Cancelled"}, Text: "Its endpoint was deleted first. The event is in the catalog."},
}

// promises are what can be counted on, under the policies in force.
func promises(policies policy.Set) []page.DocsTerm {
	standard := policies.Standard()
	return []page.DocsTerm{
		{Name: "What is committed is sent", Text: "An event that is published in a transaction is delivered if, and only if, that transaction committed."},
		{Name: "Nothing is lost", Text: fmt.Sprintf("An event is attempted until an answer from 200 to 299, or until its schedule ends: %d attempts over %s. "+
			"Then it is on the list of the undelivered, and can be sent again for %s. No crash, restart, disabled endpoint or full queue loses one.",
			standard.Attempts(), ui.Span(standard.Total()), days(standard.ResendWindow))},
		{Name: "Every attempt is signed", Text: "With that endpoint's own secret, over exactly the bytes that are sent."},
		{Name: "Everything is on record", Text: "An attempt is in the history, with its request and its answer, before its outcome is acted on."},
		{Name: "Nobody waits for others", Text: "An endpoint that is dead, slow or flooded delays no other endpoint."},
		{Name: "Tenants are apart", Text: "A tenant never sees, names or affects another tenant's anything."},
		{Name: "No way inside", Text: "Requests leave through one proxy alone, and reach public addresses only."},
	}
}

var notPromised = []page.DocsTerm{
	{Name: "Exactly once", Text: "Delivery is at least once: when your answer does not reach us, the event comes again. Its `id` is the same, so store it under that, and answer 200 to one that you have."},
	{Name: "Order", Text: "Events may overtake each other. Apply one only when its `sequence` is higher than that of the last one you applied to the resource."},
}

func kib(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n>>10) + " KiB"
}

func number(n int) string { return ui.Number(int64(n)) }

// lasts is how long something lives, in its largest whole unit.
func lasts(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return days(d)
	}
	return ui.Span(d)
}

// limits are the constants that the operations hold to, and the policies in force.
func limits(policies policy.Set) []page.DocsPart {
	kept := policies.Retention()
	return []page.DocsPart{
		{Name: "Events", Limits: []page.DocsTerm{
			{Name: "Data of an event", Text: kib(outbox.MaxData)},
			{Name: "Levels of nesting in data", Text: number(outbox.MaxDepth)},
			{Name: "Events in one call of the API", Text: number(outbox.MaxBatch)},
			{Name: "Schema and example of an event type, each", Text: kib(catalog.MaxDocument)},
			{Name: "Kept in the catalog", Text: days(kept.Events)},
			{Name: "Kept in the history, with every attempt", Text: days(kept.Deliveries)},
		}},
		{Name: "Endpoints", Limits: []page.DocsTerm{
			{Name: "Event types that one subscribes to", Text: number(endpoint.MaxTypes)},
			{Name: "Requests at once: usual, and at most", Text: number(endpoint.DefaultConcurrency) + ", " + number(endpoint.MaxConcurrency)},
			{Name: "Requests a second, at most", Text: number(endpoint.MaxRatePerSecond)},
			{Name: "Static headers", Text: number(sender.MaxHeaders)},
			{Name: "Value of a static header", Text: number(sender.MaxHeaderValue) + " characters"},
			{Name: "Ports", Text: "80, 443, and above 1023"},
		}},
		{Name: "Requests and answers", Limits: []page.DocsTerm{
			{Name: "Time for an answer", Text: ui.Span(policies.Standard().Timeout)},
			{Name: "Longest that any schedule here allows", Text: ui.Span(policies.LongestTimeout())},
			{Name: "Of an answer's body, kept and shown", Text: kib(sender.KeptBody)},
			{Name: "Age of a signature that your server accepts", Text: ui.Span(signing.Tolerance)},
		}},
		{Name: "Secrets", Limits: []page.DocsTerm{
			{Name: "Bytes of a secret, after decoding", Text: number(signing.MinSecret) + " to " + number(signing.MaxSecret)},
			{Name: "Secrets of a kind that sign at once", Text: number(endpoint.MaxSecrets)},
			{Name: "Overlap of a rotation: usual, and at most", Text: lasts(endpoint.DefaultOverlap) + ", " + lasts(endpoint.MaxOverlap)},
			{Name: "Body that the signature lab looks at", Text: kib(lab.MaxBody)},
		}},
		{Name: "Reading", Limits: []page.DocsTerm{
			{Name: "Entries on a page of the API", Text: number(catalog.MaxLimit)},
			{Name: "Named consumers", Text: number(catalog.MaxConsumers)},
			{Name: "Events that a consumer is handed at once", Text: number(catalog.MaxHanded)},
			{Name: "Lease of a consumer", Text: ui.Span(catalog.MaxLease)},
		}},
		{Name: "Signing in", Limits: []page.DocsTerm{
			{Name: "A link from the platform", Text: "once, within " + lasts(account.PortalLinkLife)},
			{Name: "A session by such a link", Text: lasts(account.PortalSessionLife)},
			{Name: "A session with a password", Text: lasts(account.MemberSessionLife)},
			{Name: "An invitation", Text: lasts(account.InvitationLife)},
		}},
	}
}
