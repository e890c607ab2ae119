package api

import (
	"net/http"
	"slices"
	"strings"

	"waybill/app/account"
	"waybill/app/fault"
)

// Audience says whose key a route takes.
type Audience string

// The audiences.
const (
	// ForPublic is for routes that take no key.
	ForPublic Audience = "public"
	// ForPlatform is for the platform's own. Below /v1/tenants/{uid}/ the handler's caller works in that tenant.
	ForPlatform Audience = "platform"
	// ForTenant is for a tenant's own, and the platform's in a tenant that it names: such a route is served twice, at its pattern ("/v1/endpoints")
	// and below /v1/tenants/{uid}/ ("/v1/tenants/{uid}/endpoints"). The handler's caller works in the tenant, either way.
	ForTenant Audience = "tenant"
	// ForAnyone is for what every valid key is shown alike.
	ForAnyone Audience = "anyone"
)

// Handler answers one request of a caller that has been authenticated. What it returns as an error is answered as a problem; it must
// have written nothing then.
type Handler func(w http.ResponseWriter, r *http.Request, caller account.Caller) error

// Answer is one successful answer of a route.
type Answer struct {
	Status int // 200 to 299
	Body   any // a value of the type of the JSON body; nil: no body
}

// Route is one operation of the API. The table of routes is the only place that says what exists: the mux, the OpenAPI document and the
// tests that try every route with a stranger's key are made from it.
type Route struct {
	Name     string        // the operation's id, noun then verb, unique: "EndpointCreate"
	Method   string        // one of http's
	Pattern  string        // of net/http.ServeMux, without the method: "/v1/endpoints/{id}"
	Audience Audience      //
	Scope    account.Scope // the right it needs; empty only for ForPublic. The operation checks it again.
	Summary  string        // a short sentence without a full stop: "Create an endpoint"
	Detail   string        // what a caller must know beyond that, in Markdown; may be empty

	Query    any          // a value of a struct whose fields have `query` tags (see DecodeQuery); nil: any parameter is refused
	Body     any          // a value of the type that DecodeBody is called with; nil: the route takes no body, or an empty object
	Optional bool         // the body may be left out
	MaxBody  int64        // bytes; 0: DefaultMaxBody
	Answers  []Answer     // the successful answers, the usual one first
	Faults   []fault.Kind // beyond those that the framework answers by itself (see Route.faults)
	Stream   bool         // the answer goes on until the client leaves: no deadline
	NoKey    string       // why an Idempotency-Key is not looked at, of a route that changes something; usually it is
	Handle   Handler
}

// Limits of bodies, in bytes.
const (
	DefaultMaxBody = 64 << 10
	PublishMaxBody = 8 << 20
)

const tenantPath = "/v1/tenants/{uid}/"

// inTenant says whether the route is below one tenant's address, so that its caller is set to work there.
func (r Route) inTenant() bool { return strings.HasPrefix(r.Pattern, tenantPath) }

// maxBody is how many bytes of body the route reads.
func (r Route) maxBody() int64 {
	switch {
	case r.Body == nil:
		return 1 << 10 // {} and some space
	case r.MaxBody > 0:
		return r.MaxBody
	default:
		return DefaultMaxBody
	}
}

// faults lists every kind of problem the route can answer, by status: its own, and what the framework answers.
func (r Route) faults() []fault.Kind {
	kinds := slices.Concat(r.Faults, []fault.Kind{fault.Internal, fault.Unavailable})
	if r.Audience != ForPublic {
		kinds = append(kinds, fault.Unauthenticated, fault.Forbidden, fault.RateLimited)
	}
	if strings.Contains(r.Pattern, "{") {
		kinds = append(kinds, fault.NotFound)
	}
	if r.Body != nil {
		kinds = append(kinds, fault.Malformed, fault.TooLarge, fault.Unsupported)
	}
	if r.keyed() {
		kinds = append(kinds, fault.Malformed, fault.InProgress, fault.KeyReused)
	}
	kinds = append(kinds, fault.Invalid) // an unknown parameter, at least
	return slices.DeleteFunc(fault.Kinds(), func(k fault.Kind) bool { return !slices.Contains(kinds, k) })
}

// belowTenant is the tenant route as the platform calls it: below the tenant's address.
func (r Route) belowTenant() Route {
	r.Name = "Tenant" + r.Name
	r.Pattern = tenantPath + strings.TrimPrefix(r.Pattern, "/v1/")
	return r
}

// table is every route as it is served: tenant routes at both addresses.
func table(routes []Route) []Route {
	var all []Route
	for _, route := range routes {
		all = append(all, route)
		if route.Audience == ForTenant {
			all = append(all, route.belowTenant())
		}
	}
	return all
}
