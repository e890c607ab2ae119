// Package signing signs and verifies webhooks: the Standard Webhooks specification 1.0.0 (v1 with HMAC-SHA256, v1a
// with ed25519) and the form of Waybill's second seed (hex).
//
// It promises that what it signs is verified by the libraries of Standard Webhooks, byte for byte as the headers
// say, that several keys at once (a rotation) sign side by side, and that verifying compares in constant time, takes
// bounded work for any header, and says in a typed reason what was wrong. It knows neither HTTP nor time: both
// come in as values.
package signing

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strconv"
)

// Scheme is how an endpoint wants its webhooks signed.
type Scheme string

// The schemes of DESIGN section 3.
const (
	// V1 is HMAC-SHA256 over id.timestamp.body, in base64: "v1,…". It is the default.
	V1 Scheme = "v1"
	// V1AndV1a carries both: all v1 signatures first, because libraries that know only v1 skip the rest.
	V1AndV1a Scheme = "v1+v1a"
	// V1a is ed25519 over id.timestamp.body, in base64: "v1a,…".
	V1a Scheme = "v1a"
	// Hex is HMAC-SHA256 over timestamp.body, in lower-case hexadecimal: "v1=…", with commas between several.
	// It does not cover the id: a receiver takes that from the body.
	Hex Scheme = "hex"
)

// Schemes lists every scheme, the default first.
func Schemes() []Scheme { return []Scheme{V1, V1AndV1a, V1a, Hex} }

// Valid reports whether s is one of Schemes.
func (s Scheme) Valid() bool { return s == V1 || s == V1AndV1a || s == V1a || s == Hex }

// Needs reports whether s signs with keys of this kind.
func (s Scheme) Needs(kind Kind) bool {
	switch kind {
	case Symmetric:
		return s == V1 || s == V1AndV1a || s == Hex
	case Private:
		return s == V1a || s == V1AndV1a
	default:
		return false
	}
}

// The headers' names in lower case, as Standard Webhooks spells them. The hex scheme spells them Webhook-Id,
// Webhook-Timestamp and Webhook-Signature.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"

	hexHeaderID        = "Webhook-Id"
	hexHeaderTimestamp = "Webhook-Timestamp"
	hexHeaderSignature = "Webhook-Signature"
)

// MaxKeys is how many keys of one kind sign at once, and 2×MaxKeys how many signatures Verify looks at.
const MaxKeys = 32

// maxID is the length of the longest id that is signed (DESIGN section 3).
const maxID = 64

// Header is one header with the spelling that goes on the wire.
type Header struct {
	Name, Value string
}

var (
	// ErrNoKey is in the chain of what Headers returns when the scheme has no key to sign with: nothing may be
	// sent unsigned.
	ErrNoKey = errors.New("signing: no key for the scheme")
	// ErrBadID is in the chain of what Headers returns for an id that could change where the parts of the signed
	// text begin.
	ErrBadID = errors.New("signing: an id has 1 to 64 characters of A-Z a-z 0-9 _ -")
)

// Headers makes the three headers of one attempt: webhook-id, webhook-timestamp, webhook-signature, in this order.
// Keys are newest first; those of a kind that the scheme does not need are left out, so that an endpoint's whole
// set can be given. The timestamp, in Unix seconds, is that of this attempt and not of the event.
// The body is what goes out, byte for byte; it is only read.
func Headers(scheme Scheme, keys []Key, id string, unixSeconds int64, body []byte) ([]Header, error) {
	if !signableID(id) {
		return nil, ErrBadID
	}
	if unixSeconds <= 0 {
		return nil, fmt.Errorf("signing: timestamp %d is not after 1970", unixSeconds)
	}
	if !scheme.Valid() {
		return nil, fmt.Errorf("signing: unknown scheme %.20q", string(scheme))
	}
	symmetric, private := 0, 0
	for _, k := range keys {
		switch kind := k.Kind(); {
		case !scheme.Needs(kind):
		case kind == Symmetric:
			symmetric++
		default:
			private++
		}
	}
	if scheme.Needs(Symmetric) && symmetric == 0 || scheme.Needs(Private) && private == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoKey, scheme)
	}
	if symmetric > MaxKeys || private > MaxKeys {
		return nil, fmt.Errorf("signing: more than %d keys at once", MaxKeys)
	}

	var digits [20]byte
	timestamp := strconv.AppendInt(digits[:0], unixSeconds, 10)
	names := [3]string{HeaderID, HeaderTimestamp, HeaderSignature}
	value := make([]byte, 0, symmetric*(v1Size+1)+private*(v1aSize+1))
	switch scheme {
	case Hex:
		names = [3]string{hexHeaderID, hexHeaderTimestamp, hexHeaderSignature}
		value = make([]byte, 0, symmetric*(hexSize+1))
		for _, k := range keys {
			if k.Kind() == Symmetric {
				value = separate(value, ',')
				sum := k.mac("", timestamp, body)
				value = append(value, hexMark...)
				value = hex.AppendEncode(value, sum[:])
			}
		}
	default:
		if scheme.Needs(Symmetric) {
			for _, k := range keys {
				if k.Kind() == Symmetric {
					value = separate(value, ' ')
					sum := k.mac(id, timestamp, body)
					value = append(value, v1Mark...)
					value = base64.StdEncoding.AppendEncode(value, sum[:])
				}
			}
		}
		if scheme.Needs(Private) {
			text := signedText(id, timestamp, body)
			for _, k := range keys {
				if k.Kind() == Private {
					value = separate(value, ' ')
					value = append(value, v1aMark...)
					value = base64.StdEncoding.AppendEncode(value, ed25519.Sign(k.open().private, text))
				}
			}
		}
	}
	return []Header{{names[0], id}, {names[1], string(timestamp)}, {names[2], string(value)}}, nil
}

const (
	v1Mark, v1aMark, hexMark = "v1,", "v1a,", "v1="

	v1Size  = len(v1Mark) + 44  // base64 of 32 bytes
	v1aSize = len(v1aMark) + 88 // base64 of 64 bytes
	hexSize = len(hexMark) + 2*sha256.Size
)

func separate(list []byte, by byte) []byte {
	if len(list) > 0 {
		list = append(list, by)
	}
	return list
}

// mac is HMAC-SHA256 over id.timestamp.body, and over timestamp.body when id is empty.
func (k Key) mac(id string, timestamp, body []byte) (sum [sha256.Size]byte) {
	macs := k.open().macs
	h := macs.Get().(hash.Hash)
	defer macs.Put(h)
	h.Reset()
	text := make([]byte, 0, len(id)+1+len(timestamp)+1)
	if id != "" {
		text = append(append(text, id...), '.')
	}
	text = append(append(text, timestamp...), '.')
	h.Write(text)
	h.Write(body)
	h.Sum(sum[:0])
	return sum
}

func signedText(id string, timestamp, body []byte) []byte {
	text := make([]byte, 0, len(id)+1+len(timestamp)+1+len(body))
	text = append(append(text, id...), '.')
	text = append(append(text, timestamp...), '.')
	return append(text, body...)
}

func signableID(id string) bool {
	if len(id) == 0 || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
