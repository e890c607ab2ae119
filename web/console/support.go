package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"waybill/app/account"
	"waybill/app/delivery"
	"waybill/app/fault"
	"waybill/app/operator"
	"waybill/app/verdict"
	"waybill/web/dashboard"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

// maxAttempts is how many attempts of a delivery its page has.
const maxAttempts = 100

// noDelivery are the words for endpoints to which an event did not go.
var noDelivery = map[delivery.Cause]string{
	delivery.NotSubscribed: "Not subscribed", delivery.CreatedLater: "Added later", delivery.ChangedLater: "Subscribed later", delivery.IsExpired: "No longer kept",
}

// event is an event of a tenant, with what became of it at each endpoint.
func (c *Console) event(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	e, err := c.Events.Read(r.Context(), in, r.PathValue("event"))
	if err != nil {
		return err
	}
	deliveries, err := c.Deliveries.List(r.Context(), in, delivery.Filter{EventID: e.ID}, "", pageRows)
	if err != nil {
		return err
	}
	why, err := c.Deliveries.Why(r.Context(), in, e)
	if err != nil {
		return err
	}
	sheet := page.ConsoleEvent{TenantUID: t.UID, Tenant: t.Name, ID: e.ID, Type: e.Type, Resource: e.ResourceID, ResourceType: e.ResourceType, Sequence: strconv.FormatInt(e.Sequence, 10),
		Published: v.clock.Moment(e.CreatedAt), Occurred: v.clock.Moment(e.OccurredAt), Test: e.Test, Body: ui.NewBody(e.Body, int64(len(e.Body)), ui.Pretty),
		Deliveries: deliverySection(v, t.UID, deliveries.Deliveries, why)}
	if e.ExpungedAt != nil {
		sheet.BodyNote = "Its content was taken out " + v.clock.Time(*e.ExpungedAt) + " UTC, by " + e.ExpungedBy + "."
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func deliverySection(v view, uid string, found []delivery.Delivery, why []delivery.Line) page.ConsoleSection {
	section := page.ConsoleSection{ID: "deliveries", Title: "Did it arrive?", None: "The tenant has no endpoint.", Grid: page.Grid{Label: "What became of it at each endpoint",
		Columns: []page.Column{{Name: "Endpoint"}, {Name: "Outcome"}, {Name: "Last answer"}, {Name: "Attempts", Number: true}, {Name: "Next"}}}}
	seen := map[string]bool{}
	for _, d := range found {
		seen[d.EndpointID] = true
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: d.EndpointHost, Small: d.ID, Href: path.ConsoleDelivery(uid, d.ID)}, outcomeCell(d), {Text: dashboard.AnswerText(d)},
			{Text: strconv.Itoa(d.Attempts)}, {When: optional(v.clock, d.NextAt)},
		})
	}
	for _, line := range why {
		words := noDelivery[line.Cause]
		if seen[line.EndpointID] || words == "" {
			continue
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{{Text: line.EndpointHost, Small: line.EndpointID}, {Stamp: ui.Stamp{Tone: ui.Mute, Word: words}}, {}, {}, {}})
	}
	return section
}

// outcomeCell is what became of a delivery, with what the stamp leaves out.
func outcomeCell(d delivery.Delivery) page.Cell {
	cell := page.Cell{Stamp: dashboard.DeliveryStamp(d)}
	if outcome := d.Outcome(); outcome != cell.Stamp.Word {
		cell.Small = outcome
	}
	return cell
}

// delivery is a delivery of a tenant with its attempts.
func (c *Console) delivery(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	v := c.view(r, who)
	in, t, err := c.Operators.Enter(r.Context(), who.Caller, r.PathValue("uid"))
	if err != nil {
		return err
	}
	d, err := c.Deliveries.Read(r.Context(), in, r.PathValue("delivery"))
	if err != nil {
		return err
	}
	attempts, err := c.Deliveries.Attempts(r.Context(), in, d.ID, "", maxAttempts)
	if err != nil {
		return err
	}
	refusal, err := c.Deliveries.Refusal(r.Context(), in, d.ID)
	if err != nil {
		return err
	}
	sheet := page.ConsoleDelivery{TenantUID: t.UID, Tenant: t.Name, ID: d.ID, Event: d.EventID, Type: d.Type, Resource: d.ResourceID, Endpoint: d.EndpointHost, EndpointID: d.EndpointID,
		Stamp: dashboard.DeliveryStamp(d), Published: v.clock.Moment(d.CreatedAt), Next: optional(v.clock, d.NextAt), MayResend: who.May(account.DeliveriesResend),
		Attempts: attemptSection(v, d, attempts.Attempts)}
	if outcome := d.Outcome(); outcome != sheet.Stamp.Word {
		sheet.Stamp.Note = outcome
	}
	if refusal != nil {
		sheet.NoResend = refusal.Detail
	}
	if len(attempts.Attempts) > 0 {
		sheet.Last = answer(d, attempts.Attempts[0])
	}
	return c.show(w, r, v, http.StatusOK, sheet)
}

func explain(d delivery.Delivery, a delivery.Attempt) verdict.Verdict {
	facts := verdict.Facts{Class: verdict.Class(a.Class), Code: a.Code, Reason: a.Cause, Phase: a.Cause, Host: d.EndpointHost}
	if a.TLS != nil {
		facts.Expiry = a.TLS.NotAfter
	}
	return verdict.Explain(facts)
}

func attemptSection(v view, d delivery.Delivery, attempts []delivery.Attempt) page.ConsoleSection {
	section := page.ConsoleSection{ID: "attempts", Title: "Attempts", None: "There was none yet.", Grid: page.Grid{Label: "Attempts, the last first",
		Columns: []page.Column{{Name: "Attempt"}, {Name: "When"}, {Name: "Answer"}, {Name: "Took", Number: true}, {Name: "Reached"}, {Name: "Asked for by"}}}}
	for _, a := range attempts {
		words := explain(d, a)
		tone := ui.Bad
		if words.Class == verdict.Delivered {
			tone = ui.Good
		}
		section.Grid.Rows = append(section.Grid.Rows, []page.Cell{
			{Text: fmt.Sprintf("%d, %s", a.Number, a.Trigger), Small: a.ID}, {When: v.clock.Moment(a.StartedAt)}, {Stamp: ui.Stamp{Tone: tone, Word: words.Short}, Small: words.Title},
			{Text: ui.Span(a.Total)}, {Text: a.Remote, Code: a.Remote != "", Small: a.Request.URL}, {Text: a.RequestedBy},
		})
	}
	return section
}

// answer is an attempt in words, with what came back.
func answer(d delivery.Delivery, a delivery.Attempt) *page.ConsoleAnswer {
	words := explain(d, a)
	sheet := &page.ConsoleAnswer{Title: words.Title, Happened: words.Happened, Causes: words.Causes, Fixes: words.Fixes}
	if a.Response != nil {
		sheet.Body = ui.NewBody(a.Response.Body, a.Response.Size, ui.Pretty)
	}
	return sheet
}

// resendAsk asks before a delivery is sent again.
func (c *Console) resendAsk(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	if err := may(who, account.DeliveriesResend); err != nil {
		return err
	}
	_, t, d, err := c.deliveryOf(r.Context(), who, r)
	if err != nil {
		return err
	}
	effects := []string{"It goes out now, in a request with the same webhook-id, whatever its schedule says.", "The tenant reads in its own log that the platform’s support resent it."}
	if d.Status == delivery.Delivered {
		effects = append(effects, "It was delivered already: its receiver gets it a second time.")
	}
	sheet := tenantAsk(t, ui.Confirm{Title: "Resend delivery", Verb: "Resend delivery", Action: path.ConsoleResend(t.UID, d.ID), Effects: effects})
	sheet.Ask.Object, sheet.Ask.Back = d.Type+" of "+d.ResourceID+" to "+d.EndpointHost, path.ConsoleDelivery(t.UID, d.ID)
	return c.show(w, r, c.view(r, who), http.StatusOK, sheet)
}

func (c *Console) deliveryOf(ctx context.Context, who operator.Session, r *http.Request) (account.Caller, account.Tenant, delivery.Delivery, error) {
	in, t, err := c.Operators.Enter(ctx, who.Caller, r.PathValue("uid"))
	if err != nil {
		return in, t, delivery.Delivery{}, err
	}
	d, err := c.Deliveries.Read(ctx, in, r.PathValue("delivery"))
	return in, t, d, err
}

// resend sends a delivery again.
func (c *Console) resend(w http.ResponseWriter, r *http.Request, who operator.Session) error {
	in, t, d, err := c.deliveryOf(r.Context(), who, r)
	if err != nil {
		return err
	}
	note := dashboard.Note{Text: "It is being sent again."}
	if _, err := c.Deliveries.Resend(r.Context(), in, d.ID); fault.KindOf(err) == fault.Conflict {
		note = dashboard.Note{Tone: ui.Wait, Text: dashboard.FaultOf(err).Detail}
	} else if err != nil {
		return err
	}
	return c.done(w, r, who, path.ConsoleDelivery(t.UID, d.ID), note)
}
