package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/endpoint"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxSubscribers is how many endpoints are looked at for who is subscribed to what.
const maxSubscribers = 200

// eventTypes is the catalog of event types, by resource.
func (d *Dashboard) eventTypes(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	endpoints, err := d.subscribable(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet := page.EventTypes{}
	for _, t := range types {
		name, _, _ := strings.Cut(t.Name, ".")
		if t.Group != "" {
			name = t.Group
		}
		i := len(sheet.Groups) - 1
		for j, group := range sheet.Groups {
			if group.Name == name {
				i = j
			}
		}
		if i < 0 || sheet.Groups[i].Name != name {
			sheet.Groups = append(sheet.Groups, page.EventTypeGroup{Name: name})
			i = len(sheet.Groups) - 1
		}
		sheet.Groups[i].Types = append(sheet.Groups[i].Types, page.EventTypeRow{
			Name: t.Name, Description: t.Description, Version: strconv.Itoa(t.SchemaVersion), Deprecated: t.DeprecatedAt != nil, Enforced: t.Enforced,
			Subscribers: subscribersText(len(subscribers(endpoints, t.Name))),
		})
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func subscribersText(n int) string {
	if n == 0 {
		return "none"
	}
	return ui.Count(int64(n), "endpoint", "endpoints")
}

// subscribable are the tenant's endpoints, for whoever may see them.
func (d *Dashboard) subscribable(ctx context.Context, caller account.Caller) ([]endpoint.Endpoint, error) {
	if !may(caller, account.EndpointsRead) {
		return nil, nil
	}
	list, next, err := d.Endpoints.List(ctx, caller, "", "", maxSubscribers)
	if err != nil || next == "" {
		return list, err
	}
	// Of very many the newest, and all that something is wrong with: whoever asks must not miss those.
	wrong, _, err := d.Endpoints.ListBy(ctx, caller, endpoint.Filter{Show: endpoint.Attention}, next, maxSubscribers)
	return append(list, wrong...), err
}

// subscribers are the endpoints that are sent events of a type.
func subscribers(endpoints []endpoint.Endpoint, eventType string) []endpoint.Endpoint {
	var found []endpoint.Endpoint
	for _, e := range endpoints {
		if subscribed(e, eventType) {
			found = append(found, e)
		}
	}
	return found
}

func subscribed(e endpoint.Endpoint, eventType string) bool {
	for _, pattern := range e.Types {
		if endpoint.Matches(pattern, eventType) {
			return true
		}
	}
	return false
}

// eventType is one type with its fields and an example.
func (d *Dashboard) eventType(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	t, err := d.Types.EventTypeRead(r.Context(), caller, r.PathValue("name"))
	if err != nil {
		return err
	}
	endpoints, err := d.subscribable(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet := page.EventType{
		Name: t.Name, Description: t.Description, Version: strconv.Itoa(t.SchemaVersion), Fields: schemaFields(t.Schema), Schema: indented(t.Schema),
		Example: ui.NewBody(exampleOf(t), int64(len(exampleOf(t))), ui.Pretty), Deprecated: deprecation(v, t), Enforced: t.Enforced,
	}
	for _, e := range subscribers(endpoints, t.Name) {
		sheet.Subscribers = append(sheet.Subscribers, nameOf(e))
	}
	if len(endpoints) > 0 && may(caller, account.EndpointsWrite) {
		to := endpoints[0].ID
		if len(sheet.Subscribers) > 0 {
			to = sheet.Subscribers[0].ID
		}
		sheet.TestHref = path.EndpointTestOf(to, t.Name)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func deprecation(v view, t catalog.EventType) string {
	if t.DeprecatedAt == nil {
		return ""
	}
	return "Since " + v.clock.Day(*t.DeprecatedAt) + ". Events of this type still come; new code should do without it."
}

func exampleOf(t catalog.EventType) []byte {
	if t.Example == nil {
		return []byte("{}")
	}
	return t.Example
}

// indented is a JSON text for reading.
func indented(text jsontext.Value) string {
	if text == nil {
		return ""
	}
	pretty := text.Clone()
	if err := pretty.Indent(jsontext.WithIndent("  ")); err != nil {
		return string(text)
	}
	return string(pretty)
}
