package dashboard

import (
	"context"
	"time"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/web/ui"
)

// charts is what the overview and an endpoint show of a range.
type charts struct {
	Delivered, Failed int64
	P50, P95          time.Duration // negative: nothing was answered
	Outcomes          ui.Bars
	Times             ui.Lines
	Failing           bool // the figures could not be read: they are dashes, never zeros
}

// charted says whether there are figures over a range, and the caller may see them.
func (d *Dashboard) charted(caller account.Caller) bool {
	return d.Rollups && may(caller, account.DeliveriesRead)
}

// totals is what was attempted to endpoints in the last 24 hours, by id; nil when it cannot be read now.
func (d *Dashboard) totals(ctx context.Context, v view, endpointIDs []string) (map[string]delivery.Total, error) {
	totals, err := d.Deliveries.Totals(ctx, v.caller, endpointIDs, delivery.Day, v.clock.Now, v.clock.Zone)
	if unavailable(err) {
		d.Log.WarnContext(ctx, "the figures of endpoints could not be read", "error", err)
		return nil, nil
	}
	return totals, err
}

// chart reads a range of an endpoint, or of all of them.
func (d *Dashboard) chart(ctx context.Context, v view, endpointID string, span delivery.Span) (charts, error) {
	found, err := d.Deliveries.Chart(ctx, v.caller, endpointID, span, v.clock.Now, v.clock.Zone)
	if unavailable(err) {
		d.Log.WarnContext(ctx, "a chart could not be read", "error", err)
		return noChart(), nil
	}
	if err != nil {
		return charts{}, err
	}
	return chartOf(v, found, span), nil
}

func emptyCharts() charts {
	return charts{
		Outcomes: ui.Bars{ID: "outcomes", Title: "Attempts by outcome", Series: []ui.Series{
			{Name: "Delivered", Tone: ui.Good}, {Name: "Refused by the server", Tone: ui.Bad}, {Name: "No answer", Tone: ui.Wait}, {Name: "Not sent", Tone: ui.Mute}}},
		Times: ui.Lines{ID: "times", Title: "Response time", Series: []ui.Series{{Name: "p50", Tone: ui.Info}, {Name: "p95", Tone: ui.Hold}}},
	}
}

func noChart() charts {
	c := emptyCharts()
	c.Failing, c.Outcomes.Failed, c.Times.Failed = true, true, true
	return c
}

func chartOf(v view, found delivery.Charted, span delivery.Span) charts {
	c := emptyCharts()
	c.Delivered, c.Failed = found.Delivered, found.Failed()
	c.P50, c.P95 = found.Responses.Quantile(.5), found.Responses.Quantile(.95)
	all, over := c.Delivered+c.Failed, map[delivery.Span]string{delivery.Day: "24 hours", delivery.Week: "7 days"}[span]
	c.Outcomes.Summary, c.Times.Summary = "Nothing was sent in "+over+".", "Nothing was answered in "+over+"."
	if all > 0 {
		c.Outcomes.Summary = ui.Count(all, "attempt", "attempts") + " in " + over + "; " + ui.Share(c.Delivered, all) + " of them delivered."
	}
	if c.P50 >= 0 {
		c.Times.Summary = "Half of the answers came within " + about(c.P50) + ", 95 of 100 within " + about(c.P95) + "."
	}
	for i, b := range found.Buckets {
		label, full := bucketName(v.clock.Zone, b, i, span)
		c.Outcomes.Buckets = append(c.Outcomes.Buckets, ui.Bucket{Label: label, Full: full,
			Values: []int64{b.Delivered, b.Answered() - b.Delivered, b.NoAnswer(), b.Blocked + b.Ours}})
		c.Times.Points = append(c.Times.Points, ui.Point{Label: label, Full: full, Values: []time.Duration{rounded(b.Responses.Quantile(.5)), rounded(b.Responses.Quantile(.95))}})
	}
	return c
}

// bucketName is a bucket under the axis, where there is room, and in full. An hour that comes twice is told apart by its zone's name.
func bucketName(zone *time.Location, b delivery.Bucket, i int, span delivery.Span) (label, full string) {
	from, until := b.From.In(zone), b.Until.In(zone)
	if span == delivery.Week {
		return from.Format("Mon 2"), from.Format("Mon 2 Jan")
	}
	if i%6 == 1 {
		label = from.Format("15:04")
	}
	full = from.Format("Mon 2 Jan, 15:04") + " to " + until.Format("15:04")
	if name, _ := from.Zone(); clockChanges(zone, b) {
		full += " " + name
	}
	return label, full
}

// clockChanges says that the clock is changed near a bucket, so that its times could be another's.
func clockChanges(zone *time.Location, b delivery.Bucket) bool {
	_, before := b.From.Add(-2 * time.Hour).In(zone).Zone()
	_, after := b.Until.Add(2 * time.Hour).In(zone).Zone()
	return before != after
}

// rounded shows no more than a histogram knows: two digits.
func rounded(d time.Duration) time.Duration {
	if d < 0 {
		return -1
	}
	step := time.Millisecond
	for d >= 100*step {
		step *= 10
	}
	return d.Round(step)
}

// about is a response time in words; a dash for none.
func about(d time.Duration) string {
	if d < 0 {
		return "–"
	}
	return ui.Span(rounded(d))
}

// spanOf reads the range that an address asks for.
func spanOf(text string) delivery.Span {
	if text == string(delivery.Week) {
		return delivery.Week
	}
	return delivery.Day
}
