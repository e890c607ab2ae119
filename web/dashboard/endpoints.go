package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// pageRows is how many rows a list shows: the heaviest list, with stylesheet and scripts, stays below 100 kB.
const pageRows = 40

// endpoints lists the tenant's endpoints, newest first.
func (d *Dashboard) endpoints(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	after := query.Get("cursor")
	sheet := page.Endpoints{MayManage: may(caller, account.EndpointsWrite), NoRollups: !d.charted(caller), Search: query.Get("q"), Show: query.Get("show")}
	all, wrong, err := d.Endpoints.Count(r.Context(), caller)
	if err != nil {
		return err
	}
	list, next, err := d.Endpoints.ListBy(r.Context(), caller, endpoint.Filter{Text: sheet.Search, Show: sheet.Show}, after, pageRows)
	status := http.StatusOK
	switch {
	case fault.KindOf(err) == fault.Invalid:
		v.frame.Notice, status = invalidFilter(err), http.StatusUnprocessableEntity
	case err != nil:
		return err
	}
	sheet.Shown = endpointsShown(sheet, len(list), all, after == "" && next == "")
	sheet.Total, sheet.Many = all, all > pageRows
	if sheet.Many && sheet.Show == "" && sheet.Search == "" && after == "" && wrong > 0 {
		sheet.Attention = int64(wrong)
	}
	if after != "" {
		sheet.First = path.EndpointsOf(sheet.Search, sheet.Show, "")
	}
	if next != "" {
		sheet.Next = path.EndpointsOf(sheet.Search, sheet.Show, next)
	}
	var health map[string]delivery.Health
	var totals map[string]delivery.Total
	if err := together(r.Context(), func(ctx context.Context) (err error) {
		health, err = d.health(ctx, caller, idsOf(list))
		return err
	}, func(ctx context.Context) (err error) {
		if d.charted(caller) {
			totals, err = d.totals(ctx, v, idsOf(list))
		}
		return err
	}); err != nil {
		return err
	}
	for _, e := range list {
		row, total := endpointRow(v, e, health[e.ID]), totals[e.ID]
		row.Share, row.P95 = share(total), about(total.Responses.Quantile(.95))
		sheet.Rows = append(sheet.Rows, row)
	}
	// What needs somebody comes first; within that, the newest.
	slices.SortStableFunc(sheet.Rows, func(a, b page.EndpointRow) int { return cmp.Compare(urgency(a.Stamp), urgency(b.Stamp)) })
	return d.show(w, r, v, status, sheet)
}

// endpointsShown says how many endpoints of how many a page shows.
func endpointsShown(sheet page.Endpoints, rows, all int, whole bool) string {
	if sheet.Search != "" || sheet.Show != "" {
		return shown(rows, whole, "endpoint", "endpoints")
	}
	total := ui.Count(int64(all), "endpoint", "endpoints")
	switch {
	case whole:
		return total
	case all >= endpoint.MaxCount:
		total = "more than " + total
	}
	return fmt.Sprintf("%d of %s", rows, total)
}

func idsOf(endpoints []endpoint.Endpoint) []string {
	ids := make([]string, len(endpoints))
	for i, e := range endpoints {
		ids[i] = e.ID
	}
	return ids
}

// mostlyDelivered is the share of attempts above which the small picture of it is no warning.
const mostlyDelivered = 0.99

// share is how many of the attempts were delivered.
func share(t delivery.Total) ui.ShareBar {
	bar := ui.ShareBar{Part: t.Delivered, Whole: t.Delivered + t.Failed(), Tone: ui.Good}
	if float64(bar.Part) < mostlyDelivered*float64(bar.Whole) {
		bar.Tone = ui.Bad
	}
	return bar
}

// endpointRow is an endpoint in the list.
func endpointRow(v view, e endpoint.Endpoint, h delivery.Health) page.EndpointRow {
	row := page.EndpointRow{Endpoint: nameOf(e), P95: "–", Strip: strip(h), Waiting: int64(h.Waiting.N), WaitingMore: h.Waiting.More}
	row.Stamp, row.Reason = endpointStamp(v, e)
	if stamp, reason, yes := failing(v, e, h, nil); yes {
		row.Stamp, row.Reason = stamp, reason
	}
	if !h.Oldest.IsZero() {
		row.Oldest = v.clock.Moment(h.Oldest)
	}
	if len(h.Last) > 0 {
		last := h.Last[0]
		row.Last = v.clock.Moment(last.At)
		row.LastCode = verdict.Explain(verdict.Facts{Class: verdict.Class(last.Class), Code: last.Code}).Short
	}
	return row
}

// urgency orders stamps by how much they ask for somebody.
func urgency(stamp ui.Stamp) int {
	return slices.Index([]ui.Tone{ui.Bad, ui.Hold, ui.Wait, ui.Mute, ui.Good}, stamp.Tone)
}

// endpointNew is the empty form, with a type chosen when the address names one.
func (d *Dashboard) endpointNew(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	e := endpoint.Endpoint{Concurrency: endpoint.DefaultConcurrency}
	if name := r.URL.Query().Get("type"); name != "" {
		e.Types = []string{name}
	}
	if len(types) == 0 {
		e.Types = []string{"*"} // there is nothing else to choose
	}
	e.URL = r.URL.Query().Get("url")
	return d.show(w, r, v, http.StatusOK, page.EndpointNew{Form: d.withPresets(v, d.formOf(types, e), ""), Inbox: e.URL == ""})
}

// endpointCreate adds an endpoint, after its connection was tried. One that cannot be reached is added when that is asked for.
func (d *Dashboard) endpointCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet := page.EndpointNew{Form: d.withPresets(v, typed(r, types, nil), field(r, "preset"))}
	in, problems := inputOf(r, sheet.Form)
	if len(in.Types) == 0 {
		problems = page.Problems{"types": "Choose at least one, or every type."}
	}
	if problems != nil {
		sheet.Form.Problems = problems
		return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
	}
	if field(r, "anyway") == "" {
		if sheet.Check = d.checkConnection(r.Context(), in.URL); sheet.Check != nil && !sheet.Check.Passed {
			return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
		}
	}
	created, err := d.Endpoints.Create(r.Context(), caller, in)
	if problems, ok := refused(err, endpointFields); ok {
		sheet.Form.Problems, sheet.Check = problems, nil
		return d.show(w, r, v, statusOf(err), sheet)
	}
	if err != nil {
		return err
	}
	added := "Endpoint added."
	if sheet.Check != nil && sheet.Check.Passed {
		added = strings.TrimSpace("Endpoint added. The connection works. " + sheet.Check.Note)
	}
	return d.done(w, r, caller, path.EndpointTest(created.ID), Note{
		Text: added + " Try it with a test event; the secret that your code verifies with is under", Link: ui.Link{Text: "Secrets", Href: path.EndpointSecrets(created.ID)},
	})
}
