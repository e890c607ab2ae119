package account

import (
	"strings"
	"testing"

	"waybill/app/seal"
)

func TestPasswordsThatAreGuessedFirstAreRefused(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]string{
		"":                              "12 characters or more",
		"elevenchars":                   "12 characters or more",
		strings.Repeat("ü", 11):         "12 characters or more",
		strings.Repeat("a1", 101):       "200 characters at most",
		"\xff\xfe not text at all":      "UTF-8",
		"password1234":                  "guessed first",
		"Password2024!":                 "guessed first",
		"p4ssw0rd!!!!!":                 "guessed first",
		"P@$$w0rd123456":                "guessed first",
		"passwordpassword":              "guessed first",
		"passwordpasswordpassword":      "guessed first",
		"welcomewelcome1":               "guessed first",
		"letmein_sunshine":              "guessed first",
		"qwertyuiop[]":                  "guessed first",
		"aaaaaaaaaaaa":                  "guessed first",
		"abcabcabcabc":                  "guessed first",
		"123456789012":                  "guessed first",
		"098765432109":                  "guessed first",
		"abcdefghijklm":                 "guessed first",
		"2024-01-31 / 7":                "guessed first",
		"anna.schmidt.":                 "your own name or address",
		"Anna.Schmidt2024":              "your own name or address",
		"mail.annaschmidt@example.com!": "",
		"correct horse battery staple":  "",
		"rote Fahrräder im Regen":       "",
		"நீலம் 12 வானம் அழகு": "",
		"x7Qp-m2Lk-9dRt": "",
	} {
		got := weakness(seal.Secret(password), "anna.schmidt@example.com", "Anna Schmidt")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", password, got, want)
		}
	}
}

func TestPasswordHashes(t *testing.T) {
	t.Parallel()
	password := seal.Secret("correct horse battery staple")
	one, err := hashPassword(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	two, err := hashPassword(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hashes %q and %q", one, two)
	}
	// Made by the reference implementation's command line: echo -n "password" | argon2 somesalt -id -t 2 -k 65536 -p 1.
	const foreign = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for name, c := range map[string]struct {
		hash     string
		password seal.Secret
		want     bool
	}{
		"right":             {one, password, true},
		"of another making": {foreign, "password", true},
		"wrong":             {one, "correct horse battery stapl", false},
		"empty":             {one, "", false},
		"no account":        {"", password, false},
		"no account, empty": {"", "", false},
		"far too long":      {one, seal.Secret(strings.Repeat("x", 1<<20)), false},
	} {
		if got, err := matches(t.Context(), c.hash, c.password); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, damaged := range []string{"x", "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$aaaa", "$argon2id$v=18$m=1,t=1,p=1$c29tZXNhbHQ$aaaa", "$argon2id$v=19$m=99999999,t=2,p=1$c29tZXNhbHQ$aaaa"} {
		if ok, err := matches(t.Context(), damaged, password); ok || err == nil {
			t.Errorf("%q matched, or was no error", damaged)
		}
	}
}
