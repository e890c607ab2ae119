package dashboard

import (
	"net/http"
	"strconv"
	"strings"

	"waybill/app/account"
	"waybill/app/notice"
	"waybill/web/page"
	"waybill/web/ui"
)

// The mailbox shows the mails of all tenants, with the links in them, to whoever asks: it is only there where Config.Mailbox is, on a machine
// for development or a demo.

// mails lists what was, or would be, sent.
func (d *Dashboard) mails(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	all, err := d.Mailbox.List(r.Context())
	if err != nil {
		return err
	}
	clock, frame := d.anybody(r)
	sheet := page.Mails{Sent: d.Mailbox.Wake != nil}
	for _, m := range all {
		sheet.Rows = append(sheet.Rows, page.MailRow{ID: m.ID, To: m.To, Subject: m.Subject, At: clock.Moment(m.CreatedAt), Stamp: mailStamp(m, sheet.Sent)})
	}
	return write(w, r, http.StatusOK, sheet, frame)
}

func mailStamp(m notice.Mail, sent bool) ui.Stamp {
	switch {
	case m.SentAt != nil:
		return ui.Stamp{Tone: ui.Good, Word: "Sent"}
	case m.Dropped:
		return ui.Stamp{Tone: ui.Bad, Word: "Not sent", Note: m.Problem}
	case m.Problem != "":
		return ui.Stamp{Tone: ui.Wait, Word: "Tried again", Note: m.Problem}
	case sent:
		return ui.Stamp{Tone: ui.Wait, Word: "Waiting"}
	}
	return ui.Stamp{Tone: ui.Mute, Word: "Kept here"}
}

// anybody is the frame and the clock of whoever looks, signed in or not.
func (d *Dashboard) anybody(r *http.Request) (ui.Clock, ui.Frame) {
	if caller, err := d.Sessions.Caller(r); err == nil {
		if v, err := d.view(r, caller); err == nil {
			return v.clock, v.frame
		}
	}
	return ui.Clock{Now: d.Now(), Zone: zone("UTC")}, ui.Frame{}
}

// mail shows one mail, its HTML in a frame of its own.
func (d *Dashboard) mail(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	m, err := d.Mailbox.Read(r.Context(), r.PathValue("mail"))
	if err != nil {
		return err
	}
	clock, frame := d.anybody(r)
	w.Header().Set("Content-Security-Policy", w.Header().Get("Content-Security-Policy")+"; frame-src 'self'")
	return write(w, r, http.StatusOK, page.Mail{
		ID: m.ID, From: "Waybill", To: m.To, Subject: m.Subject, At: clock.Moment(m.CreatedAt), Text: m.Text, HTML: true,
	}, frame)
}

// mailHTML is the HTML form as it is sent. It may be framed by our own page, runs nothing and fetches nothing; mail programs want styles inline.
func (d *Dashboard) mailHTML(w http.ResponseWriter, r *http.Request, _ account.Caller) error {
	m, err := d.Mailbox.Read(r.Context(), r.PathValue("mail"))
	if err != nil {
		return err
	}
	document := []byte(strings.Replace(m.HTML, "<head>", `<head><base target="_top">`, 1))
	header := w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "+
		"sandbox allow-popups allow-top-navigation-by-user-activation")
	header.Set("X-Frame-Options", "SAMEORIGIN")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(document)))
	_, _ = w.Write(document)
	return nil
}
