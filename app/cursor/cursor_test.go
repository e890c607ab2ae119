package cursor

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"

	"waybill/app/fault"
)

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"ep_01J9X3ZK7Q8W2M4T5V6B7N8P9R"}, {"2026-11-17", "dlv_1"}, {"साड़ी", "a.b", "9007199254740993"}} {
		text := Encode("list", keys...)
		if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(text) {
			t.Errorf("%q is not a cursor's alphabet", text)
		}
		got, err := Decode("list", text, len(keys))
		if err != nil || !slices.Equal(got, keys) {
			t.Errorf("Decode = %q, %v, want %q", got, err, keys)
		}
	}
}

func TestForeignCursorsAreMalformed(t *testing.T) {
	t.Parallel()
	good := Encode("list", "a", "b")
	for name, text := range map[string]string{
		"empty":            "",
		"another list":     Encode("other", "a", "b"),
		"too few keys":     Encode("list", "a"),
		"too many keys":    Encode("list", "a", "b", "c"),
		"an empty key":     Encode("list", "a", ""),
		"not base64":       good + "!",
		"padding":          base64.URLEncoding.EncodeToString([]byte("list\x1fa\x1fb")),
		"another alphabet": base64.RawStdEncoding.EncodeToString([]byte("list\x1f\xff\xfe>\x1f???>>>")),
		"line end":         good[:4] + "\n" + good[4:],
		"spare bits":       good[:len(good)-1] + "h",
		"NUL":              Encode("list", "a\x00", "b"),
		"broken UTF-8":     Encode("list", "a\xff", "b"),
		"10 KB":            Encode("list", strings.Repeat("a", 10_000), "b"),
		"cut":              good[:5],
	} {
		if keys, err := Decode("list", text, 2); fault.KindOf(err) != fault.Malformed {
			t.Errorf("%s: Decode(%.40q) = %q, %v, want Malformed", name, text, keys, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("list", Encode("list", "a", "b"), 2)
	f.Add("", "Hw", 1)
	f.Fuzz(func(t *testing.T, kind, text string, n int) {
		keys, err := Decode(kind, text, n)
		if err != nil {
			if fault.KindOf(err) != fault.Malformed {
				t.Errorf("%v is not Malformed", err)
			}
			return
		}
		if Encode(kind, keys...) != text {
			t.Errorf("%q decodes to %q, which encodes to %q", text, keys, Encode(kind, keys...))
		}
	})
}
