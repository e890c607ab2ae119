package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/verdict"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxSiblings is how many events of its resource stand beside an event.
const maxSiblings = 20

// event is one event: its body, what became of it at each endpoint and why, and its neighbours.
func (d *Dashboard) event(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	event, err := d.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	sheet := page.Event{
		ID: event.ID, Type: event.Type, ResourceType: event.ResourceType, Resource: event.ResourceID, Sequence: event.Sequence, Version: strconv.Itoa(event.Version),
		Published: v.clock.Moment(event.PublishedAt), Occurred: v.clock.Moment(event.OccurredAt), Test: event.Test,
		MayExpunge: may(caller, account.SettingsWrite),
	}
	if event.ExpungedAt != nil {
		sheet.Expunged = &page.Expunged{At: v.clock.Moment(*event.ExpungedAt), By: by(event.ExpungedBy)}
	} else {
		sum := sha256.Sum256(event.Body)
		sheet.Body, sheet.Size, sheet.Digest = ui.NewBody(event.Body, int64(len(event.Body)), ui.Pretty), ui.Size(int64(len(event.Body))), hex.EncodeToString(sum[:])
	}
	wrong, err := d.Types.Breaks(r.Context(), caller, event)
	if err != nil {
		return err
	}
	for _, field := range wrong {
		sheet.Mistakes = append(sheet.Mistakes, page.Mistake{Where: field.Name, Text: field.Detail})
	}
	if sheet.Whys, err = d.whys(r.Context(), v, event); err != nil {
		return err
	}
	if err := d.siblings(r.Context(), v, event, &sheet); err != nil {
		return err
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// eventBody is the event's bytes, as text.
func (d *Dashboard) eventBody(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	event, err := d.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeText(w, event.Body)
}

// eventExpungeAsk asks before an event's content is taken out.
func (d *Dashboard) eventExpungeAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.SettingsWrite); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	event, err := d.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	outcomes, err := d.Deliveries.Outcomes(r.Context(), caller, []catalog.Event{event})
	if err != nil {
		return err
	}
	counts := outcomes[event.ID]
	waiting := counts[delivery.Pending] + counts[delivery.Held] + counts[delivery.Undelivered]
	return d.show(w, r, v, http.StatusOK, page.ExpungeEvent(event.ID, event.Type+" of "+event.ResourceID, int64(waiting)))
}

// eventExpunge takes an event's content out.
func (d *Dashboard) eventExpunge(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.SettingsWrite); err != nil {
		return err
	}
	event, err := d.Events.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	done, err := d.Deliveries.Expunge(r.Context(), caller, event)
	if err != nil {
		return err
	}
	text := "The event's content is expunged."
	if done.Cancelled > 0 {
		text += " " + ui.Count(int64(done.Cancelled), "delivery was", "deliveries were") + " cancelled."
	}
	return d.done(w, r, caller, path.Event(event.ID), Note{Text: text})
}

// siblings are the resource's events, the highest sequence first.
func (d *Dashboard) siblings(ctx context.Context, v view, event catalog.Event, sheet *page.Event) error {
	found, err := d.Events.Newest(ctx, v.caller, catalog.EventFilter{ResourceType: event.ResourceType, ResourceID: event.ResourceID}, "", maxSiblings)
	if err != nil {
		return err
	}
	all := found.Events
	if !slices.ContainsFunc(all, func(other catalog.Event) bool { return other.ID == event.ID }) {
		all = append(all, event) // a test, or older than the others that are shown
	}
	slices.SortStableFunc(all, func(a, b catalog.Event) int { return cmp.Compare(b.Sequence, a.Sequence) })
	for _, other := range all {
		sheet.Shadowed = sheet.Shadowed || other.Sequence > event.Sequence
		sheet.Siblings = append(sheet.Siblings, page.Sibling{
			ID: other.ID, Type: other.Type, Sequence: other.Sequence, At: v.clock.Moment(other.PublishedAt), This: other.ID == event.ID})
	}
	return nil
}

// whys says for each endpoint what became of the event there: first those where something is to be done.
func (d *Dashboard) whys(ctx context.Context, v view, event catalog.Event) ([]page.Why, error) {
	if !may(v.caller, account.DeliveriesRead) {
		return nil, nil
	}
	lines, err := d.Deliveries.Why(ctx, v.caller, event)
	if err != nil {
		return nil, err
	}
	endpoints, err := d.endpointsByID(ctx, v.caller)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(lines, func(a, b delivery.Line) int { return cmp.Compare(whyOrder(a), whyOrder(b)) })
	var whys []page.Why
	for _, line := range lines {
		name := page.EndpointName{ID: line.EndpointID, Name: line.EndpointDescription, Host: line.EndpointHost}
		if e, known := endpoints[line.EndpointID]; known {
			name = nameOf(e)
		}
		whys = append(whys, page.Why{Endpoint: name, Stamp: whyStamp(line), Reason: whyReason(v, line, event), Delivery: line.DeliveryID, Action: whyAction(v, line)})
	}
	return whys, nil
}

// whyOrder puts what needs somebody first and what has nothing to do with the event last.
func whyOrder(line delivery.Line) int {
	return slices.Index([]delivery.Cause{
		delivery.NotAllowed, delivery.IsUndelivered, delivery.IsExpired, delivery.IsHeld, delivery.IsRetrying, delivery.IsOnWire, delivery.IsWaiting, delivery.WasDelivered,
		delivery.WasCancelled, delivery.NotSubscribed, delivery.ChangedLater, delivery.CreatedLater,
	}, line.Cause)
}

var whyStamps = map[delivery.Cause]ui.Stamp{
	delivery.WasDelivered: {Tone: ui.Good, Word: "Delivered"}, delivery.IsOnWire: {Tone: ui.Info, Word: "Sending"}, delivery.IsRetrying: {Tone: ui.Wait, Word: "Retrying"},
	delivery.IsWaiting: {Tone: ui.Info, Word: "Waiting"}, delivery.IsHeld: {Tone: ui.Hold, Word: "Held"}, delivery.IsUndelivered: {Tone: ui.Bad, Word: "Undelivered"},
	delivery.NotAllowed: {Tone: ui.Bad, Word: "Not allowed"}, delivery.IsExpired: {Tone: ui.Mute, Word: "Expired"}, delivery.WasCancelled: {Tone: ui.Mute, Word: "Cancelled"},
	delivery.NotSubscribed: {Tone: ui.Mute, Word: "Not subscribed"}, delivery.CreatedLater: {Tone: ui.Mute, Word: "Added later"}, delivery.ChangedLater: {Tone: ui.Mute, Word: "Subscribed later"},
}

func whyStamp(line delivery.Line) ui.Stamp {
	if line.Cause == delivery.IsRetrying && line.N <= 1 {
		return ui.Stamp{Tone: ui.Info, Word: "Pending"}
	}
	return whyStamps[line.Cause]
}

// whyReason says in words why an event did or did not arrive.
func whyReason(v view, line delivery.Line, event catalog.Event) string {
	at := ""
	if line.At != nil {
		at = v.clock.Time(*line.At)
	}
	switch line.Cause {
	case delivery.WasDelivered:
		if line.N > 1 {
			return fmt.Sprintf("by attempt %d, %s", line.N, at)
		}
		return "on the first attempt, " + at
	case delivery.IsOnWire:
		return fmt.Sprintf("attempt %d of %d is on the wire now", line.N, line.Of)
	case delivery.IsRetrying:
		return answered(line) + fmt.Sprintf("attempt %d of %d is due at %s", line.N, line.Of, at)
	case delivery.IsWaiting:
		return waitingReason(line, at)
	case delivery.IsHeld:
		if line.Fix == delivery.FixEnable {
			state, reason, _ := strings.Cut(line.Reason, ": ")
			if reason == "gone" {
				return state + " by us since " + at + ": your server answered 410 Gone"
			}
			return state + " by " + by(line.By) + " since " + at
		}
		return "its endpoint was off, and is active again: what was held waits for you"
	case delivery.IsUndelivered:
		return answered(line) + lower(whyParked(line.Reason))
	case delivery.NotAllowed:
		return "the endpoint's name leads to an address that we do not send to"
	case delivery.IsExpired:
		return "too old to be resent; the event is here, and in the API"
	case delivery.WasCancelled:
		if line.Reason == delivery.ReasonExpunged {
			return "the event's content was expunged"
		}
		return "the endpoint was deleted"
	case delivery.NotSubscribed:
		return "to " + event.Type
	case delivery.CreatedLater:
		return "the endpoint did not exist yet"
	case delivery.ChangedLater:
		return "it is subscribed to " + event.Type + " now, and was not then"
	}
	return ""
}

func waitingReason(line delivery.Line, at string) string {
	behind := "it is next"
	switch {
	case line.N >= 1000:
		behind = "behind more than 1,000 others"
	case line.N > 0:
		behind = "behind " + ui.Count(int64(line.N), "other", "others") + " of this endpoint"
	}
	if at != "" {
		behind += "; the endpoint fails, so one at a time is tried, the next at " + at
	}
	return behind
}

// answered says what the last attempt met, for the start of a sentence.
func answered(line delivery.Line) string {
	if line.Class == "" {
		return ""
	}
	return lower(verdict.Explain(verdict.Facts{Class: verdict.Class(line.Class), Code: line.Code}).Title) + "; "
}

// whyAction is the step that helps, for whoever may take it.
func whyAction(v view, line delivery.Line) ui.Link {
	manage, resend := may(v.caller, account.EndpointsWrite), may(v.caller, account.DeliveriesResend)
	switch line.Fix {
	case delivery.FixResend:
		return ui.Link{Text: "See what to mend", Href: path.Delivery(line.DeliveryID)}
	case delivery.FixRecover:
		if resend {
			return ui.Link{Text: "Resend…", Href: path.DeliveryResend(line.DeliveryID)}
		}
	case delivery.FixEnable:
		if manage {
			return ui.Link{Text: "Enable…", Href: path.EndpointEnable(line.EndpointID)}
		}
	case delivery.FixSubscribe:
		if manage {
			return ui.Link{Text: "Change subscriptions", Href: path.EndpointSettings(line.EndpointID)}
		}
	case delivery.FixURL:
		if manage {
			return ui.Link{Text: "Change the URL", Href: path.EndpointSettings(line.EndpointID)}
		}
	}
	return ui.Link{}
}

// matches says whether a type is of a filter's type or prefix.
func matches(pattern, eventType string) bool { return endpoint.Matches(pattern, eventType) }
