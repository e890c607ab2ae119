package account

import (
	"slices"
	"strings"

	"waybill/app/fault"
)

// Scope is one right. The text stands in keys, in the API and in messages.
type Scope string

// Rights inside a tenant that an API key can have. A new tenant key has all of them unless it is narrowed.
const (
	CatalogRead      Scope = "catalog:read"      // event types, events and their payloads
	EndpointsRead    Scope = "endpoints:read"    // endpoints, without their secrets
	EndpointsWrite   Scope = "endpoints:write"   // create, change, delete, test, pause, rotate; includes endpoints:read
	DeliveriesRead   Scope = "deliveries:read"   // deliveries and their attempts
	DeliveriesResend Scope = "deliveries:resend" // resend and recover
	SecretsReveal    Scope = "secrets:reveal"    // read a signing secret or a static header again
)

// Rights inside a tenant that only people have.
const (
	AuditRead     Scope = "audit:read"     // the activity log
	KeysWrite     Scope = "keys:write"     // API keys, and the list of them
	SettingsWrite Scope = "settings:write" // the account's name and time zone
	TeamWrite     Scope = "team:write"     // members, roles, invitations
)

// Rights of the platform.
const (
	EventsPublish Scope = "events:publish"
	TenantsRead   Scope = "tenants:read"
	TenantsWrite  Scope = "tenants:write" // tenants, their keys and portal links; includes tenants:read
	TypesWrite    Scope = "types:write"   // the catalog's event types
)

// OperatorsWrite is the right to say who else is an operator. No key has it.
const OperatorsWrite Scope = "operators:write"

// KeyScopes lists what a tenant's key can have, in the order in which pages and documents show it.
func KeyScopes() []Scope {
	return []Scope{CatalogRead, EndpointsRead, EndpointsWrite, DeliveriesRead, DeliveriesResend, SecretsReveal}
}

// PlatformScopes lists what a platform key can have: the platform's own rights, and every right in every tenant.
func PlatformScopes() []Scope {
	return slices.Concat([]Scope{EventsPublish, TenantsRead, TenantsWrite, TypesWrite}, KeyScopes(),
		[]Scope{AuditRead, KeysWrite, SettingsWrite})
}

// reads are the rights under which nothing can change or be given away.
var reads = []Scope{CatalogRead, EndpointsRead, DeliveriesRead, AuditRead, TenantsRead}

// includes maps a right to the smaller one that it brings along.
var includes = map[Scope]Scope{EndpointsWrite: EndpointsRead, TenantsWrite: TenantsRead}

func has(scopes []Scope, asked Scope) bool {
	return slices.ContainsFunc(scopes, func(s Scope) bool { return s == asked || includes[s] == asked })
}

// narrowed checks that every asked scope is one of allowed, without repeats and in allowed's order; asked nil means all.
// An empty list that is not nil is refused: a key that may do nothing is a mistake.
func narrowed(allowed, asked []Scope, field string) ([]Scope, error) {
	if asked == nil {
		return allowed, nil
	}
	if len(asked) == 0 {
		return nil, fault.New(fault.Invalid, "A key needs at least one scope.").
			Field(field, "must name at least one scope, or be left out for all")
	}
	for _, scope := range asked {
		if !slices.Contains(allowed, scope) {
			return nil, fault.New(fault.Invalid, "There is no such scope.").Field(field, "must be some of "+list(allowed))
		}
	}
	var kept []Scope
	for _, scope := range allowed {
		if slices.Contains(asked, scope) {
			kept = append(kept, scope)
		}
	}
	return kept, nil
}

func list(scopes []Scope) string {
	text := ""
	for i, scope := range scopes {
		if i > 0 {
			text += ", "
		}
		text += string(scope)
	}
	return text
}

// Role is what a member is in a tenant.
type Role string

// The roles. Each can do what the ones after it can.
const (
	Owner     Role = "owner"     // everything, and who else may
	Developer Role = "developer" // everything but the team and the account's settings
	Viewer    Role = "viewer"    // reads, and gives nothing away
)

// Roles lists the roles, the strongest first.
func Roles() []Role { return []Role{Owner, Developer, Viewer} }

// Title is the role as a heading has it: "Owner".
func (r Role) Title() string {
	if r == "" {
		return ""
	}
	return strings.ToUpper(string(r[:1])) + string(r[1:])
}

// Scopes are the rights of a role; an unknown role has none.
func (r Role) Scopes() []Scope {
	switch r {
	case Owner:
		return append(Developer.Scopes(), SettingsWrite, TeamWrite)
	case Developer:
		return append(KeyScopes(), AuditRead, KeysWrite)
	case Viewer:
		return []Scope{CatalogRead, EndpointsRead, DeliveriesRead, AuditRead}
	default:
		return nil
	}
}
