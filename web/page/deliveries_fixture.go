package page

import (
	"strconv"
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

// fixtureRows are n deliveries with all outcomes, half a minute apart.
func fixtureRows(n int) []DeliveryRow {
	outcomes := []DeliveryRow{
		{Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}, Code: "200", Took: "84 ms", Attempts: "1/10"},
		{Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}, Code: "204", Took: "212 ms", Attempts: "1/10"},
		{Stamp: ui.Stamp{Tone: ui.Wait, Word: "Retrying"}, Code: "timed out", Took: "15 s", Attempts: "3/10", Next: after(4*time.Minute + 12*time.Second)},
		{Stamp: ui.Stamp{Tone: ui.Good, Word: "Recovered"}, Code: "200", Took: "95 ms", Attempts: "4/10", Choosable: true},
		{Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}, Code: "401", Took: "38 ms", Attempts: "10/10", Choosable: true},
		{Stamp: ui.Stamp{Tone: ui.Hold, Word: "Held"}, Attempts: "0/10", Choosable: true},
		{Stamp: ui.Stamp{Tone: ui.Info, Word: "Sending"}, Attempts: "0/10"},
		{Stamp: ui.Stamp{Tone: ui.Mute, Word: "Cancelled"}, Code: "500", Took: "1.2 s", Attempts: "2/10"},
		{Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}, Code: "200", Took: "61 ms", Attempts: "1/10"},
	}
	rows := make([]DeliveryRow, n)
	for i := range rows {
		row := outcomes[i%len(outcomes)]
		row.ID, row.Event = fixtureID("dlv", n-i), fixtureID("evt", n-i)
		row.Type, row.Resource, row.Sequence = eventTypes[(i*5)%4], "C-"+strconv.Itoa(4471-i%17), strconv.Itoa(1+(i*5)%4)
		row.Endpoint, row.At = endpointNames[i%3], before(time.Duration(i*31)*time.Second)
		rows[i] = row
	}
	return rows
}

func deliveriesFixtures() []Fixture {
	endpoints := make([]ui.Option, len(endpointNames))
	for i, e := range endpointNames {
		endpoints[i] = ui.Option{Value: e.ID, Text: e.title()}
	}
	list := Deliveries{
		Endpoints: endpoints, Types: eventTypes, Rows: fixtureRows(50), MayResend: true, Kept: "30 days", Catalog: "90 days",
		Shown: "1 to 50 of more than 10,000", Next: path.Deliveries(path.DeliveryFilter{Cursor: "b64x"}),
	}
	filtered := list
	filtered.Filter = path.DeliveryFilter{Status: "undelivered", Code: "418", Endpoint: orderHooks.ID, Range: "custom", From: "2026-11-16T00:00", To: "2026-11-17T00:00"}
	filtered.MaySave, filtered.Saved = true, []SavedFilter{{ID: fixtureID("flt", 1), Name: "Order system, failing", Href: path.Deliveries(path.DeliveryFilter{Endpoint: orderHooks.ID})}, {ID: fixtureID("flt", 2), Name: "Slow answers", Href: path.Deliveries(path.DeliveryFilter{Slower: "2000"})}}
	saved := filtered
	saved.Saved, saved.SavedHere = []SavedFilter{{ID: fixtureID("flt", 1), Name: "Order system, failing", Href: path.Deliveries(filtered.Filter), Current: true}, filtered.Saved[1]}, true
	filtered.Rows, filtered.Shown, filtered.Matching, filtered.Next = fixtureRows(5)[4:], "1", 1, ""
	many := list
	many.ManyEndpoints, many.Filter.Endpoint = true, "silkhouse"
	several := many
	several.Rows, several.Empty, several.Next = nil, EmptySeveral, ""
	for _, e := range endpointNames {
		several.Several = append(several.Several, ui.Option{Value: path.Deliveries(path.DeliveryFilter{Endpoint: e.ID}), Text: e.title(), Note: e.Host + e.Path})
	}
	older := list
	older.Filter.Cursor, older.Rows, older.MayResend = "b64x", fixtureRows(12), false
	older.Shown, older.First, older.Next = "51 to 62 of 62", path.Deliveries(path.DeliveryFilter{}), ""
	states := []Fixture{
		{State: "full", Page: list},
		{State: "filtered", Page: filtered},
		{State: "filtered-as-saved", Page: saved},
		{State: "many-endpoints", Page: many},
		{State: "which-endpoint", Page: several},
		{State: "last-page-as-viewer", Page: older},
	}
	for _, empty := range []DeliveriesEmpty{EmptyNothingYet, EmptyNoMatch, EmptyTooOld, EmptyPaused, EmptyFailed} {
		page := Deliveries{Endpoints: endpoints, Types: eventTypes, Empty: empty, MayResend: true, Kept: "30 days", Catalog: "90 days"}
		if empty != EmptyNothingYet {
			page.Filter = path.DeliveryFilter{Endpoint: orderHooks.ID, Search: "C-9999"}
		}
		page.Resume = path.EndpointEnable(orderHooks.ID)
		states = append(states, Fixture{State: string(empty), Page: page})
	}
	return framed("deliveries", states)
}
