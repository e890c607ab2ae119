package page

import (
	"strconv"
	"time"

	"waybill/app/verdict"
	"waybill/web/path"
	"waybill/web/ui"
)

// Delivery is one event for one endpoint with all its attempts, one of them in full.
type Delivery struct {
	ID, Event, Type        string
	ResourceType, Resource string
	Sequence               int64 // negative where it is not known
	Endpoint               EndpointName
	Stamp                  ui.Stamp
	Story                  string // what became of it, in a sentence or two
	Published              ui.Moment
	Form                   string // "full" or "thin"
	Size                   string // of the body: "412 bytes"
	Digest                 string // sha-256 of the body, hex
	Test                   bool
	Stops                  []AttemptStop // oldest first
	Waiting                *Waiting      // what comes next; nil when nothing does
	Rest                   []Planned     // the schedule after that
	Attempt                *Attempt      // the one shown in full; nil before the first
	Resend                 Resend
	MayCancel              bool
	HiddenPayload          bool      // the reader may not see payloads
	Live                   string    // address of the stream with the version that is shown; empty: without that
	Others                 []ui.Link // the same event's deliveries to other endpoints
}

// AttemptStop is an attempt in the timeline.
type AttemptStop struct {
	ID      string
	Number  int
	Stamp   ui.Stamp // Word is the short verdict: "200", "timed out"
	Title   string   // the verdict's headline
	Took    string
	At      ui.Moment
	Trigger string // empty for the schedule; "Resent by Meera", "Catch-up", "Probe", "Test"
	Gap     string // what passed since the attempt before: "5 min later"
}

// Waiting is what a pending delivery waits for.
type Waiting struct {
	At     ui.Moment // when it is due; zero when it waits for something else
	Number int       // the attempt's number
	Of     int
	Reason string // "Waiting behind 40 others of this endpoint", "On the wire now"; empty when it waits for its time
}

// Planned is an attempt of the rest of the schedule, if the ones before it fail.
type Planned struct {
	Number int
	At     string // clock time in the tenant's zone, before jitter
	Wait   string // after the one before: "2 h"
}

// Attempt is the evidence of one attempt.
type Attempt struct {
	ID       string
	Number   int
	Trigger  string // as a sentence: "Sent by the schedule", "Resent by Meera"
	At       ui.Moment
	Verdict  verdict.Verdict
	Help     ui.Link // the place that helps, from Verdict.Help
	Lab      string  // the address of the signature lab with its request; empty where there is none
	After    string  // what followed: "Attempt 4 came 30 min later."; empty says what the verdict's rule is
	Phases   ui.Phases
	Reached  []Fact // address, TLS version, certificate, protocol; empty when nothing was reached
	Request  Message
	Response *Message // nil when no answer came
	View     string   // ui.Pretty, ui.Raw or ui.Hex
}

// Fact is a small thing known, with its name. Warn marks one worth a look.
type Fact struct {
	Name, Value string
	Warn        bool
}

// Message is a request or a response as it was on the wire.
type Message struct {
	Line    string // "POST /webhooks/freight HTTP/2.0", "401 Unauthorized"
	Headers []ui.Header
	Body    ui.Body
	Size    string // "412 bytes"
	Digest  string // sha-256 of the body, hex; empty if not known
}

// Resend says whether the delivery can be sent again now.
type Resend struct {
	Offered bool
	Ask     bool    // asks first, because it was delivered already
	Why     string  // why it is not offered, or what to know before
	Help    ui.Link // to what has to be done first; optional
}

// unsent says what becomes of a delivery of which there is no attempt.
func (p Delivery) unsent() string {
	switch {
	case p.Stamp.Tone == ui.Hold:
		return "It is held, not lost. Once its endpoint is on, catch up or resend it, and the attempt appears here."
	case p.Stamp.Tone == ui.Mute:
		return "It ended before its first attempt. The event can still be read from the catalog."
	}
	return "The first attempt appears here by itself, with the exact request and your server's answer."
}

func (p Delivery) sequence() string {
	if p.Sequence < 0 {
		return ""
	}
	return ", sequence " + strconv.FormatInt(p.Sequence, 10)
}

func (p Delivery) head() ui.Head {
	return ui.Head{
		Title: p.Type + " to " + p.Endpoint.title(),
		Nav:   path.Deliveries(path.DeliveryFilter{}),
		Crumbs: []ui.Link{
			{Text: "Deliveries", Href: path.Deliveries(path.DeliveryFilter{})},
		},
	}
}

func (a Attempt) views(delivery string) []ui.Tab {
	tabs := []ui.Tab{{Text: "Pretty"}, {Text: "Raw"}, {Text: "Bytes"}}
	for i, view := range []string{ui.Pretty, ui.Raw, ui.Hex} {
		tabs[i].Current = a.View == view || (a.View == "" && i == 0)
		tabs[i].Href = path.Attempt(delivery, a.ID, view)
	}
	return tabs
}

func (w Waiting) title() string {
	if w.Of == 0 {
		return "Attempt " + strconv.Itoa(w.Number)
	}
	return "Attempt " + strconv.Itoa(w.Number) + " of " + strconv.Itoa(w.Of)
}

// follow says what comes or came after the attempt.
func (a Attempt) follow() string {
	words := a.After
	if words == "" {
		words = a.Verdict.RetryText()
	}
	if !a.Verdict.Counts && len(a.Verdict.Causes) > 0 {
		words += " It does not count against the endpoint."
	}
	return words
}

// verdictTone is the tone of a verdict's headline.
func verdictTone(v verdict.Verdict) ui.Tone {
	switch v.Class {
	case verdict.Delivered:
		return ui.Good
	case verdict.Proxy, verdict.Canceled, verdict.Unknown:
		return ui.Mute
	}
	return ui.Bad
}

// HelpLink is the dashboard's place for a verdict's help, for the endpoint of the given id.
func HelpLink(help verdict.Help, endpoint string) ui.Link {
	switch help {
	case verdict.Signature:
		return ui.Link{Text: "Open the signature lab", Href: path.EndpointSignature(endpoint)}
	case verdict.Secrets:
		return ui.Link{Text: "Look at the secrets", Href: path.EndpointSecrets(endpoint)}
	case verdict.Settings:
		return ui.Link{Text: "Change the endpoint", Href: path.EndpointSettings(endpoint)}
	case verdict.Test:
		return ui.Link{Text: "Send a test event", Href: path.EndpointTest(endpoint)}
	}
	return ui.Link{}
}

// CertificateFact says how long a receiver's certificate lasts, and warns in its last two weeks.
func CertificateFact(clock ui.Clock, ends time.Time) Fact {
	left := ends.Sub(clock.Now)
	fact := Fact{Name: "Certificate", Value: "valid until " + clock.Day(ends), Warn: left < 14*24*time.Hour}
	switch days := int(left.Hours() / 24); {
	case left <= 0:
		fact.Value = "ended on " + clock.Day(ends)
	case days < 90:
		fact.Value += " (" + ui.Count(int64(days), "day", "days") + ")"
	}
	return fact
}
