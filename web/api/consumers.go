package api

import (
	"net/http"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
)

// Consumer is a named reader whose cursor we keep.
type Consumer struct {
	Name       string     `json:"name" required:"true" examples:"[\"warehouse\"]"`
	Types      []string   `json:"types" required:"true" nullable:"false" description:"Event types and prefixes as order.*; empty: all."`
	Cursor     *string    `json:"cursor" required:"true" description:"Everything up to it is acknowledged; null: nothing is, and it begins with the oldest event that is kept."`
	LeaseUntil *time.Time `json:"lease_until" required:"true" description:"A reader is at work until then at the longest; null: none is."`
	AckedAt    *time.Time `json:"acked_at" required:"true"`
	CreatedAt  time.Time  `json:"created_at" required:"true"`
	UpdatedAt  time.Time  `json:"updated_at" required:"true"`
}

// ConsumerPlace is where a consumer is put.
type ConsumerPlace struct {
	At     string     `json:"at,omitempty" enum:"start,now" description:"start: with the oldest event that is kept; now: with what is dispatched from now on."`
	Cursor string     `json:"cursor,omitempty" maxLength:"512" description:"Behind a cursor of any list, stream or consumer."`
	Time   *time.Time `json:"time,omitempty" description:"With what was dispatched at this time or later."`
}

// ConsumerPut is the body that makes or changes a consumer.
type ConsumerPut struct {
	Types []string      `json:"types,omitempty" maxItems:"50" description:"Event types and prefixes as order.*; left out: all."`
	From  ConsumerPlace `json:"from,omitempty" description:"Where a new one begins; now, if left out. An existing one stays where it is."`
}

// ConsumerNext is the body that asks for events.
type ConsumerNext struct {
	Limit        *int `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"50"`
	LeaseSeconds *int `json:"lease_seconds,omitempty" minimum:"1" maximum:"3600" default:"60" description:"How long no other reader is handed anything; until the last event is acknowledged, at the longest."`
	WaitSeconds  *int `json:"wait_seconds,omitempty" minimum:"0" maximum:"30" default:"0" description:"How long to wait for events when there are none, or another reader is at work."`
}

// ConsumerBatch is what a reader is handed.
type ConsumerBatch struct {
	Data   []ConsumerEvent `json:"data" required:"true" nullable:"false"`
	Cursor *string         `json:"cursor" required:"true" description:"To acknowledge all of it; null: there was nothing."`
	Lease  *ConsumerLease  `json:"lease" required:"true" description:"null: there was nothing."`
	More   bool            `json:"more" required:"true" description:"Whether there may be more at once."`
}

// ConsumerEvent is one event with the cursor behind it.
type ConsumerEvent struct {
	Cursor string `json:"cursor" required:"true" description:"To acknowledge up to this event."`
	Event  Event  `json:"event" required:"true"`
}

// ConsumerLease says for how long a batch is one reader's.
type ConsumerLease struct {
	ID        string    `json:"id" required:"true"`
	ExpiresAt time.Time `json:"expires_at" required:"true"`
}

// ConsumerAck is the body that acknowledges.
type ConsumerAck struct {
	Cursor string `json:"cursor" required:"true" maxLength:"512"`
}

func consumerOf(c catalog.Consumer) Consumer {
	return Consumer{Name: c.Name, Types: append([]string{}, c.Types...), Cursor: orNull(c.Cursor), LeaseUntil: c.LeaseUntil, AckedAt: c.AckedAt,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt}
}

func (a *API) consumerRoutes() []Route {
	const path = "/v1/consumers/{name}"
	route := func(r Route) Route {
		r.Audience, r.Scope = ForTenant, account.CatalogRead
		return r
	}
	return []Route{
		route(Route{
			Name: "ConsumerList", Method: http.MethodGet, Pattern: "/v1/consumers", Summary: "List consumers", Detail: "By name.",
			Query: PageQuery{}, Answers: []Answer{{http.StatusOK, List[Consumer]{}}}, Faults: []fault.Kind{fault.Malformed}, Handle: a.consumerList,
		}),
		route(Route{
			Name: "ConsumerRead", Method: http.MethodGet, Pattern: path, Summary: "Read a consumer",
			Answers: []Answer{{http.StatusOK, Consumer{}}}, Handle: a.consumerRead,
		}),
		route(Route{
			Name: "ConsumerPut", Method: http.MethodPut, Pattern: path, Summary: "Make or change a consumer",
			Detail: "A named reader whose cursor we keep: `next` hands out what is behind it, `ack` moves it on. The name is yours: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.",
			Body:   ConsumerPut{}, Optional: true, Answers: []Answer{{http.StatusOK, Consumer{}}},
			Faults: []fault.Kind{fault.Conflict, fault.CursorExpired}, Handle: a.consumerPut,
		}),
		route(Route{
			Name: "ConsumerDelete", Method: http.MethodDelete, Pattern: path, Summary: "Delete a consumer",
			Answers: []Answer{{http.StatusNoContent, nil}}, Handle: a.consumerDelete,
		}),
		route(Route{
			Name: "ConsumerNext", Method: http.MethodPost, Pattern: path + "/next", Summary: "Take the next events",
			Detail: "The events behind what is acknowledged, in order, under a lease: nobody else is handed any while it lasts. What is not acknowledged by then is handed out " +
				"again, so each event comes at least once.",
			NoKey: "What was handed out and not acknowledged is handed out again by itself.",
			Body:  ConsumerNext{}, Optional: true, Answers: []Answer{{http.StatusOK, ConsumerBatch{}}},
			Faults: []fault.Kind{fault.LeaseHeld, fault.CursorExpired}, Handle: a.consumerNext,
		}),
		route(Route{
			Name: "ConsumerAck", Method: http.MethodPost, Pattern: path + "/ack", Summary: "Acknowledge events",
			Detail: "Everything up to the cursor, which must be one that was handed out. Acknowledging again, or less, changes nothing.",
			Body:   ConsumerAck{}, Answers: []Answer{{http.StatusOK, Consumer{}}}, Faults: []fault.Kind{fault.CursorExpired}, Handle: a.consumerAck,
		}),
		route(Route{
			Name: "ConsumerSeek", Method: http.MethodPost, Pattern: path + "/seek", Summary: "Put a consumer elsewhere",
			Detail: "Back, to have events again, or forward, to pass them over. A lease ends.",
			Body:   ConsumerPlace{}, Answers: []Answer{{http.StatusOK, Consumer{}}}, Faults: []fault.Kind{fault.CursorExpired}, Handle: a.consumerSeek,
		}),
	}
}

func (p ConsumerPlace) place(field string) (catalog.Place, error) {
	at := catalog.Place{Start: p.At == "start", Cursor: p.Cursor}
	given := 0
	if p.Time != nil {
		at.Time = *p.Time
		given++
	}
	for _, text := range []string{p.At, p.Cursor} {
		if text != "" {
			given++
		}
	}
	switch {
	case p.At != "" && p.At != "start" && p.At != "now":
		return at, fault.New(fault.Invalid, "The place is not valid.").Field(field+"at", "must be start or now")
	case given > 1:
		return at, fault.New(fault.Invalid, "The place is not valid.").Field(field+"cursor", "give one of at, cursor and time")
	}
	return at, nil
}

func (a *API) consumerList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[PageQuery](r)
	if err != nil {
		return err
	}
	found, next, err := a.Consumers.List(r.Context(), caller, query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(found, consumerOf), next))
}

func (a *API) consumerRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Consumers.Read(r.Context(), caller, r.PathValue("name"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, consumerOf(found))
}

func (a *API) consumerPut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[ConsumerPut](w, r)
	if err != nil {
		return err
	}
	from, err := body.From.place("from.")
	if err != nil {
		return err
	}
	stored, err := a.Consumers.Put(r.Context(), caller, r.PathValue("name"), body.Types, from)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, consumerOf(stored))
}

func (a *API) consumerDelete(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := a.Consumers.Delete(r.Context(), caller, r.PathValue("name")); err != nil {
		return err
	}
	return WriteNothing(w)
}

func (a *API) consumerNext(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[ConsumerNext](w, r)
	if err != nil {
		return err
	}
	limit, lease, wait := numberOr(body.Limit, 50), seconds(body.LeaseSeconds, 60), seconds(body.WaitSeconds, 0)
	handed, err := a.Consumers.Next(r.Context(), caller, r.PathValue("name"), limit, lease, wait)
	if fault.KindOf(err) == fault.LeaseHeld {
		w.Header().Set("Retry-After", "1")
	}
	if err != nil {
		return err
	}
	return writeBatch(w, handed)
}

// numberOr is a number as it was given; one that was given as 0 is none that is allowed.
func numberOr(given *int, usual int) int {
	switch {
	case given == nil:
		return usual
	case *given == 0:
		return -1
	}
	return *given
}

// seconds is a duration as it was given; more than any limit stays so, and does not wrap.
func seconds(given *int, usual int) time.Duration {
	if given == nil {
		given = &usual
	}
	n := time.Duration(min(max(*given, -1), 1<<20)) * time.Second
	if n == 0 && usual != 0 {
		return -1
	}
	return n
}

// writeBatch writes events as they are kept, to the byte.
func writeBatch(w http.ResponseWriter, handed catalog.Handed) error {
	if handed.Lease == "" {
		return WriteJSON(w, http.StatusOK, ConsumerBatch{Data: []ConsumerEvent{}})
	}
	size := 300
	for _, e := range handed.Events {
		size += len(e.Body) + len(e.Cursor) + 30
	}
	text := append(make([]byte, 0, size), `{"data":[`...)
	for i, e := range handed.Events {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(append(append(text, `{"cursor":"`...), e.Cursor...), `","event":`...), e.Body...), '}')
	}
	text = append(text, `],"cursor":"`+handed.Events[len(handed.Events)-1].Cursor+`","lease":{"id":"`+handed.Lease+`","expires_at":"`+
		handed.Until.UTC().Format(time.RFC3339Nano)+`"},"more":`+strconv.FormatBool(handed.More)+"}\n"...)
	return WriteRaw(w, http.StatusOK, text)
}

func (a *API) consumerAck(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[ConsumerAck](w, r)
	if err != nil {
		return err
	}
	acked, err := a.Consumers.Ack(r.Context(), caller, r.PathValue("name"), body.Cursor)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, consumerOf(acked))
}

func (a *API) consumerSeek(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[ConsumerPlace](w, r)
	if err != nil {
		return err
	}
	if body == (ConsumerPlace{}) {
		if _, err := a.Consumers.Read(r.Context(), caller, r.PathValue("name")); err != nil {
			return err
		}
		return fault.New(fault.Invalid, "The place is not valid.").Field("at", "give one of at, cursor and time")
	}
	to, err := body.place("")
	if err != nil {
		return err
	}
	moved, err := a.Consumers.Seek(r.Context(), caller, r.PathValue("name"), to)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, consumerOf(moved))
}
