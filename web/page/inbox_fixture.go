package page

import (
	"strconv"
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

var fixtureLimits = InboxLimits{Inboxes: "5", Requests: "100", Body: "64 KB", Rate: "10 requests a second", Life: "7 days"}

// InboxAnswers are the answers that can be chosen, by the operation's words; timeout is how long an attempt waits.
func InboxAnswers(timeout string) []ui.Option {
	return []ui.Option{
		{Value: "200", Text: "200 OK: delivered"}, {Value: "500", Text: "500: fails, and is tried again"}, {Value: "410", Text: "410 Gone: disables the endpoint"},
		{Value: "429", Text: "429 with Retry-After of so many seconds"}, {Value: "slow", Text: "200 after so many seconds (an attempt waits " + timeout + ")"},
	}
}

func inboxFixtures() []Fixture {
	id, url := fixtureID("ibx", 1), "https://hooks.freight.example/inbox/hVq8Jc2nQxTzYw4mLr0pKs7uBd3eFgAi"
	name := EndpointName{ID: fixtureID("ep", 9), Name: "Inbox", Host: "hooks.freight.example", Path: "/inbox/hVq8Jc2nQxTzYw4mLr0pKs7uBd3eFgAi"}
	receiving := ui.Stamp{Tone: ui.Good, Word: "Receiving"}
	empty := Inbox{
		ID: id, URL: url, Stamp: receiving, Ends: after(7 * 24 * time.Hour), Endpoints: []EndpointName{name}, Answer: "200", Seconds: "20", Answers: InboxAnswers("15 s"),
		MayManage: true, MayTest: true, Live: path.InboxLive(id), Limits: fixtureLimits,
	}
	unreachable := empty
	unreachable.Unreachable, unreachable.Endpoints = "Its address, http://localhost:8080, is none that the egress proxy lets requests through to. On a development machine, allow it with WAYBILL_EGRESS_ALLOW.", nil
	some := empty
	some.Received, some.Refused = 113, 4
	answers := []InboxStop{{Note: "answered 200", Tone: ui.Good}, {Note: "answered 429, Retry-After 20", Tone: ui.Bad}, {Note: "answered 500", Tone: ui.Bad}, {Note: "answered 200 after 20 s", Tone: ui.Wait}}
	for i := range 100 {
		stop := answers[i*7%4]
		stop.Number, stop.Title, stop.At = strconv.Itoa(113-i), ui.Tail(fixtureID("evt", 200-i)), before(time.Duration(i*17)*time.Second)
		some.Requests = append(some.Requests, stop)
	}
	message := fixtureRequest()
	message.Line, message.Headers = "POST "+name.Path+" HTTP/1.1", message.Headers[:7]
	some.Shown = &InboxRequest{Number: "113", Answer: "Answered 200", At: before(2 * time.Second), Event: fixtureID("evt", 200), Message: message,
		Check: InboxCheck{Tone: ui.Good, Title: "The signature verifies", Text: "It was signed with the secret 1a2b3c4d of Inbox, scheme v1, within five minutes."}}
	wrong := some
	wrong.Requests = some.Requests[:3]
	shown := *some.Shown
	shown.Check = InboxCheck{Tone: ui.Bad, Title: "The signature does not verify", Text: "No signature matches a live secret of Inbox: the body or the headers were changed, or somebody else sent it."}
	wrong.Shown = &shown
	ended := wrong
	ended.Ended, ended.Stamp, ended.Ends, ended.Live = true, ui.Stamp{Tone: ui.Mute, Word: "Ended"}, before(3*time.Hour), ""
	viewer := some
	viewer.MayManage, viewer.MayTest, viewer.HiddenPayload, viewer.Requests = false, false, true, some.Requests[:5]
	mistyped := empty
	mistyped.Answer, mistyped.Seconds, mistyped.Problems = "slow", "90", Problems{"seconds": "It must be 1 to 60."}
	rows := []InboxRow{
		{ID: id, URL: url, Stamp: receiving, Answer: "200", Received: 113, Last: before(2 * time.Second), Ends: after(7 * 24 * time.Hour)},
		{ID: fixtureID("ibx", 2), URL: url[:len(url)-4] + "Zz09", Stamp: ui.Stamp{Tone: ui.Mute, Word: "Ended"}, Answer: "429, Retry-After 20", Ends: before(3 * time.Hour)},
	}
	return append(framed("inbox", []Fixture{
		{State: "nothing-yet", Page: empty}, {State: "unreachable", Page: unreachable}, {State: "receiving", Page: some}, {State: "does-not-verify", Page: wrong},
		{State: "ended", Page: ended}, {State: "as-viewer", Page: viewer}, {State: "wrong", Page: mistyped}, {State: "delete", Page: DeleteInbox(id, url, 113, []EndpointName{name})},
	}), framed("inboxes", []Fixture{
		{State: "some", Page: Inboxes{Rows: rows, MayManage: true, Limits: fixtureLimits}}, {State: "none", Page: Inboxes{MayManage: true, Limits: fixtureLimits}},
	})...)
}
