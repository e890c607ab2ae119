package dashboard

import (
	"fmt"
	"net/http"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// deliveryResendAsk asks before something is sent again that has arrived.
func (d *Dashboard) deliveryResendAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	one, err := d.Deliveries.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	name := page.EndpointName{ID: one.EndpointID, Name: one.EndpointDescription, Host: one.EndpointHost}
	sheet := page.ResendDelivered(name, one.ID, one.Type+" of "+one.ResourceID+" to "+titleOf(name))
	switch one.Status {
	case delivery.Delivered:
	case delivery.Pending:
		sheet.Ask.Effects = []string{"It is sent now, and its schedule goes on if that fails."}
	default:
		sheet.Ask.Effects = []string{"It is sent now, once. If that fails, it stays " + string(one.Status) + "."}
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// deliveryResend sends a delivery again.
func (d *Dashboard) deliveryResend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	deliveryID := r.PathValue("id")
	_, err := d.Deliveries.Resend(r.Context(), caller, deliveryID)
	if fault.KindOf(err) == fault.Conflict {
		return d.done(w, r, caller, path.Delivery(deliveryID), Note{Tone: ui.Wait, Text: "It was not resent. " + faultOf(err).Detail})
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Delivery(deliveryID), Note{Text: "It is on its way again. The attempt appears below."})
}

// deliveriesResend sends the chosen deliveries again, once that was confirmed.
func (d *Dashboard) deliveriesResend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.DeliveriesResend); err != nil {
		return err
	}
	filter := path.DeliveryFilterOf(r.URL.Query())
	ids := r.PostForm["delivery"]
	if len(ids) == 0 && filter.Status != "" && r.PostForm.Get("confirmed") != "" {
		return d.resendAll(w, r, caller, filter)
	}
	if len(ids) == 0 {
		return d.nothingChosen(w, r, caller, filter)
	}
	if r.PostForm.Get("confirmed") == "" {
		v, err := d.view(r, caller)
		if err != nil {
			return err
		}
		return d.show(w, r, v, http.StatusOK, page.ResendMany(filter, ids, int64(len(ids)), 0, nil))
	}
	results, err := d.Deliveries.ResendMany(r.Context(), caller, ids)
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Deliveries(filter), resentNote(results))
}

// nothingChosen leads back to the list, also those who load the address of a question about ticked rows anew: which rows they were is forgotten then.
func (d *Dashboard) nothingChosen(w http.ResponseWriter, r *http.Request, caller account.Caller, filter path.DeliveryFilter) error {
	return d.done(w, r, caller, path.Deliveries(filter), Note{Tone: ui.Wait, Text: "Nothing was chosen. Tick the deliveries to resend."})
}

// resentNote says how many of the chosen deliveries are on their way, and why others are not.
func resentNote(results []delivery.Resent) Note {
	sent := 0
	var refused *delivery.Refusal
	for _, result := range results {
		if result.Refusal == nil {
			sent++
		} else if refused == nil {
			refused = result.Refusal
		}
	}
	note := Note{Text: isAre(sent, "delivery is on its way again.", "deliveries are on their way again.")}
	if refused != nil {
		note.Tone = ui.Wait
		note.Text += fmt.Sprintf(" %s left out: %s", isAre(len(results)-sent, "was", "were"), refused.Detail)
	}
	return note
}
