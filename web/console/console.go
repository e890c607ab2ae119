// Package console serves the pages on which the platform's people run Waybill.
//
// It promises that every address stands in one table with whom it serves; that nothing but signing in is shown to anyone who is not signed in as an operator,
// whatever session of a tenant the browser has; that an action is a POST answered by a redirect, and a form that was refused comes back with what was typed;
// that times are UTC, because operators look at tenants of all zones; and that River's pages stand behind the same sign-in, and let nobody but an admin change a job.
//
// Handlers parse, call an operation and show what it returned. The rules are in the operations, the tables in web/page.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/operator"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/web/dashboard"
)

// Config is what the console is made of. All fields but the last are required, and all services work on a pool that sees all tenants.
type Config struct {
	URL      string // the public address, without a slash at the end
	Log      *slog.Logger
	Now      func() time.Time
	Sessions Sessions
	// Visit signs the browser in to a tenant's own pages with a session's token, for as long as life.
	Visit func(w http.ResponseWriter, r *http.Request, token seal.Secret, life time.Duration) error

	Operators  *operator.Service
	Accounts   *account.Service
	Endpoints  *endpoint.Service
	Types      *catalog.Types
	Events     *catalog.Events
	Deliveries *delivery.Service
	Policies   policy.Set

	Jobs http.Handler // River's pages, at path.ConsoleJobs; nil: there are none
}

// Sessions is how a browser shows which operator it is, and what its next page is to tell.
type Sessions interface {
	// Operator is who is signed in; an Unauthenticated fault if nobody is.
	Operator(r *http.Request) (operator.Session, error)
	Start(w http.ResponseWriter, r *http.Request, token seal.Secret, life time.Duration) error
	End(w http.ResponseWriter, r *http.Request) error
	Say(w http.ResponseWriter, r *http.Request, sessionID string, note dashboard.Note) error
	Said(w http.ResponseWriter, r *http.Request, sessionID string) (dashboard.Note, bool)
}

// Console answers requests below /console. It is an http.Handler.
type Console struct {
	Config
	mux *http.ServeMux

	life context.Context // of streams
	end  context.CancelFunc
}

// New makes the console. It panics when the table of routes contradicts itself: that is a mistake in the program.
func New(config Config) *Console {
	c := &Console{Config: config, mux: http.NewServeMux()}
	c.life, c.end = context.WithCancel(context.Background())
	for _, route := range c.Routes() {
		c.mux.Handle(strings.TrimSpace(route.Method+" "+route.Pattern), c.handler(route))
	}
	return c
}

// Close ends all streams. Everything else goes on.
func (c *Console) Close() { c.end() }

// Audience says who a route is for.
type Audience string

// The audiences.
const (
	ForGuest    Audience = "guest"    // everybody: what leads to signing in
	ForOperator Audience = "operator" // whoever is signed in; what they may do there is for the operations to say
)

// Handler answers one request. who is the zero Session for a guest.
type Handler func(w http.ResponseWriter, r *http.Request, who operator.Session) error

// Route is one address and what is done there.
type Route struct {
	Method   string   // GET or POST; empty: all, for River's pages
	Pattern  string   // of net/http.ServeMux, without the method
	Audience Audience //
	Stream   bool     // the answer goes on until the reader leaves
	Handle   Handler
}

// Routes is every route of the console, by audience and then by page.
func (c *Console) Routes() []Route {
	var routes []Route
	guest := func(method, pattern string, handle Handler) {
		routes = append(routes, Route{Method: method, Pattern: "/console" + pattern, Audience: ForGuest, Handle: handle})
	}
	show := func(pattern string, handle Handler) {
		routes = append(routes, Route{Method: http.MethodGet, Pattern: "/console" + pattern, Audience: ForOperator, Handle: handle})
	}
	do := func(pattern string, handle Handler) {
		routes = append(routes, Route{Method: http.MethodPost, Pattern: "/console" + pattern, Audience: ForOperator, Handle: handle})
	}
	guest("GET", "/sign-in", c.signInForm)
	guest("POST", "/sign-in", c.signIn)
	guest("GET", "/link/{token}", c.linkLook)
	guest("POST", "/link/{token}", c.linkRedeem)
	guest("GET", "/password/{token}", c.passwordForm)
	guest("POST", "/password/{token}", c.passwordSet)

	do("/sign-out", c.signOut)
	show("", c.attention)
	show("/incidents", c.incidents)
	show("/find", c.find)
	show("/lag", c.lag)
	show("/lag/live", c.lagLive)
	routes[len(routes)-1].Stream = true

	show("/tenants", c.tenants)
	show("/new-tenant", c.tenantNew)
	do("/new-tenant", c.tenantCreate)
	show("/tenants/{uid}", c.tenant)
	show("/tenants/{uid}/settings", c.tenantSettings)
	do("/tenants/{uid}/settings", c.tenantSave)
	show("/tenants/{uid}/suspend", c.suspendAsk)
	do("/tenants/{uid}/suspend", c.suspend)
	show("/tenants/{uid}/resume", c.resumeAsk)
	do("/tenants/{uid}/resume", c.resume)
	show("/tenants/{uid}/link", c.portalAsk)
	do("/tenants/{uid}/link", c.portal)
	show("/tenants/{uid}/view", c.viewAsk)
	do("/tenants/{uid}/view", c.viewAs)
	show("/tenants/{uid}/events", c.events)
	show("/tenants/{uid}/events/{event}", c.event)
	show("/tenants/{uid}/deliveries/{delivery}", c.delivery)
	show("/tenants/{uid}/deliveries/{delivery}/resend", c.resendAsk)
	do("/tenants/{uid}/deliveries/{delivery}/resend", c.resend)

	show("/event-types", c.eventTypes)
	show("/event-types/{name}", c.eventType)
	do("/event-types/{name}", c.eventTypeSave)
	show("/keys", c.keys)
	do("/keys", c.keyCreate)
	show("/keys/{key}/revoke", c.keyRevokeAsk)
	do("/keys/{key}/revoke", c.keyRevoke)
	show("/policy", c.policy)
	show("/operators", c.operators)
	do("/operators", c.operatorAdd)
	show("/operators/{operator}/remove", c.operatorRemoveAsk)
	do("/operators/{operator}/remove", c.operatorRemove)
	show("/log", c.log)
	if c.Jobs != nil {
		routes = append(routes, Route{Pattern: "/console/jobs/", Audience: ForOperator, Handle: c.jobs})
	}
	return routes
}
