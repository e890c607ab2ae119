// Package seal keeps secrets unreadable at rest, and out of logs.
//
// A Ring seals with its newest key and opens with any of its keys. It promises that sealed bytes can be
// neither read nor changed, nor moved to another place (the associated data names the place), without
// someone who holds the ring noticing, and that a key that is missing is told apart from bytes that are
// damaged. A Secret is text that prints as [redacted] however it is printed.
//
// The form of sealed bytes: 4 bytes of key id, 24 bytes of nonce, then the ciphertext of
// XChaCha20-Poly1305 with its 16 bytes of tag: 44 bytes more than what was sealed.
package seal

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	// KeySize is the length of a key of the ring, in bytes.
	KeySize = 32
	// MaxKeys is how many keys a ring may have.
	MaxKeys = 16
	// Overhead is by how many bytes sealed bytes are longer than what was sealed.
	Overhead = idSize + chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

	idSize = 4
)

var (
	// ErrUnknownKey is in the chain of what Open returns when the ring lacks the key that sealed.
	ErrUnknownKey = errors.New("sealed with a key that is not in the ring")
	// ErrDamaged is in the chain of what Open returns for bytes that were cut, changed or sealed for
	// another place.
	ErrDamaged = errors.New("sealed bytes are damaged or belong to another place")
)

// Ring is 1 to 16 keys, newest first. It is safe for concurrent use and prints as its key ids only.
type Ring struct {
	// Behind a function, the one thing that fmt never looks into: a Ring may lie in an unexported field, where
	// fmt asks no methods.
	keys func() []key
}

type key struct {
	id     [idSize]byte
	master [KeySize]byte
	aead   cipher.AEAD
}

// ParseRing reads comma-separated keys, newest first, each 32 bytes in standard base64 with padding (44
// characters); spaces around a key are ignored. Its errors say which key is wrong and what is allowed, and
// never quote one: WAYBILL_SECRET_KEYS is what they are about.
func ParseRing(text string) (*Ring, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("no key: want one or more keys of 32 bytes in base64, separated by commas, newest first " +
			"(make one with: openssl rand -base64 32)")
	}
	items := strings.SplitN(text, ",", MaxKeys+1)
	if len(items) > MaxKeys {
		return nil, fmt.Errorf("more than %d keys", MaxKeys)
	}
	keys := make([][]byte, 0, len(items))
	for i, item := range items {
		b, err := decodeKey(strings.TrimSpace(item))
		if err != nil {
			return nil, fmt.Errorf("key %d of %d %w", i+1, len(items), err)
		}
		keys = append(keys, b)
	}
	return NewRing(keys...)
}

// decodeKey's errors go on after "key 2 of 3".
func decodeKey(item string) ([]byte, error) {
	if item == "" {
		return nil, errors.New("is empty: is there a comma too many?")
	}
	// The decoder skips line ends; a key is one word.
	b, err := base64.StdEncoding.Strict().DecodeString(item)
	if err != nil || strings.ContainsAny(item, "\r\n") {
		return nil, errors.New("is not standard base64 with padding (A-Z a-z 0-9 + / and = at the end)")
	}
	if len(b) != KeySize {
		return nil, fmt.Errorf("has %d bytes after decoding: it must have exactly %d", len(b), KeySize)
	}
	return b, nil
}

// NewRing makes a ring of 1 to 16 keys of 32 bytes, newest first. A key given twice is an error: it is a
// rotation that did not take place.
func NewRing(keys ...[]byte) (*Ring, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d keys: want 1 to %d", len(keys), MaxKeys)
	}
	var ring []key
	for i, b := range keys {
		if len(b) != KeySize {
			return nil, fmt.Errorf("key %d of %d has %d bytes: it must have exactly %d", i+1, len(keys), len(b), KeySize)
		}
		k := key{master: [KeySize]byte(b), id: [idSize]byte(derive(b, "waybill seal: key id"))}
		for j, other := range ring {
			if k.id == other.id {
				return nil, fmt.Errorf("key %d of %d is the same as key %d", i+1, len(keys), j+1)
			}
		}
		// The ring's keys serve several purposes; no purpose uses one as it is.
		aead, err := chacha20poly1305.NewX(derive(b, "waybill seal: XChaCha20-Poly1305"))
		if err != nil {
			return nil, fmt.Errorf("key %d of %d: %w", i+1, len(keys), err)
		}
		k.aead = aead
		ring = append(ring, k)
	}
	return &Ring{keys: func() []key { return ring }}, nil
}

// NewKey makes a key of its own in the form that ParseRing reads.
func NewKey() Secret {
	var b [KeySize]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return Secret(base64.StdEncoding.EncodeToString(b[:]))
}

// Seal makes plain unreadable for all without the ring. The associated data says where the result belongs
// ("endpoint_secrets/sec_…"): Open needs the same. Sealing the same twice gives different bytes.
func (r *Ring) Seal(plain, associated []byte) []byte {
	k := &r.keys()[0]
	out := make([]byte, idSize+chacha20poly1305.NonceSizeX, Overhead+len(plain))
	copy(out, k.id[:])
	nonce := out[idSize:]
	rand.Read(nonce) // never fails (crypto/rand)
	return k.aead.Seal(out, nonce, plain, associated)
}

// Open gives back what Seal was given, in fresh memory. Its errors have ErrUnknownKey or ErrDamaged in their
// chain, name the key by its id, and quote no secret.
func (r *Ring) Open(sealed, associated []byte) ([]byte, error) {
	if len(sealed) < Overhead {
		return nil, fmt.Errorf("seal: %d bytes, fewer than the %d that are always there: %w", len(sealed), Overhead, ErrDamaged)
	}
	id, rest := sealed[:idSize], sealed[idSize:]
	nonce, ciphertext := rest[:chacha20poly1305.NonceSizeX], rest[chacha20poly1305.NonceSizeX:]
	for _, k := range r.keys() {
		if !bytes.Equal(k.id[:], id) {
			continue
		}
		plain, err := k.aead.Open(nil, nonce, ciphertext, associated)
		if err != nil {
			return nil, fmt.Errorf("seal: key %x: %w", id, ErrDamaged)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("seal: key %x, while the ring has %s: %w", id, strings.Join(r.KeyIDs(), ", "), ErrUnknownKey)
}

// NeedsReseal reports whether sealed was sealed with another key than the newest: open it, seal it again,
// and once none is left the old key can go. It is also true of bytes that are too short to be opened.
func (r *Ring) NeedsReseal(sealed []byte) bool {
	return !bytes.HasPrefix(sealed, r.keys()[0].id[:])
}

// KeyIDs names the keys, newest first, by the 8 hexadecimal digits that stand in front of what they sealed.
// They give nothing of a key away.
func (r *Ring) KeyIDs() []string {
	var ids []string
	for _, k := range r.keys() {
		ids = append(ids, hex.EncodeToString(k.id[:]))
	}
	return ids
}

// Derive makes keys of 32 bytes for another purpose ("cookie: authenticate"), one for each key of the ring,
// newest first: HKDF-SHA-256 (RFC 5869) of the key with the purpose as its info. The same purpose gives the
// same keys on every start; different purposes give unrelated ones.
func (r *Ring) Derive(purpose string) [][]byte {
	var out [][]byte
	for _, k := range r.keys() {
		out = append(out, derive(k.master[:], "waybill derive: "+purpose))
	}
	return out
}

func derive(master []byte, info string) []byte {
	b, err := hkdf.Key(sha256.New, master, nil, info, KeySize)
	if err != nil {
		panic("seal: " + err.Error()) // unreachable: 32 bytes is less than HKDF's limit
	}
	return b
}

// String names the ring by its key ids.
func (r *Ring) String() string {
	if r == nil {
		return "no ring"
	}
	return "ring " + strings.Join(r.KeyIDs(), ",")
}

// Format prints String for every verb, so that no flag prints a key.
func (r *Ring) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.String()) }

// LogValue logs the ring by its key ids.
func (r *Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText writes String, so that a dumped configuration holds no key.
func (r *Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
