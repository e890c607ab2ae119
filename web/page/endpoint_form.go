package page

import "waybill/web/ui"

var (
	payloadOptions = []ui.Option{
		{Value: "full", Text: "Full", Note: "The whole event, as it was published."},
		{Value: "thin", Text: "Thin", Note: "Ids and type only; your code fetches the rest. Keeps personal data off the wire."},
	}
	schemeOptions = []ui.Option{
		{Value: "v1", Text: "v1, shared secret", Note: "HMAC-SHA256 as in Standard Webhooks. Libraries for most languages know it."},
		{Value: "v1+v1a", Text: "v1 and v1a", Note: "Both signatures on each request, while you move from one to the other."},
		{Value: "v1a", Text: "v1a, public key", Note: "ed25519: your server holds no secret, only our public key."},
		{Value: "hex", Text: "hex", Note: "v1=<hex> over timestamp and body, for older receivers."},
	}
)

// typesHint says what is to be chosen, and what the numbers are where there are some.
func (p EndpointForm) typesHint() string {
	hint := "Choose single types, all of a resource, or everything."
	for _, group := range p.Groups {
		for _, choice := range group.Types {
			if choice.Recent != "" {
				return hint + " Numbers are your own events of the last 7 days."
			}
		}
	}
	return hint
}

// manyTypes says that there are more than one sees at a glance.
func (p EndpointForm) manyTypes() bool {
	count := 0
	for _, group := range p.Groups {
		count += len(group.Types)
	}
	return count > 5
}

func (p EndpointForm) payload() string {
	if p.Thin {
		return "thin"
	}
	return "full"
}

func (p EndpointForm) scheme() string {
	if p.Scheme == "" {
		return "v1"
	}
	return p.Scheme
}

// errors lists the form's mistakes for the summary above it.
func (p EndpointForm) errors() []ui.FieldError {
	labels := [][2]string{
		{"url", "URL"}, {"description", "Name"}, {"types", "Which events"}, {"headers", "Static headers"},
		{"payload", "Payload"}, {"scheme", "Signature"}, {"concurrency", "Requests at once"}, {"preset", "Retry schedule"},
	}
	return p.Problems.summary(labels)
}

// summary turns problems into the entries of an error summary, in the order of the labels. What belongs to no
// field leads to the top of the page.
func (p Problems) summary(labels [][2]string) []ui.FieldError {
	var found []ui.FieldError
	if text := p[""]; text != "" {
		found = append(found, ui.FieldError{Name: "content", Label: "This form", Text: text})
	}
	for _, label := range labels {
		if text := p[label[0]]; text != "" {
			found = append(found, ui.FieldError{Name: label[0], Label: label[1], Text: text})
		}
	}
	return found
}

// subscriptions says in a line what the endpoint is subscribed to.
func (p EndpointForm) subscriptions() string {
	if p.EveryType {
		return "Every type, also future ones"
	}
	words := ""
	add := func(name string) {
		if words != "" {
			words += ", "
		}
		words += name
	}
	for _, group := range p.Groups {
		if group.All {
			add(group.Prefix)
			continue
		}
		for _, choice := range group.Types {
			if choice.Chosen {
				add(choice.Name)
			}
		}
	}
	return dash(false, words)
}
