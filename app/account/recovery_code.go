package account

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"waybill/app/seal"
)

// recoveryCodes is how many there are.
const recoveryCodes = 10

// recoverySize is how many random bytes are in one: so many that its hash tells nothing, and 16 characters, in four groups.
const recoverySize = 10

// newRecoveryCodes makes codes as they are shown, and the hashes that they are stored as.
func newRecoveryCodes(memberID string) (shown []seal.Secret, hashes [][]byte) {
	for range recoveryCodes {
		random := make([]byte, recoverySize)
		rand.Read(random) // never fails
		text := alphabet.EncodeToString(random)
		shown = append(shown, seal.Secret(text[:4]+"-"+text[4:8]+"-"+text[8:12]+"-"+text[12:]))
		hashes = append(hashes, recoveryHash(memberID, text))
	}
	return shown, hashes
}

// recoveryHash needs no salt and no work against guessing: the code is random. The member makes the same code another's.
func recoveryHash(memberID, text string) []byte {
	sum := sha256.Sum256([]byte("recovery code of " + memberID + ": " + text))
	return sum[:]
}

// typedRecoveryCode is a code as it was made, from how people type it: in capitals, without the hyphens, with the letters that the alphabet leaves
// out because they look like digits. False when it cannot be one.
func typedRecoveryCode(text seal.Secret) (string, bool) {
	typed := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '-', '\u2010', '\u2011', '\u2013', '\u00a0':
			return -1
		case 'o':
			return '0'
		case 'i', 'l':
			return '1'
		}
		return r
	}, strings.ToLower(text.Reveal()))
	random, err := alphabet.DecodeString(typed)
	return typed, err == nil && len(random) == recoverySize && len(typed) == alphabet.EncodedLen(recoverySize)
}
