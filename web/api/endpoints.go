package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/signing"
)

// Endpoint is an endpoint without its secrets.
type Endpoint struct {
	ID           string               `json:"id" required:"true" examples:"[\"ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	URL          string               `json:"url" required:"true" format:"uri"`
	Description  string               `json:"description" required:"true"`
	Types        []string             `json:"types" required:"true" description:"Event types, prefixes (order.*) or *."`
	State        endpoint.State       `json:"state" required:"true" enum:"active,paused,disabled"`
	Reason       *string              `json:"state_reason" required:"true" description:"manual, gone (it answered 410) or failing (for too long); null while active."`
	StateBy      *string              `json:"state_by" required:"true" description:"Who or what put it into this state."`
	StateAt      time.Time            `json:"state_at" required:"true"`
	Health       endpoint.HealthState `json:"health" required:"true" enum:"ok,failing,open" description:"open: after too many failures in a row what is due waits, and one probe at a time finds out when the endpoint is back. Test events, manual resends and faults of Waybill's own do not count."`
	FailingSince *time.Time           `json:"failing_since" required:"true" description:"The first failure since the last success; null: none."`
	Failures     int                  `json:"consecutive_failures" required:"true" minimum:"0" description:"Different events that failed since then; counted up to 100, or to the policy's threshold if that is more."`
	NextProbeAt  *time.Time           `json:"next_probe_at" required:"true" description:"While open: when the next probe is sent."`
	DisableAt    *time.Time           `json:"disable_at" required:"true" description:"When it is disabled if every attempt fails until then."`
	VerifiedAt   *time.Time           `json:"verified_at" required:"true" description:"The first 2xx at this URL; null: none yet."`
	Scheme       signing.Scheme       `json:"scheme" required:"true" enum:"v1,v1+v1a,v1a,hex"`
	Payload      endpoint.Payload     `json:"payload" required:"true" enum:"full,thin"`
	HeaderNames  []string             `json:"header_names" required:"true" description:"Of its static headers. The values are shown by headers/reveal only."`
	Limits       EndpointLimits       `json:"limits" required:"true"`
	Preset       *string              `json:"preset" required:"true" description:"Its delivery policy; null: the tenant's."`
	PublicKey    *string              `json:"public_key" required:"true" description:"whpk_… in force; null without v1a."`
	CreatedAt    time.Time            `json:"created_at" required:"true"`
	UpdatedAt    time.Time            `json:"updated_at" required:"true"`
}

// EndpointLimits bound what is sent to an endpoint.
type EndpointLimits struct {
	Concurrency int  `json:"concurrency" required:"true" minimum:"1" maximum:"100" description:"Requests on the wire at once."`
	PerSecond   *int `json:"per_second" required:"true" minimum:"1" maximum:"10000" description:"Requests a second; null: no limit."`
}

// NewEndpoint is an endpoint that was just made.
type NewEndpoint struct {
	Endpoint
	Secret string `json:"secret" required:"true" description:"The signing secret: whsec_…"`
}

func endpointOf(e endpoint.Endpoint) Endpoint {
	return Endpoint{
		ID: e.ID, URL: e.URL, Description: e.Description, Types: e.Types, State: e.State, Reason: orNull(e.Reason), StateBy: orNull(e.StateBy),
		StateAt: e.StateAt, Health: e.Health.State, FailingSince: e.Health.FailingSince, Failures: e.Health.Failures,
		NextProbeAt: e.Health.NextProbeAt, DisableAt: e.Health.DisableAt, VerifiedAt: e.VerifiedAt, Scheme: e.Scheme, Payload: e.Payload, HeaderNames: e.HeaderNames,
		Limits: EndpointLimits{Concurrency: e.Concurrency, PerSecond: e.RatePerSecond}, Preset: orNull(e.Preset), PublicKey: orNull(e.PublicKey),
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
	}
}

// orNull is nil for an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// EndpointListQuery are the parameters of the list of endpoints.
type EndpointListQuery struct {
	PageQuery
	State string `query:"state" enum:"active,paused,disabled" description:"Only those in this state."`
}

func (a *API) endpointRoutes() []Route {
	one, badCursor := []Answer{{http.StatusOK, Endpoint{}}}, []fault.Kind{fault.Malformed}
	return []Route{
		{
			Name: "EndpointCreate", Method: http.MethodPost, Pattern: "/v1/endpoints", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Create an endpoint", Detail: "It is active at once. The URL is checked and not called.",
			Body: EndpointCreate{}, Answers: []Answer{{http.StatusCreated, NewEndpoint{}}},
			Handle: a.endpointCreate,
		},
		{
			Name: "EndpointList", Method: http.MethodGet, Pattern: "/v1/endpoints", Audience: ForTenant, Scope: account.EndpointsRead,
			Summary: "List endpoints", Detail: "Newest first.",
			Query: EndpointListQuery{}, Answers: []Answer{{http.StatusOK, List[Endpoint]{}}}, Faults: badCursor,
			Handle: a.endpointList,
		},
		{
			Name: "EndpointRead", Method: http.MethodGet, Pattern: "/v1/endpoints/{id}", Audience: ForTenant, Scope: account.EndpointsRead,
			Summary: "Read an endpoint", Answers: one,
			Handle: a.endpointRead,
		},
		{
			Name: "EndpointPatch", Method: http.MethodPatch, Pattern: "/v1/endpoints/{id}", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Change an endpoint",
			Detail:  "What is left out stays. A changed URL is unverified again. When this answers, nothing is sent under the old settings any more.",
			Body:    EndpointPatch{}, Answers: one,
			Handle: a.endpointPatch,
		},
		{
			Name: "EndpointPut", Method: http.MethodPut, Pattern: "/v1/endpoints/{id}", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Replace an endpoint's settings",
			Detail:  "What is left out gets its default, except the static headers: as they cannot be read back, they stay unless they are given.",
			Body:    EndpointPut{}, Answers: one,
			Handle: a.endpointPut,
		},
		{
			Name: "EndpointDelete", Method: http.MethodDelete, Pattern: "/v1/endpoints/{id}", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Delete an endpoint", Detail: "What is due to it or held for it is cancelled. Its history stays.",
			Answers: []Answer{{http.StatusNoContent, nil}},
			Handle:  a.endpointDelete,
		},
		{
			Name: "EndpointPause", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/pause", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Pause an endpoint", Detail: "What is due, and what comes, is held. When this answers, no new request starts.",
			Answers: one, Faults: []fault.Kind{fault.Conflict},
			Handle: a.stateHandler(a.Endpoints.Pause),
		},
		{
			Name: "EndpointDisable", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/disable", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Disable an endpoint", Detail: "What is due, and what comes, is held. When this answers, no new request starts.",
			Answers: one, Faults: []fault.Kind{fault.Conflict},
			Handle: a.stateHandler(a.Endpoints.Disable),
		},
		{
			Name: "EndpointEnable", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/enable", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Enable an endpoint", Detail: "What comes from now on is sent. What is held stays held until it is recovered.",
			Answers: one, Faults: []fault.Kind{fault.Conflict},
			Handle: a.stateHandler(a.Endpoints.Enable),
		},
		{
			Name: "EndpointTest", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/test", Audience: ForTenant, Scope: account.EndpointsWrite,
			Summary: "Send a test event",
			Detail:  "It goes first, to a paused or disabled endpoint too, and counts for nothing. The answer of the endpoint stands with the delivery.",
			Body:    EndpointTest{}, Optional: true, MaxBody: testMaxBody, Answers: []Answer{{http.StatusAccepted, TestSent{}}},
			Handle: a.endpointTest,
		},
	}
}

func (a *API) endpointList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[EndpointListQuery](r)
	if err != nil {
		return err
	}
	found, next, err := a.Endpoints.List(r.Context(), caller, endpoint.State(query.State), query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(found, endpointOf), next))
}

func (a *API) endpointRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, endpointOf(found))
}

func (a *API) endpointDelete(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := a.Endpoints.Delete(r.Context(), caller, r.PathValue("id")); err != nil {
		return err
	}
	return WriteNothing(w)
}
