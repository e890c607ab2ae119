package signing

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var sentAt = time.Unix(1_700_000_000, 0)

func TestVerifyTimestamps(t *testing.T) {
	t.Parallel()
	k := []Key{NewSecret()}
	h := header(sign(t, V1, k, "evt_1", sentAt.Unix(), "{}"))
	for _, c := range []struct {
		name      string
		now       time.Time
		tolerance time.Duration
		want      Reason
	}{
		{"same second", sentAt, Tolerance, ""},
		{"just within, late", sentAt.Add(Tolerance), Tolerance, ""},
		{"just within, early", sentAt.Add(-Tolerance), Tolerance, ""},
		{"a nanosecond too late", sentAt.Add(Tolerance + 1), Tolerance, TooOld},
		{"a nanosecond too early", sentAt.Add(-Tolerance - 1), Tolerance, TooNew},
		{"301 seconds old", sentAt.Add(301 * time.Second), Tolerance, TooOld},
		{"an hour ahead", sentAt.Add(-time.Hour), Tolerance, TooNew},
		{"no tolerance, exact", sentAt, 0, ""},
		{"no tolerance, late", sentAt.Add(1), 0, TooOld},
		{"any age", sentAt.Add(1000 * time.Hour), math.MaxInt64, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Verify(h, []byte("{}"), k, c.now, c.tolerance); ReasonOf(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestVerifyReadsTimestampsStrictly(t *testing.T) {
	t.Parallel()
	k := []Key{NewSecret()}
	for _, c := range []struct {
		text string
		want Reason
	}{
		{"1700000000", NoMatch}, // read, and only the signature is another's
		{"", MissingHeader},
		{"0", BadTimestamp},
		{"01700000000", BadTimestamp},
		{"+1700000000", BadTimestamp},
		{"-1700000000", BadTimestamp},
		{"1700000000.0", BadTimestamp},
		{"1.7e9", BadTimestamp},
		{"1_700_000_000", BadTimestamp},
		{" 1700000000", BadTimestamp},
		{"1700000000\n", BadTimestamp},
		{"१७००००००००", BadTimestamp},
		{"0x6553f100", BadTimestamp},
		{"abc", BadTimestamp},
		{strings.Repeat("9", 13), BadTimestamp},
		{strings.Repeat("9", 100_000), BadTimestamp},
		{"999999999999", TooNew}, // further off than a time.Duration reaches
		{"1", TooOld},
	} {
		h := map[string][]string{"webhook-id": {"e"}, "webhook-timestamp": {c.text}, "webhook-signature": {"v1,x"}}
		if _, err := Verify(h, nil, k, sentAt, Tolerance); ReasonOf(err) != c.want {
			t.Errorf("%.20q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestVerifyHeaders(t *testing.T) {
	t.Parallel()
	key, stranger, pair := NewSecret(), NewSecret(), NewKeyPair()
	value := func(s Scheme, k ...Key) string { return sign(t, s, k, "evt_1", sentAt.Unix(), "{}")[2].Value }
	v1, v1a, hexed := value(V1, key), value(V1a, pair), value(Hex, key)
	other, otherHex := value(V1, stranger), value(Hex, stranger)
	flip := func(s string) string { // another last digit of the value
		b := []byte(s)
		at := len(strings.TrimRight(s, "=")) - 2
		b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A' || b[at] == 'a'] // hex digits have no case
		return string(b)
	}
	for _, c := range []struct {
		name      string
		signature []string
		want      Scheme
		reason    Reason
	}{
		{"v1", []string{v1}, V1, ""},
		{"v1a", []string{v1a}, V1a, ""},
		{"hex", []string{hexed}, Hex, ""},
		{"hex in capitals", []string{"v1=" + strings.ToUpper(hexed[3:])}, Hex, ""},
		{"the second of two", []string{other + " " + v1}, V1, ""},
		{"the first of two", []string{v1 + " " + other}, V1, ""},
		{"the second of two in hex", []string{otherHex + "," + hexed}, Hex, ""},
		{"hex with a space behind the comma", []string{otherHex + ", " + hexed}, Hex, ""},
		{"unknown scheme first", []string{"v9,abc v1z=1 v1a " + v1}, V1, ""},
		{"many spaces", []string{"  " + other + "   " + v1 + "  "}, V1, ""},
		{"on two lines", []string{other, v1}, V1, ""},
		{"beside a broken one", []string{"v1,!!!! v1a,AAAA v1=zz " + v1}, V1, ""},

		{"none", nil, "", MissingHeader},
		{"empty", []string{""}, "", MissingHeader},
		{"blank", []string{" "}, "", NoMatch},
		{"stranger's", []string{other}, "", NoMatch},
		{"stranger's in hex", []string{otherHex}, "", NoMatch},
		{"changed", []string{flip(v1)}, "", NoMatch},
		{"changed v1a", []string{flip(v1a)}, "", NoMatch},
		{"changed hex", []string{flip(hexed)}, "", NoMatch},
		{"cut", []string{v1[:len(v1)-1]}, "", NoMatch},
		{"cut hex", []string{hexed[:len(hexed)-2]}, "", NoMatch},
		{"longer", []string{v1 + "A"}, "", NoMatch},
		{"no value", []string{"v1,"}, "", NoMatch},
		{"no comma", []string{"v1"}, "", NoMatch},
		{"without its mark", []string{v1[3:]}, "", NoMatch},
		{"v1 said to be v1a", []string{"v1a," + v1[3:]}, "", NoMatch},
		{"v1 said to be v0", []string{"v0," + v1[3:]}, "", NoMatch},
		{"mark in capitals", []string{"V1," + v1[3:]}, "", NoMatch},
		{"commas for spaces", []string{v1 + "," + v1}, "", NoMatch},
		{"not ASCII", []string{"v1,\u00e9" + v1[5:]}, "", NoMatch},
		{"base64 without padding", []string{strings.TrimRight(v1, "=")}, "", NoMatch},
		{"hex digits with the mark of v1", []string{"v1," + hexed[3:]}, "", NoMatch},
		{"33 bytes in 44 characters", []string{"v1," + base64.StdEncoding.EncodeToString(make([]byte, 33))}, "", NoMatch},
		{"66 bytes in 88 characters", []string{"v1a," + base64.StdEncoding.EncodeToString(make([]byte, 66))}, "", NoMatch},
		{"64 signatures, the last one good", []string{strings.Repeat(other+" ", 63) + v1}, V1, ""},
		{"65 signatures", []string{strings.Repeat(other+" ", 64) + v1}, "", BadHeader},
		{"65 signatures in hex", []string{strings.Repeat(otherHex+",", 64) + hexed}, "", BadHeader},
		{"a megabyte", []string{strings.Repeat("x", 1<<20)}, "", BadHeader},
		{"a megabyte of lines", slices.Repeat([]string{strings.Repeat("x", 1<<10)}, 1<<10), "", BadHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {"1700000000"}, "Webhook-Signature": c.signature}
			m, err := Verify(h, []byte("{}"), []Key{key, pair.Public()}, sentAt, Tolerance)
			if ReasonOf(err) != c.reason || (err == nil) != (c.reason == "") || m.Scheme != c.want {
				t.Errorf("%+v, %v; want %q %q", m, err, c.want, c.reason)
			}
		})
	}
}

func TestVerifyIDs(t *testing.T) {
	t.Parallel()
	k := NewSecret()
	for _, c := range []struct {
		name string
		id   []string
		want Reason
	}{
		{"none", nil, MissingHeader},
		{"empty", []string{""}, MissingHeader},
		{"twice", []string{"evt_1", "evt_1"}, BadHeader},
		{"empty and more", []string{"", "evt_1"}, BadHeader},
		{"full stop", []string{"a.b"}, BadHeader},
		{"space", []string{"a b"}, BadHeader},
		{"line end", []string{"a\nb"}, BadHeader},
		{"not ASCII", []string{"é"}, BadHeader},
		{"257 characters", []string{strings.Repeat("a", 257)}, BadHeader},
		{"256 characters of another sender", []string{strings.Repeat("a", 256)}, NoMatch},
		{"another's", []string{"evt_2"}, NoMatch},
	} {
		h := http.Header(header(sign(t, V1, []Key{k}, "evt_1", sentAt.Unix(), "{}")))
		h["Webhook-Id"] = c.id
		if _, err := Verify(h, []byte("{}"), []Key{k}, sentAt, Tolerance); ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestVerifyReadsNamesInAnyCase(t *testing.T) {
	t.Parallel()
	k := []Key{NewSecret()}
	list := sign(t, V1, k, "evt_1", sentAt.Unix(), "{}")
	for _, spell := range []func(string) string{strings.ToLower, strings.ToUpper, http.CanonicalHeaderKey,
		func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }} {
		h := map[string][]string{"Content-Type": {"application/json"}}
		for _, one := range list {
			h[spell(one.Name)] = []string{one.Value}
		}
		if _, err := Verify(h, []byte("{}"), k, sentAt, Tolerance); err != nil {
			t.Errorf("%v: %v", h, err)
		}
	}
	// Two spellings at once are two headers.
	h := http.Header(header(list))
	h["webhook-id"] = []string{"evt_2"}
	if _, err := Verify(h, []byte("{}"), k, sentAt, Tolerance); ReasonOf(err) != BadHeader {
		t.Errorf("two ids in two spellings: %v", err)
	}
}

func TestVerifySaysWhichKey(t *testing.T) {
	t.Parallel()
	keys := []Key{NewSecret(), NewKeyPair(), NewSecret(), {}, NewKeyPair().Public()}
	for i, scheme := range map[int]Scheme{0: V1, 1: V1a, 2: Hex} {
		h := header(sign(t, scheme, keys[i:i+1], "evt_1", sentAt.Unix(), "{}"))
		m, err := Verify(h, []byte("{}"), keys, sentAt, Tolerance)
		if err != nil || m.Key != i || m.Scheme != scheme {
			t.Errorf("signed by key %d: %+v, %v", i, m, err)
		}
	}
	h := header(sign(t, V1AndV1a, keys[:2], "evt_1", sentAt.Unix(), "{}"))
	for _, without := range [][]Key{nil, {{}}, keys[2:3], keys[4:]} {
		if _, err := Verify(h, []byte("{}"), without, sentAt, Tolerance); ReasonOf(err) != NoMatch {
			t.Errorf("with %v: %v", without, err)
		}
	}
}

// The details end on the pages of sellers: a wrong key, a missing kind of key and an unknown scheme read differently.
func TestRefusalsTellTheCasesApart(t *testing.T) {
	t.Parallel()
	key, pair := NewSecret(), NewKeyPair()
	details := map[string]string{}
	for name, c := range map[string]struct {
		signature string
		keys      []Key
	}{
		"wrong key":      {sign(t, V1, []Key{key}, "evt_1", sentAt.Unix(), "{}")[2].Value, []Key{NewSecret()}},
		"kind missing":   {sign(t, V1a, []Key{pair}, "evt_1", sentAt.Unix(), "{}")[2].Value, []Key{key}},
		"unknown scheme": {"v2,x", []Key{key}},
	} {
		h := http.Header{"Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {"1700000000"}, "Webhook-Signature": {c.signature}}
		_, err := Verify(h, []byte("{}"), c.keys, sentAt, Tolerance)
		if ReasonOf(err) != NoMatch {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if other, taken := details[err.Error()]; taken {
			t.Errorf("%s reads like %s: %v", name, other, err)
		}
		details[err.Error()] = name
	}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	if got := ReasonOf(fmt.Errorf("x: %w", refuse(TooOld, "y"))); got != TooOld {
		t.Errorf("wrapped: %q", got)
	}
	for _, err := range []error{nil, ErrNoKey, (*Refusal)(nil)} {
		if got := ReasonOf(err); got != "" {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// Changing one byte of anything that is signed must be seen, whatever the scheme.
func TestOneBitIsSeen(t *testing.T) {
	t.Parallel()
	keys := []Key{NewSecret(), NewKeyPair()}
	const body = `{"id":"evt_1","type":"consignment.delivered"}`
	for _, scheme := range Schemes() {
		list := sign(t, scheme, keys, "evt_1", sentAt.Unix(), body)
		for i := range len(body) {
			for bit := range 8 {
				b := []byte(body)
				b[i] ^= 1 << bit
				if _, err := Verify(header(list), b, keys, sentAt, Tolerance); ReasonOf(err) != NoMatch {
					t.Errorf("%s: byte %d, bit %d: %v", scheme, i, bit, err)
				}
			}
		}
		h := header(list)
		h.Set("webhook-timestamp", fmt.Sprint(sentAt.Unix()+1))
		if _, err := Verify(h, []byte(body), keys, sentAt, Tolerance); ReasonOf(err) != NoMatch {
			t.Errorf("%s: another timestamp: %v", scheme, err)
		}
		h = header(list)
		h.Set("webhook-id", "evt_2")
		_, err := Verify(h, []byte(body), keys, sentAt, Tolerance)
		if want := map[bool]Reason{true: "", false: NoMatch}[scheme == Hex]; ReasonOf(err) != want {
			t.Errorf("%s: another id: %v, want %q", scheme, err, want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	keys := []Key{parse(f, seedSecret), parse(f, rfcPublic)}
	f.Add(seedID, "1614265330", seedV1, seedBody)
	f.Add(seedID, "1614265330", seedV1+" "+seedV1a, seedBody)
	f.Add(seedID, "1614265330", seedHex+","+seedHex, seedBody)
	f.Add("a.b", "-1", "v1, v1a, v1=,", "")
	f.Add("é", "1e9", ",=,= v1,\x00", "\xff")
	genuine := map[string]bool{}
	for _, s := range []string{seedV1, seedV1a, seedHex} {
		genuine[s] = true
	}
	f.Fuzz(func(t *testing.T, id, timestamp, signature, body string) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature}}
		m, err := Verify(h, []byte(body), keys, time.Unix(seedTime, 0), Tolerance)
		if err != nil {
			if ReasonOf(err) == "" || m != (Match{}) {
				t.Errorf("%+v, %v", m, err)
			}
			return
		}
		// Only the seed's own text is signed with these keys, so nothing else can be accepted.
		if body != seedBody || timestamp != "1614265330" || m.Scheme != Hex && id != seedID || m.ID != id {
			t.Errorf("accepted %q %q %q %q", id, timestamp, signature, body)
		}
		// And the signature that did it must be there as it was made.
		found := false
		for item := range strings.FieldsFuncSeq(signature, func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r\u0085\u00a0", r) }) {
			found = found || genuine[item] || strings.Contains(strings.ToLower(item), seedHex)
		}
		if !found {
			t.Errorf("accepted the signature %q", signature)
		}
	})
}

func FuzzSignAndVerify(f *testing.F) {
	keys := []Key{NewSecret(), NewKeyPair(), NewSecret()}
	f.Add("evt_1", int64(1_700_000_000), []byte("{}"), uint8(0))
	f.Fuzz(func(t *testing.T, id string, at int64, body []byte, n uint8) {
		scheme := Schemes()[int(n)%len(Schemes())]
		list, err := Headers(scheme, keys, id, at, body)
		if err != nil {
			return
		}
		if at >= 1e12 {
			return // further off than Verify reads
		}
		if _, err := Verify(header(list), body, keys, time.Unix(at, 0), 0); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := Verify(header(list), append(body[:len(body):len(body)], 0), keys, time.Unix(at, 0), 0); err == nil {
			t.Error("a longer body passes")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	body := []byte(strings.Repeat("x", 366))
	key, pair := NewSecret(), NewKeyPair()
	for _, scheme := range Schemes() {
		b.Run(string(scheme), func(b *testing.B) {
			list, err := Headers(scheme, []Key{key, pair}, "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R", sentAt.Unix(), body)
			if err != nil {
				b.Fatal(err)
			}
			h, keys := header(list), []Key{key, pair.Public()}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Verify(h, body, keys, sentAt, Tolerance); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
