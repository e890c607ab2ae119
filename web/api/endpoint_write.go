package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/seal"
	"waybill/app/signing"
)

// testMaxBody leaves room for the largest event.
const testMaxBody = 512 << 10

// EndpointCreate is the body that makes an endpoint.
type EndpointCreate struct {
	EndpointPut
	Secret string `json:"secret,omitempty" description:"A signing secret of your own: whsec_ and the base64 of 24 to 64 bytes. Left out, one is made."`
}

// EndpointPut is the body that replaces an endpoint's settings.
type EndpointPut struct {
	URL         string            `json:"url" required:"true" maxLength:"2048" format:"uri"`
	Types       []string          `json:"types" required:"true" minItems:"1" maxItems:"500" description:"Event types, prefixes (order.*), or * for every type, also future ones."`
	Description string            `json:"description,omitempty" maxLength:"500"`
	Scheme      signing.Scheme    `json:"scheme,omitempty" enum:"v1,v1+v1a,v1a,hex" default:"v1"`
	Payload     endpoint.Payload  `json:"payload,omitempty" enum:"full,thin" default:"full"`
	Headers     map[string]string `json:"headers,omitempty" description:"Static headers, sent with every request."`
	Limits      LimitsPut         `json:"limits,omitempty"`
	Preset      *string           `json:"preset,omitempty" description:"The name of a delivery policy, any that the operator offers; empty: the tenant's own."`
}

// LimitsPut are the limits in EndpointPut and EndpointPatch.
type LimitsPut struct {
	Concurrency *int       `json:"concurrency,omitempty" minimum:"1" maximum:"100" description:"Requests on the wire at once; 10 at first."`
	PerSecond   MaybeLimit `json:"per_second,omitempty" description:"Requests a second; null: no limit."`
}

// EndpointPatch is the body that changes an endpoint: what is left out stays.
type EndpointPatch struct {
	URL         *string            `json:"url,omitempty" maxLength:"2048" format:"uri"`
	Types       *[]string          `json:"types,omitempty" minItems:"1" maxItems:"500"`
	Description *string            `json:"description,omitempty" maxLength:"500"`
	Scheme      *signing.Scheme    `json:"scheme,omitempty" enum:"v1,v1+v1a,v1a,hex"`
	Payload     *endpoint.Payload  `json:"payload,omitempty" enum:"full,thin"`
	Headers     *map[string]string `json:"headers,omitempty" description:"Replaces them all; an empty object removes them."`
	Limits      LimitsPut          `json:"limits,omitempty"`
	Preset      *string            `json:"preset,omitempty"`
}

// MaybeLimit is a number that may be left out, or null.
type MaybeLimit struct {
	Given bool
	Value *int
}

// UnmarshalJSON notes that something was given.
func (m *MaybeLimit) UnmarshalJSON(text []byte) error {
	m.Given = true
	return json.Unmarshal(text, &m.Value)
}

// JSONSchemaBytes is the schema of a limit in the OpenAPI document.
func (MaybeLimit) JSONSchemaBytes() ([]byte, error) {
	return []byte(`{"type":["integer","null"],"minimum":1,"maximum":10000}`), nil
}

func (a *API) endpointCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointCreate](w, r)
	if err != nil {
		return err
	}
	in := endpoint.Input{
		URL: body.URL, Types: body.Types, Description: body.Description, Scheme: body.Scheme, Payload: body.Payload,
		Headers: headerList(body.Headers), RatePerSecond: body.Limits.PerSecond.Value, Secret: seal.Secret(body.Secret),
	}
	if body.Limits.Concurrency != nil {
		if in.Concurrency = *body.Limits.Concurrency; in.Concurrency == 0 {
			in.Concurrency = -1 // the operation's 0 means the default; here it was given, and is refused
		}
	}
	if body.Preset != nil {
		in.Preset = *body.Preset
	}
	made, err := a.Endpoints.Create(r.Context(), caller, in)
	if err != nil {
		return headerFields(err, in.Headers)
	}
	return WriteJSON(w, http.StatusCreated, NewEndpoint{Endpoint: endpointOf(made.Endpoint), Secret: made.Secret.Reveal()})
}

func (a *API) endpointPatch(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointPatch](w, r)
	if err != nil {
		return err
	}
	change := endpoint.Change{
		URL: body.URL, Description: body.Description, Scheme: body.Scheme, Payload: body.Payload,
		Concurrency: body.Limits.Concurrency, Preset: body.Preset,
	}
	if body.Types != nil {
		change.Types = append([]string{}, *body.Types...) // an empty list is refused, not overlooked
	}
	if body.Headers != nil {
		headers := headerList(*body.Headers)
		change.Headers = &headers
	}
	if body.Limits.PerSecond.Given {
		change.RatePerSecond = &body.Limits.PerSecond.Value
	}
	return a.endpointUpdate(w, r, caller, change)
}

func (a *API) endpointPut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointPut](w, r)
	if err != nil {
		return err
	}
	scheme, payload, concurrency := body.Scheme, body.Payload, endpoint.DefaultConcurrency
	if scheme == "" {
		scheme = signing.V1
	}
	if payload == "" {
		payload = endpoint.Full
	}
	if body.Limits.Concurrency != nil {
		concurrency = *body.Limits.Concurrency
	}
	change := endpoint.Change{
		URL: &body.URL, Types: append([]string{}, body.Types...), Description: &body.Description, Scheme: &scheme, Payload: &payload,
		Concurrency: &concurrency, RatePerSecond: &body.Limits.PerSecond.Value, Preset: body.Preset,
	}
	if body.Headers != nil {
		headers := headerList(body.Headers)
		change.Headers = &headers
	}
	return a.endpointUpdate(w, r, caller, change)
}

func (a *API) endpointUpdate(w http.ResponseWriter, r *http.Request, caller account.Caller, change endpoint.Change) error {
	changed, err := a.Endpoints.Update(r.Context(), caller, r.PathValue("id"), change)
	if err != nil && change.Headers != nil {
		return headerFields(err, *change.Headers)
	}
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, endpointOf(changed))
}

// headerList is the headers of a JSON object, by name. It is never nil: an empty object removes headers.
func headerList(object map[string]string) []endpoint.Header {
	headers := []endpoint.Header{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		headers = append(headers, endpoint.Header{Name: name, Value: object[name]})
	}
	return headers
}

var headerField = regexp.MustCompile(`^headers\[(\d+)\]\.(name|value)$`)

// headerFields names a refused header as it was sent: a member of an object, not an item of a list.
func headerFields(err error, headers []endpoint.Header) error {
	var wrong *fault.Error
	if !errors.As(err, &wrong) {
		return err
	}
	for i, field := range wrong.Fields {
		if match := headerField.FindStringSubmatch(field.Name); match != nil {
			if n, bad := strconv.Atoi(match[1]); bad == nil && n < len(headers) {
				name := headers[n].Name
				wrong.Fields[i].Name = "headers." + name[:min(len(name), 128)]
				wrong.Fields[i].Detail = "its " + match[2] + " " + field.Detail
			}
		}
	}
	return err
}

// stateHandler answers with the endpoint that an operation of one word returns.
func (a *API) stateHandler(operation func(context.Context, account.Caller, string) (endpoint.Endpoint, error)) Handler {
	return func(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
		changed, err := operation(r.Context(), caller, r.PathValue("id"))
		if err != nil {
			return err
		}
		return WriteJSON(w, http.StatusOK, endpointOf(changed))
	}
}

// EndpointTest is the body that sends a test event.
type EndpointTest struct {
	Type string         `json:"type,omitempty" maxLength:"128" description:"An event type; left out, one that the endpoint asked for."`
	Data jsontext.Value `json:"data,omitempty" description:"The event's data; left out, the type's example in the catalog."`
}

// TestSent is a test event on its way.
type TestSent struct {
	EventID    string `json:"event_id" required:"true"`
	DeliveryID string `json:"delivery_id" required:"true" description:"Where the endpoint's answer will stand."`
	Type       string `json:"type" required:"true"`
}

func (a *API) endpointTest(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointTest](w, r)
	if err != nil {
		return err
	}
	sent, err := a.Endpoints.SendTest(r.Context(), caller, r.PathValue("id"), endpoint.TestInput{Type: body.Type, Data: body.Data})
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusAccepted, TestSent(sent))
}
