package path

// ConsoleHome is the first page of the console: which endpoints need somebody.
func ConsoleHome() string { return "/console" }

// ConsoleAttention is that page with one need chosen, and its page at a cursor.
func ConsoleAttention(need, cursor string) string {
	return with("/console", "need", need, "cursor", cursor)
}

// ConsoleSignIn is the operators' form with e-mail and password; the same address takes its POST.
func ConsoleSignIn() string { return "/console/sign-in" }

// ConsoleSignOut takes the POST that ends an operator's session.
func ConsoleSignOut() string { return "/console/sign-out" }

// ConsoleLink is where a one-time link leads that signs an operator in.
func ConsoleLink(token string) string { return join("console", "link", token) }

// ConsolePassword is where a one-time link leads with which an operator sets a password.
func ConsolePassword(token string) string { return join("console", "password", token) }

// ConsoleTenants is the list of tenants.
func ConsoleTenants() string { return "/console/tenants" }

// ConsoleTenantsOf is the list by words and cursor, each if not empty.
func ConsoleTenantsOf(words, cursor string) string {
	return with("/console/tenants", "q", words, "cursor", cursor)
}

// ConsoleTenantNew is the form that makes a tenant; the same address takes its POST.
func ConsoleTenantNew() string { return "/console/new-tenant" }

// ConsoleTenant is a tenant's page.
func ConsoleTenant(uid string) string { return join("console", "tenants", uid) }

// ConsoleTenantAt is a tenant's page with its endpoints at a cursor.
func ConsoleTenantAt(uid, cursor string) string { return with(ConsoleTenant(uid), "cursor", cursor) }

// ConsoleTenantSettings is the form with a tenant's name, limits and preset; the same address takes its POST.
func ConsoleTenantSettings(uid string) string { return join("console", "tenants", uid, "settings") }

// ConsoleTenantSuspend asks before a tenant is suspended (GET) and suspends it (POST).
func ConsoleTenantSuspend(uid string) string { return join("console", "tenants", uid, "suspend") }

// ConsoleTenantResume asks before a tenant goes on (GET) and lets it (POST).
func ConsoleTenantResume(uid string) string { return join("console", "tenants", uid, "resume") }

// ConsoleTenantLink asks whom a portal link is for (GET) and makes it (POST).
func ConsoleTenantLink(uid string) string { return join("console", "tenants", uid, "link") }

// ConsoleTenantView asks why (GET) and opens the tenant's own pages, read-only (POST).
func ConsoleTenantView(uid string) string { return join("console", "tenants", uid, "view") }

// ConsoleEvents is a tenant's events of one object.
func ConsoleEvents(uid, resource string) string {
	return with(join("console", "tenants", uid, "events"), "resource", resource)
}

// ConsoleEvent is an event of a tenant, for support.
func ConsoleEvent(uid, id string) string { return join("console", "tenants", uid, "events", id) }

// ConsoleDelivery is a delivery of a tenant with its attempts, for support.
func ConsoleDelivery(uid, id string) string {
	return join("console", "tenants", uid, "deliveries", id)
}

// ConsoleResend asks before a delivery is sent again (GET) and sends it (POST).
func ConsoleResend(uid, id string) string {
	return join("console", "tenants", uid, "deliveries", id, "resend")
}

// ConsoleIncidents is what failing endpoints have in common.
func ConsoleIncidents() string { return "/console/incidents" }

// ConsoleFind is the search over all tenants.
func ConsoleFind() string { return "/console/find" }

// ConsoleFindOf is the search for a text, in one tenant or all, going on at a cursor.
func ConsoleFindOf(text, tenant, cursor string) string {
	return with("/console/find", "q", text, "tenant", tenant, "cursor", cursor)
}

// ConsoleLag is the page on lag and fairness.
func ConsoleLag() string { return "/console/lag" }

// ConsoleLagLive is the stream that says when that page is to be read again.
func ConsoleLagLive() string { return "/console/lag/live" }

// ConsoleTypes is the catalog of event types.
func ConsoleTypes() string { return "/console/event-types" }

// ConsoleTypesAt is the catalog at a cursor.
func ConsoleTypesAt(cursor string) string { return with("/console/event-types", "cursor", cursor) }

// ConsoleType is one event type; its POST changes what is said about it.
func ConsoleType(name string) string { return join("console", "event-types", name) }

// ConsoleKeys is the page of the platform's API keys; its POST makes one.
func ConsoleKeys() string { return "/console/keys" }

// ConsoleKeysAt is that page at a cursor.
func ConsoleKeysAt(cursor string) string { return with("/console/keys", "cursor", cursor) }

// ConsoleKeyRevoke asks before a platform key is revoked (GET) and revokes it (POST).
func ConsoleKeyRevoke(id string) string { return join("console", "keys", id, "revoke") }

// ConsolePolicy is the delivery policy in force.
func ConsolePolicy() string { return "/console/policy" }

// ConsoleOperators is the page of operators; its POST adds one.
func ConsoleOperators() string { return "/console/operators" }

// ConsoleOperatorRemove asks before an operator is removed (GET) and removes them (POST).
func ConsoleOperatorRemove(id string) string { return join("console", "operators", id, "remove") }

// ConsoleLog is the operators' activity log.
func ConsoleLog() string { return "/console/log" }

// ConsoleLogOf is the log by operator and cursor, each if not empty.
func ConsoleLogOf(operator, cursor string) string {
	return with("/console/log", "operator", operator, "cursor", cursor)
}

// ConsoleJobs is River's own pages on jobs.
func ConsoleJobs() string { return "/console/jobs/" }
