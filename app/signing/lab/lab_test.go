package lab_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"waybill/app/signing"
	"waybill/app/signing/lab"
)

var at = time.Date(2026, 11, 17, 9, 41, 5, 0, time.UTC)

const (
	eventID = "evt_01J9X3ZK7Q8W2M4T5V6B7N8P9R"
	sent    = `{"id":"` + eventID + `","type":"consignment.delivered","sequence":4,"data":{"to":"Chennai","price":"₹ 90 & up","weight":318.50,"n":9007199254740993}}`
)

// bench is a request as it was sent, and the keys that are known.
type bench struct {
	newest, older, ended, foreign, pair signing.Key
}

func newBench() bench {
	return bench{signing.NewSecret(), signing.NewSecret(), signing.NewSecret(), signing.NewSecret(), signing.NewKeyPair()}
}

// input is the request in a scheme, signed by keys, with everything right.
func (b bench) input(t testing.TB, scheme signing.Scheme, keys ...signing.Key) lab.Input {
	t.Helper()
	headers, err := signing.Headers(scheme, keys, eventID, at.Unix(), []byte(sent))
	if err != nil {
		t.Fatal(err)
	}
	later, earlier := at.Add(23*time.Hour), at.Add(-time.Hour)
	return lab.Input{
		Headers: headers, Body: []byte(sent), Sent: []byte(sent), Scheme: scheme, At: at.Add(2 * time.Second),
		Keys: []lab.Key{{Key: b.newest}, {Key: b.pair}, {Key: b.older, Ends: &later}, {Key: b.ended, Ends: &earlier}, {Key: b.foreign, Endpoint: "warehouse.example"}},
	}
}

func sum(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(strings.Join(parts, "")))
	return h.Sum(nil)
}

func decoded(k signing.Key) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k.Reveal(), "whsec_"))
	if err != nil {
		panic(err)
	}
	return b
}

func header(in lab.Input, name string) *string {
	for i := range in.Headers {
		if strings.EqualFold(in.Headers[i].Name, name) {
			return &in.Headers[i].Value
		}
	}
	return new(string)
}

// marks are the checks that did not pass, with what they say.
func marks(r lab.Report) string {
	var all []string
	for _, c := range r.Checks {
		if c.Mark != lab.Pass {
			all = append(all, fmt.Sprintf("%s %s: %s %s", c.Mark, c.Name, c.Text, c.Fix))
		}
	}
	return strings.Join(all, "\n")
}

func whole(r lab.Report) string {
	var all strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&all, "%s %s: %s %s\n", c.Mark, c.Name, c.Text, c.Fix)
	}
	return all.String()
}

// hides fails the test when a key stands in what is said.
func (b bench) hides(t *testing.T, text string) {
	t.Helper()
	for _, k := range []signing.Key{b.newest, b.older, b.ended, b.foreign, b.pair} {
		_, secret, _ := strings.Cut(k.Reveal(), "_")
		if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
			t.Errorf("a secret stands in the report: %s", text)
		}
	}
}

func TestWhatIsRightPasses(t *testing.T) {
	t.Parallel()
	b := newBench()
	for name, test := range map[string]struct {
		scheme signing.Scheme
		keys   []signing.Key
		change func(*lab.Input)
		says   string
	}{
		"v1":                   {signing.V1, []signing.Key{b.newest}, nil, "The newest secret (" + b.newest.Fingerprint() + ") made the signature."},
		"v1 while rotated":     {signing.V1, []signing.Key{b.newest, b.older}, nil, "made 2 of the 2 signatures."},
		"v1 by the older one":  {signing.V1, []signing.Key{b.older}, nil, "An older secret (" + b.older.Fingerprint() + ", signs until 18 November 2026"},
		"v1 beside a foreign":  {signing.V1, []signing.Key{signing.NewSecret(), b.newest}, nil, "made 1 of the 2 signatures."},
		"v1 and v1a":           {signing.V1AndV1a, []signing.Key{b.newest, b.pair}, nil, "The newest secret (" + b.newest.Fingerprint() + ") and the newest key pair (" + b.pair.Fingerprint()},
		"v1a":                  {signing.V1a, []signing.Key{b.pair}, nil, "The newest key pair"},
		"hex":                  {signing.Hex, []signing.Key{b.newest}, nil, "Webhook-Id, Webhook-Timestamp and Webhook-Signature are there."},
		"hex while rotated":    {signing.Hex, []signing.Key{b.newest, b.older}, nil, "made 2 of the 2 signatures."},
		"without the sent one": {signing.V1, []signing.Key{b.newest}, func(in *lab.Input) { in.Sent = nil }, "It is the body that was signed, byte for byte."},
		"in capitals": {signing.V1, []signing.Key{b.newest}, func(in *lab.Input) {
			for i := range in.Headers {
				in.Headers[i].Name = "HTTP_" + strings.ToUpper(strings.ReplaceAll(in.Headers[i].Name, "-", "_"))
			}
		}, "Your framework writes them as HTTP_WEBHOOK_ID, HTTP_WEBHOOK_TIMESTAMP and HTTP_WEBHOOK_SIGNATURE"},
		"a day later, pasted": {signing.V1, []signing.Key{b.newest}, func(in *lab.Input) { in.At, in.Late = at.Add(20*time.Hour), true }, "20 hours ago"},
		"through a form": {signing.V1, []signing.Key{b.newest}, func(in *lab.Input) {
			in.Body, in.Typed = append(in.Body, '\r', '\n'), true
		}, "It is the body that we sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := b.input(t, test.scheme, test.keys...)
			if test.change != nil {
				test.change(&in)
			}
			r := lab.Examine(in)
			if !r.Verifies || strings.Contains(marks(r), "fail ") || !strings.Contains(whole(r), test.says) {
				t.Errorf("%v, %s\n%s, want it to say %q", r.Verifies, r.Summary, whole(r), test.says)
			}
			b.hides(t, whole(r))
		})
	}
}

// Each classic mistake is found and named, with its remedy.
func TestMistakes(t *testing.T) {
	t.Parallel()
	b := newBench()
	signature := func(f func(value string) string) func(*lab.Input) {
		return func(in *lab.Input) { v := header(*in, "webhook-signature"); *v = f(*v) }
	}
	body := func(f func(string) string) func(*lab.Input) {
		return func(in *lab.Input) { in.Body = []byte(f(string(in.Body))) }
	}
	replace := func(old, by string) func(*lab.Input) {
		return body(func(s string) string { return strings.Replace(s, old, by, 1) })
	}
	for name, test := range map[string]struct {
		scheme signing.Scheme
		key    signing.Key
		change func(*lab.Input)
		fails  string // the check that fails first
		says   string
	}{
		"a header is missing":      {signing.V1, b.newest, func(in *lab.Input) { in.Headers = in.Headers[:2] }, lab.Headers, "webhook-signature is missing."},
		"none is there":            {signing.V1, b.newest, func(in *lab.Input) { in.Headers = nil }, lab.Headers, "None of webhook-id, webhook-timestamp and webhook-signature is there."},
		"another sender's headers": {signing.V1, b.newest, func(in *lab.Input) { in.Headers = []signing.Header{{Name: "svix-signature", Value: "v1,x"}} }, lab.Headers, "Svix's spelling"},
		"a header twice":           {signing.V1, b.newest, func(in *lab.Input) { in.Headers = append(in.Headers, in.Headers[0]) }, lab.Headers, "webhook-id is given more than once"},
		"an id in quotes":          {signing.V1, b.newest, func(in *lab.Input) { v := header(*in, "webhook-id"); *v = `"` + *v + `"` }, lab.ID, "without quotes"},
		"another event's headers":  {signing.V1, b.newest, func(in *lab.Input) { *header(*in, "webhook-id") = "evt_2" }, lab.ID, "two different events"},
		"milliseconds":             {signing.V1, b.newest, func(in *lab.Input) { *header(*in, "webhook-timestamp") += "123" }, lab.Time, "13 digits: milliseconds"},
		"a date":                   {signing.V1, b.newest, func(in *lab.Input) { *header(*in, "webhook-timestamp") = "2026-11-17T09:41:05Z" }, lab.Time, "The timestamp is a date."},
		"an old request":           {signing.V1, b.newest, func(in *lab.Input) { in.At = at.Add(6 * time.Minute) }, lab.Time, "6 minutes before it arrived"},
		"from the future":          {signing.V1, b.newest, func(in *lab.Input) { in.At = at.Add(-6 * time.Minute) }, lab.Time, "6 minutes ahead of our clock"},
		"hex where v1 is expected": {signing.Hex, b.newest, func(in *lab.Input) { in.Scheme = signing.V1 }, lab.Form, "holds 1 signature, hex, and this endpoint signs as v1."},
		"v1 where hex is expected": {signing.V1, b.newest, func(in *lab.Input) { in.Scheme = signing.Hex }, lab.Form, "holds 1 signature, v1, and this endpoint signs as hex."},
		"v1a where v1 is expected": {signing.V1a, b.pair, func(in *lab.Input) { in.Scheme = signing.V1 }, lab.Form, "Ed25519 needs the public key."},
		"the mark is missing":      {signing.V1, b.newest, signature(func(v string) string { return v[3:] }), lab.Form, "a signature without a mark"},
		"a colon behind v1":        {signing.V1, b.newest, signature(func(v string) string { return "v1:" + v[3:] }), lab.Form, "a comma"},
		"joined with commas":       {signing.V1, b.newest, signature(func(v string) string { return v + "," + v }), lab.Form, "separated by a single space"},
		"joined by a proxy":        {signing.V1, b.newest, signature(func(v string) string { return v + ", " + v }), lab.Form, "separated by a single space"},
		"cut off":                  {signing.V1, b.newest, signature(func(v string) string { return v[:30] }), lab.Form, "cut off"},
		"another endpoint's":       {signing.V1, b.foreign, nil, lab.Secret, b.foreign.Fingerprint() + " of your endpoint warehouse.example"},
		"nobody's":                 {signing.V1, signing.NewSecret(), nil, lab.Secret, "None of this endpoint's secrets made it over this body, nor one of your other endpoints'."},
		"another endpoint's pair":  {signing.V1a, signing.NewKeyPair(), nil, lab.Secret, "None of this endpoint's secrets"},
		"other white space":        {signing.V1, b.newest, replace(`,"data"`, `, "data"`), lab.Body, "the white space differs"},
		"another order":            {signing.V1, b.newest, replace(`"to":"Chennai","price":"₹ 90 & up"`, `"price":"₹ 90 & up","to":"Chennai"`), lab.Body, "the members are in another order"},
		"other escapes":            {signing.V1, b.newest, replace(`₹`, `\u20b9`), lab.Body, "characters are escaped differently"},
		"rounded numbers":          {signing.V1, b.newest, replace(`318.50,"n":9007199254740993`, `318.5,"n":9007199254740992`), lab.Body, "large ones may have lost digits"},
		"a line end behind it":     {signing.V1, b.newest, body(func(s string) string { return s + "\n" }), lab.Body, "A line end was added behind the body."},
		"CRLF behind it":           {signing.V1, b.newest, body(func(s string) string { return s + "\r\n" }), lab.Body, "A line end was added behind the body."},
		"a byte order mark":        {signing.V1, b.newest, body(func(s string) string { return "\xef\xbb\xbf" + s }), lab.Body, "byte order mark"},
		"Latin-1 as UTF-8":         {signing.V1, b.newest, replace("₹", "â\u0082¹"), lab.Body, "read as Latin-1"},
		"letters lost":             {signing.V1, b.newest, replace("₹", "?"), lab.Body, "Letters beyond ASCII were lost"},
		"cut short":                {signing.V1, b.newest, body(func(s string) string { return s[:100] }), lab.Body, fmt.Sprintf("cut off: 100 of %d bytes", len(sent))},
		"empty":                    {signing.V1, b.newest, body(func(string) string { return "" }), lab.Body, "The body is empty."},
		"more behind it":           {signing.V1, b.newest, body(func(s string) string { return s + s }), lab.Body, "bytes were added behind the body"},
		"an object's text":         {signing.V1, b.newest, body(func(string) string { return "[object Object]" }), lab.Body, "[object Object]"},
		"a Python value":           {signing.V1, b.newest, body(func(string) string { return "{'id': 1}" }), lab.Body, "how Python prints"},
		"text within JSON":         {signing.V1, b.newest, body(func(s string) string { return fmt.Sprintf("%q", s) }), lab.Body, "a JSON text within JSON"},
		"in base64":                {signing.V1, b.newest, body(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }), lab.Body, "isBase64Encoded"},
		"escaped for HTML":         {signing.V1, b.newest, body(func(s string) string { return strings.NewReplacer("&", "&amp;", `"`, "&#34;").Replace(s) }), lab.Body, "escaped for HTML"},
		"another body":             {signing.V1, b.newest, replace("Chennai", "Madurai"), lab.Body, "The first that differs is byte"},
		"not sent by us":           {signing.V1, b.newest, func(in *lab.Input) { in.Sent, in.Body = nil, append(in.Body, '\n') }, lab.Body, "White space stands behind the body."},
		"written again, unknown": {signing.V1, b.newest, func(in *lab.Input) {
			in.Sent, in.Body = nil, bytes.ReplaceAll(in.Body, []byte(`":`), []byte(`": `))
		}, lab.Body, "The JSON was parsed and written again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := b.input(t, test.scheme, test.key)
			if test.change != nil {
				test.change(&in)
			}
			r := lab.Examine(in)
			said := ""
			for _, c := range r.Checks {
				if c.Mark == lab.Fail && c.Name == test.fails {
					said = c.Text + " " + c.Fix
				}
			}
			if r.Verifies || !strings.Contains(said, test.says) || !strings.HasPrefix(r.Summary, "A receiver refuses") && !strings.HasPrefix(r.Summary, "This request belongs") {
				t.Errorf("%v, %s\n%s, want %s to say %q", r.Verifies, r.Summary, whole(r), test.fails, test.says)
			}
			for _, c := range r.Checks {
				if c.Mark == lab.Fail && c.Fix == "" {
					t.Errorf("%s says no fix: %s", c.Name, c.Text)
				}
			}
			b.hides(t, whole(r))
		})
	}
}

// What a receiver's own code came to is explained.
func TestWhatTheCodeComputed(t *testing.T) {
	t.Parallel()
	b := newBench()
	text := b.newest.Reveal()
	rest := strings.TrimPrefix(text, "whsec_")
	stamp := fmt.Sprint(at.Unix())
	base := base64.StdEncoding.EncodeToString
	right := sum(decoded(b.newest), eventID, ".", stamp, ".", sent)
	for name, test := range map[string]struct {
		computed, says string
		mark           lab.Mark
	}{
		"right":                      {base(right), "It is the signature of the header.", lab.Pass},
		"right, with its mark":       {"v1," + base(right), "It is the signature of the header.", lab.Pass},
		"right, in hexadecimal":      {hex.EncodeToString(right), "in hexadecimal. The header has them in base64", lab.Fail},
		"the text as key":            {base(sum([]byte(text), eventID, ".", stamp, ".", sent)), "The text of the secret, with whsec_, was taken as the key. Decode what follows whsec_ from base64", lab.Fail},
		"the base64 as key":          {base(sum([]byte(rest), eventID, ".", stamp, ".", sent)), "taken as the key without decoding it", lab.Fail},
		"a line end in the key":      {base(sum([]byte(text+"\n"), eventID, ".", stamp, ".", sent)), "with a line end behind it", lab.Fail},
		"the base64 as key, in hex":  {hex.EncodeToString(sum([]byte(rest), eventID, ".", stamp, ".", sent)), "taken as the key without decoding it", lab.Fail},
		"the body alone":             {base(sum(decoded(b.newest), sent)), "The body alone was signed", lab.Fail},
		"the other scheme's text":    {base(sum(decoded(b.newest), stamp, ".", sent)), "It is over timestamp.body, and this endpoint signs id.timestamp.body.", lab.Fail},
		"no full stops":              {base(sum(decoded(b.newest), eventID, stamp, sent)), "joined without full stops", lab.Fail},
		"colons":                     {base(sum(decoded(b.newest), eventID, ":", stamp, ":", sent)), "colons instead of full stops. Sign id.timestamp.body", lab.Fail},
		"the wrong order":            {base(sum(decoded(b.newest), stamp, ".", eventID, ".", sent)), "The timestamp was put before the id", lab.Fail},
		"both: key and text":         {base(sum([]byte(text), sent)), "The text of the secret, with whsec_, was taken as the key and the body alone was signed", lab.Fail},
		"the older secret's text":    {base(sum([]byte(b.older.Reveal()), eventID, ".", stamp, ".", sent)), "taken as the key", lab.Fail},
		"the older secret":           {base(sum(decoded(b.older), eventID, ".", stamp, ".", sent)), "It is right for this body with the secret " + b.older.Fingerprint(), lab.Fail},
		"one that has ended":         {base(sum(decoded(b.ended), eventID, ".", stamp, ".", sent)), b.ended.Fingerprint() + ", which has ended. Put the newest secret into your code.", lab.Fail},
		"another endpoint's":         {base(sum(decoded(b.foreign), eventID, ".", stamp, ".", sent)), "of your endpoint warehouse.example. Put this endpoint's own secret into your code.", lab.Fail},
		"a body with a line end":     {base(sum(decoded(b.newest), eventID, ".", stamp, ".", sent+"\n")), "A line end was added behind the body", lab.Fail},
		"the JSON written by Python": {base(sum(decoded(b.newest), eventID, ".", stamp, ".", strings.NewReplacer(`":`, `": `, `,"`, `, "`).Replace(sent))), "parsed and written again, with spaces", lab.Fail},
		"SHA-1":                      {"2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", "It is no SHA-256", lab.Fail},
		"anything":                   {base(bytes.Repeat([]byte{1}, 32)), "Nothing that we know of leads to it", lab.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := b.input(t, signing.V1, b.newest)
			in.Computed = test.computed
			r := lab.Examine(in)
			last := r.Checks[len(r.Checks)-1]
			if said := last.Text + " " + last.Fix; last.Name != lab.Computed || last.Mark != test.mark || !strings.Contains(said, test.says) || !r.Verifies {
				t.Errorf("%s\n%+v, want %s %q", r.Summary, last, test.mark, test.says)
			}
			b.hides(t, whole(r))
		})
	}
}

// Decoders that pass over what is no base64 read the prefix as well; both ways are found. The keys are what these languages make of "whsec_" and the base64 of 32 bytes of 7.
func TestTheSecretDecodedWithItsPrefix(t *testing.T) {
	t.Parallel()
	key, err := signing.ParseKey("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{
		"c21b1e701c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c", // Python, Ruby and PHP
		"c21b1e73f070707070707070707070707070707070707070707070707070707070707070", // Node
	} {
		raw, err := hex.DecodeString(odd)
		if err != nil {
			t.Fatal(err)
		}
		headers, err := signing.Headers(signing.V1, []signing.Key{key}, eventID, at.Unix(), []byte(sent))
		if err != nil {
			t.Fatal(err)
		}
		in := lab.Input{Headers: headers, Body: []byte(sent), Scheme: signing.V1, Keys: []lab.Key{{Key: key}}, At: at,
			Computed: base64.StdEncoding.EncodeToString(sum(raw, eventID, ".", fmt.Sprint(at.Unix()), ".", sent))}
		r := lab.Examine(in)
		if last := r.Checks[len(r.Checks)-1]; !strings.Contains(last.Text, "decoded together with its prefix whsec_") || !strings.Contains(last.Fix, "Cut whsec_ off") {
			t.Errorf("%s: %+v", odd, last)
		}
	}
}

func TestFingerprints(t *testing.T) {
	t.Parallel()
	b := newBench()
	of := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	for name, test := range map[string]struct {
		given, says string
		mark        lab.Mark
	}{
		"the newest":          {b.newest.Fingerprint(), "holds the newest secret", lab.Pass},
		"as sha256sum prints": {of(b.newest.Reveal()) + "  -", "holds the newest secret", lab.Pass},
		"an older":            {b.older.Fingerprint(), "an older secret, which signs until", lab.Warn},
		"one that ended":      {b.ended.Fingerprint(), "an older secret, which ended", lab.Fail},
		"another endpoint's":  {b.foreign.Fingerprint(), "another endpoint of yours: warehouse.example", lab.Fail},
		"with a line end":     {of(b.newest.Reveal() + "\n"), "with a line end behind it", lab.Warn},
		"without the prefix":  {of(strings.TrimPrefix(b.newest.Reveal(), "whsec_"))[:8], "without whsec_", lab.Warn},
		"in quotes":           {of(`"` + b.newest.Reveal() + `"`), "with quotes around it", lab.Warn},
		"decoded":             {of(string(decoded(b.newest))), "decoded from base64", lab.Warn},
		"unknown":             {"00000000", "no secret of this endpoint, nor one of your other endpoints'", lab.Fail},
		"nonsense":            {"whsec_x", "That is no fingerprint", lab.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := b.input(t, signing.V1, b.newest)
			in.Fingerprint = test.given
			r := lab.Examine(in)
			if last := r.Checks[len(r.Checks)-1]; last.Name != lab.Fingerprint || last.Mark != test.mark || !strings.Contains(last.Text, test.says) {
				t.Errorf("%+v, want %s %q", last, test.mark, test.says)
			}
			b.hides(t, whole(r))
		})
	}
}

func TestHeadersAreReadAsTheyArePasted(t *testing.T) {
	t.Parallel()
	want := "webhook-id=evt_1 webhook-signature=v1,a= v1,b="
	for name, text := range map[string]string{
		"lines":     "POST /hooks HTTP/1.1\r\nwebhook-id: evt_1\r\nwebhook-signature:   v1,a= v1,b=\r\n\r\n",
		"curl":      "curl -X POST \\\n  -H 'webhook-id: evt_1' \\\n  --header \"webhook-signature: v1,a= v1,b=\" \\\n",
		"an object": `{"webhook-id": "evt_1", "webhook-signature": ["v1,a= v1,b="]}`,
		"PHP":       "[webhook-id] => evt_1\nwebhook-signature => v1,a= v1,b=",
		"Node":      "{\n  'webhook-id': 'evt_1',\n  'webhook-signature': 'v1,a= v1,b=',\n}",
	} {
		var got []string
		for _, h := range lab.ParseHeaders(text) {
			if strings.HasPrefix(h.Name, "webhook-") {
				got = append(got, h.Name+"="+h.Value)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The work is bounded: a body as large as may be, many keys, many signatures.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("a"), lab.MaxBody)
	in := lab.Input{Headers: []signing.Header{{Name: "webhook-id", Value: "evt_1"}, {Name: "webhook-timestamp", Value: fmt.Sprint(at.Unix())}}, Body: large, Scheme: signing.V1, At: at}
	for i := range 200 {
		key := lab.Key{Key: signing.NewSecret()}
		if i > 20 {
			key.Endpoint = "other"
		}
		in.Keys = append(in.Keys, key)
	}
	in.Headers = append(in.Headers, signing.Header{Name: "webhook-signature", Value: strings.Repeat("v1,"+base64.StdEncoding.EncodeToString(large[:32])+" ", 300)})
	r := lab.Examine(in)
	if r.Verifies || !strings.Contains(whole(r), "too large to try every mistake") {
		t.Errorf("%s\n%s", r.Summary, whole(r))
	}
}

func FuzzExamine(f *testing.F) {
	f.Add("webhook-id: evt_1\nwebhook-timestamp: 1\nwebhook-signature: v1,AAAA", []byte("{}"), []byte("{}\n"), "v1", "00", "hex")
	f.Fuzz(func(t *testing.T, headers string, body, sent []byte, computed, fingerprint, scheme string) {
		key := signing.NewSecret()
		r := lab.Examine(lab.Input{Headers: lab.ParseHeaders(headers), Body: body, Sent: sent, Scheme: signing.Scheme(scheme), Keys: []lab.Key{{Key: key}}, At: at,
			Computed: computed, Fingerprint: fingerprint, Typed: len(body)%2 == 0})
		if r.Verifies || r.Summary == "" {
			t.Errorf("%+v", r)
		}
		for _, c := range r.Checks {
			if c.Text == "" || c.Name == "" || strings.Contains(c.Text+c.Fix, key.Reveal()[6:]) {
				t.Errorf("%+v", c)
			}
		}
	})
}
