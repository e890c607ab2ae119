package assets_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rgb is a colour by its three channels, 0 to 1.
type rgb [3]float64

// luminance is the relative luminance of WCAG 2.2.
func (c rgb) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func contrast(a, b rgb) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// tokens reads custom properties as they stand in css/tokens.css.
func tokens(t *testing.T) map[string]string {
	text, err := os.ReadFile("css/tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\s*(--[\w-]+):\s*(.+);$`).FindAllStringSubmatch(string(text), -1) {
		all[match[1]] = match[2]
	}
	return all
}

// colour follows a token to its hex value in the light or dark theme.
func colour(all map[string]string, name string, dark bool) (rgb, error) {
	value, ok := all[name]
	if !ok {
		return rgb{}, fmt.Errorf("no token %s", name)
	}
	if inner, found := strings.CutPrefix(value, "light-dark("); found {
		light, night, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ", ")
		if value = light; dark {
			value = night
		}
	}
	if inner, found := strings.CutPrefix(value, "var("); found {
		return colour(all, strings.TrimRight(inner, ")"), dark)
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(value, "#"), 16, 32)
	if err != nil || len(value) != 7 {
		return rgb{}, fmt.Errorf("%s is %q, not a colour of six digits", name, value)
	}
	return rgb{float64(number>>16&255) / 255, float64(number>>8&255) / 255, float64(number&255) / 255}, nil
}

// TestContrastOfEveryPair computes WCAG 2.2 contrast for every pair of intents that meet on a page: 4.5 for
// text (1.4.3), 3 for borders of controls, focus and graphics (1.4.11).
func TestContrastOfEveryPair(t *testing.T) {
	t.Parallel()
	all := tokens(t)
	surfaces := []string{"--color-page", "--color-sheet", "--color-sunken"}
	type pair struct {
		front, back string
		least       float64
	}
	var pairs []pair
	for _, surface := range surfaces {
		for _, text := range []string{"--color-text", "--color-text-soft", "--color-text-subtle", "--color-accent", "--color-accent-strong", "--color-danger"} {
			pairs = append(pairs, pair{text, surface, 4.5})
		}
		pairs = append(pairs, pair{"--color-focus", surface, 3}, pair{"--color-control-line", surface, 3})
	}
	for _, tone := range []string{"good", "wait", "bad", "hold", "mute", "info"} {
		word, tint, fill := "--color-"+tone, "--color-"+tone+"-tint", "--color-"+tone+"-fill"
		for _, back := range append([]string{tint}, surfaces...) {
			pairs = append(pairs, pair{word, back, 4.5})
		}
		for _, text := range []string{"--color-text", "--color-text-soft", "--color-text-subtle", "--color-accent"} {
			pairs = append(pairs, pair{text, tint, 4.5})
		}
		pairs = append(pairs, pair{fill, "--color-sheet", 3}, pair{fill, "--color-page", 3}, pair{fill, tint, 3})
	}
	pairs = append(pairs,
		pair{"--color-on-accent", "--color-accent", 4.5}, pair{"--color-on-accent", "--color-accent-strong", 4.5},
		pair{"--color-on-danger", "--color-danger", 4.5}, pair{"--color-accent-strong", "--color-accent-tint", 4.5},
		pair{"--color-page", "--color-text", 4.5})
	for _, p := range pairs {
		for _, dark := range []bool{false, true} {
			front, err := colour(all, p.front, dark)
			if err != nil {
				t.Fatal(err)
			}
			back, err := colour(all, p.back, dark)
			if err != nil {
				t.Fatal(err)
			}
			if got := contrast(front, back); got < p.least {
				t.Errorf("%s on %s (dark: %t): %.2f, want %.1f", p.front, p.back, dark, got, p.least)
			}
		}
	}
}

// TestContrastIsComputedRight holds the sum against figures of the WCAG definition itself.
func TestContrastIsComputedRight(t *testing.T) {
	t.Parallel()
	black, white, grey := rgb{}, rgb{1, 1, 1}, rgb{119. / 255, 119. / 255, 119. / 255}
	if got := contrast(black, white); math.Abs(got-21) > 0.001 {
		t.Errorf("black on white: %.3f, want 21", got)
	}
	if got := contrast(grey, white); math.Abs(got-4.478) > 0.002 {
		t.Errorf("#777 on white: %.3f, want 4.478", got)
	}
}

// TestComponentsUseIntentsOnly: a component that names a palette colour would not follow the theme.
func TestComponentsUseIntentsOnly(t *testing.T) {
	t.Parallel()
	palette := regexp.MustCompile(`var\(--(paper|ink|carbon|leaf|amber|seal|plum|slate|night|chalk)-|#[0-9a-fA-F]{3,8}\b`)
	for _, folder := range []string{"css", "css/components"} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if entry.IsDir() || entry.Name() == "tokens.css" {
				continue
			}
			text, err := os.ReadFile(folder + "/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			if found := palette.Find(text); found != nil {
				t.Errorf("%s/%s uses %s; components use intents", folder, entry.Name(), found)
			}
		}
	}
}
