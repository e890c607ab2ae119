package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
)

// requestTimeout ends what a route that does not stream may take in all, the reading of its body included.
const requestTimeout = 60 * time.Second

// request is what is known of a request while it is answered.
type request struct {
	id     string
	caller account.Caller
	status int   // what was answered; 0: nothing yet
	bytes  int64 // of the answer's body
	needed bool  // the route cannot do without a body
	read   bool  // the body has been read to its end
	err    error // what the answer was made from, for the log
}

type requestKey struct{}

// requestOf is the request's own record. The framework puts it into every context; it says nothing about rights.
func requestOf(r *http.Request) *request {
	if it, ok := r.Context().Value(requestKey{}).(*request); ok {
		return it
	}
	return &request{}
}

func newRequestID() string {
	random := make([]byte, 12)
	rand.Read(random) // never fails
	return "req_" + hex.EncodeToString(random)
}

// ServeHTTP answers a request, and says 404 and 405 as problems.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := a.Now()
	it := &request{id: newRequestID()}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, it))
	out := &recorder{ResponseWriter: w, request: it}
	header := w.Header()
	header.Set("X-Request-Id", it.id)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")

	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.unmatched(out, r, handler)
	} else {
		a.mux.ServeHTTP(out, r)
	}
	a.logRequest(r, pattern, a.Now().Sub(started))
}

// The one type of problem that is no kind of fault: only the mux meets it.
const (
	methodNotAllowed = "method-not-allowed"
	methodTitle      = "Method not allowed"
)

// unmatched answers what the mux has no handler for. The mux's own handler knows which methods the path would take.
func (a *API) unmatched(w http.ResponseWriter, r *http.Request, fallback http.Handler) {
	probe := &discarded{header: http.Header{}}
	fallback.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		a.writeProblem(w, r, http.StatusMethodNotAllowed, methodNotAllowed, methodTitle,
			"This address takes "+probe.header.Get("Allow")+".", nil)
		return
	}
	a.fail(w, r, fault.New(fault.NotFound, "There is no such address. "+a.URL+"/v1/openapi.json lists them all."))
}

// handler is the route's http.Handler.
func (a *API) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.Stream {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		defer func() {
			if caught := recover(); caught != nil {
				a.fail(w, r, fmt.Errorf("panic: %v\n%s", caught, debug.Stack()))
			}
		}()
		if err := a.answer(w, r, route); err != nil {
			a.fail(w, r, err)
		}
	})
}

// answer takes a request through every check in its order: who, how often, where, what right, what body; then the handler.
func (a *API) answer(w http.ResponseWriter, r *http.Request, route Route) error {
	it := requestOf(r)
	if route.Audience != ForPublic {
		caller, err := a.authenticate(r)
		if err != nil {
			return err
		}
		it.caller = caller
		if err := a.limits.allow(w.Header(), caller); err != nil {
			return err
		}
		if caller, err = a.placed(r, route, caller); err != nil {
			return err
		}
		if err := caller.Can(route.Scope); err != nil {
			return err
		}
		it.caller = caller
		if caller.Tenant() != "" {
			r = r.WithContext(db.AsTenant(r.Context(), caller.Tenant()))
		} else {
			r = r.WithContext(db.BeyondTenants(r.Context())) // a platform key, in no tenant
		}
	}
	if err := checkQuery(r, route); err != nil {
		return err
	}
	if err := prepareBody(w, r, route); err != nil {
		return err
	}
	if route.keyed() && len(r.Header.Values(idempotencyHeader)) > 0 {
		return a.once(w, r, it.caller, route.Handle)
	}
	return route.Handle(w, r, it.caller)
}

// authenticate reads the bearer token (RFC 6750, section 2.1: in the header, nowhere else).
func (a *API) authenticate(r *http.Request) (account.Caller, error) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		return account.Caller{}, fault.New(fault.Unauthenticated, "Send an API key: Authorization: Bearer wbt_…")
	}
	scheme, token, found := strings.Cut(header[0], " ")
	if len(header) > 1 || !found || !strings.EqualFold(scheme, "bearer") {
		return account.Caller{}, fault.New(fault.Unauthenticated, "The Authorization header must be: Bearer, one space, an API key.")
	}
	return a.Accounts.Authenticate(r.Context(), token)
}

// placed sets the caller to work in the tenant that the address names, and keeps everybody out of where they do not belong.
// Another tenant's address does not exist for a tenant's key, whatever the route.
func (a *API) placed(r *http.Request, route Route, caller account.Caller) (account.Caller, error) {
	uid := r.PathValue("uid")
	if uid != "" && caller.Kind != account.PlatformKey && uid != caller.TenantUID {
		return caller, fault.New(fault.NotFound, "There is no such tenant.")
	}
	switch {
	case route.Audience == ForPlatform && caller.Kind != account.PlatformKey:
		return caller, fault.New(fault.Forbidden, "Only a platform key can do this.")
	case route.inTenant() && caller.Kind == account.PlatformKey:
		tenant, err := a.Accounts.TenantOf(r.Context(), caller, uid)
		if err != nil {
			return caller, err
		}
		return caller.In(tenant), nil
	case route.Audience == ForTenant && caller.Tenant() == "":
		return caller, fault.Newf(fault.Forbidden, "A platform key names the tenant it works in: %s", route.belowTenant().Pattern)
	}
	return caller, nil
}

// fail answers err as a problem, if nothing was answered yet, and keeps it for the log.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	requestOf(r).err = err
	if requestOf(r).status != 0 || left(r, err) {
		return // too late to say it, or nobody there to hear it
	}
	shown := problemOf(err)
	switch shown.Kind {
	case fault.Unauthenticated:
		w.Header().Set("WWW-Authenticate", `Bearer realm="waybill"`)
	case fault.Unavailable:
		w.Header().Set("Retry-After", "2")
	}
	if r.ContentLength != 0 && !requestOf(r).read {
		// The server would read what is left of the body, however slowly it comes, to keep the connection.
		w.Header().Set("Connection", "close")
	}
	a.writeProblem(w, r, shown.Kind.Status(), shown.Kind.Slug(), shown.Kind.Title(), shown.Detail, shown.Fields)
}

// left says whether err is only that the client has gone.
func left(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled)
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	request *request
}

func (w *recorder) WriteHeader(status int) {
	if status >= 200 && w.request.status == 0 {
		w.request.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.request.status == 0 {
		w.request.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.request.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection: deadlines, flushing.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// discarded is a response nobody gets.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(status int)      { d.status = status }
