// Package path knows the address of every dashboard page and action, so that pages, handlers, mails and
// tests never spell one by hand. Everything that comes from outside is escaped; what is returned starts with
// a slash and names no host.
package path

import (
	"net/url"
	"strings"
)

// join escapes each part as one segment of a path.
func join(parts ...string) string {
	var built strings.Builder
	for _, part := range parts {
		built.WriteByte('/')
		built.WriteString(url.PathEscape(part))
	}
	return built.String()
}

// with appends the query to the path, leaving out what is empty.
func with(path string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Overview is the first page after signing in.
func Overview() string { return "/" }

// OverviewOver is the overview over a range ("24h" or "7d").
func OverviewOver(span string) string { return with("/", "range", span) }

// OverviewLive is the stream of server-sent events that says when the overview has changed.
func OverviewLive() string { return "/live" }

// Endpoints is the list of endpoints.
func Endpoints() string { return "/endpoints" }

// EndpointsAt is the page of the list at a cursor.
func EndpointsAt(cursor string) string { return with("/endpoints", "cursor", cursor) }

// EndpointsOf is the list by name or address, by what is to be shown ("attention", "unverified", "active", "paused", "disabled") and cursor, each if not empty.
func EndpointsOf(search, show, cursor string) string {
	return with("/endpoints", "q", search, "show", show, "cursor", cursor)
}

// EndpointNew is the form that adds an endpoint; the same address takes its POST.
func EndpointNew() string { return "/endpoints/new" }

// EndpointTemplate is the form filled from the catalog for one event type.
func EndpointTemplate(eventType string) string { return with("/endpoints/new", "type", eventType) }

// EndpointNewAt is the form filled with a URL.
func EndpointNewAt(address string) string { return with("/endpoints/new", "url", address) }

// Endpoint is an endpoint's page, its first tab: state, figures and recent deliveries.
func Endpoint(id string) string { return join("endpoints", id) }

// EndpointLive is the stream that says when the endpoint's page has changed.
func EndpointLive(id string) string { return join("endpoints", id, "live") }

// EndpointCheck takes a POST that repeats the connection check.
func EndpointCheck(id string) string { return join("endpoints", id, "check") }

// EndpointSettings is the tab with URL, subscriptions, headers, form, scheme and limits.
func EndpointSettings(id string) string { return join("endpoints", id, "settings") }

// EndpointSecrets is the tab with the signing secrets.
func EndpointSecrets(id string) string { return join("endpoints", id, "secrets") }

// EndpointTest is the tab that sends a test event.
func EndpointTest(id string) string { return join("endpoints", id, "test") }

// EndpointTestOf is the test tab with an event type chosen.
func EndpointTestOf(id, eventType string) string {
	return with(EndpointTest(id), "type", eventType)
}

// EndpointTestAnswer is the test tab showing what came back for the given delivery.
func EndpointTestAnswer(id, delivery string) string {
	return with(EndpointTest(id), "delivery", delivery)
}

// EndpointActivity is the tab with what was done to the endpoint, by whom.
func EndpointActivity(id string) string { return join("endpoints", id, "activity") }

// EndpointPause asks before pausing (GET) and pauses (POST).
func EndpointPause(id string) string { return join("endpoints", id, "pause") }

// EndpointDisable asks before disabling (GET) and disables (POST).
func EndpointDisable(id string) string { return join("endpoints", id, "disable") }

// EndpointEnable asks before switching on (GET) and switches on (POST).
func EndpointEnable(id string) string { return join("endpoints", id, "enable") }

// EndpointDelete asks before deleting (GET) and deletes (POST).
func EndpointDelete(id string) string { return join("endpoints", id, "delete") }

// EndpointRecover previews a catch-up (GET) and starts it (POST).
func EndpointRecover(id string) string { return join("endpoints", id, "recover") }

// EndpointRecovery is the progress of a catch-up.
func EndpointRecovery(id, recovery string) string {
	return join("endpoints", id, "recoveries", recovery)
}

// EndpointRecoveryLive is the stream that says when the catch-up has got further.
func EndpointRecoveryLive(id, recovery string) string {
	return join("endpoints", id, "recoveries", recovery, "live")
}

// EndpointRecoveryCancel takes the POST that stops a catch-up.
func EndpointRecoveryCancel(id, recovery string) string {
	return join("endpoints", id, "recoveries", recovery, "cancel")
}

// SecretRotate takes the POST that adds a new signing secret.
func SecretRotate(endpoint string) string { return join("endpoints", endpoint, "secrets", "rotate") }

// SecretReveal asks for the password (GET) and shows the secret once (POST).
func SecretReveal(endpoint, secret string) string {
	return join("endpoints", endpoint, "secrets", secret, "reveal")
}

// SecretEnd asks before ending a secret now (GET) and ends it (POST).
func SecretEnd(endpoint, secret string) string {
	return join("endpoints", endpoint, "secrets", secret, "end")
}

// Undelivered is the list of what is parked: undelivered and held.
func Undelivered() string { return "/undelivered" }

// UndeliveredAt is the parked list at a cursor, by endpoint and status ("undelivered", "held"), each if not empty.
func UndeliveredAt(endpoint, status, cursor string) string {
	return with("/undelivered", "endpoint", endpoint, "status", status, "cursor", cursor)
}

// Events is the catalog of events.
func Events() string { return "/events" }

// EventsOf is the catalog by type, resource id or event id, and cursor, each if not empty.
func EventsOf(eventType, search, cursor string) string {
	return with("/events", "type", eventType, "q", search, "cursor", cursor)
}

// Event is one event with its deliveries and the reason for each that is missing.
func Event(id string) string { return join("events", id) }

// EventWhy is where the event's page says what became of it at each endpoint.
func EventWhy(id string) string { return join("events", id) + "#why-title" }

// EventBody is the event's bytes as sent, as text.
func EventBody(id string) string { return join("events", id, "body") }

// EventExpunge asks before an event's content is taken out (GET) and takes it out (POST).
func EventExpunge(id string) string { return join("events", id, "expunge") }

// Gap is the report on what did not arrive, of the last day.
func Gap() string { return "/gap" }

// GapOver is the report over one of the ranges that are offered ("24h", "7d", "30d", "90d").
func GapOver(span string) string { return with("/gap", "range", span) }

// GapBetween is the report between two instants, and its page at a cursor.
func GapBetween(from, to, cursor string) string {
	return with("/gap", "range", "custom", "from", from, "to", to, "cursor", cursor)
}

// EventTypes is the catalog of event types.
func EventTypes() string { return "/event-types" }

// EventType is one event type: description, fields, example.
func EventType(name string) string { return join("event-types", name) }

// Keys is the page of API keys; its POST creates one.
func Keys() string { return "/keys" }

// KeyRevoke asks before revoking a key (GET) and revokes it (POST).
func KeyRevoke(id string) string { return join("keys", id, "revoke") }

// Consumers is the page of named consumers.
func Consumers() string { return "/consumers" }

// ConsumersAt is the page of consumers at a cursor.
func ConsumersAt(cursor string) string { return with("/consumers", "cursor", cursor) }

// Docs is where the documentation begins.
func Docs() string { return "/docs" }

// DocsReceiving explains to whoever gets a request from us what it is; our user agent names it.
func DocsReceiving() string { return "/docs/receiving" }

// DocsAPI is the reference of the API.
func DocsAPI() string { return "/docs/api" }

// DocsNoun is the part of the reference on one noun.
func DocsNoun(noun string) string { return join("docs", "api", noun) }

// DocsRoute is where the reference describes one operation.
func DocsRoute(noun, operation string) string { return DocsNoun(noun) + "#" + operation }

// DocsProblem is where the reference explains one type of problem.
func DocsProblem(slug string) string { return "/docs/api#problem-" + slug }

// Team is the page of members and invitations; its POST invites.
func Team() string { return "/team" }

// MemberRole takes the POST that changes a member's role.
func MemberRole(id string) string { return join("team", id, "role") }

// MemberRemove asks before removing a member (GET) and removes them (POST).
func MemberRemove(id string) string { return join("team", id, "remove") }

// InvitationRevoke takes the POST that withdraws an invitation.
func InvitationRevoke(id string) string { return join("team", "invitations", id, "revoke") }

// InvitationResend takes the POST that sends the invitation's mail again.
func InvitationResend(id string) string { return join("team", "invitations", id, "resend") }

// Activity is the tenant's activity log.
func Activity() string { return "/activity" }

// ActivityOf is the log by member, kind of action and cursor, each if not empty.
func ActivityOf(member, action, cursor string) string {
	return with("/activity", "member", member, "action", action, "cursor", cursor)
}

// Settings is the page of the tenant's and the member's own settings.
func Settings() string { return "/settings" }

// SettingsTenant takes the POST of the tenant's name and time zone.
func SettingsTenant() string { return "/settings/tenant" }

// SettingsProfile takes the POST of the member's own name and theme.
func SettingsProfile() string { return "/settings/profile" }

// SettingsNotices takes the POST of what the member is mailed about.
func SettingsNotices() string { return "/settings/notices" }

// SettingsPassword takes the POST that changes the member's password.
func SettingsPassword() string { return "/settings/password" }

// SessionEnd takes the POST that ends one of the member's sessions.
func SessionEnd(id string) string { return join("settings", "sessions", id, "end") }

// SessionsEnd takes the POST that ends all other sessions of the member.
func SessionsEnd() string { return "/settings/sessions/end" }

// TenantSwitch takes the POST that goes on in another tenant of the member.
func TenantSwitch() string { return "/tenant" }

// SignIn is the form with e-mail and password; the same address takes its POST.
func SignIn() string { return "/sign-in" }

// SignInLink is where a one-time portal link leads: GET shows whose account it opens, POST uses it up, so that
// a mail scanner that follows links spends nothing.
func SignInLink(token string) string { return join("sign-in", "link", token) }

// SignOut takes the POST that ends this session.
func SignOut() string { return "/sign-out" }

// PasswordForgot asks for the address to send a reset link to.
func PasswordForgot() string { return "/password" }

// PasswordReset sets a new password with the token of a mail.
func PasswordReset(token string) string { return join("password", token) }

// Invitation accepts an invitation with the token of a mail.
func Invitation(token string) string { return join("invitation", token) }

// Verify confirms a mail address with the token of a mail.
func Verify(token string) string { return join("verify", token) }

// Mails is the demo's mailbox.
func Mails() string { return "/dev/mail" }

// Mail is one mail of the demo's mailbox.
func Mail(id string) string { return join("dev", "mail", id) }

// MailHTML is the HTML form of a mail, for a sandboxed frame.
func MailHTML(id string) string { return join("dev", "mail", id, "html") }

// Gallery is the development page that shows every component and page state.
func Gallery() string { return "/dev/gallery/" }

// GalleryPage is one page of the gallery in one of its states.
func GalleryPage(page, state string) string { return join("dev", "gallery", page, state) }
