package console

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxActivity is how many entries of its own log stand on a tenant's page.
const maxActivity = 10

// tenant is a tenant's page.
func (c *Console) tenant(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	after := r.URL.Query().Get("cursor")
	endpoints, next, err := c.Endpoints.List(r.Context(), in, "", after, pageRows)
	if err != nil {
		return err
	}
	parked, err := c.Deliveries.Parked(r.Context(), in)
	if err != nil {
		return err
	}
	usage, err := c.Operators.Usage(r.Context(), in)
	if err != nil {
		return err
	}
	entries, _, err := c.Accounts.AuditList(r.Context(), in, account.AuditFilter{}, "", maxActivity)
	if err != nil {
		return err
	}
	c.hear(w, r, &v)
	sheet := page.ConsoleTenant{ID: t.ID, UID: t.UID, Name: t.Name, Suspended: optional(v.clock, t.SuspendedAt), Created: v.clock.Moment(t.CreatedAt),
		Concurrency: strconv.Itoa(t.Concurrency), Preset: cmp.Or(t.Preset, "standard"), Zone: t.TimeZone, MayWrite: who.May(account.TenantsWrite),
		Figures: usageFigures(usage, parked), Usage: usageSection(v, usage), Endpoints: endpointSection(v, endpoints), Parked: parkedSection(v, parked),
		Activity: activitySection(v, entries), Pager: pager(len(endpoints), "endpoint", "endpoints", "", "")}
	if after != "" {
		sheet.Pager.First = path.ConsoleTenant(t.UID)
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleTenantAt(t.UID, next)
	}
	if v.told.Secret != "" && v.told.About == t.ID {
		sheet.Secret = &page.ConsoleSecret{Title: "The sign-in link is ready", Label: "Copy link", Value: v.told.Secret,
			Text: "It signs one person in to this tenant’s pages, once, within ten minutes. It is shown this once."}
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func usageFigures(u operator.Usage, parked delivery.Parked) []ui.Option {
	today, all := u.Days[0], operator.UsageDay{}
	for _, day := range u.Days {
		all.Events, all.Delivered, all.Attempted = all.Events+day.Events, all.Delivered+day.Delivered, all.Attempted+day.Attempted
	}
	events, sum := ui.Number(today.Events), ui.Number(all.Events)
	if u.EventsMore {
		events, sum = "more than "+events, "more than "+sum
	}
	return []ui.Option{
		{Text: "Events today", Value: events, Note: "since midnight UTC"},
		{Text: "Delivered today", Value: ui.Number(today.Delivered), Note: "of " + ui.Count(today.Attempted, "attempt", "attempts")},
		{Text: "Events in 30 days", Value: sum, Note: "today among them"},
		{Text: "Delivered in 30 days", Value: ui.Number(all.Delivered), Note: "of " + ui.Count(all.Attempted, "attempt", "attempts")},
		{Text: "Undelivered", Value: counted(parked.Undelivered), Note: "wait for somebody"},
		{Text: "Held", Value: counted(parked.Held), Note: "their endpoint was off"},
	}
}

func counted(n delivery.Count) string {
	if n.More {
		return "more than " + ui.Number(int64(n.N))
	}
	return ui.Number(int64(n.N))
}

func usageSection(v view, u operator.Usage) page.ConsoleSection {
	section := page.ConsoleSection{ID: "usage", Title: "Usage by day", Text: "By UTC day, test events left out. A day that is over is written half an hour later, and kept for a year.",
		Grid: page.Grid{Label: "Usage by day", Columns: []page.Column{{Name: "Day"}, {Name: "Events", Number: true}, {Name: "Delivered", Number: true}, {Name: "Attempts", Number: true}, {Name: "Success", Number: true}}}}
	for _, day := range u.Days {
		if day.Events == 0 && day.Attempted == 0 && day.Day != u.Days[0].Day {
			continue
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: v.clock.Day(day.Day)}, {Text: ui.Number(day.Events)}, {Text: ui.Number(day.Delivered)}, {Text: ui.Number(day.Attempted)},
			{Share: &ui.ShareBar{Part: day.Delivered, Whole: day.Attempted, Tone: ui.Good}}})
	}
	return section
}

func endpointSection(v view, found []endpoint.Endpoint) page.ConsoleSection {
	section := page.ConsoleSection{ID: "endpoints", Title: "Endpoints", None: "It has none.", Grid: page.Grid{Label: "Endpoints, newest first",
		Columns: []page.Column{{Name: "Endpoint"}, {Name: "State"}, {Name: "Health"}, {Name: "Types"}, {Name: "At once", Number: true}, {Name: "Since"}}}}
	for _, e := range found {
		state, health := endpointStamps(v, e)
		name := page.Cell{Text: dashboard.ShownURL(e.URL), Small: strings.TrimSpace(e.ID + " " + e.Description)}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{name, state, health, {Text: types(e.Types)}, {Text: strconv.Itoa(e.Concurrency)}, {When: v.clock.Moment(e.CreatedAt)}})
	}
	return section
}

// maxTypes is how many of an endpoint's types are named.
const maxTypes = 4

func types(all []string) string {
	if len(all) <= maxTypes {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:maxTypes], ", ") + " and " + strconv.Itoa(len(all)-maxTypes) + " more"
}

func endpointStamps(v view, e endpoint.Endpoint) (state, health page.Cell) {
	switch e.State {
	case endpoint.Active:
		state.Stamp = ui.Stamp{Tone: ui.Good, Word: "Active"}
	case endpoint.Paused:
		state.Stamp, state.Small = ui.Stamp{Tone: ui.Hold, Word: "Paused"}, "by "+e.StateBy
	default:
		state.Stamp, state.Small = ui.Stamp{Tone: ui.Mute, Word: "Disabled"}, strings.TrimSpace("by "+e.StateBy+" "+e.Reason)
	}
	switch e.Health.State {
	case endpoint.Open:
		health.Stamp = ui.Stamp{Tone: ui.Bad, Word: "Circuit open"}
	case endpoint.Failing:
		health.Stamp = ui.Stamp{Tone: ui.Wait, Word: "Failing"}
	default:
		health.Text = "in order"
	}
	if e.Health.FailingSince != nil {
		health.Small = "since " + v.clock.Time(*e.Health.FailingSince)
	}
	return state, health
}

var parkedWords = map[string]string{
	"schedule_exhausted": "every attempt failed", "gone": "its server said 410 Gone", "configuration_error": "the endpoint’s settings", "endpoint_paused": "the endpoint was paused",
	"endpoint_disabled": "the endpoint was disabled", "tenant_suspended": "the tenant was suspended",
}

func parkedSection(v view, parked delivery.Parked) page.ConsoleSection {
	section := page.ConsoleSection{ID: "parked", Title: "What waits for somebody", None: "Nothing is undelivered or held.", Grid: page.Grid{Label: "What waits, by endpoint and reason",
		Columns: []page.Column{{Name: "Endpoint"}, {Name: "What"}, {Name: "Why"}, {Name: "How many", Number: true}, {Name: "The oldest"}}}}
	for _, g := range parked.Groups {
		stamp := ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}
		if g.Status == delivery.Held {
			stamp = ui.Stamp{Tone: ui.Hold, Word: "Held"}
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: cmp.Or(dashboard.ShownURL(g.EndpointURL), g.EndpointID), Small: g.EndpointID}, {Stamp: stamp}, {Text: cmp.Or(parkedWords[g.Reason], g.Reason)},
			{Text: ui.Number(int64(g.N))}, {When: v.clock.Moment(g.Oldest)},
		})
	}
	return section
}

func activitySection(v view, entries []account.Entry) page.ConsoleSection {
	section := page.ConsoleSection{ID: "activity", Title: "Lately in its own log", None: "Nothing yet.", Text: "What the tenant’s people, the platform and we did there; all of it stands on its own page.",
		Grid: page.Grid{Label: "Activity, newest first", Columns: []page.Column{{Name: "Who"}, {Name: "What"}, {Name: "When"}}}}
	for _, e := range entries {
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: e.Actor}, {Text: actionWords(e.Action), Small: e.Object}, {When: v.clock.Moment(e.At)}})
	}
	return section
}

// actionWords is an action of a log in words.
func actionWords(action string) string {
	if words := ownWords[action]; words != "" {
		return words
	}
	return cmp.Or(dashboard.ActivityWords(action), strings.ReplaceAll(strings.ReplaceAll(action, "_", " "), ".", ": "))
}

// suspendAsk asks before a tenant is suspended.
func (c *Console) suspendAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	_, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	return c.show(w, r, c.view(r, who), http.StatusOK, tenantAsk(t, ui.Confirm{Title: "Suspend tenant", Verb: "Suspend tenant", Action: path.ConsoleTenantSuspend(t.UID), Danger: true,
		Effects: []string{"Nothing is sent to its endpoints any more; what is due, and what comes, is held.",
			"Its events are published and kept as before: nothing is lost, and the platform’s programs notice nothing.",
			"Its people and its API keys can read, and change nothing. Its pages say that it is suspended."}}))
}

// suspend stops a tenant.
func (c *Console) suspend(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	uid := r.PathValue("uid")
	if err := c.Operators.Suspend(r.Context(), who.Caller, uid, false); err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleTenant(uid), dashboard.Note{Text: "The tenant is suspended: no new request of it starts."})
}

// resumeAsk asks before a tenant goes on.
func (c *Console) resumeAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	parked, err := c.Deliveries.Parked(r.Context(), in)
	if err != nil {
		return err
	}
	return c.show(w, r, c.view(r, who), http.StatusOK, tenantAsk(t, ui.Confirm{Title: "Resume tenant", Verb: "Resume tenant", Action: path.ConsoleTenantResume(t.UID),
		Effects: []string{"What is published from now on is sent.",
			"What is held (" + counted(parked.Held) + ") stays held until the tenant catches up on it, endpoint by endpoint: it chooses all, the newest of each object, or none."}}))
}

// resume lets a tenant go on.
func (c *Console) resume(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	uid := r.PathValue("uid")
	if err := c.Operators.Suspend(r.Context(), who.Caller, uid, true); err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleTenant(uid), dashboard.Note{Text: "The tenant is sent to again. What was held waits for its catch-up."})
}

func tenantAsk(t account.Tenant, ask ui.Confirm) page.ConsoleAsk {
	ask.Object, ask.Back = t.Name+" ("+t.UID+")", path.ConsoleTenant(t.UID)
	return page.ConsoleAsk{Nav: path.ConsoleTenants(), Ask: ask, Crumbs: []ui.Link{{Text: "Tenants", Href: path.ConsoleTenants()}, {Text: t.Name, Href: path.ConsoleTenant(t.UID)}}}
}

// portalAsk asks whom a sign-in link is for.
func (c *Console) portalAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.TenantsWrite); err != nil {
		return err
	}
	return c.askPortal(w, r, who, http.StatusOK, "", "owner", nil)
}

func (c *Console) askPortal(w http.ResponseWriter, r *http.Request, who operator.Session, status int, label, rights string, problems page.Problems) error {
	_, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	sheet := tenantAsk(t, ui.Confirm{Title: "Make a sign-in link", Verb: "Make link", Action: path.ConsoleTenantLink(t.UID),
		Effects: []string{"The link signs one person in to this tenant’s pages, once, within ten minutes.", "That it was made stands in the tenant’s own log."}})
	sheet.Fields = []ui.Input{{Name: "label", Label: "For whom", Value: label, Error: problems["label"], Hint: "As the tenant’s log will name them.", Max: 100}}
	sheet.Choices = []ui.Choice{{Name: "rights", Label: "Rights", Value: rights, Options: []ui.Option{
		{Value: "owner", Text: "Everything"}, {Value: "viewer", Text: "Read only"}}}}
	sheet.Problems = problems
	return c.show(w, r, c.view(r, who), status, sheet)
}

// portal makes a sign-in link and shows it once.
func (c *Console) portal(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	label, rights := field(r, "label"), field(r, "rights")
	link, err := c.Accounts.PortalLinkCreate(r.Context(), in, account.PortalInput{Label: label, ReadOnly: rights != "owner"})
	if problems, ok := dashboard.Refused(err, map[string]string{"label": "label"}); ok {
		return c.askPortal(w, r, who, statusOf(err), label, rights, problems)
	}
	if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleTenant(t.UID), dashboard.Note{About: t.ID, Secret: c.URL + path.SignInLink(link.Token.Reveal())})
}

// viewAsk asks why somebody wants to look at a tenant's pages.
func (c *Console) viewAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	return c.askView(w, r, who, http.StatusOK, "", nil)
}

func (c *Console) askView(w http.ResponseWriter, r *http.Request, who operator.Session, status int, why string, problems page.Problems) error {
	_, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	sheet := tenantAsk(t, ui.Confirm{Title: "View as the tenant", Verb: "Open its pages", Action: path.ConsoleTenantView(t.UID),
		Effects: []string{"You see this tenant’s pages as its people do, payloads too, and can change nothing there.",
			"It ends by itself after " + strconv.Itoa(int(account.SupportSessionLife.Minutes())) + " minutes, by a button on each page, and when you sign out.",
			"Its people read in their own log that the platform’s support looked, and why. If this browser is signed in to a tenant, that session is left."}})
	sheet.Fields = []ui.Input{{Name: "why", Label: "Why", Value: why, Error: problems["why"], Hint: "A word or a ticket’s number; the tenant reads it.", Max: 200}}
	sheet.Problems = problems
	return c.show(w, r, c.view(r, who), status, sheet)
}

// viewAs opens the tenant's own pages, read-only.
func (c *Console) viewAs(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	in, _, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	why := field(r, "why")
	token, err := c.Accounts.SupportView(r.Context(), in, why, dashboard.Client(r))
	if problems, ok := dashboard.Refused(err, map[string]string{"why": "why"}); ok {
		return c.askView(w, r, who, statusOf(err), why, problems)
	}
	if err != nil {
		return err
	}
	if err := c.Visit(w, r, token, account.SupportSessionLife); err != nil {
		return err
	}
	return c.redirect(w, path.Overview())
}
