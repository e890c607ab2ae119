package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"waybill/app/seal"
)

// What a password may be. The upper bound only keeps nonsense out.
const (
	MinPassword = 12
	MaxPassword = 200
)

// The work of one hash: the first choice of the OWASP password storage cheat sheet for argon2id where memory is not plenty.
const (
	argonMemory  = 19 * 1024 // KiB
	argonTime    = 2
	argonThreads = 1
	saltSize     = 16
	hashSize     = 32
)

// hashers bounds how many passwords are worked on at once, so that a crowd at the door costs time and not all memory.
var hashers = make(chan struct{}, 4)

// hashing waits for its turn and runs work.
func hashing(ctx context.Context, work func()) error {
	select {
	case hashers <- struct{}{}:
		defer func() { <-hashers }()
		work()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hashPassword is a password's hash in PHC form: $argon2id$v=19$m=…,t=…,p=…$salt$hash.
func hashPassword(ctx context.Context, password seal.Secret) (hash string, err error) {
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails
	err = hashing(ctx, func() {
		sum := argon2.IDKey([]byte(password.Reveal()), salt, argonTime, argonMemory, argonThreads, hashSize)
		encode := base64.RawStdEncoding.EncodeToString
		hash = fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads, encode(salt), encode(sum))
	})
	return hash, err
}

// nobodysHash takes the work of a password whose account does not exist. Nothing matches it: its sum is zero bytes of another length.
var nobodysHash = fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonTime, argonThreads,
	base64.RawStdEncoding.EncodeToString(make([]byte, saltSize)), base64.RawStdEncoding.EncodeToString(make([]byte, hashSize)))

// matches says whether password is the one of a hash; of an empty hash none is, after as much work.
func matches(ctx context.Context, hash string, password seal.Secret) (bool, error) {
	known := hash != ""
	if !known {
		hash = nobodysHash
	}
	memory, time, threads, salt, want, err := parseHash(hash)
	if err != nil {
		return false, err
	}
	text := password.Reveal()
	if len(text) > 4*MaxPassword {
		text = "" // no password is that long, and empty ones match nothing
	}
	same := false
	err = hashing(ctx, func() {
		sum := argon2.IDKey([]byte(text), salt, time, memory, threads, uint32(len(want)))
		same = subtle.ConstantTimeCompare(sum, want) == 1
	})
	return same && known, err
}

func parseHash(hash string) (memory, time uint32, threads uint8, salt, sum []byte, err error) {
	var version int
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return 0, 0, 0, nil, nil, fmt.Errorf("a stored password hash has an unknown form")
	}
	if _, err = fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return 0, 0, 0, nil, nil, fmt.Errorf("a stored password hash has an unknown version")
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &time, &threads); err != nil || time < 1 || threads < 1 || memory > 1<<20 {
		return 0, 0, 0, nil, nil, fmt.Errorf("a stored password hash has unknown parameters")
	}
	salt, err = base64.RawStdEncoding.DecodeString(parts[4])
	if err == nil {
		sum, err = base64.RawStdEncoding.DecodeString(parts[5])
	}
	if err != nil || len(salt) < 8 || len(sum) < 16 {
		return 0, 0, 0, nil, nil, fmt.Errorf("a stored password hash is damaged")
	}
	return memory, time, threads, salt, sum, nil
}

//go:embed common.txt
var commonText string

var common = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	for line := range strings.Lines(commonText) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			words[line] = true
		}
	}
	return words
})

// weakness says what is wrong with a password, in words that follow the name of a field; empty: nothing. about are the words that everybody would try
// first on this person: their address, their name.
func weakness(password seal.Secret, about ...string) string {
	text := password.Reveal()
	switch n := utf8.RuneCountInString(text); {
	case !utf8.ValidString(text):
		return "must be valid UTF-8"
	case n < MinPassword:
		return fmt.Sprintf("must have %d characters or more, and has %d", MinPassword, n)
	case n > MaxPassword:
		return fmt.Sprintf("must have %d characters at most", MaxPassword)
	case guessable(text):
		return "is one of those that are guessed first; a sentence of your own is better"
	}
	for _, word := range about {
		local, _, _ := strings.Cut(word, "@")
		for _, known := range []string{plainLetters(word), plainLetters(local)} {
			if len(known) >= 4 && strings.ReplaceAll(plainLetters(text), known, "") == "" {
				return "must not be your own name or address"
			}
		}
	}
	return ""
}

// guessable says whether a password is a repeated bit, a run along the alphabet or the digits, or nothing but one or two common words.
func guessable(text string) bool {
	text = strings.ToLower(text)
	if repeats(text) || runs(text) {
		return true
	}
	for _, letters := range []string{plainLetters(text), plainLetters(lettersForSigns(text))} {
		if oneOrTwo(letters) {
			return true
		}
	}
	return false
}

// repeats says whether text is a piece of at most a third of it, over and over.
func repeats(text string) bool {
	b := []byte(text)
	for size := 1; size <= len(b)/3; size++ {
		if bytes.Equal(b[size:], b[:len(b)-size]) {
			return true
		}
	}
	return false
}

// runs says whether each character is the one after, or before, the last one; 0 follows 9.
func runs(text string) bool {
	up, down := true, true
	for i := 1; i < len(text); i++ {
		a, b := text[i-1], text[i]
		up = up && (b == a+1 || a == '9' && b == '0')
		down = down && (b == a-1 || a == '0' && b == '9')
	}
	return up || down
}

// plainLetters leaves the letters of text alone.
func plainLetters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

var signs = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "8", "b", "@", "a", "$", "s", "!", "i", "|", "l")

// lettersForSigns reads the signs that stand for letters, after those at the ends were taken away: there they are only appended.
func lettersForSigns(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '@' && r != '$' })
	return signs.Replace(text)
}

// oneOrTwo says whether letters are one or two common words, or one of them repeated; no letters at all are none, and as easy.
func oneOrTwo(letters string) bool {
	words := common()
	if letters == "" || words[letters] {
		return true
	}
	for i := 1; i < len(letters); i++ {
		if words[letters[:i]] && (words[letters[i:]] || strings.ReplaceAll(letters, letters[:i], "") == "") {
			return true
		}
	}
	return false
}
