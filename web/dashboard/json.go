package dashboard

import (
	"net/http"

	"waybill/app/account"
)

// deliveryJSON is the delivery as the API shows it.
func (d *Dashboard) deliveryJSON(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	found, err := d.Deliveries.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	text, err := d.JSON.Delivery(found)
	if err != nil {
		return err
	}
	return writeText(w, text)
}

// attemptJSON is the attempt as the API shows it, without the body that all attempts share.
func (d *Dashboard) attemptJSON(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	_, a, err := d.evidence(r, caller)
	if err != nil {
		return err
	}
	text, err := d.JSON.Attempt(a)
	if err != nil {
		return err
	}
	return writeText(w, text)
}
