package receive

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/signing"
)

// Arrival is one request as the log may show it: enough to say what arrived, and no personal data (second seed,
// security checklist). Header values and the scalars of data are masked; what is left holds printable ASCII only.
type Arrival struct {
	At      time.Time
	Outcome Outcome
	Status  int
	// Reason is why it was refused or failed; empty with 200.
	Reason string
	// EventID is the verified id; empty for what was refused.
	EventID string
	// Scheme is the scheme whose signature matched.
	Scheme signing.Scheme
	Size   int // of the body, in bytes
	// Headers are "name: value", sorted, with *** for a value that may say too much.
	Headers []string
	// Body is the masked JSON, cut at 4 KiB, or "(not JSON)".
	Body string
	// Err is our own failure, for the log.
	Err error
}

// LogTo writes each arrival to l: as information, a failure of ours as an error.
func LogTo(l *slog.Logger) func(context.Context, Arrival) {
	return func(ctx context.Context, a Arrival) {
		level := slog.LevelInfo
		attrs := []slog.Attr{
			slog.String("outcome", string(a.Outcome)), slog.Int("status", a.Status), slog.String("event_id", a.EventID),
			slog.Int("size", a.Size), slog.Any("headers", a.Headers), slog.String("body", a.Body),
		}
		if a.Reason != "" {
			attrs = append(attrs, slog.String("reason", a.Reason))
		}
		if a.Err != nil {
			level = slog.LevelError
			attrs = append(attrs, slog.String("error", a.Err.Error()))
		}
		l.LogAttrs(ctx, level, "webhook arrived", attrs...)
	}
}

func arrival(at time.Time, req *http.Request, body []byte, a answer) Arrival {
	out := Arrival{At: at, Outcome: a.outcome, Status: a.status, Reason: a.reason, Scheme: a.scheme, Size: len(body),
		Headers: maskHeaders(req.Header), Body: maskBody(body), Err: a.err}
	if a.status == http.StatusOK || a.status == http.StatusServiceUnavailable {
		out.EventID = a.id
	}
	return out
}

const (
	masked         = "***"
	maxMaskedBody  = 4 << 10
	maxMaskedName  = 64
	maxMaskedValue = 200
	maxHeaders     = 50
)

// maskHeaders keeps the values of what every webhook has, and of a signature only its schemes.
func maskHeaders(h http.Header) []string {
	var out []string
	for name, values := range h {
		lower := strings.ToLower(name)
		for _, v := range values {
			switch lower {
			case "content-type", "content-length", "user-agent", "webhook-id", "webhook-timestamp":
				v = printable(v, maxMaskedValue)
			case "webhook-signature":
				v = maskSignature(v)
			default:
				v = masked
			}
			out = append(out, printable(lower, maxMaskedName)+": "+v)
		}
	}
	slices.Sort(out)
	if len(out) > maxHeaders {
		out = append(out[:maxHeaders], "…")
	}
	return out
}

// maskSignature shows that "v1,abc v1a,def" came, and not what would let somebody send it again.
func maskSignature(v string) string {
	var out []string
	for item := range strings.FieldsSeq(v) {
		if len(out) == 10 {
			out = append(out, "…")
			break
		}
		switch mark, _, _ := strings.Cut(item, ","); {
		case mark == "v1" || mark == "v1a":
			out = append(out, mark+","+masked)
		case strings.HasPrefix(item, "v1="):
			out = append(out, "v1="+masked)
		default:
			out = append(out, masked)
		}
	}
	return strings.Join(out, " ")
}

// printable replaces all but printable ASCII and cuts.
func printable(s string, most int) string {
	cut := ""
	if len(s) > most {
		s, cut = s[:most], "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s) + cut
}

// envelope are the members whose plain values are no personal data.
var envelope = map[jsontext.Pointer]bool{
	"/id": true, "/type": true, "/version": true, "/timestamp": true, "/occurred_at": true, "/sequence": true, "/test": true,
	"/resource/type": true, "/resource/id": true,
}

// maskBody keeps the shape of the JSON and the plain values of the envelope. Every other string becomes "***", every
// other number 0.
func maskBody(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	loose := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	in := jsontext.NewDecoder(bytes.NewReader(body), loose...)
	var text strings.Builder
	out := jsontext.NewEncoder(&text, loose...)
	cut := false
	for {
		if cut = out.OutputOffset() > maxMaskedBody; cut {
			break
		}
		token, err := in.ReadToken()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = out.WriteToken(maskToken(token, in))
		}
		if err != nil {
			return "(not JSON)"
		}
	}
	if cut && closeAll(out) != nil {
		return "(not JSON)"
	}
	shown := strings.TrimSpace(text.String())
	if shown == "" {
		return "(not JSON)"
	}
	return printable(shown, maxMaskedBody)
}

// closeAll ends what is open: the encoder gives out whole values only.
func closeAll(out *jsontext.Encoder) error {
	for out.StackDepth() > 0 {
		end := jsontext.EndArray
		if kind, length := out.StackIndex(out.StackDepth()); kind == '{' {
			if end = jsontext.EndObject; length%2 == 1 {
				end = jsontext.Null // a name waits for its value
			}
		}
		if err := out.WriteToken(end); err != nil {
			return err
		}
	}
	return nil
}

func maskToken(token jsontext.Token, in *jsontext.Decoder) jsontext.Token {
	kind, length := in.StackIndex(in.StackDepth())
	isName := kind == '{' && length%2 == 1
	// The depth first: a pointer is as long as it is deep.
	isEnvelope := func() bool { return in.StackDepth() <= 2 && envelope[in.StackPointer()] }
	switch token.Kind() {
	case '"':
		if plainText(token.String()) && (isName || isEnvelope()) {
			return token
		}
		return jsontext.String(masked)
	case '0':
		if isEnvelope() && len(token.String()) <= 20 {
			return token
		}
		return jsontext.Int(0)
	default:
		return token
	}
}

// plainText is what names, ids, types and times look like: no space, and no @.
func plainText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_-.:+", c) >= 0:
		default:
			return false
		}
	}
	return len(s) <= maxMaskedName
}
