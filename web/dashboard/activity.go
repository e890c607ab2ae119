package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/id"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

var activityKinds = []ui.Option{
	{Value: "endpoint", Text: "Endpoints"}, {Value: "secret", Text: "Secrets"}, {Value: "delivery", Text: "Deliveries"}, {Value: "key", Text: "API keys"},
	{Value: "session", Text: "Sign-ins"}, {Value: "portal", Text: "Portal links"}, {Value: "support", Text: "Looks of support"}, {Value: "tenant", Text: "This account"},
	{Value: "member", Text: "Members"}, {Value: "invitation", Text: "Invitations"},
}

// activityWords say an action as a sentence without its subject and object.
var activityWords = map[string]string{
	"endpoint.created": "added the endpoint", "endpoint.changed": "changed", "endpoint.deleted": "deleted the endpoint",
	"endpoint.paused": "paused", "endpoint.disabled": "disabled", "endpoint.enabled": "enabled", "endpoint.tested": "sent a test event to",
	"endpoint.headers_revealed": "revealed the static headers of", "endpoint.recovered": "caught up",
	"secret.rotated": "rotated the secret of", "secret.revealed": "revealed a secret of", "secret.expired": "ended a secret of",
	"event.expunged":  "expunged the content of",
	"delivery.resent": "resent the delivery", "key.created": "made an API key", "key.revoked": "revoked an API key",
	"session.started": "signed in", "session.ended": "signed out", "session.revoked": "ended a session",
	"portal.link_created": "made a sign-in link", "tenant.created": "opened this account", "tenant.changed": "changed this account",
	"tenant.suspended": "suspended this account", "tenant.resumed": "ended the suspension of this account", "support.viewed": "looked at this account, read-only",
	"inbox.created": "made an inbox", "inbox.changed": "changed what an inbox answers", "inbox.extended": "extended an inbox", "inbox.deleted": "deleted an inbox",
	"export.started": "began an export", "export.cancelled": "cancelled an export",
	"member.joined": "joined", "member.renamed": "changed their name", "member.password_changed": "changed their password",
	"member.password_reset": "set a new password with a link", "member.verified": "confirmed their address", "member.confirmation_sent": "asked to confirm their address",
	"member.role_changed": "changed the role of", "member.removed": "removed", "member.notices_changed": "chose what to be mailed about",
	"member.second_factor_on": "turned two-factor sign-in on", "member.second_factor_off": "turned two-factor sign-in off",
	"member.second_factor_reset": "reset the two-factor sign-in of", "member.recovery_codes_made": "made new recovery codes",
	"tenant.second_factor_required": "required two-factor sign-in of everybody", "tenant.second_factor_optional": "left two-factor sign-in to everybody's choice",
	"key.rotated":        "rotated an API key",
	"invitation.created": "invited", "invitation.resent": "sent the invitation again to", "invitation.revoked": "withdrew the invitation of",
}

// activity is the tenant's log.
func (d *Dashboard) activity(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	sheet := page.Activity{Member: query.Get("member"), Action: query.Get("action"), Actions: activityKinds}
	after := query.Get("cursor")
	entries, next, err := d.Accounts.AuditList(r.Context(), caller, account.AuditFilter{ActorID: sheet.Member, Noun: sheet.Action}, after, pageRows)
	if err != nil {
		return err
	}
	endpoints, err := d.endpointsByID(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet.Rows = activityRows(v, entries, endpoints)
	sheet.Members = actors(entries, sheet.Member)
	sheet.Shown = shown(len(entries), after == "" && next == "", "entry", "entries")
	if after != "" {
		sheet.First = path.ActivityOf(sheet.Member, sheet.Action, "")
	}
	if next != "" {
		sheet.Next = path.ActivityOf(sheet.Member, sheet.Action, next)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// endpointActivity is the tab with what was done to one endpoint.
func (d *Dashboard) endpointActivity(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	after := r.URL.Query().Get("cursor")
	entries, next, err := d.Accounts.AuditList(r.Context(), caller, account.AuditFilter{Object: e.ID}, after, pageRows)
	if err != nil {
		return err
	}
	sheet := page.EndpointActivity{Head: head, Rows: activityRows(v, entries, map[string]endpoint.Endpoint{e.ID: e}), Shown: shown(len(entries), after == "" && next == "", "entry", "entries")}
	if after != "" {
		sheet.First = path.EndpointActivity(e.ID)
	}
	if next != "" {
		sheet.Next = withQuery(path.EndpointActivity(e.ID), "cursor", next)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// shown says how many rows a page of a list without a count has.
func shown(rows int, all bool, one, many string) string {
	text := ui.Count(int64(rows), one, many)
	if all {
		return text
	}
	return text + " on this page"
}

// actors are the callers of these entries, to choose from, and the one that is chosen.
func actors(entries []account.Entry, chosen string) []ui.Option {
	var options []ui.Option
	seen := map[string]bool{"": true}
	for _, entry := range entries {
		if !seen[entry.ActorID] {
			seen[entry.ActorID] = true
			options = append(options, ui.Option{Value: entry.ActorID, Text: entry.Actor})
		}
	}
	if !seen[chosen] {
		options = append(options, ui.Option{Value: chosen, Text: ui.Tail(chosen)})
	}
	return options
}

func activityRows(v view, entries []account.Entry, endpoints map[string]endpoint.Endpoint) []page.ActivityRow {
	var rows []page.ActivityRow
	for _, entry := range entries {
		detail := map[string]any{}
		_ = json.Unmarshal(entry.Detail, &detail) // ours, an object; what is not is not shown
		row := page.ActivityRow{
			ID: entry.ID, At: v.clock.Moment(entry.At), Who: entry.Actor, What: activityWords[entry.Action],
			Object: objectLink(entry, detail, endpoints), Detail: detailWords(entry.Action, detail), From: text(detail["address"]),
		}
		if row.What == "" {
			row.What = strings.ReplaceAll(strings.ReplaceAll(entry.Action, "_", " "), ".", ": ")
		}
		rows = append(rows, row)
	}
	return rows
}

// objectLink is what an entry is about, with the way there.
func objectLink(entry account.Entry, detail map[string]any, endpoints map[string]endpoint.Endpoint) ui.Link {
	noun, _, _ := strings.Cut(entry.Action, ".")
	switch {
	case id.Valid(id.Endpoint, entry.Object):
		if e, known := endpoints[entry.Object]; known {
			return ui.Link{Text: titleOf(nameOf(e)), Href: path.Endpoint(e.ID)}
		}
		return ui.Link{Text: ui.Tail(entry.Object)} // deleted, most likely: its page is gone
	case noun == "event":
		return ui.Link{Text: ui.Tail(entry.Object), Href: path.Event(entry.Object)}
	case id.Valid(id.Delivery, entry.Object):
		return ui.Link{Text: ui.Tail(entry.Object), Href: path.Delivery(entry.Object)}
	case noun == "key":
		return ui.Link{Text: text(detail["name"])}
	case noun == "invitation" || entry.Action == "member.role_changed" || entry.Action == "member.removed" || entry.Action == "member.second_factor_reset":
		return ui.Link{Text: text(detail["email"])}
	}
	return ui.Link{}
}

// detailWords says in a line what an entry's detail adds.
func detailWords(action string, detail map[string]any) string {
	switch action {
	case "endpoint.created", "endpoint.deleted":
		return text(withoutQuery(detail["url"]))
	case "endpoint.tested", "event.expunged":
		return text(detail["type"])
	case "secret.rotated":
		if seconds, ok := detail["overlap_seconds"].(float64); ok && seconds > 0 {
			return "overlap " + ui.Span(secondsOf(seconds))
		}
		return "without an overlap"
	case "secret.revealed", "secret.expired":
		return text(detail["fingerprint"])
	case "key.created", "key.revoked", "key.rotated":
		return text(detail["prefix"]) + "…"
	case "session.started":
		if detail["by"] == "switch" {
			return "coming from another account"
		}
		return "by " + withArticle(text(detail["by"]))
	case "invitation.created", "member.joined":
		return "as " + text(detail["role"])
	case "member.role_changed":
		if pair, ok := detail["role"].([]any); ok && len(pair) == 2 {
			return text(pair[0]) + " → " + text(pair[1])
		}
	case "member.renamed":
		return text(detail["name"])
	case "endpoint.changed", "tenant.changed":
		return changes(detail)
	case "support.viewed":
		return text(detail["why"])
	case "portal.link_created":
		return text(detail["label"])
	}
	return ""
}

func withArticle(noun string) string {
	if strings.HasPrefix(noun, "i") {
		return "an " + noun
	}
	return "a " + noun
}

// changes lists what was changed from what to what.
func changes(detail map[string]any) string {
	var parts []string
	for _, name := range sorted(detail) {
		if pair, ok := detail[name].([]any); ok && len(pair) == 2 && !strings.HasPrefix(name, "types_") {
			if name == "url" {
				pair = []any{withoutQuery(pair[0]), withoutQuery(pair[1])}
			}
			parts = append(parts, fmt.Sprintf("%s: %s → %s", strings.ReplaceAll(name, "_", " "), text(pair[0]), text(pair[1])))
		} else if ok && len(pair) > 0 {
			parts = append(parts, strings.ReplaceAll(name, "_", " ")+": "+text(pair))
		}
	}
	return strings.Join(parts, "; ")
}

// withoutQuery is an address as the log has it, without what may be a secret in its query (CASES B39).
func withoutQuery(value any) any {
	address, _ := value.(string)
	if before, _, found := strings.Cut(address, "?"); found {
		return before + "?…"
	}
	return address
}

// text is a value of an entry's detail in words, cut short.
func text(value any) string {
	var words string
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		words = value
	case []any:
		each := make([]string, len(value))
		for i, item := range value {
			each[i] = text(item)
		}
		words = strings.Join(each, ", ")
	default:
		words = fmt.Sprint(value)
	}
	if words == "" {
		return "–"
	}
	if runes := []rune(words); len(runes) > 120 {
		words = string(runes[:119]) + "…"
	}
	return ui.Visible(words)
}
