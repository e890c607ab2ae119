package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// fillSaved names the filters that the caller has saved. A page is worth showing without them.
func (d *Dashboard) fillSaved(r *http.Request, caller account.Caller, sheet *page.Deliveries) error {
	sheet.MaySave = caller.MemberID != ""
	saved, err := d.Deliveries.SavedList(r.Context(), caller)
	if unavailable(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now := path.Deliveries(sheet.Filter.At(""))
	for _, one := range saved {
		query, err := url.ParseQuery(one.Query)
		if err != nil {
			continue
		}
		there := path.Deliveries(path.DeliveryFilterOf(query))
		sheet.Saved = append(sheet.Saved, page.SavedFilter{ID: one.ID, Name: one.Name, Href: there, Current: there == now})
		sheet.SavedHere = sheet.SavedHere || there == now
	}
	return nil
}

// filterSave keeps the filter of the address under a name.
func (d *Dashboard) filterSave(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	there := path.Deliveries(path.DeliveryFilterOf(r.URL.Query()).At(""))
	_, query, _ := strings.Cut(there, "?")
	_, err := d.Deliveries.Save(r.Context(), caller, field(r, "name"), query)
	switch kind := fault.KindOf(err); {
	case kind == fault.Invalid || kind == fault.Conflict:
		problems, _ := refused(err, map[string]string{"name": "name"})
		text := faultOf(err).Detail
		if problems["name"] != "" {
			text = "The filter was not saved. Its name: " + lower(problems["name"])
		}
		return d.done(w, r, caller, there, Note{Tone: ui.Wait, Text: text})
	case err != nil:
		return err
	}
	return d.done(w, r, caller, there, Note{Text: "Filter saved."})
}

// filterForget forgets one.
func (d *Dashboard) filterForget(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Deliveries.Unsave(r.Context(), caller, r.PathValue("filter")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Deliveries(path.DeliveryFilterOf(r.URL.Query()).At("")), Note{Tone: ui.Hold, Text: "Filter deleted."})
}
