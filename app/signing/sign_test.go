package signing

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// header is what a receiver's net/http makes of the headers.
func header(list []Header) http.Header {
	h := http.Header{}
	for _, one := range list {
		h.Add(one.Name, one.Value)
	}
	return h
}

func sign(t testing.TB, scheme Scheme, keys []Key, id string, at int64, body string) []Header {
	t.Helper()
	list, err := Headers(scheme, keys, id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheSeedsExample(t *testing.T) {
	t.Parallel()
	secret, pair := parse(t, seedSecret), parse(t, rfcPrivate)
	for _, c := range []struct {
		scheme    Scheme
		keys      []Key
		signature string
		verify    []Key
		found     Scheme
	}{
		{V1, []Key{secret}, seedV1, []Key{secret}, V1},
		{V1a, []Key{pair}, seedV1a, []Key{pair.Public()}, V1a},
		{V1AndV1a, []Key{pair, secret}, seedV1 + " " + seedV1a, []Key{secret}, V1},
		{V1AndV1a, []Key{pair, secret}, seedV1 + " " + seedV1a, []Key{pair.Public()}, V1a},
		{Hex, []Key{secret}, seedHex, []Key{secret}, Hex},
	} {
		t.Run(string(c.scheme+" "+c.found), func(t *testing.T) {
			t.Parallel()
			want := []Header{{"webhook-id", seedID}, {"webhook-timestamp", "1614265330"}, {"webhook-signature", c.signature}}
			if c.scheme == Hex {
				want = []Header{{"Webhook-Id", seedID}, {"Webhook-Timestamp", "1614265330"}, {"Webhook-Signature", c.signature}}
			}
			got := sign(t, c.scheme, c.keys, seedID, seedTime, seedBody)
			if !slices.Equal(got, want) {
				t.Errorf("Headers:\n%v\nwant:\n%v", got, want)
			}
			// The other direction starts from the seed's own text and not from what was just made.
			m, err := Verify(header(want), []byte(seedBody), c.verify, time.Unix(seedTime, 0), Tolerance)
			if err != nil || m.Scheme != c.found || m.ID != seedID || m.SentAt.Unix() != seedTime {
				t.Errorf("Verify = %+v, %v", m, err)
			}
		})
	}
}

func TestStandardWebhooksVerifiesOurs(t *testing.T) {
	t.Parallel()
	older, newer, stranger := NewSecret(), NewSecret(), NewSecret()
	pair := NewKeyPair()
	now := time.Now()
	bodies := []string{`{"test": 2432232314}`, `{}`, `1`, ``, "\x00\xff", `{ "b":1, "a":"<b>&é😀", "n":9007199254740993, "a":2 }`,
		"100% %s %d", strings.Repeat("x", 300_000)}
	for _, scheme := range []Scheme{V1, V1AndV1a} {
		for i, body := range bodies {
			t.Run(fmt.Sprint(scheme, i), func(t *testing.T) {
				t.Parallel()
				h := header(sign(t, scheme, []Key{newer, pair, older}, "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R", now.Unix(), body))
				for _, k := range []Key{newer, older} {
					if err := library(t, k).Verify([]byte(body), h); err != nil {
						t.Errorf("the library refuses ours: %v", err)
					}
				}
				if err := library(t, stranger).Verify([]byte(body), h); err == nil {
					t.Error("the library accepts a stranger's key")
				}
				if err := library(t, newer).Verify([]byte(body+" "), h); err == nil {
					t.Error("the library accepts another body")
				}
			})
		}
	}
	// Generated and supplied secrets of every length that may be.
	for n := MinSecret; n <= MaxSecret; n++ {
		k := parse(t, symmetric(n))
		if err := library(t, k).Verify([]byte("{}"), header(sign(t, V1, []Key{k}, "e", now.Unix(), "{}"))); err != nil {
			t.Errorf("a secret of %d bytes: %v", n, err)
		}
	}
}

func TestWeVerifyWhatStandardWebhooksSigns(t *testing.T) {
	t.Parallel()
	k, stranger := NewSecret(), NewSecret()
	now := time.Now()
	for _, body := range []string{seedBody, "{}", "", "\x00\xff"} {
		signature, err := library(t, k).Sign("msg_1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		h := map[string][]string{
			"webhook-id": {"msg_1"}, "webhook-timestamp": {fmt.Sprint(now.Unix())}, "webhook-signature": {signature},
		}
		m, err := Verify(h, []byte(body), []Key{stranger, k}, now, Tolerance)
		if err != nil || m.Key != 1 || m.Scheme != V1 {
			t.Errorf("%q: %+v, %v", body, m, err)
		}
		if _, err := Verify(h, []byte(body), []Key{stranger}, now, Tolerance); ReasonOf(err) != NoMatch {
			t.Errorf("%q: a stranger's key: %v", body, err)
		}
	}
}

func library(t testing.TB, k Key) *standardwebhooks.Webhook {
	t.Helper()
	w, err := standardwebhooks.NewWebhook(k.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// CASES B32: new first, exactly one separator between two signatures, none at the ends.
func TestRotation(t *testing.T) {
	t.Parallel()
	s := []Key{NewSecret(), NewSecret(), NewSecret()}
	p := []Key{NewKeyPair(), NewKeyPair()}
	one := func(scheme Scheme, k Key) string {
		return sign(t, scheme, []Key{k}, "evt_1", 1_700_000_000, "{}")[2].Value
	}
	for _, c := range []struct {
		scheme Scheme
		keys   []Key
		want   string
	}{
		{V1, []Key{s[0]}, one(V1, s[0])},
		{V1, []Key{s[0], s[1]}, one(V1, s[0]) + " " + one(V1, s[1])},
		{V1, []Key{s[1], s[0]}, one(V1, s[1]) + " " + one(V1, s[0])},
		{V1, []Key{p[0], s[0], {}, p[1].Public(), s[1], s[2]}, one(V1, s[0]) + " " + one(V1, s[1]) + " " + one(V1, s[2])},
		{V1a, []Key{p[0], s[0], p[1]}, one(V1a, p[0]) + " " + one(V1a, p[1])},
		{V1AndV1a, []Key{p[0], s[0], p[1], s[1]},
			one(V1, s[0]) + " " + one(V1, s[1]) + " " + one(V1a, p[0]) + " " + one(V1a, p[1])},
		{Hex, []Key{s[0], p[0], s[1]}, one(Hex, s[0]) + "," + one(Hex, s[1])},
	} {
		got := sign(t, c.scheme, c.keys, "evt_1", 1_700_000_000, "{}")[2].Value
		if got != c.want {
			t.Errorf("%s: %q\nwant %q", c.scheme, got, c.want)
		}
		if strings.Contains(got, "  ") || strings.TrimSpace(got) != got || strings.Contains(got, ", ") {
			t.Errorf("%s: stray separators in %q", c.scheme, got)
		}
	}
}

// CASES B30: every attempt has its own timestamp and signature, under the same id.
func TestEachAttemptIsSignedAnew(t *testing.T) {
	t.Parallel()
	k := NewSecret()
	first := sign(t, V1, []Key{k}, "evt_1", 1_700_000_000, "{}")
	later := sign(t, V1, []Key{k}, "evt_1", 1_700_000_300, "{}")
	if first[0] != later[0] || first[1] == later[1] || first[2] == later[2] {
		t.Errorf("first %v, later %v", first, later)
	}
	two := time.Unix(1_700_000_301, 0)
	if _, err := Verify(header(first), []byte("{}"), []Key{k}, two, Tolerance); ReasonOf(err) != TooOld {
		t.Errorf("the first attempt's headers five minutes later: %v", err)
	}
	if _, err := Verify(header(later), []byte("{}"), []Key{k}, two, Tolerance); err != nil {
		t.Errorf("the retry's headers: %v", err)
	}
}

func TestHeadersRefuse(t *testing.T) {
	t.Parallel()
	secret, pair := NewSecret(), NewKeyPair()
	many := func(k Key, n int) []Key { return slices.Repeat([]Key{k}, n) }
	for _, c := range []struct {
		name   string
		scheme Scheme
		keys   []Key
		id     string
		at     int64
		want   error // nil: any
	}{
		{"no keys", V1, nil, "e", 1, ErrNoKey},
		{"zero keys only", V1, []Key{{}, {}}, "e", 1, ErrNoKey},
		{"v1 with a pair only", V1, []Key{pair}, "e", 1, ErrNoKey},
		{"hex with a pair only", Hex, []Key{pair}, "e", 1, ErrNoKey},
		{"v1a with a secret only", V1a, []Key{secret}, "e", 1, ErrNoKey},
		{"v1a with a public key only", V1a, []Key{pair.Public()}, "e", 1, ErrNoKey},
		{"both with a secret only", V1AndV1a, []Key{secret}, "e", 1, ErrNoKey},
		{"both with a pair only", V1AndV1a, []Key{pair}, "e", 1, ErrNoKey},
		{"too many secrets", V1, many(secret, MaxKeys+1), "e", 1, nil},
		{"too many pairs", V1a, many(pair, MaxKeys+1), "e", 1, nil},
		{"unknown scheme", "v2", []Key{secret}, "e", 1, nil},
		{"no scheme", "", []Key{secret}, "e", 1, nil},
		{"timestamp 0", V1, []Key{secret}, "e", 0, nil},
		{"timestamp before 1970", V1, []Key{secret}, "e", -1, nil},
		{"no id", V1, []Key{secret}, "", 1, ErrBadID},
		// CASES B29
		{"id with the delimiter", V1, []Key{secret}, `a.1700000000.{"x":1}`, 1, ErrBadID},
		{"id with a line end", V1, []Key{secret}, "a\r\nX: y", 1, ErrBadID},
		{"id with a space", Hex, []Key{secret}, "a b", 1, ErrBadID},
		{"id with é", V1, []Key{secret}, "é", 1, ErrBadID},
		{"id of 65", V1, []Key{secret}, strings.Repeat("a", 65), 1, ErrBadID},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list, err := Headers(c.scheme, c.keys, c.id, c.at, []byte("{}"))
			if list != nil || err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Headers = %v, %v; want %v", list, err, c.want)
			}
		})
	}
	if list := sign(t, V1AndV1a, slices.Concat(many(secret, MaxKeys), many(pair, MaxKeys)), strings.Repeat("a", 64), 1<<40, ""); len(list) != 3 {
		t.Errorf("as many keys as may be: %v", list)
	}
}

func TestSchemes(t *testing.T) {
	t.Parallel()
	if got := Schemes(); !slices.Equal(got, []Scheme{"v1", "v1+v1a", "v1a", "hex"}) {
		t.Errorf("Schemes() = %v", got)
	}
	for _, s := range Schemes() {
		if !s.Valid() || s.Needs(Public) || s.Needs("") || !s.Needs(Symmetric) && !s.Needs(Private) {
			t.Errorf("%s: valid %v", s, s.Valid())
		}
	}
	for _, s := range []Scheme{"", "V1", "v1 ", "v1a+v1"} {
		if s.Valid() || s.Needs(Symmetric) || s.Needs(Private) {
			t.Errorf("%q passes as a scheme", s)
		}
	}
}

func TestTheBodyIsOnlyRead(t *testing.T) {
	t.Parallel()
	room := []byte(`{"a":1}XXXX`)
	body := room[:7] // what stands behind the body must survive an append
	k := []Key{NewSecret(), NewKeyPair()}
	for _, s := range Schemes() {
		list, err := Headers(s, k, "e", 1, body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(header(list), body, k, time.Unix(1, 0), Tolerance); err != nil {
			t.Error(err)
		}
	}
	if string(room) != `{"a":1}XXXX` {
		t.Errorf("the body became %q", room)
	}
}

func BenchmarkHeaders(b *testing.B) {
	body := []byte(strings.Repeat("x", 366))
	secret, pair := NewSecret(), NewKeyPair()
	for _, c := range []struct {
		name   string
		scheme Scheme
		keys   []Key
	}{
		{"v1", V1, []Key{secret}},
		{"v1 in rotation", V1, []Key{secret, NewSecret()}},
		{"hex", Hex, []Key{secret}},
		{"v1+v1a", V1AndV1a, []Key{secret, pair}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Headers(c.scheme, c.keys, "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R", 1_700_000_000, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
