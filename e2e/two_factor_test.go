package e2e

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// authenticator is the code that an app makes of a secret at this moment (RFC 6238).
func authenticator(p *person, secret string) string {
	p.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.Join(strings.Fields(secret), ""))
	p.must(err)
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix()/30)))
	sum := mac.Sum(nil)
	at := sum[19] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff%1000000)
}

// guardsTheDoor sets up two-factor sign-in, comes in with a code of the app, and, the phone at home, with a recovery code.
func guardsTheDoor(p *person, s *stage, email, password string) {
	p.opens("/settings/two-factor")
	p.sees("Your password alone signs you in")
	p.fills("Your password", password)
	p.uses("Set it up")
	p.sees("Scan this")
	p.looks("two-factor-set-up")
	secret := p.reads("code.secret")
	p.fills("Code", authenticator(p, secret))
	p.uses("Turn it on")
	p.sees("Your recovery codes", "10 recovery codes are left.")
	p.looks("recovery-codes")
	codes := strings.Fields(p.reads(".notice pre"))
	if len(codes) != 10 {
		p.Fatalf("%d recovery codes are shown", len(codes))
	}
	p.uses("I have kept them: go on")

	again := func() {
		p.uses("Sign out")
		p.sees("You are signed out")
		p.fills("Mail address", email)
		p.fills("Password", password)
		p.uses("Sign in")
		p.sees("Enter your code")
	}
	again()
	p.looks("sign-in-code")
	p.fills("Code", "000000")
	p.uses("Sign in")
	p.sees("not the code of this moment")
	p.quiet("a wrong code", "422")
	if _, err := s.Pool.Exec(p.Context(), `update waybill.second_factors set last_step = last_step - 3`); err != nil {
		p.Fatal(err) // half a minute passes
	}
	p.fills("Code", authenticator(p, secret))
	p.uses("Sign in")
	p.sees("From here to your first event")

	again()
	p.uses("Use a recovery code")
	p.sees("Enter a recovery code")
	p.fills("Recovery code", codes[0])
	p.uses("Sign in")
	p.sees("From here to your first event")
	p.opens("/settings/two-factor")
	p.sees("9 recovery codes are left.")
	p.looks("two-factor-on")
}
