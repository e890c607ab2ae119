// Package lab finds out why a receiver does not accept a webhook: which of the checks of a signature fails, and which of the classic mistakes
// explains it.
//
// It promises that it is pure: what is known (headers, body, keys, the body as it was sent) comes in as values, and what it found goes out in words
// that name keys by their fingerprints and never show one; that it says of a request that it verifies only if package signing does; and that its
// work is bounded for any input.
package lab

import (
	"fmt"
	"strings"
	"time"

	"waybill/app/signing"
)

// Mark is how a check ended.
type Mark string

// The marks. Warn is something to know that stops nobody; Skip is what could not be looked at.
const (
	Pass Mark = "pass"
	Warn Mark = "warn"
	Fail Mark = "fail"
	Skip Mark = "skip"
)

// Check is one thing that was looked at.
type Check struct {
	Name string // "Headers"
	Mark Mark
	Text string // what was found, in sentences
	Fix  string // what to do about it; empty where there is nothing to do
}

// The names of the checks, in their order.
const (
	Headers     = "Headers"
	ID          = "Event id"
	Time        = "Timestamp"
	Form        = "Form of the signature"
	Secret      = "Secret"
	Body        = "Body"
	Computed    = "What your code computed"
	Fingerprint = "Secret in your code"
)

// Key is a key that may have signed.
type Key struct {
	signing.Key
	Ends     *time.Time // the end of its overlap; nil: it is in force
	Endpoint string     // what another endpoint that it belongs to is called; empty: it is of the endpoint that is examined
}

// Input is what is examined. Headers and Body are as they arrived, or as somebody pasted them.
type Input struct {
	Headers []signing.Header
	Body    []byte
	Typed   bool // Body came through a form of a browser, which writes every line end as CRLF

	Scheme signing.Scheme // of the endpoint
	Keys   []Key          // of the endpoint, newest first, then of other endpoints
	Sent   []byte         // the body that was sent under the event's id; nil: not known

	At   time.Time // when the request arrived; of one that was pasted, now
	Late bool      // At is later than the arrival, nobody knows by how much

	Computed    string                 // the signature that the receiver's code came to; may be empty
	Fingerprint string                 // that of the secret that the receiver's code holds; may be empty
	When        func(time.Time) string // writes a time for whoever reads; nil: in UTC
}

// MaxHeaders and MaxBody are the bytes that are looked at.
const (
	MaxHeaders = 16 << 10
	MaxBody    = 512 << 10
)

// Report is what was found.
type Report struct {
	Verifies bool   // a receiver that checks as documented accepts the request
	Summary  string // in a sentence
	Checks   []Check
}

// Examine makes all checks of a request.
func Examine(in Input) Report {
	if in.When == nil {
		in.When = func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04:05 UTC") }
	}
	e := &examination{Input: in, budget: maxHashed}
	e.given, e.unusual = canonical(in.Headers)
	e.headers()
	e.id()
	e.time()
	e.form()
	e.secret()
	e.body()
	e.computed()
	e.fingerprint()
	return e.report()
}

// examination is one request on the table.
type examination struct {
	Input
	given   map[string][]string // by the names in lower case
	unusual []string            // names as they were given, where a framework has changed them
	items   []item              // the signatures of the header
	made    []*finding          // what explains each of them; nil: nothing does
	foreign bool                // they were made with a key of another endpoint
	tried   []variant           // the bodies that a search tries
	budget  int                 // bytes that may still be hashed
	short   bool                // the budget ended
	checks  []Check
}

func (e *examination) say(name string, mark Mark, text, fix string) {
	e.checks = append(e.checks, Check{Name: name, Mark: mark, Text: text, Fix: fix})
}

// first is a header's only value, without the spaces around it.
func (e *examination) first(name string) string {
	if list := e.given[name]; len(list) > 0 {
		return strings.TrimSpace(list[0])
	}
	return ""
}

func (e *examination) stamp() string { return e.first(signing.HeaderTimestamp) }

// usual spells the headers as the endpoint's scheme does.
func (e *examination) usual() []string {
	if e.Scheme == signing.Hex {
		return []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}
	}
	return []string{signing.HeaderID, signing.HeaderTimestamp, signing.HeaderSignature}
}

func (e *examination) headers() {
	var missing, twice []string
	for _, name := range e.usual() {
		list := e.given[strings.ToLower(name)]
		switch {
		case len(list) == 0 || strings.TrimSpace(list[0]) == "":
			missing = append(missing, name)
		case len(list) > 1 && !strings.EqualFold(name, signing.HeaderSignature):
			twice = append(twice, name)
		}
	}
	if len(missing) > 0 {
		text := and(missing) + isAre(len(missing)) + "missing."
		if len(missing) == 3 {
			text = "None of " + and(e.usual()) + " is there."
		}
		fix := "Read the headers of the request itself. A proxy or gateway before your code may pass on only the headers that it is told to."
		for _, h := range e.Headers {
			if whose := foreignHeader(h.Name); whose != "" {
				text += " " + h.Name + " is " + whose + "."
				fix = "Read " + and(e.usual()) + ": Waybill sends these, and no other spelling."
				break
			}
		}
		e.say(Headers, Fail, text, fix)
		return
	}
	if len(twice) > 0 {
		e.say(Headers, Fail, and(twice)+isAre(len(twice))+"given more than once, with a list where one value belongs.",
			"Something before your code adds a copy. Leave the headers as they arrive.")
		return
	}
	text := and(e.usual()) + " are there."
	if len(e.unusual) > 0 {
		text += " Your framework writes them as " + and(e.unusual) + ": that is the same."
	}
	e.say(Headers, Pass, text, "")
}

func (e *examination) id() {
	id := e.first(signing.HeaderID)
	inside := idOf(e.Body)
	switch {
	case id == "":
		e.say(ID, Skip, "There is no id to look at.", "")
	case strings.ContainsAny(id, ". \t\"'"):
		e.say(ID, Fail, "The id holds a full stop, a quote or a space, which none of ours does.", "Take the header's value as it is, without quotes.")
	case inside != "" && inside != id:
		e.say(ID, Fail, fmt.Sprintf("The header says %.64s, and the body %.64s: they are of two different events.", id, inside),
			"Paste headers and body of the same request.")
	case inside == id:
		e.say(ID, Pass, "The header and the body name the same event.", "")
	default:
		e.say(ID, Pass, "The id is well formed.", "")
	}
}

func (e *examination) time() {
	stamp := e.stamp()
	at, ok := seconds(stamp)
	switch {
	case stamp == "":
		e.say(Time, Skip, "There is no timestamp to look at.", "")
		return
	case !ok && len(stamp) == 13 && digits(stamp):
		e.say(Time, Fail, "The timestamp has 13 digits: milliseconds. Ours is in seconds.", "Sign and compare the header's own text, and read it as seconds since 1970.")
		return
	case !ok:
		text := "The timestamp is not a whole number of seconds since 1970."
		if _, err := time.Parse(time.RFC3339, stamp); err == nil {
			text = "The timestamp is a date. Ours is a number of seconds since 1970."
		}
		e.say(Time, Fail, text, "Use the header's text as it arrived, both for signing and for its age.")
		return
	}
	age := e.At.Sub(at)
	written := "Signed " + e.When(at)
	switch {
	case age < -signing.Tolerance:
		e.say(Time, Fail, fmt.Sprintf("%s, which is %s ahead of our clock.", written, span(-age)), "Nothing of ours is dated ahead. Check where the timestamp comes from.")
	case age > signing.Tolerance && e.Late:
		e.say(Time, Warn, fmt.Sprintf("%s, %s ago. A request that arrives more than five minutes after that is refused as a possible replay.", written, span(age)),
			"If your server refused it when it arrived: set the server's clock (NTP), and read the timestamp as seconds.")
	case age > signing.Tolerance:
		e.say(Time, Fail, fmt.Sprintf("%s, %s before it arrived: more than the five minutes that are allowed.", written, span(age)), "Set the server's clock (NTP).")
	default:
		e.say(Time, Pass, written+": within five minutes of its arrival.", "")
	}
}

// report ends the examination.
func (e *examination) report() Report {
	r := Report{Checks: e.checks, Verifies: e.verifies()}
	var failed []string
	for _, c := range e.checks {
		if c.Mark == Fail {
			failed = append(failed, c.Name)
		}
		if c.Mark == Fail && c.Name != Computed && c.Name != Fingerprint {
			r.Verifies = false
		}
	}
	switch {
	case r.Verifies && len(failed) > 0:
		r.Summary = "The request is signed as it should be. What your own code makes of it is where they part."
	case r.Verifies:
		r.Summary = "The signature is right: code that checks as documented accepts this request."
	case e.foreign:
		r.Summary = "This request belongs to another endpoint."
	case len(failed) > 0:
		r.Summary = "A receiver refuses this request: " + strings.ToLower(and(failed)) + "."
	default:
		r.Summary = "There is too little to say whether a receiver accepts this request."
	}
	return r
}

// verifies asks package signing, with the keys that are live at the time.
func (e *examination) verifies() bool {
	var keys []signing.Key
	for _, key := range e.Keys {
		if key.Endpoint == "" && (key.Ends == nil || key.Ends.After(e.At)) {
			keys = append(keys, key.Key)
		}
	}
	now := e.At
	if at, ok := seconds(e.stamp()); ok && e.Late {
		now = at
	}
	for _, body := range e.bodies() {
		if body.wrong != "" {
			continue
		}
		if _, err := signing.Verify(e.given, body.bytes, keys, now, signing.Tolerance); err == nil {
			return true
		}
	}
	return false
}

func isAre(n int) string {
	if n == 1 {
		return " is "
	}
	return " are "
}

// and joins words as a sentence does.
func and(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// span is a duration in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
