package ui_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"waybill/web/ui"
)

func bodyText(b ui.Body) string {
	var all strings.Builder
	for _, part := range b.Parts {
		all.WriteString(part.Text)
	}
	return all.String()
}

func TestBodyKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	sent := `{"b":1,"a":123456789012345678901234567890,"a":1.50,"text":"x\"y: {1}","none":null,"list":[true,-2e5]}`
	body := ui.NewBody([]byte(sent), int64(len(sent)), ui.Pretty)
	if body.Kind != "JSON" {
		t.Fatalf("kind %q", body.Kind)
	}
	if got := strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(bodyText(body)); got != sent {
		t.Errorf("indented, it says\n%s\nwant\n%s", got, sent)
	}
	var keys, words []string
	for _, part := range body.Parts {
		switch part.Class {
		case "k":
			keys = append(keys, part.Text)
		case "n":
			words = append(words, part.Text)
		}
	}
	if got := strings.Join(keys, " "); got != `"b" "a" "a" "text" "none" "list"` {
		t.Errorf("keys: %s", got)
	}
	if got := strings.Join(words, " "); got != "1 123456789012345678901234567890 1.50 null true -2e5" {
		t.Errorf("numbers and words: %s", got)
	}
	if raw := ui.NewBody([]byte(sent), int64(len(sent)), ui.Raw); bodyText(raw) != sent || raw.Kind != "text" {
		t.Errorf("raw: %s %q", raw.Kind, bodyText(raw))
	}
}

func TestBodyThatIsNoText(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]string{"NUL": "a\x00b", "invalid": "\xff\xfe", "latin": "caf\xe9"} {
		body := ui.NewBody([]byte(kept), int64(len(kept)), ui.Pretty)
		if body.Kind != "bytes" || !strings.Contains(body.Note, "Not readable text") {
			t.Errorf("%s: %+v", name, body)
		}
	}
	dump := bodyText(ui.NewBody([]byte("0123456789abcdef\x01z"), 18, ui.Hex))
	want := "000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef\n" +
		"000010  01 7a                                            .z\n"
	if dump != want {
		t.Errorf("dump:\n%s\nwant\n%s", dump, want)
	}
	if raw := bodyText(ui.NewBody([]byte("caf\xe9"), 4, ui.Raw)); raw != "caf\uFFFD" {
		t.Errorf("raw: %q", raw)
	}
}

func TestBodyCannotAct(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{"\x1b[31mred", "a\u202Eb", "a\u2066b", "zero\u200Bwidth", "\u0085", "\x7f", "\ufeffmark"} {
		got := bodyText(ui.NewBody([]byte(hostile), int64(len(hostile)), ui.Raw))
		if strings.ContainsAny(got, "\x1b\u202E\u2066\u200B\u0085\x7f\ufeff") {
			t.Errorf("%q is shown as %q", hostile, got)
		}
	}
	if got := ui.Visible("a\r\nb\x00\u202E"); got != "a␊b␀\uFFFD" {
		t.Errorf("on one line: %q", got)
	}
}

func TestBodyThatWasCut(t *testing.T) {
	t.Parallel()
	euro := "12€"
	body := ui.NewBody([]byte(euro[:4]), 2_000_000, ui.Pretty)
	if got := bodyText(body); got != "12" || !utf8.ValidString(got) || body.Kind != "text" {
		t.Errorf("cut in the middle of a character: %s %q", body.Kind, got)
	}
	if body.Note != "The first 4 bytes of 2.0 MB." {
		t.Errorf("note: %q", body.Note)
	}
	if got := ui.NewBody([]byte(`{"a":1}`), 900, ui.Pretty); got.Kind != "text" {
		t.Errorf("the beginning of something longer is called %s", got.Kind)
	}
	if got := ui.NewBody(nil, 0, ui.Pretty); got.Kind != "empty" || got.Note != "" {
		t.Errorf("nothing: %+v", got)
	}
	if got := ui.NewBody(nil, 70, ui.Pretty); got.Note != "70 bytes came; none of it was kept." {
		t.Errorf("nothing kept: %+v", got)
	}
}

func TestLargeBodyIsNotMarked(t *testing.T) {
	t.Parallel()
	large := `[` + strings.Repeat(`{"a":1},`, 5000) + `{"a":1}]`
	if parts := len(ui.NewBody([]byte(large), int64(len(large)), ui.Pretty).Parts); parts != 1 {
		t.Errorf("%d parts", parts)
	}
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x"]}`, `"\\"`, "\xe2\x82", "", "nul\x00", `{"a":"`, "[tru", "1e", "\u202e"} {
		f.Add([]byte(seed), int64(len(seed)), "pretty")
	}
	f.Fuzz(func(t *testing.T, kept []byte, size int64, view string) {
		for _, part := range ui.NewBody(kept, size, view).Parts {
			if !utf8.ValidString(part.Text) {
				t.Fatalf("invalid text %q", part.Text)
			}
		}
	})
}
