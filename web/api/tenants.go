package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
)

// Tenant is a tenant as the platform sees it.
type Tenant struct {
	ID          string       `json:"id" required:"true" examples:"[\"tnt_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	UID         string       `json:"uid" required:"true" description:"Your own id of the tenant."`
	Name        string       `json:"name" required:"true"`
	Limits      TenantLimits `json:"limits" required:"true"`
	Preset      *string      `json:"preset" required:"true" description:"The delivery policy of its endpoints; null: the standard one."`
	TimeZone    string       `json:"time_zone" required:"true"`
	SuspendedAt *time.Time   `json:"suspended_at" required:"true" description:"Since when nothing is sent to it; null: it is not suspended."`
	CreatedAt   time.Time    `json:"created_at" required:"true"`
	UpdatedAt   time.Time    `json:"updated_at" required:"true"`
}

// TenantLimits bound what is done for a tenant.
type TenantLimits struct {
	Concurrency int `json:"concurrency" required:"true" minimum:"1" maximum:"1000" description:"Requests on the wire at once, over all its endpoints."`
}

// TenantPut is the body that creates or changes a tenant.
type TenantPut struct {
	Name     string           `json:"name" required:"true" minLength:"1" maxLength:"200"`
	Limits   *TenantPutLimits `json:"limits,omitempty" description:"What is left out stays as it is."`
	Preset   *string          `json:"preset,omitempty" description:"The name of a delivery policy; empty: the standard one. Left out, it stays as it is."`
	TimeZone *string          `json:"time_zone,omitempty" description:"IANA name, UTC at first. Left out, it stays as it is." examples:"[\"Asia/Kolkata\"]"`
}

// TenantPutLimits are the limits in TenantPut.
type TenantPutLimits struct {
	Concurrency *int `json:"concurrency,omitempty" minimum:"1" maximum:"1000" description:"Requests on the wire at once, over all its endpoints; 50 at first."`
}

func tenantOf(t account.Tenant) Tenant {
	shown := Tenant{
		ID: t.ID, UID: t.UID, Name: t.Name, Limits: TenantLimits{Concurrency: t.Concurrency},
		TimeZone: t.TimeZone, SuspendedAt: t.SuspendedAt, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt,
	}
	if t.Preset != "" {
		shown.Preset = &t.Preset
	}
	return shown
}

func (a *API) tenantRoutes() []Route {
	return []Route{
		{
			Name: "TenantList", Method: http.MethodGet, Pattern: "/v1/tenants", Audience: ForPlatform, Scope: account.TenantsRead,
			Summary: "List tenants", Detail: "By uid.",
			Query: PageQuery{}, Answers: []Answer{{http.StatusOK, List[Tenant]{}}}, Faults: []fault.Kind{fault.Malformed},
			Handle: a.tenantList,
		},
		{
			Name: "TenantPut", Method: http.MethodPut, Pattern: "/v1/tenants/{uid}", Audience: ForPlatform, Scope: account.TenantsWrite,
			Summary: "Create or change a tenant",
			Detail:  "The uid is yours: 1 to 128 characters of `A-Z a-z 0-9 _ . : -`. Send it as often as you like.",
			Body:    TenantPut{}, Answers: []Answer{{http.StatusOK, Tenant{}}},
			Handle: a.tenantPut,
		},
		{
			Name: "TenantRead", Method: http.MethodGet, Pattern: "/v1/tenants/{uid}", Audience: ForPlatform, Scope: account.TenantsRead,
			Summary: "Read a tenant",
			Answers: []Answer{{http.StatusOK, Tenant{}}},
			Handle:  a.tenantRead,
		},
	}
}

func (a *API) tenantList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[PageQuery](r)
	if err != nil {
		return err
	}
	tenants, next, err := a.Accounts.TenantList(r.Context(), caller, query.After, query.Limit)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(tenants, tenantOf), next))
}

func (a *API) tenantPut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[TenantPut](w, r)
	if err != nil {
		return err
	}
	in := account.TenantInput{Name: body.Name, Preset: body.Preset, TimeZone: body.TimeZone}
	if body.Limits != nil {
		in.Concurrency = body.Limits.Concurrency
	}
	tenant, err := a.Accounts.TenantPut(r.Context(), caller, r.PathValue("uid"), in)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, tenantOf(tenant))
}

func (a *API) tenantRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	tenant, err := a.Accounts.TenantRead(r.Context(), caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, tenantOf(tenant))
}

// each shows every row of a list.
func each[From, To any](rows []From, show func(From) To) []To {
	shown := make([]To, len(rows))
	for i, row := range rows {
		shown[i] = show(row)
	}
	return shown
}
