package console

import (
	"net/http"
	"strings"

	"waybill/app/catalog"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// find looks for one text in all tenants.
func (c *Console) find(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	query := r.URL.Query()
	sheet := page.ConsoleFind{Text: strings.TrimSpace(query.Get("q")), Tenant: strings.TrimSpace(query.Get("tenant"))}
	if sheet.Text == "" {
		return c.show(w, r, v, http.StatusOK, sheet)
	}
	found, err := c.Operators.Find(r.Context(), who.Caller, sheet.Text, sheet.Tenant, query.Get("cursor"))
	if err != nil {
		return err
	}
	sheet.Asked, sheet.Said = true, searched(found, sheet.Tenant)
	if found.Rest != "" {
		sheet.Rest = path.ConsoleFindOf(sheet.Text, "", found.Rest)
	}
	for _, section := range []page.ConsoleSection{
		{ID: "tenants", Title: "Tenants", Grid: tenantGrid(v, found.Tenants)}, foundEvents(v, found.Events), foundDeliveries(v, found.Deliveries),
		foundEndpoints(found.Endpoints), foundResources(found.Resources),
	} {
		if len(section.Grid.Rows) > 0 {
			sheet.Sections = append(sheet.Sections, section)
		}
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

// searched says exactly what was looked for, and where.
func searched(found operator.Found, tenant string) string {
	if len(found.Looked) == 0 {
		return "Nothing was looked for: the text is too long."
	}
	said := "Looked for as " + strings.Join(found.Looked, ", ") + "."
	switch {
	case tenant != "":
		said += " Events and objects were looked for in " + tenant + " alone."
	case found.Rest != "":
		said += " As an object’s id it was looked for in " + ui.Count(int64(found.Pairs), "catalog", "catalogs") + " (a tenant and a type of its objects each), and there are more: name the tenant, or go on."
	case found.Pairs > 0:
		said += " As an object’s id it was looked for in every catalog: " + ui.Count(int64(found.Pairs), "pair of tenant and type", "pairs of tenant and type") + "."
	}
	return said
}

func tenantCell(uid, name string) page.Cell {
	return page.Cell{Text: name, Small: uid, Href: path.ConsoleTenant(uid)}
}

func foundEvents(v view, found []operator.FoundEvent) page.ConsoleSection {
	section := page.ConsoleSection{ID: "events", Title: "Events", Grid: page.Grid{Label: "Events", Columns: []page.Column{{Name: "Event"}, {Name: "Tenant"}, {Name: "Object"}, {Name: "Published"}}}}
	for _, e := range found {
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: e.Type, Small: e.ID, Href: path.ConsoleEvent(e.TenantUID, e.ID)}, tenantCell(e.TenantUID, e.TenantName),
			{Text: e.ResourceID, Small: e.ResourceType, Href: path.ConsoleEvents(e.TenantUID, e.ResourceID), Code: true}, {When: v.clock.Moment(e.CreatedAt)},
		})
	}
	return section
}

func foundDeliveries(v view, found []operator.FoundDelivery) page.ConsoleSection {
	section := page.ConsoleSection{ID: "deliveries", Title: "Deliveries", Grid: page.Grid{Label: "Deliveries", Columns: []page.Column{{Name: "Delivery"}, {Name: "Tenant"}, {Name: "Status"}, {Name: "Object"}, {Name: "Published"}}}}
	for _, d := range found {
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: d.Type, Small: d.ID, Href: path.ConsoleDelivery(d.TenantUID, d.ID)}, tenantCell(d.TenantUID, d.TenantName), {Text: d.Status}, {Text: d.ResourceID, Code: true}, {When: v.clock.Moment(d.CreatedAt)},
		})
	}
	return section
}

func foundEndpoints(found []operator.FoundEndpoint) page.ConsoleSection {
	section := page.ConsoleSection{ID: "endpoints", Title: "Endpoints", Grid: page.Grid{Label: "Endpoints", Columns: []page.Column{{Name: "Endpoint"}, {Name: "Tenant"}, {Name: "State"}}}}
	for _, e := range found {
		state := e.State
		if e.Deleted {
			state = "deleted"
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: dashboard.ShownURL(e.URL), Small: e.ID}, tenantCell(e.TenantUID, e.TenantName), {Text: state}})
	}
	return section
}

func foundResources(found []operator.FoundResource) page.ConsoleSection {
	section := page.ConsoleSection{ID: "objects", Title: "Objects", Grid: page.Grid{Label: "Objects", Columns: []page.Column{{Name: "Object"}, {Name: "Tenant"}, {Name: "Latest sequence", Number: true}}}}
	for _, f := range found {
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: f.ID, Small: f.Type, Href: path.ConsoleEvents(f.TenantUID, f.ID), Code: true}, tenantCell(f.TenantUID, f.TenantName), {Text: ui.Number(f.Sequence)},
		})
	}
	return section
}

// events are a tenant's events of one object, or its latest.
func (c *Console) events(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	resource := r.URL.Query().Get("resource")
	found, err := c.Events.Newest(r.Context(), in, catalog.EventFilter{ResourceID: resource}, "", pageRows)
	if err != nil {
		return err
	}
	title, all := "Events of "+t.Name, []operator.FoundEvent{}
	if resource != "" {
		title = "Events of " + resource
	}
	for _, e := range found.Events {
		all = append(all, operator.FoundEvent{TenantUID: t.UID, TenantName: t.Name, ID: e.ID, Type: e.Type, ResourceType: e.ResourceType, ResourceID: e.ResourceID, CreatedAt: e.CreatedAt})
	}
	section := foundEvents(v, all)
	section.Title, section.None = "Newest first", "There are none, or none that are still kept."
	section.Text = "The newest " + ui.Number(pageRows) + " at most; the tenant’s own pages have all."
	return c.show(w, r, v, http.StatusOK, page.ConsoleSections{Title: title, Nav: path.ConsoleFind(), Sections: []page.ConsoleSection{section},
		Crumbs: []ui.Link{{Text: "Tenants", Href: path.ConsoleTenants()}, {Text: t.Name, Href: path.ConsoleTenant(t.UID)}}})
}
