package delivery

import (
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/fault"
	"waybill/app/id"
)

func place15(t time.Time) time.Time { return t.Truncate(15 * time.Minute) }

// CASES B53: in every zone, over every change of its clock, the buckets follow each other without a gap, begin where the clock and the calendar do, and are
// labelled once; their sum is what is in the range.
func TestChartBuckets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, now    string
		hours        int
		first        string
		day, longDay time.Duration // the shortest and the longest day of the week
	}{
		"autumn":       {"America/New_York", "2026-11-01T17:20:00Z", 24, "2026-10-31T18:00:00Z", 24 * time.Hour, 25 * time.Hour},
		"spring":       {"America/New_York", "2026-03-08T17:20:00Z", 24, "2026-03-07T18:00:00Z", 23 * time.Hour, 24 * time.Hour},
		"India":        {"Asia/Kolkata", "2026-11-17T09:41:00Z", 24, "2026-11-16T10:30:00Z", 24 * time.Hour, 24 * time.Hour},
		"Nepal":        {"Asia/Kathmandu", "2026-11-17T09:41:00Z", 24, "2026-11-16T10:15:00Z", 24 * time.Hour, 24 * time.Hour},
		"half an hour": {"Australia/Lord_Howe", "2026-10-03T20:00:00Z", 25, "", 23*time.Hour + 30*time.Minute, 24 * time.Hour},
		"no midnight":  {"America/Asuncion", "2024-10-06T20:00:00Z", 24, "", 23 * time.Hour, 24 * time.Hour},
		"Samoa":        {"Pacific/Apia", "2011-12-31T20:00:00Z", 24, "", 24 * time.Hour, 24 * time.Hour},
		"UTC":          {"UTC", "2026-11-17T00:00:00Z", 24, "2026-11-16T01:00:00Z", 24 * time.Hour, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			hours, days := Day.buckets(now, zone), Week.buckets(now, zone)
			for _, buckets := range [][]Bucket{hours, days} {
				labels := map[string]bool{}
				for i, b := range buckets {
					if i > 0 && !b.From.Equal(buckets[i-1].Until) {
						t.Errorf("a gap at %s", b.From)
					}
					_, offset := b.From.In(zone).Zone()
					_, before := b.From.Add(-time.Second).In(zone).Zone()
					if b.From.Unix()%900 != 0 || b.From.In(zone).Minute() != 0 && offset == before {
						t.Errorf("a bucket begins at %s", b.From.In(zone))
					}
					label := b.From.In(zone).Format("2006-01-02 15:04 -0700")
					if labels[label] {
						t.Errorf("%s comes twice", label)
					}
					labels[label] = true
				}
				last := buckets[len(buckets)-1]
				if now.Before(last.From) || !now.Before(last.Until) {
					t.Errorf("now is not in the last bucket, %s to %s", last.From, last.Until)
				}
			}
			wantDays := 7
			if name == "Samoa" {
				wantDays = 6 // it has had no 30 December
			}
			if len(hours) != c.hours || len(days) != wantDays || c.first != "" && hours[0].From.UTC().Format(time.RFC3339) != c.first {
				t.Errorf("%d hours from %s, %d days", len(hours), hours[0].From.UTC(), len(days))
			}
			shortest, longest := 100*time.Hour, time.Duration(0)
			for _, b := range days {
				shortest, longest = min(shortest, b.Until.Sub(b.From)), max(longest, b.Until.Sub(b.From))
			}
			if shortest != c.day || longest != c.longDay {
				t.Errorf("days of %s to %s", shortest, longest)
			}
		})
	}
}

// A chart has every attempt of its range once, in its bucket, of the tenant's own endpoints.
func TestChart(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	zone, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 17, 9, 41, 0, 0, time.UTC)
	other := id.New(id.Endpoint, now)
	for _, row := range []struct {
		endpoint, tenant string
		ago              time.Duration
		delivered        int
	}{
		{h.endpoint.ID, h.tenant.ID, 0, 1}, {h.endpoint.ID, h.tenant.ID, 15 * time.Minute, 2}, {h.endpoint.ID, h.tenant.ID, 45 * time.Minute, 4},
		{other, h.tenant.ID, 15 * time.Minute, 8}, {h.endpoint.ID, h.tenant.ID, 30 * time.Hour, 16}, {h.endpoint.ID, h.tenant.ID, 9 * 24 * time.Hour, 32},
		{id.New(id.Endpoint, now), h.stranger.TenantID, 0, 64},
	} {
		h.exec(`insert into rollups (endpoint_id, tenant_id, slot, delivered, refused, timed_out, ours, t07, t08) values ($1, $2, $3, $4, 1, 1, 1, $4, 1)`,
			row.endpoint, row.tenant, place15(now.Add(-row.ago)), row.delivered)
	}
	for name, c := range map[string]struct {
		caller          account.Caller
		endpoint        string
		span            Span
		delivered, last int64
	}{
		"endpoint, day":  {h.caller, h.endpoint.ID, Day, 7, 3},
		"endpoint, week": {h.caller, h.endpoint.ID, Week, 23, 7},
		"tenant, day":    {h.caller, "", Day, 15, 11},
		"tenant, week":   {h.caller, "", Week, 31, 15},
		"stranger":       {h.stranger, h.endpoint.ID, Day, 0, 0},
		"stranger's own": {h.stranger, "", Day, 64, 64},
	} {
		got, err := h.Chart(t.Context(), c.caller, c.endpoint, c.span, now, zone)
		if err != nil {
			t.Fatal(err)
		}
		var sum, failed int64
		for _, b := range got.Buckets {
			sum += b.Delivered
			failed += b.Failed()
		}
		if last := got.Buckets[len(got.Buckets)-1].Delivered; got.Delivered != c.delivered || sum != c.delivered || last != c.last || failed != got.Failed() {
			t.Errorf("%s: %d delivered, %d in buckets, %d in the last one, %d failed; want %d and %d", name, got.Delivered, sum, last, failed, c.delivered, c.last)
		}
	}
	if _, err := h.Chart(t.Context(), keyOf(h.tenant, account.CatalogRead), "", Day, now, zone); fault.KindOf(err) != fault.Forbidden {
		t.Error(err)
	}
	h.exec(`update rollups set slot = slot - interval '1 year' `)
	if n, err := h.PruneRollups(t.Context()); err != nil || n != 7 {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if _, err := h.pool.Exec(t.Context(), `insert into rollups (endpoint_id, tenant_id, slot) values ('ep_1', 'tnt_1', '2026-11-17 09:41Z')`); err == nil {
		t.Error("a slot may begin anywhere")
	}
	h.pool.Close()
	if _, err := h.Chart(t.Context(), h.caller, "", Day, now, zone); err == nil {
		t.Error("a failed load is a chart of zeros")
	}
}

// Quantiles lie in the bucket of their rank, and rise with it; of nothing there is none.
func TestQuantile(t *testing.T) {
	t.Parallel()
	var none Responses
	if got := none.Quantile(.5); got >= 0 {
		t.Errorf("of nothing: %s", got)
	}
	var r Responses
	r[7], r[10], r[23] = 90, 9, 1 // 75 to 100 ms, 200 to 300 ms, more than a minute
	for q, want := range map[float64][2]time.Duration{
		.5: {75 * time.Millisecond, 100 * time.Millisecond}, .9: {75 * time.Millisecond, 100 * time.Millisecond}, .95: {200 * time.Millisecond, 300 * time.Millisecond},
		.999: {longestResponse, longestResponse}, 1: {longestResponse, longestResponse},
	} {
		if got := r.Quantile(q); got < want[0] || got > want[1] {
			t.Errorf("q %v is %s, want %s to %s", q, got, want[0], want[1])
		}
	}
	one := Responses{5: 1}
	if got := one.Quantile(.5); got < 30*time.Millisecond || got > 50*time.Millisecond {
		t.Errorf("of one answer: %s", got)
	}
}

// Totals are what the charts of the same endpoints add up to, and of no other tenant's endpoints, whatever is asked for.
func TestTotals(t *testing.T) {
	t.Parallel()
	h := newParkedHouse(t)
	zone, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 17, 9, 41, 0, 0, time.UTC)
	second, foreign, silent := id.New(id.Endpoint, now), id.New(id.Endpoint, now), id.New(id.Endpoint, now)
	for i, row := range []struct {
		endpoint, tenant string
		ago              time.Duration
	}{
		{h.endpoint.ID, h.tenant.ID, 0}, {h.endpoint.ID, h.tenant.ID, 15 * time.Minute}, {h.endpoint.ID, h.tenant.ID, 23 * time.Hour},
		{h.endpoint.ID, h.tenant.ID, 24 * time.Hour}, {h.endpoint.ID, h.tenant.ID, 8 * 24 * time.Hour}, {second, h.tenant.ID, time.Hour},
		{foreign, h.stranger.TenantID, 0},
	} {
		h.exec(`insert into rollups (endpoint_id, tenant_id, slot, delivered, refused, timed_out, ours, t07, t20) values ($1, $2, $3, $4, 1, 2, 3, $4, 1)`,
			row.endpoint, row.tenant, place15(now.Add(-row.ago)), 1<<i)
	}
	asked := []string{h.endpoint.ID, second, foreign, silent}
	for _, span := range []Span{Day, Week} {
		got, err := h.Totals(t.Context(), h.caller, asked, span, now, zone)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 {
			t.Errorf("%s: %d endpoints, want the two with attempts", span, len(got))
		}
		for _, endpoint := range []string{h.endpoint.ID, second} {
			chart, err := h.Chart(t.Context(), h.caller, endpoint, span, now, zone)
			if err != nil {
				t.Fatal(err)
			}
			if want := (Total{chart.Attempted, chart.Responses}); got[endpoint] != want || want.Delivered == 0 {
				t.Errorf("%s: %+v, the chart has %+v", span, got[endpoint], want)
			}
		}
		if got, err := h.Totals(t.Context(), h.stranger, asked, span, now, zone); err != nil || len(got) != 1 || got[foreign].Delivered != 64 {
			t.Errorf("%s: a stranger has %+v, %v", span, got, err)
		}
	}
	if got, err := h.Totals(t.Context(), h.caller, nil, Day, now, zone); err != nil || len(got) != 0 {
		t.Errorf("of no endpoints: %v, %v", got, err)
	}
	if _, err := h.Totals(t.Context(), h.caller, asked, "year", now, zone); err == nil {
		t.Error("an unknown span is no error")
	}
	if _, err := h.Totals(t.Context(), keyOf(h.tenant, account.CatalogRead), asked, Day, now, zone); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("without the right: %v", err)
	}
}
