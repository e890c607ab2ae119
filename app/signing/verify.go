package signing

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Tolerance is how far a timestamp may lie from the receiver's clock, in both directions: five minutes, as in the
// seeds and in the libraries of Standard Webhooks.
const Tolerance = 5 * time.Minute

// Reason says why a request was refused.
type Reason string

// The reasons, in the order in which Verify looks.
const (
	MissingHeader Reason = "missing header"        // one of the three is not there or is empty
	BadHeader     Reason = "bad header"            // given twice, too long, or an id that cannot be signed
	BadTimestamp  Reason = "bad timestamp"         // not a whole number of seconds
	TooOld        Reason = "timestamp too old"     // before now − tolerance: perhaps a replay
	TooNew        Reason = "timestamp too new"     // after now + tolerance: perhaps a clock that is wrong
	NoMatch       Reason = "no matching signature" // another key, another body, or no signature of a known scheme
)

// Refusal is the error of Verify. Detail is a sentence for whoever runs the receiver; it quotes nothing of the
// request.
type Refusal struct {
	Reason Reason
	Detail string
}

// Error is reason and detail.
func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail }

// ReasonOf is the reason of the Refusal in err's chain, and empty without one.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*Refusal](err); ok && r != nil {
		return r.Reason
	}
	return ""
}

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Match is what Verify found.
type Match struct {
	// Scheme is V1, V1a or Hex. With Hex the id was not signed: take it from the body.
	Scheme Scheme
	// Key is the index, in the keys that were given, of the one that matched.
	Key int
	// ID is webhook-id.
	ID string
	// SentAt is webhook-timestamp: when this attempt was signed, to the second.
	SentAt time.Time
}

const (
	maxVerifyID        = 256      // other senders' ids may be longer than ours
	maxTimestamp       = 12       // digits: up to the year 33658
	maxSignatureHeader = 16 << 10 // more than 2×MaxKeys signatures take
)

// Verify checks that body and headers were signed with one of the keys not longer than tolerance ago, by now's clock.
// Every scheme is tried whose signatures are in the header and whose kind of key is given; one match is enough, as a
// rotation needs it. Headers may be a net/http.Header or any map with names in any case; the body is what
// arrived, before any parsing. The error is a *Refusal.
func Verify(headers map[string][]string, body []byte, keys []Key, now time.Time, tolerance time.Duration) (Match, error) {
	id, err := single(headers, hexHeaderID, HeaderID)
	if err != nil {
		return Match{}, err
	}
	timestamp, err := single(headers, hexHeaderTimestamp, HeaderTimestamp)
	if err != nil {
		return Match{}, err
	}
	lists := values(headers, hexHeaderSignature, HeaderSignature)
	if empty(lists) {
		return Match{}, refuse(MissingHeader, "%s is not there", HeaderSignature)
	}
	if !verifiableID(id) {
		return Match{}, refuse(BadHeader, "%s must be 1 to %d printable ASCII characters without a full stop", HeaderID, maxVerifyID)
	}
	sent, err := parseTimestamp(timestamp)
	if err != nil {
		return Match{}, err
	}
	if age := now.Sub(sent); age > tolerance {
		return Match{}, refuse(TooOld, "signed %s before this server's clock; %s is allowed", age.Round(time.Second), tolerance)
	} else if age < -tolerance {
		return Match{}, refuse(TooNew, "signed %s ahead of this server's clock; %s is allowed", age.Abs().Round(time.Second), tolerance)
	}

	var room [8]candidate
	candidates, err := split(room[:0], lists)
	if err != nil {
		return Match{}, err
	}
	var digits [20]byte
	c := check{id: id, timestamp: append(digits[:0], timestamp...), body: body}
	for i, k := range keys {
		if scheme, ok := c.matches(k, candidates); ok {
			return Match{Scheme: scheme, Key: i, ID: id, SentAt: sent}, nil
		}
	}
	return Match{}, noMatch(candidates, keys)
}

// check is one request, with the text for ed25519 made when first needed.
type check struct {
	id              string
	timestamp, body []byte
	text            []byte
}

func (c *check) matches(k Key, candidates []candidate) (Scheme, bool) {
	switch k.Kind() {
	case Symmetric:
		if has(candidates, V1) {
			sum := k.mac(c.id, c.timestamp, c.body)
			if matchesSum(sum, V1, candidates) {
				return V1, true
			}
		}
		if has(candidates, Hex) {
			sum := k.mac("", c.timestamp, c.body)
			if matchesSum(sum, Hex, candidates) {
				return Hex, true
			}
		}
	case Private, Public:
		for _, s := range candidates {
			if s.scheme != V1a {
				continue
			}
			if c.text == nil {
				c.text = signedText(c.id, c.timestamp, c.body)
			}
			if ed25519.Verify(k.open().public, c.text, s.bytes[:ed25519.SignatureSize]) {
				return V1a, true
			}
		}
	}
	return "", false
}

func has(candidates []candidate, scheme Scheme) bool {
	for i := range candidates {
		if candidates[i].scheme == scheme {
			return true
		}
	}
	return false
}

func matchesSum(sum [sha256.Size]byte, scheme Scheme, candidates []candidate) bool {
	for i := range candidates {
		if s := &candidates[i]; s.scheme == scheme && subtle.ConstantTimeCompare(s.bytes[:sha256.Size], sum[:]) == 1 {
			return true
		}
	}
	return false
}

// candidate is one decoded signature of the header: 32 bytes with V1 and Hex, 64 with V1a.
type candidate struct {
	scheme Scheme
	bytes  [ed25519.SignatureSize]byte
}

// split reads the signatures that have the form of a known scheme and skips all others, as the specification
// wants it: a receiver must not stumble over a scheme to come.
func split(into []candidate, lists []string) ([]candidate, error) {
	size, items := 0, 0
	for _, list := range lists {
		if size += len(list); size > maxSignatureHeader {
			return nil, refuse(BadHeader, "%s is longer than %d bytes", HeaderSignature, maxSignatureHeader)
		}
		for item := range strings.FieldsSeq(list) {
			if strings.HasPrefix(item, hexMark) {
				for part := range strings.SplitSeq(item, ",") {
					items++
					into = appendHex(into, part)
				}
			} else {
				items++
				into = appendBase64(into, item)
			}
			if items > 2*MaxKeys {
				return nil, refuse(BadHeader, "%s holds more than %d signatures", HeaderSignature, 2*MaxKeys)
			}
		}
	}
	return into, nil
}

func appendHex(into []candidate, part string) []candidate {
	digits, found := strings.CutPrefix(part, hexMark)
	if !found || len(digits) != 2*sha256.Size {
		return into
	}
	c := candidate{scheme: Hex}
	if _, err := hex.Decode(c.bytes[:], []byte(digits)); err != nil {
		return into
	}
	return append(into, c)
}

func appendBase64(into []candidate, item string) []candidate {
	mark, encoded, _ := strings.Cut(item, ",")
	c, size := candidate{scheme: Scheme(mark)}, 0
	switch c.scheme {
	case V1:
		size = sha256.Size
	case V1a:
		size = ed25519.SignatureSize
	default:
		return into
	}
	if len(encoded) != base64.StdEncoding.EncodedLen(size) {
		return into
	}
	// An item holds no line ends (they are spaces to FieldsSeq), so the decoder has none to skip.
	var decoded [v1aSize]byte
	if n, err := strictBase64.Decode(decoded[:], []byte(encoded)); err != nil || n != size {
		return into
	}
	copy(c.bytes[:], decoded[:size])
	return append(into, c)
}

func noMatch(candidates []candidate, keys []Key) error {
	if len(candidates) == 0 {
		return refuse(NoMatch, "%s holds no signature of a scheme known here", HeaderSignature)
	}
	symmetric, public := false, false
	for _, k := range keys {
		symmetric = symmetric || k.Kind() == Symmetric
		public = public || k.Kind() == Public || k.Kind() == Private
	}
	usable := (has(candidates, V1) || has(candidates, Hex)) && symmetric || has(candidates, V1a) && public
	if !usable {
		return refuse(NoMatch, "this server has no key of the kind that signed (whsec_ for v1, whpk_ for v1a)")
	}
	return refuse(NoMatch, "another secret signed this, or the body is not the one that was signed")
}

// values are the header's values under its usual spellings, or under any.
func values(headers map[string][]string, canonical, lower string) []string {
	upper, small := headers[canonical], headers[lower]
	switch {
	case len(upper) > 0 && len(small) > 0:
		return append(append([]string(nil), upper...), small...)
	case len(upper) > 0:
		return upper
	case len(small) > 0:
		return small
	}
	var all []string
	for name, list := range headers {
		if strings.EqualFold(name, lower) {
			all = append(all, list...)
		}
	}
	return all
}

func single(headers map[string][]string, canonical, lower string) (string, error) {
	list := values(headers, canonical, lower)
	if empty(list) {
		return "", refuse(MissingHeader, "%s is not there", lower)
	}
	if len(list) > 1 {
		return "", refuse(BadHeader, "%s is given more than once", lower)
	}
	return list[0], nil
}

func empty(list []string) bool {
	for _, s := range list {
		if s != "" {
			return false
		}
	}
	return true
}

// verifiableID leaves out the full stop, which divides the signed text: with it, one signature would fit several
// readings.
func verifiableID(id string) bool {
	if len(id) > maxVerifyID {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '.' {
			return false
		}
	}
	return id != ""
}

// parseTimestamp takes digits only, without a leading zero: the one way to write a number, because the text as it
// stands in the header is what was signed.
func parseTimestamp(s string) (time.Time, error) {
	canonical := len(s) <= maxTimestamp && s[0] != '0'
	for i := 0; canonical && i < len(s); i++ {
		canonical = '0' <= s[i] && s[i] <= '9'
	}
	if !canonical {
		return time.Time{}, refuse(BadTimestamp, "%s must be Unix seconds: digits only", HeaderTimestamp)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, refuse(BadTimestamp, "%s is not a number of seconds", HeaderTimestamp)
	}
	return time.Unix(n, 0).UTC(), nil
}
