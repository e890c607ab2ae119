package lab

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"waybill/app/signing"
)

// maxHashed is how many bytes an examination hashes in search of an explanation.
const maxHashed = 96 << 20

// finding explains a signature: the key, and what was done with it.
type finding struct {
	key  *Key
	form variant // of the key
	text layout  // of what was signed
	body variant // of the body
}

// right says that nothing about it is a mistake.
func (f *finding) right() bool { return f.form.wrong == "" && f.text.wrong == "" && f.body.wrong == "" }

// variant is a key's bytes or a body, and what is wrong with them: empty for the right ones.
type variant struct {
	bytes []byte
	wrong string
	fix   string
}

// layout is how the signed text is put together.
type layout struct {
	scheme signing.Scheme // whose right text it is; empty: nobody's
	wrong  string
	join   func(id, stamp string) (before, after string) // what stands before and behind the body
}

func before(text func(id, stamp string) string) func(string, string) (string, string) {
	return func(id, stamp string) (string, string) { return text(id, stamp), "" }
}

// layouts are the right ones first.
var layouts = []layout{
	{scheme: signing.V1, join: before(func(id, stamp string) string { return id + "." + stamp + "." })},
	{scheme: signing.Hex, join: before(func(_, stamp string) string { return stamp + "." })},
	{wrong: "the body alone was signed, without id and timestamp", join: before(func(_, _ string) string { return "" })},
	{wrong: "id, timestamp and body were joined without full stops", join: before(func(id, stamp string) string { return id + stamp })},
	{wrong: "timestamp and body were joined without a full stop", join: before(func(_, stamp string) string { return stamp })},
	{wrong: "the timestamp was put before the id", join: before(func(id, stamp string) string { return stamp + "." + id + "." })},
	{wrong: "id and body were signed, without the timestamp", join: before(func(id, _ string) string { return id + "." })},
	{wrong: "they were joined with colons instead of full stops", join: before(func(id, stamp string) string { return id + ":" + stamp + ":" })},
	{wrong: "they were joined with line ends instead of full stops", join: before(func(id, stamp string) string { return id + "\n" + stamp + "\n" })},
	{wrong: "they were joined with commas instead of full stops", join: before(func(id, stamp string) string { return id + "," + stamp + "," })},
	{wrong: "they were joined with spaces instead of full stops", join: before(func(id, stamp string) string { return id + " " + stamp + " " })},
	{wrong: "a full stop or a line end was added behind the body", join: func(id, stamp string) (string, string) { return id + "." + stamp + ".", "." }},
}

// keyForms are the bytes that code may take for the key of a secret's text, the right ones first.
func keyForms(text string) []variant {
	const decode = "Decode what follows whsec_ from base64: these bytes are the key."
	rest := strings.TrimPrefix(text, "whsec_")
	right, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil
	}
	all := []variant{
		{bytes: right},
		{[]byte(text), "the text of the secret, with whsec_, was taken as the key", decode},
		{[]byte(rest), "the base64 text behind whsec_ was taken as the key without decoding it", decode},
		{[]byte(text + "\n"), "the text of the secret was taken as the key, with a line end behind it", "Cut the line end off where the secret is read. " + decode},
		{[]byte(rest + "\n"), "the base64 text was taken as the key without decoding it, with a line end behind it", "Cut the line end off where the secret is read. " + decode},
		{[]byte(base64.StdEncoding.EncodeToString(right) + "="), "the base64 text was taken as the key without decoding it", decode},
	}
	const cut = "Cut whsec_ off before you decode."
	// Decoders that pass over what is no base64 read the prefix as well: some take its underscore for a digit of the other alphabet.
	for _, odd := range []string{strings.ReplaceAll(text, "_", ""), strings.ReplaceAll(text, "_", "/")} {
		odd = strings.TrimRight(odd, "=")
		if b, err := base64.RawStdEncoding.DecodeString(odd[:len(odd)-len(odd)%4]); err == nil {
			if tail := odd[len(odd)-len(odd)%4:]; len(tail) > 1 {
				if more, err := base64.RawStdEncoding.DecodeString(tail); err == nil {
					b = append(b, more...)
				}
			}
			all = append(all, variant{b, "the secret was decoded together with its prefix whsec_", cut})
		}
	}
	return all
}

// bodies are the body as it is, as it was sent, and what often becomes of one; each once.
func (e *examination) bodies() []variant {
	if e.tried != nil {
		return e.tried
	}
	all := []variant{{bytes: e.Body}}
	add := func(b []byte, wrong, fix string) {
		for _, other := range all {
			if bytes.Equal(other.bytes, b) {
				return
			}
		}
		all = append(all, variant{b, wrong, fix})
	}
	unix := bytes.ReplaceAll(e.Body, []byte("\r\n"), []byte("\n"))
	trimmed := bytes.TrimRight(unix, " \t\r\n")
	if e.Typed {
		// What a form did to the line ends says nothing about the request.
		add(unix, "", "")
		add(trimmed, "", "") // a line end that was copied along
	}
	if e.Sent != nil {
		add(e.Sent, "the body was changed", keepBytes)
	}
	add(trimmed, "white space stands behind the body", "Take the bytes as they arrived; do not read them line by line.")
	add(unix, "the line ends of the body were changed", keepBytes)
	add(bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")), "the line ends of the body were changed", keepBytes)
	add(append(bytes.Clone(e.Body), '\n'), "a line end was added behind the body", keepBytes)
	add(bytes.TrimPrefix(trimmed, bom), "a byte order mark stands before the body", "Read the body as bytes, not as a text file.")
	if short, ok := compacted(e.Body); ok {
		add(short, "the JSON was parsed and written again, with other white space", keepBytes)
	}
	if long, ok := spaced(e.Body); ok {
		add(long, "the JSON was parsed and written again, with spaces", keepBytes)
	}
	e.tried = all
	return all
}

// search explains a signature of 32 bytes: the fewest mistakes first, this endpoint's keys before others'. nil: nothing does.
func (e *examination) search(sum []byte) *finding {
	bodies := e.bodies()
	plain := 0 // the bodies that are no mistake, and the one that was sent
	for plain < len(bodies) && (bodies[plain].wrong == "" || bytes.Equal(bodies[plain].bytes, e.Sent)) {
		plain++
	}
	own, others := e.symmetric()
	try := func(keys []*Key, forms, texts, among func(int) bool) *finding {
		for _, key := range keys {
			for i, form := range keyForms(key.Reveal()) {
				for j, text := range layouts {
					for k, body := range bodies {
						if e.short {
							return nil
						}
						if forms(i) && texts(j) && among(k) && e.sums(form.bytes, text, body.bytes, sum) {
							return &finding{key: key, form: form, text: text, body: body}
						}
					}
				}
			}
		}
		return nil
	}
	right, any := func(i int) bool { return i == 0 }, func(int) bool { return true }
	usual, near := func(j int) bool { return layouts[j].scheme != "" }, func(k int) bool { return k < plain }
	for _, f := range []func() *finding{
		func() *finding { return try(own, right, usual, near) },
		func() *finding { return try(others, right, usual, near) },
		func() *finding { return try(own, any, usual, near) },
		func() *finding { return try(own, right, any, near) },
		func() *finding { return try(own, right, usual, any) },
		func() *finding { return try(own, any, any, near) },
		func() *finding { return try(own, right, any, any) },
		func() *finding { return try(others, any, usual, near) },
	} {
		if found := f(); found != nil {
			return found
		}
	}
	return nil
}

// symmetric is the keys that make 32 bytes, this endpoint's and others'.
func (e *examination) symmetric() (own, others []*Key) {
	return e.keys(signing.Symmetric)
}

func (e *examination) keys(kind signing.Kind) (own, others []*Key) {
	for i := range e.Keys {
		switch key := &e.Keys[i]; {
		case key.Kind() != kind && (kind != signing.Private || key.Kind() != signing.Public):
		case key.Endpoint == "":
			own = append(own, key)
		default:
			others = append(others, key)
		}
	}
	return own, others
}

// sums says whether a key over a text is this sum. It is false once the budget is spent.
func (e *examination) sums(key []byte, text layout, body, sum []byte) bool {
	head, tail := text.join(e.first(signing.HeaderID), e.stamp())
	if !e.spend(len(head) + len(body) + len(tail) + 256) {
		return false
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(head))
	h.Write(body)
	h.Write([]byte(tail))
	return hmac.Equal(h.Sum(nil), sum)
}

func (e *examination) spend(n int) bool {
	if e.budget -= n; e.budget < 0 {
		e.short = true
		return false
	}
	return true
}

// searchPair explains a signature of 64 bytes.
func (e *examination) searchPair(signature []byte) *finding {
	own, others := e.keys(signing.Private)
	for _, keys := range [][]*Key{own, others} {
		for _, key := range keys {
			if e.short {
				return nil
			}
			public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key.Public().Reveal(), "whpk_"))
			if err != nil || len(public) != ed25519.PublicKeySize {
				continue
			}
			for _, body := range e.bodies() {
				head, _ := layouts[0].join(e.first(signing.HeaderID), e.stamp())
				if e.spend(4*len(body.bytes)+4096) && ed25519.Verify(public, append([]byte(head), body.bytes...), signature) {
					return &finding{key: key, text: layouts[0], body: body}
				}
			}
		}
	}
	return nil
}

// explain finds what made an item.
func (e *examination) explain(it item) *finding {
	switch len(it.bytes) {
	case sha256.Size:
		return e.search(it.bytes)
	case ed25519.SignatureSize:
		return e.searchPair(it.bytes)
	}
	return nil
}
