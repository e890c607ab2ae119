package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Body is a request or response body prepared for reading. Nothing in it can act: control characters are
// shown as pictures, direction overrides by their number, and bytes that are no text as a hex dump.
type Body struct {
	Kind  string // "JSON", "text", "bytes" or "empty"
	Note  string // what was cut or could not be shown as it is; empty if nothing
	Parts []Part
}

// Part is a piece of a body. Class is "k" for the key of a JSON object, "n" for a number, true, false or null,
// and empty for everything else.
type Part struct {
	Class, Text string
}

// The ways to look at a body.
const (
	Pretty = "pretty"
	Raw    = "raw"
	Hex    = "hex"
)

// colourLimit is the size above which a body is printed without marking keys: a span an element would
// multiply a large body's size.
const colourLimit = 32 << 10

// hexLimit bounds a dump, which is five times as long as what it shows.
const hexLimit = 16 << 10

// NewBody prepares a body. kept is what was stored, size how long it was on the wire; view is Pretty, Raw or
// Hex, anything else is Pretty. JSON is indented, never re-encoded: numbers, key order and duplicate keys stay
// as they came.
func NewBody(kept []byte, size int64, view string) Body {
	if len(kept) == 0 {
		return Body{Kind: "empty", Note: cutNote(0, size)}
	}
	text := utf8.Valid(trimCutRune(kept, size)) && bytes.IndexByte(kept, 0) < 0
	if view == Hex || (!text && view != Raw) {
		shown := kept[:min(len(kept), hexLimit)]
		body := Body{Kind: "bytes", Parts: []Part{{Text: hexDump(shown)}}, Note: cutNote(len(shown), size)}
		if view != Hex {
			body.Note = join("Not readable text, so shown as bytes.", body.Note)
		}
		return body
	}
	body := Body{Kind: "text", Note: cutNote(len(kept), size)}
	if view != Raw && int64(len(kept)) == size && json.Valid(kept) {
		var indented bytes.Buffer
		if json.Indent(&indented, kept, "", "  ") == nil {
			body.Kind = "JSON"
			body.Parts = jsonParts(indented.String())
			return body
		}
	}
	body.Parts = []Part{{Text: visible(strings.ToValidUTF8(string(trimCutRune(kept, size)), "\uFFFD"))}}
	return body
}

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }

func cutNote(shown int, size int64) string {
	if int64(shown) >= size {
		return ""
	}
	if shown == 0 {
		return fmt.Sprintf("%s came; none of it was kept.", Size(size))
	}
	return fmt.Sprintf("The first %s of %s.", Size(int64(shown)), Size(size))
}

// trimCutRune drops the half character that cutting may have left at the end.
func trimCutRune(kept []byte, size int64) []byte {
	if int64(len(kept)) >= size {
		return kept
	}
	for i := 1; i <= utf8.UTFMax && i <= len(kept); i++ {
		if b := kept[len(kept)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(kept[len(kept)-i:]) {
				return kept[:len(kept)-i]
			}
			break
		}
	}
	return kept
}

// visible replaces what a reader cannot see or must not obey: control characters become their pictures
// (U+2400 ff.), characters that turn the direction of writing or have no width become their number.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r < 0xa0, r == 0xfeff, unicode.Is(unicode.Bidi_Control, r), r >= 0x200b && r <= 0x200f:
			return '\uFFFD'
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
}

// Visible is text from outside on one line, safe to stand in a list: control and direction characters are
// shown, not obeyed.
func Visible(s string) string {
	return strings.NewReplacer("\n", "␊", "\t", "␉").Replace(visible(strings.ToValidUTF8(s, "\uFFFD")))
}

// jsonParts marks the keys, numbers and words of valid, indented JSON.
func jsonParts(text string) []Part {
	if len(text) > colourLimit {
		return []Part{{Text: visible(text)}}
	}
	var parts []Part
	plain := 0
	mark := func(class string, from, to int) {
		if plain < from {
			parts = append(parts, Part{Text: visible(text[plain:from])})
		}
		parts = append(parts, Part{Class: class, Text: visible(text[from:to])})
		plain = to
	}
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			end = stringEnd(text, i)
			if end < len(text) && text[end] == ':' {
				mark("k", i, end)
			}
		case c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'):
			for end < len(text) && !strings.ContainsRune(",]}\n ", rune(text[end])) {
				end++
			}
			mark("n", i, end)
		}
		i = end
	}
	if plain < len(text) {
		parts = append(parts, Part{Text: visible(text[plain:])})
	}
	return parts
}

// stringEnd is the index after the closing quote of the JSON string that starts at i.
func stringEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// hexDump prints offset, sixteen bytes and their printable ASCII, a line each.
func hexDump(data []byte) string {
	var dump strings.Builder
	for offset := 0; offset < len(data); offset += 16 {
		line := data[offset:min(offset+16, len(data))]
		fmt.Fprintf(&dump, "%06x  %-48s ", offset, fmt.Sprintf("% x", line))
		for _, b := range line {
			if b < 0x20 || b > 0x7e {
				b = '.'
			}
			dump.WriteByte(b)
		}
		dump.WriteByte('\n')
	}
	return dump.String()
}
