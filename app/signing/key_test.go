package signing

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const (
	// The first seed's fixed example.
	seedSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	seedID     = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	seedTime   = 1614265330
	seedBody   = `{"test": 2432232314}`
	seedV1     = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	// The same in the second seed's form, computed with openssl dgst -mac HMAC.
	seedHex = "v1=e96203c6de850e7dc1fde7489ef6140b402d3a5a64fe250cd2eef9830fac1cef"
	// The same with the key pair of RFC 8032, section 7.1, test 2, computed with openssl pkeyutl -sign -rawin.
	rfcPrivate = "whsk_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs="
	rfcPublic  = "whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="
	rfcLong    = "whsk_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs9QBfD6EOJWpK3CqdNG368nJgszy7ElozAzVXxKvRmDA=="
	seedV1a    = "v1a,7anDmyOh9LNskt5GJUTacHmbvyUkT0/S1jnxFAp+h2hcVXnQLWhtWA2+wP6vO0AUwEYP23IIZVuneGRhNj7hDQ=="
)

func parse(t testing.TB, text string) Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatalf("ParseKey(%q): %v", text, err)
	}
	return k
}

func symmetric(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, n))
}

// CASES B34: 24 to 64 bytes of standard base64 with padding, and nothing else.
func TestParseKey(t *testing.T) {
	t.Parallel()
	raw := func(prefix string, n int) string {
		return prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n))
	}
	for _, c := range []struct {
		name, text string
		want       Kind
		says       string // in the error, when want is empty
	}{
		{"the seed's", seedSecret, Symmetric, ""},
		{"24 bytes", symmetric(24), Symmetric, ""},
		{"25 bytes", symmetric(25), Symmetric, ""},
		{"63 bytes", symmetric(63), Symmetric, ""},
		{"64 bytes", symmetric(64), Symmetric, ""},
		{"private, 32 bytes", rfcPrivate, Private, ""},
		{"private, 64 bytes", rfcLong, Private, ""},
		{"public", rfcPublic, Public, ""},

		{"empty", "", "", "must start with whsec_"},
		{"nothing after the prefix", "whsec_", "", "24 to 64 bytes"},
		{"no base64", "whsec_!!!!", "", "standard base64 with padding"},
		{"8 bytes", symmetric(8), "", "these are 8"},
		{"23 bytes", symmetric(23), "", "these are 23"},
		{"65 bytes", symmetric(65), "", "these are 65"},
		{"a megabyte", symmetric(1 << 20), "", "at most 128 characters"},
		{"URL alphabet", "whsec_" + base64.URLEncoding.EncodeToString(bytes.Repeat([]byte{0xfb}, 24)), "", "standard base64"},
		{"missing padding", strings.TrimRight(symmetric(25), "="), "", "standard base64 with padding"},
		{"too much padding", symmetric(24) + "=", "", "standard base64"},
		{"trailing bits", symmetric(25)[:len(symmetric(25))-3] + "x==", "", "standard base64"},
		{"trailing newline", seedSecret + "\n", "", "without spaces or line ends"},
		{"carriage return within", seedSecret[:20] + "\r" + seedSecret[20:], "", "without spaces or line ends"},
		{"trailing space", seedSecret + " ", "", "standard base64"},
		{"leading space", " " + seedSecret, "", "must start with whsec_"},
		{"no prefix", strings.TrimPrefix(seedSecret, "whsec_"), "", "must start with whsec_"},
		{"prefix in capitals", "WHSEC_" + strings.TrimPrefix(seedSecret, "whsec_"), "", "must start with whsec_"},
		{"prefix twice", "whsec_" + seedSecret, "", "standard base64"},
		{"quotes", `"` + seedSecret + `"`, "", "must start with whsec_"},
		{"nul", seedSecret[:20] + "\x00" + seedSecret[21:], "", "standard base64"},
		{"private, 31 bytes", raw("whsk_", 31), "", "32 or 64 bytes"},
		{"private, 33 bytes", raw("whsk_", 33), "", "these are 33"},
		{"private, halves that do not match", raw("whsk_", 64), "", "belongs to another key"},
		{"private, empty", "whsk_", "", "these are 0"},
		{"public, 31 bytes", raw("whpk_", 31), "", "these are 31"},
		{"public, 64 bytes", raw("whpk_", 64), "", "these are 64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, err := ParseKey(c.text)
			if c.want != "" {
				if err != nil || k.Kind() != c.want {
					t.Fatalf("ParseKey = %v, %v; want a %s key", k, err, c.want)
				}
				if c.text != rfcLong && k.Reveal() != c.text {
					t.Errorf("Reveal = %q, not what was parsed", k.Reveal())
				}
				return
			}
			if err == nil || k.Kind() != "" {
				t.Fatalf("ParseKey accepted it as %v", k)
			}
			if !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "must ") {
				t.Errorf("error %q; want one that says %q", err, c.says)
			}
			if len(c.text) > 20 && strings.Contains(err.Error(), c.text[10:20]) {
				t.Errorf("error %q quotes the secret", err)
			}
		})
	}
}

func TestKeyPair(t *testing.T) {
	t.Parallel()
	k := parse(t, rfcPrivate)
	if got := k.Public().Reveal(); got != rfcPublic {
		t.Errorf("public half %q, want %q", got, rfcPublic)
	}
	if got := parse(t, rfcLong).Reveal(); got != rfcPrivate {
		t.Errorf("the form of 64 bytes is given back as %q, want the seed's form", got)
	}
	if public := parse(t, rfcPublic); public.Public().Reveal() != rfcPublic {
		t.Error("the public half of a public key is not itself")
	}
	if got := parse(t, seedSecret).Public(); got.Kind() != "" || got.Reveal() != "" {
		t.Errorf("a shared secret has the public half %v", got)
	}
}

func TestGeneratedKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		for _, k := range []Key{NewSecret(), NewKeyPair()} {
			text := k.Reveal()
			if seen[text] || seen[k.Fingerprint()] {
				t.Fatalf("%v came twice", k)
			}
			seen[text], seen[k.Fingerprint()] = true, true
			if again := parse(t, text); again.Kind() != k.Kind() || again.Reveal() != text {
				t.Errorf("%v does not survive a round trip", k)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	// printf %s "$SECRET" | sha256sum
	if got := parse(t, seedSecret).Fingerprint(); got != "96ad2ccd" {
		t.Errorf("Fingerprint = %q, want 96ad2ccd", got)
	}
	if private, public := parse(t, rfcPrivate).Fingerprint(), parse(t, rfcPublic).Fingerprint(); private != public || len(public) != 8 {
		t.Errorf("the two halves of a pair have the fingerprints %q and %q", private, public)
	}
	if got := (Key{}).Fingerprint(); got != "" {
		t.Errorf("no key has the fingerprint %q", got)
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	t.Parallel()
	for _, k := range []Key{parse(t, symmetric(24)), parse(t, rfcPrivate)} {
		decoded := k.open().secret
		if k.Kind() == Private {
			decoded = k.open().private.Seed()
		}
		type inside struct {
			Open   Key
			hidden Key
		}
		for _, v := range []any{k, &k, []Key{k}, map[string]Key{"k": k}, inside{k, k}, &inside{k, k}} {
			var all strings.Builder
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c"} {
				fmt.Fprintf(&all, verb+"\n", v)
			}
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
			slog.New(slog.NewTextHandler(&all, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&all, nil)).Info("m", "v", v)
			_, encoded, _ := strings.Cut(k.Reveal(), "_")
			for _, form := range []string{encoded, hex.EncodeToString(decoded), strings.Trim(fmt.Sprint(decoded), "[]"), string(decoded)} {
				if strings.Contains(strings.ToLower(all.String()), strings.ToLower(form)) {
					t.Errorf("printed: %s", all.String())
				}
			}
		}
	}
	if got := fmt.Sprint(Key{}); got != "no key" {
		t.Errorf("the zero Key prints as %q", got)
	}
	if got := fmt.Sprintf("%x", parse(t, seedSecret)); got != "symmetric key 96ad2ccd" {
		t.Errorf("a key prints as %q", got)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{seedSecret, rfcPrivate, rfcLong, rfcPublic, "whsec_", "whsk_AA==", "whsec_\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if (k.Kind() == "") != (err != nil) {
			t.Fatalf("%v, %v", k, err)
		}
		if err != nil {
			return
		}
		if again := parse(t, k.Reveal()); again.Fingerprint() != k.Fingerprint() {
			t.Errorf("%q does not survive a round trip", text)
		}
		if len(text) != len(rfcLong) && k.Reveal() != text {
			t.Errorf("%q is given back as %q", text, k.Reveal())
		}
	})
}
