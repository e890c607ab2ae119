package page

import (
	"time"

	"waybill/app/verdict"
	"waybill/web/path"
	"waybill/web/ui"
)

func overviewFixtures() []Fixture {
	well := Overview{
		Range: "24h", Delivered: 12_344, Failed: 86, P50: 88 * time.Millisecond, P95: 412 * time.Millisecond, HasEndpoints: true,
		Outcomes: fixtureOutcomes("outcomes"), Times: fixtureTimes("times"),
	}
	troubled := well
	troubled.Waiting, troubled.Undelivered = 340, 252
	words := verdict.Explain(verdict.Facts{Class: verdict.Status, Code: 401})
	troubled.Attention = []Attention{
		{Endpoint: orderHooks, Stamp: ui.Stamp{Tone: ui.Bad, Word: "Failing"}, Reason: "Answers 401 since 14:20. 100 deliveries wait.",
			Happened: words.Happened, Causes: words.Causes, Fixes: words.Fixes, Help: HelpLink(words.Help, orderHooks.ID),
			Action: ui.Link{Text: "See the last attempt", Href: path.Delivery(fixtureID("dlv", 26))}},
		{Endpoint: warehouse, Stamp: ui.Stamp{Tone: ui.Hold, Word: "Paused"}, Reason: "Paused by Meera since Monday. 240 deliveries are held.", Action: ui.Link{Text: "Enable…", Href: path.EndpointEnable(warehouse.ID)}},
		{Endpoint: oldShop, Stamp: ui.Stamp{Tone: ui.Wait, Word: "Certificate"}, Reason: "Its certificate ends in 9 days, on 26 November.", Action: ui.Link{Text: "Look at it", Href: path.Endpoint(oldShop.ID)}},
	}
	steps := []Step{
		{Text: "Add the URL of your server", Note: "We check the connection at once and say what is wrong, if anything is.", Href: path.EndpointNew()},
		{Text: "Send a test event", Note: "Your server's answer appears on the page.", Href: path.Endpoints()},
		{Text: "Check the signature in your code", Note: "So that nobody but us can post events to you.", Href: path.Endpoints()},
	}
	started := Overview{Range: "24h", HasEndpoints: true, Steps: []Step{{Text: steps[0].Text, Done: true}, steps[1], steps[2]}, Outcomes: ui.Bars{ID: "outcomes", Title: "Deliveries by outcome", Summary: "Nothing was sent yet."}, Times: ui.Lines{ID: "times", Title: "Response time", Summary: "Nothing was sent yet."}}
	unread := Overview{Range: "7d", HasEndpoints: true, Unread: true, Outcomes: ui.Bars{ID: "outcomes", Title: "Deliveries by outcome", Failed: true}, Times: ui.Lines{ID: "times", Title: "Response time", Failed: true}}
	bare := troubled
	bare.NoRollups = true
	states := []Fixture{
		{State: "well", Page: well, Frame: fixtureFrame},
		{State: "troubled", Page: troubled, Frame: fixtureFrame},
		{State: "new", Page: Overview{Range: "24h", Steps: steps}, Frame: fixtureFrame},
		{State: "started", Page: started, Frame: fixtureFrame},
		{State: "not-loaded", Page: unread, Frame: fixtureFrame},
		{State: "as-support", Page: well, Frame: supportFrame()},
		{State: "without-rollups", Page: bare, Frame: fixtureFrame},
	}
	for i := range states {
		states[i].Name = "overview"
		if states[i].State != "troubled" && states[i].State != "as-support" {
			states[i].Frame.Undelivered = 0
		}
	}
	states[4].Frame.Undelivered = -1
	return states
}

// supportFrame is what support sees: a notice, a flash, other tenants.
func supportFrame() ui.Frame {
	frame := fixtureFrame
	frame.Member, frame.Role, frame.Mailbox, frame.Undelivered = "", "Support, read-only", true, 1204
	frame.Notice = &ui.Banner{Tone: ui.Info, Title: "You are looking as support", Text: "Nothing can be changed, and this visit is in the account's activity log.", Actions: []ui.Link{{Text: "Leave", Href: "/console"}}}
	frame.Flash = &ui.Flash{Tone: ui.Good, Text: "You switched to Meera Silk House."}
	frame.Others = []ui.Option{{Value: "seller-12", Text: "Kanchi Cottons"}, {Value: "seller-13", Text: "Surat Synthetics & Sons"}}
	return frame
}
