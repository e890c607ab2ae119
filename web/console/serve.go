package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// requestTimeout ends what a page may take in all.
const requestTimeout = 30 * time.Second

// pageRows is how many rows a list has.
const pageRows = 50

// ServeHTTP answers a request; what no route takes is not found.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := c.mux.Handler(r); pattern != "" {
		c.mux.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/console/" {
		_ = c.redirect(w, path.ConsoleHome())
		return
	}
	c.Fail(w, r, fault.New(fault.NotFound, ""))
}

// Pattern is the pattern of the route that answers r, without the method; empty if none does.
func (c *Console) Pattern(r *http.Request) string {
	_, pattern := c.mux.Handler(r)
	return pattern[strings.IndexByte(pattern, ' ')+1:]
}

func (c *Console) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.Stream {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout)) // a recorder in a test has none
		}
		if err := c.answer(w, r, route); err != nil {
			c.Fail(w, r, err)
		}
	})
}

// answer takes a request through who asks and whether the question can be read, and then to the handler.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, route Route) error {
	if !dashboard.Readable(r) {
		return fault.New(fault.Malformed, "The address holds characters that no address of ours has.")
	}
	var who operator.Session
	if route.Audience != ForGuest {
		var err error
		if who, err = c.Sessions.Operator(r); err != nil {
			return c.turnAway(w, r, route, err)
		}
		dashboard.RecordOf(r).Caller = who.Caller
	}
	if r.Method == http.MethodPost && route.Method != "" {
		if err := dashboard.ReadForm(w, r); err != nil {
			return err
		}
	}
	return route.Handle(w, r, who)
}

// turnAway sends who is not signed in to where one signs in, and back afterwards.
func (c *Console) turnAway(w http.ResponseWriter, r *http.Request, route Route, err error) error {
	if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	if err := c.Sessions.End(w, r); err != nil {
		return err
	}
	if page := r.Header.Get("Sec-Fetch-Dest"); route.Stream || route.Method == "" && page != "" && page != "document" {
		http.Error(w, "The session has ended.", http.StatusUnauthorized)
		return nil
	}
	to := path.ConsoleSignIn()
	if r.Method == http.MethodGet && r.URL.Path != path.ConsoleHome() {
		to += "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	return c.redirect(w, to)
}

// Fail shows err as a page, unless there is nobody left to read it.
func (c *Console) Fail(w http.ResponseWriter, r *http.Request, err error) {
	record := dashboard.RecordOf(r)
	record.Err = err
	if errors.Is(err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled) {
		return
	}
	shown := dashboard.FaultOf(err)
	sheet := page.ConsoleError{Title: titles[shown.Kind], Detail: shown.Detail, Request: record.ID}
	if sheet.Title == "" {
		sheet.Title = "This did not work"
	}
	if shown.Kind == fault.Internal || shown.Kind == fault.Unavailable {
		sheet.Detail = ""
	}
	for _, field := range shown.Fields {
		sheet.Detail += " " + field.Name + " " + field.Detail + "."
	}
	frame := ui.Frame{}
	if shown.Kind != fault.Unavailable {
		if who, err := c.Sessions.Operator(r); err == nil {
			frame, sheet.Signed = c.view(r, who).frame, true
		}
	}
	if err := dashboard.Write(w, r, shown.Kind.Status(), sheet, frame); err != nil {
		record.Err = errors.Join(record.Err, err)
		http.Error(w, "Something broke on our side. Request "+record.ID, http.StatusInternalServerError)
	}
}

var titles = map[fault.Kind]string{
	fault.NotFound: "There is nothing here", fault.Forbidden: "You may not do this", fault.Unavailable: "The database does not answer now",
	fault.Internal: "Something broke on our side", fault.Conflict: "That does not fit what is stored", fault.Malformed: "That address cannot be read",
}

// view is what every page of an operator is shown with.
type view struct {
	who   operator.Session
	clock ui.Clock
	frame ui.Frame
	told  dashboard.Note
}

func (c *Console) view(r *http.Request, who operator.Session) view {
	return view{who: who, clock: ui.Clock{Now: c.Now(), Zone: time.UTC}, frame: ui.Frame{
		Tenant: "Operator console", Zone: "UTC", Theme: dashboard.Theme(r), Role: map[operator.Role]string{operator.Admin: "Admin", operator.Support: "Support"}[who.Role],
		Member: who.Email, Console: true, Admin: who.Role == operator.Admin,
	}}
}

// hear takes the note that was left for this page.
func (c *Console) hear(w http.ResponseWriter, r *http.Request, v *view) {
	if note, ok := c.Sessions.Said(w, r, v.who.ID); ok {
		v.told = note
		if note.Text != "" {
			v.frame.Flash = &ui.Flash{Tone: note.Tone, Text: note.Text, Link: note.Link}
		}
	}
}

// show shows a page to who is signed in.
func (c *Console) show(w http.ResponseWriter, r *http.Request, v view, status int, p page.Page) error {
	if v.told == (dashboard.Note{}) {
		c.hear(w, r, &v)
	}
	return dashboard.Write(w, r, status, p, v.frame)
}

func (c *Console) redirect(w http.ResponseWriter, to string) error {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// done leaves a note for the next page and goes there.
func (c *Console) done(w http.ResponseWriter, r *http.Request, who operator.Session, to string, note dashboard.Note) error {
	if note.Tone == "" {
		note.Tone = ui.Good
	}
	if err := c.Sessions.Say(w, r, who.ID, note); err != nil {
		return err
	}
	return c.redirect(w, to)
}

// field is a form's field without the spaces around it.
func field(r *http.Request, name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }

// statusOf is the status of a form that comes back.
func statusOf(err error) int { return dashboard.FaultOf(err).Kind.Status() }

// may is nil for whoever may do what a page asks about, so that nobody is asked who is refused afterwards.
func may(who operator.Session, scope account.Scope) error { return who.Caller.Can(scope) }

// pager is what stands below a list of n rows: first and next are its addresses, each if not empty.
func pager(n int, one, many, first, next string) ui.Pager {
	shown := ui.Count(int64(n), one, many)
	if first != "" || next != "" {
		shown += " on this page"
	}
	return ui.Pager{Shown: shown, First: first, Next: next}
}

// upTo is a count that ended at most.
func upTo(n, most int) string {
	if n >= most {
		return ui.Number(int64(most)) + " or more"
	}
	return ui.Number(int64(n))
}

// optional is an instant that may be missing.
func optional(clock ui.Clock, at *time.Time) ui.Moment {
	if at == nil {
		return ui.Moment{}
	}
	return clock.Moment(*at)
}
