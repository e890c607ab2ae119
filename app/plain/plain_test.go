package plain

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Saree shop":                    "",
		"साड़ी की दुकान":                "",
		"👨‍👩‍👧 family":                  "",
		strings.Repeat("é", 20):         "",
		strings.Repeat("é", 21):         "must have 1 to 20 characters, and has 21",
		"":                              "must not be empty",
		" \t":                           "must not be empty",
		"a\x00b":                        "must not contain control characters",
		"a\nb":                          "must not contain control characters",
		"a\u0085b":                      "must not contain control characters",
		"a\xffb":                        "must be valid UTF-8",
		"abc\u202egnp.exe":              "must not contain characters that change the direction of writing",
		"a\u2066b":                      "must not contain characters that change the direction of writing",
		"a\u2028b":                      "must not contain characters that change the direction of writing",
		"right to left by nature: שלום": "must have 1 to 20 characters, and has 29",
	} {
		if got := Line(text, 1, 20); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
	if got := Line("", 0, 5); got != "" {
		t.Errorf("an empty text that may be empty: %q", got)
	}
}

func FuzzClipMakesALine(f *testing.F) {
	f.Add("Mozilla/5.0 \x00\r\n\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := Clip(text, 30)
		if why := Line(got, 0, 30); why != "" {
			t.Errorf("Clip(%q) = %q: %s", text, got, why)
		}
		if Line(text, 0, 30) == "" && got != text {
			t.Errorf("Clip(%q) = %q, and it was fine", text, got)
		}
	})
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		`1`: 0, `"[[["`: 0, `[]`: 1, `{"a":[1,{"b":[]}]}`: 4, `[[],[],[]]`: 2, `"\"[["`: 0, `["\\",[1]]`: 2, `["\`: 1, ``: 0, `]]][`: 0,
	} {
		if got := Depth([]byte(text)); got != want {
			t.Errorf("Depth(%s) = %d, want %d", text, got, want)
		}
	}
}

func FuzzDepthAgreesWithAParser(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"]\"}"}],"c":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := Depth(text)
		decoder, deepest := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true)), 0
		for {
			_, err := decoder.ReadToken()
			if err != nil {
				break
			}
			deepest = max(deepest, decoder.StackDepth())
		}
		if utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true)) && got != deepest {
			t.Errorf("Depth(%s) = %d, a parser says %d", text, got, deepest)
		}
	})
}
