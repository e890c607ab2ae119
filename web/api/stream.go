package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
)

// How streams are kept.
const (
	streamChunk = 64 << 10        // bytes of one write
	streamRetry = 2 * time.Second // after which readers come back, and up to as much again, so that they do not come at once
)

// streamTimes are the patience of streams. Tests have less.
type streamTimes struct {
	beat   time.Duration // shorter than the patience of proxies
	within time.Duration // one write, or the reader is gone
	life   time.Duration // then the reader connects anew, perhaps to another process
}

var usualStreams = streamTimes{beat: 15 * time.Second, within: 10 * time.Second, life: time.Hour}

// EventStreamQuery are the parameters of the stream of events.
type EventStreamQuery struct {
	EventFilterQuery
	After string `query:"after" pattern:"^[A-Za-z0-9_-]+$" maxLength:"512" description:"A cursor of the list or of a stream to go on behind. Left out, the stream begins now, or with since."`
	Last  int    `query:"last" minimum:"0" maximum:"1000" description:"Without a cursor: begin with the last so many events that match."`
}

func (a *API) streamRoutes() []Route {
	return []Route{{
		Name: "EventStream", Method: http.MethodGet, Pattern: "/v1/events/stream", Audience: ForTenant, Scope: account.CatalogRead,
		Summary: "Follow events as they happen",
		Detail: "Server-sent events: each message is one event, in `data` as endpoints are sent it (a line end between its tokens arrives as a line feed), and its `id` " +
			"is the cursor behind it. A client that connects again with `Last-Event-ID`, as browsers do by themselves, misses nothing and sees nothing twice; the " +
			"header goes before `after`. Cursors are those of the list of events, and age as they do. A comment comes every 15 seconds. A stream ends after an hour, when a " +
			"write cannot be finished within 10 seconds, when its key is revoked or expires, and when we restart: `retry` says when to come back.",
		Query: EventStreamQuery{}, Answers: []Answer{{http.StatusOK, Messages("")}}, Faults: []fault.Kind{fault.Malformed, fault.CursorExpired},
		Stream: true, Handle: a.eventStream,
	}}
}

// Messages stands for server-sent events in the OpenAPI document.
type Messages string

func (a *API) eventStream(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[EventStreamQuery](r)
	if err != nil {
		return err
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		query.After = id
	}
	stream, err := a.Events.Follow(r.Context(), caller, query.filter(), catalog.Start{After: query.After, Last: query.Last})
	if err != nil {
		return err
	}
	defer stream.Close()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	out := &messages{w: w, control: http.NewResponseController(w), within: a.streams.within}
	why := a.streamTo(r.Context(), stream, out)
	switch {
	case errors.Is(why, errGone) && out.slow:
		a.Log.Info("a reader of a stream does not read, and is let go", "request_id", requestOf(r).id, "tenant_id", caller.Tenant())
	case errors.Is(why, catalog.ErrKeyEnded):
		out.note("the key was revoked or has expired")
	case why != nil && r.Context().Err() == nil:
		out.note("connect again")
	}
	out.flush()
	for _, usual := range []error{errGone, errLife, catalog.ErrStopping, catalog.ErrKeyEnded} {
		if errors.Is(why, usual) {
			return nil
		}
	}
	return why
}

var (
	errGone = errors.New("the reader of a stream has gone, or does not read")
	errLife = errors.New("the stream has had its time")
)

// streamTo writes the stream until something ends it, and says what.
func (a *API) streamTo(ctx context.Context, stream *catalog.Stream, out *messages) error {
	out.greet(stream.Cursor())
	if !out.flush() {
		return errGone
	}
	end := time.Now().Add(a.streams.life + rand.N(a.streams.life/10))
	for time.Now().Before(end) {
		waiting, cancel := context.WithTimeout(ctx, a.streams.beat)
		events, err := stream.Next(waiting)
		cancel()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, event := range events {
			if !out.event(event) {
				return errGone
			}
		}
		if len(events) == 0 {
			out.beat(stream.Cursor())
		}
		if !out.flush() {
			return errGone
		}
	}
	return errLife
}

// messages writes server-sent events (HTML Living Standard, section 9.2), some at a time, each write with its own deadline.
type messages struct {
	w       http.ResponseWriter
	control *http.ResponseController
	within  time.Duration
	text    bytes.Buffer
	broken  bool
	slow    bool // and that because the reader does not read
}

// greet tells when to come back, and the cursor to come back with: a message without data is none, and sets the last id.
func (m *messages) greet(cursor string) {
	fmt.Fprintf(&m.text, "retry: %d\nid: %s\n\n", (streamRetry + rand.N(streamRetry)).Milliseconds(), cursor)
}

func (m *messages) beat(cursor string) { fmt.Fprintf(&m.text, ": beat\nid: %s\n\n", cursor) }

func (m *messages) note(text string) { fmt.Fprintf(&m.text, ": %s\n\n", text) }

func (m *messages) event(e catalog.Followed) bool {
	m.text.WriteString("id: ")
	m.text.WriteString(e.Cursor)
	m.text.WriteString("\ndata: ")
	body := e.Body
	for {
		at := bytes.IndexAny(body, "\r\n")
		if at < 0 {
			break
		}
		m.text.Write(body[:at])
		m.text.WriteString("\ndata: ")
		if body[at] == '\r' && at+1 < len(body) && body[at+1] == '\n' {
			at++
		}
		body = body[at+1:]
	}
	m.text.Write(body)
	m.text.WriteString("\n\n")
	return m.text.Len() < streamChunk || m.flush()
}

// flush sends what there is, and says whether the reader took it.
func (m *messages) flush() bool {
	if m.broken {
		return false
	}
	_ = m.control.SetWriteDeadline(time.Now().Add(m.within)) // where there is no connection to set it on, in tests, there is no slow reader either
	_, err := m.w.Write(m.text.Bytes())
	m.text.Reset()
	if err == nil {
		err = m.control.Flush()
	}
	m.broken, m.slow = err != nil, errors.Is(err, os.ErrDeadlineExceeded)
	return !m.broken
}
