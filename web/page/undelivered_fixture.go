package page

import (
	"time"

	"waybill/web/path"
	"waybill/web/ui"
)

func undeliveredFixtures() []Fixture {
	full := Undelivered{
		Counts: [3]string{"252", "12", "240"}, Shown: "1 to 12 of 252", Next: path.UndeliveredAt("", "", "b64x"), Matching: 252, MayResend: true,
		Groups: []ParkedGroup{
			{Endpoint: warehouse, Stamp: ui.Stamp{Tone: ui.Hold, Word: "Held"}, Count: "240 deliveries", Why: "Paused by Meera since Monday", Until: "the first ages out on 16 December", Action: ui.Link{Text: "Enable…", Href: path.EndpointEnable(warehouse.ID)}},
			{Endpoint: orderHooks, Stamp: ui.Stamp{Tone: ui.Bad, Word: "Undelivered"}, Count: "12 deliveries", Why: "Every attempt failed: 401 Unauthorized", Until: "the first ages out on 14 December", Action: ui.Link{Text: "Catch up…", Href: path.EndpointRecover(orderHooks.ID)}},
		},
	}
	for i, row := range fixtureRows(108) {
		if row.Stamp.Word != "Undelivered" && row.Stamp.Word != "Held" || len(full.Rows) == 12 {
			continue
		}
		parked := ParkedRow{Delivery: row, Why: "every attempt failed: 401", Since: before(time.Duration(i) * time.Hour), Until: after(27*24*time.Hour - time.Duration(i)*time.Hour)}
		if row.Stamp.Word == "Held" {
			parked.Why = "endpoint paused"
		}
		full.Rows = append(full.Rows, parked)
	}
	viewer := full
	viewer.Status, viewer.MayResend, viewer.Next, viewer.First = "held", false, "", path.UndeliveredAt("", "held", "")
	states := []Fixture{
		{State: "full", Page: full},
		{State: "held-as-viewer", Page: viewer},
		{State: "none", Page: Undelivered{Counts: [3]string{"0", "0", "0"}, MayResend: true}},
		{State: "not-loaded", Page: Undelivered{Counts: [3]string{"–", "–", "–"}, Failed: true}},
	}
	states = framed("undelivered", states)
	states[2].Frame.Undelivered, states[3].Frame.Undelivered = 0, -1
	return states
}

func recoverFixtures() []Fixture {
	choose := Recover{Endpoint: warehouse, Active: true, Since: "2026-11-16T13:05", Held: true, Failed: true, Pace: "0", MaySend: true}
	shown := choose
	shown.Newest = true
	shown.Preview = &RecoverPreview{Total: 148, Skipped: 92, Size: "61.0 kB", Takes: "about 15 s at the endpoint's limit", Groups: []RecoverGroup{
		{Type: "consignment.booked", Count: 40, Oldest: before(26 * time.Hour), Size: "16.4 kB"},
		{Type: "consignment.delivered", Count: 108, Oldest: before(25 * time.Hour), Size: "44.6 kB"},
	}, Days: []RecoverDay{
		{Day: "16 Nov 2026", Count: 111, Share: ui.ShareBar{Part: 111, Whole: 148, Tone: ui.Info}}, {Day: "17 Nov 2026", Count: 37, Share: ui.ShareBar{Part: 37, Whole: 148, Tone: ui.Info}},
	}}
	shown.Past = []RecoverPast{{Href: path.EndpointRecovery(warehouse.ID, "rcv_0"), Text: "240 of 240 deliveries delivered", Stamp: ui.Stamp{Tone: ui.Good, Word: "Done"}, At: before(9 * 24 * time.Hour)}}
	off := choose
	off.Active, off.Preview = false, &RecoverPreview{}
	off.Problems = Problems{"since": "It must be before the end."}
	running := Recovery{ID: "rec_1", Endpoint: warehouse, Stamp: ui.Stamp{Tone: ui.Info, Word: "Running"}, Total: 148, Sent: 61, Delivered: 58, Failed: 3, Skipped: 2, Started: before(8 * time.Second), By: "meera@silkhouse.example", Running: true, Left: "about 9 s"}
	done := running
	done.Stamp, done.Sent, done.Delivered, done.Running, done.Left = ui.Stamp{Tone: ui.Good, Word: "Done"}, 146, 143, false, ""
	stopped := done
	stopped.Stamp, stopped.Sent, stopped.Parked, stopped.Why = ui.Stamp{Tone: ui.Hold, Word: "Stopped"}, 90, 56, "the endpoint was paused"
	busy, unread := shown, choose
	busy.Running, unread.Unread = path.EndpointRecovery(warehouse.ID, "rcv_1"), true
	states := []Fixture{
		{State: "choose", Page: choose}, {State: "preview", Page: shown}, {State: "off", Page: off}, {State: "busy", Page: busy}, {State: "not-loaded", Page: unread},
		{State: "running", Page: running}, {State: "done", Page: done}, {State: "stopped", Page: stopped},
	}
	return framed("recover", states)
}
