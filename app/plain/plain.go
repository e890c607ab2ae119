// Package plain says which texts people may store: as a name or description one line of Unicode that can be shown anywhere
// without moving a cursor, ending a line or turning the writing direction of what follows; and how deep a JSON text nests. The package
// knows nobody.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line says what is wrong with text as a single line of least to most characters, in words that follow the name of a
// field ("must have 1 to 200 characters"); it is empty when nothing is.
func Line(text string, least, most int) string {
	switch n := utf8.RuneCountInString(text); {
	case !utf8.ValidString(text):
		return "must be valid UTF-8"
	case least > 0 && strings.TrimSpace(text) == "":
		return "must not be empty"
	case n < least || n > most:
		return fmt.Sprintf("must have %d to %d characters, and has %d", least, most, n)
	case strings.ContainsFunc(text, unicode.IsControl):
		return "must not contain control characters"
	case strings.ContainsFunc(text, turns):
		return "must not contain characters that change the direction of writing"
	}
	return ""
}

// turns reports the explicit bidirectional formatting characters (Unicode Standard Annex 9, section 2) and the line and
// paragraph separators. Joiners are none of them: Hindi, Persian and many emoji need those.
func turns(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r == '\u2028' || r == '\u2029'
}

// Clip makes any bytes a line of at most most characters that Line accepts: what cannot be shown is left out. It is for texts that
// somebody's program sent along, such as a user agent.
func Clip(text string, most int) string {
	var kept strings.Builder
	n := 0
	for _, r := range text {
		if n == most {
			break
		}
		if r == utf8.RuneError || unicode.IsControl(r) || turns(r) {
			continue
		}
		kept.WriteRune(r)
		n++
	}
	return kept.String()
}

// Depth is how many arrays and objects of a JSON text are open at once at most. Of a text that is no JSON it is some number of no meaning;
// it never reads beyond the text's end, and takes time in proportion to it.
func Depth(json []byte) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
