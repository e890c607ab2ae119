package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	recentRows = 10 // deliveries on an endpoint's page
	// failingFrom is after how many failures in a row an endpoint is said to be failing: one bad answer is no news.
	failingFrom = 3
)

// endpoint is the first tab of an endpoint: what waits, how the last attempts went, its recent deliveries.
func (d *Dashboard) endpoint(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	var secrets []endpoint.Secret
	var recent delivery.Page
	var health map[string]delivery.Health
	var c charts
	if err := together(r.Context(), func(ctx context.Context) (err error) {
		secrets, err = d.Endpoints.Secrets(ctx, caller, e.ID)
		return err
	}, func(ctx context.Context) (err error) {
		if recent, err = d.Deliveries.List(ctx, caller, delivery.Filter{EndpointID: e.ID}, "", recentRows); unavailable(err) {
			return nil
		}
		return err
	}, func(ctx context.Context) (err error) {
		health, err = d.health(ctx, caller, []string{e.ID})
		return err
	}, func(ctx context.Context) (err error) {
		if d.charted(caller) {
			c, err = d.chart(ctx, v, e.ID, delivery.Day)
		}
		return err
	}); err != nil {
		return err
	}
	h, known := health[e.ID]
	sheet := page.Endpoint{Head: headOf(v, e, secrets, h), NoRollups: true, Unread: !known, Waiting: int64(h.Waiting.N), WaitingMore: h.Waiting.More, Strip: strip(h)}
	for _, one := range recent.Deliveries {
		sheet.Recent = append(sheet.Recent, deliveryRow(v, one, nil))
	}
	if d.charted(caller) {
		sheet.NoRollups, sheet.Unread = false, sheet.Unread || c.Failing
		sheet.Delivered, sheet.Failed, sheet.P50, sheet.P95, sheet.Outcomes, sheet.Times = c.Delivered, c.Failed, about(c.P50), about(c.P95), c.Outcomes, c.Times
	}
	if !h.Oldest.IsZero() {
		sheet.Oldest = v.clock.Moment(h.Oldest)
	}
	sheet.Live = withQuery(path.EndpointLive(e.ID), versionName, feedVersion(e, recent.Deliveries))
	return d.show(w, r, v, http.StatusOK, sheet)
}

// health is how endpoints fare, by id; empty when it cannot be read now, for a page has more to say than that.
func (d *Dashboard) health(ctx context.Context, caller account.Caller, endpointIDs []string) (map[string]delivery.Health, error) {
	if !may(caller, account.DeliveriesRead) {
		return nil, nil
	}
	health, err := d.Deliveries.Health(ctx, caller, endpointIDs)
	if unavailable(err) {
		d.Log.WarnContext(ctx, "the health of endpoints could not be read", "error", err)
		return nil, nil
	}
	return health, err
}

// strip is the last attempts as the small picture draws them, the oldest first.
func strip(h delivery.Health) ui.Strip {
	var s ui.Strip
	for _, outcome := range slices.Backward(h.Last) {
		s.Outcomes = append(s.Outcomes, outcomeTone(outcome))
	}
	return s
}

func outcomeTone(outcome delivery.Outcome) ui.Tone {
	switch {
	case !outcome.Counts():
		return ui.Mute
	case outcome.Class == string(verdict.Delivered):
		return ui.Good
	}
	return ui.Bad
}

// failing is the stamp of an active endpoint whose last attempts all failed, and the reason in words.
func failing(v view, e endpoint.Endpoint, h delivery.Health) (ui.Stamp, string, bool) {
	failures, since := h.Failing()
	if e.Health.FailingSince != nil {
		since = *e.Health.FailingSince // it remembers longer than the last attempts go back
	}
	if e.State != endpoint.Active || failures < failingFrom && (e.Health.State != endpoint.Open || failures == 0) {
		return ui.Stamp{}, "", false
	}
	last := h.Last[0]
	for _, outcome := range h.Last {
		if outcome.Counts() {
			last = outcome
			break
		}
	}
	words := verdict.Explain(verdict.Facts{Class: verdict.Class(last.Class), Code: last.Code}).Short
	if last.Code != 0 {
		words = "answers " + words
	}
	if e.Health.FailingSince == nil && failures == len(h.Last) && failures == delivery.HealthAttempts {
		return ui.Stamp{Tone: ui.Bad, Word: "Failing"}, fmt.Sprintf("%s; all of the last %d attempts failed", words, failures), true
	}
	return ui.Stamp{Tone: ui.Bad, Word: "Failing"}, words + " since " + v.clock.Time(since), true
}

// endpointLive says when an endpoint's page has changed.
func (d *Dashboard) endpointLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	endpointID := r.PathValue("id")
	if _, err := d.Endpoints.Read(r.Context(), caller, endpointID); err != nil {
		return err
	}
	return d.stream(w, r, caller, "endpoint "+endpointID, func(ctx context.Context) ([]item, error) {
		e, err := d.Endpoints.Read(ctx, caller, endpointID)
		if err != nil {
			return nil, err
		}
		recent, err := d.Deliveries.List(ctx, caller, delivery.Filter{EndpointID: endpointID}, "", recentRows)
		if err != nil {
			return nil, err
		}
		return []item{{ID: endpointID, Version: feedVersion(e, recent.Deliveries)}}, nil
	})
}

// feedVersion changes with an endpoint and its recent deliveries.
func feedVersion(e endpoint.Endpoint, recent []delivery.Delivery) string {
	return digest(fmt.Sprint(e.Rev), recent)
}

// digest is a short text that changes with the deliveries.
func digest(start string, deliveries []delivery.Delivery) string {
	var all strings.Builder
	all.WriteString(start)
	for _, one := range deliveries {
		all.WriteString(" " + one.ID + deliveryVersion(one))
	}
	return "v" + hash(all.String())
}
