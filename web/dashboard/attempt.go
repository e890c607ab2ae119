package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// verdict says in words how an attempt ended.
func (s story) verdict(a delivery.Attempt) verdict.Verdict {
	return explained(a, s.EndpointHost, s.policy.Timeout)
}

// explained says in words how an attempt at a host ended, with everything that its evidence tells.
func explained(a delivery.Attempt, host string, timeout time.Duration) verdict.Verdict {
	facts := verdict.Facts{
		Class: verdict.Class(a.Class), Code: a.Code, Reason: a.Cause, Phase: a.Cause, Host: host, Timeout: timeout,
	}
	if a.Response != nil {
		facts.Cut = a.Response.Note != "" && a.Response.Size > int64(len(a.Response.Body)) || strings.Contains(a.Response.Note, "broke off")
		for _, header := range a.Response.Headers {
			if strings.EqualFold(header.Name, "location") {
				facts.Location = ui.Visible(header.Value)
			}
		}
	}
	if a.TLS != nil && a.TLS.NotAfter.Before(a.StartedAt) { // else it is not valid yet
		facts.Expiry = a.TLS.NotAfter
	}
	return verdict.Explain(facts)
}

// stop is an attempt in the timeline; attempts are counted from the last.
func (s story) stop(v view, i int) page.AttemptStop {
	a := s.attempts[i]
	words := s.verdict(a)
	stop := page.AttemptStop{
		ID: a.ID, Number: a.Number, Stamp: ui.Stamp{Tone: attemptTone(words), Word: words.Short}, Title: words.Title, At: v.clock.Moment(a.StartedAt),
		Trigger: triggerNote(a),
	}
	if a.Total > 0 {
		stop.Took = ui.Span(a.Total)
	}
	if i+1 < len(s.attempts) {
		before := s.attempts[i+1]
		stop.Gap = ui.Span(max(a.StartedAt.Sub(before.StartedAt.Add(before.Total)), 0)) + " later"
	}
	return stop
}

func attemptTone(words verdict.Verdict) ui.Tone {
	switch words.Class {
	case verdict.Delivered:
		return ui.Good
	case verdict.Proxy, verdict.Canceled, verdict.Unknown:
		return ui.Mute
	}
	return ui.Bad
}

// triggerNote says why an attempt was made, unless it was the schedule's turn.
func triggerNote(a delivery.Attempt) string {
	switch a.Trigger {
	case "manual":
		return "Resent by " + by(a.RequestedBy)
	case "recover":
		return "Catch-up of " + by(a.RequestedBy)
	case "test":
		return "Test by " + by(a.RequestedBy)
	case "probe":
		return "Probe"
	}
	return ""
}

func triggerSentence(a delivery.Attempt) string {
	if note := triggerNote(a); note != "" {
		return note
	}
	return "Sent by the schedule"
}

// attemptSheet is the evidence of an attempt, its bodies in one of ui's views.
func attemptSheet(v view, s story, a delivery.Attempt, viewed string) page.Attempt {
	sheet := page.Attempt{
		ID: a.ID, Number: a.Number, Trigger: triggerSentence(a), At: v.clock.Moment(a.StartedAt), Verdict: s.verdict(a), After: s.after(v, a),
		Phases: phases(a), Reached: reached(v, a), Request: s.request(a, viewed), View: viewed,
	}
	if s.endpoint != nil && may(v.caller, account.EndpointsRead) {
		sheet.Help, sheet.Lab = page.HelpLink(sheet.Verdict.Help, s.EndpointID), path.EndpointSignatureOf(s.EndpointID, s.ID, a.ID)
		if sheet.Verdict.Help == verdict.Signature {
			sheet.Help.Href = sheet.Lab
		}
	}
	if a.Response != nil {
		answer := response(a, viewed)
		sheet.Response = &answer
	}
	return sheet
}

// after says what followed an attempt; empty when the verdict's own rule says it.
func (s story) after(v view, a delivery.Attempt) string {
	for i, one := range s.attempts {
		if one.ID == a.ID && i > 0 {
			next := s.attempts[i-1]
			return fmt.Sprintf("Attempt %d came %s later.", next.Number, ui.Span(max(next.StartedAt.Sub(a.StartedAt.Add(a.Total)), 0)))
		}
	}
	switch {
	case s.Status == delivery.Undelivered && s.Reason == "schedule_exhausted":
		return "It was the last attempt of the schedule."
	case s.Status == delivery.Undelivered && s.Reason == "configuration_error":
		return "We do not try again by ourselves: it would not help before something is changed."
	case s.Status == delivery.Pending && s.NextAt != nil && s.NextAt.After(v.clock.Now):
		return "We try again at " + v.clock.Time(*s.NextAt) + "."
	case s.Test && s.Status == delivery.Undelivered:
		return "A test event is tried once."
	}
	return ""
}

// phases is where an attempt's time went.
func phases(a delivery.Attempt) ui.Phases {
	all := ui.Phases{Total: a.Total}
	for _, part := range []ui.Phase{{Name: "Connect", Took: a.Connect}, {Name: "TLS", Took: a.Handshake}, {Name: "Waiting", Took: a.Wait}, {Name: "Reading", Took: a.Read}} {
		if part.Took > 0 {
			all.Parts = append(all.Parts, part)
		}
	}
	return all
}

// reached is what was found at the other end.
func reached(v view, a delivery.Attempt) []page.Fact {
	var facts []page.Fact
	if a.Remote != "" {
		facts = append(facts, page.Fact{Name: "Address", Value: a.Remote})
	}
	if a.TLS != nil && a.TLS.Version != "" {
		facts = append(facts, page.Fact{Name: "TLS", Value: strings.TrimPrefix(a.TLS.Version, "TLS ")})
	}
	if a.Proto != "" {
		facts = append(facts, page.Fact{Name: "Protocol", Value: a.Proto})
	}
	if a.TLS != nil && !a.TLS.NotAfter.IsZero() {
		facts = append(facts, page.CertificateFact(v.clock, a.TLS.NotAfter))
	}
	return facts
}

// request is what was sent, with the lines that the client adds by itself.
func (s story) request(a delivery.Attempt, viewed string) page.Message {
	target, host := "…", ""
	if parsed, err := url.Parse(a.Request.URL); err == nil {
		host = parsed.Host
		if !a.Request.Hidden {
			target = parsed.RequestURI()
		}
	}
	proto := a.Proto
	if proto == "" {
		proto = "HTTP/1.1"
	}
	message := page.Message{
		Line: "POST " + target + " " + proto, Headers: []ui.Header{{Name: "Host", Value: host}},
		Size: ui.Size(int64(a.Request.BodySize)), Digest: s.digest, Body: ui.NewBody(s.body, int64(a.Request.BodySize), viewed),
	}
	if s.Expunged() {
		message.Body.Note = "Taken out with the event's content."
	}
	for _, header := range a.Request.Headers {
		message.Headers = append(message.Headers, headerLine(header))
	}
	message.Headers = append(message.Headers, ui.Header{Name: "Content-Length", Value: strconv.Itoa(a.Request.BodySize)})
	return message
}

func headerLine(header delivery.Header) ui.Header {
	if header.Hidden {
		return ui.Header{Name: ui.Visible(header.Name), Value: "••••••••", Note: "a static header of this endpoint, hidden"}
	}
	return ui.Header{Name: ui.Visible(header.Name), Value: ui.Visible(header.Value)}
}

// response is what came back.
func response(a delivery.Attempt, viewed string) page.Message {
	message := page.Message{
		Line: strings.TrimSpace(fmt.Sprintf("%s %d %s", a.Proto, a.Code, http.StatusText(a.Code))),
		Body: ui.NewBody(a.Response.Body, max(a.Response.Size, int64(len(a.Response.Body))), viewed), Size: ui.Size(a.Response.Size),
	}
	if a.Response.Note != "" {
		message.Body.Note = strings.TrimSpace(message.Body.Note + " " + sentence(a.Response.Note))
	}
	for _, header := range a.Response.Headers {
		message.Headers = append(message.Headers, headerLine(header))
	}
	return message
}

// evidence finds an attempt with the delivery's body, for those who may see payloads.
func (d *Dashboard) evidence(r *http.Request, caller account.Caller) (story, delivery.Attempt, error) {
	if err := caller.Can(account.CatalogRead); err != nil {
		return story{}, delivery.Attempt{}, err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return story{}, delivery.Attempt{}, err
	}
	s, err := d.read(r.Context(), v, r.PathValue("id"))
	if err != nil {
		return story{}, delivery.Attempt{}, err
	}
	a, err := s.attempt(r.PathValue("attempt"))
	return s, a, err
}

// attemptCurl is the attempt's request as a curl command.
func (d *Dashboard) attemptCurl(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	s, a, err := d.evidence(r, caller)
	if err != nil {
		return err
	}
	return writeText(w, []byte(a.Request.Curl(s.body)))
}

// attemptHTTP is the attempt's request as an HTTP/1.1 message.
func (d *Dashboard) attemptHTTP(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	s, a, err := d.evidence(r, caller)
	if err != nil {
		return err
	}
	return writeText(w, []byte(a.Request.HTTP(s.body)))
}

// attemptResponse is the body that the receiver answered with.
func (d *Dashboard) attemptResponse(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	_, a, err := d.evidence(r, caller)
	if err != nil {
		return err
	}
	if a.Response == nil {
		return writeText(w, nil)
	}
	return writeText(w, a.Response.Body)
}

// lower is words as they stand inside a sentence.
func lower(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToLower(first)) + words[size:]
}
