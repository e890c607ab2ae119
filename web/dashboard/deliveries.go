package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/id"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// deliveries is the history under the filter of the address, newest first.
func (d *Dashboard) deliveries(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	sheet := page.Deliveries{
		Filter: path.DeliveryFilterOf(r.URL.Query()), MayResend: may(caller, account.DeliveriesResend),
		Kept: d.kept(), Catalog: days(d.Policies.Retention().Events),
	}
	endpoints, err := d.choices(r, caller, &sheet)
	if err != nil {
		return err
	}
	if err := d.fillSaved(r, caller, &sheet); err != nil {
		return err
	}
	status, err := d.fill(r.Context(), &v, &sheet, byID(endpoints))
	if err != nil {
		return err
	}
	if len(sheet.Rows) == 0 && sheet.Empty == "" {
		sheet.Empty = d.emptiness(v, sheet, endpoints)
		sheet.Resume = path.EndpointEnable(sheet.Filter.Endpoint)
	}
	return d.show(w, r, v, status, sheet)
}

// fill finds the rows of a history. A filter that is not valid matches nothing and says why; a database that cannot answer is told as that.
func (d *Dashboard) fill(ctx context.Context, v *view, sheet *page.Deliveries, endpoints map[string]endpoint.Endpoint) (status int, err error) {
	asked, several, err := d.named(ctx, v.caller, sheet.Filter)
	if err != nil && !unavailable(err) {
		return 0, err
	}
	if len(several) > 0 {
		sheet.Empty = page.EmptySeveral
		for _, e := range several {
			one := sheet.Filter.At("")
			one.Endpoint = e.ID
			name := endpointName(e.ID, e.URL, e.Description)
			sheet.Several = append(sheet.Several, ui.Option{Value: path.Deliveries(one), Text: titleOf(name), Note: name.Host + name.Path})
		}
		sheet.SeveralMore = len(several) == maxMatches
		return http.StatusOK, nil
	}
	var filter delivery.Filter
	if err == nil {
		filter, err = filterOf(*v, asked)
	}
	var found delivery.Page
	var count delivery.Count
	if err == nil {
		err = together(ctx, func(ctx context.Context) (err error) {
			found, err = d.Deliveries.List(ctx, v.caller, filter, sheet.Filter.Cursor, pageRows)
			return err
		}, func(ctx context.Context) (err error) {
			count, err = d.Deliveries.Count(ctx, v.caller, filter)
			return err
		})
	}
	switch {
	case fault.KindOf(err) == fault.Invalid:
		v.frame.Notice, sheet.Empty = invalidFilter(err), page.EmptyNoMatch
		return http.StatusUnprocessableEntity, nil
	case unavailable(err):
		sheet.Empty = page.EmptyFailed
		return http.StatusServiceUnavailable, nil
	case err != nil:
		return 0, err
	}
	for _, one := range found.Deliveries {
		sheet.Rows = append(sheet.Rows, deliveryRow(*v, one, endpoints))
	}
	sheet.Shown = counted(len(found.Deliveries), count, sheet.Filter.Cursor == "")
	if found.SearchedTo != nil {
		sheet.Shown += "; searched back to " + v.clock.Time(*found.SearchedTo)
	}
	if sheet.Filter.Cursor != "" {
		sheet.First = path.Deliveries(sheet.Filter.At(""))
	}
	if found.Next != "" {
		sheet.Next = path.Deliveries(sheet.Filter.At(found.Next))
	}
	sheet.Live = withQuery(path.DeliveriesLive(sheet.Filter), sinceName, strconv.FormatInt(v.clock.Now.UnixMilli(), 10))
	return http.StatusOK, nil
}

// invalidFilter says which parts of a filter cannot be.
func invalidFilter(err error) *ui.Banner {
	var words []string
	for _, field := range faultOf(err).Fields {
		name := filterNames[field.Name]
		if name == "" {
			name = field.Name
		}
		words = append(words, name+": it "+field.Detail+".")
	}
	return &ui.Banner{Tone: ui.Wait, Title: "This filter is not valid", Text: strings.Join(words, " ")}
}

// counted says how much of how much a page shows. Later pages do not know where they are in the whole.
func counted(rows int, count delivery.Count, first bool) string {
	total := ui.Number(int64(count.N))
	switch {
	case rows == 0:
		return "0"
	case count.More:
		total = "more than " + total
	case count.N < rows:
		total = ui.Number(int64(rows)) // some came in between
	}
	if first {
		return fmt.Sprintf("1 to %d of %s", rows, total)
	}
	return fmt.Sprintf("%d of %s", rows, total)
}

// choices fills the facets with the tenant's endpoints and the catalog's types.
func (d *Dashboard) choices(r *http.Request, caller account.Caller, sheet *page.Deliveries) ([]endpoint.Endpoint, error) {
	endpoints, err := d.subscribable(r.Context(), caller)
	if err != nil {
		return nil, err
	}
	if sheet.ManyEndpoints = len(endpoints) > maxChoices; sheet.ManyEndpoints {
		// A select of thousands would weigh more than the page and find nothing: it is typed.
		return endpoints, d.typeChoices(r.Context(), caller, sheet)
	}
	chosen := sheet.Filter.Endpoint == ""
	for _, e := range endpoints {
		sheet.Endpoints = append(sheet.Endpoints, ui.Option{Value: e.ID, Text: titleOf(nameOf(e))})
		chosen = chosen || e.ID == sheet.Filter.Endpoint
	}
	if !chosen { // one that was deleted, or another page of endpoints
		sheet.Endpoints = append(sheet.Endpoints, ui.Option{Value: sheet.Filter.Endpoint, Text: ui.Tail(sheet.Filter.Endpoint)})
	}
	return endpoints, d.typeChoices(r.Context(), caller, sheet)
}

// typeChoices fills the facet of types.
func (d *Dashboard) typeChoices(ctx context.Context, caller account.Caller, sheet *page.Deliveries) error {
	if !may(caller, account.CatalogRead) {
		return nil
	}
	types, err := d.catalog(ctx, caller)
	for _, t := range types {
		sheet.Types = append(sheet.Types, t.Name)
	}
	return err
}

const (
	maxChoices = 50 // endpoints that a select has
	maxMatches = 20 // endpoints that are offered when what was typed is not only one's
)

// named is the filter with the id of the endpoint that was typed by its name or a part of its address. When several match, it returns them; when none
// does, the filter is as it was, and no filter of the operation's.
func (d *Dashboard) named(ctx context.Context, caller account.Caller, f path.DeliveryFilter) (path.DeliveryFilter, []endpoint.Name, error) {
	if f.Endpoint == "" || id.Valid(id.Endpoint, f.Endpoint) || !may(caller, account.EndpointsRead) {
		return f, nil, nil
	}
	found, err := d.Endpoints.Find(ctx, caller, f.Endpoint, maxMatches)
	if len(found) == 1 {
		f.Endpoint, found = found[0].ID, nil
	}
	return f, found, err
}

// emptiness says why a list is empty.
func (d *Dashboard) emptiness(v view, sheet page.Deliveries, endpoints []endpoint.Endpoint) page.DeliveriesEmpty {
	f := sheet.Filter.At("")
	if f == (path.DeliveryFilter{}) {
		return page.EmptyNothingYet
	}
	for _, e := range endpoints {
		if f == (path.DeliveryFilter{Endpoint: e.ID}) && e.State != endpoint.Active {
			return page.EmptyPaused
		}
	}
	if filter, err := filterOf(v, f); err == nil && !filter.Until.IsZero() && v.clock.Now.Sub(filter.Until) > d.Policies.Retention().Deliveries {
		return page.EmptyTooOld
	}
	return page.EmptyNoMatch
}

// titleOf is the one word or two that stand for an endpoint.
func titleOf(name page.EndpointName) string {
	if name.Name != "" {
		return name.Name
	}
	return name.Host + name.Path
}

// deliveryRow is a delivery in a list.
func deliveryRow(v view, one delivery.Delivery, endpoints map[string]endpoint.Endpoint) page.DeliveryRow {
	row := page.DeliveryRow{
		ID: one.ID, Type: one.Type, Resource: one.ResourceID, Event: one.EventID,
		Endpoint: nameAmong(endpoints, one),
		Stamp:    deliveryStamp(one), At: v.clock.Moment(one.CreatedAt), Attempts: attemptsText(one),
		Choosable: resendable(one),
	}
	if one.LastAt != nil {
		row.Code, row.Took = answerText(one), ui.Span(max(one.Last, time.Microsecond))
	}
	if one.NextAt != nil && one.NextAt.After(v.clock.Now) {
		row.Next = v.clock.Moment(*one.NextAt)
	}
	return row
}

// nameAmong is the name of a delivery's endpoint, with its path where the endpoint is one of those.
func nameAmong(endpoints map[string]endpoint.Endpoint, one delivery.Delivery) page.EndpointName {
	if e, known := endpoints[one.EndpointID]; known {
		return nameOf(e)
	}
	return page.EndpointName{ID: one.EndpointID, Name: one.EndpointDescription, Host: one.EndpointHost}
}

// resendable says whether a delivery may be chosen for a resend: not while it is about to be sent anyway.
func resendable(one delivery.Delivery) bool {
	return one.Status != delivery.Cancelled && (one.NextAt == nil || one.Retrying())
}

// deliveryStamp is what became of a delivery in one word.
func deliveryStamp(one delivery.Delivery) ui.Stamp {
	test := ""
	if one.Test {
		test = "test"
	}
	switch {
	case one.Retrying():
		return ui.Stamp{Tone: ui.Wait, Word: "Retrying", Note: test}
	case one.Recovered():
		return ui.Stamp{Tone: ui.Good, Word: "Recovered", Note: test}
	}
	switch one.Status {
	case delivery.Delivered:
		return ui.Stamp{Tone: ui.Good, Word: "Delivered", Note: test}
	case delivery.Undelivered:
		return ui.Stamp{Tone: ui.Bad, Word: "Undelivered", Note: test}
	case delivery.Held:
		return ui.Stamp{Tone: ui.Hold, Word: "Held", Note: test}
	case delivery.Cancelled:
		return ui.Stamp{Tone: ui.Mute, Word: "Cancelled", Note: test}
	}
	return ui.Stamp{Tone: ui.Info, Word: "Pending", Note: test}
}

// attemptsText is how many attempts were made, of how many the schedule has.
func attemptsText(one delivery.Delivery) string {
	if one.Test {
		return strconv.Itoa(one.Attempts)
	}
	return fmt.Sprintf("%d/%d", one.Attempts, max(one.Scheduled, one.Attempts))
}

// answerText is the last answer: its status, or why there was none.
func answerText(one delivery.Delivery) string {
	if one.LastCode != 0 {
		return strconv.Itoa(one.LastCode)
	}
	return verdict.Explain(verdict.Facts{Class: publicClass(one.LastClass)}).Short
}

// deliveriesLive is the history's stream: rows that are new or have changed.
func (d *Dashboard) deliveriesLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	f, _, err := d.named(r.Context(), caller, path.DeliveryFilterOf(r.URL.Query()).At(""))
	if err != nil {
		return err
	}
	filter, err := filterOf(v, f)
	if err == nil {
		_, err = d.Deliveries.List(r.Context(), caller, filter, "", 1)
	}
	if fault.KindOf(err) == fault.Invalid {
		w.WriteHeader(http.StatusNoContent) // nothing can match it: an EventSource does not come back after this
		return nil
	}
	if err != nil {
		return err
	}
	endpoints, err := d.endpointsByID(r.Context(), caller)
	if err != nil {
		return err
	}
	choosable := may(caller, account.DeliveriesResend)
	key := fmt.Sprintf("deliveries %t %s", choosable, path.Deliveries(f))
	return d.stream(w, r, caller, key, func(ctx context.Context) ([]item, error) {
		now := v
		now.clock.Now = d.Now()
		filter, err := filterOf(now, f)
		if err != nil {
			return nil, err
		}
		found, err := d.Deliveries.List(ctx, caller, filter, "", pageRows)
		if err != nil {
			return nil, err
		}
		items := make([]item, len(found.Deliveries))
		for i, one := range found.Deliveries {
			if items[i], err = rowItem(ctx, now, one, endpoints, choosable); err != nil {
				return nil, err
			}
		}
		return items, nil
	})
}

// rowItem is a delivery as a stream tells of it. Its version leaves out what changes with the clock.
func rowItem(ctx context.Context, v view, one delivery.Delivery, endpoints map[string]endpoint.Endpoint, choosable bool) (item, error) {
	var html bytes.Buffer
	if err := page.DeliveryTableRow(deliveryRow(v, one, endpoints), choosable).Render(ctx, &html); err != nil {
		return item{}, fmt.Errorf("render a row: %w", err)
	}
	return item{ID: one.ID, Version: deliveryVersion(one), At: changedAt(one), HTML: html.String()}, nil
}

// deliveryVersion changes with whatever a page shows of a delivery.
func deliveryVersion(one delivery.Delivery) string {
	at := func(t *time.Time) int64 {
		if t == nil {
			return 0
		}
		return t.UnixMicro()
	}
	return fmt.Sprintf("%s.%d.%d.%d.%d.%d.%s", one.Status, one.Attempts, one.Failures, at(one.LastAt), at(one.NextAt), at(one.FinishedAt), one.NextTrigger)
}

// changedAt is when a delivery last changed, as far as its row knows.
func changedAt(one delivery.Delivery) time.Time {
	last := one.CreatedAt
	if one.LastAt != nil && one.LastAt.Add(one.Last).After(last) {
		last = one.LastAt.Add(one.Last)
	}
	if one.FinishedAt != nil && one.FinishedAt.After(last) {
		last = *one.FinishedAt
	}
	return last
}
