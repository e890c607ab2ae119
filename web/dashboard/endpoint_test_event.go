package dashboard

import (
	"context"
	"net/http"
	"time"

	"waybill/app/account"
	"waybill/app/catalog"
	"waybill/app/delivery"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	// answerWithin is how long sending a test event waits for the answer before it shows a page that waits for it.
	answerWithin = 3 * time.Second
	answerLook   = 50 * time.Millisecond
)

// usualPayload is the data of a test event of a type without an example.
const usualPayload = "{\n  \"message\": \"This is a test event of Waybill.\"\n}"

// endpointTest is the tab that sends a test event and shows the answer.
func (d *Dashboard) endpointTest(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, e, head, err := d.tab(r, caller)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	sheet, err := d.testSheet(r.Context(), caller, e, head, query.Get("type"))
	if err != nil {
		return err
	}
	if sent := query.Get("delivery"); sent != "" {
		if err := d.testAnswer(r.Context(), v, e, sent, &sheet); err != nil {
			return err
		}
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

// testSheet is the form: the catalog's types, those that the endpoint is subscribed to first, and the example of the chosen one.
func (d *Dashboard) testSheet(ctx context.Context, caller account.Caller, e endpoint.Endpoint, head page.EndpointHead, chosen string) (page.EndpointTest, error) {
	sheet := page.EndpointTest{Head: head, Type: chosen, Payload: usualPayload, MaySend: head.MayManage}
	if !sheet.MaySend {
		sheet.Why = "Your role can look, but not send test events."
	}
	var types []catalog.EventType
	if may(caller, account.CatalogRead) {
		var err error
		if types, err = d.catalog(ctx, caller); err != nil {
			return sheet, err
		}
	}
	known := map[string]bool{}
	offer := func(name, note string) {
		if name != "" && !known[name] {
			known[name] = true
			sheet.Types = append(sheet.Types, ui.Option{Value: name, Text: name + note})
		}
	}
	for _, pattern := range e.Types {
		if pattern[len(pattern)-1] != '*' {
			offer(pattern, "")
		}
	}
	for _, t := range types {
		if subscribed(e, t.Name) {
			offer(t.Name, "")
		}
	}
	for _, t := range types {
		offer(t.Name, " (not subscribed)")
	}
	offer(chosen, "")
	if len(sheet.Types) == 0 {
		offer("test.sent", "")
	}
	if sheet.Type == "" {
		sheet.Type = sheet.Types[0].Value
	}
	for _, t := range types {
		if t.Name == sheet.Type && t.Example != nil {
			sheet.Payload = indented(t.Example)
		}
	}
	return sheet, nil
}

// testAnswer puts what became of a test event beside the form.
func (d *Dashboard) testAnswer(ctx context.Context, v view, e endpoint.Endpoint, deliveryID string, sheet *page.EndpointTest) error {
	s, err := d.read(ctx, v, deliveryID)
	if fault.KindOf(err) == fault.NotFound || err == nil && (s.EndpointID != e.ID || !s.Test) {
		sheet.Sent, sheet.Waiting, sheet.Moment = deliveryID, err != nil, v.clock.Moment(v.clock.Now)
		if err == nil {
			sheet.Sent = ""
		}
		return nil
	}
	if err != nil {
		return err
	}
	sheet.Sent, sheet.Moment = s.ID, v.clock.Moment(s.CreatedAt)
	sheet.Live = withQuery(path.DeliveryLive(s.ID), versionName, deliveryVersion(s.Delivery))
	if len(s.attempts) == 0 {
		sheet.Waiting = true
		return nil
	}
	answer := attemptSheet(v, s, s.attempts[0], ui.Pretty)
	sheet.Answer = &answer
	return nil
}

// endpointTestSend sends a test event, and waits a little: most servers answer before one could look again.
func (d *Dashboard) endpointTestSend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	endpointID, eventType, payload := r.PathValue("id"), field(r, "type"), r.PostForm.Get("payload")
	tested, err := d.Endpoints.SendTest(r.Context(), caller, endpointID, endpoint.TestInput{Type: eventType, Data: []byte(payload)})
	if problems, ok := refused(err, map[string]string{"data": "payload"}); ok {
		v, e, head, err := d.tab(r, caller)
		if err != nil {
			return err
		}
		sheet, err := d.testSheet(r.Context(), caller, e, head, eventType)
		if err != nil {
			return err
		}
		sheet.Payload, sheet.Problems = payload, problems
		return d.show(w, r, v, http.StatusUnprocessableEntity, sheet)
	}
	if err != nil {
		return err
	}
	d.await(r.Context(), caller, tested.DeliveryID)
	return d.redirect(w, r, withQuery(path.EndpointTest(endpointID), "type", tested.Type)+"&delivery="+tested.DeliveryID)
}

// await returns when the delivery has been attempted and, if it was accepted, the endpoint is known to work: that is noted a moment later, and the page
// would contradict itself. It gives up after answerWithin.
func (d *Dashboard) await(ctx context.Context, caller account.Caller, deliveryID string) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	tick := time.NewTicker(answerLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, err := d.Deliveries.Read(ctx, caller, deliveryID)
		if err != nil || one.Attempts == 0 && one.Status == delivery.Pending {
			continue
		}
		if one.Status != delivery.Delivered {
			return
		}
		if e, err := d.Endpoints.Read(ctx, caller, one.EndpointID); err != nil || e.VerifiedAt != nil {
			return
		}
	}
}
