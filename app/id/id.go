// Package id makes and reads Waybill's ids: "<prefix>_" and a ULID of 26 upper-case Crockford base32
// characters, such as evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R.
//
// It promises that ids sort as text (in the C collation) in the order of their milliseconds, that the day of
// an id can be read back from it (so that a look-up visits one partition), and that two ids never meet: 80
// bits are random. An id is a name and no secret: whoever knows one can guess the next of its millisecond.
package id

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefix says what kind of thing an id names.
type Prefix string

// The prefixes of all ids in the database, the API and the pages.
const (
	Tenant   Prefix = "tnt"
	Endpoint Prefix = "ep"
	Event    Prefix = "evt"
	Delivery Prefix = "dlv"
	Attempt  Prefix = "att"
	Key      Prefix = "key" // an API key's public part
	Secret   Prefix = "sec" // a signing secret's row
	Member   Prefix = "mem"
	Session  Prefix = "ses" // a session's row; its token is something else
	Worker   Prefix = "wrk" // one process that sends
	Audit    Prefix = "aud"
	Recovery Prefix = "rcv"

	HeaderSet Prefix = "hdr" // an endpoint's static headers, one version of them

	Invitation Prefix = "inv"
	Mail       Prefix = "eml"

	Inbox  Prefix = "ibx"
	Export Prefix = "exp"
	Filter Prefix = "flt" // one that a member has saved
)

// Prefixes lists every prefix there is.
func Prefixes() []Prefix {
	return []Prefix{Tenant, Endpoint, Event, Delivery, Attempt, Key, Secret, Member, Session, Worker, Audit, Recovery, HeaderSet, Invitation, Mail, Inbox, Export, Filter}
}

const (
	ulidLen = ulid.EncodedSize // 26: 10 characters of time and 16 of randomness
	timeLen = 10
	// MaxEvent is the longest event id, in bytes, that a publisher may choose.
	MaxEvent = 64
)

// alphabet is Crockford's base32: no I, L, O or U.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var source struct {
	sync.Mutex
	entropy *ulid.MonotonicEntropy
}

// New makes an id that carries t's Unix milliseconds. Calls one after the other with the same millisecond
// give ids in rising order; with another millisecond between them they only give different ones.
// A t before 1970 counts as 1970, one after the year 10889 as that year's last millisecond of the format.
// It is safe for concurrent use.
func New(prefix Prefix, t time.Time) string {
	ms := millis(t)
	source.Lock()
	defer source.Unlock()
	if source.entropy == nil {
		source.entropy = ulid.Monotonic(rand.Reader, 0)
	}
	u, err := ulid.New(ms, source.entropy)
	if err != nil {
		// Only a count past the end of the 80 bits can come here (crypto/rand never fails, ms is in range):
		// start again from fresh randomness.
		source.entropy = ulid.Monotonic(rand.Reader, 0)
		u = ulid.MustNew(ms, source.entropy)
	}
	b := make([]byte, len(prefix)+1+ulidLen)
	n := copy(b, prefix)
	b[n] = '_'
	if err := u.MarshalTextTo(b[n+1:]); err != nil {
		panic("id: " + err.Error()) // unreachable: the room is exactly what a ULID takes
	}
	return string(b)
}

// TimePrefix is the first 10 characters of the ULIDs of t's millisecond, with New's rule for a t out of
// range. A statement that makes ids itself puts them between prefix and randomness.
func TimePrefix(t time.Time) string {
	var u ulid.ULID
	if err := u.SetTime(millis(t)); err != nil {
		panic("id: " + err.Error()) // unreachable: millis keeps to the range
	}
	return u.String()[:timeLen]
}

func millis(t time.Time) uint64 {
	ms := t.UnixMilli()
	if ms < 0 {
		return 0
	}
	return min(uint64(ms), ulid.MaxTime())
}

// Valid reports whether s is an id of this prefix exactly as New writes it: no lower case, no letter outside
// the alphabet, no space, nothing before or after. It looks at no more than the id's length.
func Valid(prefix Prefix, s string) bool {
	return len(s) == len(prefix)+1+ulidLen &&
		s[:len(prefix)] == string(prefix) &&
		s[len(prefix)] == '_' &&
		validULID(s[len(prefix)+1:])
}

func validULID(s string) bool {
	if len(s) != ulidLen || s[0] > '7' { // 26 characters hold 130 bits; a ULID has 128
		return false
	}
	for i := range len(s) {
		if strings.IndexByte(alphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}

// errForeign says nothing about the input: it may be a stranger's.
var errForeign = errors.New("id: not an id of ours")

// Time is the millisecond at which id was made, in UTC. The error says only that id is none of ours:
// an event's id may have been chosen by its publisher, and then has no time.
func Time(id string) (time.Time, error) {
	prefix, text, found := strings.Cut(id, "_")
	if !found || !known(prefix) || !validULID(text) {
		return time.Time{}, errForeign
	}
	u, err := ulid.ParseStrict(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: %w", errForeign, err)
	}
	return u.Timestamp().UTC(), nil
}

// Day is midnight UTC of the day on which id was made, with Time's error.
func Day(id string) (time.Time, error) {
	t, err := Time(id)
	if err != nil {
		return time.Time{}, err
	}
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC), nil
}

func known(prefix string) bool {
	switch Prefix(prefix) {
	case Tenant, Endpoint, Event, Delivery, Attempt, Key, Secret, Member, Session, Worker, Audit, Recovery, HeaderSet, Invitation, Mail, Inbox, Export, Filter:
		return true
	default:
		return false
	}
}

// ValidEvent reports whether s may be an event's id: 1 to 64 characters of A-Z, a-z, 0-9, underscore and
// hyphen. A full stop is none of them: it divides the signed text (Standard Webhooks, signature scheme).
func ValidEvent(s string) bool {
	if len(s) == 0 || len(s) > MaxEvent {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
