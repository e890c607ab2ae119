package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"waybill/app/account"
	"waybill/app/egress"
	"waybill/app/endpoint"
	"waybill/app/fault"
	"waybill/app/inbox"
	"waybill/app/signing"
	"waybill/web/page"
	"waybill/web/path"
	"waybill/web/ui"
)

const (
	// pointers is how many endpoints that point at an inbox are named.
	pointers = 5
	// reachWithin is how long an inbox that has received nothing yet is tried: somebody waits for the page.
	reachWithin = 3 * time.Second
	// An endpoint made for an inbox is kept below the rate that the inbox takes.
	inboxPerSecond, inboxConcurrency = 5, 2
)

var inboxLimits = page.InboxLimits{
	Inboxes: strconv.Itoa(inbox.MaxInboxes), Requests: strconv.Itoa(inbox.Kept), Body: strconv.Itoa(inbox.MaxBody>>10) + " KB",
	Rate: strconv.Itoa(inbox.Rate) + " requests a second", Life: days(inbox.Life),
}

// inboxes lists the tenant's inboxes.
func (d *Dashboard) inboxes(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	list, err := d.Inboxes.List(r.Context(), caller)
	if err != nil {
		return err
	}
	sheet := page.Inboxes{MayManage: may(caller, account.EndpointsWrite), Full: len(list) >= inbox.MaxInboxes, Limits: inboxLimits}
	for _, b := range list {
		row := page.InboxRow{ID: b.ID, URL: b.URL, Stamp: inboxStamp(b), Answer: replyWords(b.Reply), Received: b.Received, Ends: v.clock.Moment(b.ExpiresAt)}
		if b.LastAt != nil {
			row.Last = v.clock.Moment(*b.LastAt)
		}
		sheet.Rows = append(sheet.Rows, row)
	}
	return d.show(w, r, v, http.StatusOK, sheet)
}

func inboxStamp(b inbox.Inbox) ui.Stamp {
	if b.Ended {
		return ui.Stamp{Tone: ui.Mute, Word: "Ended"}
	}
	return ui.Stamp{Tone: ui.Good, Word: "Receiving"}
}

// replyWords is an answer in words.
func replyWords(r inbox.Reply) string {
	switch r.Answer {
	case inbox.TooMany:
		return fmt.Sprintf("429, Retry-After %d", r.Seconds)
	case inbox.Slow:
		return fmt.Sprintf("200 after %d s", r.Seconds)
	}
	return string(r.Answer)
}

// replyTone is what an answer means for a delivery.
func replyTone(r inbox.Reply) ui.Tone {
	switch r.Answer {
	case inbox.OK:
		return ui.Good
	case inbox.Slow:
		return ui.Wait
	}
	return ui.Bad
}

// inboxCreate makes an inbox and, where that is asked for, an endpoint that points at it.
func (d *Dashboard) inboxCreate(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	made, err := d.Inboxes.Create(r.Context(), caller, inbox.DefaultReply)
	if fault.KindOf(err) == fault.Conflict {
		return d.done(w, r, caller, path.Inboxes(), Note{Tone: ui.Wait, Text: faultOf(err).Detail})
	}
	if err != nil {
		return err
	}
	if field(r, "endpoint") == "" {
		return d.done(w, r, caller, path.Inbox(made.ID), Note{Text: "Inbox made."})
	}
	rate := inboxPerSecond
	_, err = d.Endpoints.Create(r.Context(), caller, endpoint.Input{URL: made.URL, Types: []string{"*"}, Description: "Inbox",
		Concurrency: inboxConcurrency, RatePerSecond: &rate})
	if problems, ok := refused(err, endpointFields); ok {
		return d.done(w, r, caller, path.Inbox(made.ID), Note{Tone: ui.Wait, Text: "Inbox made, but no endpoint can point at it. URL: " + cmp.Or(problems["url"], problems[""])})
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Inbox(made.ID), Note{Text: "Inbox made, and an endpoint that sends every event to it."})
}

// inbox is one inbox with its latest request in full.
func (d *Dashboard) inbox(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	return d.showInbox(w, r, caller, http.StatusOK, nil)
}

// showInbox shows an inbox; problems are those of the form that sets its answer.
func (d *Dashboard) showInbox(w http.ResponseWriter, r *http.Request, caller account.Caller, status int, problems page.Problems) error {
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	b, err := d.Inboxes.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	ends, err := d.Endpoints.At(r.Context(), caller, b.URL, pointers)
	if err != nil {
		return err
	}
	sheet := page.Inbox{
		ID: b.ID, URL: b.URL, Stamp: inboxStamp(b), Ended: b.Ended, Ends: v.clock.Moment(b.ExpiresAt), Received: b.Received, Refused: b.Refused,
		Answer: string(b.Reply.Answer), Seconds: strconv.Itoa(b.Reply.Seconds), Answers: page.InboxAnswers(ui.Span(d.Policies.First(v.tenant.Preset).Timeout)),
		MayManage: may(caller, account.EndpointsWrite), MayTest: may(caller, account.EndpointsWrite), Limits: inboxLimits, Problems: problems,
		Unread: !may(caller, account.DeliveriesRead), HiddenPayload: !may(caller, account.CatalogRead),
		Live: withQuery(path.InboxLive(b.ID), versionName, inboxVersion(b)),
	}
	if problems != nil {
		sheet.Answer, sheet.Seconds = field(r, "answer"), field(r, "seconds")
	}
	for _, e := range ends {
		sheet.Endpoints = append(sheet.Endpoints, endpointName(e.ID, e.URL, e.Description))
	}
	if b.Received == 0 && !b.Ended {
		sheet.Unreachable = d.unreachable(r.Context(), b.URL)
	}
	if !sheet.Unread {
		if err := d.fillInbox(r, v, b, ends, &sheet); err != nil {
			return err
		}
	}
	return d.show(w, r, v, status, sheet)
}

// unreachable says why our sender would not get to an inbox; empty if it would.
func (d *Dashboard) unreachable(ctx context.Context, address string) string {
	if _, refused := egress.CheckURL(address, d.Endpoints.URLs); refused != nil {
		return "Its URL is none that an endpoint can have: it " + refused.Fields[0].Detail + "."
	}
	for _, step := range d.Check(ctx, address, reachWithin) {
		if !step.OK {
			return "Its address, " + nameHost(address) + ", is not reached through the egress proxy: " + step.Detail + ". Whoever runs this installation gives it a public " +
				"address, or, on a development machine, allows it with WAYBILL_EGRESS_ALLOW."
		}
	}
	return ""
}

// fillInbox reads what has come: all of it in short, and the one that the address names, or the latest, in full.
func (d *Dashboard) fillInbox(r *http.Request, v view, b inbox.Inbox, ends []endpoint.Name, sheet *page.Inbox) error {
	list, err := d.Inboxes.Requests(r.Context(), v.caller, b.ID)
	if err != nil {
		return err
	}
	for _, one := range list {
		sheet.Requests = append(sheet.Requests, page.InboxStop{Number: strconv.FormatInt(one.Number, 10), Title: cmp.Or(ui.Tail(one.EventID), ui.Size(one.Size)),
			Note: "answered " + replyWords(one.Reply), Tone: replyTone(one.Reply), At: v.clock.Moment(one.ReceivedAt)})
	}
	number := r.PathValue("number")
	if number == "" {
		if len(list) == 0 {
			return nil
		}
		number = sheet.Requests[0].Number
	}
	one, err := d.inboxRead(r.Context(), v.caller, b.ID, number)
	if err != nil {
		return err
	}
	check, err := d.checkSignature(r.Context(), v.caller, b.ID, one.Number, ends)
	if err != nil {
		return err
	}
	viewed := cmp.Or(r.URL.Query().Get("view"), ui.Pretty)
	shown := &page.InboxRequest{Number: number, Answer: "Answered " + replyWords(one.Reply), At: v.clock.Moment(one.ReceivedAt), Event: one.EventID, Check: check, View: viewed,
		Message: page.Message{Line: "POST " + endpointName("", b.URL, "").Path, Size: ui.Size(one.Size), Body: ui.NewBody(one.Body, one.Size, viewed)}}
	for _, header := range one.Headers {
		line := ui.Header{Name: ui.Visible(header.Name), Value: ui.Visible(header.Value)}
		if header.Hidden {
			line.Value, line.Note = "••••••••", "hidden: it may be a static header of an endpoint"
		}
		shown.Message.Headers = append(shown.Message.Headers, line)
	}
	sheet.Shown = shown
	return nil
}

// inboxRead is the request that a number in an address names.
func (d *Dashboard) inboxRead(ctx context.Context, caller account.Caller, inboxID, number string) (inbox.Request, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != number {
		return inbox.Request{}, fault.New(fault.NotFound, "There is no such request.")
	}
	return d.Inboxes.Request(ctx, caller, inboxID, n)
}

// signatureWords say why a signature does not verify, where the reason of package signing needs more.
var signatureWords = map[signing.Reason]string{
	signing.MissingHeader: "It has no signature: it was not sent by us.",
	signing.NoMatch:       "No signature matches a live secret: the body or the headers were changed, another secret was used, or somebody else sent it.",
}

// checkSignature checks a request against the secrets of the endpoints that point at the inbox.
func (d *Dashboard) checkSignature(ctx context.Context, caller account.Caller, inboxID string, number int64, ends []endpoint.Name) (page.InboxCheck, error) {
	if len(ends) == 0 {
		return page.InboxCheck{Tone: ui.Mute, Title: "The signature is not checked", Text: "No endpoint of yours points here, so there is no secret to check it with."}, nil
	}
	signed, err := d.Inboxes.Signed(ctx, caller, inboxID, number)
	if err != nil {
		return page.InboxCheck{}, err
	}
	if signed.Cut {
		return page.InboxCheck{Tone: ui.Mute, Title: "The signature is not checked", Text: "The body is longer than what is kept of it."}, nil
	}
	bad := page.InboxCheck{Tone: ui.Bad, Title: "The signature does not verify"}
	for _, end := range ends {
		got, err := d.Endpoints.Verify(ctx, caller, end.ID, signed.Header, signed.Body, signed.ReceivedAt)
		if fault.KindOf(err) == fault.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return page.InboxCheck{}, err
		}
		if got.OK {
			return page.InboxCheck{Tone: ui.Good, Title: "The signature verifies", Text: fmt.Sprintf("It was signed with the secret %s of %s, scheme %s, and its timestamp was "+
				"within five minutes of its arrival.", got.Fingerprint, titleOf(endpointName(end.ID, end.URL, end.Description)), got.Scheme)}, nil
		}
		bad.Text = cmp.Or(signatureWords[got.Reason], sentence(got.Detail))
	}
	return bad, nil
}

// inboxBody is what is kept of a request's body.
func (d *Dashboard) inboxBody(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.CatalogRead); err != nil {
		return err
	}
	one, err := d.inboxRead(r.Context(), caller, r.PathValue("id"), r.PathValue("number"))
	if err != nil {
		return err
	}
	return writeText(w, one.Body)
}

// inboxVersion changes with what an inbox's page shows.
func inboxVersion(b inbox.Inbox) string {
	return "v" + hash(fmt.Sprint(b.Received, b.Refused, b.Reply, b.ExpiresAt.Unix(), b.Ended))
}

// inboxLive says when something has come.
func (d *Dashboard) inboxLive(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	inboxID := r.PathValue("id")
	if _, err := d.Inboxes.Read(r.Context(), caller, inboxID); err != nil {
		return err
	}
	return d.stream(w, r, caller, "inbox "+inboxID, func(ctx context.Context) ([]item, error) {
		b, err := d.Inboxes.Read(ctx, caller, inboxID)
		if fault.KindOf(err) == fault.NotFound {
			return nil, nil // deleted: the page is reloaded and says so
		}
		if err != nil {
			return nil, err
		}
		return []item{{ID: b.ID, Version: inboxVersion(b)}}, nil
	})
}

// inboxAnswer sets what an inbox answers.
func (d *Dashboard) inboxAnswer(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	inboxID := r.PathValue("id")
	reply := inbox.Reply{Answer: inbox.Answer(field(r, "answer"))}
	reply.Seconds, _ = strconv.Atoi(field(r, "seconds")) // what is no number is 0, which is refused
	err := d.Inboxes.SetReply(r.Context(), caller, inboxID, reply)
	if problems, ok := refused(err, map[string]string{"answer": "answer", "seconds": "seconds"}); ok {
		return d.showInbox(w, r, caller, statusOf(err), problems)
	}
	if err != nil {
		return err
	}
	return d.done(w, r, caller, path.Inbox(inboxID), Note{Text: "From now on it answers " + replyWords(reply) + "."})
}

// inboxExtend lets an inbox live on.
func (d *Dashboard) inboxExtend(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	inboxID := r.PathValue("id")
	if err := d.Inboxes.Extend(r.Context(), caller, inboxID); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Inbox(inboxID), Note{Text: "The inbox goes on for " + inboxLimits.Life + " from now."})
}

// inboxDeleteAsk asks before an inbox is deleted.
func (d *Dashboard) inboxDeleteAsk(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := caller.Can(account.EndpointsWrite); err != nil {
		return err
	}
	v, err := d.view(r, caller)
	if err != nil {
		return err
	}
	b, err := d.Inboxes.Read(r.Context(), caller, r.PathValue("id"))
	if err != nil {
		return err
	}
	ends, err := d.Endpoints.At(r.Context(), caller, b.URL, pointers)
	if err != nil {
		return err
	}
	var names []page.EndpointName
	for _, e := range ends {
		names = append(names, endpointName(e.ID, e.URL, e.Description))
	}
	return d.show(w, r, v, http.StatusOK, page.DeleteInbox(b.ID, b.URL, b.Received, names))
}

// inboxDelete deletes an inbox.
func (d *Dashboard) inboxDelete(w http.ResponseWriter, r *http.Request, caller account.Caller) error {
	if err := d.Inboxes.Delete(r.Context(), caller, r.PathValue("id")); err != nil {
		return err
	}
	return d.done(w, r, caller, path.Inboxes(), Note{Text: "Inbox deleted."})
}
