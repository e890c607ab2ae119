package receive

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"waybill/app/signing"
)

// Inbox stores what arrives.
type Inbox interface {
	// Insert stores m unless a message of its id is there already, and reports whether it was new.
	Insert(ctx context.Context, m Message) (bool, error)
}

// Limits of a Receiver that says nothing else.
const (
	DefaultMaxBody = 1 << 20 // bytes; an event of Waybill has at most some 260 KiB

	readTimeout   = 10 * time.Second // for the whole body: a sender that trickles holds no connection
	insertTimeout = 5 * time.Second  // less than a sender waits
)

// Receiver is the http.Handler of one endpoint. It answers
//
//	200  the message is in the inbox, whether it was new or a repeat
//	400  a header is missing or malformed, or the body broke off
//	401  no signature matches, or the timestamp is more than the tolerance away
//	405  the method is not POST
//	413  the body is over the limit
//	503  the inbox could not store it: the sender tries again
//
// with a sentence that names the reason and quotes nothing. It does not look into the body, with one exception: the
// hex scheme does not sign webhook-id, so there the id is the body's.
type Receiver struct {
	// Keys gives the keys to verify with, asked for each request so that a rotation needs no restart.
	Keys func() []signing.Key
	// Inbox stores.
	Inbox Inbox
	// Stored, unless nil, is called after a new message was stored: Worker.Wake.
	Stored func()
	// Log, unless nil, is told of every request, masked.
	Log func(context.Context, Arrival)
	// MaxBody is the largest body in bytes; 0 is DefaultMaxBody.
	MaxBody int64
	// Tolerance is how far the timestamp may be off; 0 is signing.Tolerance.
	Tolerance time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Outcome is what became of a request.
type Outcome string

// The outcomes of a request.
const (
	Stored  Outcome = "stored"
	Repeat  Outcome = "repeat"  // stored before
	Refused Outcome = "refused" // the request's fault
	Failed  Outcome = "failed"  // our fault; the sender tries again
)

// answer is how one request ends.
type answer struct {
	status  int
	outcome Outcome
	reason  string // one sentence, empty with 200
	id      string
	scheme  signing.Scheme
	err     error // for the log
}

// ServeHTTP receives one webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	now := r.now()
	var body []byte
	a := answer{status: http.StatusMethodNotAllowed, outcome: Refused, reason: "A webhook is a POST."}
	if req.Method == http.MethodPost {
		body, a = r.read(w, req)
		if a.status == 0 {
			a = r.receive(req, body, now)
		}
	} else {
		w.Header().Set("Allow", http.MethodPost)
	}
	if a.outcome == Stored && r.Stored != nil {
		r.Stored()
	}
	// Before the answer: whoever has the answer may ask the log.
	if r.Log != nil {
		r.Log(req.Context(), arrival(now, req, body, a))
	}
	if a.reason != "" {
		http.Error(w, a.reason, a.status)
		return
	}
	w.WriteHeader(a.status)
}

// read gives back the raw body, or an answer with a status.
func (r *Receiver) read(w http.ResponseWriter, req *http.Request) ([]byte, answer) {
	limit := r.MaxBody
	if limit <= 0 {
		limit = DefaultMaxBody
	}
	// Not every ResponseWriter has deadlines; those of net/http have.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, answer{status: http.StatusRequestEntityTooLarge, outcome: Refused, reason: "The body is too large."}
	}
	if err != nil {
		return nil, answer{status: http.StatusBadRequest, outcome: Refused, reason: "The body did not arrive whole.", err: err}
	}
	return body, answer{}
}

func (r *Receiver) receive(req *http.Request, body []byte, now time.Time) answer {
	tolerance := r.Tolerance
	if tolerance == 0 {
		tolerance = signing.Tolerance
	}
	match, err := signing.Verify(req.Header, body, r.Keys(), now, tolerance)
	if err != nil {
		a := answer{status: http.StatusUnauthorized, outcome: Refused, reason: err.Error()}
		switch signing.ReasonOf(err) {
		case signing.MissingHeader, signing.BadHeader, signing.BadTimestamp:
			a.status = http.StatusBadRequest
		}
		return a
	}
	a := answer{id: match.ID, scheme: match.Scheme}
	m := Message{ID: match.ID, Body: body, ReceivedAt: now}
	if match.Scheme == signing.Hex {
		e, err := m.Event()
		if err != nil || !plainID(e.ID) {
			a.status, a.outcome, a.reason = http.StatusBadRequest, Refused, "The body holds no event id, and this scheme does not sign the header's."
			return a
		}
		m.ID, a.id = e.ID, e.ID
	}
	ctx, cancel := context.WithTimeout(req.Context(), insertTimeout)
	defer cancel()
	isNew, err := r.Inbox.Insert(ctx, m)
	switch {
	case err != nil:
		a.status, a.outcome, a.reason, a.err = http.StatusServiceUnavailable, Failed, "It could not be stored. Please send it again.", err
	case isNew:
		a.status, a.outcome = http.StatusOK, Stored
	default:
		a.status, a.outcome = http.StatusOK, Repeat
	}
	return a
}

func (r *Receiver) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// plainID is what signing.Verify asks of an id in a header.
func plainID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '.' {
			return false
		}
	}
	return id != "" && len(id) <= 256
}
