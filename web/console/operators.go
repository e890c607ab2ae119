package console

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// ownWords say actions of the operators' own log as sentences without their subject.
var ownWords = map[string]string{
	"operator.added": "added the operator", "operator.link_created": "made a password link for", "operator.removed": "removed the operator", "operator.password_set": "set a new password",
	"session.started": "signed in", "session.ended": "signed out", "support.viewed": "looked at the tenant’s pages, read-only", "tenant.suspended": "suspended the tenant",
	"tenant.resumed": "resumed the tenant", "tenant.created": "made the tenant", "tenant.changed": "changed the tenant", "portal.link_created": "made a sign-in link into the tenant",
	"platform_key.created": "made the platform key", "platform_key.revoked": "revoked the platform key", "event_type.changed": "changed the event type", "event_type.created": "made the event type",
	"delivery.resent": "resent the delivery", "job.changed": "changed jobs",
}

// operators lists the operators beside the form that adds one.
func (c *Console) operators(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	return c.showOperators(w, r, who, http.StatusOK, page.ConsoleOperators{Role: string(operator.Support)})
}

func (c *Console) showOperators(w http.ResponseWriter, r *http.Request, who operator.Session, status int, sheet page.ConsoleOperators) error {
	v := c.view(r, who)
	found, err := c.Operators.List(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	c.hear(w, r, &v)
	sheet.Operators = page.ConsoleSection{ID: "operators", Title: "Operators", Grid: page.Grid{Label: "Operators", Columns: []page.Column{{Name: "Operator"}, {Name: "Role"}, {Name: "Sign-in"}, {Name: "Last seen"}, {Name: "Added"}, {Name: "End it"}}}}
	for _, o := range found {
		sign, seen := page.Cell{Text: "password"}, page.Cell{Text: "never"}
		if !o.HasPassword {
			sign.Text = "has yet to set a password"
		}
		if o.LastSeenAt != nil {
			seen = page.Cell{When: v.clock.Moment(*o.LastSeenAt)}
		}
		sheet.Operators.Grid.Rows = append(sheet.Operators.Grid.Rows, []page.Cell{{Text: o.Email, Small: o.ID}, {Text: string(o.Role)}, sign, seen,
			{When: v.clock.Moment(o.CreatedAt), Small: "by " + o.CreatedBy}, {Text: "Remove…", Href: path.ConsoleOperatorRemove(o.ID)}})
		if v.told.Secret != "" && v.told.About == o.ID {
			sheet.Secret = &page.ConsoleSecret{Title: "The link for " + o.Email + " is ready", Label: "Copy link", Value: v.told.Secret,
				Text: "Hand it to them. With it they set a password, once, within a day; it is shown this once."}
		}
	}
	return c.show(w, r, v, status, sheet)
}

// operatorAdd adds an operator, or makes a new link for one, and shows it once.
func (c *Console) operatorAdd(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	sheet := page.ConsoleOperators{Email: field(r, "email"), Role: field(r, "role")}
	made, token, err := c.Operators.Add(r.Context(), who.Caller, sheet.Email, operator.Role(sheet.Role))
	if problems, ok := dashboard.Refused(err, map[string]string{"email": "email", "role": "role"}); ok {
		sheet.Problems = problems
		return c.showOperators(w, r, who, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleOperators(), dashboard.Note{About: made.ID, Secret: c.URL + path.ConsolePassword(token.Reveal())})
}

// operatorRemoveAsk asks before an operator is removed.
func (c *Console) operatorRemoveAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	found, err := c.Operators.List(r.Context(), who.Caller)
	if err != nil {
		return err
	}
	for _, o := range found {
		if o.ID == r.PathValue("operator") {
			return c.show(w, r, c.view(r, who), http.StatusOK, page.ConsoleAsk{Nav: path.ConsoleOperators(), Crumbs: []ui.Link{{Text: "Operators", Href: path.ConsoleOperators()}}, Ask: ui.Confirm{
				Title: "Remove operator", Object: o.Email, Verb: "Remove operator", Action: path.ConsoleOperatorRemove(o.ID), Back: path.ConsoleOperators(), Danger: true,
				Effects: []string{"Their sessions and their looks into tenants end at once.", "What they did stays in the log."}}})
		}
	}
	return fault.New(fault.NotFound, "There is no such operator.")
}

// operatorRemove removes an operator.
func (c *Console) operatorRemove(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := c.Operators.Remove(r.Context(), who.Caller, r.PathValue("operator")); err != nil {
		return err
	}
	if r.PathValue("operator") == who.Caller.ID {
		return c.redirect(w, path.ConsoleSignIn())
	}
	return c.done(w, r, who, path.ConsoleOperators(), dashboard.Note{Text: "The operator is removed."})
}

// log is what operators did.
func (c *Console) log(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	of, after := r.URL.Query().Get("operator"), r.URL.Query().Get("cursor")
	found, next, err := c.Operators.Log(r.Context(), who.Caller, of, after, pageRows)
	if err != nil {
		return err
	}
	sheet := page.ConsoleList{Title: "Log", Nav: path.ConsoleLog(), Lead: "What the platform’s people did. What concerned a tenant stands in its own log as well, without their names.",
		Empty: ui.Link{Text: "Nothing yet", Href: "Sign-ins, changes, resends and looks at tenants’ pages are written down here."},
		Grid:  page.Grid{Label: "Log, newest first", Columns: []page.Column{{Name: "Who"}, {Name: "What"}, {Name: "Tenant"}, {Name: "When"}, {Name: "More"}}}}
	for _, e := range found {
		tenant := page.Cell{Text: "–"}
		if e.TenantUID != "" {
			tenant = tenantCell(e.TenantUID, e.TenantName)
		}
		name := page.Cell{Text: e.Operator}
		if e.OperatorID != "" {
			name.Href = path.ConsoleLogOf(e.OperatorID, "")
		}
		sheet.Grid.Rows = append(sheet.Grid.Rows, []page.Cell{name, {Text: actionWords(e.Action), Small: e.Object}, tenant, {When: v.clock.Moment(e.At)}, {Text: detailWords(e.Detail)}})
	}
	sheet.Pager = pager(len(found), "entry", "entries", "", "")
	if of != "" {
		sheet.Tabs = []ui.Tab{{Text: "All operators", Href: path.ConsoleLog()}, {Text: "One", Href: path.ConsoleLogOf(of, ""), Current: true}}
	}
	if after != "" {
		sheet.Pager.First = path.ConsoleLogOf(of, "")
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleLogOf(of, next)
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

// maxDetail is how much of an entry's detail is shown.
const maxDetail = 160

// detailWords is an entry's detail in a line.
func detailWords(detail []byte) string {
	values := map[string]any{}
	if json.Unmarshal(detail, &values) != nil || len(values) == 0 {
		return ""
	}
	text, err := json.Marshal(values, json.Deterministic(true))
	if err != nil {
		return ""
	}
	words := strings.NewReplacer(`"`, "", `{`, "", `}`, "", `,`, ", ", `:`, ": ").Replace(string(text))
	if runes := []rune(words); len(runes) > maxDetail {
		words = string(runes[:maxDetail-1]) + "…"
	}
	return ui.Visible(words)
}

// jobsPolicy is the content security policy of River's pages, which write styles into their elements. Nothing else of the program has it.
const jobsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// jobs is River's own pages. Everybody who is signed in looks at them; an admin changes jobs and queues there, and each change is written down before it is made.
func (c *Console) jobs(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := who.Caller.Can(account.OperatorsWrite); err != nil {
			http.Error(w, `{"message":"Only an admin may change jobs and queues."}`, http.StatusForbidden)
			return nil
		}
		object := strings.TrimPrefix(r.URL.Path, path.ConsoleJobs())
		if runes := []rune(object); len(runes) > maxDetail {
			object = string(runes[:maxDetail])
		}
		if err := c.Operators.Note(r.Context(), who.Caller, "job.changed", object, map[string]any{"method": r.Method}); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Security-Policy", jobsPolicy)
	c.Jobs.ServeHTTP(w, r)
	return nil
}
