package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Series is one colour of a chart with its name.
type Series struct {
	Name string
	Tone Tone
}

// Bucket is one step of a bar chart's time axis. Values has one number a series. Missing says that the
// numbers could not be read: it is drawn as a gap and printed as a dash, never as zero.
type Bucket struct {
	Label   string // under the axis; empty for most
	Full    string // in the tooltip and the table: "Tue 17 Nov, 14:00 to 15:00"
	Values  []int64
	Missing bool
}

// Bars is a chart of stacked bars over time with its table.
type Bars struct {
	ID, Title, Summary string // Summary is the picture in one sentence
	Series             []Series
	Buckets            []Bucket
	Failed             bool // nothing could be read
}

// Point is one step of a line chart: one duration a series, negative where nothing was measured.
type Point struct {
	Label, Full string
	Values      []time.Duration
	Missing     bool
}

// Lines is a chart of durations over time with its table. The first series is drawn solid, the second dashed.
type Lines struct {
	ID, Title, Summary string
	Series             []Series
	Points             []Point
	Failed             bool
}

// chartHeight is the height of the plot in CSS pixels; the axis labels stand below it.
const chartHeight = 132

// rect is a bar's piece, in the units SVG takes: x and width in percent, y and height in pixels.
type rect struct {
	X, Y, Width, Height string
	Tone                Tone
}

// column is one bucket as drawn: an area to point at, its tooltip, its pieces from the bottom up.
type column struct {
	X, Width, Middle, Label, Tip string
	Missing                      bool
	Pieces                       []rect
}

// gridline is a horizontal line with its value.
type gridline struct{ Y, Text string }

func percent(part, whole float64) string {
	return strconv.FormatFloat(part/whole*100, 'f', 2, 64) + "%"
}

func pixels(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// top is the smallest round number not below n: the axis ends there. Its half is round too.
func top(n float64) float64 {
	if n <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(n)))
	for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 6, 8, 10} {
		if n <= step*power {
			return step * power
		}
	}
	return 10 * power
}

func (b Bars) ceiling() float64 {
	highest := int64(0)
	for _, bucket := range b.Buckets {
		sum := int64(0)
		for _, v := range bucket.Values {
			sum += v
		}
		highest = max(highest, sum)
	}
	// Halves of small counts would not be whole.
	if highest <= 10 {
		return float64(max(2, highest+highest%2))
	}
	return top(float64(highest))
}

func (b Bars) grid() []gridline {
	ceiling := b.ceiling()
	return []gridline{
		{Y: "0.5", Text: Number(int64(ceiling))},
		{Y: pixels(chartHeight / 2), Text: Number(int64(ceiling / 2))},
		{Y: pixels(chartHeight), Text: "0"},
	}
}

func (b Bars) columns() []column {
	ceiling, count := b.ceiling(), float64(len(b.Buckets))
	columns := make([]column, len(b.Buckets))
	for i, bucket := range b.Buckets {
		at := float64(i)
		columns[i] = column{
			X: percent(at, count), Width: percent(1, count), Middle: percent(at+0.5, count),
			Label: bucket.Label, Tip: bucket.Full + ": " + b.words(bucket), Missing: bucket.Missing,
		}
		base := float64(chartHeight)
		for s, v := range bucket.Values {
			if v <= 0 || bucket.Missing || s >= len(b.Series) {
				continue
			}
			// A bar of one among thousands still has to be seen.
			height := max(float64(v)/ceiling*chartHeight, 1.5)
			base -= height
			columns[i].Pieces = append(columns[i].Pieces, rect{
				X: percent(at+0.12, count), Width: percent(0.76, count),
				Y: pixels(base), Height: pixels(height), Tone: b.Series[s].Tone,
			})
		}
	}
	return columns
}

func (b Bars) words(bucket Bucket) string {
	if bucket.Missing {
		return "could not be loaded"
	}
	var words []string
	for s, v := range bucket.Values {
		if v > 0 && s < len(b.Series) {
			words = append(words, Number(v)+" "+strings.ToLower(b.Series[s].Name))
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func (b Bars) rows() []tableRow {
	rows := make([]tableRow, len(b.Buckets))
	for i, bucket := range b.Buckets {
		rows[i] = tableRow{Head: bucket.Full, Cells: make([]string, len(b.Series))}
		for s := range b.Series {
			rows[i].Cells[s] = "–"
			if !bucket.Missing && s < len(bucket.Values) {
				rows[i].Cells[s] = Number(bucket.Values[s])
			}
		}
	}
	return rows
}

// tableRow is a chart's bucket in the table behind it.
type tableRow struct {
	Head  string
	Cells []string
}

func (l Lines) ceiling() time.Duration {
	highest := time.Duration(0)
	for _, point := range l.Points {
		for _, v := range point.Values {
			highest = max(highest, v)
		}
	}
	return time.Duration(top(float64(max(highest, 10*time.Millisecond))/1e6)) * time.Millisecond
}

func (l Lines) grid() []gridline {
	ceiling := l.ceiling()
	return []gridline{
		{Y: "0.5", Text: Span(ceiling)},
		{Y: pixels(chartHeight / 2), Text: Span(ceiling / 2)},
		{Y: pixels(chartHeight), Text: "0"},
	}
}

// path draws one series in a box 1,000 wide, lifting the pen where nothing was measured. A point alone
// between two gaps is drawn as a dot (a line of no length with round ends).
func (l Lines) path(series int) string {
	ceiling, count := float64(l.ceiling()), float64(len(l.Points))
	var d strings.Builder
	down := false
	for i, point := range l.Points {
		if point.Missing || series >= len(point.Values) || point.Values[series] < 0 {
			down = false
			continue
		}
		x := (float64(i) + 0.5) / count * 1000
		y := chartHeight - float64(point.Values[series])/ceiling*chartHeight
		if !down {
			fmt.Fprintf(&d, "M%.1f %.1fh0", x, y)
		} else {
			fmt.Fprintf(&d, "L%.1f %.1f", x, y)
		}
		down = true
	}
	return d.String()
}

func (l Lines) columns() []column {
	count := float64(len(l.Points))
	columns := make([]column, len(l.Points))
	for i, row := range l.rows() {
		tip := make([]string, len(row.Cells))
		for s, cell := range row.Cells {
			tip[s] = l.Series[s].Name + " " + cell
		}
		columns[i] = column{
			X: percent(float64(i), count), Width: percent(1, count), Middle: percent(float64(i)+0.5, count),
			Label: l.Points[i].Label, Tip: row.Head + ": " + strings.Join(tip, ", "), Missing: l.Points[i].Missing,
		}
	}
	return columns
}

func (l Lines) rows() []tableRow {
	rows := make([]tableRow, len(l.Points))
	for i, point := range l.Points {
		rows[i] = tableRow{Head: point.Full, Cells: make([]string, len(l.Series))}
		for s := range l.Series {
			rows[i].Cells[s] = "–"
			if !point.Missing && s < len(point.Values) && point.Values[s] >= 0 {
				rows[i].Cells[s] = Span(point.Values[s])
			}
		}
	}
	return rows
}
