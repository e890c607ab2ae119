package page

import (
	"strconv"
	"time"

	"waybill/app/verdict"
	"waybill/web/path"
	"waybill/web/ui"
)

func fixtureEndpointRows() []EndpointRow {
	return []EndpointRow{
		{Endpoint: orderHooks, Stamp: ui.Stamp{Tone: ui.Bad, Word: "Failing"}, Reason: "answers 401 since 14:20", Strip: fixtureStrip(38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49), Share: ui.ShareBar{Part: 4211, Whole: 4311, Tone: ui.Bad}, P95: "412 ms", Waiting: 100, Oldest: before(41 * time.Minute), Last: before(34 * time.Minute), LastCode: "401"},
		{Endpoint: warehouse, Stamp: ui.Stamp{Tone: ui.Hold, Word: "Paused"}, Reason: "by Meera since Monday", Strip: fixtureStrip(), Share: ui.ShareBar{}, P95: "–", Waiting: 240, Oldest: before(26 * time.Hour), Last: before(26 * time.Hour), LastCode: "204"},
		{Endpoint: EndpointName{ID: fixtureID("ep", 4), Host: "new.silkhouse.example", Path: "/"}, Stamp: ui.Stamp{Tone: ui.Wait, Word: "Unverified"}, Reason: "no request was accepted yet", P95: "–"},
		{Endpoint: oldShop, Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}, Strip: fixtureStrip(12, 13), Share: ui.ShareBar{Part: 8133, Whole: 8133, Tone: ui.Good}, P95: "88 ms", Last: before(31 * time.Second), LastCode: "200"},
		{Endpoint: EndpointName{ID: fixtureID("ep", 5), Host: "legacy.silkhouse.example", Path: "/cgi-bin/hook.pl"}, Stamp: ui.Stamp{Tone: ui.Mute, Word: "Disabled"}, Reason: "by us: your server answered 410 Gone on Friday", Strip: fixtureStrip(49), Share: ui.ShareBar{}, P95: "–", Waiting: 12, Oldest: before(4 * 24 * time.Hour), Last: before(4 * 24 * time.Hour), LastCode: "410"},
	}
}

func endpointsFixtures() []Fixture {
	full := Endpoints{Rows: fixtureEndpointRows(), Shown: "5 endpoints", MayManage: true}
	limited := full
	limited.Limit, limited.MayManage = "Your plan has room for 5. Ask the freight platform to raise it.", true
	many := Endpoints{MayManage: true, Shown: "40 of 3,000 endpoints", Next: path.EndpointsAt("b64x"), Many: true, Total: 3000, Attention: 12}
	for i := range 40 {
		row := fixtureEndpointRows()[i%5]
		row.Endpoint = EndpointName{ID: fixtureID("ep", 100+i), Host: "hooks-" + strconv.Itoa(i) + ".shop.example", Path: "/webhooks/consignments/inbound"}
		many.Rows = append(many.Rows, row)
	}
	states := []Fixture{
		{State: "full", Page: full},
		{State: "at-the-limit", Page: limited},
		{State: "many", Page: many},
		{State: "nothing-matches", Page: Endpoints{MayManage: true, Many: true, Total: 3000, Search: "warehose", Show: "paused"}},
		{State: "none", Page: Endpoints{MayManage: true}},
		{State: "none-as-viewer", Page: Endpoints{}},
		{State: "not-loaded", Page: Endpoints{Failed: true}},
	}
	return framed("endpoints", states)
}

func fixtureForm() EndpointForm {
	return EndpointForm{
		URL: "https://orders.silkhouse.example/webhooks/freight", Description: "Order system", Concurrency: "10", MostConcurrency: "100", Scheme: "v1",
		Groups: []TypeGroup{
			{Name: "consignment", Prefix: "consignment.*", Types: []TypeChoice{
				{Name: "consignment.booked", Description: "Space on a truck was booked.", Recent: "1,204", Chosen: true},
				{Name: "consignment.loaded", Description: "The goods are on the truck.", Recent: "1,190", Chosen: true},
				{Name: "consignment.in_transit", Description: "The truck has left.", Recent: "1,187", Chosen: true},
				{Name: "consignment.delivered", Description: "The goods were handed over and signed for.", Recent: "1,166", Chosen: true},
			}},
			{Name: "invoice", Prefix: "invoice.*", Types: []TypeChoice{
				{Name: "invoice.issued", Description: "An invoice was made.", Recent: "88"},
				{Name: "invoice.draft", Description: "Use invoice.issued.", Recent: "0", Deprecated: true},
			}},
		},
		Headers: []HeaderField{{Name: "authorization", Kept: true}, {Name: "x-shop", Value: "silk-house"}},
		Presets: []ui.Option{{Value: "standard", Text: "Standard: 10 attempts over 3 days"}, {Value: "commerce", Text: "Commerce: 8 attempts over 3.6 days"}}, Preset: "standard",
	}
}

func failingHead() EndpointHead {
	return EndpointHead{
		Endpoint: orderHooks, URL: "https://orders.silkhouse.example/webhooks/freight", Stamp: ui.Stamp{Tone: ui.Bad, Word: "Failing"}, Reason: "since 14:20", Active: true, MayManage: true, Secrets: "2",
		Why: verdict.Explain(verdict.Facts{Class: verdict.Status, Code: 401}),
		Alert: &ui.Banner{Tone: ui.Bad, Title: "Your server answers 401 Unauthorized since 14:20", Text: "It does not accept that the requests are from us. 100 deliveries wait. The endpoint is disabled on Sunday at 14:20 if nothing changes.",
			Actions: []ui.Link{{Text: "See the last attempt", Href: path.Delivery(fixtureID("dlv", 26))}, {Text: "Open the signature lab", Href: path.EndpointSignature(orderHooks.ID)}}},
	}
}

func quietHead() EndpointHead {
	return EndpointHead{Endpoint: oldShop, URL: "https://" + oldShop.Host + oldShop.Path, Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}, Reason: "verified on 3 Oct 2026", Active: true, MayManage: true}
}

func pausedHead() EndpointHead {
	return EndpointHead{
		Endpoint: warehouse, URL: "https://" + warehouse.Host + warehouse.Path, Stamp: ui.Stamp{Tone: ui.Hold, Word: "Paused"}, Reason: "by Meera since Monday, 13:05", MayManage: true,
		Alert: &ui.Banner{Tone: ui.Hold, Title: "This endpoint is paused", Text: "240 deliveries are held. The first of them ages out on 16 December."},
	}
}

func endpointFixtures() []Fixture {
	failing := Endpoint{
		Head: failingHead(), Waiting: 100, Oldest: before(41 * time.Minute), Delivered: 4211, Failed: 100, P50: "61 ms", P95: "412 ms",
		Strip: fixtureStrip(38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49), Outcomes: fixtureOutcomes("outcomes"), Times: fixtureTimes("times"), Recent: fixtureRows(8),
	}
	fresh := Endpoint{Head: quietHead(), Outcomes: ui.Bars{ID: "outcomes", Title: "Deliveries by outcome", Summary: "Nothing was sent yet."}, Times: ui.Lines{ID: "times", Title: "Response time", Summary: "Nothing was sent yet."}}
	unread := fresh
	unread.Head, unread.Unread = pausedHead(), true
	unread.Outcomes.Failed, unread.Times.Failed = true, true
	bare := failing
	bare.NoRollups = true
	wrong := fixtureForm()
	wrong.URL, wrong.Problems = "http://10.0.0.1/hook", Problems{"url": "It must start with https://.", "headers": "“host” is set by us and cannot be a static header.", "types": "Choose at least one, or every type."}
	viewer := failingHead()
	viewer.MayManage = false
	states := []Fixture{
		{State: "failing", Page: failing},
		{State: "fresh", Page: fresh},
		{State: "without-rollups", Page: bare},
		{State: "paused-not-loaded", Page: unread},
		{State: "settings", Page: EndpointSettings{Head: failingHead(), Form: fixtureForm(), Check: passedCheck()}},
		{State: "settings-wrong", Page: EndpointSettings{Head: failingHead(), Form: wrong}},
		{State: "settings-paused", Page: EndpointSettings{Head: pausedHead(), Form: fixtureForm()}},
		{State: "settings-as-viewer", Page: EndpointSettings{Head: viewer, Form: fixtureForm()}},
		{State: "activity", Page: EndpointActivity{Head: quietHead(), Rows: fixtureActivity()[:4], Shown: "4"}},
		{State: "activity-none", Page: EndpointActivity{Head: quietHead()}},
	}
	return framed("endpoint", states)
}
