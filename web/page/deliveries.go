package page

import (
	"cmp"

	"waybill/web/path"
	"waybill/web/ui"
)

// facets is the filter row of the delivery list. The custom range shows its two ends only when it is chosen.
func (p Deliveries) facets() ui.FacetRow {
	f := p.Filter
	row := ui.FacetRow{
		Action: path.Deliveries(path.DeliveryFilter{}),
		Facets: []ui.Facet{
			{Name: "q", Label: "Resource or event id", Value: f.Search, Placeholder: "C-4471"},
			{Name: "status", Label: "Outcome", Value: f.Status, Options: outcomeOptions},
			{Name: "code", Label: "Answer", Value: f.Code, Options: codeOptions(f.Code)},
			{Name: "endpoint", Label: "Endpoint", Value: f.Endpoint, Options: append([]ui.Option{{Text: "Any"}}, p.Endpoints...)},
			{Name: "type", Label: "Event type", Value: f.Type, Type: "text", Suggestions: p.Types, Placeholder: "Any"},
			{Name: "range", Label: "Published", Value: f.Range, Options: rangeOptions},
			{Name: "trigger", Label: "Sent because", Value: f.Trigger, Options: triggerOptions},
			{Name: "slower", Label: "Slower than (ms)", Value: f.Slower, Type: "number", Placeholder: "Any"},
		},
	}
	if p.ManyEndpoints {
		row.Facets[3] = ui.Facet{Name: "endpoint", Label: "Endpoint", Value: f.Endpoint, Type: "text", Placeholder: "Name or URL"}
	}
	if f.Range == "custom" {
		row.Facets = append(row.Facets,
			ui.Facet{Name: "from", Label: "From", Value: f.From, Type: "datetime-local"},
			ui.Facet{Name: "to", Label: "To", Value: f.To, Type: "datetime-local"})
	}
	if f.Narrowed() {
		row.Clear = path.Deliveries(path.DeliveryFilter{})
	}
	return row
}

func (p Deliveries) live() string { return cmp.Or(p.Live, path.DeliveriesLive(p.Filter)) }

// subject is the resource with its sequence, where that is known.
func (r DeliveryRow) subject() string {
	if r.Sequence == "" {
		return r.Resource
	}
	return r.Resource + " · " + r.Sequence
}

var (
	outcomeOptions = []ui.Option{
		{Text: "Any"}, {Value: "delivered", Text: "Delivered"}, {Value: "recovered", Text: "Recovered after failures"},
		{Value: "pending", Text: "Pending"}, {Value: "retrying", Text: "Retrying"}, {Value: "undelivered", Text: "Undelivered"},
		{Value: "held", Text: "Held"}, {Value: "cancelled", Text: "Cancelled"},
	}
	rangeOptions = []ui.Option{
		{Text: "Any time"}, {Value: "1h", Text: "Last hour"}, {Value: "24h", Text: "Last 24 hours"},
		{Value: "7d", Text: "Last 7 days"}, {Value: "custom", Text: "From … to …"},
	}
	triggerOptions = []ui.Option{
		{Text: "Any"}, {Value: "schedule", Text: "Schedule"}, {Value: "manual", Text: "Resent by hand"},
		{Value: "recover", Text: "Catch-up"}, {Value: "test", Text: "Test event"}, {Value: "probe", Text: "Probe"},
	}
)

// codeOptions are the answers to choose from; a single code that came by address joins them.
func codeOptions(chosen string) []ui.Option {
	options := []ui.Option{
		{Text: "Any"}, {Value: "2xx", Text: "2xx"}, {Value: "3xx", Text: "3xx"}, {Value: "4xx", Text: "4xx"},
		{Value: "401", Text: "401"}, {Value: "404", Text: "404"}, {Value: "429", Text: "429"},
		{Value: "5xx", Text: "5xx"}, {Value: "none", Text: "No answer"},
	}
	for _, option := range options {
		if option.Value == chosen {
			return options
		}
	}
	return append(options, ui.Option{Value: chosen, Text: chosen})
}
