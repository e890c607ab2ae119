package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/limit"
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
	OtherLimits
}

// OtherLimits are those that a tenant need not have; what is left out is not limited.
type OtherLimits struct {
	EventsPerSecond  int   `json:"events_per_second,omitempty" description:"Published through the API, by each of its processes; two seconds' worth at once."`
	EventsPerDaySoft int64 `json:"events_per_day_soft,omitempty" description:"From here on it is announced: by mail, a banner and the operational event tenant.limit_reached."`
	EventsPerDay     int64 `json:"events_per_day,omitempty" description:"Beyond it the API refuses until midnight UTC. What is published in SQL counts, and is not refused."`
	Endpoints        int   `json:"endpoints,omitempty"`
	PayloadBytes     int   `json:"payload_bytes,omitempty" description:"Of an event's data, where that is less than the 262,144 bytes that all may have."`
	RetentionDays    int   `json:"retention_days,omitempty" description:"Events and their history are deleted after so many days, where that is sooner than for all; never within the resend window."`
}

func otherLimitsOf(l limit.Limits) OtherLimits {
	return OtherLimits{EventsPerSecond: l.EventsPerSecond, EventsPerDaySoft: l.EventsPerDaySoft, EventsPerDay: l.EventsPerDay, Endpoints: l.Endpoints,
		PayloadBytes: l.PayloadBytes, RetentionDays: l.RetentionDays}
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
	Concurrency      *int   `json:"concurrency,omitempty" minimum:"1" maximum:"1000" description:"Requests on the wire at once, over all its endpoints; 50 at first."`
	EventsPerSecond  *int   `json:"events_per_second,omitempty" minimum:"0" maximum:"1000000" description:"0: no limit. So for all that follow."`
	EventsPerDaySoft *int64 `json:"events_per_day_soft,omitempty" minimum:"0"`
	EventsPerDay     *int64 `json:"events_per_day,omitempty" minimum:"0"`
	Endpoints        *int   `json:"endpoints,omitempty" minimum:"0" maximum:"100000"`
	PayloadBytes     *int   `json:"payload_bytes,omitempty" minimum:"0" maximum:"262144"`
	RetentionDays    *int   `json:"retention_days,omitempty" minimum:"0"`
}

// change is what the body changes of the limits that a tenant need not have.
func (l *TenantPutLimits) change() limit.Change {
	if l == nil {
		return limit.Change{}
	}
	return limit.Change{EventsPerSecond: l.EventsPerSecond, EventsPerDaySoft: l.EventsPerDaySoft, EventsPerDay: l.EventsPerDay, Endpoints: l.Endpoints,
		PayloadBytes: l.PayloadBytes, RetentionDays: l.RetentionDays}
}

// LimitUsage is what a tenant may, and what it uses of it.
type LimitUsage struct {
	Limits      OtherLimits `json:"limits" required:"true"`
	EventsToday int64       `json:"events_today" required:"true" description:"Dispatched since midnight UTC."`
	Endpoints   int64       `json:"endpoints" required:"true"`
}

func tenantOf(t account.Tenant, l limit.Limits) Tenant {
	shown := Tenant{
		ID: t.ID, UID: t.UID, Name: t.Name, Limits: TenantLimits{Concurrency: t.Concurrency, OtherLimits: otherLimitsOf(l)},
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
		{
			Name: "LimitRead", Method: http.MethodGet, Pattern: "/v1/limits", Audience: ForTenant, Scope: account.CatalogRead,
			Summary: "Read what the tenant may and uses", Detail: "The limits that the platform has set for it; what is left out is not limited.",
			Answers: []Answer{{http.StatusOK, LimitUsage{}}},
			Handle:  a.limitRead,
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
	ids := each(tenants, func(t account.Tenant) string { return t.ID })
	limits, err := a.Limits.Of(r.Context(), caller, ids...)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, Page(each(tenants, func(t account.Tenant) Tenant { return tenantOf(t, limits[t.ID]) }), next))
}

func (a *API) tenantPut(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[TenantPut](w, r)
	if err != nil {
		return err
	}
	in := account.TenantInput{Name: body.Name, Preset: body.Preset, TimeZone: body.TimeZone}
	if err := a.Limits.Check(body.Limits.change()); err != nil {
		return err
	}
	if body.Limits != nil {
		in.Concurrency = body.Limits.Concurrency
	}
	tenant, err := a.Accounts.TenantPut(r.Context(), caller, r.PathValue("uid"), in)
	if err != nil {
		return err
	}
	limits, err := a.Limits.Put(r.Context(), caller, tenant, body.Limits.change())
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, tenantOf(tenant, limits))
}

// limitRead says what a tenant may, and what it uses.
func (a *API) limitRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.CatalogRead); err != nil {
		return err
	}
	u, err := a.Limits.Usage(r.Context(), caller)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, LimitUsage{Limits: otherLimitsOf(u.Limits), EventsToday: u.EventsToday, Endpoints: u.EndpointsUsed})
}

func (a *API) tenantRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	tenant, err := a.Accounts.TenantRead(r.Context(), caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	limits, err := a.Limits.Of(r.Context(), caller, tenant.ID)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, tenantOf(tenant, limits[tenant.ID]))
}

// each shows every row of a list.
func each[From, To any](rows []From, show func(From) To) []To {
	shown := make([]To, len(rows))
	for i, row := range rows {
		shown[i] = show(row)
	}
	return shown
}
