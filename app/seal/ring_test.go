package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// keyOf is a key whose bytes are all n.
func keyOf(n byte) []byte { return bytes.Repeat([]byte{n}, KeySize) }

func ringOf(t testing.TB, keys ...byte) *Ring {
	t.Helper()
	var all [][]byte
	for _, n := range keys {
		all = append(all, keyOf(n))
	}
	r, err := NewRing(all...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSealAndOpen(t *testing.T) {
	t.Parallel()
	r := ringOf(t, 1, 2)
	place := []byte("endpoint_secrets/sec_1")
	for name, plain := range map[string][]byte{
		"text":     []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		"empty":    {},
		"nil":      nil,
		"one byte": {0},
		"large":    bytes.Repeat([]byte{0xff}, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sealed := r.Seal(plain, place)
			if len(sealed) != len(plain)+Overhead {
				t.Errorf("%d bytes became %d, want %d more", len(plain), len(sealed), Overhead)
			}
			if len(plain) > 1 && bytes.Contains(sealed, plain) {
				t.Error("the plain text is in what was sealed")
			}
			if bytes.Equal(sealed, r.Seal(plain, place)) {
				t.Error("sealing twice gave the same bytes")
			}
			for range 2 { // the second call as well as the first
				got, err := r.Open(sealed, place)
				if err != nil || !bytes.Equal(got, plain) {
					t.Errorf("Open = %q, %v", got, err)
				}
			}
		})
	}
}

func TestOpenTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := ringOf(t, 1, 2)
	place, plain := []byte("endpoint_secrets/sec_1"), []byte("the secret itself")
	sealed := r.Seal(plain, place)
	changed := func(at int) []byte {
		b := bytes.Clone(sealed)
		b[at] ^= 1
		return b
	}
	for _, c := range []struct {
		name   string
		sealed []byte
		place  string
		want   error
	}{
		{"nothing", nil, string(place), ErrDamaged},
		{"only a key id", sealed[:4], string(place), ErrDamaged},
		{"one byte too few to be anything", sealed[:Overhead-1], string(place), ErrDamaged},
		{"cut at the end", sealed[:len(sealed)-1], string(place), ErrDamaged},
		{"longer by one", append(bytes.Clone(sealed), 0), string(place), ErrDamaged},
		{"nonce changed", changed(4), string(place), ErrDamaged},
		{"text changed", changed(28), string(place), ErrDamaged},
		{"tag changed", changed(len(sealed) - 1), string(place), ErrDamaged},
		{"another row", sealed, "endpoint_secrets/sec_2", ErrDamaged},
		{"no place", sealed, "", ErrDamaged},
		{"key id changed", changed(0), string(place), ErrUnknownKey},
		{"key not in the ring", ringOf(t, 3).Seal(plain, place), string(place), ErrUnknownKey},
		{"id of the other key", slices.Concat(ringOf(t, 2).Seal(nil, nil)[:4], sealed[4:]), string(place), ErrDamaged},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.Open(c.sealed, []byte(c.place))
			if got != nil || !errors.Is(err, c.want) {
				t.Fatalf("Open = %q, %v; want %v", got, err, c.want)
			}
			for _, other := range []error{ErrDamaged, ErrUnknownKey} {
				if other != c.want && errors.Is(err, other) {
					t.Errorf("%v is both", err)
				}
			}
			if strings.Contains(err.Error(), "secret itself") {
				t.Errorf("the error quotes the secret: %v", err)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	place := []byte("x")
	before := ringOf(t, 1)
	old := before.Seal([]byte("s"), place)
	if before.NeedsReseal(old) {
		t.Error("what the only key sealed is said to need sealing again")
	}

	both := ringOf(t, 2, 1)
	if got, err := both.Open(old, place); err != nil || string(got) != "s" {
		t.Fatalf("the old key does not open: %q, %v", got, err)
	}
	if !both.NeedsReseal(old) {
		t.Error("what the old key sealed is not said to need sealing again")
	}
	fresh := both.Seal([]byte("s"), place)
	if both.NeedsReseal(fresh) {
		t.Error("what the newest key sealed is said to need sealing again")
	}

	after := ringOf(t, 2)
	if _, err := after.Open(fresh, place); err != nil {
		t.Errorf("resealed, but not readable without the old key: %v", err)
	}
	_, err := after.Open(old, place)
	if !errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), before.KeyIDs()[0]) ||
		!strings.Contains(err.Error(), after.KeyIDs()[0]) {
		t.Errorf("the error does not name the missing key and those that are there: %v", err)
	}
	for _, short := range [][]byte{nil, {}, old[:3]} {
		if !both.NeedsReseal(short) {
			t.Errorf("NeedsReseal(%x) is false", short)
		}
	}
}

func TestParseRing(t *testing.T) {
	t.Parallel()
	good1, good2 := base64.StdEncoding.EncodeToString(keyOf(1)), base64.StdEncoding.EncodeToString(keyOf(0xfb))
	many := make([]string, MaxKeys+1)
	for i := range many {
		many[i] = base64.StdEncoding.EncodeToString(keyOf(byte(i)))
	}
	for _, c := range []struct {
		name, text string
		keys       int
		wants      []string // all in the error
	}{
		{"one", good1, 1, nil},
		{"two", good1 + "," + good2, 2, nil},
		{"spaces and a line end around", " " + good1 + " ,\t" + good2 + "\n", 2, nil},
		{"as many as may be", strings.Join(many[:MaxKeys], ","), MaxKeys, nil},
		{"generated", NewKey().Reveal(), 1, nil},

		{"empty", "", 0, []string{"no key", "32 bytes", "openssl rand -base64 32"}},
		{"blank", " \n", 0, []string{"no key"}},
		{"one too many", strings.Join(many, ","), 0, []string{"more than 16 keys"}},
		{"very many", strings.Repeat(",", 1<<20), 0, []string{"more than 16 keys"}},
		{"comma at the end", good1 + ",", 0, []string{"key 2 of 2", "is empty"}},
		{"comma at the start", "," + good1, 0, []string{"key 1 of 2", "is empty"}},
		{"31 bytes", base64.StdEncoding.EncodeToString(make([]byte, 31)), 0, []string{"key 1 of 1", "31 bytes", "exactly 32"}},
		{"33 bytes", good1 + "," + base64.StdEncoding.EncodeToString(make([]byte, 33)), 0, []string{"key 2 of 2", "33 bytes"}},
		{"no padding", strings.TrimRight(good1, "="), 0, []string{"standard base64 with padding"}},
		{"URL alphabet", base64.URLEncoding.EncodeToString(keyOf(0xfb)), 0, []string{"standard base64 with padding"}},
		{"hexadecimal", hex.EncodeToString(keyOf(1)), 0, []string{"48 bytes", "exactly 32"}},
		{"line end within", good1[:20] + "\n" + good1[20:], 0, []string{"standard base64"}},
		{"carriage return within", good1[:20] + "\r" + good1[20:], 0, []string{"standard base64"}},
		{"trailing bits", good1[:42] + "F=", 0, []string{"standard base64"}},
		{"prose", "correct horse battery staple", 0, []string{"standard base64"}},
		{"same twice", good1 + "," + good2 + "," + good1, 0, []string{"key 3 of 3", "same as key 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := ParseRing(c.text)
			if c.wants == nil {
				if err != nil || len(r.KeyIDs()) != c.keys {
					t.Fatalf("ParseRing = %v, %v; want %d keys", r, err, c.keys)
				}
				return
			}
			if err == nil || r != nil {
				t.Fatalf("ParseRing accepted it: %v", r)
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			for item := range strings.SplitSeq(c.text, ",") {
				if item = strings.TrimSpace(item); len(item) > 8 && strings.Contains(err.Error(), item[:8]) {
					t.Errorf("error %q quotes a key", err)
				}
			}
		})
	}
}

func TestParseRingKeepsTheOrder(t *testing.T) {
	t.Parallel()
	r, err := ParseRing(base64.StdEncoding.EncodeToString(keyOf(2)) + "," + base64.StdEncoding.EncodeToString(keyOf(1)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.KeyIDs(), ringOf(t, 2, 1).KeyIDs()) {
		t.Errorf("keys %v are not in the order given", r.KeyIDs())
	}
	if ringOf(t, 2).NeedsReseal(r.Seal(nil, nil)) {
		t.Error("the first key is not the one that seals")
	}
}

func TestNewRingRefusesWrongLengths(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{nil, {{}}, {keyOf(1)[:31]}, {keyOf(1), append(keyOf(2), 0)}, make([][]byte, MaxKeys+1)} {
		if r, err := NewRing(keys...); err == nil || r != nil {
			t.Errorf("NewRing(%d keys) = %v, %v", len(keys), r, err)
		}
	}
}

func TestDerive(t *testing.T) {
	t.Parallel()
	r := ringOf(t, 2, 1)
	cookies := r.Derive("cookie: authenticate")
	if len(cookies) != 2 || len(cookies[0]) != 32 || len(cookies[1]) != 32 {
		t.Fatalf("lengths of %x", cookies)
	}
	if again := r.Derive("cookie: authenticate"); !slices.EqualFunc(cookies, again, bytes.Equal) {
		t.Error("the same purpose gave other keys")
	}
	if !bytes.Equal(cookies[1], ringOf(t, 1).Derive("cookie: authenticate")[0]) {
		t.Error("a key's derived key depends on its neighbours")
	}
	seen := map[string]string{string(keyOf(1)): "the key", string(keyOf(2)): "the key"}
	for _, purpose := range []string{"cookie: authenticate", "cookie: encrypt", "", "waybill seal: key id"} {
		for _, b := range r.Derive(purpose) {
			if other, ok := seen[string(b)]; ok {
				t.Errorf("%q gives the bytes of %q", purpose, other)
			}
			seen[string(b)] = purpose
		}
	}
}

// What is stored and in browsers must stay readable after an update of the program.
func TestTheFormStays(t *testing.T) {
	t.Parallel()
	r := ringOf(t, 1)
	if got, want := r.KeyIDs()[0], goldenKeyID; got != want {
		t.Errorf("key id %s, want %s", got, want)
	}
	if got := hex.EncodeToString(r.Derive("cookie: authenticate")[0]); got != goldenDerived {
		t.Errorf("derived key %s, want %s", got, goldenDerived)
	}
	sealed, err := hex.DecodeString(goldenSealed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Open(sealed, []byte("place")); err != nil || string(got) != "plain" {
		t.Errorf("Open = %q, %v", got, err)
	}
}

func TestNothingPrintsAKey(t *testing.T) {
	t.Parallel()
	master := NewKey()
	r, err := ParseRing(master.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(master.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	type config struct {
		Ring   *Ring
		Secret Secret
		hidden *Ring
	}
	c := config{r, master, r}
	for _, text := range printed(t, r, c, &c, []*Ring{r}, map[string]any{"ring": r}) {
		for _, form := range []string{master.Reveal(), string(raw), hex.EncodeToString(raw), fmt.Sprint(raw), fmt.Sprint([]string{string(raw)})} {
			if strings.Contains(text, form) || strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
				t.Errorf("a key is printed: %q", text)
			}
		}
	}
	if got := fmt.Sprint((*Ring)(nil)); got != "no ring" {
		t.Errorf("a nil ring prints as %q", got)
	}
}

func TestSecretPrintsAsRedacted(t *testing.T) {
	t.Parallel()
	const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s := Secret(text)
	if s.Reveal() != text {
		t.Fatal("Reveal does not give the text")
	}
	type box struct{ S Secret }
	for _, p := range printed(t, s, &s, box{s}, &box{s}, []Secret{s}, map[string]Secret{"k": s}, errors.Join(fmt.Errorf("x: %v", s))) {
		if strings.Contains(p, "MfKQ") || strings.Contains(strings.ToLower(p), hex.EncodeToString([]byte("MfKQ"))) {
			t.Errorf("printed: %q", p)
		}
	}
	for _, verb := range []string{"%s", "%v", "%q", "%x", "%X", "%d", "%10s", "%+v", "%#v"} {
		if got := fmt.Sprintf(verb, s); got != "[redacted]" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	if b, err := json.Marshal(box{s}); err != nil || string(b) != `{"S":"[redacted]"}` {
		t.Errorf("json: %s, %v", b, err)
	}
	if got := fmt.Sprint(Secret("")); got != "[redacted]" {
		t.Errorf("an empty secret prints as %q", got)
	}
}

// printed prints each value in every common way.
func printed(t *testing.T, values ...any) []string {
	t.Helper()
	var out []string
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c"} {
			out = append(out, fmt.Sprintf(verb, v))
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
		var buf bytes.Buffer
		slog.New(slog.NewTextHandler(&buf, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&buf, nil)).Info("m", "v", v)
		out = append(out, buf.String())
	}
	return out
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := ringOf(t, 1, 2)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			place, plain := fmt.Append(nil, "place ", i), fmt.Append(nil, "plain ", i)
			for range 100 {
				if got, err := r.Open(r.Seal(plain, place), place); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("Open = %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	r := ringOf(f, 1, 2)
	f.Add([]byte(nil), []byte("x"))
	f.Add(r.Seal([]byte("s"), []byte("x")), []byte("x"))
	f.Add(ringOf(f, 3).Seal([]byte("s"), []byte("x")), []byte("x"))
	f.Fuzz(func(t *testing.T, sealed, place []byte) {
		plain, err := r.Open(sealed, place)
		if err != nil && plain != nil || err == nil && len(plain) != len(sealed)-Overhead {
			t.Errorf("%q, %v", plain, err)
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknownKey) {
			t.Errorf("untyped error %v", err)
		}
	})
}

func FuzzParseRing(f *testing.F) {
	f.Add(base64.StdEncoding.EncodeToString(keyOf(1)))
	f.Add("a,b,,c")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRing(text)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if err == nil {
			if got, err := r.Open(r.Seal([]byte("s"), nil), nil); err != nil || string(got) != "s" {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}
