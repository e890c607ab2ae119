package gallery

import (
	"time"

	"waybill/web/ui"
)

// What the components page shows.
var (
	clock  = ui.Clock{Now: time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC), Zone: time.FixedZone("IST", 19800)}
	moment = clock.Moment(clock.Now.Add(-3 * time.Minute))
	ahead  = clock.Moment(clock.Now.Add(4*time.Minute + 12*time.Second))

	stamps = []ui.Stamp{
		{Tone: ui.Good, Word: "Delivered"}, {Tone: ui.Wait, Word: "Retrying", Note: "attempt 3 of 10"},
		{Tone: ui.Bad, Word: "Undelivered"}, {Tone: ui.Hold, Word: "Held"}, {Tone: ui.Mute, Word: "Cancelled"},
		{Tone: ui.Info, Word: "Sending"},
	}
	icons = []string{
		"mark", "overview", "endpoint", "delivery", "undelivered", "event", "type", "key", "team", "log", "settings", "mail",
		"copy", "check", "cross", "warning", "info", "pause", "play", "resend", "search", "menu", "out", "next", "back",
		"lock", "plus", "trash", "download", "eye", "leave", "send",
	}
	banners = []ui.Banner{
		{Tone: ui.Bad, Title: "Your server has refused connections since 14:20", Text: "12 events wait. The endpoint is disabled on Sunday at 14:20 if nothing changes.",
			Actions: []ui.Link{{Text: "See the last attempt", Href: "#"}}},
		{Tone: ui.Wait, Title: "The certificate ends in 9 days", Text: "Renew it before 26 November."},
		{Tone: ui.Hold, Title: "Paused by Meera since Monday", Text: "240 events are held."},
		{Tone: ui.Good, Title: "All checks passed"},
		{Tone: ui.Info, Title: "You are looking as support", Text: "Nothing can be changed."},
		{Tone: ui.Mute, Title: "Switched off"},
	}
	inputs = []ui.Input{
		{Name: "url", Label: "URL", Type: "url", Hint: "https only, on port 443, 80 or above 1023.", Placeholder: "https://example.com/webhooks", Required: true, Mono: true},
		{Name: "email", Label: "Mail address", Type: "email", Value: "meera@", Error: "There is nothing after the @."},
		{Name: "payload", Label: "Payload", Rows: 4, Value: "{\n  \"id\": \"C-4471\"\n}", Mono: true},
	}
	choice = ui.Choice{Name: "zone", Label: "Time zone", Value: "Asia/Kolkata", Options: []ui.Option{{Value: "UTC", Text: "UTC"}, {Value: "Asia/Kolkata", Text: "Asia/Kolkata (+05:30)"}}}
	radios = ui.Choice{Name: "form", Label: "Payload form", Value: "full", Options: []ui.Option{
		{Value: "full", Text: "Full", Note: "The whole event, as it was published."}, {Value: "thin", Text: "Thin", Note: "Ids only; your code fetches the state."},
	}}
	confirmation = ui.Confirm{
		Title: "Disable endpoint", Object: "https://orders.silkhouse.example/webhooks/freight", Verb: "Disable endpoint", Back: "#", Action: "#", Danger: true,
		Effects: []string{"12 pending deliveries become held.", "New events are held, not lost, for 30 days.", "You can switch it on again at any time and choose what to catch up on."},
	}
	tabs   = []ui.Tab{{Text: "Deliveries", Href: "#", Current: true}, {Text: "Settings", Href: "#"}, {Text: "Secrets", Href: "#", Count: "2"}, {Text: "Test", Href: "#"}, {Text: "Activity", Href: "#"}}
	facets = ui.FacetRow{Action: "#", Clear: "#", Facets: []ui.Facet{
		{Name: "q", Label: "Resource or event id", Placeholder: "C-4471"}, {Name: "outcome", Label: "Outcome", Value: "held", Options: []ui.Option{{Text: "Any"}, {Value: "held", Text: "Held"}}},
		{Name: "kind", Label: "Event type", Type: "text", Suggestions: []string{"consignment.booked", "consignment.loaded"}},
	}}
	strip   = ui.Strip{Outcomes: outcomes()}
	bars    = sampleBars()
	lines   = sampleLines()
	headers = []ui.Header{{Name: "content-type", Value: "application/json"}, {Name: "authorization", Value: "••••••••", Note: "hidden"}}
	phases  = ui.Phases{Total: 320 * time.Millisecond, Parts: []ui.Phase{
		{Name: "Connect", Took: 18 * time.Millisecond}, {Name: "TLS", Took: 31 * time.Millisecond},
		{Name: "Waiting", Took: 240 * time.Millisecond}, {Name: "Reading", Took: 12 * time.Millisecond},
	}}
	failedBars   = ui.Bars{ID: "failed", Title: "Deliveries by outcome", Failed: true}
	sampleBodies = []ui.Body{
		ui.NewBody([]byte(`{"id":"C-4471","weight_kg":318.50,"big":123456789012345678901234567890,"signed_by":null}`), 88, ui.Pretty),
		ui.NewBody([]byte("plain text, cut"), 4_000, ui.Pretty),
		ui.NewBody([]byte("\x00\x01binary\xff\xfe and more than sixteen bytes"), 42, ui.Pretty),
		ui.NewBody(nil, 0, ui.Pretty),
	}
)

func outcomes() []ui.Tone {
	all := make([]ui.Tone, 50)
	for i := range all {
		all[i] = ui.Good
		if i == 12 || i == 13 || i == 31 {
			all[i] = ui.Bad
		}
	}
	all[40] = ui.Mute
	return all
}

func sampleBars() ui.Bars {
	chart := ui.Bars{
		ID: "outcomes", Title: "Deliveries by outcome", Summary: "12,430 deliveries in 24 hours, 99.82 % of them delivered.",
		Series: []ui.Series{{Name: "Delivered", Tone: ui.Good}, {Name: "Retrying", Tone: ui.Wait}, {Name: "Undelivered", Tone: ui.Bad}, {Name: "Held", Tone: ui.Hold}},
	}
	for i := range 24 {
		at := clock.Now.Add(time.Duration(i-24) * time.Hour).Truncate(time.Hour)
		bucket := ui.Bucket{Full: clock.Time(at), Values: []int64{int64(400 + 37*(i*7%11)), int64(i % 5 * 12), int64(i % 9 / 7 * 30), 0}, Missing: i == 5}
		if i%6 == 0 {
			bucket.Label = at.In(clock.Zone).Format("15:04")
		}
		chart.Buckets = append(chart.Buckets, bucket)
	}
	return chart
}

func sampleLines() ui.Lines {
	chart := ui.Lines{
		ID: "response", Title: "Response time", Summary: "Half of the answers came within 88 ms, 95 of 100 within 412 ms.",
		Series: []ui.Series{{Name: "p50", Tone: ui.Info}, {Name: "p95", Tone: ui.Hold}},
	}
	for i := range 24 {
		at := clock.Now.Add(time.Duration(i-24) * time.Hour).Truncate(time.Hour)
		p50 := time.Duration(70+i*11%40) * time.Millisecond
		point := ui.Point{Full: clock.Time(at), Values: []time.Duration{p50, p50 * time.Duration(3+i%4)}, Missing: i == 5}
		if i == 14 {
			point.Values = []time.Duration{-1, -1}
		}
		if i%6 == 0 {
			point.Label = at.In(clock.Zone).Format("15:04")
		}
		chart.Points = append(chart.Points, point)
	}
	return chart
}
