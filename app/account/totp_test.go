package account

import (
	"strings"
	"testing"
	"time"

	"waybill/app/seal"
)

// RFC 6238, appendix B, the last six of its eight digits.
func TestTOTPVectors(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := totpCode(secret, totpStep(time.Unix(at, 0))); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

// A clock may be wrong by one step, and a step that was used, or lies before one, is over.
func TestTOTPSteps(t *testing.T) {
	t.Parallel()
	secret, at := []byte("12345678901234567890"), time.Unix(1_800_000_000, 0)
	now := totpStep(at)
	for name, c := range map[string]struct {
		step, last int64
		want       bool
	}{
		"this step": {now, 0, true}, "the one before": {now - 1, 0, true}, "the one after": {now + 1, 0, true},
		"two before": {now - 2, 0, false}, "two after": {now + 2, 0, false},
		"used": {now, now, false}, "before a used one": {now - 1, now, false}, "after a used one": {now + 1, now, true},
		"the clock was set back": {now, now + 1000, false},
	} {
		if step, ok := totpMatch(secret, totpCode(secret, c.step), at, c.last); ok != c.want || ok && step != c.step {
			t.Errorf("%s: step %d, %v", name, step-now, ok)
		}
	}
	for _, code := range []string{"", "0", "00000000", "abcdef", strings.Repeat("9", 1000)} {
		if _, ok := totpMatch(secret, code, at, 0); ok {
			t.Errorf("%q is taken for a code", code)
		}
	}
}

func TestCodesAreReadAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	if got := typedCode(" 123-456\u00a0"); got != "123456" {
		t.Errorf("a code is read as %q", got)
	}
	for typed, want := range map[seal.Secret]string{
		"4f8a-93kd-2m7q-x1yz": "4f8a93kd2m7qx1yz", "4F8A93KD2M7QX1YZ": "4f8a93kd2m7qx1yz", " 4f8a 93kd\u20112m7q x1yz": "4f8a93kd2m7qx1yz",
		"ooooiiiillll0000": "0000111111110000",
	} {
		if got, ok := typedRecoveryCode(typed); got != want || !ok {
			t.Errorf("%q is read as %q, %v", typed.Reveal(), got, ok)
		}
	}
	for _, typed := range []seal.Secret{"", "123456", "4f8a-93kd-2m7q-x1y", "4f8a-93kd-2m7q-x1yzz", "4f8a-93kd-2m7q-x1y!", "uuuuuuuuuuuuuuuu"} {
		if got, ok := typedRecoveryCode(typed); ok {
			t.Errorf("%q is taken for the recovery code %q", typed.Reveal(), got)
		}
	}
	shown, hashes := newRecoveryCodes("mem_1")
	seen := map[string]bool{}
	for i, code := range shown {
		typed, ok := typedRecoveryCode(code)
		if !ok || string(recoveryHash("mem_1", typed)) != string(hashes[i]) || string(recoveryHash("mem_2", typed)) == string(hashes[i]) || seen[typed] {
			t.Errorf("code %d, %q, is not its own", i, code.Reveal())
		}
		seen[typed] = true
	}
}

func TestBrowsersInWords(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"": "A browser", "curl/8.5": "A browser", "Something on Linux": "A browser on Linux",
		"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0.0.0 Safari/537.36 Edg/129.0.0.0":           "Edge on Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.6 Mobile/15E148 Safari/604.1": "Safari on iPhone",
	} {
		if got := Browser(agent); got != want {
			t.Errorf("%q is called %q, want %q", agent, got, want)
		}
	}
}
