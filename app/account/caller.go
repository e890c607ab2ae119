package account

import (
	"slices"

	"waybill/app/fault"
)

// Kind says by what a caller proved who it is.
type Kind string

// The kinds of callers.
const (
	PlatformKey Kind = "platform-key" // the platform's own programs and people
	TenantKey   Kind = "tenant-key"   // a tenant's program
	Session     Kind = "session"      // a person in a tenant, by portal link or password
	System      Kind = "system"       // Waybill itself: a job, the dispatcher
	Operator    Kind = "operator"     // a person of the platform, in the console
)

// Caller is who asks for an operation. Operations take it as an argument, check it with Can, work in its Tenant, and
// write it into the audit log as its Actor. The zero Caller may do nothing.
type Caller struct {
	Kind Kind
	ID   string // key_…, ses_… or, of an operator, opr_…; empty for System
	Name string // the key's name, the member's e-mail address, or what the portal link was made for

	TenantID  string // the tenant it works in; empty for a platform key until In
	TenantUID string // the platform's id of that tenant
	Suspended bool   // the tenant is suspended: its own callers only read

	MemberID string // a signed-in member's id; empty for keys and portal sessions
	Support  string // of a session: the operator who looks through it, read-only; else empty
	Scopes   []Scope

	MustSetUp bool // a member who lacks the second factor that their tenant requires: they can set it up, and nothing else

	RequestsPerSecond int // what the API allows this key; 0: its kind's default
}

// Waybill is the caller of what nobody asked for, such as a job called name in one tenant. It may do everything there.
func Waybill(name, tenantID string) Caller {
	return Caller{Kind: System, Name: name, TenantID: tenantID}
}

// Tenant is the id of the tenant that the caller works in, or empty. An operation that asks the database for the rows of
// no tenant finds nothing.
func (c Caller) Tenant() string { return c.TenantID }

// In is the platform's caller at work in one tenant. A caller that belongs to a tenant stays in its own.
func (c Caller) In(tenant Tenant) Caller {
	if c.Kind == PlatformKey || c.Kind == System || c.Kind == Operator {
		c.TenantID, c.TenantUID = tenant.ID, tenant.UID
	}
	return c
}

// Can is nil when the caller has the right; else a fault that says which right is missing: Unauthenticated for the zero
// Caller, Forbidden for all others.
func (c Caller) Can(scope Scope) error {
	switch {
	case c.Kind == "":
		return fault.New(fault.Unauthenticated, "Send an API key as a bearer token, or sign in.")
	case c.Kind == System:
		return nil
	case c.MustSetUp:
		return fault.New(fault.Forbidden, "This account requires two-factor sign-in. Set it up first.")
	case !has(c.Scopes, scope):
		return fault.Newf(fault.Forbidden, "This needs the right %s, which this %s does not have.", scope, c.noun())
	case c.Suspended && c.Kind != PlatformKey && c.Kind != Operator && !slices.Contains(reads, scope):
		return fault.New(fault.Forbidden, "This account is suspended: it can be read, and nothing can be changed.")
	}
	return nil
}

// member is nil for a person who is signed in with a password, and not by a link or key.
func (c Caller) member() error {
	switch {
	case c.Kind == "":
		return errNoSession()
	case c.Kind != Session || c.MemberID == "":
		return fault.New(fault.Forbidden, "This is for members who sign in with a password.")
	}
	return nil
}

// Actor names the caller in the audit log and beside what it did: "platform key bootstrap", "anna@example.com".
func (c Caller) Actor() string {
	switch c.Kind {
	case PlatformKey, TenantKey:
		return c.noun() + " " + c.Name
	case Session:
		return c.Name
	case System:
		return "waybill"
	case Operator:
		return SupportActor
	default:
		return "nobody"
	}
}

func (c Caller) noun() string {
	switch c.Kind {
	case PlatformKey:
		return "platform key"
	case TenantKey:
		return "API key"
	case Session:
		return "sign-in"
	case Operator:
		return "operator's role"
	default:
		return "caller"
	}
}
