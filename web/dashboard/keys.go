package dashboard

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxKeys is how many keys the page shows: they are one list, without pages.
const maxKeys = 200

var scopeWords = map[account.Scope]page.ScopeChoice{
	account.CatalogRead:      {Label: "Read events", Hint: "The catalog with its payloads, and its stream."},
	account.EndpointsRead:    {Label: "Read endpoints", Hint: "Without their secrets."},
	account.EndpointsWrite:   {Label: "Manage endpoints", Hint: "Create, change, test, pause, rotate, delete."},
	account.DeliveriesRead:   {Label: "Read deliveries", Hint: "The history with its attempts."},
	account.DeliveriesResend: {Label: "Resend deliveries", Hint: "One by one or as a catch-up."},
	account.SecretsReveal:    {Label: "Reveal secrets", Hint: "Read signing secrets and static headers again."},
}

var expiries = map[string]time.Duration{"30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour, "365d": 365 * 24 * time.Hour}

// keys lists the tenant's API keys beside the form that makes one.
func (d *Dashboard) keys(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	sheet := page.Keys{Scopes: scopeChoices(caller, nil)}
	return d.showKeys(w, r, caller, http.StatusOK, sheet)
}

// showKeys completes the page with what does not depend on the form.
func (d *Dashboard) showKeys(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, sheet page.Keys) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	keys, _, err := d.Accounts.KeyList(r.Context(), caller, "", maxKeys)
	if err != nil {
		return err
	}
	sheet.MayManage, sheet.BaseURL, sheet.Reference, sheet.Sources = true, d.URL, path.DocsAPI(), d.Sources
	if note, ok := d.Sessions.Said(w, r, caller.ID); ok {
		v.note(note)
	}
	for _, key := range keys {
		sheet.Rows = append(sheet.Rows, keyRow(v, key))
		if v.told.Secret != "" && v.told.About == key.ID {
			sheet.Created = &page.CreatedKey{Name: key.Name, Value: v.told.Secret}
		}
	}
	return write(w, r, status, sheet, v.frame)
}

func keyRow(v view, key account.Key) page.KeyRow {
	row := page.KeyRow{
		ID: key.ID, Name: key.Name, Prefix: key.Prefix, Created: v.clock.Moment(key.CreatedAt), By: key.CreatedBy,
		Stamp: ui.Stamp{Tone: ui.Good, Word: "Active"},
	}
	for _, scope := range key.Scopes {
		row.Scopes = append(row.Scopes, string(scope))
	}
	if key.LastUsedAt != nil {
		row.LastUsed = v.clock.Moment(*key.LastUsedAt)
	}
	if key.ExpiresAt != nil {
		row.Expires = v.clock.Moment(*key.ExpiresAt)
		if !key.ExpiresAt.After(v.clock.Now) {
			row.Stamp = ui.Stamp{Tone: ui.Mute, Word: "Expired"}
		}
	}
	return row
}

// scopeChoices are the rights that the caller can give; chosen nil chooses all.
func scopeChoices(caller account.Caller, chosen []string) []page.ScopeChoice {
	var choices []page.ScopeChoice
	for _, scope := range account.KeyScopes() {
		if !may(caller, scope) {
			continue
		}
		choice := scopeWords[scope]
		choice.Value, choice.Chosen = string(scope), chosen == nil
		for _, value := range chosen {
			choice.Chosen = choice.Chosen || value == choice.Value
		}
		choices = append(choices, choice)
	}
	return choices
}

// keyCreate makes a key and shows it on the page that follows, once.
func (d *Dashboard) keyCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	chosen := r.PostForm["scopes"]
	if chosen == nil {
		chosen = []string{}
	}
	sheet := page.Keys{Name: field(r, "name"), Expires: field(r, "expires"), Scopes: scopeChoices(caller, chosen)}
	in := account.KeyInput{Name: sheet.Name, Scopes: []account.Scope{}}
	for _, scope := range chosen {
		in.Scopes = append(in.Scopes, account.Scope(scope))
	}
	if sheet.Expires != "" {
		at := d.Now().Add(expiries[sheet.Expires]) // an unknown word has passed already, and is refused
		in.ExpiresAt = &at
	}
	key, text, err := d.Accounts.KeyCreate(r.Context(), caller, in)
	if problems, ok := refused(err, map[string]string{"name": "name", "scopes": "scopes", "expires_at": "expires"}); ok {
		sheet.Problems = problems
		return d.showKeys(w, r, caller, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Keys(), Note{About: key.ID, Secret: text.Reveal()})
}

// keyOf is a key of the tenant's, with the view that its question is shown in.
func (d *Dashboard) keyOf(r *http.Request, caller account.Caller) (account.Key, view, error) {
	v, err := d.view(r, caller)
	if err != nil {
		return account.Key{}, view{}, err
	}
	keys, _, err := d.Accounts.KeyList(r.Context(), caller, "", maxKeys)
	if err != nil {
		return account.Key{}, view{}, err
	}
	for _, key := range keys {
		if key.ID == r.PathValue("key") {
			return key, v, nil
		}
	}
	return account.Key{}, view{}, fault.New(fault.NotFound, "There is no such key.")
}

// keyRotateAsk asks how long a key goes on beside a new one.
func (d *Dashboard) keyRotateAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	key, v, err := d.keyOf(r, caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, page.RotateKey(key.ID, key.Name, key.Prefix))
}

// keyRotate makes a key in an old one's place and shows it on the page that follows, once.
func (d *Dashboard) keyRotate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	overlap, err := time.ParseDuration(field(r, "overlap"))
	if err != nil {
		overlap = -1 // which is refused
	}
	key, text, err := d.Accounts.KeyRotate(r.Context(), caller, r.PathValue("key"), overlap)
	if problems, ok := refused(err, map[string]string{"overlap_seconds": "overlap"}); ok {
		old, v, err := d.keyOf(r, caller)
		if err != nil {
			return err
		}
		sheet := page.RotateKey(old.ID, old.Name, old.Prefix)
		sheet.Choices[0].Error, sheet.Problems = problems["overlap"], problems
		return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Keys(), Note{About: key.ID, Secret: text.Reveal()})
}

// keyRevokeAsk asks before a key is revoked.
func (d *Dashboard) keyRevokeAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	key, v, err := d.keyOf(r, caller)
	if err != nil {
		return err
	}
	used := ""
	if key.LastUsedAt != nil {
		used = v.clock.Moment(*key.LastUsedAt).Relative
	}
	return d.show(w, r, v, http.StatusOK, page.RevokeKey(key.ID, key.Name, key.Prefix, used))
}

// keyRevoke ends a key at once.
func (d *Dashboard) keyRevoke(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Accounts.KeyRevoke(r.Context(), caller, r.PathValue("key")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Keys(), Note{Text: "The key is revoked. Programs that use it are refused from now on."})
}
