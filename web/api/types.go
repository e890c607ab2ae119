package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
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
	Enforced      bool           `json:"enforced" required:"true" description:"The API refuses to publish what does not match the schema, or is of another version."`
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
	Enforced      bool           `json:"enforced,omitempty" description:"Refuse to publish, by this API, what does not match the schema or is of another version. What is published in SQL is delivered all the same."`
	Deprecated    bool           `json:"deprecated,omitempty"`
}

// EventTypeListQuery are the parameters of the list of event types.
type EventTypeListQuery struct {
	PageQuery
	Group string `query:"group" maxLength:"400" description:"Only those of this group."`
}

func eventTypeOf(t catalog.EventType) EventType {
	return EventType{
		Name: t.Name, Description: t.Description, Group: t.Group, Schema: t.Schema, Example: t.Example, SchemaVersion: t.SchemaVersion, Enforced: t.Enforced,
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
		{
			Name: "EventTypeImport", Method: http.MethodPost, Pattern: "/v1/event-types/import", Audience: ForPlatform, Scope: account.TypesWrite,
			Summary: "Import event types",
			Detail: "A list of our own in `event_types`, or an OpenAPI 3.1 document, whose section `webhooks` is read: each name with its operation's description, first tag, " +
				"schema and example of the JSON body. A body that is our envelope stands for its `data`. All or none; types that are not named stay as they are.",
			Body: EventTypeImport{}, MaxBody: maxImport, Answers: []Answer{{http.StatusOK, List[ImportedType]{}}},
			Handle: a.eventTypeImport,
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
	stored, err := a.Types.EventTypePut(r.Context(), caller, r.PathValue("name"), body.input())
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, eventTypeOf(stored))
}

func (p EventTypePut) input() catalog.EventTypeInput {
	return catalog.EventTypeInput{
		Description: p.Description, Group: p.Group, Schema: given(p.Schema), Example: given(p.Example),
		SchemaVersion: p.SchemaVersion, Enforced: p.Enforced, Deprecated: p.Deprecated,
	}
}

const maxImport = 4 << 20

// EventTypeImport is the body that imports types: a list of them. An OpenAPI document is taken in its place.
type EventTypeImport struct {
	EventTypes []NamedEventType          `json:"event_types,omitempty" minItems:"1" maxItems:"500"`
	OpenAPI    string                    `json:"openapi,omitempty" description:"Of an OpenAPI document: its version, 3.1."`
	Webhooks   map[string]jsontext.Value `json:"webhooks,omitempty" description:"Of an OpenAPI document; its other members are read where these refer to them."`
}

// NamedEventType is one type of an import.
type NamedEventType struct {
	Name string `json:"name" required:"true" maxLength:"128"`
	EventTypePut
}

// ImportedType is one type that was imported.
type ImportedType struct {
	Name    string                `json:"name" required:"true"`
	Outcome catalog.ImportOutcome `json:"outcome" required:"true" enum:"created,changed,unchanged"`
}

func (a *API) eventTypeImport(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	text, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	types, err := importOf(text)
	if err != nil {
		return err
	}
	done, err := a.Types.Import(r.Context(), caller, types)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(done, func(i catalog.Imported) ImportedType { return ImportedType(i) }), ""))
}

// importOf reads either kind of body: an OpenAPI document says what it is.
func importOf(text []byte) ([]catalog.NamedType, error) {
	var kind struct {
		OpenAPI jsontext.Value `json:"openapi"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, decodeFault(err)
	}
	if kind.OpenAPI != nil {
		if version := string(kind.OpenAPI); !strings.HasPrefix(version, `"3.1`) && !strings.HasPrefix(version, `"3.2`) {
			return nil, fault.New(fault.Invalid, "The OpenAPI document cannot be used.").Field("openapi", "must be 3.1 or 3.2, which have webhooks and JSON Schema 2020-12")
		}
		return catalog.FromOpenAPI(text)
	}
	var list struct {
		EventTypes []NamedEventType `json:"event_types"`
	}
	if err := json.Unmarshal(text, &list, json.RejectUnknownMembers(true)); err != nil {
		return nil, decodeFault(err)
	}
	return each(list.EventTypes, func(t NamedEventType) catalog.NamedType {
		return catalog.NamedType{Name: t.Name, EventTypeInput: t.input()}
	}), nil
}

// given is nil for null, which means the same as a member that is left out.
func given(value jsontext.Value) []byte {
	if value.Kind() == 'n' {
		return nil
	}
	return value
}
