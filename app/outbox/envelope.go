package outbox

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Patterns lists every subscription that matches an event type: "*", the type itself, and "prefix.*" for each of its prefixes.
func Patterns(eventType string) []string {
	found := []string{"*", eventType}
	for rest := eventType; ; {
		cut := strings.LastIndexByte(rest, '.')
		if cut < 0 {
			return found
		}
		rest = rest[:cut]
		found = append(found, rest+".*")
	}
}

// wireTime is how times stand on the wire: UTC, milliseconds (RFC 3339).
const wireTime = "2006-01-02T15:04:05.000Z"

// head is the text on the wire up to the value of data, which follows byte for byte as it was published, and then a brace.
func head(r *row) string { return string(appendEnvelope(nil, r, "")) }

// thin is the whole text for endpoints that want ids only: the resource with the address of its state, and its id as data.
func thin(r *row, base string) string {
	address := base + "/v1/resources/" + url.PathEscape(r.resourceType) + "/" + url.PathEscape(r.resourceID)
	text := appendEnvelope(nil, r, address)
	text = append(text, `{"id":`...)
	text = appendString(text, r.resourceID)
	return string(append(text, "}}"...))
}

func appendEnvelope(b []byte, r *row, resourceURL string) []byte {
	at := r.occurredAt.UTC().Format(wireTime)
	b = append(b, `{"id":"`...) // id and type are of characters that need no escape
	b = append(b, r.id...)
	b = append(b, `","type":"`...)
	b = append(b, r.eventType...)
	b = append(b, `","version":`...)
	b = strconv.AppendInt(b, int64(r.version), 10)
	b = append(b, `,"timestamp":"`...)
	b = append(b, at...)
	b = append(b, `","occurred_at":"`...)
	b = append(b, at...)
	b = append(b, `","resource":{"type":"`...)
	b = append(b, r.resourceType...)
	b = append(b, `","id":`...)
	b = appendString(b, r.resourceID)
	if resourceURL != "" {
		b = append(b, `,"url":`...)
		b = appendString(b, resourceURL)
	}
	b = append(b, `},"sequence":`...)
	b = strconv.AppendInt(b, r.sequence, 10)
	if r.test() {
		b = append(b, `,"test":true`...)
	}
	return append(b, `,"data":`...)
}

// appendString appends s as a JSON string. Texts from the database are valid UTF-8, for which it cannot fail.
func appendString(b []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(b, s)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return quoted
}
