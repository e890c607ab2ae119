package page

import (
	"time"

	"waybill/web/ui"
)

// fixtureOutcomes is a chart of 24 hours in which something went wrong in the afternoon.
func fixtureOutcomes(id string) ui.Bars {
	chart := ui.Bars{
		ID: id, Title: "Deliveries by outcome", Summary: "12,430 attempts in 24 hours; 99.3 % of them delivered.",
		Series: []ui.Series{{Name: "Delivered", Tone: ui.Good}, {Name: "Failed, to be retried", Tone: ui.Wait}, {Name: "Undelivered", Tone: ui.Bad}},
	}
	for i := range 24 {
		bucket := ui.Bucket{Values: []int64{int64(420 + 61*(i*7%11)), 0, 0}}
		if i > 18 && i < 22 {
			bucket.Values = []int64{120, int64(340 - 20*i%50), 12}
		}
		bucket.Label, bucket.Full = fixtureHour(i)
		chart.Buckets = append(chart.Buckets, bucket)
	}
	return chart
}

func fixtureTimes(id string) ui.Lines {
	chart := ui.Lines{
		ID: id, Title: "Response time", Summary: "Half of the answers came within 88 ms, 95 of 100 within 412 ms.",
		Series: []ui.Series{{Name: "p50", Tone: ui.Info}, {Name: "p95", Tone: ui.Hold}},
	}
	for i := range 24 {
		p50 := time.Duration(70+i*11%40) * time.Millisecond
		point := ui.Point{Values: []time.Duration{p50, p50 * time.Duration(3+i%4)}}
		if i == 4 {
			point.Values = []time.Duration{-1, -1}
		}
		point.Label, point.Full = fixtureHour(i)
		chart.Points = append(chart.Points, point)
	}
	return chart
}

func fixtureHour(i int) (label, full string) {
	at := fixtureNow.Add(time.Duration(i-23) * time.Hour).Add(30 * time.Minute).Truncate(time.Hour).Add(-30 * time.Minute)
	if i%6 == 1 {
		label = at.In(fixtureZone).Format("15:04")
	}
	return label, at.In(fixtureZone).Format("Mon 2 Jan, 15:04") + " to " + at.Add(time.Hour).In(fixtureZone).Format("15:04")
}

func fixtureStrip(bad ...int) ui.Strip {
	strip := ui.Strip{Outcomes: make([]ui.Tone, 50)}
	for i := range strip.Outcomes {
		strip.Outcomes[i] = ui.Good
	}
	for _, i := range bad {
		strip.Outcomes[i] = ui.Bad
	}
	return strip
}
