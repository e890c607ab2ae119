package lab

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill/app/signing"
)

// ParseHeaders reads headers as people paste them: a line each with a colon, as a curl command has them, or as the object that a framework logs.
// What is no header is passed over.
func ParseHeaders(text string) []signing.Header {
	if list, ok := headerObject(text); ok {
		return list
	}
	var list []signing.Header
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = strings.TrimSuffix(strings.TrimSpace(strings.TrimRight(line, `\`)), ",")
		for _, flag := range []string{"--header ", "-H "} {
			if rest, is := strings.CutPrefix(line, flag); is {
				line = unquoted(strings.TrimSpace(rest))
			}
		}
		name, value, found := cutHeader(line)
		if name = unquoted(strings.Trim(strings.TrimSpace(name), "[]")); !found || name == "" || strings.ContainsAny(name, " \t<>{}()") {
			continue
		}
		list = append(list, signing.Header{Name: name, Value: unquoted(strings.TrimSpace(value))})
	}
	return list
}

// cutHeader divides a line at its colon, or at the arrow or the tab of a dump.
func cutHeader(line string) (name, value string, found bool) {
	for _, mark := range []string{" => ", ":", "\t", "="} {
		if name, value, found = strings.Cut(line, mark); found {
			return name, value, true
		}
	}
	return "", "", false
}

// headerObject reads a JSON object of texts or lists of texts.
func headerObject(text string) ([]signing.Header, bool) {
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) != nil {
		return nil, false
	}
	var list []signing.Header
	for name, value := range object {
		switch v := value.(type) {
		case string:
			list = append(list, signing.Header{Name: name, Value: v})
		case float64:
			list = append(list, signing.Header{Name: name, Value: strconv.FormatFloat(v, 'f', -1, 64)})
		case []any:
			for _, one := range v {
				if s, ok := one.(string); ok {
					list = append(list, signing.Header{Name: name, Value: s})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b signing.Header) int { return strings.Compare(a.Name, b.Name) })
	return list, true
}

func unquoted(text string) string {
	for _, quote := range []string{`"`, `'`} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
}

// canonical is headers by the names that they have on the wire, and the names that a framework has made into others (HTTP_WEBHOOK_ID).
func canonical(headers []signing.Header) (map[string][]string, []string) {
	all, unusual := map[string][]string{}, []string(nil)
	for _, h := range headers {
		name := strings.ToLower(h.Name)
		if plain := strings.ReplaceAll(strings.TrimPrefix(name, "http_"), "_", "-"); plain != name && strings.HasPrefix(plain, "webhook-") {
			name, unusual = plain, append(unusual, h.Name)
		}
		all[name] = append(all[name], h.Value)
	}
	return all, unusual
}

// foreignHeader says whose a header is that other senders sign with; empty for every other header.
func foreignHeader(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(strings.ToLower(name), "http_")), "_", "-")
	switch {
	case strings.HasPrefix(name, "svix-"):
		return "Svix's spelling"
	case strings.HasPrefix(name, "x-hub-signature"):
		return "GitHub's"
	case name == "stripe-signature":
		return "Stripe's"
	case strings.HasPrefix(name, "x-shopify-"):
		return "Shopify's"
	case strings.HasPrefix(name, "x-webhook-"), strings.HasPrefix(name, "x-waybill-"), strings.HasPrefix(name, "x-signature"), name == "signature":
		return "no header of ours"
	}
	return ""
}

// idOf is the id that stands in an event's body.
func idOf(body []byte) string {
	var event struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &event) != nil {
		return ""
	}
	return event.ID
}

// seconds reads a timestamp as package signing does.
func seconds(stamp string) (time.Time, bool) {
	if len(stamp) > 12 || !digits(stamp) || stamp[0] == '0' {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	return time.Unix(n, 0), err == nil
}

func digits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return text != ""
}
