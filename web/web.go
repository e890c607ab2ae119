// Package web puts together what the program serves over HTTP to programs and to people: the API, the dashboard, the files of its pages and, in
// development, the gallery.
//
// It promises that every answer to a browser carries a content security policy without exceptions and may be neither framed nor kept; that
// nothing changes at another site's wish, and nothing but what an inbox keeps at anybody's; that cookies mean nothing to the API, and keys nothing to the dashboard; that each request
// has an id and one line in the log, with neither addresses nor payloads in it; and that a panic is a page, too.
package web

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"waybill/app/seal"
	"waybill/assets"
	"waybill/web/api"
	"waybill/web/console"
	"waybill/web/dashboard"
	"waybill/web/page/gallery"
	"waybill/web/path"
)

// Config is what the web is made of. All fields but the last two are required.
type Config struct {
	API         http.Handler     // everything below /v1/
	Dashboard   dashboard.Config // its Sessions are made here
	Ring        *seal.Ring       // seals what travels in cookies
	Development bool             // the gallery is served

	// Console, unless nil, is what the operators' console is made of; its Sessions and Visit are made here.
	Console *console.Config

	// Observe, unless nil, is told of every request of the dashboard when it has been answered: its route's pattern, "" if none matched.
	Observe func(method, pattern string, status int, took time.Duration)
	// ObserveConsole is the same for the console.
	ObserveConsole func(method, pattern string, status int, took time.Duration)
}

// Web answers all requests. It is an http.Handler.
type Web struct {
	mux     *http.ServeMux
	pages   *dashboard.Dashboard
	inboxes *receiver
	console *console.Console // nil: there is none
}

// New makes the web. An error is one of the configuration.
func New(config Config) (*Web, error) {
	base, err := url.Parse(config.Dashboard.URL)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("the public address %q is no address", config.Dashboard.URL)
	}
	log, now := config.Dashboard.Log, config.Dashboard.Now
	config.Dashboard.Sessions = newPeople(config.Dashboard.Accounts, config.Ring, config.Dashboard.URL)
	config.Dashboard.JSON = dashboard.JSON{Delivery: api.DeliveryText, Attempt: api.AttemptText}
	w := &Web{mux: http.NewServeMux(), pages: dashboard.New(config.Dashboard)}
	w.mux.Handle("/v1/", config.API)
	w.mux.Handle(assets.Prefix, assets.Handler())
	if config.Development {
		w.mux.Handle(path.Gallery(), gallery.Handler())
		w.mux.Handle(path.MailSamples(), mailSamples(config.Dashboard.URL))
	}
	w.inboxes = newReceiver(config.Dashboard.Inboxes, log, config.Observe)
	w.mux.Handle(InboxPattern, w.inboxes)
	pages := sameOrigin(base, w.pages.Fail, w.pages)
	w.mux.Handle("/", record(log, now, config.Observe, w.pages, headers(secure(config.Dashboard.URL), pages)))
	if config.Console != nil {
		w.openConsole(config, base)
	}
	return w, nil
}

// openConsole serves the operators' console, with the same protection as the dashboard.
func (w *Web) openConsole(config Config, base *url.URL) {
	made := *config.Console
	made.Sessions = newOperators(made.Accounts, made.Operators, config.Ring, config.Dashboard.URL)
	made.Visit = config.Dashboard.Sessions.Start
	w.console = console.New(made)
	pages := headers(secure(config.Dashboard.URL), sameOrigin(base, w.console.Fail, w.console))
	handler := record(made.Log, made.Now, config.ObserveConsole, w.console, pages)
	w.mux.Handle(path.ConsoleHome(), handler)
	w.mux.Handle(path.ConsoleHome()+"/", handler)
}

// ConsoleRoutes is the console's table of routes.
func (w *Web) ConsoleRoutes() []console.Route {
	if w.console == nil {
		return nil
	}
	return w.console.Routes()
}

func (w *Web) ServeHTTP(out http.ResponseWriter, r *http.Request) { w.mux.ServeHTTP(out, r) }

// Routes is the dashboard's table of routes.
func (w *Web) Routes() []dashboard.Route { return w.pages.Routes() }

// Close ends the live pages and what inboxes answer slowly, so that the server can stop. Other requests go on.
func (w *Web) Close() {
	w.inboxes.end()
	w.pages.Close()
	if w.console != nil {
		w.console.Close()
	}
}
