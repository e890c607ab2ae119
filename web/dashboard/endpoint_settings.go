package dashboard

import (
	"net/http"
	"slices"

	"waybill/app/account"
	"waybill/app/endpoint"
	"waybill/web/page"
	"waybill/web/path"
)

// endpointSettings is the tab with what can be changed.
func (d *Dashboard) endpointSettings(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	form := d.withPresets(v, d.formOf(types, e), e.Preset)
	if !head.MayManage {
		form.URL = shownURL(e.URL)
	}
	return d.show(w, r, v, http.StatusOK, page.EndpointSettings{Head: head, Form: form})
}

// endpointSave changes an endpoint's settings.
func (d *Dashboard) endpointSave(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet := page.EndpointSettings{Head: head, Form: d.withPresets(v, typed(r, types, e.HeaderNames), field(r, "preset"))}
	change, problems := changeOf(r, sheet.Form, e)
	if problems == nil {
		_, err = d.Endpoints.Update(r.Context(), caller, e.ID, change)
		problems, _ = refused(err, endpointFields)
	}
	if problems != nil {
		sheet.Form.Problems = problems
		return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.EndpointSettings(e.ID), Note{Text: "Changes saved. They apply from the next attempt on."})
}

// changeOf is what the form changes. Static headers are one set: it stays as it is unless a name or a value was touched.
func changeOf(r *http.Request, form page.EndpointForm, e endpoint.Endpoint) (endpoint.Change, page.Problems) {
	in, problems := inputOf(r, form)
	if len(in.Types) == 0 {
		problems = page.Problems{"types": "Choose at least one, or every type."}
	}
	if in.Concurrency == 0 {
		in.Concurrency = endpoint.DefaultConcurrency
	}
	types := in.Types
	if same(types, e.Types) {
		types = nil
	}
	change := endpoint.Change{
		URL: &in.URL, Types: types, Description: &in.Description, Scheme: &in.Scheme, Payload: &in.Payload, Concurrency: &in.Concurrency,
	}
	if r.PostForm.Has("preset") {
		change.Preset = &in.Preset
	}
	var names []string
	touched := false
	for _, header := range in.Headers {
		names = append(names, header.Name)
		touched = touched || header.Value != ""
	}
	if touched || !same(names, e.HeaderNames) {
		if in.Headers == nil {
			in.Headers = []endpoint.Header{}
		}
		change.Headers = &in.Headers
		for _, header := range in.Headers {
			if header.Value == "" && slices.Contains(e.HeaderNames, header.Name) {
				change.KeepHeaders = append(change.KeepHeaders, header.Name)
			}
		}
	}
	return change, problems
}

// same says whether two lists hold the same, in whatever order.
func same(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// endpointCheck tries the stored URL's connection and shows what came of it.
func (d *Dashboard) endpointCheck(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, page.EndpointSettings{
		Head: head, Form: d.withPresets(v, d.formOf(types, e), e.Preset), Check: d.checkConnection(r.Context(), e.URL)})
}
