package notice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"waybill/app/seal"
)

// SMTP is a mail server. It is a Carrier.
type SMTP struct {
	options []gomail.Option
	host    string
	from    *mail.Address
	domain  string // of message ids
}

// ParseSMTP reads WAYBILL_SMTP_URL:
//
//	smtp://user:password@host:587?from=Waybill+<hooks@example.com>
//	smtps://user:password@host:465
//
// With smtp the connection is encrypted by STARTTLS, which is demanded where a password is given, and used where it is offered elsewhere;
// starttls=never leaves it out. Without from, mails come from waybill@ and the host of base, our public address. Its errors never quote the
// URL: it holds a password.
func ParseSMTP(text seal.Secret, base string) (*SMTP, error) {
	u, err := url.Parse(text.Reveal())
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Path != "" && u.Path != "/" || u.Opaque != "" || u.Fragment != "" {
		return nil, errors.New("must be smtp://user:password@host:port or smtps://user:password@host:port, with ?from=address where it is not waybill@ and our own host")
	}
	home, err := url.Parse(base)
	if err != nil || home.Hostname() == "" {
		return nil, errors.New("needs the public address of the dashboard")
	}
	s := &SMTP{host: u.Hostname(), from: &mail.Address{Name: "Waybill", Address: "waybill@" + home.Hostname()}, domain: home.Hostname()}
	query := u.Query()
	starttls := query.Get("starttls")
	for name := range query {
		if name != "from" && name != "starttls" {
			return nil, fmt.Errorf("has the parameter %q; known are from and starttls", name)
		}
	}
	if from := query.Get("from"); from != "" {
		if s.from, err = mail.ParseAddress(from); err != nil {
			return nil, errors.New("has a from that is no mail address")
		}
	}
	password, hasPassword := u.User.Password()
	s.options = []gomail.Option{gomail.WithTimeout(tryFor), gomail.WithHELO(s.domain)}
	port := 587
	switch {
	case u.Scheme == "smtps":
		port = 465
		s.options = append(s.options, gomail.WithSSL())
	case starttls == "never":
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.NoTLS))
	case hasPassword || starttls == "required":
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case starttls == "" || starttls == "optional":
		s.options = append(s.options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	default:
		return nil, errors.New("has a starttls that is none of required, optional, never")
	}
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil || port < 1 || port > 65535 {
			return nil, errors.New("has a port that is no number from 1 to 65535")
		}
	}
	s.options = append(s.options, gomail.WithPort(port))
	if hasPassword {
		s.options = append(s.options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover), gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	if _, err := gomail.NewClient(s.host, s.options...); err != nil {
		return nil, fmt.Errorf("cannot be used: %w", err)
	}
	return s, nil
}

// From is whom mails come from.
func (s *SMTP) From() string { return s.from.String() }

// Open connects, encrypts and signs in.
func (s *SMTP) Open(ctx context.Context) (Connection, error) {
	client, err := gomail.NewClient(s.host, s.options...)
	if err != nil {
		return nil, fmt.Errorf("make the mail client: %w", err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		return nil, fmt.Errorf("reach the mail server: %w", err)
	}
	return &connection{smtp: s, client: client}, nil
}

type connection struct {
	smtp   *SMTP
	client *gomail.Client
}

// Send hands one mail over. The message id is the mail's own, so that whoever gets it twice can tell.
func (c *connection) Send(_ context.Context, m Mail) error {
	message := gomail.NewMsg()
	message.FromMailAddress(c.smtp.from)
	message.ToMailAddress(&mail.Address{Address: m.To})
	message.Subject(m.Subject)
	message.SetDateWithValue(m.CreatedAt)
	message.SetMessageIDWithValue(strings.ToLower(m.ID) + "@" + c.smtp.domain)
	message.SetUserAgent("Waybill")
	message.SetGenHeader("Auto-Submitted", "auto-generated")
	message.SetBodyString(gomail.TypeTextPlain, m.Text)
	message.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	err := c.client.Send(message)
	if err == nil || message.IsDelivered() { // after the hand-over, only tidying up can have failed
		return nil
	}
	var failed *gomail.SendError
	if !errors.As(err, &failed) || failed.ErrorCode() == 0 {
		return fmt.Errorf("the connection broke: %w", withoutAddress(err))
	}
	code := failed.ErrorCode()
	// A sender that is not taken is a mistake of the configuration, and no fault of this mail.
	return &Refusal{Final: code >= 500 && failed.Reason != gomail.ErrSMTPMailFrom, Code: code, Text: failed.Error()}
}

// withoutAddress keeps of an error what may stand in a log.
func withoutAddress(err error) error {
	var failed *gomail.SendError
	if errors.As(err, &failed) {
		return errors.New(failed.Reason.String())
	}
	var network net.Error
	if errors.As(err, &network) {
		return network
	}
	return errors.New("it ended")
}

func (c *connection) Close() { _ = c.client.Close() }
