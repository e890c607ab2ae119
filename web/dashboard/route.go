package dashboard

import (
	"net/http"

	"waybill/app/account"
)

// Audience says who a route is for.
type Audience string

// The audiences.
const (
	ForGuest  Audience = "guest"  // everybody: what leads to signing in
	ForMember Audience = "member" // whoever is signed in; what they may do there is for the operations to say
)

// Handler answers one request. caller is the zero Caller for a guest. What it returns as an error is shown as a page; it must have
// written nothing then.
type Handler func(w http.ResponseWriter, r *http.Request, caller account.Caller) error

// Route is one address and what is done there. The table is the only place that says what exists: the mux and the tests that try every route
// as a guest, from another site and with another tenant's ids are made from it.
type Route struct {
	Method   string   // GET or POST
	Pattern  string   // of net/http.ServeMux, without the method: "/endpoints/{id}"
	Audience Audience //
	Stream   bool     // the answer goes on until the reader leaves: no deadline
	Handle   Handler
}

// Routes is every route of the dashboard, by audience and then by page.
func (d *Dashboard) Routes() []Route {
	var routes []Route
	add := func(audience Audience, method, pattern string, handle Handler) {
		routes = append(routes, Route{Method: method, Pattern: pattern, Audience: audience, Handle: handle})
	}
	guest := func(method, pattern string, handle Handler) { add(ForGuest, method, pattern, handle) }
	show := func(pattern string, handle Handler) { add(ForMember, http.MethodGet, pattern, handle) }
	do := func(pattern string, handle Handler) { add(ForMember, http.MethodPost, pattern, handle) }
	stream := func(pattern string, handle Handler) {
		show(pattern, handle)
		routes[len(routes)-1].Stream = true
	}

	guest("GET", "/sign-in", d.signInForm)
	guest("POST", "/sign-in", d.signIn)
	guest("GET", "/sign-in/code", d.signInCode)
	guest("POST", "/sign-in/code", d.signInFinish)
	guest("GET", "/sign-in/link/{token}", d.linkLook)
	guest("POST", "/sign-in/link/{token}", d.linkRedeem)
	guest("GET", "/password", d.passwordForgot)
	guest("POST", "/password", d.passwordAsk)
	guest("GET", "/password/sent", d.passwordSent)
	guest("GET", "/password/{reset}", d.passwordResetForm)
	guest("POST", "/password/{reset}", d.passwordReset)
	guest("GET", "/verify/{verify}", d.verifyAsk)
	guest("POST", "/verify/{verify}", d.verify)
	guest("GET", "/invitation/{invite}", d.invitation)
	guest("POST", "/invitation/{invite}", d.invitationAccept)
	guest("GET", "/docs", d.docs)
	guest("GET", "/docs/concepts", d.docsConcepts)
	guest("GET", "/docs/promises", d.docsPromises)
	guest("GET", "/docs/receiving", d.docsReceiving)
	guest("GET", "/docs/verify", d.docsVerify)
	guest("GET", "/docs/verify/{language}", d.docsReceiver)
	guest("GET", "/docs/retries", d.docsRetries)
	guest("GET", "/docs/errors", d.docsErrors)
	guest("GET", "/docs/limits", d.docsLimits)
	guest("GET", "/docs/sources", d.docsSources)
	guest("GET", "/public-keys/{id}", d.publicKeys)
	guest("GET", "/docs/api", d.docsAPI)
	guest("GET", "/docs/api/{noun}", d.docsNoun)
	if d.Mailbox != nil {
		guest("GET", "/dev/mail", d.mails)
		guest("GET", "/dev/mail/{mail}", d.mail)
		guest("GET", "/dev/mail/{mail}/html", d.mailHTML)
	}
	do("/sign-out", d.signOut)
	do("/tenant", d.tenantSwitch)

	show("/{$}", d.overview)
	stream("/live", d.overviewLive)

	show("/deliveries", d.deliveries)
	stream("/deliveries/live", d.deliveriesLive)
	show("/deliveries/export", d.deliveriesExport)
	do("/deliveries/export", d.exportStart)
	show("/deliveries/export/file", d.deliveriesFile)
	do("/deliveries/filters", d.filterSave)
	do("/deliveries/filters/{filter}/delete", d.filterForget)
	show("/exports/{id}", d.export)
	stream("/exports/{id}/live", d.exportLive)
	do("/exports/{id}/cancel", d.exportCancel)
	stream("/exports/{id}/file", d.exportFile)
	show("/deliveries/resend", d.resendAllAsk)
	do("/deliveries/resend", d.deliveriesResend)
	show("/deliveries/{id}", d.delivery)
	stream("/deliveries/{id}/live", d.deliveryLive)
	show("/deliveries/{id}/resend", d.deliveryResendAsk)
	do("/deliveries/{id}/resend", d.deliveryResend)
	show("/deliveries/{id}/attempts/{attempt}", d.attempt)
	show("/deliveries/{id}/attempts/{attempt}/curl", d.attemptCurl)
	show("/deliveries/{id}/attempts/{attempt}/http", d.attemptHTTP)
	show("/deliveries/{id}/attempts/{attempt}/json", d.attemptJSON)
	show("/deliveries/{id}/json", d.deliveryJSON)
	show("/deliveries/{id}/attempts/{attempt}/response", d.attemptResponse)

	show("/endpoints", d.endpoints)
	show("/endpoints/new", d.endpointNew)
	do("/endpoints/new", d.endpointCreate)
	show("/endpoints/{id}", d.endpoint)
	stream("/endpoints/{id}/live", d.endpointLive)
	show("/endpoints/{id}/recover", d.endpointRecover)
	do("/endpoints/{id}/recover", d.recoverStart)
	show("/endpoints/{id}/recoveries/{recovery}", d.recovery)
	stream("/endpoints/{id}/recoveries/{recovery}/live", d.recoveryLive)
	do("/endpoints/{id}/recoveries/{recovery}/cancel", d.recoveryCancel)
	show("/endpoints/{id}/settings", d.endpointSettings)
	do("/endpoints/{id}/settings", d.endpointSave)
	do("/endpoints/{id}/check", d.endpointCheck)
	show("/endpoints/{id}/test", d.endpointTest)
	do("/endpoints/{id}/test", d.endpointTestSend)
	show("/endpoints/{id}/signature", d.signature)
	do("/endpoints/{id}/signature", d.signatureCheck)
	show("/endpoints/{id}/activity", d.endpointActivity)
	show("/endpoints/{id}/pause", d.endpointPauseAsk)
	do("/endpoints/{id}/pause", d.endpointPause)
	show("/endpoints/{id}/disable", d.endpointDisableAsk)
	do("/endpoints/{id}/disable", d.endpointDisable)
	show("/endpoints/{id}/enable", d.endpointEnableAsk)
	do("/endpoints/{id}/enable", d.endpointEnable)
	show("/endpoints/{id}/delete", d.endpointDeleteAsk)
	do("/endpoints/{id}/delete", d.endpointDelete)
	show("/endpoints/{id}/secrets", d.endpointSecrets)
	do("/endpoints/{id}/secrets/rotate", d.secretRotate)
	show("/endpoints/{id}/secrets/{secret}/reveal", d.secretRevealAsk)
	do("/endpoints/{id}/secrets/{secret}/reveal", d.secretReveal)
	show("/endpoints/{id}/secrets/{secret}/end", d.secretEndAsk)
	do("/endpoints/{id}/secrets/{secret}/end", d.secretEnd)

	show("/inboxes", d.inboxes)
	do("/inboxes", d.inboxCreate)
	show("/inboxes/{id}", d.inbox)
	stream("/inboxes/{id}/live", d.inboxLive)
	show("/inboxes/{id}/requests/{number}", d.inbox)
	show("/inboxes/{id}/requests/{number}/body", d.inboxBody)
	do("/inboxes/{id}/answer", d.inboxAnswer)
	do("/inboxes/{id}/extend", d.inboxExtend)
	show("/inboxes/{id}/delete", d.inboxDeleteAsk)
	do("/inboxes/{id}/delete", d.inboxDelete)

	show("/undelivered", d.undelivered)

	show("/events", d.events)
	show("/events/{id}", d.event)
	show("/events/{id}/body", d.eventBody)
	show("/events/{id}/expunge", d.eventExpungeAsk)
	do("/events/{id}/expunge", d.eventExpunge)
	show("/gap", d.gap)
	show("/event-types", d.eventTypes)
	show("/event-types/{name}", d.eventType)

	show("/keys", d.keys)
	do("/keys", d.keyCreate)
	show("/keys/{key}/rotate", d.keyRotateAsk)
	do("/keys/{key}/rotate", d.keyRotate)
	show("/keys/{key}/revoke", d.keyRevokeAsk)
	do("/keys/{key}/revoke", d.keyRevoke)
	show("/consumers", d.consumers)
	show("/team", d.team)
	do("/team", d.invite)
	do("/team/two-factor", d.twoFactorRequire)
	show("/team/{member}/two-factor", d.memberTwoFactorAsk)
	do("/team/{member}/two-factor", d.memberTwoFactorReset)
	do("/team/{member}/role", d.memberRole)
	show("/team/{member}/remove", d.memberRemoveAsk)
	do("/team/{member}/remove", d.memberRemove)
	do("/team/invitations/{invitation}/resend", d.invitationResend)
	do("/team/invitations/{invitation}/revoke", d.invitationRevoke)
	show("/activity", d.activity)
	show("/settings", d.settings)
	do("/settings/tenant", d.settingsTenant)
	do("/settings/profile", d.settingsProfile)
	do("/settings/notices", d.settingsNotices)
	do("/settings/password", d.settingsPassword)
	show("/settings/two-factor", d.twoFactor)
	do("/settings/two-factor/begin", d.twoFactorBegin)
	do("/settings/two-factor/confirm", d.twoFactorConfirm)
	show("/settings/two-factor/codes", d.twoFactorCodesAsk)
	do("/settings/two-factor/codes", d.twoFactorCodes)
	show("/settings/two-factor/off", d.twoFactorOffAsk)
	do("/settings/two-factor/off", d.twoFactorOff)
	show("/settings/sign-ins", d.signIns)
	do("/settings/sessions/end", d.sessionsEnd)
	do("/settings/sessions/{session}/end", d.sessionEnd)

	return routes
}
