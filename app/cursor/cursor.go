// Package cursor makes and reads the opaque texts with which lists are turned: where a page ended, and of which list.
//
// A cursor matches [A-Za-z0-9_-]+, is at most MaxLen characters long and holds only the keys of the row it stands on,
// never a tenant: whoever turns a page with somebody else's cursor pages in their own rows. A text that is not a cursor
// of the asked list, exactly as Encode writes it, is a Malformed fault. The package knows only package fault.
package cursor

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"waybill/app/fault"
)

// MaxLen is the longest cursor that Decode looks at, in bytes.
const MaxLen = 512

// separator stands between the parts. No key of a row holds it: ids, numbers, dates and event types are printable.
const separator = "\x1f"

// strict refuses the spellings of base64 that decode to the same bytes: one place, one text.
var strict = base64.RawURLEncoding.Strict()

// Encode makes the cursor of the list called kind ("endpoints") that stands on the row with these keys. Keys must be free of
// control characters.
func Encode(kind string, keys ...string) string {
	return strict.EncodeToString([]byte(kind + separator + strings.Join(keys, separator)))
}

// Decode gives back the n keys of a cursor that Encode made for the same kind. Each key may still be nonsense of the
// sender's: check it as any other input before it reaches the database.
func Decode(kind, text string, n int) ([]string, error) {
	if text == "" || len(text) > MaxLen || strings.ContainsAny(text, "\r\n") { // package base64 reads over line ends
		return nil, ErrForeign()
	}
	plain, err := strict.DecodeString(text)
	if err != nil || !utf8.Valid(plain) {
		return nil, ErrForeign()
	}
	parts := strings.Split(string(plain), separator)
	if len(parts) != n+1 || parts[0] != kind {
		return nil, ErrForeign()
	}
	for _, key := range parts[1:] {
		if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, ErrForeign()
		}
	}
	return parts[1:], nil
}

// ErrForeign is the fault for a cursor whose keys cannot be keys of this list.
func ErrForeign() error {
	return fault.New(fault.Malformed, "This cursor is not one of this list's. Start again without it.")
}
