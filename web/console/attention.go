package console

import (
	"net/http"
	"strconv"
	"strings"

	"waybill/app/operator"
	"waybill/app/verdict"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

var needStamps = map[operator.Need]ui.Stamp{
	operator.NeedOpen:     {Tone: ui.Bad, Word: "Circuit open"},
	operator.NeedFailing:  {Tone: ui.Wait, Word: "Failing"},
	operator.NeedSettings: {Tone: ui.Wait, Word: "Not sendable"},
	operator.NeedDisabled: {Tone: ui.Hold, Word: "Disabled by us"},
	operator.NeedWaiting:  {Tone: ui.Info, Word: "Waits for its turn"},
}

// attention lists the endpoints of all tenants that need somebody.
func (c *Console) attention(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	query := r.URL.Query()
	chosen, after := query.Get("need"), query.Get("cursor")
	need, _ := strconv.Atoi(chosen)
	if needStamps[operator.Need(need)].Word == "" {
		need, chosen = 0, ""
	}
	counts, err := c.Operators.AttentionCount(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	found, next, err := c.Operators.Attention(r.Context(), who.Caller, operator.Need(need), after, pageRows)
	if err != nil {
		return err
	}
	sheet := page.ConsoleList{Title: "Attention", Nav: path.ConsoleHome(), Lead: "Endpoints of all tenants that need somebody, the worst and longest first.",
		Empty: ui.Link{Text: "Nothing needs attention", Href: "No endpoint fails, none was disabled by us, and no work waits for its turn for longer than a minute."},
		Grid: page.Grid{Label: "Endpoints that need attention", Columns: []page.Column{{Name: "Endpoint"}, {Name: "Tenant"}, {Name: "Needs"}, {Name: "Since"},
			{Name: "Last answer"}, {Name: "Due since", Number: true}, {Name: "Parked", Number: true}}}}
	total := 0
	for _, n := range operator.Needs() {
		total += counts[n]
	}
	sheet.Tabs = append(sheet.Tabs, ui.Tab{Text: "All", Href: path.ConsoleHome(), Count: ui.Number(int64(total)), Current: need == 0})
	for _, n := range operator.Needs() {
		sheet.Tabs = append(sheet.Tabs, ui.Tab{Text: needStamps[n].Word, Href: path.ConsoleAttention(strconv.Itoa(int(n)), ""),
			Count: ui.Number(int64(counts[n])), Current: need == int(n)})
	}
	for _, p := range found {
		sheet.Grid.Rows = append(sheet.Grid.Rows, patientRow(v, p))
	}
	sheet.Pager = pager(len(found), "endpoint", "endpoints", "", "")
	if after != "" {
		sheet.Pager.First = path.ConsoleAttention(chosen, "")
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleAttention(chosen, next)
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func patientRow(v view, p operator.Patient) []page.Cell {
	needs := page.Cell{Stamp: needStamps[p.Need]}
	switch {
	case p.Need == operator.NeedDisabled && p.Reason != "":
		needs.Small = map[string]string{"gone": "its server said 410 Gone", "failing": "it failed for too long"}[p.Reason]
	case p.DisableAt != nil:
		needs.Small = "disabled at " + v.clock.Time(*p.DisableAt)
	case p.Failed > 0:
		needs.Small = ui.Count(int64(p.Failed), "delivery failed", "deliveries failed")
	}
	answer := page.Cell{Text: answerWords(p.LastClass, p.LastCode)}
	if p.LastDelivery != "" {
		answer.Href = path.ConsoleDelivery(p.TenantUID, p.LastDelivery)
	}
	var parked []string
	if p.Undelivered > 0 {
		parked = append(parked, upTo(p.Undelivered, operator.MaxCount)+" undelivered")
	}
	if p.Held > 0 {
		parked = append(parked, upTo(p.Held, operator.MaxCount)+" held")
	}
	due := page.Cell{Text: "–"}
	if p.NextAt != nil {
		due = page.Cell{When: v.clock.Moment(*p.NextAt), Small: p.Lane}
	}
	return []page.Cell{
		{Text: dashboard.ShownURL(p.URL), Small: p.EndpointID}, {Text: p.TenantName, Small: p.TenantUID, Href: path.ConsoleTenant(p.TenantUID)},
		needs, {When: v.clock.Moment(p.Since)}, answer, due, {Text: strings.Join(parked, ", ")},
	}
}

// answerWords is how an attempt ended, in two or three words. Operators are told what tenants are not: whether an address refused or did not answer.
func answerWords(class string, code int) string {
	switch {
	case class == "":
		return ""
	case code != 0:
		return strconv.Itoa(code)
	}
	return verdict.Explain(verdict.Facts{Class: verdict.Class(class)}).Short
}

// maxGroups is how many groups of failing endpoints each table has, and maxNamed how many of its endpoints a group names.
const (
	maxGroups = 30
	maxNamed  = 3
)

// incidents is what failing endpoints have in common.
func (c *Console) incidents(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	found, err := c.Operators.Incidents(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	looked := ui.Count(int64(found.Looked), "endpoint fails now", "endpoints fail now") + "."
	if found.More {
		looked = "The " + ui.Number(operator.MaxFailing) + " endpoints that have failed longest were looked at; more fail."
	}
	tls := "Why no secure connection came about. An expired certificate or a wrong name is the tenant’s to mend; an unknown issuer at many hosts at once may be ours."
	if found.Undecided > 0 {
		tls += " Of " + ui.Count(int64(found.Undecided), "more the cause was", "more the causes were") + " not looked up."
	}
	sheet := page.ConsoleSections{Title: "Incidents", Nav: path.ConsoleIncidents(), Lead: "What failing endpoints of all tenants have in common. " + looked, Sections: []page.ConsoleSection{
		incidentSection(v, "hosts", "By host", "Two endpoints or more at one host: its operator has one problem, and not several tenants each their own.", "No two failing endpoints share a host.",
			found.Hosts, func(i operator.Incident) string { return i.Key }),
		incidentSection(v, "verdicts", "By verdict", "How the last attempt ended: what the egress proxy, the network or the receiver said. Many of one kind that began together point to us.",
			"Nothing fails.", found.Verdicts, func(i operator.Incident) string {
				return verdict.Explain(verdict.Facts{Class: verdict.Class(i.Key), Code: i.Code}).Title
			}),
		incidentSection(v, "tls", "By TLS error", tls, "No endpoint fails for its certificate.", found.TLS, func(i operator.Incident) string {
			return verdict.Explain(verdict.Facts{Class: verdict.TLS, Reason: i.Key}).Title
		}),
	}}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func incidentSection(v view, id, title, text, none string, found []operator.Incident, words func(operator.Incident) string) page.ConsoleSection {
	section := page.ConsoleSection{ID: id, Title: title, Text: text, None: none, Grid: page.Grid{Label: title, Columns: []page.Column{
		{Name: "In common"}, {Name: "Endpoints", Number: true}, {Name: "Tenants", Number: true}, {Name: "Since"}, {Name: "Such as"}}}}
	for _, i := range found[:min(len(found), maxGroups)] {
		var named []string
		for _, f := range i.Endpoints[:min(len(i.Endpoints), maxNamed)] {
			named = append(named, f.TenantName+" ("+f.EndpointID+")")
		}
		first := i.Endpoints[0]
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: words(i)}, {Text: ui.Number(int64(len(i.Endpoints)))}, {Text: ui.Number(int64(i.Tenants))}, {When: v.clock.Moment(i.Since)},
			{Text: first.TenantName, Href: path.ConsoleTenant(first.TenantUID), Small: strings.Join(named, ", ")},
		})
	}
	if len(found) > maxGroups {
		section.Text += " The largest " + strconv.Itoa(maxGroups) + " groups are shown."
	}
	return section
}
