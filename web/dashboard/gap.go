package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
)

// gapRanges are the ranges that are offered; anything else is given by its two ends.
var gapRanges = map[string]time.Duration{"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour, "90d": 90 * 24 * time.Hour}

// gap reports what of a range of time did not arrive. The pages behind the first keep its two ends, so that they go on with the same report.
func (d *Dashboard) gap(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	sheet, since, until, err := gapRange(v, query)
	if err == nil {
		sheet.Since, sheet.Until = v.clock.Moment(since), v.clock.Moment(until)
		err = d.fillGap(r.Context(), v, &sheet, since, until, query.Get("cursor"))
	}
	status := http.StatusOK
	switch {
	case fault.KindOf(err) == fault.Invalid:
		v.frame.Notice, status, sheet.Wrong = invalidFilter(err), http.StatusUnprocessableEntity, true
	case unavailable(err):
		status, sheet.Failed = http.StatusServiceUnavailable, true
	case err != nil:
		return err
	}
	return d.show(w, r, v, status, sheet)
}

// gapRange is the range that an address asks for; a day without one.
func gapRange(v view, query url.Values) (sheet page.Gap, since, until time.Time, err error) {
	sheet.Range = cmp.Or(query.Get("range"), "24h")
	if sheet.Range != "custom" {
		span, known := gapRanges[sheet.Range]
		if !known {
			return sheet, since, until, fault.New(fault.Invalid, "").Field("since", "must be one of the ranges that are offered")
		}
		return sheet, v.clock.Now.Add(-span), v.clock.Now, nil
	}
	wrong := fault.New(fault.Invalid, "")
	var ok bool
	if since, ok = instant(v, query.Get("from")); !ok {
		wrong.Field("since", "must be a date and time")
	}
	if until, ok = instant(v, query.Get("to")); !ok {
		wrong.Field("until", "must be a date and time")
	}
	if until.IsZero() {
		until = v.clock.Now
	}
	if since.IsZero() {
		since = until.Add(-24 * time.Hour)
	}
	sheet.From, sheet.To = since.In(v.clock.Zone).Format(localTime), until.In(v.clock.Zone).Format(localTime)
	return sheet, since, until, wrong.OrNil()
}

// fillGap counts, on the first page, and lists what reached nobody.
func (d *Dashboard) fillGap(ctx context.Context, v view, sheet *page.Gap, since, until time.Time, after string) error {
	from, to := since.UTC().Format(time.RFC3339Nano), until.UTC().Format(time.RFC3339Nano)
	if after == "" {
		counted, err := d.Events.Gap(ctx, v.caller, since, until)
		if err != nil {
			return err
		}
		sheet.Counts = &page.GapCounts{Published: counted.Published, Delivered: counted.Pushed, Acknowledged: counted.Pulled, Neither: counted.Neither, Complete: counted.Complete}
	} else {
		sheet.First = path.GapBetween(from, to, "")
	}
	found, err := d.Events.GapList(ctx, v.caller, since, until, after, pageRows)
	if err != nil {
		return err
	}
	for _, event := range found.Events {
		sheet.Rows = append(sheet.Rows, page.GapRow{
			ID: event.ID, Type: event.Type, Resource: event.ResourceID, Sequence: strconv.FormatInt(event.Sequence, 10), At: v.clock.Moment(event.PublishedAt)})
	}
	sheet.Shown = shown(len(found.Events), after == "" && found.Next == "", "event", "events")
	if found.Next != "" {
		sheet.Next = path.GapBetween(from, to, found.Next)
	}
	return nil
}
