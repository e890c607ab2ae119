package page

import (
	"strings"
	"time"

	"waybill/app/verdict"
	"waybill/web/path"
	"waybill/web/ui"
)

var fixtureBody = `{"id":"` + fixtureID("evt", 26) + `","type":"consignment.delivered","version":1,"timestamp":"2026-11-17T09:00:05.123Z","occurred_at":"2026-11-17T09:00:05.123Z","resource":{"type":"consignment","id":"C-4471"},"sequence":4,"data":{"id":"C-4471","status":"delivered","version":4,"goods":"240 sarees, silk","weight_kg":318.50,"truck":"KA-05-MH-4471","from":"Kanchipuram","to":"Chennai","signed_by":null}}`

func fixtureRequest() Message {
	return Message{
		Line: "POST /webhooks/freight HTTP/1.1",
		Headers: []ui.Header{
			{Name: "host", Value: "orders.silkhouse.example"},
			{Name: "user-agent", Value: "Waybill/1 (+https://hooks.freight.example/docs)"},
			{Name: "content-type", Value: "application/json"},
			{Name: "content-length", Value: "412"},
			{Name: "webhook-id", Value: fixtureID("evt", 26)},
			{Name: "webhook-timestamp", Value: "1794908165"},
			{Name: "webhook-signature", Value: "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= v1,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5="},
			{Name: "authorization", Value: "••••••••", Note: "a static header of this endpoint, hidden"},
		},
		Body: ui.NewBody([]byte(fixtureBody), int64(len(fixtureBody)), ui.Pretty),
		Size: "412 bytes", Digest: "9f2c4c1d0b7a6e35f8812cba09d3e7745b1c6f0ad2e98b3417f5c60d8ea3b291",
	}
}

// fixtureAttempt is an attempt with everything that its verdict's class can have.
func fixtureAttempt(number int, facts verdict.Facts, at ui.Moment, phases ...ui.Phase) Attempt {
	attempt := Attempt{
		ID: fixtureID("att", number), Number: number, At: at, Trigger: "Sent by the schedule",
		Verdict: verdict.Explain(facts), Request: fixtureRequest(),
	}
	attempt.Help = HelpLink(attempt.Verdict.Help, orderHooks.ID)
	attempt.Lab = path.EndpointSignatureOf(orderHooks.ID, fixtureID("dlv", 26), attempt.ID)
	for _, phase := range phases {
		attempt.Phases.Parts = append(attempt.Phases.Parts, phase)
		attempt.Phases.Total += phase.Took
	}
	if len(phases) > 1 {
		attempt.Reached = []Fact{
			{Name: "Address", Value: "203.0.113.24:443"}, {Name: "TLS", Value: "1.3"}, {Name: "Protocol", Value: "HTTP/1.1"},
			CertificateFact(fixtureClock, fixtureNow.Add(9*24*time.Hour+time.Hour)),
		}
	}
	return attempt
}

func fixturePhases(wait time.Duration) []ui.Phase {
	return []ui.Phase{{Name: "Connect", Took: 18 * time.Millisecond}, {Name: "TLS", Took: 31 * time.Millisecond}, {Name: "Waiting", Took: wait}, {Name: "Reading", Took: time.Millisecond}}
}

func fixtureResponse(line, contentType, body string, size int64) *Message {
	return &Message{
		Line: line,
		Headers: []ui.Header{
			{Name: "content-type", Value: contentType}, {Name: "server", Value: "nginx"},
			{Name: "date", Value: "Tue, 17 Nov 2026 09:41:05 GMT"}, {Name: "x-request-id", Value: "7f3c2d11-9a4e"},
		},
		Body: ui.NewBody([]byte(body), size, ui.Pretty), Size: ui.Size(size),
	}
}

func fixtureDelivery() Delivery {
	return Delivery{
		ID: fixtureID("dlv", 26), Event: fixtureID("evt", 26), Type: "consignment.delivered",
		ResourceType: "consignment", Resource: "C-4471", Sequence: 4, Endpoint: orderHooks,
		Published: before(41 * time.Minute), Form: "full", Size: "412 bytes",
		Digest: "9f2c4c1d0b7a6e35f8812cba09d3e7745b1c6f0ad2e98b3417f5c60d8ea3b291",
	}
}

func deliveryFixtures() []Fixture {
	states := []Fixture{
		{State: "retrying", Page: retryingFixture()},
		{State: "recovered", Page: recoveredFixture()},
		{State: "undelivered", Page: undeliveredFixture()},
		{State: "not-sent-yet", Page: newFixture()},
		{State: "held", Page: heldFixture()},
		{State: "interrupted", Page: interruptedFixture()},
		{State: "redirected-hidden", Page: hiddenFixture()},
	}
	return framed("delivery", states)
}

func heldFixture() Delivery {
	d := fixtureDelivery()
	d.Stamp = ui.Stamp{Tone: ui.Hold, Word: "Held"}
	d.Story = "Its endpoint was off, so it is held, not lost. It can be resent until 17 December."
	d.Resend = Resend{Why: "Its endpoint is paused. Switch the endpoint on first.", Help: ui.Link{Text: "Enable endpoint…", Href: "/endpoints/" + d.Endpoint.ID + "/enable"}}
	return d
}

func retryingFixture() Delivery {
	d := fixtureDelivery()
	d.Stamp = ui.Stamp{Tone: ui.Wait, Word: "Retrying", Note: "attempt 3 of 10 failed"}
	d.Story = "Your server answers 401 Unauthorized. We try again at 15:15; seven attempts are left."
	d.Stops = []AttemptStop{
		{ID: fixtureID("att", 1), Number: 1, Stamp: ui.Stamp{Tone: ui.Bad, Word: "timed out"}, Title: "Your server did not answer in time", Took: "15 s", At: before(41 * time.Minute)},
		{ID: fixtureID("att", 2), Number: 2, Stamp: ui.Stamp{Tone: ui.Bad, Word: "502"}, Title: "Your server answered 502 Bad Gateway", Took: "41 ms", At: before(40 * time.Minute), Gap: "6 s later"},
		{ID: fixtureID("att", 3), Number: 3, Stamp: ui.Stamp{Tone: ui.Bad, Word: "401"}, Title: "Your server answered 401 Unauthorized", Took: "88 ms", At: before(34 * time.Minute), Gap: "5 min 40 s later"},
	}
	d.Waiting = &Waiting{At: after(4*time.Minute + 12*time.Second), Number: 4, Of: 10}
	d.Rest = []Planned{{5, "17:15", "2 h"}, {6, "22:15", "5 h"}, {7, "Wed 18 Nov, 08:15", "10 h"}, {8, "Wed 18 Nov, 22:15", "14 h"}, {9, "Thu 19 Nov, 18:15", "20 h"}, {10, "Fri 20 Nov, 18:15", "24 h"}}
	attempt := fixtureAttempt(3, verdict.Facts{Class: verdict.Status, Code: 401}, before(34*time.Minute), fixturePhases(38*time.Millisecond)...)
	attempt.Response = fixtureResponse("HTTP/1.1 401 Unauthorized", "application/json", `{"error":"invalid signature","hint":"expected v1 over raw body"}`, 64)
	d.Attempt = &attempt
	d.Resend = Resend{Offered: true}
	d.MayCancel = true
	d.Others = []ui.Link{{Text: "warehouse.silkhouse.example: delivered", Href: path.Delivery(fixtureID("dlv", 27))}}
	return d
}

func recoveredFixture() Delivery {
	d := fixtureDelivery()
	d.Stamp = ui.Stamp{Tone: ui.Good, Word: "Delivered", Note: "recovered by attempt 3"}
	d.Story = "Delivered 6 min after it was published. Two attempts failed before."
	d.Stops = []AttemptStop{
		{ID: fixtureID("att", 1), Number: 1, Stamp: ui.Stamp{Tone: ui.Bad, Word: "refused"}, Title: "Your server refused the connection", Took: "3 ms", At: before(41 * time.Minute)},
		{ID: fixtureID("att", 2), Number: 2, Stamp: ui.Stamp{Tone: ui.Bad, Word: "refused"}, Title: "Your server refused the connection", Took: "2 ms", At: before(40 * time.Minute), Gap: "5 s later"},
		{ID: fixtureID("att", 3), Number: 3, Stamp: ui.Stamp{Tone: ui.Good, Word: "200"}, Title: "Delivered", Took: "92 ms", At: before(35 * time.Minute), Gap: "5 min 12 s later", Trigger: "Resent by Meera"},
	}
	attempt := fixtureAttempt(3, verdict.Facts{Class: verdict.Delivered, Code: 200}, before(35*time.Minute), fixturePhases(42*time.Millisecond)...)
	attempt.Trigger = "Resent by Meera"
	attempt.Response = fixtureResponse("HTTP/1.1 200 OK", "text/plain; charset=utf-8", "ok\n", 3)
	d.Attempt = &attempt
	d.Resend = Resend{Offered: true, Ask: true}
	return d
}

func undeliveredFixture() Delivery {
	d := fixtureDelivery()
	d.Stamp = ui.Stamp{Tone: ui.Bad, Word: "Undelivered", Note: "10 of 10 attempts failed"}
	d.Story = "Every attempt failed over 3 days. It stays here until 14 December and can be resent until then."
	d.Stops = []AttemptStop{{ID: fixtureID("att", 10), Number: 10, Stamp: ui.Stamp{Tone: ui.Bad, Word: "500"}, Title: "Your server answered 500 Internal Server Error", Took: "1.1 s", At: before(20 * time.Minute), Gap: "24 h later"}}
	attempt := fixtureAttempt(10, verdict.Facts{Class: verdict.Status, Code: 500}, before(20*time.Minute), fixturePhases(1100*time.Millisecond)...)
	page := "<!doctype html>\n<title>Whoops!</title>\n" + strings.Repeat("<p>Undefined array key \"signed_by\" in Consignment.php line 88</p>\n", 30)
	attempt.Response = fixtureResponse("HTTP/1.1 500 Internal Server Error", "text/html", page, 218_400)
	attempt.View, attempt.After = ui.Raw, "It was the last attempt of the schedule."
	d.Attempt = &attempt
	d.Resend = Resend{Offered: true}
	return d
}

func newFixture() Delivery {
	d := fixtureDelivery()
	d.Published, d.Test = before(2*time.Second), true
	d.Stamp = ui.Stamp{Tone: ui.Info, Word: "Pending"}
	d.Story = "Published just now; 40 others of this endpoint go first."
	d.Waiting = &Waiting{Number: 1, Of: 10, Reason: "Waiting behind 40 others of this endpoint (limit 10 at once)"}
	d.Resend = Resend{Why: "It is about to be sent."}
	return d
}

func interruptedFixture() Delivery {
	d := fixtureDelivery()
	d.Stamp = ui.Stamp{Tone: ui.Wait, Word: "Sending", Note: "attempt 2"}
	d.Story = "The first attempt was interrupted on our side; the second is on the wire now."
	d.Stops = []AttemptStop{{ID: fixtureID("att", 1), Number: 1, Stamp: ui.Stamp{Tone: ui.Mute, Word: "outcome unknown"}, Title: "How this attempt ended is not known", At: before(41 * time.Second)}}
	d.Waiting = &Waiting{Number: 2, Of: 10, Reason: "On the wire now"}
	attempt := fixtureAttempt(1, verdict.Facts{Class: verdict.Unknown}, before(41*time.Second))
	d.Attempt = &attempt
	d.Resend = Resend{Why: "It is on the wire now; you can resend it when the attempt has ended."}
	return d
}

func hiddenFixture() Delivery {
	d := fixtureDelivery()
	d.HiddenPayload = true
	d.Stamp = ui.Stamp{Tone: ui.Wait, Word: "Retrying", Note: "attempt 1 of 10 failed"}
	d.Story = "Your server answers with a redirect, which we do not follow."
	d.Stops = []AttemptStop{{ID: fixtureID("att", 1), Number: 1, Stamp: ui.Stamp{Tone: ui.Bad, Word: "301"}, Title: "Your server answered 301 Moved Permanently", Took: "22 ms", At: before(3 * time.Second)}}
	d.Waiting = &Waiting{At: after(2 * time.Second), Number: 2, Of: 10}
	attempt := fixtureAttempt(1, verdict.Facts{Class: verdict.Redirect, Code: 301, Location: "https://www.silkhouse.example/webhooks/freight"}, before(3*time.Second), fixturePhases(4*time.Millisecond)...)
	attempt.Response = fixtureResponse("HTTP/1.1 301 Moved Permanently", "text/html", "\x1f\x8b\x08\x00\x00binary", 162)
	d.Attempt = &attempt
	return d
}
