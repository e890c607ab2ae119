package page

import (
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

func exportFixtures() []Fixture {
	limits := ExportLimits{Rows: "1,000,000", Size: "256 MB", Life: "24 hours"}
	done := ExportFile{ID: fixtureID("exp", 1), Kind: "Deliveries", Stamp: ui.Stamp{Tone: ui.Good, Word: "Done"}, Done: true, Rows: 48_211, Expected: -1, Size: "12.4 MB",
		Made: before(20 * time.Minute), Until: after(23*time.Hour + 41*time.Minute), By: "meera@silkhouse.example", Limits: limits}
	running := done
	running.Stamp, running.Done, running.Running, running.Rows, running.Size, running.Reached, running.Until = ui.Stamp{Tone: ui.Info, Word: "Running"}, false, true, 12_000, "3.1 MB", "9 Nov 2026", ui.Moment{}
	running.Live = path.ExportLive(running.ID)
	known := running
	known.Kind, known.Expected, known.Rows = "Attempts, static headers hidden", 9_400, 4_000
	cut := done
	cut.Cut, cut.Rows, cut.Size = true, 1_000_000, "219.0 MB"
	barred := done
	barred.Kind, barred.Barred = "Attempts, with static headers", true
	cancelled := done
	cancelled.Stamp, cancelled.Done, cancelled.Until = ui.Stamp{Tone: ui.Mute, Word: "Cancelled"}, false, ui.Moment{}
	rows := []ExportRow{
		{ID: fixtureID("exp", 2), Kind: "Attempts, with static headers", Stamp: running.Stamp, Rows: 12_000, Size: "3.1 MB", By: "ravi@silkhouse.example", Made: before(time.Minute)},
		{ID: done.ID, Kind: done.Kind, Stamp: done.Stamp, Rows: done.Rows, Size: done.Size, By: done.By, Made: done.Made, Until: done.Until},
	}
	filtered := path.DeliveryFilter{Status: "undelivered", Range: "7d"}
	return append(framed("export", []Fixture{
		{State: "direct", Page: Export{Filter: filtered, Matching: "1,204 deliveries", Direct: true, Limits: limits}},
		{State: "large", Page: Export{Matching: "more than 10,000 deliveries", Rows: rows[1:], Masked: true, Limits: limits}},
		{State: "one-running", Page: Export{Matching: "more than 10,000 deliveries", Running: true, Rows: rows, Limits: limits}},
		{State: "nothing-matches", Page: Export{Filter: filtered, None: true, Direct: true, Limits: limits}},
	}), framed("export-file", []Fixture{
		{State: "running", Page: running}, {State: "running-of-known", Page: known}, {State: "done", Page: done}, {State: "cut", Page: cut}, {State: "not-for-you", Page: barred},
		{State: "cancelled", Page: cancelled},
	})...)
}
