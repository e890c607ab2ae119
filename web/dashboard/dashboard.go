// Package dashboard serves the pages on which a tenant's people run their webhooks.
//
// It promises that every address stands in one table with whom it serves; that nothing but the pages for signing in is
// shown to anyone who is not signed in, and nothing of another tenant to anyone; that a page works without scripts, an action is a
// POST answered by a redirect, and a form that was refused comes back with what was typed; that a page is written whole or not at
// all; and that a database that cannot answer is said to be that, never a missing right or an empty list.
//
// Handlers parse, call an operation and show what it returned. The rules are in the operations, the words in web/page.
package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/inbox"
	"waybill/app/limit"
	"waybill/app/notice"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/app/sender"
	"waybill/web/reference"
	"waybill/web/ui"
)

// Config is what the dashboard is made of. All fields but the last four are required.
type Config struct {
	URL      string // the public address, without a slash at the end
	Platform string // who the sellers came from, for the page behind a portal link: "your platform"
	Log      *slog.Logger
	Now      func() time.Time
	Sessions Sessions

	Accounts   *account.Service
	Endpoints  *endpoint.Service
	Types      *catalog.Types
	Events     *catalog.Events
	Deliveries *delivery.Service
	Inboxes    *inbox.Service
	Limits     *limit.Service // of single tenants
	Policies   policy.Set
	Check      Check

	JSON JSON // what is copied as JSON; set by package web

	Rollups bool     // attempts are counted as they are recorded: there are charts
	Sources []string // the addresses that events are sent from, where they are known

	Reference func() reference.API // what the documentation says of the API; nil: nothing

	Mailbox *notice.Outbox // shows the mails of all tenants to everybody: for development alone; nil: there is no such page
	NoMail  bool           // nobody sends mails, or can read them
}

// Check tries an endpoint's URL on the way that events take, without sending one. It is (*sender.Sender).CheckConnection.
type Check func(ctx context.Context, url string, timeout time.Duration) []sender.Step

// JSON writes things as the API shows them.
type JSON struct {
	Delivery func(delivery.Delivery) ([]byte, error)
	Attempt  func(delivery.Attempt) ([]byte, error)
}

// Sessions is how a browser shows who it is, and what its next page is to tell.
type Sessions interface {
	// Caller is who is signed in; an Unauthenticated fault if nobody is. An error of any other kind says nothing about that.
	Caller(r *http.Request) (account.Caller, error)
	// Start signs the browser in with a session's token, for as long as life.
	Start(w http.ResponseWriter, r *http.Request, token seal.Secret, life time.Duration) error
	// Half keeps the token of a sign-in that a code has yet to follow, for as long as life or until Start.
	Half(w http.ResponseWriter, token seal.Secret, life time.Duration)
	// Halfway is that token, or empty.
	Halfway(r *http.Request) string
	// End forgets whatever the browser held.
	End(w http.ResponseWriter, r *http.Request) error
	// Say leaves a note for the session's next page.
	Say(w http.ResponseWriter, r *http.Request, sessionID string, note Note) error
	// Said is the note that was left, and takes it away.
	Said(w http.ResponseWriter, r *http.Request, sessionID string) (Note, bool)
}

// Note is what the page after a redirect tells once. It travels sealed in a cookie.
type Note struct {
	Tone ui.Tone
	Text string
	Link ui.Link // where to go on from here; optional

	About  string // the id of what Secret belongs to
	Secret string // a text that is shown once: a new API key, a signing secret
}

// Dashboard answers requests for pages. It is an http.Handler for everything that is neither API nor asset.
type Dashboard struct {
	Config
	mux *http.ServeMux
	// reference is made when it is first asked for.
	reference func() reference.API
	live      *hub
}

// New makes the dashboard. It panics when the table of routes contradicts itself: that is a mistake in the program.
func New(config Config) *Dashboard {
	d := &Dashboard{Config: config, mux: http.NewServeMux()}
	d.reference = sync.OnceValue(func() reference.API {
		if config.Reference == nil {
			return reference.API{URL: config.URL}
		}
		return config.Reference()
	})
	d.live = newHub(config.Log, config.Now, config.Accounts.SessionsAlive)
	for _, route := range d.Routes() {
		d.mux.Handle(route.Method+" "+route.Pattern, d.handler(route))
	}
	return d
}

// Close ends all streams; no new ones begin. Everything else goes on.
func (d *Dashboard) Close() { d.live.close() }
