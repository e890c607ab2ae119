package ui_test

import (
	"bytes"
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"waybill/web/ui"
)

func render(t *testing.T, c templ.Component) string {
	t.Helper()
	var buffer bytes.Buffer
	if err := c.Render(t.Context(), &buffer); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// rects reads the bars of a chart: class to the sum of heights, and checks that none leaves the plot.
func rects(t *testing.T, html string) map[string]float64 {
	t.Helper()
	heights := map[string]float64{}
	for _, match := range regexp.MustCompile(`<rect class="(fill-\w+)" x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"`).FindAllStringSubmatch(html, -1) {
		x, y, width, height := number(t, match[2]), number(t, match[3]), number(t, match[4]), number(t, match[5])
		if x < 0 || x+width > 100.01 || y < -0.1 || y+height > 132.1 {
			t.Errorf("a bar leaves the plot: %v", match[0])
		}
		heights[match[1]] += height
	}
	return heights
}

func TestBarsAreTrue(t *testing.T) {
	t.Parallel()
	chart := ui.Bars{ID: "c", Title: "Deliveries", Series: []ui.Series{{Name: "Delivered", Tone: ui.Good}, {Name: "Undelivered", Tone: ui.Bad}}}
	for i := range 25 { // a day on which clocks go back
		chart.Buckets = append(chart.Buckets, ui.Bucket{Full: "hour " + strconv.Itoa(i), Values: []int64{int64(i * 4), int64(i)}})
	}
	html := render(t, ui.BarChart(chart))
	heights := rects(t, html)
	if ratio := heights["fill-good"] / heights["fill-bad"]; ratio < 3.7 || ratio > 4.1 {
		t.Errorf("four times as many are drawn %.2f times as high", ratio)
	}
	if got := strings.Count(html, `<th scope="row">`); got != 25 {
		t.Errorf("the table has %d rows, want one a bucket", got)
	}
	if !strings.Contains(html, `<th scope="row">hour 24</th><td class="number">96</td><td class="number">24</td>`) {
		t.Error("the table does not say the numbers")
	}
	if !strings.Contains(html, "<title>hour 0: none</title>") || !strings.Contains(html, "<title>hour 24: 96 delivered, 24 undelivered</title>") {
		t.Error("the tooltips do not say the numbers")
	}
}

// TestMissingIsNotZero: what could not be loaded is a gap and a dash (CASES B53).
func TestMissingIsNotZero(t *testing.T) {
	t.Parallel()
	bars := ui.Bars{ID: "c", Series: []ui.Series{{Name: "Delivered", Tone: ui.Good}}, Buckets: []ui.Bucket{{Full: "one", Values: []int64{3}}, {Full: "two", Missing: true}}}
	html := render(t, ui.BarChart(bars))
	if !strings.Contains(html, `<th scope="row">two</th><td class="number">–</td>`) || !strings.Contains(html, "two: could not be loaded") || !strings.Contains(html, `class="hit gap"`) {
		t.Errorf("a missing bucket is not told apart from none:\n%s", html)
	}
	bars.Failed = true
	html = render(t, ui.BarChart(bars))
	if strings.Contains(html, "<svg class=\"chart\"") || !strings.Contains(html, "could not be loaded") {
		t.Errorf("a chart that failed still draws:\n%s", html)
	}
	lines := ui.Lines{ID: "l", Series: []ui.Series{{Name: "p50", Tone: ui.Info}}, Points: []ui.Point{
		{Full: "a", Values: []time.Duration{time.Second}}, {Full: "b", Values: []time.Duration{-1}}, {Full: "c", Missing: true, Values: []time.Duration{1}}, {Full: "d", Values: []time.Duration{0}},
	}}
	html = render(t, ui.LineChart(lines))
	if !strings.Contains(html, `d="M125.0 0.0h0M875.0 132.0h0"`) {
		t.Errorf("the line does not lift its pen over gaps:\n%s", html)
	}
	if strings.Count(html, `<td class="number">–</td>`) != 2 || !strings.Contains(html, `<td class="number">0 ms</td>`) {
		t.Errorf("the table does not tell missing from nothing:\n%s", html)
	}
}

func TestEmptyAndStrangeChartsDraw(t *testing.T) {
	t.Parallel()
	for name, component := range map[string]templ.Component{
		"no buckets":      ui.BarChart(ui.Bars{ID: "c"}),
		"no points":       ui.LineChart(ui.Lines{ID: "l"}),
		"values too many": ui.BarChart(ui.Bars{ID: "c", Buckets: []ui.Bucket{{Values: []int64{1, 2, 3}}}}),
		"negative":        ui.BarChart(ui.Bars{ID: "c", Series: []ui.Series{{Name: "a"}}, Buckets: []ui.Bucket{{Values: []int64{-5}}}}),
		"huge":            ui.BarChart(ui.Bars{ID: "c", Series: []ui.Series{{Name: "a"}}, Buckets: []ui.Bucket{{Values: []int64{1 << 60}}}}),
		"no phases":       ui.PhaseBar(ui.Phases{}),
		"no strip":        ui.HealthStrip(ui.Strip{}),
	} {
		html := render(t, component)
		if strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
			t.Errorf("%s: %s", name, html)
		}
		decoder := xml.NewDecoder(strings.NewReader(html))
		decoder.Strict = false
		for {
			if _, err := decoder.Token(); err != nil {
				if err.Error() != "EOF" {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
		}
	}
}

func TestHealthStripShowsTheLastFifty(t *testing.T) {
	t.Parallel()
	strip := ui.Strip{Outcomes: []ui.Tone{ui.Bad}}
	for range 50 {
		strip.Outcomes = append(strip.Outcomes, ui.Good)
	}
	html := render(t, ui.HealthStrip(strip))
	if strings.Contains(html, "stroke-bad") || !strings.Contains(html, `class="stroke-good" d="M0 11H199"`) {
		t.Errorf("the fifty-first is drawn, or not all of the fifty:\n%s", html)
	}
	few := render(t, ui.HealthStrip(ui.Strip{Outcomes: []ui.Tone{ui.Good, ui.Bad, ui.Mute}}))
	for _, want := range []string{"<title>1 of the last 3 attempts delivered</title>", `class="stroke-good" d="M188 11H191"`, `class="stroke-bad" d="M192 8H195"`, `class="stroke-mute" d="M196 11H199"`} {
		if !strings.Contains(few, want) {
			t.Errorf("no %s in\n%s", want, few)
		}
	}
	if len(html) > 400 {
		t.Errorf("a strip takes %d bytes", len(html))
	}
}

func TestPhasesFillTheirTotal(t *testing.T) {
	t.Parallel()
	html := render(t, ui.PhaseBar(ui.Phases{Total: 400 * time.Millisecond, Parts: []ui.Phase{{"Connect", 100 * time.Millisecond}, {"Waiting", 200 * time.Millisecond}}}))
	for _, want := range []string{`class="phase-1" x="0.00%" y="0" width="25.00%"`, `class="phase-3" x="25.00%" y="0" width="50.00%"`, "<dd>400 ms</dd>"} {
		if !strings.Contains(html, want) {
			t.Errorf("no %s in\n%s", want, html)
		}
	}
}
