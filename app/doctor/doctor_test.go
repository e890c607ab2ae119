package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"waybill/app/doctor"
	"waybill/app/id"
	"waybill/app/lane"
	"waybill/app/policy"
	"waybill/app/seal"
	"waybill/db"
	"waybill/db/dbtest"
)

// names answers for hooks.example.com only.
func names(t testing.TB) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if r.Question[0].Name != "hooks.example.com." {
			m.Rcode = dns.RcodeNameError
		} else if r.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(192, 0, 2, 7)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// healthy is what has nothing wrong but the mail, and connects as a superuser.
func healthy(t testing.TB, databaseURL string) doctor.Options {
	t.Helper()
	ring, err := seal.ParseRing(seal.NewKey().Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Options{DatabaseURL: databaseURL, Conns: 5, URL: "https://hooks.example.com", Ring: ring, Resolver: names(t),
		Policy: func() (policy.Set, error) { return policy.Builtin(), nil }}
}

// examine returns each finding as a line, and whether any failed.
func examine(t testing.TB, o doctor.Options) (string, bool) {
	t.Helper()
	var out bytes.Buffer
	all := doctor.Examine(t.Context(), o, func(f doctor.Finding) {
		doctor.Print(&out, f)
		if f.Level != doctor.Pass && f.Do == "" {
			t.Errorf("%s: %s does not say what to do", f.Check, f.Found)
		}
	})
	return out.String(), doctor.Failed(all)
}

// failures counts them, without those of a server for tests: it keeps nothing safe, so as to be fast.
func failures(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "fail") && !strings.Contains(line, "fsync is off") && !strings.Contains(line, "autovacuum is off") {
			n++
		}
	}
	return n
}

func TestWell(t *testing.T) {
	t.Parallel()
	text, failed := examine(t, healthy(t, dbtest.NewURL(t)))
	if n := failures(text); n != 0 || failed != strings.Contains(text, "fail  ") {
		t.Errorf("%d failures (%v) in\n%s", n, failed, text)
	}
	for _, want := range []string{"pass  configuration", "pass  policy", "hooks.example.com resolves to 192.0.2.7", "pass  pooler         connections reach Postgres itself",
		"pass  database       Postgres 15", "pass  clock", "pass  migrations", "pass  keys", "the built-in proxy answers", "warn  mail"} {
		if !strings.Contains(text, want) {
			t.Errorf("no line with %q in\n%s", want, text)
		}
	}
}

// Each thing that operators get wrong is found, and what goes on is looked at all the same.
func TestUnwell(t *testing.T) {
	t.Parallel()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(open.Close)
	for name, c := range map[string]struct {
		change func(o *doctor.Options)
		want   string
		passes bool
	}{
		"a variable": {func(o *doctor.Options) { o.Problems = []error{errors.New("WAYBILL_MIGRATE: must be true or false")} },
			"fail  configuration  WAYBILL_MIGRATE: must be", false},
		"a policy": {func(o *doctor.Options) {
			o.Policy = func() (policy.Set, error) { return policy.Load([]byte("webhook_delivery: {timeout: 3}")) }
		}, "fail  policy", false},
		"development": {func(o *doctor.Options) { o.Development, o.URL = true, "http://localhost:8080" }, "warn  configuration  WAYBILL_ALLOW_HTTP", true},
		"no https":    {func(o *doctor.Options) { o.URL = "http://hooks.example.com" }, "fail  address        WAYBILL_URL is not https", false},
		"localhost":   {func(o *doctor.Options) { o.URL = "https://localhost" }, "which nobody else reaches", false},
		"no name":     {func(o *doctor.Options) { o.URL = "https://other.example.com" }, "other.example.com does not resolve", false},
		"no database": {func(o *doctor.Options) { o.DatabaseURL = "postgres://u:hunter2@" + nobody.Addr().String() + "/x" },
			"fail  database       " + nobody.Addr().String() + " cannot be reached: connection refused", false},
		"connections":     {func(o *doctor.Options) { o.Conns = 100_000 }, "max_connections leaves", false},
		"fast clock":      {func(o *doctor.Options) { o.Now = func() time.Time { return time.Now().Add(6 * time.Minute) } }, "fail  clock", false},
		"slow clock":      {func(o *doctor.Options) { o.Now = func() time.Time { return time.Now().Add(-5 * time.Second) } }, "warn  clock", true},
		"silent proxy":    {func(o *doctor.Options) { o.ProxyURL = "http://" + nobody.Addr().String() }, "does not answer: connection refused", false},
		"a careless one":  {func(o *doctor.Options) { o.ProxyURL = open.URL }, "the proxy does not refuse what it must", false},
		"silent mail":     {func(o *doctor.Options) { o.SMTPURL = seal.Secret("smtp://a:hunter2@" + nobody.Addr().String()) }, "connection refused", false},
		"nonsense mail":   {func(o *doctor.Options) { o.SMTPURL = "hunter2" }, "fail  mail           WAYBILL_SMTP_URL cannot be read", false},
		"a mail in clear": {func(o *doctor.Options) { o.SMTPURL = seal.Secret("smtp://a:hunter2@" + mailServer(t)) }, "it is not sent in the open", false},
		"mail":            {func(o *doctor.Options) { o.SMTPURL = seal.Secret("smtp://" + mailServer(t)) }, "pass  mail", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := healthy(t, dbtest.NewURL(t))
			c.change(&o)
			text, failed := examine(t, o)
			if !strings.Contains(text, c.want) {
				t.Errorf("no %q in\n%s", c.want, text)
			}
			if n := failures(text); failed != strings.Contains(text, "fail  ") || (n == 0) != c.passes {
				t.Errorf("failed: %v, with %d failures:\n%s", failed, n, text)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("a password is printed:\n%s", text)
			}
			if !strings.Contains(text, "proxy  ") || !strings.Contains(text, "mail  ") {
				t.Errorf("it stopped looking:\n%s", text)
			}
		})
	}
}

// mailServer greets, offers nothing, and says goodbye.
func mailServer(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprint(conn, "220 here\r\n")
				line := make([]byte, 200)
				for {
					n, err := conn.Read(line)
					if err != nil {
						return
					}
					if strings.HasPrefix(string(line[:n]), "QUIT") {
						fmt.Fprint(conn, "221 bye\r\n")
						return
					}
					fmt.Fprint(conn, "250 fine\r\n")
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// A schema that is missing, one of a later program, and partitions that nobody made.
func TestSchema(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`drop schema waybill cascade`: "Run `waybill migrate`",
		`insert into waybill.migrations (name, checksum) values ('9999_later.sql', 'x')`:                                          "newer than this program",
		`do $$ begin execute 'drop table waybill.attempts_' || to_char((now() at time zone 'UTC')::date + 1, 'YYYYMMDD'); end $$`: "partitions are missing: attempts_",
	} {
		url := dbtest.NewURL(t)
		if _, err := dbtest.Open(t, url, db.Options{}).Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if text, failed := examine(t, healthy(t, url)); !failed || !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The ring must open what is sealed; a lost key is named with how many secrets it sealed.
func TestKeys(t *testing.T) {
	t.Parallel()
	old, lost, fresh := seal.NewKey(), seal.NewKey(), seal.NewKey()
	ring := func(keys ...seal.Secret) *seal.Ring {
		texts := make([]string, len(keys))
		for i, k := range keys {
			texts[i] = k.Reveal()
		}
		r, err := seal.ParseRing(strings.Join(texts, ","))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	url := dbtest.NewURL(t)
	pool := dbtest.Open(t, url, db.Options{})
	tenant := dbtest.AddTenant(t, pool, dbtest.Tenant{})
	ep := dbtest.AddEndpoint(t, pool, dbtest.Endpoint{TenantID: tenant.ID})
	if _, err := pool.Exec(t.Context(), "delete from signing_secrets"); err != nil {
		t.Fatal(err)
	}
	add := func(r *seal.Ring, place string) {
		secretID := id.New(id.Secret, time.Now())
		if place == "" {
			place = secretID
		}
		_, err := pool.Exec(t.Context(), `insert into signing_secrets (id, tenant_id, endpoint_id, kind, sealed, fingerprint) values ($1, $2, $3, 'hmac', $4, 'x')`,
			secretID, tenant.ID, ep.ID, r.Seal([]byte("whsec_hunter2"), lane.SecretAAD(place)))
		if err != nil {
			t.Fatal(err)
		}
	}
	add(ring(old), "")
	add(ring(lost), "")
	add(ring(lost), "")
	o := healthy(t, url)
	for _, c := range []struct {
		ring *seal.Ring
		want string
	}{
		{ring(fresh, old), "2 signing secrets are sealed with keys that the ring does not have (2 with key " + ring(lost).KeyIDs()[0]},
		{ring(fresh, old, lost), "0 of 3 sealed secrets, headers and mails are sealed with the newest key"},
		{ring(old, lost, fresh), "1 of 3 sealed secrets"},
	} {
		o.Ring = c.ring
		if text, _ := examine(t, o); !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("no %q in\n%s", c.want, text)
		}
	}
	add(ring(fresh), "another place")
	o.Ring = ring(fresh, old, lost)
	if text, failed := examine(t, o); !failed || !strings.Contains(text, "its bytes are damaged") {
		t.Errorf("a damaged secret is not found:\n%s", text)
	}
}
