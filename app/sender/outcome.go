package sender

import (
	"time"
)

// Class is how an attempt ended. The words are stored and never change their meaning.
type Class string

// The classes, in the order in which a request meets them. Only Delivered is a success. BlockedAddress, BadConfig,
// Proxy and Canceled say nothing about the receiver and do not count against its health.
const (
	BadConfig      Class = "bad_request_config" // the endpoint's own URL or headers cannot be sent; nothing was
	Proxy          Class = "proxy"              // our egress proxy is down, stuck or overloaded; nothing was sent
	BlockedAddress Class = "blocked_address"    // the proxy does not allow the address or port; nothing was sent
	DNS            Class = "dns"                // the name has no address, or the name servers are silent
	Refused        Class = "refused"            // nothing listens there, or there is no way to it
	ConnectTimeout Class = "connect_timeout"    // the connection was not accepted in time
	TLS            Class = "tls"                // TLSReason says why; nothing was sent that could be read
	Timeout        Class = "timeout"            // no whole answer in time; Phase says where it stood
	Reset          Class = "reset"              // the connection ended before a whole head of an answer
	NotHTTP        Class = "not_http"           // what answered is not HTTP
	TooLargeHeader Class = "too_large_header"   // the head of the answer has more than 64 KB (over HTTP/2: Reset)
	Redirect       Class = "redirect"           // 300 to 308 but 304; never followed
	Gone           Class = "gone"               // 410
	Status         Class = "status"             // any other status but 2xx, as odd as it may be
	Delivered      Class = "delivered"          // 200 to 299, whatever became of the body
	Canceled       Class = "canceled"           // the context ended; whether the receiver got it is unknown if Sent
)

// NoAnswer is the public word for Refused, ConnectTimeout, Reset and NotHTTP: see Class.Public.
const NoAnswer Class = "no_answer"

// Public is the class to tell somebody who may be using us to find out what listens where. Refused, filtered
// and wrong-protocol ports of somebody else's machine look the same to them, in Err and in the rest of an
// Outcome too, unless a valid certificate or an earlier answer showed that it is a web server. (How long it all
// took still tells a refusal from a silence.) All other classes are their own public word.
func (c Class) Public() Class {
	switch c {
	case Refused, ConnectTimeout, Reset, NotHTTP:
		return NoAnswer
	}
	return c
}

// The reasons of class TLS.
const (
	Expired           = "expired"            // or not valid yet
	WrongName         = "wrong_name"         // the certificate is for other names
	UnknownIssuer     = "unknown_issuer"     // also self-signed, and a missing intermediate
	Protocol          = "protocol"           // no version, cipher or certificate kind in common, or cut off in the handshake
	ClientCertificate = "client_certificate" // the server wants one of us
	OtherTLS          = "other"
)

// The phases of class Timeout.
const (
	PhaseTLS   = "tls"   // in the handshake
	PhaseWrite = "write" // the receiver did not take the whole request
	PhaseWait  = "wait"  // no whole head of an answer
)

// The notes on a body that was not read to its end.
const (
	NoteCut      = "only the beginning was read"
	NoteDeadline = "it did not end in time"
	NoteBroken   = "it broke off"
	NoteChunks   = "its chunks are malformed"
)

// Header is one header field. In a request it goes out in this case (HTTP/1.1) and at this place.
type Header struct {
	Name, Value string
}

// TLSState is what is known of the receiver's TLS: the session, or of a certificate that was not accepted only
// its own fields. Texts of the certificate are cleaned and cut.
type TLSState struct {
	Version    string    `json:"version,omitempty"`     // "TLS 1.3"
	Cipher     string    `json:"cipher,omitempty"`      // IANA's name
	ServerName string    `json:"server_name,omitempty"` // the name it was checked for
	NotAfter   time.Time `json:"not_after"`             // when the certificate ends
	Issuer     string    `json:"issuer,omitempty"`
	Resumed    bool      `json:"resumed,omitempty"` // the certificate is of the session that was resumed
}

// Outcome is one attempt's end and its evidence. What the receiver chose is bounded and cleaned: valid UTF-8
// without control characters, except Body, which holds its bytes as they came.
type Outcome struct {
	Class     Class
	TLSReason string // of class TLS
	Phase     string // of class Timeout

	Status        int    // as received, also when it is strange; 0: no whole head of an answer came
	StatusText    string // the reason phrase, at most 200 bytes
	Header        []Header
	HeaderCut     bool // there were more than Header holds
	Body          []byte
	BodySize      int64 // bytes seen; more than len(Body) when BodyTruncated
	BodyTruncated bool
	BodyNote      string   // one of the Note words when the body was not read to its end
	RetryAfter    []string // the values of Retry-After, at most four

	Proto      string    // "HTTP/1.1", "HTTP/2.0"; empty: no answer
	RemoteAddr string    // the address reached, host:port; the endpoint's own when the proxy does not tell
	TLS        *TLSState // nil over http:// and when no certificate was seen

	Started time.Time
	Connect time.Duration // to the proxy and through it; 0 when Reused
	TLSTime time.Duration // 0 when Reused and over http://
	Write   time.Duration
	Wait    time.Duration // from the request's last byte to the end of the answer's head
	Read    time.Duration
	Total   time.Duration
	Reused  bool // on a connection of an earlier attempt
	Sent    bool // at least one byte of the request left us: the receiver may have got it

	// Err is a fixed phrase, the same for all of a kind; empty when Delivered. It holds nothing that a receiver
	// wrote, no address and no part of the URL.
	Err string
}

// Cause is the one word behind the class: TLSReason or Phase. Most classes have none.
func (o *Outcome) Cause() string {
	if o.TLSReason != "" {
		return o.TLSReason
	}
	return o.Phase
}

// TimedOut says that the receiver took our time: the slot was held until the deadline.
func (o *Outcome) TimedOut() bool { return o.Class == Timeout || o.Class == ConnectTimeout }

// phrases are the Err of each class; TLS and Timeout add their cause.
var phrases = map[Class]string{
	BadConfig:      "the endpoint's URL or headers cannot be sent",
	Proxy:          "our way out to the internet failed; this is not the endpoint's fault",
	BlockedAddress: "the address is not allowed",
	DNS:            "the name does not resolve",
	Refused:        noAnswer,
	ConnectTimeout: noAnswer,
	TLS:            tlsPhrases[Protocol],
	Timeout:        phasePhrases[PhaseWait],
	Reset:          noAnswer,
	NotHTTP:        noAnswer,
	TooLargeHeader: "the head of the answer is too large",
	Redirect:       "the answer is a redirect, which is not followed",
	Gone:           "the answer says that the endpoint is gone",
	Status:         "the answer's status is not 2xx",
	Canceled:       "the attempt was stopped by us",
}

const noAnswer = "no HTTP answer: the connection was refused, not accepted or cut, or what answered does not speak HTTP"

var tlsPhrases = map[string]string{
	Expired:           "the TLS certificate has expired or is not valid yet",
	WrongName:         "the TLS certificate is for another name",
	UnknownIssuer:     "the TLS certificate is not from an issuer that is trusted, or an intermediate is missing",
	Protocol:          "no TLS session could be agreed on",
	ClientCertificate: "the server wants a client certificate",
	OtherTLS:          "the TLS certificate is not acceptable",
}

var phasePhrases = map[string]string{
	PhaseTLS:   "no TLS session in time",
	PhaseWrite: "the request was not taken in time",
	PhaseWait:  "no answer in time",
}

// failure is why an attempt has no answer, and how far it came.
type failure struct {
	class Class
	cause string // the Outcome's TLSReason or Phase
	alert bool   // the receiver ended the handshake with an alert

	tls              *TLSState
	remote           string // the address reached; empty: none
	connected, shook time.Duration
}

// Error makes failure an error for net/http, which carries it from a dial to us.
func (f *failure) Error() string { return string(f.class) + " " + f.cause }

func fail(class Class) *failure { return &failure{class: class} }

// fail ends the attempt with f.
func (o *Outcome) fail(f *failure) {
	o.Class = f.class
	o.Err = phrases[f.class]
	switch f.class {
	case TLS:
		o.TLSReason, o.Err = f.cause, tlsPhrases[f.cause]
	case Timeout:
		o.Phase, o.Err = f.cause, phasePhrases[f.cause]
	}
	if f.tls != nil {
		o.TLS = f.tls
	}
	if f.remote != "" {
		o.RemoteAddr = f.remote
	}
	if f.connected > 0 {
		o.Connect, o.TLSTime = f.connected, f.shook
	}
	if o.Class.Public() == NoAnswer && o.Status == 0 && o.TLS == nil && !o.Reused {
		// Nothing proved to be a web server: the evidence must not tell more than the class.
		o.RemoteAddr, o.Connect, o.TLSTime, o.Write, o.Wait = "", 0, 0, 0, 0
	}
}

// classify sets the class of an answer with o.Status.
func (o *Outcome) classify() {
	switch s := o.Status; {
	case s >= 200 && s <= 299:
		o.Class = Delivered
	case s >= 300 && s <= 308 && s != 304:
		o.Class = Redirect
	case s == 410:
		o.Class = Gone
	default:
		o.Class = Status
	}
	o.Err = phrases[o.Class]
}
