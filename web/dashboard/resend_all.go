package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	// maxTargets is how many endpoints "resend all" takes at once: each gets a catch-up of its own.
	maxTargets = 20
	// maxKinds is how many event types are named before it.
	maxKinds = 12
)

// parkedStatuses are the statuses that "all that match" of the undelivered list means by a word of its address.
var parkedStatuses = map[string][]delivery.Status{
	"parked": {delivery.Undelivered, delivery.Held}, "undelivered": {delivery.Undelivered}, "held": {delivery.Held},
}

// parkedTargets are the endpoints that "resend all" is about.
func (d *Dashboard) parkedTargets(ctx context.Context, caller account.Caller, filter path.DeliveryFilter) ([]string, []delivery.Status, error) {
	statuses, known := parkedStatuses[filter.Status]
	if !known {
		return nil, nil, fault.New(fault.NotFound, "There is no such list to resend.")
	}
	targets, err := d.Deliveries.RecoverTargets(ctx, caller, filter.Endpoint, statuses, maxTargets+1)
	if err == nil && len(targets) > maxTargets {
		err = fault.Newf(fault.Conflict, "More than %d endpoints have something parked. Choose one endpoint at a time.", maxTargets)
	}
	return targets, statuses, err
}

// everything is as far back as can be resent.
var everything = time.Unix(0, 0).UTC()

// resendAllAsk says exactly what "all that match" is, before anything is sent.
func (d *Dashboard) resendAllAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	filter := path.DeliveryFilterOf(r.URL.Query())
	if filter.Status == "" {
		return d.nothingChosen(w, r, caller, filter)
	}
	back := path.UndeliveredAt(filter.Endpoint, parkedTab(filter.Status), "")
	targets, statuses, err := d.parkedTargets(r.Context(), caller, filter)
	if fault.KindOf(err) == fault.Conflict {
		return d.done(w, r, caller, back, Note{Tone: ui.Wait, Text: faultOf(err).Detail})
	}
	if err != nil {
		return err
	}
	endpoints, err := d.endpointsByID(r.Context(), caller)
	if err != nil {
		return err
	}
	kinds := map[string]int64{}
	var total, off int64
	for _, target := range targets {
		preview, err := d.Deliveries.Preview(r.Context(), caller, target, delivery.RecoverInput{Since: everything, Statuses: statuses})
		if err != nil {
			return err
		}
		if e, known := endpoints[target]; known && e.State != "active" {
			off += preview.Total
			continue
		}
		total += preview.Total
		for _, t := range preview.Types {
			kinds[t.Type] += t.N
		}
	}
	if total == 0 {
		text := "Nothing of that can be resent now."
		if off > 0 {
			text = ui.Count(off, "delivery is", "deliveries are") + " of endpoints that are off. Enable those first."
		}
		return d.done(w, r, caller, back, Note{Tone: ui.Wait, Text: text})
	}
	sheet := page.ResendMany(filter, nil, total, 0, countedKinds(kinds))
	sheet.Nav, sheet.Crumbs, sheet.Ask.Back = path.Undelivered(), []ui.Link{{Text: "Undelivered", Href: back}}, back
	if off > 0 {
		sheet.Ask.Effects = append(sheet.Ask.Effects, ui.Count(off, "other stays", "others stay")+" parked: the endpoints are off.")
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// countedKinds is how many of which type, the most first.
func countedKinds(kinds map[string]int64) []ui.Option {
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b)) })
	var shown []ui.Option
	var rest int64
	for i, name := range names {
		if i >= maxKinds {
			rest += kinds[name]
			continue
		}
		shown = append(shown, ui.Option{Value: name, Text: ui.Count(kinds[name], "delivery", "deliveries")})
	}
	if rest > 0 {
		shown = append(shown, ui.Option{Value: "other types", Text: ui.Count(rest, "delivery", "deliveries")})
	}
	return shown
}

// parkedTab is the tab of the undelivered list that an address's status stands for.
func parkedTab(status string) string {
	if status == "parked" {
		return ""
	}
	return status
}

// resendAll begins a catch-up of each endpoint of which something matches.
func (d *Dashboard) resendAll(w http.ResponseWriter, r *http.Request, caller account.Caller, filter path.DeliveryFilter) error {
	back := path.UndeliveredAt(filter.Endpoint, parkedTab(filter.Status), "")
	targets, statuses, err := d.parkedTargets(r.Context(), caller, filter)
	if fault.KindOf(err) == fault.Conflict {
		return d.done(w, r, caller, back, Note{Tone: ui.Wait, Text: faultOf(err).Detail})
	}
	if err != nil {
		return err
	}
	var begun []delivery.Recovery
	refusal := ""
	var total int64
	for _, target := range targets {
		one, err := d.Deliveries.Recover(r.Context(), caller, target, delivery.RecoverInput{Since: everything, Statuses: statuses})
		switch {
		case fault.KindOf(err) == fault.Conflict:
			refusal = cmp.Or(refusal, faultOf(err).Detail)
		case err != nil:
			return err
		default:
			begun = append(begun, one)
			total += one.Total
		}
	}
	switch {
	case len(begun) == 1 && refusal == "":
		return d.redirect(w, r, path.EndpointRecovery(begun[0].EndpointID, begun[0].ID))
	case len(begun) == 0:
		return d.done(w, r, caller, back, Note{Tone: ui.Wait, Text: "Nothing was resent. " + refusal})
	}
	note := Note{Text: ui.Count(int64(len(begun)), "catch-up has", "catch-ups have") + " begun, of " + ui.Count(total, "delivery", "deliveries") + "."}
	if refusal != "" {
		note.Tone, note.Text = ui.Wait, note.Text+" Left out: "+refusal
	}
	return d.done(w, r, caller, back, note)
}
