package dashboard

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/policy"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxStops is how many attempts a delivery's page has, and maxOthers how many other endpoints of its event.
const (
	maxStops  = 200
	maxOthers = 20
)

// story is everything that is known of a delivery.
type story struct {
	delivery.Delivery
	attempts []delivery.Attempt // the last one first
	endpoint *endpoint.Endpoint // nil: it was deleted
	policy   policy.Policy
	body     []byte
	digest   string
	others   []delivery.Delivery // of the same event
	refusal  *delivery.Refusal   // why it cannot be resent now
	expunged *catalog.Event      // its event, where the content was taken out
}

// read finds a delivery with all that its page tells.
func (d *Dashboard) read(ctx context.Context, v view, deliveryID string) (story, error) {
	var s story
	var err error
	if s.Delivery, err = d.Deliveries.Read(ctx, v.caller, deliveryID); err != nil {
		return s, err
	}
	attempts, err := d.Deliveries.Attempts(ctx, v.caller, deliveryID, "", maxStops)
	if err != nil {
		return s, err
	}
	s.attempts = attempts.Attempts
	preset := ""
	if may(v.caller, account.EndpointsRead) {
		e, err := d.Endpoints.Read(ctx, v.caller, s.EndpointID)
		switch {
		case err == nil:
			s.endpoint, preset = &e, e.Preset
		case fault.KindOf(err) != fault.NotFound:
			return s, err
		}
	}
	s.policy = d.Policies.First(preset, v.tenant.Preset)
	if s.Expunged() && may(v.caller, account.CatalogRead) {
		event, err := d.Events.Read(ctx, v.caller, s.EventID)
		switch {
		case err == nil:
			s.expunged = &event
		case fault.KindOf(err) != fault.NotFound:
			return s, err
		}
	}
	if may(v.caller, account.CatalogRead) {
		if s.body, s.digest, err = d.Deliveries.Body(ctx, v.caller, s.Delivery); err != nil {
			return s, err
		}
	}
	if may(v.caller, account.DeliveriesResend) {
		if s.refusal, err = d.Deliveries.Refusal(ctx, v.caller, deliveryID); err != nil {
			return s, err
		}
	}
	others, err := d.Deliveries.List(ctx, v.caller, delivery.Filter{EventID: s.EventID}, "", maxOthers)
	s.others = others.Deliveries
	return s, err
}

// name is the delivery's endpoint, as far as it is still known.
func (s story) name() page.EndpointName {
	if s.endpoint != nil {
		return nameOf(*s.endpoint)
	}
	return page.EndpointName{ID: s.EndpointID, Name: s.EndpointDescription, Host: s.EndpointHost}
}

// sequence is the event's, which stands in its body; -1 where that is not to be seen.
func (s story) sequence() int64 {
	var event struct {
		Sequence *int64 `json:"sequence"`
	}
	if json.Unmarshal(s.body, &event, jsontext.AllowDuplicateNames(true)) != nil || event.Sequence == nil {
		return -1
	}
	return *event.Sequence
}

// delivery is the page of one delivery, with its last attempt in full.
func (d *Dashboard) delivery(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showDelivery(w, r, caller, "")
}

// attempt is the same page with another attempt in full.
func (d *Dashboard) attempt(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showDelivery(w, r, caller, r.PathValue("attempt"))
}

func (d *Dashboard) showDelivery(w http.ResponseWriter, r *http.Request, caller account.Caller, attemptID string) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	s, err := d.read(r.Context(), v, r.PathValue("id"))
	if err != nil {
		return err
	}
	sheet := deliverySheet(v, s)
	if len(s.attempts) > 0 && attemptID == "" {
		attemptID = s.attempts[0].ID
	}
	if attemptID != "" {
		a, err := s.attempt(attemptID)
		if err != nil {
			return err
		}
		shown := attemptSheet(v, s, a, r.URL.Query().Get("view"))
		sheet.Attempt = &shown
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// attempt finds one of the delivery's attempts.
func (s story) attempt(attemptID string) (delivery.Attempt, error) {
	for _, a := range s.attempts {
		if a.ID == attemptID {
			return a, nil
		}
	}
	return delivery.Attempt{}, fault.New(fault.NotFound, "There is no such attempt.")
}

func deliverySheet(v view, s story) page.Delivery {
	sheet := page.Delivery{
		ID: s.ID, Event: s.EventID, Type: s.Type, ResourceType: s.ResourceType, Resource: s.ResourceID, Sequence: s.sequence(), Endpoint: s.name(),
		Stamp: deliveryStamp(s.Delivery), Story: s.tell(v), Published: v.clock.Moment(s.CreatedAt), Form: s.Form, Digest: s.digest, Test: s.Test,
		Size: "not kept any more", Resend: s.resend(v), HiddenPayload: !may(v.caller, account.CatalogRead), Waiting: s.waiting(v), Rest: s.rest(v),
		Live: withQuery(path.DeliveryLive(s.ID), versionName, deliveryVersion(s.Delivery)),
	}
	sheet.Stamp.Note = s.stampNote()
	switch {
	case s.Expunged():
		sheet.Size = "expunged"
	case s.body != nil:
		sheet.Size = ui.Size(int64(len(s.body)))
	case len(s.attempts) > 0:
		sheet.Size = ui.Size(int64(s.attempts[0].Request.BodySize))
	}
	for i := len(s.attempts) - 1; i >= 0; i-- {
		sheet.Stops = append(sheet.Stops, s.stop(v, i))
	}
	for _, other := range s.others {
		if other.ID != s.ID {
			name := page.EndpointName{Name: other.EndpointDescription, Host: other.EndpointHost}
			sheet.Others = append(sheet.Others, ui.Link{Text: titleOf(name) + ": " + lower(other.Outcome()), Href: path.Delivery(other.ID)})
		}
	}
	return sheet
}

// stampNote says how far the schedule has come.
func (s story) stampNote() string {
	switch {
	case s.Retrying():
		return fmt.Sprintf("%d of %d attempts failed", s.Failures, max(s.Scheduled, s.Failures))
	case s.Recovered():
		return lower(s.Outcome())
	}
	return ""
}

// tell says what became of the delivery, in a sentence or two.
func (s story) tell(v view) string {
	last := ""
	if len(s.attempts) > 0 {
		last = s.verdict(s.attempts[0]).Title
	}
	switch s.Status {
	case delivery.Delivered:
		text := "Delivered on the first attempt."
		if s.FinishedAt != nil && (s.Failures > 0 || s.Attempts > 1) {
			text = "Delivered " + ui.Span(s.FinishedAt.Sub(s.CreatedAt)) + " after it was published."
		}
		return text + s.expungement(v)
	case delivery.Undelivered:
		return sentence(last) + " " + undeliveredWords[s.Reason] + s.until(v)
	case delivery.Held:
		return "Its endpoint was off, so it is held, not lost." + s.until(v)
	case delivery.Cancelled:
		if s.Expunged() {
			return "It was cancelled." + s.expungement(v)
		}
		return "Its endpoint was deleted before it was delivered. The event is in the catalog."
	}
	switch {
	case s.NextTrigger == "manual":
		return "It is being sent again, as " + by(s.RequestedBy) + " asked."
	case s.Retrying() && s.NextAt != nil:
		return sentence(last) + fmt.Sprintf(" We try again at %s; %s left.", v.clock.Time(*s.NextAt),
			isAre(max(s.Scheduled-s.Failures, 0), "attempt is", "attempts are"))
	case s.Attempts > 0:
		return sentence(last) + " It is tried again."
	}
	return "Published, and about to be sent."
}

// expungement says when the content of its event was taken out, and by whom.
func (s story) expungement(v view) string {
	switch {
	case !s.Expunged():
		return ""
	case s.expunged == nil || s.expunged.ExpungedAt == nil:
		return " The content of its event was expunged."
	}
	return " Content expunged on " + v.clock.Day(*s.expunged.ExpungedAt) + " at " + v.clock.Time(*s.expunged.ExpungedAt) + " by " + by(s.expunged.ExpungedBy) + "."
}

// undeliveredWords say why nothing more is tried.
var undeliveredWords = map[string]string{
	"schedule_exhausted":  "Every attempt of the schedule failed.",
	"gone":                "Your server says that it is gone for good, so nothing more is sent to it.",
	"configuration_error": "Trying again would not help before something is changed.",
	"test_failed":         "A test event is tried once.",
}

// until says how long a parked delivery can still be resent.
func (s story) until(v view) string {
	if s.Test {
		return ""
	}
	return " It can be resent until " + v.clock.Day(s.CreatedAt.Add(s.policy.ResendWindow)) + "."
}

// resend says whether the delivery can be sent again now, and if not, why.
func (s story) resend(v view) page.Resend {
	switch {
	case !may(v.caller, account.DeliveriesResend):
		return page.Resend{}
	case s.refusal != nil:
		sheet := page.Resend{Why: s.refusal.Detail}
		if off := s.refusal.Reason == delivery.Paused || s.refusal.Reason == delivery.Disabled; off && may(v.caller, account.EndpointsWrite) {
			sheet.Help = ui.Link{Text: "Enable endpoint…", Href: path.EndpointEnable(s.EndpointID)}
		}
		return sheet
	}
	return page.Resend{Offered: true, Ask: s.Status == delivery.Delivered}
}

// waiting is what comes next, where anything does.
func (s story) waiting(v view) *page.Waiting {
	if s.NextAt == nil {
		return nil
	}
	next := &page.Waiting{Number: s.Attempts + 1}
	if s.NextTrigger == "first" || s.NextTrigger == "retry" {
		next.Of = max(s.Scheduled, s.Attempts+1)
	}
	if s.NextAt.After(v.clock.Now) {
		next.At = v.clock.Moment(*s.NextAt)
	} else {
		next.Reason = "Due: behind others of this endpoint, or on the wire now"
	}
	return next
}

// rest is the schedule after the attempt that comes next, if each fails: times before jitter.
func (s story) rest(v view) []page.Planned {
	if s.NextAt == nil || s.Status != delivery.Pending || s.Test || s.NextTrigger != "first" && s.NextTrigger != "retry" {
		return nil
	}
	var rest []page.Planned
	at := *s.NextAt
	if at.Before(v.clock.Now) {
		at = v.clock.Now
	}
	for i := s.Failures; i < len(s.policy.Waits); i++ {
		wait := s.policy.Waits[i]
		at = at.Add(wait)
		rest = append(rest, page.Planned{Number: s.Attempts + 2 + i - s.Failures, At: v.clock.Time(at), Wait: ui.Span(wait)})
	}
	return rest
}

// deliveryLive says when a delivery has changed.
func (d *Dashboard) deliveryLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	deliveryID := r.PathValue("id")
	if _, err := d.Deliveries.Read(r.Context(), caller, deliveryID); err != nil {
		return err
	}
	return d.stream(w, r, caller, "delivery "+deliveryID, func(ctx context.Context) ([]item, error) {
		one, err := d.Deliveries.Read(ctx, caller, deliveryID)
		if err != nil {
			return nil, err
		}
		return []item{{ID: one.ID, Version: deliveryVersion(one)}}, nil
	})
}

// by is an actor in words.
func by(actor string) string {
	switch actor {
	case "":
		return "somebody"
	case "system", "waybill":
		return "us"
	}
	return actor
}

func isAre(n int, one, many string) string { return ui.Count(int64(n), one, many) }
