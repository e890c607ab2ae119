package dashboard

import (
	"context"
	"net/http"
	"strconv"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
)

// events is the catalog, newest first: every event, delivered or not.
func (d *Dashboard) events(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	sheet := page.Events{Type: query.Get("type"), Search: query.Get("q"), Kept: days(d.Policies.Retention().Events)}
	types, err := d.catalog(r.Context(), caller)
	if err != nil {
		return err
	}
	for _, t := range types {
		sheet.Types = append(sheet.Types, t.Name)
	}
	after, status := query.Get("cursor"), http.StatusOK
	found, err := d.findEvents(r.Context(), caller, sheet.Type, sheet.Search, after)
	switch {
	case fault.KindOf(err) == fault.Invalid:
		v.frame.Notice, status = invalidFilter(err), http.StatusUnprocessableEntity
	case unavailable(err):
		sheet.Failed, status = true, http.StatusServiceUnavailable
	case err != nil:
		return err
	}
	if sheet.Rows, err = d.eventRows(r.Context(), v, found.Events); err != nil {
		return err
	}
	sheet.Shown = shown(len(found.Events), after == "" && found.Next == "", "event", "events")
	if after != "" {
		sheet.First = path.EventsOf(sheet.Type, sheet.Search, "")
	}
	if found.Next != "" {
		sheet.Next = path.EventsOf(sheet.Type, sheet.Search, found.Next)
	}
	return d.show(w, r, v, status, sheet)
}

// findEvents is a page of the catalog by type and by a text that is an event's id or a resource's.
func (d *Dashboard) findEvents(ctx context.Context, caller account.Caller, eventType, search, after string) (catalog.EventPage, error) {
	filter := catalog.EventFilter{ResourceID: search}
	if eventType != "" {
		filter.Types = []string{eventType}
	}
	if search != "" && after == "" {
		one, err := d.Events.Read(ctx, caller, search)
		if err == nil && (eventType == "" || matches(eventType, one.Type)) {
			return catalog.EventPage{Events: []catalog.Event{one}}, nil
		}
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return catalog.EventPage{}, err
		}
	}
	return d.Events.Newest(ctx, caller, filter, after, pageRows)
}

// eventRows are the events of a page with what became of them.
func (d *Dashboard) eventRows(ctx context.Context, v view, events []catalog.Event) ([]page.EventRow, error) {
	outcomes := map[string]map[delivery.Status]int{}
	if may(v.caller, account.DeliveriesRead) {
		var err error
		if outcomes, err = d.Deliveries.Outcomes(ctx, v.caller, events); err != nil {
			return nil, err
		}
	}
	var rows []page.EventRow
	for _, event := range events {
		row := page.EventRow{
			ID: event.ID, Type: event.Type, Resource: event.ResourceID, Sequence: strconv.FormatInt(event.Sequence, 10), At: v.clock.Moment(event.PublishedAt),
		}
		for _, status := range []delivery.Status{delivery.Delivered, delivery.Pending, delivery.Held, delivery.Undelivered, delivery.Cancelled} {
			if n := outcomes[event.ID][status]; n > 0 {
				row.Deliveries = append(row.Deliveries, page.EventCount{Stamp: deliveryStamp(delivery.Delivery{Status: status}), Count: int64(n)})
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}
