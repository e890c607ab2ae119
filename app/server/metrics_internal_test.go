package server

import (
	"net/http/httptest"
	"strings"
	"testing"
)

type countsOfAll struct{}

func (countsOfAll) Settled() map[string]int64 {
	return map[string]int64{"delivered": 7, "undelivered": 2}
}
func (countsOfAll) Flushes() (int64, int64)       { return 3, 9 }
func (countsOfAll) Dispatched() (int64, int64)    { return 4, 800 }
func (countsOfAll) running() (lanes, hanging int) { return 5, 2 }

// What an engine and a dispatcher count is shown; without them nothing is, rather than zero.
func TestOptionalMetrics(t *testing.T) {
	t.Parallel()
	show := func(counts engineCounts, dispatched dispatcherCounts) string {
		m := newMetrics()
		m.addEngine(countsOfAll{}.running, 500, counts, dispatched)
		w := httptest.NewRecorder()
		m.handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	with, without := show(countsOfAll{}, countsOfAll{}), show(nil, nil)
	for _, line := range []string{`waybill_deliveries_settled_total{status="delivered"} 7`, `waybill_deliveries_settled_total{status="undelivered"} 2`,
		"waybill_flush_batches_total 3", "waybill_flush_results_total 9", "waybill_dispatch_batches_total 4", "waybill_dispatch_events_total 800"} {
		if !strings.Contains(with, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
		if name, _, _ := strings.Cut(line, " "); strings.Contains(without, "\n"+name) {
			t.Errorf("%s is shown although nobody counts it", name)
		}
	}
	if !strings.Contains(without, "\nwaybill_lane_places_used 3\n") || !strings.Contains(without, "\nwaybill_lanes_hanging 2\n") {
		t.Error("the lanes of this process are not shown")
	}
}
