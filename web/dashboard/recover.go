package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// localTime is how a form writes a time: in the tenant's zone, to the minute.
const localTime = "2006-01-02T15:04"

// recoverNames are the fields of the catch-up form by the operation's names.
var recoverNames = map[string]string{"since": "since", "until": "until", "statuses": "status", "per_second": "pace"}

// endpointRecover is the catch-up page of an endpoint: what would be sent, exactly. Without choices it is everything that is parked.
func (d *Dashboard) endpointRecover(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showRecover(w, r, caller, http.StatusOK, r.URL.Query(), nil)
}

func (d *Dashboard) showRecover(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, form url.Values, problems page.Problems) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	sheet := page.Recover{Endpoint: nameOf(e), Active: e.State == endpoint.Active, MaySend: may(caller, account.DeliveriesResend), Problems: problems}
	if sheet.Running, err = d.runningRecovery(r.Context(), caller, e.ID); err != nil {
		return err
	}
	if sheet.Past, err = d.pastRecoveries(r.Context(), v, e.ID); err != nil {
		return err
	}
	in, err := d.recoverInput(r.Context(), v, e.ID, form, &sheet)
	if err == nil {
		err = d.fillPreview(r.Context(), v, e.ID, in, &sheet)
	}
	switch refusals, ok := refused(err, recoverNames); {
	case ok && problems == nil:
		sheet.Problems, status = refusals, statusOf(err)
	case unavailable(err):
		sheet.Unread, status = true, http.StatusServiceUnavailable
	case err != nil && !ok:
		return err
	}
	return d.show(w, r, v, status, sheet)
}

// recoverInput reads the form into the operation's input and the sheet's fields. A first visit chooses everything that is parked.
func (d *Dashboard) recoverInput(ctx context.Context, v view, endpointID string, form url.Values, sheet *page.Recover) (delivery.RecoverInput, error) {
	in := delivery.RecoverInput{NewestPerResource: form.Get("newest") != ""}
	sheet.Since, sheet.Until, sheet.Newest, sheet.Pace = form.Get("since"), form.Get("until"), in.NewestPerResource, "0"
	wrong := fault.New(fault.Invalid, "This catch-up cannot be made.")
	var ok bool
	if in.Since, ok = startInstant(v, sheet.Since); !ok {
		wrong.Field("since", "must be a date and time")
	}
	if in.Until, ok = endInstant(v, sheet.Until); !ok {
		wrong.Field("until", "must be a date and time")
	}
	sheet.Held, sheet.Failed = slices.Contains(form["status"], "held"), slices.Contains(form["status"], "undelivered")
	if first := len(form) == 0; first {
		sheet.Held, sheet.Failed = true, true
	}
	if sheet.Held {
		in.Statuses = append(in.Statuses, delivery.Held)
	}
	if sheet.Failed {
		in.Statuses = append(in.Statuses, delivery.Undelivered)
	}
	if len(in.Statuses) == 0 {
		wrong.Field("statuses", "must be chosen: held, undelivered or both")
	}
	if pace := form.Get("pace"); pace != "" {
		n, err := strconv.Atoi(pace)
		if err != nil || n < 0 {
			wrong.Field("per_second", "must be one of those that are offered")
		}
		in.PerSecond, sheet.Pace = n, pace
	}
	if sheet.Since == "" && wrong.OrNil() == nil {
		oldest, err := d.oldestParked(ctx, v.caller, endpointID)
		if err != nil {
			return in, err
		}
		sheet.Since = oldest.In(v.clock.Zone).Format(localTime)
		in.Since, _ = startInstant(v, sheet.Since)
	}
	return in, wrong.OrNil()
}

// startInstant and endInstant read a form's time. In the hour that a zone has twice they mean its first and its second, so that nothing between
// is left out.
func startInstant(v view, text string) (time.Time, bool) {
	at, ok := instant(v, text)
	if again := at.Add(-time.Hour); ok && text != "" && again.In(v.clock.Zone).Format(localTime) == at.In(v.clock.Zone).Format(localTime) {
		at = again
	}
	return at, ok
}

func endInstant(v view, text string) (time.Time, bool) {
	at, ok := instant(v, text)
	if again := at.Add(time.Hour); ok && text != "" && again.In(v.clock.Zone).Format(localTime) == at.In(v.clock.Zone).Format(localTime) {
		at = again
	}
	return at, ok
}

// oldestParked is when the oldest parked delivery of an endpoint was made; a day ago, if there is none.
func (d *Dashboard) oldestParked(ctx context.Context, caller account.Caller, endpointID string) (time.Time, error) {
	// The preview begins no earlier than the resend window.
	preview, err := d.Deliveries.Preview(ctx, caller, endpointID, delivery.RecoverInput{Since: time.Unix(0, 0).UTC()})
	if err != nil {
		return time.Time{}, err
	}
	oldest := d.Now().Add(-24 * time.Hour)
	for i, t := range preview.Types {
		if i == 0 || t.Oldest.Before(oldest) {
			oldest = t.Oldest
		}
	}
	return oldest, nil
}

func (d *Dashboard) fillPreview(ctx context.Context, v view, endpointID string, in delivery.RecoverInput, sheet *page.Recover) error {
	preview, err := d.Deliveries.Preview(ctx, v.caller, endpointID, in)
	if err != nil {
		return err
	}
	shown := &page.RecoverPreview{Total: preview.Total, Skipped: preview.Older, Size: ui.Size(preview.Bytes)}
	if in.PerSecond > 0 && preview.Total > 0 {
		shown.Takes = "about " + ui.Span(time.Duration(preview.Total/int64(in.PerSecond)+1)*time.Second) + " at this pace"
	}
	for _, t := range preview.Types {
		shown.Groups = append(shown.Groups, page.RecoverGroup{Type: t.Type, Count: t.N, Oldest: v.clock.Moment(t.Oldest), Size: ui.Size(t.Bytes)})
	}
	for _, day := range preview.Days {
		shown.Days = append(shown.Days, page.RecoverDay{Day: day.Day.Format("2 Jan 2006"), Count: day.N, Share: ui.ShareBar{Part: day.N, Whole: preview.Total, Tone: ui.Info}})
	}
	sheet.Preview = shown
	return nil
}

// pastShown is how many reports of earlier catch-ups the page leads to.
const pastShown = 5

// pastRecoveries leads to the reports of the endpoint's last catch-ups.
func (d *Dashboard) pastRecoveries(ctx context.Context, v view, endpointID string) ([]page.RecoverPast, error) {
	last, _, err := d.Deliveries.RecoveryList(ctx, v.caller, endpointID, "", pastShown+1)
	if unavailable(err) {
		return nil, nil
	}
	var past []page.RecoverPast
	for _, one := range last {
		if one.State == delivery.RecoveryRunning || len(past) == pastShown {
			continue
		}
		sheet := recoverySheet(v, one, page.EndpointName{})
		past = append(past, page.RecoverPast{Href: path.EndpointRecovery(endpointID, one.ID), Stamp: sheet.Stamp, At: v.clock.Moment(one.CreatedAt),
			Text: ui.Number(one.Delivered) + " of " + ui.Count(one.Total, "delivery", "deliveries") + " delivered"})
	}
	return past, err
}

// runningRecovery is the address of the endpoint's catch-up that runs, or empty.
func (d *Dashboard) runningRecovery(ctx context.Context, caller account.Caller, endpointID string) (string, error) {
	last, _, err := d.Deliveries.RecoveryList(ctx, caller, endpointID, "", 1)
	if err != nil || len(last) == 0 || last[0].State != delivery.RecoveryRunning {
		return "", err
	}
	return path.EndpointRecovery(endpointID, last[0].ID), nil
}

// recoverStart begins the catch-up that was previewed.
func (d *Dashboard) recoverStart(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	endpointID := r.PathValue("id")
	var sheet page.Recover
	in, err := d.recoverInput(r.Context(), v, endpointID, r.PostForm, &sheet)
	var begun delivery.Recovery
	if err == nil {
		begun, err = d.Deliveries.Recover(r.Context(), caller, endpointID, in)
	}
	if problems, ok := refused(err, recoverNames); ok {
		return d.showRecover(w, r, caller, statusOf(err), r.PostForm, problems)
	}
	if err != nil {
		return err
	}
	return d.redirect(w, r, path.EndpointRecovery(endpointID, begun.ID))
}

// recovery is the progress of a catch-up, and its report.
func (d *Dashboard) recovery(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	found, e, err := d.recoveryOf(r, caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, recoverySheet(v, found, nameOf(e)))
}

// recoveryOf is the catch-up that an address names, if it is one of the endpoint that the address names.
func (d *Dashboard) recoveryOf(r *http.Request, caller account.Caller) (delivery.Recovery, endpoint.Endpoint, error) {
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return delivery.Recovery{}, e, err
	}
	found, err := d.Deliveries.Recovery(r.Context(), caller, r.PathValue("recovery"))
	if err == nil && found.EndpointID != e.ID {
		err = fault.New(fault.NotFound, "There is no such catch-up.")
	}
	return found, e, err
}

var endings = map[string]string{"endpoint_paused": "the endpoint was paused", "endpoint_disabled": "the endpoint was disabled",
	"endpoint_deleted": "the endpoint was deleted", "tenant_suspended": "this account was suspended"}

func recoverySheet(v view, r delivery.Recovery, name page.EndpointName) page.Recovery {
	sheet := page.Recovery{ID: r.ID, Endpoint: name, Total: r.Total, Sent: r.Delivered + r.Failed, Skipped: r.Skipped() + r.Returned, Delivered: r.Delivered,
		Failed: r.Failed, Started: v.clock.Moment(r.CreatedAt), By: by(r.RequestedBy), Running: r.State == delivery.RecoveryRunning, Why: endings[r.Ending]}
	switch {
	case sheet.Running && r.Ending != "":
		sheet.Stamp = ui.Stamp{Tone: ui.Wait, Word: "Stopping"}
	case sheet.Running:
		sheet.Stamp = ui.Stamp{Tone: ui.Info, Word: "Running"}
	case r.State == delivery.RecoveryDone:
		sheet.Stamp = ui.Stamp{Tone: ui.Good, Word: "Done"}
	default:
		sheet.Stamp, sheet.Parked = ui.Stamp{Tone: ui.Hold, Word: "Stopped"}, r.Left()
	}
	if left := sheet.Total - sheet.Sent - sheet.Skipped; sheet.Running && sheet.Sent > 0 && left > 0 && r.Took > 2*time.Second {
		sheet.Left = "about " + ui.Span((r.Took * time.Duration(left) / time.Duration(sheet.Sent)).Round(time.Second))
	}
	return sheet
}

// recoveryLive says when a catch-up has got further.
func (d *Dashboard) recoveryLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, _, err := d.recoveryOf(r, caller)
	if err != nil {
		return err
	}
	return d.stream(w, r, caller, "recovery "+found.ID, func(ctx context.Context) ([]item, error) {
		one, err := d.Deliveries.Recovery(ctx, caller, found.ID)
		if err != nil {
			return nil, err
		}
		return []item{{ID: one.ID, Version: recoveryVersion(one)}}, nil
	})
}

// recoveryVersion changes with what the page shows.
func recoveryVersion(r delivery.Recovery) string {
	return "v" + hash(fmt.Sprint(r.State, r.Ending, r.Moved, r.Delivered, r.Failed, r.Returned))
}

// recoveryCancel stops a catch-up.
func (d *Dashboard) recoveryCancel(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, e, err := d.recoveryOf(r, caller)
	if err != nil {
		return err
	}
	note := Note{Tone: ui.Hold, Text: "The catch-up stops. What was not sent is parked as before."}
	if _, err := d.Deliveries.RecoveryCancel(r.Context(), caller, found.ID); fault.KindOf(err) == fault.Conflict {
		note = Note{Tone: ui.Wait, Text: faultOf(err).Detail}
	} else if err != nil {
		return err
	}
	return d.done(w, r, caller, path.EndpointRecovery(e.ID, found.ID), note)
}
