package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
)

// EndpointRecover is the body that catches up on what is parked of an endpoint.
type EndpointRecover struct {
	Since     *time.Time        `json:"since" required:"true" description:"Deliveries made at this time or later; as late as the resend window begins."`
	Until     *time.Time        `json:"until,omitempty" description:"And before this time; left out: now."`
	Statuses  []delivery.Status `json:"statuses,omitempty" description:"undelivered, held, or both; left out: both."`
	Newest    bool              `json:"newest_per_resource,omitempty" description:"Of each resource only the delivery with the highest sequence; the others stay parked."`
	PerSecond int               `json:"per_second,omitempty" minimum:"1" maximum:"10000" description:"At most so many a second; left out: as the endpoint's limits allow."`
	DryRun    bool              `json:"dry_run,omitempty" description:"Only count: answers 200 with a preview, and sends nothing."`
}

// RecoverPreview is what a catch-up would send, exactly, as of now.
type RecoverPreview struct {
	Since  time.Time            `json:"since" required:"true"`
	Until  time.Time            `json:"until" required:"true"`
	Total  int64                `json:"total" required:"true" description:"Deliveries that would be sent."`
	Older  int64                `json:"older" required:"true" description:"Left out by newest_per_resource."`
	Bytes  int64                `json:"bytes" required:"true" description:"Of all bodies."`
	ByType []RecoverPreviewType `json:"by_type" required:"true" nullable:"false"`
	ByDay  []RecoverPreviewDay  `json:"by_day" required:"true" nullable:"false" description:"By the day on which they were made, in UTC."`
}

// RecoverPreviewType is a preview's count of one event type.
type RecoverPreviewType struct {
	Type   string    `json:"type" required:"true"`
	Count  int64     `json:"count" required:"true"`
	Oldest time.Time `json:"oldest" required:"true"`
	Bytes  int64     `json:"bytes" required:"true"`
}

// RecoverPreviewDay is a preview's count of one day.
type RecoverPreviewDay struct {
	Day   string `json:"day" required:"true" format:"date"`
	Count int64  `json:"count" required:"true"`
}

// Recovery is a catch-up that runs or ran.
type Recovery struct {
	ID          string                 `json:"id" required:"true" examples:"[\"rcv_01J9X3ZK7Q8W2M4T5V6B7N8P9R\"]"`
	EndpointID  string                 `json:"endpoint_id" required:"true"`
	State       delivery.RecoveryState `json:"state" required:"true" enum:"running,done,cancelled,stopped" description:"stopped: its endpoint stopped sending."`
	Ending      *string                `json:"ending" required:"true" description:"Why it ends before its time: cancelled, endpoint_paused, endpoint_disabled, endpoint_deleted or tenant_suspended."`
	Since       time.Time              `json:"since" required:"true"`
	Until       time.Time              `json:"until" required:"true"`
	Statuses    []delivery.Status      `json:"statuses" required:"true" nullable:"false"`
	Newest      bool                   `json:"newest_per_resource" required:"true"`
	PerSecond   *int                   `json:"per_second" required:"true" description:"null: as the endpoint's limits allow."`
	Total       int64                  `json:"total" required:"true" description:"What it was to send when it began."`
	Older       int64                  `json:"older" required:"true" description:"Left out by newest_per_resource."`
	Delivered   int64                  `json:"delivered" required:"true" description:"Accepted at their first attempt."`
	Failed      int64                  `json:"failed" required:"true" description:"Refused at it; their schedules go on."`
	Returned    int64                  `json:"returned" required:"true" description:"Held again, or cancelled, before they were attempted."`
	Waiting     int64                  `json:"waiting" required:"true" description:"Due and not attempted yet."`
	Skipped     int64                  `json:"skipped" required:"true" description:"Delivered, resent or cancelled meanwhile; known when it is done."`
	Left        int64                  `json:"left" required:"true" description:"Still parked."`
	RequestedBy string                 `json:"requested_by" required:"true"`
	CreatedAt   time.Time              `json:"created_at" required:"true"`
	FinishedAt  *time.Time             `json:"finished_at" required:"true" description:"null: it runs."`
}

func recoveryOf(r delivery.Recovery) Recovery {
	shown := Recovery{
		ID: r.ID, EndpointID: r.EndpointID, State: r.State, Ending: orNull(r.Ending), Since: r.Since, Until: r.Until, Statuses: r.Statuses, Newest: r.NewestPerResource,
		Total: r.Total, Older: r.Older, Delivered: r.Delivered, Failed: r.Failed, Returned: r.Returned, Waiting: r.Waiting(), Skipped: r.Skipped(), Left: r.Left(),
		RequestedBy: r.RequestedBy, CreatedAt: r.CreatedAt, FinishedAt: r.FinishedAt,
	}
	if r.PerSecond > 0 {
		shown.PerSecond = &r.PerSecond
	}
	return shown
}

func previewOf(p delivery.Preview) RecoverPreview {
	shown := RecoverPreview{Since: p.Since, Until: p.Until, Total: p.Total, Older: p.Older, Bytes: p.Bytes, ByType: []RecoverPreviewType{}, ByDay: []RecoverPreviewDay{}}
	for _, t := range p.Types {
		shown.ByType = append(shown.ByType, RecoverPreviewType{Type: t.Type, Count: t.N, Oldest: t.Oldest, Bytes: t.Bytes})
	}
	for _, d := range p.Days {
		shown.ByDay = append(shown.ByDay, RecoverPreviewDay{Day: d.Day.Format(time.DateOnly), Count: d.N})
	}
	return shown
}

// RecoveryListQuery are the parameters of the list of catch-ups.
type RecoveryListQuery struct {
	PageQuery
	EndpointID string `query:"endpoint_id"`
}

func (a *API) recoveryRoutes() []Route {
	return []Route{
		{
			Name: "EndpointRecover", Method: http.MethodPost, Pattern: "/v1/endpoints/{id}/recover", Audience: ForTenant, Scope: account.DeliveriesResend,
			Summary: "Send what is parked",
			Detail: "Everything undelivered or held of an endpoint and a time is sent again by a job, behind new events, with the same `webhook-id`s. What is parked " +
				"later, or delivered meanwhile, is not sent. An endpoint has one catch-up at a time; while it is paused or disabled there is none, but a preview.",
			Body: EndpointRecover{}, Answers: []Answer{{http.StatusAccepted, Recovery{}}, {http.StatusOK, RecoverPreview{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.endpointRecover,
		},
		{
			Name: "RecoveryList", Method: http.MethodGet, Pattern: "/v1/recoveries", Audience: ForTenant, Scope: account.DeliveriesRead,
			Summary: "List catch-ups", Detail: "Newest first. Reports are kept for 90 days.",
			Query: RecoveryListQuery{}, Answers: []Answer{{http.StatusOK, List[Recovery]{}}}, Faults: []fault.Kind{fault.Malformed},
			Handle: a.recoveryList,
		},
		{
			Name: "RecoveryRead", Method: http.MethodGet, Pattern: "/v1/recoveries/{id}", Audience: ForTenant, Scope: account.DeliveriesRead,
			Summary: "Read a catch-up", Answers: []Answer{{http.StatusOK, Recovery{}}},
			Handle: a.recoveryRead,
		},
		{
			Name: "RecoveryCancel", Method: http.MethodPost, Pattern: "/v1/recoveries/{id}/cancel", Audience: ForTenant, Scope: account.DeliveriesResend,
			Summary: "Stop a catch-up", Detail: "Within a second nothing more is sent, but for what was about to be; what was not sent is parked as before.",
			Answers: []Answer{{http.StatusOK, Recovery{}}}, Faults: []fault.Kind{fault.Conflict},
			Handle: a.recoveryCancel,
		},
	}
}

func (a *API) endpointRecover(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	body, err := DecodeBody[EndpointRecover](w, r)
	if err != nil {
		return err
	}
	in := delivery.RecoverInput{Statuses: body.Statuses, NewestPerResource: body.Newest, PerSecond: body.PerSecond}
	if body.Since != nil {
		in.Since = *body.Since
	}
	if body.Until != nil {
		in.Until = *body.Until
	}
	if body.DryRun {
		preview, err := a.Deliveries.Preview(r.Context(), caller, r.PathValue("id"), in)
		if err != nil {
			return err
		}
		return WriteJSON(w, http.StatusOK, previewOf(preview))
	}
	begun, err := a.Deliveries.Recover(r.Context(), caller, r.PathValue("id"), in)
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusAccepted, recoveryOf(begun))
}

func (a *API) recoveryList(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[RecoveryListQuery](r)
	if err != nil {
		return err
	}
	found, next, err := a.Deliveries.RecoveryList(r.Context(), caller, query.EndpointID, query.After, query.Limit)
	if err != nil {
		return err
	}
	shown := make([]Recovery, len(found))
	for i, one := range found {
		shown[i] = recoveryOf(one)
	}
	return WriteJSON(w, http.StatusOK, Page(shown, next))
}

func (a *API) recoveryRead(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Deliveries.Recovery(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, recoveryOf(found))
}

func (a *API) recoveryCancel(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := a.Deliveries.RecoveryCancel(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return WriteJSON(w, http.StatusOK, recoveryOf(found))
}
