// Package verdict says in plain words what became of an attempt: what happened, why that usually is, what to
// do about it, and whether we try again.
//
// It is the one table of "error to cause to fix" that pages, mails and documentation share. It is pure text
// from facts: it imports nobody, and it never says more than its facts do, so that an address that was
// refused stays unnamed.
package verdict

import "time"

// Class is how an attempt ended, as the sender names it.
type Class string

// The classes. Status is any answer that is neither 2xx nor a redirect nor 410.
const (
	Delivered        Class = "delivered"
	BlockedAddress   Class = "blocked_address"
	DNS              Class = "dns"
	Refused          Class = "refused"
	ConnectTimeout   Class = "connect_timeout"
	TLS              Class = "tls"
	Timeout          Class = "timeout"
	Reset            Class = "reset"
	NotHTTP          Class = "not_http"
	NoAnswer         Class = "no_answer" // any of refused, connect_timeout, reset and not_http, to whom the difference must not be told
	Redirect         Class = "redirect"
	Status           Class = "status"
	Gone             Class = "gone"
	TooLargeHeader   Class = "too_large_header"
	BadRequestConfig Class = "bad_request_config"
	Proxy            Class = "proxy"
	Canceled         Class = "canceled"
	Unknown          Class = "unknown"
)

// The reasons of a TLS failure.
const (
	Expired           = "expired" // or not valid yet
	WrongName         = "wrong_name"
	UnknownIssuer     = "unknown_issuer"
	Protocol          = "protocol"
	ClientCertificate = "client_certificate"
	OtherTLS          = "other"
)

// Facts is what is known of an attempt. Everything beyond Class may be zero.
type Facts struct {
	Class    Class
	Code     int           // HTTP status, as received
	Reason   string        // of a TLS failure
	Phase    string        // of a timeout: dns, connect, tls, write or wait
	Host     string        // the endpoint's host, as the tenant wrote it
	Location string        // of a redirect, as the receiver wrote it
	Timeout  time.Duration // how long we wait for an answer
	Expiry   time.Time     // when the receiver's certificate ended or ends
	Cut      bool          // the answer's body could not be read to its end
}

// Retry says what follows an attempt that ended this way, unless its schedule has ended.
type Retry string

// What follows. OnSchedule is the usual; ByPreset depends on the endpoint's preset (on_configuration_error).
const (
	NotNeeded  Retry = "not_needed"
	OnSchedule Retry = "on_schedule"
	ByPreset   Retry = "by_preset"
	Stops      Retry = "stops"
)

// Help names the place in the dashboard that helps most; the page makes a link of it.
type Help string

// The places. Nowhere is for what only the receiver's own people can mend.
const (
	Nowhere   Help = ""
	Secrets   Help = "secrets"
	Settings  Help = "settings"
	Signature Help = "signature"
	Test      Help = "test"
)

// Verdict is an attempt's end in plain words.
type Verdict struct {
	Class    Class
	Short    string   // for a list, two or three words: "401", "timed out"
	Title    string   // a headline: "Your server answered 401 Unauthorized"
	Happened string   // what happened, one or two sentences
	Causes   []string // why that usually is, the most likely first
	Fixes    []string // what to do, in order
	Retry    Retry
	Counts   bool // counts against the endpoint's health
	Help     Help
}

// RetryText is Retry as a sentence.
func (v Verdict) RetryText() string {
	switch v.Retry {
	case NotNeeded:
		return "Nothing more is sent."
	case ByPreset:
		return "We try again on the schedule, or stop at once if the endpoint's preset says so for configuration errors."
	case Stops:
		return "We do not try again by ourselves. Resend it once the cause is mended."
	}
	return "We try again on the schedule."
}

// Explain finds the words for the facts. A class that it does not know reads as an attempt whose outcome is
// unknown.
func Explain(f Facts) Verdict {
	v := explain(f)
	v.Class = f.Class
	return v
}

func explain(f Facts) Verdict {
	switch f.Class {
	case Delivered:
		return delivered(f)
	case Status, Gone:
		return status(f)
	case Redirect:
		return redirect(f)
	case TLS:
		return tls(f)
	case Timeout, ConnectTimeout:
		return timeout(f)
	}
	if v, ok := fixed[f.Class]; ok {
		return v
	}
	return fixed[Unknown]
}

// Table is every row of the table, each from facts that lead to it, in the order in which a reader meets them
// on the way from us to the receiver's code. Documentation prints it.
func Table() []Verdict {
	facts := []Facts{
		{Class: BlockedAddress}, {Class: DNS}, {Class: Refused}, {Class: ConnectTimeout},
		{Class: TLS, Reason: Expired}, {Class: TLS, Reason: WrongName}, {Class: TLS, Reason: UnknownIssuer},
		{Class: TLS, Reason: Protocol}, {Class: TLS, Reason: ClientCertificate}, {Class: TLS, Reason: OtherTLS}, {Class: Timeout, Phase: "tls"}, {Class: Timeout, Phase: "write"}, {Class: Timeout, Phase: "wait"},
		{Class: Reset}, {Class: NotHTTP}, {Class: NoAnswer}, {Class: TooLargeHeader}, {Class: Redirect, Code: 301},
	}
	for _, code := range []int{400, 401, 403, 404, 405, 408, 410, 413, 415, 422, 429, 500, 502, 503, 504} {
		class := Status
		if code == 410 {
			class = Gone
		}
		facts = append(facts, Facts{Class: class, Code: code})
	}
	facts = append(facts,
		Facts{Class: Delivered, Code: 200}, Facts{Class: Delivered, Code: 200, Cut: true},
		Facts{Class: BadRequestConfig}, Facts{Class: Proxy}, Facts{Class: Canceled}, Facts{Class: Unknown})
	table := make([]Verdict, len(facts))
	for i, f := range facts {
		table[i] = Explain(f)
	}
	return table
}
