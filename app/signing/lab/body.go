package lab

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf8"
)

var bom = []byte("\xef\xbb\xbf")

const (
	keepBytes = "Verify over the bytes as they arrived, before anything parses them: express.raw(), request.get_data(), php://input, request.raw_post."
	emptied   = "Something has read it before your code did, most often a body parser. Let the verification come first, or keep the raw bytes."
	asUTF8    = "Do not make text of the body: sign the bytes. Where it has to be text, it is UTF-8."
)

// Difference says how a body differs from the one that was sent, and what to do about it. Both are empty when it does not.
func Difference(sent, got []byte) (text, fix string) {
	if bytes.Equal(sent, got) {
		return "", ""
	}
	for _, look := range []func(sent, got []byte) (string, string){edges, encodings, rewritten} {
		if text, fix := look(sent, got); text != "" {
			return text, fix
		}
	}
	at := common(sent, got)
	return fmt.Sprintf("It is another body: %d bytes, and we sent %d. The first that differs is byte %d: we sent %s, and here it is %s.",
		len(got), len(sent), at+1, excerpt(sent, at), excerpt(got, at)), keepBytes
}

// edges finds what was added or lost at the ends.
func edges(sent, got []byte) (string, string) {
	unix := bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
	switch {
	case len(got) == 0:
		return "The body is empty.", emptied
	case bytes.Equal(got, append(bytes.Clone(bom), sent...)):
		return "A byte order mark (EF BB BF) was put before the body.", "Read the body as bytes, not as a text file."
	case bytes.Equal(got, append(bytes.Clone(sent), '\n')), bytes.Equal(got, append(bytes.Clone(sent), '\r', '\n')):
		return "A line end was added behind the body.", "Read the body as bytes, whole. Printing it, or an editor, adds a line end."
	case bytes.Equal(unix, bytes.ReplaceAll(sent, []byte("\r\n"), []byte("\n"))):
		return "The line ends were changed (LF and CRLF).", asUTF8
	case bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(sent)):
		return "White space was added or cut off at an end of the body.", keepBytes
	case bytes.HasPrefix(sent, got):
		return fmt.Sprintf("The body was cut off: %d of %d bytes.", len(got), len(sent)), "Read until the end of the request, and raise the limit of whatever cuts it (a buffer, a proxy, a log)."
	case bytes.HasPrefix(got, sent):
		return fmt.Sprintf("%d bytes were added behind the body.", len(got)-len(sent)), keepBytes
	case bytes.HasSuffix(sent, got):
		return fmt.Sprintf("The first %d bytes of the body are missing.", len(sent)-len(got)), "Something has read the beginning before your code did."
	}
	return "", ""
}

// encodings finds bodies that were made into text, or into text within text.
func encodings(sent, got []byte) (string, string) {
	s, g := string(sent), string(got)
	var quoted string
	switch {
	case json.Unmarshal(got, &quoted) == nil && quoted == s:
		return "The body was made a JSON text within JSON: it stands in quotes.", keepBytes
	case g == url.QueryEscape(s), g == url.PathEscape(s), unescapes(g, s):
		return "The body was URL-encoded.", "It is JSON, not a form. Read the raw body."
	case g == html.EscapeString(s):
		return "Characters of the body were escaped for HTML.", keepBytes
	case g == base64.StdEncoding.EncodeToString(sent):
		return "The body is in base64, as some gateways hand it on.", "Decode it before you verify; AWS says so in isBase64Encoded."
	case g == "[object Object]":
		return "The body is the text [object Object]: it was parsed, and the object made a text.", keepBytes
	case strings.HasPrefix(g, "{'") || strings.HasPrefix(g, "b'"):
		return "The body is how Python prints a value, not what arrived.", "Use request.get_data() or request.body, and no str() of it."
	case g == widened(sent):
		return "The body was read as Latin-1 and written as UTF-8: each letter beyond ASCII has become two.", asUTF8
	case g == replaced(s, "?"), g == replaced(s, "\uFFFD"), g == replaced(s, ""):
		return "Letters beyond ASCII were lost: something took the body for another character set.", asUTF8
	case g == narrowed(s) && g != s:
		return "The body was written in Latin-1; we send UTF-8.", asUTF8
	}
	return "", ""
}

func unescapes(got, sent string) bool {
	plain, err := url.QueryUnescape(got)
	return err == nil && got != plain && strings.TrimSuffix(plain, "=") == sent
}

// rewritten finds JSON of the same meaning in other bytes.
func rewritten(sent, got []byte) (string, string) {
	shortSent, ok := compacted(sent)
	shortGot, also := compacted(got)
	if !ok || !also {
		return "", ""
	}
	const again = "The JSON was parsed and written again: "
	switch {
	case bytes.Equal(shortSent, shortGot):
		return again + "the white space differs.", keepBytes
	case bytes.Equal(tokens(sent), tokens(got)):
		return again + "characters are escaped differently.", keepBytes
	case sorted(sent, false) != nil && bytes.Equal(sorted(sent, false), sorted(got, false)):
		return again + "the members are in another order.", keepBytes
	case sorted(sent, true) != nil && bytes.Equal(sorted(sent, true), sorted(got, true)):
		return again + "numbers are written differently, and large ones may have lost digits.", keepBytes
	}
	return "", ""
}

// compacted is JSON without white space; false if it is none.
func compacted(body []byte) ([]byte, bool) {
	var short bytes.Buffer
	err := json.Compact(&short, body)
	return short.Bytes(), err == nil && short.Len() > 0
}

// spaced is JSON as Python writes it: a space behind each comma and colon. The text is only as long as twice the body.
func spaced(body []byte) ([]byte, bool) {
	short, ok := compacted(body)
	if !ok {
		return nil, false
	}
	long, inText := make([]byte, 0, len(short)+len(short)/8), false
	for i, c := range short {
		if c == '"' && (i == 0 || !escaped(short, i)) {
			inText = !inText
		}
		if long = append(long, c); !inText && (c == ',' || c == ':') {
			long = append(long, ' ')
		}
	}
	return long, true
}

// escaped says whether an odd number of backslashes stands before i.
func escaped(text []byte, i int) bool {
	n := 0
	for i--; i >= 0 && text[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// tokens is JSON in one way of escaping, in its own order.
func tokens(body []byte) []byte {
	var all bytes.Buffer
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return all.Bytes()
		}
		fmt.Fprintf(&all, "%T %v\n", token, token)
	}
}

// sorted is JSON with its members in order; as floats, numbers are rounded as most languages do. nil: it is none, or has members twice.
func sorted(body []byte, floats bool) []byte {
	d := json.NewDecoder(bytes.NewReader(body))
	if !floats {
		d.UseNumber()
	}
	var value any
	if d.Decode(&value) != nil {
		return nil
	}
	again, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return again
}

// widened is bytes read as Latin-1 and written as UTF-8.
func widened(body []byte) string {
	var wide strings.Builder
	for _, b := range body {
		wide.WriteRune(rune(b))
	}
	return wide.String()
}

// narrowed is text written as Latin-1, with question marks for what it does not have.
func narrowed(text string) string {
	var narrow strings.Builder
	for _, r := range text {
		if r > 255 {
			r = '?'
		}
		narrow.WriteByte(byte(r))
	}
	return narrow.String()
}

// replaced is text with another in place of each letter beyond ASCII.
func replaced(text, by string) string {
	var plain strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			plain.WriteRune(r)
		} else {
			plain.WriteString(by)
		}
	}
	return plain.String()
}

func common(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// excerpt is what stands at a place of a body, in quotes.
func excerpt(body []byte, at int) string {
	if at >= len(body) {
		return "the end"
	}
	part := body[at:min(at+16, len(body))]
	for len(part) > 0 && !utf8.Valid(part) {
		part = part[:len(part)-1]
	}
	if len(part) == 0 {
		return fmt.Sprintf("%x", body[at:min(at+4, len(body))])
	}
	return fmt.Sprintf("%q", part)
}
