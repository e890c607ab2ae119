package page

import (
	"strconv"
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

func eventsFixtures() []Fixture {
	full := Events{Types: eventTypes, Kept: "90 days", Shown: "1 to 20 of more than 10,000", Next: path.EventsOf("", "", "b64x")}
	delivered, retrying, held := ui.Stamp{Tone: ui.Good, Word: "Delivered"}, ui.Stamp{Tone: ui.Wait, Word: "Retrying"}, ui.Stamp{Tone: ui.Hold, Word: "Held"}
	for i := range 20 {
		row := EventRow{ID: fixtureID("evt", 100-i), Type: eventTypes[(i*5)%4], Resource: "C-" + strconv.Itoa(4471-i%7), Sequence: strconv.Itoa(1 + (i*5)%4), At: before(time.Duration(i*47) * time.Second)}
		switch i % 4 {
		case 0, 2:
			row.Deliveries = []EventCount{{delivered, 3}}
		case 1:
			row.Deliveries = []EventCount{{delivered, 1}, {retrying, 1}, {held, 1}}
		}
		full.Rows = append(full.Rows, row)
	}
	filtered := full
	filtered.Search, filtered.Type, filtered.Rows, filtered.Shown, filtered.Next = "C-4471", "consignment.*", full.Rows[:1], "1", ""
	states := []Fixture{
		{State: "full", Page: full},
		{State: "filtered", Page: filtered},
		{State: "no-match", Page: Events{Types: eventTypes, Kept: "90 days", Search: "C-9999"}},
		{State: "none", Page: Events{Kept: "90 days"}},
		{State: "not-loaded", Page: Events{Kept: "90 days", Failed: true}},
	}
	return framed("events", states)
}

func eventFixtures() []Fixture {
	event := Event{
		ID: fixtureID("evt", 26), Type: "consignment.in_transit", ResourceType: "consignment", Resource: "C-4471", Sequence: 3, Version: "1",
		Published: before(41 * time.Minute), Occurred: before(41*time.Minute + 2*time.Second), Body: ui.NewBody([]byte(fixtureBody), int64(len(fixtureBody)), ui.Pretty),
		Size: "412 bytes", Digest: "9f2c4c1d0b7a6e35f8812cba09d3e7745b1c6f0ad2e98b3417f5c60d8ea3b291", Shadowed: true,
		Whys: []Why{
			{Endpoint: oldShop, Stamp: ui.Stamp{Tone: ui.Good, Word: "Delivered"}, Reason: "on the first attempt, 84 ms", Delivery: fixtureID("dlv", 25)},
			{Endpoint: orderHooks, Stamp: ui.Stamp{Tone: ui.Wait, Word: "Retrying"}, Reason: "your server answers 401; next attempt at 15:15", Delivery: fixtureID("dlv", 26), Action: ui.Link{Text: "See what to mend", Href: path.Delivery(fixtureID("dlv", 26))}},
			{Endpoint: warehouse, Stamp: ui.Stamp{Tone: ui.Hold, Word: "Held"}, Reason: "paused by Meera since Monday, 13:05", Delivery: fixtureID("dlv", 27), Action: ui.Link{Text: "Enable…", Href: path.EndpointEnable(warehouse.ID)}},
			{Endpoint: EndpointName{ID: fixtureID("ep", 4), Host: "new.silkhouse.example", Path: "/"}, Stamp: ui.Stamp{Tone: ui.Mute, Word: "Not subscribed"}, Reason: "to consignment.in_transit", Action: ui.Link{Text: "Change subscriptions", Href: path.EndpointSettings(fixtureID("ep", 4))}},
			{Endpoint: EndpointName{ID: fixtureID("ep", 5), Host: "legacy.silkhouse.example", Path: "/cgi-bin/hook.pl"}, Stamp: ui.Stamp{Tone: ui.Info, Word: "Waiting"}, Reason: "behind 40 others (limit 10 at once)", Delivery: fixtureID("dlv", 29)},
		},
		Siblings: []Sibling{
			{ID: fixtureID("evt", 27), Type: "consignment.delivered", Sequence: 4, At: before(40 * time.Minute)},
			{ID: fixtureID("evt", 26), Type: "consignment.in_transit", Sequence: 3, At: before(41 * time.Minute), This: true},
			{ID: fixtureID("evt", 15), Type: "consignment.loaded", Sequence: 2, At: before(5 * time.Hour)},
			{ID: fixtureID("evt", 8), Type: "consignment.booked", Sequence: 1, At: before(30 * time.Hour)},
		},
	}
	event.Mistakes = []Mistake{{Where: "data.weight_kg", Text: "got string, want number"}, {Where: "data", Text: "missing property 'signed_by'"}}
	alone := event
	alone.Whys, alone.Siblings, alone.Shadowed, alone.Test, alone.HiddenPayload, alone.Mistakes = nil, event.Siblings[1:2], false, true, true, nil
	event.MayExpunge = true
	expunged := event
	expunged.Mistakes, expunged.Body, expunged.Size, expunged.Digest = nil, ui.Body{}, "", ""
	expunged.Expunged = &Expunged{At: before(5 * time.Minute), By: "meera@silkhouse.example"}
	expunged.Whys = []Why{{Endpoint: oldShop, Stamp: ui.Stamp{Tone: ui.Mute, Word: "Cancelled"}, Reason: "the event's content was expunged", Delivery: fixtureID("dlv", 25)}}
	return []Fixture{
		{Name: "event", State: "expunged", Page: expunged, Frame: fixtureFrame},
		{Name: "event", State: "five-endpoints", Page: event, Frame: fixtureFrame},
		{Name: "event", State: "no-endpoint-hidden", Page: alone, Frame: fixtureFrame},
	}
}

func eventTypeFixtures() []Fixture {
	list := EventTypes{Groups: []EventTypeGroup{
		{Name: "consignment", Types: []EventTypeRow{
			{Name: "consignment.booked", Description: "Space on a truck was booked.", Version: "1", Recent: "1,204 in 7 days", Subscribers: "2 endpoints"},
			{Name: "consignment.loaded", Description: "The goods are on the truck.", Version: "1", Recent: "1,190 in 7 days", Subscribers: "2 endpoints"},
			{Name: "consignment.in_transit", Description: "The truck has left.", Version: "1", Recent: "1,187 in 7 days", Subscribers: "1 endpoint"},
			{Name: "consignment.delivered", Description: "The goods were handed over and signed for.", Version: "2", Recent: "1,166 in 7 days", Subscribers: "3 endpoints", Enforced: true},
		}},
		{Name: "invoice", Types: []EventTypeRow{{Name: "invoice.draft", Description: "Use invoice.issued.", Version: "1", Recent: "none", Subscribers: "none", Deprecated: true}}},
	}}
	one := EventType{
		Name: "consignment.delivered", Description: "The goods were handed over and signed for.", Version: "2", Enforced: true,
		Fields: []SchemaField{
			{Name: "id", Kind: "string", Description: "The consignment's number.", Required: true},
			{Name: "status", Kind: "string", Description: "One of booked, loaded, in_transit, delivered.", Required: true},
			{Name: "goods", Kind: "string", Description: "What is on the truck, in the sender's words."},
			{Name: "weight_kg", Kind: "number", Description: "Gross weight."},
			{Name: "signed_by", Kind: "string or null", Description: "Who signed at the door."},
		},
		Schema:  "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"type\": \"object\",\n  \"required\": [\"id\", \"status\"]\n}",
		Example: ui.NewBody([]byte(fixtureBody), int64(len(fixtureBody)), ui.Pretty), Subscribers: endpointNames[:2], TestHref: path.EndpointTestOf(orderHooks.ID, "consignment.delivered"),
	}
	bare := EventType{Name: "invoice.draft", Version: "1", Deprecated: "Since 1 October 2026. Subscribe to invoice.issued in its place.", Example: ui.NewBody([]byte("{}"), 2, ui.Pretty)}
	states := []Fixture{
		{Name: "event-types", State: "full", Page: list}, {Name: "event-types", State: "none", Page: EventTypes{}}, {Name: "event-types", State: "not-loaded", Page: EventTypes{Failed: true}},
		{Name: "event-type", State: "described", Page: one}, {Name: "event-type", State: "deprecated-bare", Page: bare},
	}
	for i := range states {
		states[i].Frame = fixtureFrame
	}
	return states
}
