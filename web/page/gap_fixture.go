package page

import (
	"strconv"
	"time"

	"waybill/web/path"
)

func gapFixtures() []Fixture {
	day := Gap{Range: "24h", Since: before(24 * time.Hour), Until: before(0)}
	full := day
	full.Counts = &GapCounts{Published: 1204, Delivered: 1166, Acknowledged: 812, Neither: 21, Complete: true}
	for i := range 20 {
		full.Rows = append(full.Rows, GapRow{ID: fixtureID("evt", 40+i), Type: eventTypes[i%4], Resource: "C-" + strconv.Itoa(4400+i), Sequence: strconv.Itoa(1 + i%4), At: before(time.Duration(23*60-i*17) * time.Minute)})
	}
	full.Shown, full.Next = "20 events on this page", path.GapBetween("2026-11-16T09:41:05Z", "2026-11-17T09:41:05Z", "b64x")
	second := Gap{Range: gapCustom, From: "2026-11-16T15:11", To: "2026-11-17T15:11", Since: day.Since, Until: day.Until, Rows: full.Rows[:1], Shown: "1 event on this page", First: path.GapBetween("2026-11-16T09:41:05Z", "2026-11-17T09:41:05Z", "")}
	cut := day
	cut.Range, cut.Since, cut.Next = "90d", before(90*24*time.Hour), path.GapOver("90d")
	cut.Counts = &GapCounts{Published: 500000, Delivered: 500000, Acknowledged: 0, Neither: 0}
	arrived, quiet, failed, wrong := day, day, day, Gap{Range: gapCustom, From: "2026-11-17T15:11", To: "2026-11-16T15:11", Wrong: true}
	arrived.Counts, quiet.Counts, failed.Failed = &GapCounts{Published: 96, Delivered: 96, Acknowledged: 40, Complete: true}, &GapCounts{Complete: true}, true
	return framed("gap", []Fixture{
		{State: "full", Page: full}, {State: "second-page", Page: second}, {State: "more-than-counted", Page: cut}, {State: "everything-arrived", Page: arrived},
		{State: "nothing-published", Page: quiet}, {State: "no-range", Page: wrong}, {State: "not-loaded", Page: failed},
	})
}
