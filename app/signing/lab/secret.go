package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"waybill/app/signing"
)

// secret looks for the keys that made the signatures of the header.
func (e *examination) secret() {
	if len(e.items) == 0 {
		e.say(Secret, Skip, "There is no signature to try the secrets on.", "")
		return
	}
	if e.stamp() == "" || e.first(signing.HeaderID) == "" && e.Scheme != signing.Hex {
		e.say(Secret, Skip, "Without id and timestamp the signed text is not known.", "")
		return
	}
	var own, foreign *finding
	var names []string
	for _, it := range e.items {
		f := e.explain(it)
		e.made = append(e.made, f)
		switch {
		case f == nil:
		case f.key.Endpoint != "":
			foreign = f
		default:
			if own == nil || f.right() {
				own = f
			}
			if f.form.wrong == "" {
				names = append(names, e.name(f.key))
			}
		}
	}
	made := 0
	for _, f := range e.made {
		if f != nil {
			made++
		}
	}
	e.foreign = foreign != nil && own == nil
	switch {
	case own != nil && len(names) > 0:
		text := sentence(and(unique(names))) + " made " + which(made, len(e.items)) + "."
		fix := ""
		if own.key.Ends != nil && !own.key.Ends.After(e.At) {
			fix = "Requests carry it no longer. Look at a newer request, or put the newest secret into your code."
		}
		mark := Pass
		if fix != "" {
			mark = Warn
		}
		e.say(Secret, mark, text, fix)
	case own != nil:
		e.say(Secret, Fail, fmt.Sprintf("The signature is none of ours: %s (%s).", own.form.wrong, own.key.Fingerprint()), own.form.fix)
	case foreign != nil:
		e.say(Secret, Fail, fmt.Sprintf("Not one of this endpoint's secrets made it, but %s of your endpoint %s.", foreign.key.Fingerprint(), foreign.key.Endpoint),
			"The request was sent to that endpoint. Verify it with that endpoint's secret, or give each endpoint a path of its own.")
	default:
		text := "None of this endpoint's secrets made it over this body" + e.andOthers() + "."
		if e.short {
			text += " The body is too large to try every mistake."
		}
		e.say(Secret, Fail, text, "Headers and body must be of the same request, and as they arrived. A secret that has ended by now is not tried.")
	}
}

func (e *examination) andOthers() string {
	for _, key := range e.Keys {
		if key.Endpoint != "" {
			return ", nor one of your other endpoints'"
		}
	}
	return ""
}

// which says how many of the header's signatures are meant.
func which(made, all int) string {
	if all == 1 {
		return "the signature"
	}
	return fmt.Sprintf("%d of the %d signatures", made, all)
}

// name is a key of this endpoint in words.
func (e *examination) name(key *Key) string {
	kind := "secret"
	if key.Kind() != signing.Symmetric {
		kind = "key pair"
	}
	switch {
	case key.Ends == nil:
		return "the newest " + kind + " (" + key.Fingerprint() + ")"
	case key.Ends.After(e.At):
		return "an older " + kind + " (" + key.Fingerprint() + ", signs until " + e.When(*key.Ends) + ")"
	}
	return "an older " + kind + " (" + key.Fingerprint() + ", ended " + e.When(*key.Ends) + ")"
}

// sentence begins with a capital.
func sentence(text string) string {
	return strings.ToUpper(text[:1]) + text[1:]
}

func unique(list []string) []string {
	var kept []string
	for _, one := range list {
		if !contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// body says what became of the body.
func (e *examination) body() {
	if e.Sent != nil {
		text, fix := Difference(e.Sent, e.Body)
		if text != "" && e.Typed {
			unix := bytes.ReplaceAll(e.Body, []byte("\r\n"), []byte("\n"))
			if bytes.Equal(unix, e.Sent) || bytes.Equal(bytes.TrimRight(unix, "\n"), e.Sent) {
				text = ""
			}
		}
		if text == "" {
			e.say(Body, Pass, fmt.Sprintf("It is the body that we sent, byte for byte: %d bytes.", len(e.Sent)), "")
			return
		}
		e.say(Body, Fail, text, fix)
		return
	}
	for _, f := range e.made {
		switch {
		case f == nil:
		case f.body.wrong != "":
			e.say(Body, Fail, sentence(f.body.wrong)+".", f.body.fix)
			return
		case f.form.wrong == "":
			e.say(Body, Pass, "It is the body that was signed, byte for byte.", "")
			return
		}
	}
	text := "We have sent no such event to this endpoint, or may not show you its body, so it cannot be compared."
	if len(e.Body) == 0 {
		e.say(Body, Fail, "The body is empty.", emptied)
		return
	}
	e.say(Body, Skip, text, "")
}

// computed compares what the receiver's code came to.
func (e *examination) computed() {
	text := strings.TrimSpace(e.Computed)
	if text == "" {
		return
	}
	given := items([]string{text})
	if len(given) == 0 || len(given[0].bytes) != sha256.Size {
		e.say(Computed, Fail, "It is no SHA-256: that has 32 bytes, 44 characters of base64 or 64 hexadecimal digits.", "Use HMAC with SHA-256 and print all of it.")
		return
	}
	sum := given[0].bytes
	for _, it := range e.items {
		if !bytes.Equal(it.bytes, sum) {
			continue
		}
		if isHexText(text) && it.scheme != signing.Hex {
			e.say(Computed, Fail, "It has the right bytes, in hexadecimal. The header has them in base64.", "Write the HMAC in base64 before you compare.")
			return
		}
		if !isHexText(text) && it.scheme == signing.Hex {
			e.say(Computed, Fail, "It has the right bytes, in base64. The header has them in hexadecimal.", "Write the HMAC in hexadecimal before you compare.")
			return
		}
		e.say(Computed, Pass, "It is the signature of the header. If your code refuses it, the comparison is at fault.",
			"Divide the header at its spaces, take what stands behind v1, of each, and accept when one is equal.")
		return
	}
	f := e.search(sum)
	switch {
	case f == nil && e.short:
		e.say(Computed, Skip, "Nothing that was tried leads to it; the body is too large to try everything.", "")
	case f == nil:
		e.say(Computed, Fail, "Nothing that we know of leads to it: neither a secret of yours nor one of the usual mistakes.",
			"Print the length and the SHA-256 of the body that your code signs, and compare with the delivery's page.")
	default:
		e.say(Computed, Fail, e.mistakes(f), e.remedy(f))
	}
}

// mistakes are what a finding did that it should not have.
func (e *examination) mistakes(f *finding) string {
	var wrong []string
	switch {
	case f.key.Endpoint != "":
		wrong = append(wrong, "it was made with the secret "+f.key.Fingerprint()+" of your endpoint "+f.key.Endpoint)
	case f.key.Ends != nil && !f.key.Ends.After(e.At):
		wrong = append(wrong, "it was made with the secret "+f.key.Fingerprint()+", which has ended")
	}
	for _, w := range []string{f.form.wrong, f.text.wrong, f.body.wrong} {
		if w != "" {
			wrong = append(wrong, w)
		}
	}
	if len(wrong) == 0 && f.text.scheme != e.textScheme() {
		wrong = append(wrong, "it is over "+signedText(f.text.scheme)+", and this endpoint signs "+signedText(e.textScheme()))
	}
	if len(wrong) == 0 {
		return "It is right for this body with the secret " + f.key.Fingerprint() + ", but the header holds other signatures: the body or the timestamp is not that of the request."
	}
	return sentence(and(wrong)) + "."
}

func (e *examination) remedy(f *finding) string {
	switch {
	case f.key.Endpoint != "":
		return "Put this endpoint's own secret into your code."
	case f.form.fix != "":
		return f.form.fix
	case f.text.wrong != "" || f.text.scheme != e.textScheme():
		return "Sign " + signedText(e.textScheme()) + ", the header's texts as they are."
	case f.body.fix != "":
		return f.body.fix
	case f.key.Ends != nil:
		return "Put the newest secret into your code."
	}
	return "Paste headers and body of the same request."
}

func (e *examination) textScheme() signing.Scheme {
	if e.Scheme == signing.Hex {
		return signing.Hex
	}
	return signing.V1
}

func signedText(s signing.Scheme) string {
	if s == signing.Hex {
		return "timestamp.body"
	}
	return "id.timestamp.body"
}

func isHexText(text string) bool {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "sha256="), "v1=")
	return len(text) == 2*sha256.Size && isHex(text)
}

// fingerprint says which secret the receiver's code holds.
func (e *examination) fingerprint() {
	text := strings.ToLower(strings.TrimSpace(e.Fingerprint))
	text, _, _ = strings.Cut(text, " ") // sha256sum prints a name behind it
	if text == "" {
		return
	}
	if len(text) < 8 || !isHex(text[:8]) {
		e.say(Fingerprint, Fail, "That is no fingerprint: it has 8 hexadecimal digits or more.", fingerprintHow)
		return
	}
	text = text[:8]
	for i := range e.Keys {
		key := &e.Keys[i]
		if key.Fingerprint() == text {
			e.held(key)
			return
		}
	}
	for i := range e.Keys {
		key := &e.Keys[i]
		if key.Kind() != signing.Symmetric {
			continue
		}
		whole := key.Reveal()
		rest := strings.TrimPrefix(whole, "whsec_")
		decoded, _ := base64.StdEncoding.DecodeString(rest)
		for _, odd := range []struct {
			text  []byte
			words string
		}{
			{[]byte(whole + "\n"), "with a line end behind it"}, {[]byte(whole + "\r\n"), "with a line end behind it"}, {[]byte(" " + whole), "with a space before it"},
			{[]byte(whole + " "), "with a space behind it"}, {[]byte(`"` + whole + `"`), "with quotes around it"}, {[]byte(rest), "without whsec_"},
			{[]byte(rest + "\n"), "without whsec_, with a line end behind it"}, {decoded, "decoded from base64"},
		} {
			if sum := sha256.Sum256(odd.text); hex.EncodeToString(sum[:4]) == text {
				e.say(Fingerprint, Warn, fmt.Sprintf("Your code holds the secret %s%s, %s.", key.Fingerprint(), of(key), odd.words),
					"That is well if the code, or the command that made the fingerprint, is meant so: the key is what follows whsec_, decoded, without space around it.")
				return
			}
		}
	}
	e.say(Fingerprint, Fail, "Your code holds no secret of this endpoint"+e.andOthers()+".", "Reveal the newest secret and put it into your code. "+fingerprintHow)
}

const fingerprintHow = `To make one: printf %s "$SECRET" | sha256sum`

func of(key *Key) string {
	if key.Endpoint != "" {
		return " of your endpoint " + key.Endpoint
	}
	return ""
}

// held says of a key that the receiver's code holds whether that will do.
func (e *examination) held(key *Key) {
	switch {
	case key.Endpoint != "":
		e.say(Fingerprint, Fail, "Your code holds the secret of another endpoint of yours: "+key.Endpoint+".", "Put this endpoint's own secret into your code.")
	case key.Ends == nil:
		e.say(Fingerprint, Pass, "Your code holds the newest secret.", "")
	case key.Ends.After(e.At):
		e.say(Fingerprint, Warn, "Your code holds an older secret, which signs until "+e.When(*key.Ends)+".", "Put the newest one into your code until then.")
	default:
		e.say(Fingerprint, Fail, "Your code holds an older secret, which ended "+e.When(*key.Ends)+".", "Put the newest one into your code.")
	}
}
