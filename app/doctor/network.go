package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/url"
	"strings"

	"waybill/app/egress"
)

// address looks at the public address: links in mails and receivers' documentation begin with it.
func (o *Options) address(ctx context.Context, f *findings) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" {
		return // configuration has said so
	}
	host := u.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if ip := net.ParseIP(host); ip != nil {
		local = ip.IsLoopback()
		if !o.Development && !local {
			f.warn("Give it a name, with a certificate.", "WAYBILL_URL names an address, %s, instead of a name", host)
		}
	}
	switch {
	case local && !o.Development:
		f.fail("Set WAYBILL_URL to where browsers reach this program.", "WAYBILL_URL is %s, which nobody else reaches", o.URL)
		return
	case local:
		f.pass("%s is this machine", o.URL)
		return
	case u.Scheme != "https" && !o.Development:
		f.fail("Put a proxy with a certificate in front, and set WAYBILL_URL to https://.", "WAYBILL_URL is not https: sign-ins would travel in the open")
	}
	if net.ParseIP(host) != nil {
		return
	}
	addresses, err := o.Resolver.LookupHost(ctx, host)
	var name *net.DNSError
	switch {
	case err == nil:
		f.pass("%s resolves to %s", host, strings.Join(addresses, ", "))
	case errors.As(err, &name) && name.IsNotFound:
		f.fail("Create the DNS record, or correct WAYBILL_URL.", "%s does not resolve", host)
	default:
		f.fail("Check /etc/resolv.conf and that name servers can be reached: endpoints cannot be found without them either.", "name servers do not answer for %s: %s", host, reason(err))
	}
}

// proxy asks the proxy, or one made for the purpose, to do what it must refuse.
func (o *Options) proxy(ctx context.Context, f *findings) {
	at := o.ProxyURL
	where := "the proxy at " + hostOf(at)
	if at == "" {
		where = "the built-in proxy"
		p, err := egress.Start(ctx, egress.Config{Allow: o.EgressAllow})
		if err != nil {
			f.fail("Nothing can be sent without it.", "the built-in egress proxy does not start: %s", reason(err))
			return
		}
		defer func() { _ = p.Close(ctx) }()
		at = p.URL()
	}
	err := egress.SelfTest(ctx, at, o.EgressAllow)
	switch {
	case err == nil:
		f.pass("%s answers, and refuses what is not public", where)
	case errors.Is(err, egress.ErrLetThrough):
		f.fail("Run `waybill serve --only proxy` there, or give your smokescreen the deny ranges of app/egress. Nothing starts with this one.", "%s: %v", where, err)
	default:
		f.fail("Check WAYBILL_PROXY_URL and that the proxy runs and can be reached from here.", "%s does not answer: %s", where, reason(err))
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "WAYBILL_PROXY_URL"
	}
	return u.Host
}

// mail greets the mail server, encrypts if it can, and signs in. It sends nothing.
func (o *Options) mail(ctx context.Context, f *findings) {
	if o.SMTPURL == "" {
		f.warn("Set WAYBILL_SMTP_URL to smtp://user:password@host:587, if people are to be told of failing endpoints.", "WAYBILL_SMTP_URL is not set: no mail is sent")
		return
	}
	u, err := url.Parse(o.SMTPURL.Reveal())
	if err != nil || u.Hostname() == "" || (u.Scheme != "smtp" && u.Scheme != "smtps") {
		f.fail("Set it to smtp://user:password@host:587 or smtps://user:password@host:465.", "WAYBILL_SMTP_URL cannot be read")
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"smtp": "587", "smtps": "465"}[u.Scheme]
	}
	at := net.JoinHostPort(u.Hostname(), port)
	if err := o.greet(ctx, u, at, f); err != nil {
		f.fail("Check WAYBILL_SMTP_URL, and that the firewall lets this machine out to that port.", "the mail server at %s: %s", at, reason(err))
	}
}

func (o *Options) greet(ctx context.Context, u *url.URL, at string, f *findings) error {
	conn, err := (&net.Dialer{Resolver: o.Resolver}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	encrypted := u.Scheme == "smtps"
	if encrypted {
		conn = tls.Client(conn, &tls.Config{ServerName: u.Hostname()})
	}
	client, err := smtp.NewClient(conn, u.Hostname())
	if err != nil {
		return err
	}
	defer func() { _ = client.Quit() }()
	if err := client.Hello("localhost"); err != nil {
		return err
	}
	if offers, _ := client.Extension("STARTTLS"); offers && !encrypted {
		if err := client.StartTLS(&tls.Config{ServerName: u.Hostname()}); err != nil {
			return fmt.Errorf("STARTTLS: %w", err)
		}
		encrypted = true
	}
	password, given := u.User.Password()
	switch {
	case given && !encrypted:
		f.fail("Use a server with STARTTLS, or smtps://.", "the mail server at %s offers no encryption, and a password is given: it is not sent in the open", at)
		return nil
	case given:
		if err := client.Auth(smtp.PlainAuth("", u.User.Username(), password, u.Hostname())); err != nil {
			f.fail("Correct user and password in WAYBILL_SMTP_URL.", "the mail server at %s refuses the sign-in: %s", at, reason(err))
			return nil
		}
	case !encrypted:
		f.warn("Fine on the same machine; elsewhere use a server with STARTTLS.", "the mail server at %s offers no encryption", at)
	}
	f.pass("the mail server at %s answers", at)
	return nil
}
