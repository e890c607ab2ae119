package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/db"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	// requestTimeout ends what a page may take in all, the reading of its form included.
	requestTimeout = 30 * time.Second
	// maxForm is the most that a form may have: a test event's payload, every byte of it escaped, fits.
	maxForm = 1 << 20
)

// Record is what is known of a request while it is answered, for whoever logs it.
type Record struct {
	ID     string // req_…
	Caller account.Caller
	Err    error // what the answer was made from, when that was an error
}

type recordKey struct{}

// WithRecord gives a request the record that the dashboard is to fill.
func WithRecord(ctx context.Context, record *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, record)
}

// recordOf is the request's own record. It says nothing about rights.
func recordOf(r *http.Request) *Record {
	if record, ok := r.Context().Value(recordKey{}).(*Record); ok {
		return record
	}
	return &Record{}
}

// ServeHTTP answers a request; what no route takes is answered with a page, too.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, pattern := d.mux.Handler(r)
	if pattern != "" {
		d.mux.ServeHTTP(w, r)
		return
	}
	probe := &discarded{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", probe.header.Get("Allow"))
		d.showError(w, r, page.Error{Status: probe.status})
		return
	}
	if probe.status >= 300 && probe.status < 400 {
		handler.ServeHTTP(w, r) // to the clean spelling of the path
		return
	}
	d.fail(w, r, fault.New(fault.NotFound, ""))
}

// Pattern is the pattern of the route that answers r, without the method; empty if none does.
func (d *Dashboard) Pattern(r *http.Request) string {
	_, pattern := d.mux.Handler(r)
	return pattern[strings.IndexByte(pattern, ' ')+1:]
}

// handler is the route's http.Handler.
func (d *Dashboard) handler(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.Stream {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout)) // a recorder in a test has none
		}
		if err := d.answer(w, r, route); err != nil {
			d.fail(w, r, err)
		}
	})
}

// answer takes a request through who asks and whether the question can be read, and then to the handler.
func (d *Dashboard) answer(w http.ResponseWriter, r *http.Request, route Route) error {
	if !readable(r) {
		return fault.New(fault.Malformed, "The address holds characters that no address of ours has.")
	}
	var caller account.Caller
	if route.Audience != ForGuest {
		var err error
		if caller, err = d.Sessions.Caller(r); err != nil {
			return d.turnAway(w, r, route, err)
		}
		recordOf(r).Caller = caller
		r = asTenant(r, caller)
		if caller.MustSetUp && !forSetUp(route) {
			return d.leadToSetUp(w, r, route)
		}
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := readForm(r); err != nil {
			return err
		}
	}
	return route.Handle(w, r, caller)
}

// asTenant lets a request see the rows of the caller's tenant and no others.
func asTenant(r *http.Request, caller account.Caller) *http.Request {
	return r.WithContext(db.AsTenant(r.Context(), caller.Tenant()))
}

// turnAway sends who is not signed in to where one signs in, and back afterwards.
func (d *Dashboard) turnAway(w http.ResponseWriter, r *http.Request, route Route, err error) error {
	if fault.KindOf(err) != fault.Unauthenticated {
		return err
	}
	if err := d.Sessions.End(w, r); err != nil {
		return err
	}
	if route.Stream {
		http.Error(w, "The session has ended.", http.StatusUnauthorized) // an EventSource gives up on that
		return nil
	}
	next := ""
	if r.Method == http.MethodGet && r.URL.Path != path.Overview() {
		next = r.URL.RequestURI()
	}
	return d.redirect(w, r, withQuery(path.SignIn(), "next", next))
}

// readable says whether path and query are text that can be looked for: no control characters, nothing that is no UTF-8.
func readable(r *http.Request) bool {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !plainText(r.URL.Path, "") {
		return false
	}
	for name, values := range query {
		for _, value := range append(values, name) {
			if !plainText(value, "") {
				return false
			}
		}
	}
	return true
}

// plainText says whether s is UTF-8 without control characters other than those allowed.
func plainText(s, allowed string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune(allowed, r)
	})
}

// readForm parses the body of a POST.
func readForm(r *http.Request) error {
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fault.New(fault.TooLarge, "The form is larger than 1 MB.")
	case err != nil:
		return fault.Wrap(fault.Malformed, "The form could not be read.", err)
	}
	for _, values := range r.PostForm {
		for _, value := range values {
			if !plainText(value, "\r\n\t") {
				return fault.New(fault.Malformed, "The form holds characters that cannot be stored: control characters, or text that is no UTF-8.")
			}
		}
	}
	return nil
}

// faultOf is the fault to show for err. A database that cannot answer is unavailable, whatever the operation was about to find out (CASES B61).
func faultOf(err error) *fault.Error {
	if fault.KindOf(err) == fault.Internal && db.IsUnavailable(err) {
		return fault.Wrap(fault.Unavailable, "", err)
	}
	return fault.From(err)
}

// unavailable says whether err is the database's, and may pass.
func unavailable(err error) bool { return err != nil && faultOf(err).Kind == fault.Unavailable }

// Fail shows err as a page. It is for whatever stands before the dashboard and refuses a request.
func (d *Dashboard) Fail(w http.ResponseWriter, r *http.Request, err error) { d.fail(w, r, err) }

// fail shows err as a page, unless there is nobody left to read it.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	recordOf(r).Err = err
	if errors.Is(err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled) {
		return
	}
	shown := faultOf(err)
	if shown.Kind == fault.Unavailable {
		w.Header().Set("Retry-After", "2")
	}
	sheet := page.Error{Status: shown.Kind.Status(), Detail: shown.Detail}
	switch shown.Kind {
	case fault.Internal, fault.NotFound, fault.Unavailable:
		sheet.Detail = "" // the page has its own words, and the same for what is not there and what is another's
	case fault.Invalid:
		for _, field := range shown.Fields {
			sheet.Detail += " " + sentence(field.Name+" "+field.Detail)
		}
	}
	d.showError(w, r, sheet)
}

// showError shows an error in the frame of whoever is signed in, as far as that can be found out now.
func (d *Dashboard) showError(w http.ResponseWriter, r *http.Request, sheet page.Error) {
	record := recordOf(r)
	sheet.Request = record.ID
	if r.Method == http.MethodGet && (sheet.Status >= http.StatusInternalServerError || sheet.Status == http.StatusTooManyRequests) {
		sheet.Again = r.URL.RequestURI()
	}
	frame := ui.Frame{}
	if record.Caller.Kind == "" && sheet.Status < http.StatusInternalServerError {
		if caller, err := d.Sessions.Caller(r); err == nil {
			record.Caller = caller
		}
	}
	if record.Caller.Kind != "" && sheet.Status != http.StatusServiceUnavailable {
		if view, err := d.view(r, record.Caller); err == nil {
			frame, sheet.Signed = view.frame, true
		}
	}
	if err := write(w, r, sheet.Status, sheet, frame); err != nil {
		record.Err = errors.Join(record.Err, err)
		http.Error(w, "Something broke on our side. Request "+record.ID, http.StatusInternalServerError)
	}
}

// show shows a page to who is signed in.
func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, v view, status int, p page.Page) error {
	if note, ok := d.Sessions.Said(w, r, v.caller.ID); ok {
		v.note(note)
	}
	return write(w, r, status, p, v.frame)
}

// showPlain shows a page to a guest.
func (d *Dashboard) showPlain(w http.ResponseWriter, r *http.Request, status int, p page.Page) error {
	return write(w, r, status, p, ui.Frame{})
}

// write renders a page whole, and then sends it.
func write(w http.ResponseWriter, r *http.Request, status int, p page.Page, frame ui.Frame) error {
	var buffer bytes.Buffer
	if err := p.Page(frame).Render(r.Context(), &buffer); err != nil {
		return fmt.Errorf("render %T: %w", p, err)
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(buffer.Len()))
	w.WriteHeader(status)
	_, _ = buffer.WriteTo(w) // an error is the reader's going away
	return nil
}

// writeText answers with text that is never taken for a page, whatever it holds (CASES B58).
func writeText(w http.ResponseWriter, text []byte) error {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	header.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text)
	return nil
}

// redirect is the answer to a POST that did what it was asked.
func (d *Dashboard) redirect(w http.ResponseWriter, _ *http.Request, to string) error {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// done leaves a note for the next page and goes there.
func (d *Dashboard) done(w http.ResponseWriter, r *http.Request, caller account.Caller, to string, note Note) error {
	if note.Tone == "" {
		note.Tone = ui.Good
	}
	if err := d.Sessions.Say(w, r, caller.ID, note); err != nil {
		return err
	}
	return d.redirect(w, r, to)
}

func withQuery(to, name, value string) string {
	if value == "" {
		return to
	}
	return to + "?" + url.Values{name: {value}}.Encode()
}

// sentence makes words that follow a field's name one.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(words)
	words = string(unicode.ToUpper(first)) + words[size:]
	if !strings.HasSuffix(words, ".") {
		words += "."
	}
	return words
}

// discarded is a response nobody gets.
type discarded struct {
	header http.Header
	status int
}

func (d *discarded) Header() http.Header         { return d.header }
func (d *discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d *discarded) WriteHeader(status int)      { d.status = status }
