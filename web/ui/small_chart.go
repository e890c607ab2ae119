package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Strip is the outcomes of an endpoint's last attempts, oldest first: the health strip.
type Strip struct {
	Outcomes []Tone // Good, Bad or, for what is not known, Mute
}

// stripLength is how many outcomes a strip has room for.
const stripLength = 50

// Summary is the strip in words.
func (s Strip) Summary() string {
	if len(s.Outcomes) == 0 {
		return "No attempts yet"
	}
	return fmt.Sprintf("%d of the last %s delivered", s.good(), Count(int64(len(s.Outcomes)), "attempt", "attempts"))
}

// Share is how much of it was delivered, as a percentage; of nothing it is a dash.
func (s Strip) Share() string {
	return Share(s.good(), int64(len(s.Outcomes)))
}

func (s Strip) good() int64 {
	good := int64(0)
	for _, outcome := range s.Outcomes {
		if outcome == Good {
			good++
		}
	}
	return good
}

// path draws the marks of one tone, run by run: a run is one line as thick as a mark is high, dashed into marks
// of three units with one between (assets/css/components/chart.css). Failures are taller, so that they are seen
// without colour. A strip of fifty so takes a few dozen bytes.
func (s Strip) path(tone Tone) string {
	shown := s.Outcomes[max(0, len(s.Outcomes)-stripLength):]
	middle := 11
	if tone == Bad {
		middle = 8
	}
	var d strings.Builder
	for i := 0; i < len(shown); i++ {
		if shown[i] != tone {
			continue
		}
		from := i
		for i+1 < len(shown) && shown[i+1] == tone {
			i++
		}
		left := stripLength - len(shown)
		fmt.Fprintf(&d, "M%d %dH%d", 4*(left+from), middle, 4*(left+i)+3)
	}
	return d.String()
}

// Phase is a part of an attempt's time.
type Phase struct {
	Name string
	Took time.Duration
}

// Phases is how an attempt spent its time, in order.
type Phases struct {
	Parts []Phase
	Total time.Duration
}

// phaseBar is a phase as drawn.
type phaseBar struct {
	Class, X, Width, Name, Took string
}

func (p Phases) bars() []phaseBar {
	sum := time.Duration(0)
	for _, part := range p.Parts {
		sum += max(part.Took, 0)
	}
	// The parts may say less than the total (time between them); the bar is the total.
	whole, at := float64(max(sum, p.Total, 1)), 0.0
	bars := make([]phaseBar, len(p.Parts))
	for i, part := range p.Parts {
		took := float64(max(part.Took, 0))
		bars[i] = phaseBar{
			Class: part.class(i), X: percent(at, whole), Width: percent(took, whole),
			Name: part.Name, Took: Span(part.Took),
		}
		at += took
	}
	return bars
}

// class is the phase's colour: the same for the same name, also when the phases before it are missing.
func (p Phase) class(i int) string {
	if known := slices.Index([]string{"Connect", "TLS", "Waiting", "Reading"}, p.Name); known >= 0 {
		i = known
	}
	return fmt.Sprintf("phase-%d", i%4+1)
}

// ShareBar is a part of a whole as a bar with its percentage in words.
type ShareBar struct {
	Part, Whole int64
	Tone        Tone
}

// path is a line as long as the share, on a scale of 100.
func (s ShareBar) path() string {
	return fmt.Sprintf("M0 6H%.4g", float64(s.Part)/float64(s.Whole)*100)
}
