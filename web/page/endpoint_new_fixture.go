package page

import (
	"time"

	"waybill/app/verdict"
	"waybill/web/path"
	"waybill/web/ui"
)

func passedCheck() *Check {
	return &Check{Passed: true, Lines: []CheckLine{
		{Name: "Name found", Detail: "orders.silkhouse.example, 4 ms", Passed: true},
		{Name: "Address allowed", Detail: "a public address", Passed: true},
		{Name: "Connected", Detail: "18 ms", Passed: true},
		{Name: "TLS", Detail: "1.3, certificate valid until 26 Nov 2026", Passed: true},
	}}
}

func failedCheck() *Check {
	return &Check{
		Verdict: verdict.Explain(verdict.Facts{Class: verdict.TLS, Reason: verdict.Expired, Expiry: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)}),
		Lines: []CheckLine{
			{Name: "Name found", Detail: "orders.silkhouse.example, 4 ms", Passed: true},
			{Name: "Address allowed", Detail: "a public address", Passed: true},
			{Name: "Connected", Detail: "18 ms", Passed: true},
			{Name: "TLS", Detail: "the certificate ended on 3 Nov 2026"},
			{Name: "Answer to a request", Detail: "not tried", Skipped: true},
		},
	}
}

func endpointNewFixtures() []Fixture {
	empty := fixtureForm()
	empty.URL, empty.Description, empty.Headers = "", "", nil
	for i := range empty.Groups[0].Types {
		empty.Groups[0].Types[i].Chosen = false
	}
	wrong := fixtureForm()
	wrong.URL = "http://orders.silkhouse.example/webhooks"
	wrong.Problems = Problems{"url": "It must start with https://.", "types": "Choose at least one, or every type.", "concurrency": "It must be a number from 1 to 100.", "": "Two people changed this at once; look again."}
	states := []Fixture{
		{State: "empty", Page: EndpointNew{Form: empty, Inbox: true}},
		{State: "wrong", Page: EndpointNew{Form: wrong}},
		{State: "check-failed", Page: EndpointNew{Form: fixtureForm(), Check: failedCheck()}},
	}
	return framed("endpoint-new", states)
}

func secretsFixtures() []Fixture {
	signing, overlap := ui.Stamp{Tone: ui.Good, Word: "Signing"}, ui.Stamp{Tone: ui.Wait, Word: "Overlap"}
	two := EndpointSecrets{Head: failingHead(), Scheme: "v1", Secrets: []Secret{
		{ID: fixtureID("sec", 2), Fingerprint: "whsec_…9Q1x", Kind: "shared secret", Stamp: signing, Created: before(2 * time.Hour), By: "meera@silkhouse.example", LastUsed: before(34 * time.Minute)},
		{ID: fixtureID("sec", 1), Fingerprint: "whsec_…LaSw", Kind: "shared secret", Stamp: overlap, Created: before(400 * 24 * time.Hour), LastUsed: before(34 * time.Minute), Ends: after(22 * time.Hour)},
	}}
	shown := two
	shown.Revealed = &Revealed{ID: fixtureID("sec", 2), Value: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	pair := EndpointSecrets{Head: quietHead(), Scheme: "v1a", Public: "whpk_6Xf2mB8pLw4fT1kq0ZrJc3vYh5Nn7sQe9uAaGdKyI8o=", Secrets: []Secret{
		{ID: fixtureID("sec", 3), Fingerprint: "whsk_…dT0k", Kind: "key pair", Stamp: signing, Created: before(30 * 24 * time.Hour), By: "meera@silkhouse.example"},
	}}
	viewer := two
	viewer.Head.MayManage = false
	states := []Fixture{
		{State: "overlap", Page: two},
		{State: "revealed", Page: shown},
		{State: "key-pair", Page: pair},
		{State: "as-viewer", Page: viewer},
	}
	return framed("secrets", states)
}

func testFixtures() []Fixture {
	types := []ui.Option{{Value: "consignment.booked", Text: "consignment.booked"}, {Value: "consignment.delivered", Text: "consignment.delivered"}}
	ready := EndpointTest{Head: quietHead(), Types: types, Type: "consignment.delivered", MaySend: true, Payload: "{\n  \"id\": \"TEST-4471\",\n  \"status\": \"delivered\",\n  \"version\": 4,\n  \"goods\": \"240 sarees, silk\"\n}"}
	waiting := ready
	waiting.Sent, waiting.Waiting, waiting.Moment = fixtureID("dlv", 40), true, before(time.Second)
	accepted := ready
	accepted.Sent = fixtureID("dlv", 40)
	good := fixtureAttempt(1, verdict.Facts{Class: verdict.Delivered, Code: 200}, before(2*time.Second), fixturePhases(38*time.Millisecond)...)
	good.Response = fixtureResponse("HTTP/1.1 200 OK", "application/json", `{"received":true}`, 17)
	accepted.Answer = &good
	rejected := accepted
	bad := fixtureAttempt(1, verdict.Facts{Class: verdict.Status, Code: 401}, before(2*time.Second), fixturePhases(38*time.Millisecond)...)
	bad.Response = fixtureResponse("HTTP/1.1 401 Unauthorized", "application/json", `{"error":"invalid signature"}`, 29)
	bad.After = "A test event is not tried again."
	rejected.Answer = &bad
	silent := accepted
	timeout := fixtureAttempt(1, verdict.Facts{Class: verdict.Timeout, Phase: "wait", Timeout: 15 * time.Second}, before(16*time.Second), fixturePhases(15*time.Second)...)
	timeout.After = "A test event is not tried again."
	silent.Answer = &timeout
	wrong := ready
	wrong.Payload, wrong.Problems = "{\"id\": TEST}", Problems{"payload": "It is not JSON: unexpected “T” in line 1, column 8."}
	off := ready
	off.Head, off.MaySend, off.Why = pausedHead(), false, "Your role can look but not send."
	states := []Fixture{
		{State: "ready", Page: ready}, {State: "waiting", Page: waiting}, {State: "accepted", Page: accepted}, {State: "rejected", Page: rejected},
		{State: "timed-out", Page: silent}, {State: "wrong", Page: wrong}, {State: "not-allowed", Page: off},
	}
	return framed("test-event", states)
}

func confirmationFixtures() []Fixture {
	one := "consignment.delivered of C-4471 to Order system"
	wrong := RevealSecret(orderHooks, fixtureID("sec", 1), "whsec_…LaSw")
	wrong.Problems = Problems{"password": "That is not your password."}
	states := []Fixture{
		{State: "pause", Page: PauseEndpoint(orderHooks, 12, "30 days")},
		{State: "disable", Page: DisableEndpoint(orderHooks, 1, "30 days")},
		{State: "enable", Page: EnableEndpoint(warehouse, 240)},
		{State: "delete", Page: DeleteEndpoint(orderHooks, 12, -1)},
		{State: "reveal", Page: wrong},
		{State: "end-secret", Page: EndSecret(orderHooks, fixtureID("sec", 1), "whsec_…LaSw")},
		{State: "resend-delivered", Page: ResendDelivered(orderHooks, fixtureID("dlv", 26), one)},
		{State: "stop-trying", Page: CancelDelivery(orderHooks, fixtureID("dlv", 26), one)},
		{State: "resend-many", Page: ResendMany(path.DeliveryFilter{}, []string{fixtureID("dlv", 1), fixtureID("dlv", 2)}, 2, 1, []ui.Option{{Value: "consignment.delivered", Text: "2"}})},
		{State: "expunge-event", Page: ExpungeEvent(fixtureID("evt", 26), "consignment.in_transit of C-4471", 2)},
		{State: "revoke-key", Page: RevokeKey(fixtureID("key", 1), "order system, production", "wbk_7F3Q", "3 min ago")},
		{State: "remove-member", Page: RemoveMember(fixtureID("mem", 2), "ravi@silkhouse.example")},
	}
	return framed("confirm", states)
}
