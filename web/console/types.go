package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// eventTypes lists the catalog of event types.
func (c *Console) eventTypes(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	after := r.URL.Query().Get("cursor")
	found, next, err := c.Types.EventTypeList(r.Context(), who.Caller, "", after, pageRows)
	if err != nil {
		return err
	}
	sheet := page.ConsoleList{Title: "Event types", Nav: path.ConsoleTypes(), Lead: "What the platform publishes, as tenants read it. Schemas come with PUT /v1/event-types/{name} or an import.",
		Empty: ui.Link{Text: "The catalog is empty", Href: "Types can be published without standing here; tenants then find no documentation of them."},
		Grid:  page.Grid{Label: "Event types, by name", Columns: []page.Column{{Name: "Type"}, {Name: "Group"}, {Name: "State"}, {Name: "Schema"}, {Name: "Changed"}}}}
	for _, t := range found {
		state := page.Cell{Stamp: ui.Stamp{Tone: ui.Good, Word: "Current"}}
		if t.DeprecatedAt != nil {
			state = page.Cell{Stamp: ui.Stamp{Tone: ui.Mute, Word: "Deprecated"}, Small: v.clock.Moment(*t.DeprecatedAt).Relative}
		}
		schema := "none"
		if t.Schema != nil {
			schema = "version " + strconv.Itoa(t.SchemaVersion)
		}
		if t.Enforced {
			schema += ", enforced"
		}
		sheet.Grid.Rows = append(sheet.Grid.Rows, []page.Cell{
			{Text: t.Name, Small: t.Description, Href: path.ConsoleType(t.Name)}, {Text: cmp.Or(t.Group, "–")}, state, {Text: schema}, {When: v.clock.Moment(t.UpdatedAt)},
		})
	}
	sheet.Pager = pager(len(found), "type", "types", "", "")
	if after != "" {
		sheet.Pager.First = path.ConsoleTypes()
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleTypesAt(next)
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

// eventType is one type, with its schema and what can be changed about it.
func (c *Console) eventType(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	t, err := c.Types.EventTypeRead(r.Context(), who.Caller, r.PathValue("name"))
	if err != nil {
		return err
	}
	v := c.view(r, who)
	return c.show(w, r, v, http.StatusOK, typeSheet(v, t))
}

func typeSheet(v view, t catalog.EventType) page.ConsoleType {
	return page.ConsoleType{Name: t.Name, Description: t.Description, Group: t.Group, Deprecated: t.DeprecatedAt != nil, Enforced: t.Enforced, Version: strconv.Itoa(t.SchemaVersion),
		Changed: v.clock.Moment(t.UpdatedAt), Schema: string(t.Schema), Example: string(t.Example), MayWrite: v.who.May(account.TypesWrite)}
}

// eventTypeSave changes what is said about a type; its schema stays.
func (c *Console) eventTypeSave(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	t, err := c.Types.EventTypeRead(r.Context(), who.Caller, r.PathValue("name"))
	if err != nil {
		return err
	}
	v := c.view(r, who)
	sheet := typeSheet(v, t)
	sheet.Description, sheet.Group, sheet.Deprecated = field(r, "description"), field(r, "group"), field(r, "deprecated") != ""
	_, err = c.Types.EventTypePut(r.Context(), who.Caller, t.Name, catalog.EventTypeInput{Description: sheet.Description, Group: sheet.Group, Schema: t.Schema, Example: t.Example,
		SchemaVersion: t.SchemaVersion, Enforced: t.Enforced, Deprecated: sheet.Deprecated})
	if problems, ok := dashboard.Refused(err, map[string]string{"description": "description", "group": "group"}); ok {
		sheet.Problems = problems
		return c.show(w, r, v, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleType(t.Name), dashboard.Note{Text: "Saved. Tenants read it from now on."})
}

// policy is the delivery policy in force.
func (c *Console) policy(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	counts, err := c.Operators.Presets(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	sheet := page.ConsolePolicy{Text: c.Policies.YAML(), Presets: page.ConsoleSection{ID: "presets", Title: "Who has which", Text: "By tenant; endpoints with a preset of their own are not counted.",
		Grid: page.Grid{Label: "Presets", Columns: []page.Column{{Name: "Preset"}, {Name: "Tenants", Number: true}, {Name: "Attempts", Number: true}, {Name: "Over"}, {Name: "Timeout"}}}}}
	counts["standard"] += counts[""]
	delete(counts, "")
	for _, name := range c.Policies.Names() {
		p, _ := c.Policies.Preset(name)
		sheet.Presets.Grid.Rows = append(sheet.Presets.Grid.Rows, []page.Cell{{Text: name}, {Text: ui.Number(int64(counts[name]))}, {Text: strconv.Itoa(len(p.Waits) + 1)},
			{Text: ui.Span(sum(p.Waits))}, {Text: ui.Span(p.Timeout)}})
		delete(counts, name)
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		sheet.Presets.Grid.Rows = append(sheet.Presets.Grid.Rows, []page.Cell{{Text: name, Small: "not in the policy any more: the standard one holds"}, {Text: ui.Number(int64(counts[name]))}, {}, {}, {}})
	}
	return c.show(w, r, c.view(r, who), http.StatusOK, sheet)
}

func sum(waits []time.Duration) (all time.Duration) {
	for _, wait := range waits {
		all += wait
	}
	return all
}
