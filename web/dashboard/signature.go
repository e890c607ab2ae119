package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/signing"
	"waybill/app/signing/lab"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	recentRequests = 6        // that the lab offers
	maxShownBody   = 64 << 10 // a larger one does not stand in the form
)

// signature is the signature lab: empty, or with the request of an attempt, examined as it was sent.
func (d *Dashboard) signature(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	sheet := page.SignatureLab{Head: head}
	if sheet.Recent, err = d.recentRequests(r.Context(), v, e.ID); err != nil {
		return err
	}
	query := r.URL.Query()
	if deliveryID := query.Get("delivery"); deliveryID != "" {
		sent, err := d.sentRequest(r.Context(), v, e.ID, deliveryID, query.Get("attempt"))
		if err != nil {
			return err
		}
		sent.show(v, &sheet)
		if sent.body != nil {
			in := lab.Input{Headers: sent.headers(), Body: sent.body, Sent: sent.body, At: sent.attempt.StartedAt}
			if sheet.Report, err = d.examine(r.Context(), v, e, in); err != nil {
				return err
			}
		}
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// signatureCheck examines what was pasted. It changes nothing, so there is nothing to redirect to.
func (d *Dashboard) signatureCheck(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	sheet := page.SignatureLab{
		Head: head, Headers: r.PostForm.Get("headers"), Body: r.PostForm.Get("body"), Computed: field(r, "computed"), Fingerprint: field(r, "fingerprint"),
	}
	if sheet.Recent, err = d.recentRequests(r.Context(), v, e.ID); err != nil {
		return err
	}
	in := lab.Input{
		Headers: lab.ParseHeaders(sheet.Headers), Body: []byte(sheet.Body), Typed: true, At: v.clock.Now, Late: true, Computed: sheet.Computed, Fingerprint: sheet.Fingerprint,
	}
	if sheet.Problems = signatureProblems(sheet, in); sheet.Problems != nil {
		return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
	}
	if deliveryID := field(r, "delivery"); deliveryID != "" {
		sent, err := d.sentRequest(r.Context(), v, e.ID, deliveryID, field(r, "attempt"))
		if err != nil {
			return err
		}
		typed := sheet
		sent.show(v, &sheet)
		sheet.Headers, sheet.Body = typed.Headers, typed.Body
		if sheet.Body == "" && len(sent.body) > maxShownBody {
			in.Body, in.Typed = sent.body, false
		}
		if sent.stamped(in.Headers) {
			in.At, in.Late = sent.attempt.StartedAt, false
		}
	}
	if in.Sent, err = d.sentBody(r.Context(), v, e.ID, in.Headers); err != nil {
		return err
	}
	if sheet.Report, err = d.examine(r.Context(), v, e, in); err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func signatureProblems(sheet page.SignatureLab, in lab.Input) page.Problems {
	problems := page.Problems{}
	switch {
	case len(sheet.Headers) > lab.MaxHeaders:
		problems["headers"] = fmt.Sprintf("They have more than %d KiB. Leave out what is not of this request.", lab.MaxHeaders>>10)
	case len(in.Headers) == 0:
		problems["headers"] = "Paste the headers of the request, webhook-id, webhook-timestamp and webhook-signature at least."
	}
	if len(in.Body) > lab.MaxBody {
		problems["body"] = fmt.Sprintf("It has more than %d KiB. Pick the attempt instead.", lab.MaxBody>>10)
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// examine runs the checks, and puts what they found into the page's words.
func (d *Dashboard) examine(ctx context.Context, v view, e endpoint.Endpoint, in lab.Input) (*page.SignatureReport, error) {
	in.When = v.clock.Time
	report, err := d.Endpoints.Examine(ctx, v.caller, e.ID, in)
	if err != nil {
		return nil, err
	}
	shown := &page.SignatureReport{Verifies: report.Verifies, Summary: report.Summary}
	words := map[lab.Mark]string{lab.Pass: "passed", lab.Warn: "to know", lab.Fail: "failed", lab.Skip: "not checked"}
	tones := map[lab.Mark]ui.Tone{lab.Pass: ui.Good, lab.Warn: ui.Wait, lab.Fail: ui.Bad, lab.Skip: ui.Mute}
	for _, check := range report.Checks {
		shown.Checks = append(shown.Checks, page.SignatureCheck{Name: check.Name, Word: words[check.Mark], Tone: tones[check.Mark], Text: check.Text, Fix: check.Fix})
	}
	return shown, nil
}

// sentRequest is an attempt's request.
type sentRequest struct {
	story
	attempt delivery.Attempt
}

// sentRequest finds an attempt of an endpoint's delivery, the last one unless another is named.
func (d *Dashboard) sentRequest(ctx context.Context, v view, endpointID, deliveryID, attemptID string) (sentRequest, error) {
	s, err := d.read(ctx, v, deliveryID)
	if err != nil {
		return sentRequest{}, err
	}
	if s.EndpointID != endpointID || len(s.attempts) == 0 {
		return sentRequest{}, fault.New(fault.NotFound, "There is no such request of this endpoint.")
	}
	if attemptID == "" {
		return sentRequest{s, s.attempts[0]}, nil
	}
	a, err := s.attempt(attemptID)
	return sentRequest{s, a}, err
}

// headers are those that say what the request is.
func (s sentRequest) headers() []signing.Header {
	var list []signing.Header
	for _, h := range s.attempt.Request.Headers {
		if !h.Hidden && strings.HasPrefix(strings.ToLower(h.Name), "webhook-") {
			list = append(list, signing.Header{Name: h.Name, Value: h.Value})
		}
	}
	return list
}

// stamped says whether headers have the timestamp of this attempt.
func (s sentRequest) stamped(headers []signing.Header) bool {
	for _, ours := range s.headers() {
		for _, theirs := range headers {
			if strings.EqualFold(ours.Name, signing.HeaderTimestamp) && strings.EqualFold(theirs.Name, signing.HeaderTimestamp) && ours.Value == theirs.Value {
				return true
			}
		}
	}
	return false
}

// show fills the form with the request.
func (s sentRequest) show(v view, sheet *page.SignatureLab) {
	sheet.Delivery, sheet.Attempt = s.ID, s.attempt.ID
	sheet.About = fmt.Sprintf("This is attempt %d of %s, as it was sent at %s.", s.attempt.Number, s.Type, v.clock.Time(s.attempt.StartedAt))
	var lines []string
	for _, h := range s.headers() {
		lines = append(lines, h.Name+": "+h.Value)
	}
	sheet.Headers = strings.Join(lines, "\n")
	switch {
	case !may(v.caller, account.CatalogRead):
		sheet.BodyNote = "Your access does not include payloads: paste what your server got."
	case s.body == nil:
		sheet.BodyNote = "The body is not kept any more: paste what your server got."
	case len(s.body) > maxShownBody:
		sheet.BodyNote = fmt.Sprintf("The body has %s and is left out of the form. Left empty, it is the one that we sent.", ui.Size(int64(len(s.body))))
	default:
		sheet.Body = string(s.body)
	}
}

// sentBody is what was sent to the endpoint under the id that headers name; nil where that is not known, or not for the caller to see.
func (d *Dashboard) sentBody(ctx context.Context, v view, endpointID string, headers []signing.Header) ([]byte, error) {
	eventID := ""
	for _, h := range headers {
		if name := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(h.Name), "http_"), "_", "-"); name == signing.HeaderID {
			eventID = strings.TrimSpace(h.Value)
		}
	}
	if eventID == "" || !may(v.caller, account.CatalogRead) || !may(v.caller, account.DeliveriesRead) {
		return nil, nil
	}
	found, err := d.Deliveries.List(ctx, v.caller, delivery.Filter{EventID: eventID, EndpointID: endpointID}, "", 1)
	if fault.KindOf(err) == fault.Invalid || err == nil && len(found.Deliveries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body, _, err := d.Deliveries.Body(ctx, v.caller, found.Deliveries[0])
	return body, err
}

// recentRequests are the last deliveries that were attempted, to pick one from.
func (d *Dashboard) recentRequests(ctx context.Context, v view, endpointID string) ([]ui.Link, error) {
	if !may(v.caller, account.DeliveriesRead) {
		return nil, nil
	}
	found, err := d.Deliveries.List(ctx, v.caller, delivery.Filter{EndpointID: endpointID}, "", 2*recentRequests)
	if unavailable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var links []ui.Link
	for _, one := range found.Deliveries {
		if one.Attempts == 0 || len(links) == recentRequests {
			continue
		}
		links = append(links, ui.Link{
			Text: fmt.Sprintf("%s, %s, %s: %s", one.Type, one.ResourceID, v.clock.Time(one.CreatedAt), lower(one.Outcome())), Href: path.EndpointSignatureOf(endpointID, one.ID, ""),
		})
	}
	return links, nil
}
