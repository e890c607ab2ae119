package sender

import (
	"fmt"
	"strings"

	"waybill/app/fault"
)

// The bounds of an endpoint's static headers.
const (
	MaxHeaders     = 20
	MaxHeaderName  = 128
	MaxHeaderValue = 4096
)

// forbidden are the names that a tenant's static headers may not have, besides the prefixes: those we set, those
// that frame the message or belong to one hop, and two that make HTTP clients and gateways replay a POST.
var forbidden = map[string]bool{
	"host": true, "content-length": true, "content-type": true, "content-encoding": true, "user-agent": true,
	"accept-encoding": true, "connection": true, "keep-alive": true, "te": true, "trailer": true,
	"transfer-encoding": true, "upgrade": true, "http2-settings": true, "expect": true,
	"idempotency-key": true, "x-idempotency-key": true, "x-upstream-https-proxy": true,
}

var forbiddenPrefixes = []string{"webhook-", "proxy-", "x-smokescreen-", "x-waybill-"}

// ForbiddenHeader says whether name, in any case, is reserved: an endpoint's static headers may not have it.
func ForbiddenHeader(name string) bool {
	name = strings.ToLower(name)
	for _, p := range forbiddenPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return forbidden[name]
}

// CheckHeaders checks an endpoint's static headers when they are saved: at most 20, no name twice, names that
// are HTTP tokens of at most 128 characters and not reserved, values of printable ASCII of at most 4,096. The
// fields of the fault are "headers", "headers[2].name" and "headers[2].value".
func CheckHeaders(headers []Header) *fault.Error {
	e := fault.New(fault.Invalid, "These headers cannot be sent.")
	if len(headers) > MaxHeaders {
		return e.Field("headers", fmt.Sprintf("must be at most %d", MaxHeaders))
	}
	seen := map[string]bool{}
	for i, h := range headers {
		name := fmt.Sprintf("headers[%d].name", i)
		switch low := strings.ToLower(h.Name); {
		case h.Name == "":
			e.Field(name, "is missing")
		case len(h.Name) > MaxHeaderName:
			e.Field(name, fmt.Sprintf("must have at most %d characters", MaxHeaderName))
		case !isToken(h.Name):
			e.Field(name, "may only have letters, digits and !#$%&'*+-.^_`|~")
		case ForbiddenHeader(low):
			e.Field(name, "is reserved: it is set by us or by HTTP itself")
		case seen[low]:
			e.Field(name, "is there twice")
		default:
			seen[low] = true
		}
		value := fmt.Sprintf("headers[%d].value", i)
		switch {
		case len(h.Value) > MaxHeaderValue:
			e.Field(value, fmt.Sprintf("must have at most %d characters", MaxHeaderValue))
		case !printable(h.Value):
			e.Field(value, "may only have printable ASCII characters")
		case h.Value != strings.TrimSpace(h.Value):
			e.Field(value, "must not begin or end with a space")
		}
	}
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}

// The bounds of a whole request's headers, ours and the endpoint's; more is a mistake of ours.
const (
	maxRequestHeaders = 64
	maxRequestHead    = 128 << 10
)

// sendable is the last check before the wire: rows may be older than the rules. It lets webhook-… pass, and
// nothing that would break out of its line or change the framing.
func sendable(headers []Header) bool {
	if len(headers) > maxRequestHeaders {
		return false
	}
	size := 0
	for i := range headers {
		h := &headers[i]
		size += len(h.Name) + len(h.Value) + 4
		if h.Name == "" || !isToken(h.Name) || !printable(h.Value) || framing(h.Name) {
			return false
		}
	}
	return size <= maxRequestHead
}

// framing names are written by the sender or not at all.
func framing(name string) bool {
	switch len(name) {
	case 2:
		return strings.EqualFold(name, "te")
	case 4:
		return strings.EqualFold(name, "host")
	case 6:
		return strings.EqualFold(name, "expect")
	case 7:
		return strings.EqualFold(name, "trailer") || strings.EqualFold(name, "upgrade")
	case 10:
		return strings.EqualFold(name, "connection") || strings.EqualFold(name, "keep-alive")
	case 14:
		return strings.EqualFold(name, "content-length")
	case 16:
		return strings.EqualFold(name, "proxy-connection")
	case 17:
		return strings.EqualFold(name, "transfer-encoding")
	}
	return false
}

// isToken: RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

var tokenByte = func() (t [256]bool) {
	for c := range t {
		b := byte(c)
		t[c] = b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
	}
	return t
}()
