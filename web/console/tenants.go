package console

import (
	"cmp"
	"net/http"
	"strconv"

	"waybill/app/account"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// tenants lists the tenants, or those that some words find.
func (c *Console) tenants(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	words, after := r.URL.Query().Get("q"), r.URL.Query().Get("cursor")
	found, next, err := c.Operators.Tenants(r.Context(), who.Caller, words, after, pageRows)
	if err != nil {
		return err
	}
	sheet := page.ConsoleList{Title: "Tenants", Nav: path.ConsoleTenants(), Grid: tenantGrid(v, found),
		Search: &ui.FacetRow{Action: path.ConsoleTenants(), Facets: []ui.Facet{{Name: "q", Label: "uid or name", Value: words, Placeholder: "any part of it"}}},
		Empty:  ui.Link{Text: "No tenants yet", Href: "The platform makes them with PUT /v1/tenants/{uid}, or you do here."}}
	if who.May(account.TenantsWrite) {
		sheet.Action = ui.Link{Text: "New tenant", Href: path.ConsoleTenantNew()}
	}
	if words != "" {
		sheet.Search.Clear, sheet.Empty = path.ConsoleTenants(), ui.Link{Text: "No tenant matches", Href: "Neither a uid nor a name holds these words."}
	}
	sheet.Pager = pager(len(found), "tenant", "tenants", "", "")
	if after != "" {
		sheet.Pager.First = path.ConsoleTenantsOf(words, "")
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleTenantsOf(words, next)
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func tenantGrid(v view, found []operator.TenantRow) page.Grid {
	grid := page.Grid{Label: "Tenants, by uid", Columns: []page.Column{{Name: "Tenant"}, {Name: "State"}, {Name: "Endpoints", Number: true}, {Name: "Undelivered", Number: true},
		{Name: "Held", Number: true}, {Name: "At once", Number: true}, {Name: "Policy"}, {Name: "Since"}}}
	for _, t := range found {
		state := page.Cell{Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}}
		if t.SuspendedAt != nil {
			state = page.Cell{Stamp: ui.Stamp{Tone: ui.Hold, Word: "Suspended"}, Small: v.clock.Moment(*t.SuspendedAt).Relative}
		}
		grid.Rows = append(grid.Rows, []page.Cell{
			{Text: t.Name, Small: t.UID, Href: path.ConsoleTenant(t.UID)}, state, {Text: upTo(t.Endpoints, operator.MaxCount)},
			{Text: upTo(t.Undelivered, operator.MaxCount)}, {Text: upTo(t.Held, operator.MaxCount)}, {Text: strconv.Itoa(t.Concurrency)},
			{Text: cmp.Or(t.Preset, "standard")}, {When: v.clock.Moment(t.CreatedAt)},
		})
	}
	return grid
}

// presets are the policies that a tenant can have.
func (c *Console) presets() []ui.Option {
	options := []ui.Option{{Text: "standard"}}
	for _, name := range c.Policies.Names() {
		if name != "standard" {
			options = append(options, ui.Option{Value: name, Text: name})
		}
	}
	return options
}

// tenantNew is the form that makes a tenant.
func (c *Console) tenantNew(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	sheet := page.ConsoleTenantForm{New: true, Concurrency: "50", Zone: "UTC", Presets: c.presets()}
	return c.show(w, r, c.view(r, who), http.StatusOK, sheet)
}

// tenantCreate makes a tenant; a uid that is taken is refused, so that nobody changes one unawares.
func (c *Console) tenantCreate(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	sheet := c.tenantFields(r)
	sheet.New, sheet.UID = true, field(r, "uid")
	if _, err := c.Accounts.TenantRead(r.Context(), who.Caller, sheet.UID); err == nil {
		sheet.Problems = page.Problems{"uid": "There is a tenant with this uid already."}
		return c.show(w, r, c.view(r, who), http.StatusConflict, sheet)
	}
	return c.tenantPut(w, r, who, sheet, "The tenant is there.")
}

// tenantSettings is the form that changes a tenant.
func (c *Console) tenantSettings(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	t, err := c.Accounts.TenantRead(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	sheet := page.ConsoleTenantForm{UID: t.UID, Name: t.Name, Concurrency: strconv.Itoa(t.Concurrency), Preset: t.Preset, Zone: t.TimeZone, Presets: c.presets()}
	return c.show(w, r, c.view(r, who), http.StatusOK, sheet)
}

// tenantSave changes a tenant.
func (c *Console) tenantSave(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	t, err := c.Accounts.TenantRead(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	sheet := c.tenantFields(r)
	sheet.UID = t.UID
	return c.tenantPut(w, r, who, sheet, "Saved. What is sent from now on follows it.")
}

func (c *Console) tenantFields(r *http.Request) page.ConsoleTenantForm {
	return page.ConsoleTenantForm{Name: field(r, "name"), Concurrency: field(r, "concurrency"), Preset: field(r, "preset"), Zone: field(r, "zone"), Presets: c.presets()}
}

func (c *Console) tenantPut(w http.ResponseWriter, r *http.Request, who operator.Session, sheet page.ConsoleTenantForm, said string) error {
	concurrency, err := strconv.Atoi(sheet.Concurrency)
	if err != nil {
		concurrency = 0 // refused below, beside whatever else is wrong
	}
	_, err = c.Accounts.TenantPut(r.Context(), who.Caller, sheet.UID,
		account.TenantInput{Name: sheet.Name, Concurrency: &concurrency, Preset: &sheet.Preset, TimeZone: &sheet.Zone})
	if problems, ok := dashboard.Refused(err, map[string]string{"uid": "uid", "name": "name", "limits.concurrency": "concurrency", "preset": "preset", "time_zone": "zone"}); ok {
		sheet.Problems = problems
		return c.show(w, r, c.view(r, who), statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleTenant(sheet.UID), dashboard.Note{Text: said})
}
