package notice

import (
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                         "",
		"no":                       "no",
		"\n\n  a\r\nb\tc\n\n":      "  a\nb  c",
		"\x00\x01":                 "",
		"\xff\xfe\xfd\xfc\xfb":     "",
		"cut \xe2\x82":             "cut",
		"a\x1b[31mred\u202e":       "a[31mred",
		strings.Repeat("x", 2000):  strings.Repeat("x", excerptMost),
		strings.Repeat("a\n", 100): strings.TrimRight(strings.Repeat("a\n", excerptLines), "\n"),
	} {
		if got := Excerpt([]byte(body)); got != want {
			t.Errorf("of %q: %q, want %q", body, got, want)
		}
	}
}
