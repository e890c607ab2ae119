package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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
	last, err := d.lastFailure(r.Context(), v, e, h)
	if err != nil {
		return err
	}
	sheet := page.Endpoint{Head: headOf(v, e, secrets, h, last), NoRollups: true, Unread: !known, Waiting: int64(h.Waiting.N), WaitingMore: h.Waiting.More, Strip: strip(h)}
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

// failure is how an endpoint fails now: its last attempts, without those that say nothing about it.
type failure struct {
	last  delivery.Outcome
	count int // in a row
	since time.Time
}

// failureOf says whether an active endpoint is failing. One bad answer of a server that works is no news; one that will not pass by itself is, as is
// the first of a server that never accepted anything.
func failureOf(e endpoint.Endpoint, h delivery.Health) (failure, bool) {
	if e.State != endpoint.Active || len(h.Last) == 0 {
		return failure{}, false
	}
	var f failure
	if f.last = h.Last[0]; nothingSent(f.last) {
		for _, outcome := range h.Last {
			if !nothingSent(outcome) {
				break
			}
			f.count, f.since = f.count+1, outcome.At
		}
		return f, true
	}
	for _, outcome := range h.Last {
		if outcome.Counts() {
			f.last = outcome
			break
		}
	}
	f.count, f.since = h.Failing()
	if e.Health.FailingSince != nil {
		f.since = *e.Health.FailingSince // it remembers longer than the last attempts go back
	}
	return f, f.count >= failingFrom || f.count > 0 && (e.Health.State == endpoint.Open || e.VerifiedAt == nil || lasting(f.last))
}

// nothingSent says of an attempt that the endpoint's own address or headers kept it from being made.
func nothingSent(outcome delivery.Outcome) bool {
	return outcome.Class == string(verdict.BlockedAddress) || outcome.Class == string(verdict.BadRequestConfig)
}

// lasting says of a failure that somebody has to change something.
func lasting(outcome delivery.Outcome) bool {
	class := verdict.Class(outcome.Class)
	return class == verdict.Redirect || class == verdict.TLS || verdict.Explain(verdict.Facts{Class: class, Code: outcome.Code}).Retry == verdict.ByPreset
}

// all says that every attempt that is known failed, so that nobody knows since when.
func (f failure) all(e endpoint.Endpoint, h delivery.Health) bool {
	return e.Health.FailingSince == nil && f.count == len(h.Last) && f.count == delivery.HealthAttempts
}

// words is what became of the last attempt: last, where it is known, tells more than the class.
func (f failure) words(last *verdict.Verdict) verdict.Verdict {
	if last != nil {
		return *last
	}
	return verdict.Explain(verdict.Facts{Class: verdict.Class(f.last.Class), Code: f.last.Code})
}

// failing is the stamp of an active endpoint that fails, and the reason in words. last is the verdict of its last failure, or nil.
func failing(v view, e endpoint.Endpoint, h delivery.Health, last *verdict.Verdict) (ui.Stamp, string, bool) {
	f, yes := failureOf(e, h)
	if !yes {
		return ui.Stamp{}, "", false
	}
	words := f.words(last).Short
	if f.last.Code != 0 {
		words = "answers " + words
	}
	if f.all(e, h) {
		return ui.Stamp{Tone: ui.Bad, Word: "Failing"}, fmt.Sprintf("%s; all of the last %d attempts failed", words, f.count), true
	}
	return ui.Stamp{Tone: ui.Bad, Word: "Failing"}, words + " since " + v.clock.Time(f.since), true
}

// lastFailure is the verdict of the last attempt of an endpoint that fails, with all that its evidence tells; nil where it is not failing, or the attempt is
// not found.
func (d *Dashboard) lastFailure(ctx context.Context, v view, e endpoint.Endpoint, h delivery.Health) (*verdict.Verdict, error) {
	f, yes := failureOf(e, h)
	if !yes {
		return nil, nil
	}
	found, err := d.Deliveries.List(ctx, v.caller, delivery.Filter{EndpointID: e.ID, Class: f.last.Class, Tests: delivery.WithoutTests}, "", 1)
	if unavailable(err) || err == nil && len(found.Deliveries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	attempts, err := d.Deliveries.Attempts(ctx, v.caller, found.Deliveries[0].ID, "", recentRows)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts.Attempts {
		if a.Class == f.last.Class && a.Code == f.last.Code {
			words := explained(a, nameHost(e.URL), d.Policies.First(e.Preset, v.tenant.Preset).Timeout)
			return &words, nil
		}
	}
	return nil, nil
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
