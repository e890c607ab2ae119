package account

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"

	"waybill/app/seal"
)

// Codes that change with time (RFC 6238), as every program that makes them understands without being told: SHA-1, six digits, 30 seconds.
const (
	totpPeriod = 30 // seconds
	totpSecret = 20 // bytes; as long as the hash (RFC 4226, section 4)
	totpDigits = 6
	totpSkew   = 1 // steps by which a clock may be wrong
	totpIssuer = "Waybill"
)

// totpText is how a secret is typed and read.
var totpText = base32.StdEncoding.WithPadding(base32.NoPadding)

func newTOTPSecret() []byte {
	secret := make([]byte, totpSecret)
	rand.Read(secret) // never fails
	return secret
}

// totpStep is the number of whole periods since 1970.
func totpStep(at time.Time) int64 { return at.Unix() / totpPeriod }

// totpCode is the code of a step (RFC 4226, section 5.3).
func totpCode(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0x0f
	number := binary.BigEndian.Uint32(sum[offset:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", totpDigits, number%1_000_000)
}

// totpMatch is the step, around at and after last, whose code this is. It takes as long for a wrong code as for a right one.
func totpMatch(secret []byte, code string, at time.Time, last int64) (step int64, ok bool) {
	now := totpStep(at)
	for candidate := now - totpSkew; candidate <= now+totpSkew; candidate++ {
		same := subtle.ConstantTimeCompare([]byte(totpCode(secret, candidate)), []byte(code)) == 1
		if same && candidate > last && !ok {
			step, ok = candidate, true
		}
	}
	return step, ok
}

// typedCode is a code without what people and programs put between its digits.
func typedCode(text seal.Secret) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '\u00a0' {
			return -1
		}
		return r
	}, text.Reveal())
}

// totpURI is what the picture says to a program that makes codes.
func totpURI(email string, secret []byte) seal.Secret {
	return seal.Secret(fmt.Sprintf("otpauth://totp/%s?secret=%s&issuer=%s&algorithm=SHA1&digits=%d&period=%d",
		url.PathEscape(totpIssuer+":"+email), totpText.EncodeToString(secret), totpIssuer, totpDigits, totpPeriod))
}
