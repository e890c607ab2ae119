// Package api is Waybill's JSON API over HTTP.
//
// It promises that every route stands in one table, with whom it serves, what right it needs, what it takes and what it
// answers, and that the mux, the OpenAPI document and the tests of isolation are made from that table; that a caller is known before a
// byte of the body is read; that every input is bounded and checked strictly; that every error is a problem (RFC 9457) of a documented type
// with a request id; and that a database that cannot answer is 503, never something about rights or absence.
//
// Handlers parse, call an operation and show what it returned. The rules are in the operations.
package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/idempotency"
	"waybill/app/limit"
	"waybill/app/seal"
)

// Config is what the API is made of. A file of routes adds the service that its routes call.
type Config struct {
	URL string           // the public address, without a slash at the end: links and problem types begin with it
	Log *slog.Logger     // one line a request; required
	Now func() time.Time // for rate limits and durations; required

	DB        *pgxpool.Pool // what is published goes into its outbox
	Ring      *seal.Ring    // seals the answers that are kept for repeats
	Accounts  *account.Service
	Endpoints *endpoint.Service
	Types     *catalog.Types

	Events     *catalog.Events
	Consumers  *catalog.Consumers
	Deliveries *delivery.Service
	Limits     *limit.Service // of single tenants; required

	// Observe, unless nil, is told of every request when it has been answered: its route's pattern, "" if none matched.
	Observe func(method, pattern string, status int, took time.Duration)
}

// API answers the API's requests. It is an http.Handler for everything below /v1/.
type API struct {
	Config
	mux     *http.ServeMux
	limits  *limiter
	calls   *idempotency.Store
	streams streamTimes
	// spec is the OpenAPI document, made when it is first asked for: that takes as long as all the rest of a start.
	spec func() []byte
}

// New makes the API. It panics when the table of routes contradicts itself: that is a mistake in the program.
func New(config Config) *API {
	a := &API{Config: config, mux: http.NewServeMux(), limits: newLimiter(config.Now), calls: &idempotency.Store{DB: config.DB, Ring: config.Ring},
		streams: usualStreams}
	routes := a.Routes()
	a.spec = sync.OnceValue(func() []byte { return document(config.URL, routes) })
	for _, route := range routes {
		a.mux.Handle(route.Method+" "+route.Pattern, a.handler(route))
	}
	return a
}

// Close ends the streams, so that the server can stop: each is told when to come back. Other requests go on.
func (a *API) Close() {
	if a.Events != nil && a.Events.Feed != nil {
		a.Events.Feed.Close()
	}
}

// Routes is every route as it is served, ordered by pattern and method. A file of routes adds its own here.
func (a *API) Routes() []Route {
	routes := table(slices.Concat(
		a.documentRoutes(),
		a.tenantRoutes(),
		a.keyRoutes(),
		a.invitationRoutes(),
		a.endpointRoutes(),
		a.secretRoutes(),
		a.typeRoutes(),
		a.publishRoutes(),
		a.eventRoutes(),
		a.streamRoutes(),
		a.consumerRoutes(),
		a.gapRoutes(),
		a.keyRotateRoutes(),
		a.deliveryRoutes(),
		a.recoveryRoutes(),
	))
	slices.SortFunc(routes, func(x, y Route) int {
		return cmp.Or(cmp.Compare(x.Pattern, y.Pattern), cmp.Compare(x.Method, y.Method))
	})
	return routes
}
