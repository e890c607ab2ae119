package api

import (
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/fault"
)

// GapReport says what was published in a range of time, and what of it reached the tenant.
type GapReport struct {
	Since     time.Time  `json:"since" required:"true"`
	Until     time.Time  `json:"until" required:"true"`
	Counts    *GapCounts `json:"counts" required:"true" description:"null on all pages but the first."`
	Neither   []GapEvent `json:"neither" required:"true" nullable:"false" description:"What no endpoint took and no consumer acknowledged, the oldest first."`
	NextPages *string    `json:"next" required:"true" description:"The cursor of the next page, to be sent as after; null on the last page."`
}

// GapCounts are the numbers of a report.
type GapCounts struct {
	Published    int64 `json:"published" required:"true" description:"Without test events."`
	Delivered    int64 `json:"delivered" required:"true" description:"By push, to one endpoint at least."`
	Acknowledged int64 `json:"acknowledged" required:"true" description:"By pull, by one consumer at least."`
	Neither      int64 `json:"neither" required:"true"`
	Complete     bool  `json:"complete" required:"true" description:"false: there are more than 500,000 events, or counting took too long; the numbers are of the oldest. Ask for a shorter range."`
}

// GapEvent is an event that reached nobody.
type GapEvent struct {
	ID          string    `json:"id" required:"true"`
	Type        string    `json:"type" required:"true"`
	Resource    Resource  `json:"resource" required:"true"`
	Sequence    int64     `json:"sequence" required:"true"`
	PublishedAt time.Time `json:"published_at" required:"true"`
}

// GapQuery are the parameters of the report.
type GapQuery struct {
	PageQuery
	Since *time.Time `query:"since" description:"Dispatched at this time or later; a day before until, if left out."`
	Until *time.Time `query:"until" description:"Dispatched before this time; now, if left out."`
}

func (a *API) gapRoutes() []Route {
	return []Route{{
		Name: "GapReport", Method: http.MethodGet, Pattern: "/v1/reports/gap", Audience: ForTenant, Scope: account.CatalogRead,
		Summary: "Report what did not arrive",
		Detail: "Of what was published in a range of at most 92 days: how much was delivered to an endpoint, how much was acknowledged by a consumer, and which events were " +
			"neither. What is still being retried counts as neither. Send since and until again with `after`. It needs the right deliveries:read too.",
		Query: GapQuery{}, Answers: []Answer{{http.StatusOK, GapReport{}}}, Faults: []fault.Kind{fault.Malformed, fault.CursorExpired},
		Handle: a.gapReport,
	}}
}

func (a *API) gapReport(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	query, err := DecodeQuery[GapQuery](r)
	if err != nil {
		return err
	}
	report := GapReport{Until: a.Now().UTC()}
	if query.Until != nil {
		report.Until = *query.Until
	}
	report.Since = report.Until.Add(-24 * time.Hour)
	if query.Since != nil {
		report.Since = *query.Since
	}
	if query.After == "" {
		counts, err := a.Events.Gap(r.Context(), caller, report.Since, report.Until)
		if err != nil {
			return err
		}
		report.Counts = &GapCounts{counts.Published, counts.Pushed, counts.Pulled, counts.Neither, counts.Complete}
	}
	page, err := a.Events.GapList(r.Context(), caller, report.Since, report.Until, query.After, query.Limit)
	if err != nil {
		return err
	}
	report.Neither = each(page.Events, func(e catalog.Event) GapEvent {
		return GapEvent{e.ID, e.Type, Resource{e.ResourceType, e.ResourceID}, e.Sequence, e.PublishedAt}
	})
	report.NextPages = orNull(page.Next)
	return WriteJSON(w, http.StatusOK, report)
}
