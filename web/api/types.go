package api

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
)

// EventType is one type of the platform's catalog.
type EventType struct {
	Name          string         `json:"name" required:"true" examples:"[\"consignment.delivered\"]"`
	Description   string         `json:"description" required:"true"`
	Group         string         `json:"group" required:"true" description:"A heading to list it under."`
	Schema        jsontext.Value `json:"schema" required:"true" description:"JSON Schema 2020-12 of the event's data, or null."`
	Example       jsontext.Value `json:"example" required:"true" description:"An example of the event's data, or null."`
	SchemaVersion int            `json:"schema_version" required:"true"`
	DeprecatedAt  *time.Time     `json:"deprecated_at" required:"true"`
	CreatedAt     time.Time      `json:"created_at" required:"true"`
	UpdatedAt     time.Time      `json:"updated_at" required:"true"`
}

// EventTypePut is the body that creates or replaces a type.
type EventTypePut struct {
	Description   string         `json:"description,omitempty" maxLength:"2000"`
	Group         string         `json:"group,omitempty" maxLength:"100"`
	Schema        jsontext.Value `json:"schema,omitempty" description:"JSON Schema 2020-12 of the event's data."`
	Example       jsontext.Value `json:"example,omitempty" description:"An example of the event's data; what a test event sends unless told otherwise."`
	SchemaVersion int            `json:"schema_version,omitempty" minimum:"1" maximum:"1000000" default:"1"`
	Deprecated    bool           `json:"deprecated,omitempty"`
}

// EventTypeListQuery are the parameters of the list of event types.
type EventTypeListQuery struct {
	PageQuery
	Group string `query:"group" maxLength:"400" description:"Only those of this group."`
}

func eventTypeOf(t catalog.EventType) EventType {
	return EventType{
		Name: t.Name, Description: t.Description, Group: t.Group, Schema: t.Schema, Example: t.Example, SchemaVersion: t.SchemaVersion,
		DeprecatedAt: t.DeprecatedAt, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
}

func (a *API) typeRoutes() []Route {
	return []Route{
		{
			Name: "EventTypeList", Method: http.MethodGet, Pattern: "/v1/event-types", Audience: ForAnyone, Scope: account.CatalogRead,
			Summary: "List event types", Detail: "By name.",
			Query: EventTypeListQuery{}, Answers: []Answer{{http.StatusOK, List[EventType]{}}}, Faults: []fault.Kind{fault.Malformed},
			Handle: a.eventTypeList,
		},
		{
			Name: "EventTypeRead", Method: http.MethodGet, Pattern: "/v1/event-types/{name}", Audience: ForAnyone, Scope: account.CatalogRead,
			Summary: "Read an event type",
			Answers: []Answer{{http.StatusOK, EventType{}}},
			Handle:  a.eventTypeRead,
		},
		{
			Name: "EventTypePut", Method: http.MethodPut, Pattern: "/v1/event-types/{name}", Audience: ForPlatform, Scope: account.TypesWrite,
			Summary: "Create or replace an event type", Detail: "Types need not stand in the catalog to be published or subscribed to.",
			Body: EventTypePut{}, MaxBody: 4 * catalog.MaxDocument, Answers: []Answer{{http.StatusOK, EventType{}}},
			Handle: a.eventTypePut,
		},
	}
}

func (a *API) eventTypeList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[EventTypeListQuery](r)
	if err != nil {
		return err
	}
	types, next, err := a.Types.EventTypeList(r.Context(), caller, query.Group, query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(types, eventTypeOf), next))
}

func (a *API) eventTypeRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Types.EventTypeRead(r.Context(), caller, r.PathValue("name"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, eventTypeOf(found))
}

func (a *API) eventTypePut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EventTypePut](w, r)
	if err != nil {
		return err
	}
	in := catalog.EventTypeInput{
		Description: body.Description, Group: body.Group, Schema: given(body.Schema), Example: given(body.Example),
		SchemaVersion: body.SchemaVersion, Deprecated: body.Deprecated,
	}
	stored, err := a.Types.EventTypePut(r.Context(), caller, r.PathValue("name"), in)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, eventTypeOf(stored))
}

// given is nil for null, which means the same as a member that is left out.
func given(value jsontext.Value) []byte {
	if value.Kind() == 'n' {
		return nil
	}
	return value
}
