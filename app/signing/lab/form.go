package lab

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"waybill/app/signing"
)

// item is a signature of the header, decoded however it was written.
type item struct {
	scheme signing.Scheme // V1, V1a or Hex as it is marked; empty: without a mark
	bytes  []byte         // 32 or 64; another length: it was cut, or is none
	strict bool           // written exactly as the scheme says
}

const maxItems = 64

// loose finds signatures in whatever text, with a mark in front or without.
var loose = regexp.MustCompile(`(?:(v1a|v1|sha256)\s*([,=:])\s*)?([A-Za-z0-9+/_-]{20,}={0,2})`)

// items reads the signatures of a header's values.
func items(lists []string) []item {
	var all []item
	for _, list := range lists {
		for _, m := range loose.FindAllStringSubmatch(list, maxItems) {
			mark, sign, text := m[1], m[2], m[3]
			it := item{}
			switch {
			case mark == "v1a":
				it.scheme = signing.V1a
			case sign == "=" || len(text) == 64 && isHex(text):
				it.scheme = signing.Hex
			case mark == "v1":
				it.scheme = signing.V1
			}
			it.bytes = decode(text)
			switch it.scheme {
			case signing.Hex:
				it.strict = mark == "v1" && sign == "=" && len(it.bytes) == sha256.Size && strings.ToLower(text) == text
			case signing.V1:
				it.strict = sign == "," && len(it.bytes) == sha256.Size && standard(text)
			case signing.V1a:
				it.strict = sign == "," && len(it.bytes) == ed25519.SignatureSize && standard(text)
			}
			all = append(all, it)
		}
	}
	return all[:min(len(all), maxItems)]
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil
}

func standard(text string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(text)
	return err == nil
}

// decode reads hexadecimal or base64 of either alphabet, with padding or without. What it cannot read is nil.
func decode(text string) []byte {
	if len(text) == 64 || len(text) == 128 {
		if b, err := hex.DecodeString(text); err == nil {
			return b
		}
	}
	plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	b, err := base64.RawStdEncoding.DecodeString(plain)
	if err != nil {
		return nil
	}
	return b
}

// schemeName is a scheme as people call it.
func schemeName(s signing.Scheme) string {
	if s == "" {
		return "a signature without a mark"
	}
	return string(s)
}

// form looks at how the header is written, and whether the endpoint's scheme is among what it holds.
func (e *examination) form() {
	lists := e.given[signing.HeaderSignature]
	e.items = items(lists)
	text := strings.TrimSpace(strings.Join(lists, " "))
	if text == "" {
		e.say(Form, Skip, "There is no signature to look at.", "")
		return
	}
	if len(e.items) == 0 {
		e.say(Form, Fail, "The header holds nothing that could be a signature.", "It should look like "+example(e.Scheme)+".")
		return
	}
	names, wanted, usable := []string{}, 0, 0
	for _, it := range e.items {
		if name := schemeName(it.scheme); !contains(names, name) {
			names = append(names, name)
		}
		if it.scheme == signing.V1 && e.Scheme.Needs(signing.Symmetric) && e.Scheme != signing.Hex || it.scheme == signing.Hex && e.Scheme == signing.Hex ||
			it.scheme == signing.V1a && e.Scheme.Needs(signing.Private) {
			wanted++
			if it.strict {
				usable++
			}
		}
	}
	held := count(len(e.items), "signature") + ", " + and(names)
	mended := "It should look like " + example(e.Scheme) + "."
	switch {
	case wanted == 0:
		e.say(Form, Fail, fmt.Sprintf("The header holds %s, and this endpoint signs as %s.", held, e.Scheme), mismatch(e.Scheme, e.items))
	case usable < wanted || !separated(e.Scheme, text):
		e.say(Form, Fail, "The header holds "+held+", not written as they were sent"+why(e.items, e.Scheme, text)+".", mended+" Take the header as it arrives.")
	default:
		e.say(Form, Pass, "The header holds "+held+", as this endpoint signs.", "")
	}
}

// separated says whether several signatures stand beside each other as the scheme has them.
func separated(scheme signing.Scheme, text string) bool {
	if scheme == signing.Hex {
		return !strings.ContainsAny(text, " ;")
	}
	for _, word := range strings.Fields(text) {
		if strings.Count(word, ",") != 1 || strings.HasSuffix(word, ",") {
			return false
		}
	}
	return true
}

// why says what is odd about a header's form.
func why(all []item, scheme signing.Scheme, text string) string {
	for _, it := range all {
		size := sha256.Size
		if it.scheme == signing.V1a {
			size = ed25519.SignatureSize
		}
		switch n := len(it.bytes); {
		case n == 0:
			return ": one of them is not base64"
		case n < size:
			return fmt.Sprintf(": one was cut off and has %d of %d bytes", n, size)
		case it.scheme == "":
			return ": the mark in front is missing"
		}
	}
	switch {
	case scheme != signing.Hex && (strings.Contains(text, "v1:") || strings.Contains(text, "v1=")):
		return ": a comma stands behind v1"
	case !separated(scheme, text) && scheme == signing.Hex:
		return ": several are separated by commas, without spaces"
	case !separated(scheme, text):
		return ": several are separated by a single space, and the comma belongs to each of them"
	case strings.ContainsAny(text, "-_"):
		return ": they are in standard base64, with + and /"
	}
	return ""
}

func example(scheme signing.Scheme) string {
	switch scheme {
	case signing.Hex:
		return "v1=5257a869… with 64 hexadecimal digits, and commas between several"
	case signing.V1a:
		return "v1a,K5oZfzN9… with base64 behind the comma, and a space between several"
	}
	return "v1,K5oZfzN9… with base64 behind the comma, and a space between several"
}

func mismatch(scheme signing.Scheme, all []item) string {
	switch {
	case scheme == signing.Hex:
		return "Your code expects v1 in base64. Verify hexadecimal over timestamp.body, or set this endpoint's signature to v1."
	case scheme == signing.V1a:
		return "Your code expects a shared secret. Verify Ed25519 with the public key, or set this endpoint's signature to v1, or to v1+v1a for both."
	case len(all) > 0 && all[0].scheme == signing.V1a:
		return "Ed25519 needs the public key. Set this endpoint's signature to v1+v1a if your code verifies that, or verify v1 with the secret."
	}
	return "It should look like " + example(scheme) + ". If the scheme was changed a moment ago, look at a newer request."
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func contains(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}
