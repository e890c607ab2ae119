package dashboard

import (
	"net/http"

	"waybill/app/account"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// confirm shows a question about an endpoint to whoever may answer it.
func (d *Dashboard) confirm(w http.ResponseWriter, r *http.Request, caller account.Caller, ask func(v view, name page.EndpointName) (page.Confirmation, error)) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	e, err := d.Endpoints.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	sheet, err := ask(v, nameOf(e))
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func (d *Dashboard) endpointPauseAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.confirm(w, r, caller, func(v view, name page.EndpointName) (page.Confirmation, error) {
		return page.PauseEndpoint(name, d.waiting(r.Context(), caller, name.ID), d.kept()), nil
	})
}

func (d *Dashboard) endpointDisableAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.confirm(w, r, caller, func(v view, name page.EndpointName) (page.Confirmation, error) {
		return page.DisableEndpoint(name, d.waiting(r.Context(), caller, name.ID), d.kept()), nil
	})
}

func (d *Dashboard) endpointEnableAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.confirm(w, r, caller, func(v view, name page.EndpointName) (page.Confirmation, error) {
		return page.EnableEndpoint(name, d.held(r.Context(), caller, name.ID)), nil
	})
}

func (d *Dashboard) endpointDeleteAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.confirm(w, r, caller, func(v view, name page.EndpointName) (page.Confirmation, error) {
		return page.DeleteEndpoint(name, d.waiting(r.Context(), caller, name.ID), d.parkedOf(r.Context(), caller, name.ID)), nil
	})
}

func (d *Dashboard) endpointPause(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	e, err := d.Endpoints.Pause(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Endpoint(e.ID), Note{Tone: ui.Hold, Text: "The endpoint is paused. Its events are held until you enable it."})
}

func (d *Dashboard) endpointDisable(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	e, err := d.Endpoints.Disable(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Endpoint(e.ID), Note{Tone: ui.Hold, Text: "The endpoint is disabled. Its events are held until you enable it."})
}

func (d *Dashboard) endpointEnable(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	e, err := d.Endpoints.Enable(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	next := path.Endpoint(e.ID)
	if d.held(r.Context(), caller, e.ID) != 0 {
		next = path.EndpointRecover(e.ID) // what was held meanwhile waits for a choice
	}
	return d.done(w, r, caller, next, Note{Text: "The endpoint is active. New events are sent to it from now on."})
}

func (d *Dashboard) endpointDelete(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Endpoints.Delete(r.Context(), caller, r.PathValue("id")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Endpoints(), Note{Text: "The endpoint is deleted. Its history stays readable under Deliveries."})
}
