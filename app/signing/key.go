package signing

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// Kind says what a key can do.
type Kind string

// The kinds, named as in the Standard Webhooks specification.
const (
	Symmetric Kind = "symmetric" // whsec_…: signs and verifies v1 and hex
	Private   Kind = "private"   // whsk_…: signs and verifies v1a
	Public    Kind = "public"    // whpk_…: verifies v1a
)

const (
	symmetricPrefix = "whsec_"
	privatePrefix   = "whsk_"
	publicPrefix    = "whpk_"

	// MinSecret and MaxSecret bound the decoded bytes after whsec_ (Standard Webhooks: 192 to 512 bits).
	MinSecret, MaxSecret = 24, 64

	newSecret  = 32  // bytes of a secret that we make
	maxKeyText = 128 // more than the longest key's text, so that a decoder never sees a megabyte
)

// Key is one signing secret, private key or public key. It prints as its kind and fingerprint only; the zero
// Key is no key. Keys are values and safe for concurrent use.
type Key struct {
	// Behind a function, the one thing that fmt never looks into: it prints what lies in an unexported field
	// without asking that field's methods, and follows pointers for a verb it does not know.
	open func() *material
}

type material struct {
	kind    Kind
	secret  []byte     // Symmetric
	macs    *sync.Pool // Symmetric: of hash.Hash, because keying HMAC costs as much as a small body
	private ed25519.PrivateKey
	public  ed25519.PublicKey // Private and Public
}

func keyOf(m material) Key { return Key{func() *material { return &m }} }

// strictBase64 refuses trailing bits, so that a key or a signature has one spelling. It skips line ends.
var strictBase64 = base64.StdEncoding.Strict()

var errNoPrefix = errors.New("must start with whsec_ (a shared secret), whsk_ (a private key) or whpk_ (a public key)")

// ParseKey reads a key from its text: whsec_ and the standard base64, with padding, of 24 to 64 bytes; whsk_ and
// that of an ed25519 seed (32 bytes) or of seed and public key (64 bytes); whpk_ and that of a public key (32
// bytes). Nothing else passes: no other alphabet, no missing padding, no space or line end. Its errors say what is
// allowed in a form that goes on after the name of an input ("must be …"), and never quote the text.
func ParseKey(text string) (Key, error) {
	for _, form := range [...]struct {
		prefix string
		parse  func([]byte) (Key, error)
	}{{symmetricPrefix, symmetricKey}, {privatePrefix, privateKey}, {publicPrefix, publicKey}} {
		encoded, found := strings.CutPrefix(text, form.prefix)
		if !found {
			continue
		}
		if len(encoded) > maxKeyText {
			return Key{}, fmt.Errorf("must be %s and at most %d characters", form.prefix, maxKeyText)
		}
		decoded, err := strictBase64.DecodeString(encoded)
		if err != nil || strings.ContainsAny(encoded, "\r\n") {
			return Key{}, fmt.Errorf("must be standard base64 with padding (A-Z a-z 0-9 + / and = at the end) after %s, "+
				"without spaces or line ends", form.prefix)
		}
		return form.parse(decoded)
	}
	return Key{}, errNoPrefix
}

func symmetricKey(decoded []byte) (Key, error) {
	if len(decoded) < MinSecret || len(decoded) > MaxSecret {
		return Key{}, fmt.Errorf("must be %d to %d bytes after decoding what follows whsec_; these are %d",
			MinSecret, MaxSecret, len(decoded))
	}
	return keyOf(symmetricMaterial(decoded)), nil
}

func symmetricMaterial(secret []byte) material {
	return material{kind: Symmetric, secret: secret, macs: &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}
}

func privateKey(decoded []byte) (Key, error) {
	switch len(decoded) {
	case ed25519.SeedSize:
		return fromSeed(decoded), nil
	case ed25519.PrivateKeySize:
		k := fromSeed(decoded[:ed25519.SeedSize])
		if !k.open().private.Equal(ed25519.PrivateKey(decoded)) {
			return Key{}, errors.New("must be a seed and its own public key after whsk_; the second half belongs to another key")
		}
		return k, nil
	default:
		return Key{}, fmt.Errorf("must be 32 or 64 bytes after decoding what follows whsk_; these are %d", len(decoded))
	}
}

func publicKey(decoded []byte) (Key, error) {
	if len(decoded) != ed25519.PublicKeySize {
		return Key{}, fmt.Errorf("must be 32 bytes after decoding what follows whpk_; these are %d", len(decoded))
	}
	return keyOf(material{kind: Public, public: decoded}), nil
}

func fromSeed(seed []byte) Key {
	private := ed25519.NewKeyFromSeed(seed)
	return keyOf(material{kind: Private, private: private, public: private.Public().(ed25519.PublicKey)})
}

// NewSecret makes a symmetric key of 32 random bytes.
func NewSecret() Key {
	secret := make([]byte, newSecret)
	rand.Read(secret) // never fails (crypto/rand)
	return keyOf(symmetricMaterial(secret))
}

// NewKeyPair makes a private key for ed25519; Key.Public has its other half.
func NewKeyPair() Key {
	var seed [ed25519.SeedSize]byte
	rand.Read(seed[:]) // never fails (crypto/rand)
	return fromSeed(seed[:])
}

// Kind is what k can do; the zero Key's is empty.
func (k Key) Kind() Kind {
	if k.open == nil {
		return ""
	}
	return k.open().kind
}

// Reveal is the key's text, as ParseKey reads it: the secret itself, for storage under seal and for the one
// page that shows it. A private key is given in the form of 32 bytes. The zero Key's is empty.
func (k Key) Reveal() string {
	switch k.Kind() {
	case Symmetric:
		return symmetricPrefix + base64.StdEncoding.EncodeToString(k.open().secret)
	case Private:
		return privatePrefix + base64.StdEncoding.EncodeToString(k.open().private.Seed())
	case Public:
		return publicPrefix + base64.StdEncoding.EncodeToString(k.open().public)
	default:
		return ""
	}
}

// Public is the public half of a private key and a public key itself. A symmetric key has none: the zero Key.
func (k Key) Public() Key {
	if k.open == nil || k.open().public == nil {
		return Key{}
	}
	return keyOf(material{kind: Public, public: k.open().public})
}

// Fingerprint names k on pages and in logs: the first 8 hexadecimal digits of the SHA-256 of its text, so that a
// seller can compare it with what a server holds (printf %s "$SECRET" | sha256sum). A private key has the
// fingerprint of its public key. It is short enough for names and gives nothing of a random key away; the zero
// Key's is empty.
func (k Key) Fingerprint() string {
	text := k.Reveal()
	if k.Kind() == Private {
		text = k.Public().Reveal()
	}
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// String is kind and fingerprint: "symmetric key 1a2b3c4d".
func (k Key) String() string {
	if k.open == nil {
		return "no key"
	}
	return string(k.Kind()) + " key " + k.Fingerprint()
}

// Format prints String for every verb, so that no flag prints a secret.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue logs String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText writes String, so that no encoder writes a secret by accident.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
