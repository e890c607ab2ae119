package dashboard

import (
	"testing"
	"time"

	"waybill/web/ui"
)

// In the hour that a zone has twice, from is the first and to the second, so that nothing between is left out; elsewhere both are one instant.
func TestTimesOfTheHourThatIsThereTwice(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	v := view{clock: ui.Clock{Zone: berlin}}
	for text, want := range map[string][2]string{
		"2026-10-25T02:30": {"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		"2026-10-25T03:30": {"2026-10-25T02:30:00Z", "2026-10-25T02:30:00Z"},
		"2026-07-01T12:00": {"2026-07-01T10:00:00Z", "2026-07-01T10:00:00Z"},
	} {
		from, ok := startInstant(v, text)
		to, fine := endInstant(v, text)
		if got := [2]string{from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339)}; !ok || !fine || got != want {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
	}
	if at, ok := startInstant(v, ""); !ok || !at.IsZero() {
		t.Errorf("nothing is %v, %v", at, ok)
	}
	if _, ok := endInstant(v, "tomorrow"); ok {
		t.Error("a word is taken for a time")
	}
}
