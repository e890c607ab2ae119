package ui_test

import (
	"testing"
	"time"

	"waybill/web/ui"
)

func TestMomentInWords(t *testing.T) {
	t.Parallel()
	clock := ui.Clock{Now: time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC), Zone: time.FixedZone("IST", 19800)}
	for gap, want := range map[time.Duration]string{
		0: "now", 4 * time.Second: "now", -4 * time.Second: "now", 5 * time.Second: "5 s ago", -59 * time.Second: "in 59 s",
		time.Minute: "1 min ago", time.Hour - time.Second: "59 min ago", time.Hour: "1 h ago", 47*time.Hour + 59*time.Minute: "47 h ago",
		48 * time.Hour: "2 d ago", -72 * time.Hour: "in 3 d",
	} {
		if got := clock.Moment(clock.Now.Add(-gap)).Relative; got != want {
			t.Errorf("%v before: %q, want %q", gap, got, want)
		}
	}
	moment := clock.Moment(clock.Now)
	if want := "Tue 17 Nov 2026, 15:11:05 IST (+05:30)"; moment.Exact != want {
		t.Errorf("exact: %q, want %q", moment.Exact, want)
	}
	if want := "2026-11-17T09:41:05.000Z"; moment.Datetime != want {
		t.Errorf("datetime: %q, want %q", moment.Datetime, want)
	}
	if never := clock.Moment(time.Time{}); !never.IsZero() || moment.IsZero() {
		t.Errorf("the zero time is %+v", never)
	}
}

// TestExactAcrossDaylightSaving: the two 01:30 of a night in which clocks go back are told apart.
func TestExactAcrossDaylightSaving(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	clock := ui.Clock{Now: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC), Zone: zone}
	for at, want := range map[time.Time]string{
		time.Date(2026, 11, 1, 5, 30, 0, 0, time.UTC): "Sun 1 Nov 2026, 01:30:00 EDT (-04:00)",
		time.Date(2026, 11, 1, 6, 30, 0, 0, time.UTC): "Sun 1 Nov 2026, 01:30:00 EST (-05:00)",
	} {
		if got := clock.Moment(at).Exact; got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}

func TestTimeOfDay(t *testing.T) {
	t.Parallel()
	clock := ui.Clock{Now: time.Date(2026, 11, 17, 20, 0, 0, 0, time.UTC), Zone: time.FixedZone("IST", 19800)}
	for at, want := range map[time.Time]string{
		time.Date(2026, 11, 17, 18, 31, 0, 0, time.UTC): "00:01",
		time.Date(2026, 11, 17, 18, 29, 0, 0, time.UTC): "Tue 17 Nov, 23:59",
		time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC):     "2 Jan 2027, 05:30",
		time.Date(2025, 11, 18, 0, 0, 0, 0, time.UTC):   "18 Nov 2025, 05:30",
	} {
		if got := clock.Time(at); got != want {
			t.Errorf("%v: %q, want %q", at, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", -1: "–", 300 * time.Microsecond: "< 1 ms", 212 * time.Millisecond: "212 ms", 999*time.Millisecond + 999*time.Microsecond: "999 ms",
		time.Second: "1 s", 1449 * time.Millisecond: "1.4 s", 15 * time.Second: "15 s", 5 * time.Minute: "5 min",
		5*time.Minute + 12*time.Second: "5 min 12 s", 2 * time.Hour: "2 h", 2*time.Hour + 5*time.Minute: "2 h 5 min",
		75*time.Hour + 35*time.Minute: "3 d 3 h",
	} {
		if got := ui.Span(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 12345678901: "12,345,678,901"} {
		if got := ui.Number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 bytes", 1: "1 byte", 999: "999 bytes", 1000: "1.0 kB", 218_400: "218.4 kB", 5_000_000: "5.0 MB", 7_200_000_000: "7.2 GB"} {
		if got := ui.Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for _, test := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, "–"}, {0, 7, "0 %"}, {7, 7, "100 %"}, {9999, 10000, "> 99.99 %"}, {99_999, 100_000, "> 99.99 %"},
		{9982, 10000, "99.82 %"}, {1, 3, "33.3 %"}, {1, 100_000, "< 0.1 %"},
	} {
		if got := ui.Share(test.part, test.whole); got != test.want {
			t.Errorf("%d of %d: %q, want %q", test.part, test.whole, got, test.want)
		}
	}
	if got := ui.Count(1, "delivery", "deliveries") + ", " + ui.Count(1204, "delivery", "deliveries"); got != "1 delivery, 1,204 deliveries" {
		t.Error(got)
	}
	if got := ui.Tail("evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R") + " " + ui.Tail("short") + " " + ui.Tail("evt_9f2c"); got != "evt_…7N8P9R short evt_9f2c" {
		t.Error(got)
	}
}
