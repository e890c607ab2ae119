package api

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
	"waybill/app/limit"
	"waybill/app/outbox"
	"waybill/app/plain"
	"waybill/db"
)

// PublishBody is the body of POST /v1/events: one event, or events with up to 1,000. It only documents: the bytes of data are to be kept as
// they are, so the body is read by hand.
type PublishBody struct {
	PublishEvent
	Events []PublishEvent `json:"events,omitempty" minItems:"1" maxItems:"1000" description:"Instead of the members of one event: several, published all or none."`
}

// PublishEvent is one event to publish.
type PublishEvent struct {
	ID         string          `json:"id,omitempty" pattern:"^[A-Za-z0-9_-]{1,64}$" description:"Your own id for the event, with which it is published once, however often you send it. Left out, one is made."`
	Tenant     string          `json:"tenant,omitempty" description:"The tenant's uid. Required."`
	Type       string          `json:"type,omitempty" maxLength:"128" description:"Required." examples:"[\"consignment.delivered\"]"`
	Resource   PublishResource `json:"resource,omitempty" description:"What it happened to. Required."`
	Sequence   *int64          `json:"sequence,omitempty" minimum:"0" maximum:"9007199254740991" description:"Grows with every change of the resource; left out, the next one is given."`
	Version    *int            `json:"version,omitempty" minimum:"1" maximum:"1000000" default:"1" description:"Of the schema of data."`
	OccurredAt *time.Time      `json:"occurred_at,omitempty" description:"Left out, it is now."`
	Data       jsontext.Value  `json:"data,omitempty" description:"JSON of up to 262,144 bytes, 64 levels deep, sent on byte for byte. Required."`
}

// PublishResource names what an event happened to.
type PublishResource struct {
	Type string `json:"type" required:"true" pattern:"^[A-Za-z0-9_.-]{1,64}$" examples:"[\"consignment\"]"`
	ID   string `json:"id" required:"true" minLength:"1" maxLength:"200" examples:"[\"C-4471\"]"`
}

// Published is what became of the events of one call, in their order.
type Published struct {
	Events []PublishedEvent `json:"events" required:"true"`
}

// PublishedEvent is one of them.
type PublishedEvent struct {
	ID       string `json:"id" required:"true"`
	Repeated bool   `json:"repeated" required:"true" description:"It had been published before, with the same content; nothing was done."`
}

func (a *API) publishRoutes() []Route {
	return []Route{{
		Name: "EventPublish", Method: http.MethodPost, Pattern: "/v1/events", Audience: ForPlatform, Scope: account.EventsPublish,
		Summary: "Publish events",
		Detail: "All or none. The same id again with the same content publishes nothing and returns the id; with another content it is a conflict. " +
			"Data of a type whose schema is enforced must match it. A tenant may have limits (PUT /v1/tenants/{uid}): a call that would go beyond one is refused as a whole, " +
			"with 429 for events a second or a day and 413 for a payload. What is published in SQL is never refused for them: it is counted and announced.",
		Body: PublishBody{}, MaxBody: PublishMaxBody,
		Answers: []Answer{{http.StatusAccepted, Published{}}, {http.StatusOK, Published{}}}, Faults: []fault.Kind{fault.Conflict, fault.RateLimited},
		Handle: a.eventPublish,
	}}
}

// eventPublish answers 202, or 200 when every event had been published before.
func (a *API) eventPublish(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	text, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	events, err := readEvents(text)
	if err != nil {
		return err
	}
	if err := a.Types.Enforce(r.Context(), each(events, func(e outbox.Event) catalog.Payload {
		return catalog.Payload{Type: e.Type, Version: e.Version, Data: e.Data}
	})); err != nil {
		return err
	}
	if err := a.admit(w, r, events); err != nil {
		return err
	}
	published, err := a.publish(r, events)
	if err != nil {
		return err
	}
	status, body := http.StatusOK, Published{Events: make([]PublishedEvent, len(published))}
	for i, event := range published {
		body.Events[i] = PublishedEvent{ID: event.ID, Repeated: event.Repeated}
		if !event.Repeated {
			status = http.StatusAccepted
		}
	}
	return WriteJSON(w, status, body)
}

// admit refuses what would take a tenant beyond its limits, and says when to come again.
func (a *API) admit(w http.ResponseWriter, r *http.Request, events []outbox.Event) error {
	wait, err := a.Limits.Admit(r.Context(), each(events, func(e outbox.Event) limit.Event { return limit.Event{Tenant: e.Tenant, Bytes: len(e.Data)} }))
	if err != nil && wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return err
}

// publish is one statement; with an Idempotency-Key, that the call was carried out is committed with it.
func (a *API) publish(r *http.Request, events []outbox.Event) (published []outbox.Published, err error) {
	if r.Header.Get(idempotencyHeader) == "" {
		return outbox.Publish(r.Context(), a.DB, events...)
	}
	err = db.Tx(r.Context(), a.DB, func(tx pgx.Tx) error {
		published, err = outbox.Publish(r.Context(), tx, events...)
		return err
	})
	return published, err
}

// readEvents reads the envelope as strictly as any body, and cuts each data out of the text as it stands: duplicate names, large numbers, \u0000
// and lone surrogates in it are the publisher's.
func readEvents(text []byte) ([]outbox.Event, error) {
	if len(text) == 0 {
		return nil, fault.New(fault.Malformed, "A JSON body is missing.")
	}
	if !utf8.Valid(text) {
		return nil, fault.New(fault.Malformed, "The body is not valid UTF-8.")
	}
	e := &envelope{
		text:    text,
		decoder: jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
		wrong:   fault.New(fault.Invalid, "The body is not valid."),
	}
	events, err := e.read()
	if err != nil {
		return nil, err
	}
	return events, e.wrong.OrNil()
}

// envelope is a body that is being read.
type envelope struct {
	text    []byte
	decoder *jsontext.Decoder
	wrong   *fault.Error // what is wrong with fields, up to maxWrong of them
}

const maxWrong = 50

func (e *envelope) field(name, why string) {
	if len(e.wrong.Fields) < maxWrong {
		e.wrong.Field(name, why)
	}
}

func (e *envelope) read() ([]outbox.Event, error) {
	if e.decoder.PeekKind() != '{' {
		if _, err := e.value("body"); err != nil {
			return nil, err
		}
		return nil, fault.New(fault.Invalid, "The body must be an object: an event, or events with a list of them.").Field("body", "must be an object")
	}
	var one outbox.Event
	var several []outbox.Event
	given, err := e.object("", func(name string) error {
		if name == "events" {
			var err error
			several, err = e.list()
			return err
		}
		return e.member(&one, "", name)
	})
	if err != nil {
		return nil, err
	}
	if _, err := e.decoder.ReadToken(); err != io.EOF {
		return nil, fault.New(fault.Malformed, "There is something behind the JSON value.")
	}
	if given["events"] {
		for name := range given {
			if name != "events" {
				e.field(name, "cannot stand beside events")
			}
		}
		return several, nil
	}
	e.require("", given)
	return []outbox.Event{one}, nil
}

// list reads the items of events, and gives up at the first one too many.
func (e *envelope) list() ([]outbox.Event, error) {
	if e.decoder.PeekKind() != '[' {
		e.field("events", "must be an array")
		_, err := e.value("events")
		return nil, err
	}
	if _, err := e.decoder.ReadToken(); err != nil {
		return nil, e.unreadable(err, "events")
	}
	var events []outbox.Event
	for e.decoder.PeekKind() != ']' {
		if len(events) == outbox.MaxBatch {
			return nil, fault.New(fault.Invalid, "There are too many events.").Field("events", fmt.Sprintf("must have at most %d items", outbox.MaxBatch))
		}
		event, err := e.item(fmt.Sprintf("events[%d]", len(events)))
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	if len(events) == 0 {
		e.field("events", fmt.Sprintf("must have 1 to %d items", outbox.MaxBatch))
	}
	_, err := e.decoder.ReadToken()
	return events, e.unreadable(err, "events")
}

func (e *envelope) item(at string) (outbox.Event, error) {
	var event outbox.Event
	if e.decoder.PeekKind() != '{' {
		if _, err := e.value(at); err != nil {
			return event, err
		}
		e.field(at, "must be an object")
		return event, nil
	}
	given, err := e.object(at+".", func(name string) error { return e.member(&event, at+".", name) })
	if err != nil {
		return event, err
	}
	e.require(at+".", given)
	return event, nil
}

// object reads an object, calling read for each value, and returns the names that were given. Names are unique and case counts.
func (e *envelope) object(at string, read func(name string) error) (map[string]bool, error) {
	if _, err := e.decoder.ReadToken(); err != nil {
		return nil, e.unreadable(err, at)
	}
	given := map[string]bool{}
	for e.decoder.PeekKind() != '}' {
		token, err := e.decoder.ReadToken()
		if err != nil {
			return nil, e.unreadable(err, at)
		}
		name := token.String()
		if given[name] {
			e.field(at+shortName(name), "is given twice")
		}
		given[name] = true
		if err := read(name); err != nil {
			return nil, err
		}
		if len(given) > 100 {
			return nil, fault.New(fault.Invalid, "The body has far too many members.").Field(at+shortName(name), "is not known here")
		}
	}
	_, err := e.decoder.ReadToken()
	return given, e.unreadable(err, at)
}

func shortName(name string) string {
	if len(name) <= 100 {
		return name
	}
	return string(bytes.ToValidUTF8([]byte(name[:100]), nil)) + "…"
}

func (e *envelope) require(at string, given map[string]bool) {
	for _, name := range []string{"tenant", "type", "resource", "data"} {
		if !given[name] {
			e.field(at+name, "is missing")
		}
	}
}

// member reads one member of an event.
func (e *envelope) member(event *outbox.Event, at, name string) error {
	switch name {
	case "id":
		return e.decode(&event.ID, at+name, "must be a string")
	case "tenant":
		return e.decode(&event.Tenant, at+name, "must be a string")
	case "type":
		return e.decode(&event.Type, at+name, "must be a string")
	case "sequence":
		return e.decode(&event.Sequence, at+name, "must be a whole number from 0 to 9007199254740991")
	case "version":
		return e.version(event, at+name)
	case "occurred_at":
		return e.decode(&event.OccurredAt, at+name, `must be a time such as "2026-11-17T09:41:05.123Z"`)
	case "resource":
		return e.resource(event, at)
	case "data":
		var err error
		event.Data, err = e.value(at + name)
		if plain.Depth(event.Data) > outbox.MaxDepth {
			e.field(at+name, tooDeep)
		}
		return err
	}
	e.field(at+shortName(name), "is not known here")
	_, err := e.value(at + shortName(name))
	return err
}

func (e *envelope) version(event *outbox.Event, at string) error {
	var version *int
	if err := e.decode(&version, at, "must be a whole number from 1 to 1000000"); err != nil || version == nil {
		return err
	}
	if event.Version = *version; event.Version < 1 || event.Version > 1_000_000 {
		e.field(at, "must be a whole number from 1 to 1000000")
	}
	return nil
}

func (e *envelope) resource(event *outbox.Event, at string) error {
	if e.decoder.PeekKind() != '{' {
		e.field(at+"resource", "must be an object with type and id")
		_, err := e.value(at + "resource")
		return err
	}
	given, err := e.object(at+"resource.", func(name string) error {
		switch name {
		case "type":
			return e.decode(&event.ResourceType, at+"resource.type", "must be a string")
		case "id":
			return e.decode(&event.ResourceID, at+"resource.id", "must be a string")
		}
		e.field(at+"resource."+shortName(name), "is not known here")
		_, err := e.value(at + "resource." + shortName(name))
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"type", "id"} {
		if !given[name] {
			e.field(at+"resource."+name, "is missing")
		}
	}
	return nil
}

// decode reads a small value into a pointer, strictly: here a lone surrogate is no text.
func (e *envelope) decode(into any, at, why string) error {
	raw, err := e.value(at)
	if err != nil {
		return err
	}
	if json.Unmarshal(raw, into) != nil {
		e.field(at, why)
	}
	return nil
}

var tooDeep = fmt.Sprintf("must nest at most %d levels deep", outbox.MaxDepth)

// value is the next value's own bytes, from its first to its last.
func (e *envelope) value(at string) ([]byte, error) {
	value, err := e.decoder.ReadValue()
	if err != nil {
		return nil, e.unreadable(err, at)
	}
	end := e.decoder.InputOffset()
	return e.text[end-int64(len(value)) : end : end], nil
}

// unreadable says where the JSON breaks off, or that it nests deeper than anybody would read.
func (e *envelope) unreadable(err error, at string) error {
	if err == nil {
		return nil
	}
	if deepest := plain.Depth(e.text); deepest > 1000 {
		return fault.Wrap(fault.Invalid, "The body nests too deep.", err).Field(at, tooDeep)
	}
	return decodeFault(err)
}
