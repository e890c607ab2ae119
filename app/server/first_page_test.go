package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"html"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waybill/app/account"
	"waybill/app/outbox"
	"waybill/app/server"
	"waybill/app/signing"
	"waybill/db/dbtest"
)

// visitor is a seller with a browser, signed in by a link.
type visitor struct {
	t      *testing.T
	client *http.Client
	base   string
}

func (s *system) visitor(t *testing.T, tenant dbtest.Tenant) *visitor {
	t.Helper()
	platform := account.Caller{Kind: account.PlatformKey, Name: "tests", Scopes: account.PlatformScopes()}.In(account.Tenant{ID: tenant.ID, UID: tenant.UID})
	link, err := s.Services.Accounts.PortalLinkCreate(t.Context(), platform, account.PortalInput{})
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, base: "http://" + s.Addr(), client: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if status, _ := v.ask(http.MethodPost, "/sign-in/link/"+link.Token.Reveal(), nil); status != http.StatusSeeOther {
		t.Fatalf("signing in answered %d", status)
	}
	return v
}

var markup = regexp.MustCompile(`<[^>]*>`)

// ask is an answer's status, and its text without markup.
func (v *visitor) ask(method, path string, form url.Values) (int, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Host = "waybill.test"
	r.Header.Set("Origin", "http://waybill.test")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return answer.StatusCode, strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString(string(text), " "))), " ")
}

// past is a server whose certificate ended yesterday. It returns its address.
func past(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "seller"}, NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	go func() { _ = srv.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = srv.Close() })
	return "https://" + ln.Addr().String()
}

// A seller whose endpoint cannot work reads why, and what to do, on the first page: the overview after signing in, after a single event; the endpoint's
// page; and, as far as a connection can tell, when the endpoint is added.
func TestTheFirstPageSaysCauseAndFix(t *testing.T) {
	t.Parallel()
	sys := start(t, func(c *server.Config) { c.PolicyText = "webhook_delivery: {waits_between_attempts: [10m, 1h]}" })
	wrong := signing.NewSecret()
	checking := newReceiver(t, nil)
	checking.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, err := signing.Verify(r.Header, body, []signing.Key{wrong}, time.Now(), signing.Tolerance); r.Method == http.MethodPost && err != nil {
			http.Error(w, "invalid signature", http.StatusUnauthorized)
		}
	})
	moved := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.saree.example/hooks", http.StatusMovedPermanently)
	})
	missing := newReceiver(t, func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	cases := map[string]struct {
		url          string
		title        string
		cause, fix   string
		help         string // the place that helps
		added, check string // what adding it says
	}{
		"a wrong secret": {url: checking.URL + "/hooks", title: "answers 401", cause: "Your code rejected our signature", fix: "Compare the secret in your code with this endpoint's", help: "Open the signature lab"},
		"an expired certificate": {url: past(t) + "/hooks", title: "certificate expired", cause: "Automatic renewal failed", fix: "Renew the certificate and reload the web server.",
			check: "Your server's certificate has expired"},
		"a URL that redirects": {url: moved.URL + "/hooks", title: "answers 301", cause: `The URL lacks or has "www"`, fix: "If that address is yours, set the endpoint's URL to it.", help: "Change the endpoint",
			check: "It redirects to https://www.saree.example/hooks."},
		"a path that is not there": {url: missing.URL + "/typo", title: "answers 404", cause: "The path is misspelt", fix: "Compare the endpoint's URL with the route in your application", help: "Change the endpoint",
			added: "Your server answered 404 to our HEAD request"},
		"a blocked address": {url: "http://127.0.0.3:8080/hooks", title: "address not allowed", cause: "The name points to a private, local or reserved network", fix: "Use a name that leads to a public address", help: "Change the endpoint",
			check: "It has an address that is not public; use a name that leads to a public one"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tenant := dbtest.AddTenant(t, sys.Pool, dbtest.Tenant{})
			ep, _ := sys.endpoint(dbtest.Endpoint{TenantID: tenant.ID, URL: c.url})
			seller := sys.visitor(t, tenant)
			if _, text := seller.ask(http.MethodGet, "/", nil); !strings.Contains(text, "All endpoints are well") {
				t.Errorf("before anything was sent: %s", text)
			}
			sys.publish(tenant.UID, outbox.Event{})
			eventually(t, sys.Pool, 30*time.Second, 1, `select count(*) from deliveries where endpoint_id = $1 and attempts = 1`, ep.ID)
			for page, want := range map[string][]string{
				"/":                   {"Needs attention", "Failing", strings.ToUpper(c.title[:1]) + c.title[1:], c.cause, c.fix, c.help},
				"/endpoints/" + ep.ID: {"Failing", c.title, c.cause, c.fix, c.help},
			} {
				status, text := seller.ask(http.MethodGet, page, nil)
				for _, words := range want {
					if status != http.StatusOK || !strings.Contains(text, words) {
						t.Errorf("%s answers %d and does not say %q: %s", page, status, words, text)
					}
				}
			}
			form := url.Values{"url": {c.url}, "types": {"*"}, "scheme": {"v1"}, "payload": {"full"}}
			status, text := seller.ask(http.MethodPost, "/endpoints/new", form)
			switch {
			case c.check != "" && (status != http.StatusUnprocessableEntity || !strings.Contains(text, c.check)):
				t.Errorf("adding it answers %d and does not say %q: %s", status, c.check, text)
			case c.check != "" && name != "a blocked address" && (!strings.Contains(text, c.cause) || !strings.Contains(text, c.fix)):
				t.Errorf("adding it says no cause and fix: %s", text)
			case c.check == "" && status != http.StatusSeeOther:
				t.Errorf("adding it answers %d: %s", status, text)
			}
			if c.added != "" {
				if _, text := seller.ask(http.MethodGet, "/", nil); !strings.Contains(text, c.added) {
					t.Errorf("after adding it, %q is not said: %s", c.added, text)
				}
			}
		})
	}
}
