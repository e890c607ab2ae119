package sender

import (
	"bufio"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The bounds of what is read and kept of an answer's head.
const (
	maxHead        = 64 << 10 // read, all interim answers included
	keptHeaders    = 100
	keptHeaderText = 16 << 10
	keptReason     = 200
	keptRetryAfter = 4
)

var (
	errNotHTTP  = errors.New("not an HTTP answer")
	errTooLarge = errors.New("the head is too large")
)

// head is the head of one answer, with the fields that frame the message read and all text cleaned.
type head struct {
	proto      string
	status     int
	text       string
	fields     []Header
	cut        bool // there were more fields than are kept
	retryAfter []string

	length  int64 // Content-Length; -1: none, or not to be believed
	chunked bool
	close   bool // the connection is not for another request
}

// readHead reads one head. What comes is judged at its first byte and again at its first line, so that a service
// that is not HTTP is recognised by its greeting and not by a timeout. buf is scratch space; budget is what may
// still be read. Lenient where it does no harm, since the status decides: any fault in a field only makes the
// connection unfit for reuse.
func readHead(br *bufio.Reader, buf []byte, budget *int) (h head, _ []byte, err error) {
	buf = buf[:0]
	if b, err := br.Peek(1); err != nil {
		return h, buf, err
	} else if b[0] != 'H' {
		return h, buf, errNotHTTP
	}
	if b, err := br.Peek(len("HTTP/")); string(b) != "HTTP/"[:len(b)] || err != nil && len(b) > 0 && isEnd(err) {
		return h, buf, errNotHTTP
	} else if err != nil {
		return h, buf, err
	}
	for start, lines := 0, 0; ; {
		part, err := br.ReadSlice('\n')
		if *budget -= len(part); *budget < 0 {
			return h, buf, errTooLarge
		}
		buf = append(buf, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return h, buf, err
		}
		line := buf[start:]
		if len(line) <= 2 && strings.TrimRight(string(line), "\r\n") == "" {
			break
		}
		if lines == 0 && !h.statusLine(string(line)) {
			return h, buf, errNotHTTP
		}
		start, lines = len(buf), lines+1
	}
	h.parse(string(buf))
	return h, buf, nil
}

// statusLine reads "HTTP/1.1 200 OK". Any three digits are a status, as strange as they may be.
func (h *head) statusLine(line string) bool {
	proto, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
	if len(proto) != len("HTTP/1.1") || !digits(proto[5:6]) || proto[6] != '.' || !digits(proto[7:8]) {
		return false
	}
	code, text, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	if len(code) != 3 || !digits(code) || code == "000" {
		return false
	}
	h.proto = proto
	h.status, _ = strconv.Atoi(code)
	h.text = cleanCut(text, keptReason)
	return true
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// parse reads the fields of a whole head.
func (h *head) parse(all string) {
	h.length = -1
	_, rest, _ := strings.Cut(all, "\n")
	h.close = h.proto < "HTTP/1.1"
	h.fields = make([]Header, 0, min(strings.Count(rest, "\n"), keptHeaders))
	size, lengths, codings, keepAlive := 0, 0, 0, false
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			break
		}
		if line[0] == ' ' || line[0] == '\t' { // a folded line: obsolete, harmless, not ours to join
			h.close = true
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !isToken(name) {
			h.close = true
		}
		switch {
		case !ok:
			name, value = "", line
		case strings.EqualFold(name, "content-length"):
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || lengths > 0 && int64(n) != h.length {
				h.length, h.close, lengths = -1, true, lengths+2
				break
			}
			if lengths++; lengths == 1 {
				h.length = int64(n)
			}
		case strings.EqualFold(name, "transfer-encoding"):
			h.chunked = strings.EqualFold(value, "chunked")
			codings++
		case strings.EqualFold(name, "connection"):
			for option := range strings.SplitSeq(value, ",") {
				option = strings.Trim(option, " \t")
				h.close = h.close || strings.EqualFold(option, "close")
				keepAlive = keepAlive || strings.EqualFold(option, "keep-alive")
			}
		case strings.EqualFold(name, "retry-after"):
			if len(h.retryAfter) < keptRetryAfter {
				h.retryAfter = append(h.retryAfter, cleanCut(value, 256))
			}
		}
		name, value = clean(name), clean(value)
		size += len(name) + len(value)
		if h.cut = h.cut || len(h.fields) == keptHeaders || size > keptHeaderText; !h.cut {
			h.fields = append(h.fields, Header{name, value})
		}
	}
	// Whoever sends a coding that we do not know, several, or a length beside one cannot be trusted to know
	// where the next answer begins (RFC 9112, section 6.3).
	if codings > 1 || codings == 1 && (!h.chunked || lengths > 0) || lengths > 1 && h.length < 0 {
		h.close = true
	}
	if codings > 0 {
		h.length = -1
		h.chunked = h.chunked && codings == 1
	}
	if h.proto < "HTTP/1.1" && keepAlive && h.length >= 0 && codings == 0 && lengths == 1 {
		h.close = false
	}
}

// clean makes a receiver's text fit for storing and showing: valid UTF-8, and a replacement character for each
// control character. A text that is fit is returned as it is, without a copy.
func clean(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func cleanCut(s string, most int) string {
	s = clean(s)
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
