package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

var scopeWords = map[account.Scope]page.ScopeChoice{
	account.EventsPublish:    {Label: "Publish events"},
	account.TenantsRead:      {Label: "Read tenants"},
	account.TenantsWrite:     {Label: "Manage tenants", Hint: "Also sign-in links into them."},
	account.TypesWrite:       {Label: "Manage event types"},
	account.CatalogRead:      {Label: "Read events", Hint: "Of every tenant, with payloads."},
	account.EndpointsRead:    {Label: "Read endpoints"},
	account.EndpointsWrite:   {Label: "Manage endpoints"},
	account.DeliveriesRead:   {Label: "Read deliveries"},
	account.DeliveriesResend: {Label: "Resend deliveries"},
	account.SecretsReveal:    {Label: "Reveal secrets", Hint: "Signing secrets and static headers of every tenant."},
	account.AuditRead:        {Label: "Read activity logs"},
	account.KeysWrite:        {Label: "Manage tenants’ keys"},
	account.SettingsWrite:    {Label: "Manage tenants’ settings"},
}

var expiries = map[string]time.Duration{"30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour, "365d": 365 * 24 * time.Hour}

// scopeChoices are the rights that a platform key can have; chosen nil chooses those of a program that publishes.
func scopeChoices(chosen []string) []page.ScopeChoice {
	if chosen == nil {
		chosen = []string{string(account.EventsPublish), string(account.TenantsWrite)}
	}
	var choices []page.ScopeChoice
	for _, scope := range account.PlatformScopes() {
		choice := scopeWords[scope]
		choice.Value, choice.Chosen = string(scope), slices.Contains(chosen, string(scope))
		choices = append(choices, choice)
	}
	return choices
}

// keys lists the platform's keys beside the form that makes one.
func (c *Console) keys(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	return c.showKeys(w, r, who, http.StatusOK, page.ConsoleKeys{Scopes: scopeChoices(nil), Expires: "365d"})
}

func (c *Console) showKeys(w http.ResponseWriter, r *http.Request, who operator.Session, status int, sheet page.ConsoleKeys) error {
	v := c.view(r, who)
	after := r.URL.Query().Get("cursor")
	found, next, err := c.Accounts.PlatformKeyList(r.Context(), who.Caller, after, pageRows)
	if err != nil {
		return err
	}
	c.hear(w, r, &v)
	sheet.Keys = page.ConsoleSection{ID: "keys", Title: "Keys", None: "There are none.", Grid: page.Grid{Label: "Platform keys, newest first",
		Columns: []page.Column{{Name: "Key"}, {Name: "State"}, {Name: "Scopes"}, {Name: "Made"}, {Name: "Last used"}, {Name: "End it"}}}}
	for _, k := range found {
		sheet.Keys.Grid.Rows = append(sheet.Keys.Grid.Rows, keyRow(v, k))
		if v.told.Secret != "" && v.told.About == k.ID {
			sheet.Secret = &page.ConsoleSecret{Title: "The key “" + k.Name + "” is ready", Label: "Copy key", Value: v.told.Secret, Text: "Copy it now: it is shown this once. Only its fingerprint is stored."}
		}
	}
	sheet.Pager = pager(len(found), "key", "keys", "", "")
	if after != "" {
		sheet.Pager.First = path.ConsoleKeys()
	}
	if next != "" {
		sheet.Pager.Next = path.ConsoleKeysAt(next)
	}
	return c.show(w, r, v, status, sheet)
}

func keyRow(v view, k account.PlatformKeyRow) []page.Cell {
	state := page.Cell{Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"}}
	if k.ExpiresAt != nil {
		state.Small = "ends " + v.clock.Moment(*k.ExpiresAt).Relative
		if !k.ExpiresAt.After(v.clock.Now) {
			state = page.Cell{Stamp: ui.Stamp{Tone: ui.Mute, Word: "Expired"}}
		}
	}
	var scopes []string
	for _, scope := range k.Scopes {
		scopes = append(scopes, string(scope))
	}
	end := page.Cell{Text: "Revoke…", Href: path.ConsoleKeyRevoke(k.ID)}
	if k.Bootstrap {
		end = page.Cell{Text: "in WAYBILL_PLATFORM_KEY"}
	}
	used := page.Cell{Text: "never"}
	if k.LastUsedAt != nil {
		used = page.Cell{When: v.clock.Moment(*k.LastUsedAt)}
	}
	return []page.Cell{{Text: k.Name, Small: k.Prefix + "…"}, state, {Text: strings.Join(scopes, ", ")}, {When: v.clock.Moment(k.CreatedAt), Small: k.CreatedBy}, used, end}
}

// keyCreate makes a platform key and shows it on the page that follows, once.
func (c *Console) keyCreate(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	chosen := r.PostForm["scopes"]
	if chosen == nil {
		chosen = []string{}
	}
	sheet := page.ConsoleKeys{Name: field(r, "name"), Expires: field(r, "expires"), Scopes: scopeChoices(chosen)}
	in := account.KeyInput{Name: sheet.Name, Scopes: []account.Scope{}}
	for _, scope := range chosen {
		in.Scopes = append(in.Scopes, account.Scope(scope))
	}
	if sheet.Expires != "" {
		at := c.Now().Add(expiries[sheet.Expires]) // an unknown word has passed already, and is refused
		in.ExpiresAt = &at
	}
	key, text, err := c.Accounts.PlatformKeyCreate(r.Context(), who.Caller, in)
	if problems, ok := dashboard.Refused(err, map[string]string{"name": "name", "scopes": "scopes", "expires_at": "expires"}); ok {
		sheet.Problems = problems
		return c.showKeys(w, r, who, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleKeys(), dashboard.Note{About: key.ID, Secret: text.Reveal()})
}

// keyRevokeAsk asks before a platform key is revoked.
func (c *Console) keyRevokeAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	k, err := c.Accounts.PlatformKeyRead(r.Context(), who.Caller, r.PathValue("key"))
	if err != nil {
		return err
	}
	return c.show(w, r, c.view(r, who), http.StatusOK, page.ConsoleAsk{Nav: path.ConsoleKeys(), Crumbs: []ui.Link{{Text: "Platform keys", Href: path.ConsoleKeys()}}, Ask: ui.Confirm{
		Title: "Revoke platform key", Object: k.Name + " (" + k.Prefix + "…)", Verb: "Revoke key", Action: path.ConsoleKeyRevoke(k.ID), Back: path.ConsoleKeys(), Danger: true,
		Effects: []string{"Programs that use it are refused at once, in every tenant.", "It cannot be brought back."}}})
}

// keyRevoke ends a platform key.
func (c *Console) keyRevoke(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := c.Accounts.PlatformKeyRevoke(r.Context(), who.Caller, r.PathValue("key")); err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleKeys(), dashboard.Note{Text: "The key is revoked."})
}
