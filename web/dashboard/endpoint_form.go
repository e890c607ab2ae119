package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/endpoint"
	"waybill/app/policy"
	"waybill/app/signing"
	"waybill/web/page"
	"waybill/web/ui"
)

// endpointFields maps the names that endpoint's operations use to the form's.
var endpointFields = map[string]string{
	"url": "url", "description": "description", "types": "types", "headers": "headers", "payload": "payload", "scheme": "scheme",
	"limits.concurrency": "concurrency", "preset": "preset",
}

// maxTypes is how many types of the catalog a form offers.
const maxTypes = 1000

// catalog is every event type, up to maxTypes.
func (d *Dashboard) catalog(ctx context.Context, caller account.Caller) ([]catalog.EventType, error) {
	var all []catalog.EventType
	after := ""
	for len(all) < maxTypes {
		types, next, err := d.Types.EventTypeList(ctx, caller, "", after, 200)
		if err != nil {
			return nil, err
		}
		if all = append(all, types...); next == "" {
			break
		}
		after = next
	}
	return all, nil
}

// typeGroups arranges the catalog by resource. Chosen patterns that the catalog does not have are kept among them, so that saving a form
// takes none away.
func typeGroups(types []catalog.EventType, chosen []string) []page.TypeGroup {
	left := slices.Clone(chosen)
	choose := func(name string) bool {
		i := slices.Index(left, name)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		return i >= 0
	}
	choose("*")
	var groups []page.TypeGroup
	group := func(name string) *page.TypeGroup {
		resource, _, _ := strings.Cut(name, ".")
		for i := range groups {
			if groups[i].Name == resource {
				return &groups[i]
			}
		}
		groups = append(groups, page.TypeGroup{Name: resource, Prefix: resource + ".*", All: choose(resource + ".*")})
		return &groups[len(groups)-1]
	}
	for _, t := range types {
		g := group(t.Name)
		g.Types = append(g.Types, page.TypeChoice{
			Name: t.Name, Description: t.Description, Chosen: choose(t.Name), Deprecated: t.DeprecatedAt != nil,
		})
	}
	for _, pattern := range slices.Clone(left) {
		g := group(pattern)
		if choose(pattern) {
			g.Types = append(g.Types, page.TypeChoice{Name: pattern, Description: "Not in the catalog.", Chosen: true})
		}
	}
	return groups
}

// formOf is the form as a stored endpoint fills it.
func (d *Dashboard) formOf(types []catalog.EventType, e endpoint.Endpoint) page.EndpointForm {
	form := page.EndpointForm{
		URL: e.URL, Description: e.Description, EveryType: slices.Contains(e.Types, "*"), Groups: typeGroups(types, e.Types),
		Thin: e.Payload == endpoint.Thin, Scheme: string(e.Scheme), Concurrency: strconv.Itoa(e.Concurrency),
		MostConcurrency: strconv.Itoa(endpoint.MaxConcurrency),
	}
	for _, name := range e.HeaderNames {
		form.Headers = append(form.Headers, page.HeaderField{Name: name, Kept: true})
	}
	return form
}

// withPresets puts the retry schedules to choose from into a form, each in words. One that the endpoint has, and the operator offers no more, stays among them.
func (d *Dashboard) withPresets(v view, form page.EndpointForm, chosen string) page.EndpointForm {
	form.Preset = chosen
	own := d.Policies.First(v.tenant.Preset)
	form.Presets = []ui.Option{{Value: "", Text: "As this account: " + own.Name, Note: scheduleWords(own)}}
	known := chosen == ""
	for _, name := range d.Policies.Names() {
		p, _ := d.Policies.Preset(name)
		form.Presets = append(form.Presets, ui.Option{Value: name, Text: name, Note: scheduleWords(p)})
		known = known || name == chosen
	}
	if !known {
		form.Presets = append(form.Presets, ui.Option{Value: chosen, Text: chosen, Note: "Not offered any more: " + own.Name + " is in force instead."})
	}
	return form
}

// scheduleWords says a policy's schedule in a sentence or two.
func scheduleWords(p policy.Policy) string {
	words := "One attempt, at once."
	if len(p.Waits) > 0 {
		waits := make([]string, len(p.Waits))
		for i, wait := range p.Waits {
			waits[i] = ui.Span(wait)
		}
		words = fmt.Sprintf("%d attempts over %s: at once, then after %s.", p.Attempts(), ui.Span(p.Total()), strings.Join(waits, ", "))
	}
	words += " Each has " + ui.Span(p.Timeout) + "."
	if p.OnConfigurationError == policy.AlertOnly {
		words += " After 401, 403 or 404 nothing is tried again."
	}
	return words
}

// typed is the form as it was typed; kept are the names of headers whose values are stored.
func typed(r *http.Request, types []catalog.EventType, kept []string) page.EndpointForm {
	chosen := r.PostForm["types"]
	form := page.EndpointForm{
		URL: field(r, "url"), Description: field(r, "description"), EveryType: slices.Contains(chosen, "*"), Groups: typeGroups(types, chosen),
		Thin: field(r, "payload") == string(endpoint.Thin), Scheme: field(r, "scheme"), Concurrency: field(r, "concurrency"),
		MostConcurrency: strconv.Itoa(endpoint.MaxConcurrency),
	}
	for _, header := range headerFields(r) {
		form.Headers = append(form.Headers, page.HeaderField{
			Name: header.Name, Value: header.Value, Kept: header.Value == "" && slices.Contains(kept, header.Name)})
	}
	return form
}

// headerFields are the pairs of the form that have a name or a value.
func headerFields(r *http.Request) []endpoint.Header {
	var headers []endpoint.Header
	names, values := r.PostForm["header_name"], r.PostForm["header_value"]
	for i, name := range names {
		header := endpoint.Header{Name: strings.TrimSpace(name)}
		if i < len(values) {
			header.Value = strings.TrimSpace(values[i])
		}
		if header != (endpoint.Header{}) {
			headers = append(headers, header)
		}
	}
	return headers
}

// inputOf is the operation's input of what was typed.
func inputOf(r *http.Request, form page.EndpointForm) (endpoint.Input, page.Problems) {
	in := endpoint.Input{
		URL: form.URL, Types: r.PostForm["types"], Description: form.Description, Scheme: signing.Scheme(form.Scheme),
		Payload: endpoint.Payload(field(r, "payload")), Headers: headerFields(r), Preset: field(r, "preset"),
	}
	if form.Concurrency == "" {
		return in, nil
	}
	var err error
	if in.Concurrency, err = strconv.Atoi(form.Concurrency); err != nil || in.Concurrency < 1 {
		return in, page.Problems{"concurrency": "It must be a number from 1 to " + form.MostConcurrency + "."}
	}
	return in, nil
}
