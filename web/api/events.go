package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/fault"
)

// Event is an event as endpoints are sent it, byte for byte: it only documents, because the bytes are written as they are kept.
type Event struct {
	ID         string         `json:"id" required:"true" examples:"[\"evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	Type       string         `json:"type" required:"true" examples:"[\"consignment.delivered\"]"`
	Version    int            `json:"version" required:"true" description:"Of the schema of data."`
	Timestamp  time.Time      `json:"timestamp" required:"true" description:"The same as occurred_at."`
	OccurredAt time.Time      `json:"occurred_at" required:"true"`
	Resource   Resource       `json:"resource" required:"true"`
	Sequence   int64          `json:"sequence" required:"true" description:"Grows with every change of the resource."`
	Test       bool           `json:"test,omitempty" description:"true of a test event."`
	Data       jsontext.Value `json:"data" required:"true" description:"As it was published; null of an event whose content was taken out."`
	ExpungedAt *time.Time     `json:"expunged_at,omitempty" description:"When its content was taken out; left out of all others."`
}

// Expunged says of an event that its content was taken out.
type Expunged struct {
	ID         string    `json:"id" required:"true"`
	ExpungedAt time.Time `json:"expunged_at" required:"true"`
	ExpungedBy string    `json:"expunged_by" required:"true" description:"Who did."`
	Cancelled  int       `json:"cancelled" required:"true" description:"Deliveries that this call cancelled: pending, held and undelivered ones."`
}

// EventList is a page of events.
type EventList struct {
	Data []Event `json:"data" required:"true" nullable:"false"`
	Next string  `json:"next" required:"true" description:"The cursor to go on from. There always is one: at the end it leads to what is yet to happen."`
	More bool    `json:"more" required:"true" description:"Whether there may be more at once."`
}

// EventRead is an event with what became of it.
type EventRead struct {
	Event
	SchemaErrors []ProblemField `json:"schema_errors,omitempty" description:"Where it does not match the schema that is enforced of its type now; left out when it does, or none is. Only what was published in SQL, or before, can be so."`
	Deliveries   []Delivery     `json:"deliveries,omitempty" description:"Its deliveries, newest first, up to 200; left out without the right deliveries:read."`
	Why          []Why          `json:"why,omitempty" description:"What became of it at each endpoint, newest first; left out without the right deliveries:read."`
}

// Why says what became of an event at one endpoint.
type Why struct {
	EndpointID string         `json:"endpoint_id" required:"true"`
	DeliveryID *string        `json:"delivery_id" required:"true" description:"null: there is none."`
	Cause      delivery.Cause `json:"cause" required:"true" enum:"delivered,on_wire,retrying,waiting,held,undelivered,not_allowed,expired,cancelled,not_subscribed,created_later,subscribed_later"`
	Fix        *delivery.Fix  `json:"fix" required:"true" enum:"resend,enable,recover,subscribe,change_url,pull" description:"What can be done; null: nothing, or nothing needs to be."`
	At         *time.Time     `json:"at" required:"true" description:"When that was, or will be."`
	By         *string        `json:"by" required:"true" description:"Who paused or disabled the endpoint."`
	Reason     *string        `json:"reason" required:"true"`
	Number     *int           `json:"number" required:"true" description:"The attempt; of waiting: how many come before it."`
	Of         *int           `json:"of" required:"true" description:"Attempts that the schedule has."`
}

func whyOf(l delivery.Line) Why {
	shown := Why{
		EndpointID: l.EndpointID, DeliveryID: orNull(l.DeliveryID), Cause: l.Cause, At: l.At, By: orNull(l.By), Reason: orNull(l.Reason),
		Number: codeOrNull(l.N), Of: codeOrNull(l.Of),
	}
	if l.Fix != delivery.NoFix {
		shown.Fix = &l.Fix
	}
	return shown
}

// EventFilterQuery are the parameters by which events are chosen. Embed it.
type EventFilterQuery struct {
	Type         []string   `query:"type" description:"An event type, or a prefix as order.*; given several times, any of them."`
	ResourceType string     `query:"resource_type"`
	ResourceID   string     `query:"resource_id" maxLength:"800"`
	Since        *time.Time `query:"since" description:"Dispatched at this time or later, whenever it occurred."`
	Until        *time.Time `query:"until" description:"Dispatched before this time."`
}

func (q EventFilterQuery) filter() catalog.EventFilter {
	f := catalog.EventFilter{Types: q.Type, ResourceType: q.ResourceType, ResourceID: q.ResourceID}
	if q.Since != nil {
		f.Since = *q.Since
	}
	if q.Until != nil {
		f.Until = *q.Until
	}
	return f
}

// EventListQuery are the parameters of the list of events.
type EventListQuery struct {
	PageQuery
	EventFilterQuery
	EndpointID     string `query:"endpoint_id" description:"Only events with a delivery at this endpoint; with delivery_status=none, without one."`
	DeliveryStatus string `query:"delivery_status" enum:"pending,delivered,undelivered,held,cancelled,none" description:"Only events with a delivery of this status, as it is now, at the endpoint or at any; none: without a delivery."`
}

func (a *API) eventRoutes() []Route {
	return []Route{
		{
			Name: "EventList", Method: http.MethodGet, Pattern: "/v1/events", Audience: ForTenant, Scope: account.CatalogRead,
			Summary: "List events",
			Detail: "The oldest first, each exactly as endpoints are sent it. Whoever goes on with `next` sees every event exactly once, also while events are being " +
				"published: keep `next`, and ask again later with the same filter. A page may have fewer events than the limit, or none, while there is `more`. " +
				"A cursor from before what is kept is answered with 410: events that you have not read may be gone. " +
				"Asking by delivery_status or endpoint_id needs the right deliveries:read too; statuses change, so such a list is a look and not a feed.",
			Query: EventListQuery{}, Answers: []Answer{{http.StatusOK, EventList{}}}, Faults: []fault.Kind{fault.Malformed, fault.CursorExpired},
			Handle: a.eventList,
		},
		{
			Name: "EventRead", Method: http.MethodGet, Pattern: "/v1/events/{id}", Audience: ForTenant, Scope: account.CatalogRead,
			Summary: "Read an event",
			Detail:  "Exactly as endpoints are sent it, followed by what in it does not match an enforced schema, its deliveries, and the reason for each that is missing.",
			Answers: []Answer{{http.StatusOK, EventRead{}}},
			Handle:  a.eventRead,
		},
		{
			Name: "EventExpunge", Method: http.MethodPost, Pattern: "/v1/tenants/{uid}/events/{id}/expunge", Audience: ForPlatform, Scope: account.SettingsWrite,
			Summary: "Take an event's content out",
			Detail: "For good. An owner does it on the event's page, the platform here; no tenant's key can. What goes is `data` and the bodies that " +
				"receivers answered with. The record stays: the event is answered with `data` null and `expunged_at`, here and in streams, to consumers and as the state of its resource. " +
				"Deliveries that are pending, held or undelivered are cancelled with the reason `event_expunged`; none can be resent. The event's id stays taken: publishing it again with the same " +
				"content is a repeat and brings nothing back, with other content a conflict. Doing it again changes nothing and answers what was done first.",
			Answers: []Answer{{http.StatusOK, Expunged{}}},
			Handle:  a.eventExpunge,
		},
		{
			Name: "ResourceRead", Method: http.MethodGet, Pattern: "/v1/resources/{type}/{id}", Audience: ForTenant, Scope: account.CatalogRead,
			Summary: "Read the state of a resource",
			Detail: "The event with the highest sequence of this resource, exactly as endpoints are sent it. The ETag changes with it; a request with the same one in " +
				"`If-None-Match` is answered with 304.",
			Answers: []Answer{{http.StatusOK, Event{}}, {http.StatusNotModified, nil}}, Faults: []fault.Kind{fault.Gone},
			Handle: a.resourceRead,
		},
	}
}

func (a *API) eventList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[EventListQuery](r)
	if err != nil {
		return err
	}
	f := query.filter()
	f.Delivery = catalog.DeliveryFilter{EndpointID: query.EndpointID, Status: query.DeliveryStatus}
	if f.Delivery != (catalog.DeliveryFilter{}) {
		if err := caller.Can(account.DeliveriesRead); err != nil {
			return err
		}
	}
	page, err := a.Events.List(r.Context(), caller, f, query.After, query.Limit)
	if err != nil {
		return err
	}
	size := 100
	for _, event := range page.Events {
		size += len(event.Body) + 1
	}
	text := make([]byte, 0, size)
	text = append(text, `{"data":[`...)
	for i, event := range page.Events {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, event.Body...)
	}
	text = append(text, `],"next":"`+page.Next+`","more":`+strconv.FormatBool(page.More)+"}\n"...)
	return WriteRaw(w, http.StatusOK, text)
}

func (a *API) eventRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	event, err := a.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	var more struct {
		SchemaErrors []ProblemField `json:"schema_errors,omitzero"`
		Deliveries   []Delivery     `json:"deliveries,omitzero"`
		Why          []Why          `json:"why,omitzero"`
	}
	wrong, err := a.Types.Breaks(r.Context(), caller, event)
	if err != nil {
		return err
	}
	if len(wrong) > 0 {
		more.SchemaErrors = each(wrong, func(f fault.Field) ProblemField { return ProblemField{Field: f.Name, Detail: f.Detail} })
	}
	if caller.Can(account.DeliveriesRead) == nil {
		if more.Deliveries, more.Why, err = a.whatBecame(r, caller, event); err != nil {
			return err
		}
	}
	added, err := json.Marshal(more)
	if err != nil {
		return err
	}
	if len(added) == len("{}") {
		return WriteRaw(w, http.StatusOK, append(bytes.Clone(event.Body), '\n'))
	}
	// The event's bytes stay as they are: what is added goes before its last brace.
	text := append(bytes.TrimSuffix(bytes.Clone(event.Body), []byte("}")), ',')
	return WriteRaw(w, http.StatusOK, append(append(text, added[1:]...), '\n'))
}

func (a *API) eventExpunge(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.SettingsWrite); err != nil {
		return err
	}
	event, err := a.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	done, err := a.Deliveries.Expunge(r.Context(), caller, event)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Expunged{ID: event.ID, ExpungedAt: done.At, ExpungedBy: done.By, Cancelled: done.Cancelled})
}

// whatBecame is the event's deliveries, and the reason for each that is missing.
func (a *API) whatBecame(r *http.Request, caller account.Caller, event catalog.Event) ([]Delivery, []Why, error) {
	page, err := a.Deliveries.List(r.Context(), caller, delivery.Filter{EventID: event.ID}, "", delivery.MaxLimit)
	if err != nil {
		return nil, nil, err
	}
	lines, err := a.Deliveries.Why(r.Context(), caller, event)
	return each(page.Deliveries, deliveryOf), each(lines, whyOf), err
}

func (a *API) resourceRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	event, err := a.Events.Resource(r.Context(), caller, r.PathValue("type"), r.PathValue("id"))
	if err != nil {
		return err
	}
	tag := `"` + strconv.FormatInt(event.Sequence, 10) + "-" + event.ID
	if event.ExpungedAt != nil {
		tag += "-expunged"
	}
	tag += `"`
	w.Header().Set("ETag", tag)
	if hasTag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return WriteRaw(w, http.StatusOK, event.Body)
}

// hasTag says whether If-None-Match names the tag: * names any, and weak tags count as they are (RFC 9110, section 13.1.2).
func hasTag(values []string, tag string) bool {
	for _, value := range values {
		for given := range strings.SplitSeq(value, ",") {
			if given = strings.TrimSpace(given); given == "*" || strings.TrimPrefix(given, "W/") == tag {
				return true
			}
		}
	}
	return false
}
