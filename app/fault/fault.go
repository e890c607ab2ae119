// Package fault holds the one kind of error that people may see.
//
// It promises that an Error's Kind, Detail and Fields are meant for the reader of an API answer or of a
// page, and that its Err is not: Err is for the log. An error of any other type is Internal to its reader,
// whatever its text says. The package knows no other package of the house.
package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what sort of mistake an Error is; its text is stable and is the end of the problem type's URI.
type Kind string

// The kinds, each with the HTTP status it is answered with.
const (
	Malformed       Kind = "malformed"       // 400: the request cannot be read (syntax, encoding, a bad cursor)
	Unauthenticated Kind = "unauthenticated" // 401: nobody, or somebody unknown, asks
	Forbidden       Kind = "forbidden"       // 403: the caller is known and may not do this
	LimitReached    Kind = "limit-reached"   // 403: the account has as many of it as it may
	NotFound        Kind = "not-found"       // 404: it is not there, or belongs to another tenant
	Conflict        Kind = "conflict"        // 409: it clashes with what is stored
	InProgress      Kind = "in-progress"     // 409: the same call, by its Idempotency-Key, is being answered or was not answered to its end
	LeaseHeld       Kind = "lease-held"      // 409: another reader of the consumer is at work
	Gone            Kind = "gone"            // 410: it was there and will not come back
	CursorExpired   Kind = "cursor-expired"  // 410: the cursor is older than what is kept
	TooLarge        Kind = "too-large"       // 413: over a documented size
	Unsupported     Kind = "unsupported"     // 415: a content type or encoding that is not read here
	Invalid         Kind = "invalid"         // 422: readable, but a value breaks a rule; Fields say which
	KeyReused       Kind = "key-reused"      // 422: the Idempotency-Key was used for another call
	RateLimited     Kind = "rate-limited"    // 429: too many requests for this key or account
	Unavailable     Kind = "unavailable"     // 503: we cannot do it now; the same request may work later
	Internal        Kind = "internal"        // 500: our mistake
)

// Kinds lists every kind, in the order of their statuses.
func Kinds() []Kind {
	return []Kind{Malformed, Unauthenticated, Forbidden, LimitReached, NotFound, Conflict, InProgress, LeaseHeld, Gone, CursorExpired,
		TooLarge, Unsupported, Invalid, KeyReused, RateLimited, Internal, Unavailable}
}

// Status is the HTTP status of k; a kind that is not in Kinds is 500.
func (k Kind) Status() int {
	switch k {
	case Malformed:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case Forbidden, LimitReached:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case Conflict, InProgress, LeaseHeld:
		return http.StatusConflict
	case Gone, CursorExpired:
		return http.StatusGone
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Unsupported:
		return http.StatusUnsupportedMediaType
	case Invalid, KeyReused:
		return http.StatusUnprocessableEntity
	case RateLimited:
		return http.StatusTooManyRequests
	case Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// Slug is the last part of the problem type's URI (RFC 9457, section 3.1.1): lower-case letters and hyphens.
// A kind that is not in Kinds is "internal".
func (k Kind) Slug() string {
	if k.Status() == http.StatusInternalServerError {
		return string(Internal)
	}
	return string(k)
}

// Title is the short, constant sentence of k (RFC 9457, section 3.1.3): "Not found".
func (k Kind) Title() string {
	switch k {
	case Malformed:
		return "The request cannot be read"
	case Unauthenticated:
		return "Sign in or send a valid key"
	case Forbidden:
		return "Not allowed"
	case LimitReached:
		return "A limit of this account is reached"
	case NotFound:
		return "Not found"
	case Conflict:
		return "In conflict with what is stored"
	case InProgress:
		return "The same call is under way"
	case LeaseHeld:
		return "Another reader is at work"
	case Gone:
		return "No longer there"
	case CursorExpired:
		return "The cursor is too old"
	case TooLarge:
		return "Too large"
	case Unsupported:
		return "Unsupported content"
	case Invalid:
		return "A value is not valid"
	case KeyReused:
		return "The Idempotency-Key was used for another call"
	case RateLimited:
		return "Too many requests"
	case Unavailable:
		return "Not available now"
	default:
		return "Something went wrong on our side"
	}
}

// Field is what is wrong with one input. Name is the input's name as its sender wrote it, with dots and
// indexes for what lies deeper ("events[3].type"); Detail says what is allowed.
type Field struct {
	Name   string
	Detail string
}

// Error is an error that people may see. Detail and Fields are shown; Err is only logged.
type Error struct {
	Kind   Kind
	Detail string
	Fields []Field
	Err    error
}

// New makes an Error whose detail, one sentence, is shown as it stands.
func New(kind Kind, detail string) *Error {
	return &Error{Kind: kind, Detail: detail}
}

// Newf is New with a format. What is formatted in is shown too.
func Newf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error that shows detail and keeps err for the log and for errors.Is and errors.As.
func Wrap(kind Kind, detail string, err error) *Error {
	return &Error{Kind: kind, Detail: detail, Err: err}
}

// Field adds a field to e and returns e, so that calls chain. It changes e: not for an Error that is shared.
func (e *Error) Field(name, detail string) *Error {
	e.Fields = append(e.Fields, Field{Name: name, Detail: detail})
	return e
}

// OrNil is e when it has fields and a plain nil otherwise: the end of a check that collects fields.
func (e *Error) OrNil() error {
	if e == nil || len(e.Fields) == 0 {
		return nil
	}
	return e
}

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// maxText bounds what Error returns, in bytes, so that nobody's input fills the log.
const maxText = 2000

// Error is the text for the log: kind, detail, fields and cause in one line of at most 2,000 bytes, with
// control characters, line ends and broken UTF-8 escaped. It is not what people are shown; that is Detail.
func (e *Error) Error() string {
	if e == nil {
		return "internal: a nil fault was returned as an error"
	}
	var b strings.Builder
	b.WriteString(e.Kind.Slug())
	if e.Detail != "" {
		b.WriteString(": ")
		b.WriteString(cut(e.Detail, maxText))
	}
	for i, f := range e.Fields {
		if b.Len() > maxText {
			break
		}
		b.WriteString([]string{" (", "; "}[min(i, 1)])
		b.WriteString(cut(f.Name, maxText))
		b.WriteString(": ")
		b.WriteString(cut(f.Detail, maxText))
	}
	if len(e.Fields) > 0 {
		b.WriteByte(')')
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(cut(e.Err.Error(), maxText))
	}
	return oneLine(b.String())
}

// KindOf is the kind of the first Error in err's chain. Without one, a deadline that passed is Unavailable
// (a busy database must not look like a missing right or a broken program) and all else is Internal.
// KindOf(nil) is the empty Kind.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return From(err).Kind
}

// From is the Error to show for err: the first one in its chain, or one made from KindOf's rule whose Err
// is err and whose Detail gives nothing away. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Wrap(Unavailable, "That took too long. Please try again in a moment.", err)
	}
	return Wrap(Internal, "Something went wrong on our side. Please try again; if it stays, tell us the request id.", err)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// oneLine escapes what could forge a second log line or move a terminal's cursor, and cuts at maxText.
func oneLine(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if b.Len() >= maxText-len("…")-len(`\U0010ffff`) {
			b.WriteString("…")
			break
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += n
	}
	return b.String()
}
