package sender

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill/app/verdict"
)

// explained is what a reader of this outcome is told: what the dashboard makes of a stored attempt.
func explained(out Outcome, host string) verdict.Verdict {
	facts := verdict.Facts{Class: verdict.Class(out.Class.Public()), Code: out.Status, Reason: out.Cause(), Phase: out.Cause(), Host: host, Timeout: within, Cut: out.BodyNote != ""}
	for _, h := range out.Header {
		if strings.EqualFold(h.Name, "location") {
			facts.Location = h.Value
		}
	}
	if out.TLS != nil && out.TLS.NotAfter.Before(out.Started) {
		facts.Expiry = out.TLS.NotAfter
	}
	return verdict.Explain(facts)
}

// answers is a receiver that answers so, whatever it is sent.
func answers(t testing.TB, status int, header ...string) string {
	return receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		if status >= 200 && status != 204 {
			io.WriteString(w, "as it is")
		}
	})
}

// behind is a receiver over TLS with this certificate, and with config's other fields.
func behind(t testing.TB, certificate tls.Certificate, config *tls.Config) string {
	if config == nil {
		config = &tls.Config{}
	}
	config.Certificates, config.NextProtos = []tls.Certificate{certificate}, []string{"http/1.1"}
	return receiver(t, config, ok)
}

// TestEachVerdictOfARealReceiver: a receiver that behaves so is met through the proxy, and what is said of it names what happened, why, and what to
// do. The titles are all of the table's.
func TestEachVerdictOfARealReceiver(t *testing.T) {
	t.Parallel()
	ended := time.Now().Add(-26 * time.Hour)
	hang := func(c net.Conn) { io.Copy(io.Discard, c) }
	type meeting struct {
		url   string
		slow  bool // it ends at the deadline
		body  []byte
		setup func(*Config)
		title string
		says  string // in what happened, the causes or the fixes
		quiet bool   // does not count against the endpoint
	}
	met := map[string]bool{}
	cases := map[string]meeting{
		"a blocked address":        {url: "https://10.0.0.1/", title: "This address is not allowed", says: "private, local or reserved network", quiet: true},
		"a name that is not there": {url: "https://nx.t.test/", title: "The server's name could not be found", says: "misspelt"},
		"nobody listens":           {url: "http://" + closedPort(t), title: "No HTTP answer came", says: "Start the server"},
		"another service":          {url: "http://" + serve(t, nil, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); readSome(c) }), title: "No HTTP answer came", says: "another service"},
		"cut off":                  {url: "http://" + serve(t, nil, func(c net.Conn) { readSome(c) }), title: "No HTTP answer came", says: "connection was refused, not accepted or cut"},
		"nothing in the handshake": {url: "https://" + serve(t, nil, hang), slow: true, title: "The secure connection was not ready in time", says: "TLS handshake"},
		"does not take it":         {url: "http://" + serve(t, nil, func(net.Conn) { <-t.Context().Done() }), slow: true, body: make([]byte, 32<<20), title: "Your server did not take the request in time", says: "does not read"},
		"does not answer":          {url: "http://" + serve(t, nil, hang), slow: true, title: "Your server did not answer in time", says: "do the work afterwards"},
		"expired": {url: behind(t, world.ca.issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = ended.Add(-time.Hour), ended }), nil),
			title: "Your server's certificate has expired", says: "The certificate ended on " + ended.UTC().Format("2 January 2006")},
		"not valid yet": {url: behind(t, world.ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), nil), title: "Your server's certificate has expired", says: "or not valid yet"},
		"another name":  {url: behind(t, world.ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"other.t.test"} }), nil), title: "Your server's certificate is for another name", says: "does not name r.t.test"},
		"nobody's":      {url: behind(t, newCA().issue(t, nil), nil), title: "Your server's certificate is not trusted", says: "fullchain.pem"},
		"old TLS":       {url: behind(t, world.ca.issue(t, nil), &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}), title: "No TLS session could be agreed on", says: "Switch TLS 1.2 or 1.3 on"},
		"wants ours":    {url: behind(t, world.ca.issue(t, nil), &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}), title: "Your server asks for a client certificate", says: "mutual TLS"},
		"a weak key":    {url: behind(t, rsaLeaf(t, 1024), nil), title: "Your server's certificate cannot be accepted", says: "too weak"},
		"a redirect":    {url: answers(t, 301, "Location", "https://www.saree.example/hooks"), title: "Your server answered 301 Moved Permanently", says: "It redirects to https://www.saree.example/hooks."},
		"large headers": {url: "http://" + raw(t, "HTTP/1.1 200 OK\r\n"+strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 80)+"\r\n"), title: "Your server's answer has too many headers", says: "needs no session"},
		"gone":          {url: answers(t, 410), title: "Your server answered 410 Gone", says: "gone for good"},
		"no content":    {url: answers(t, 204), title: "Delivered", says: "204 No Content", quiet: true},
		"a body that breaks off": {url: "http://" + serve(t, nil, func(c net.Conn) {
			if _, err := readRequest(bufio.NewReader(c)); err == nil {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
			}
		}), title: "Delivered, with an answer that broke off", says: "counts as delivered", quiet: true},
		"a static header that cannot be": {url: "http://r.t.test/a b", title: "This endpoint's configuration cannot be sent", says: "Correct the endpoint's URL", quiet: true},
		"our proxy is down":              {url: "https://r.t.test/", setup: func(c *Config) { c.ProxyURL = "http://" + closedPort(t) }, title: "We could not send it", says: "your server had no part in it", quiet: true},
	}
	for code, says := range map[int]string{
		400: "Read the answer's body", 401: "Your code rejected our signature", 403: "CSRF", 404: "Compare the endpoint's URL with the route", 405: "Accept POST", 408: "overloaded",
		413: "", 415: "", 422: "", 429: "rate limit", 500: "application's log", 502: "The application is down", 503: "Maintenance", 504: "do the work afterwards",
	} {
		cases[fmt.Sprint(code)] = meeting{url: answers(t, code), title: fmt.Sprintf("Your server answered %d %s", code, http.StatusText(code)), says: says}
	}
	for _, c := range cases {
		met[c.title] = true
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, "tcp", c.setup)
			var out Outcome
			if c.slow {
				out = postWithin(t, s, c.url, c.body)
			} else {
				out = post(t, s, c.url)
			}
			v := explained(out, "r.t.test")
			all := strings.Join(append(append([]string{v.Happened}, v.Causes...), v.Fixes...), " ")
			if v.Title != c.title || !strings.Contains(strings.ToLower(all), strings.ToLower(c.says)) {
				t.Errorf("%+v is told as %q: %s; want %q and %q", out, v.Title, all, c.title, c.says)
			}
			if v.Counts == c.quiet {
				t.Errorf("%q counts: %v", v.Title, v.Counts)
			}
			if v.Class != verdict.Delivered && (len(v.Causes) == 0 || len(v.Fixes) == 0) {
				t.Errorf("%q says no cause or no fix", v.Title)
			}
		})
	}
	// What no receiver can bring about, or nobody may be told: see Class.Public, and the tests of stops and crashes.
	untold := map[string]bool{"Your server refused the connection": true, "Your server could not be reached": true, "The connection was cut before an answer": true,
		"The answer is not HTTP": true, "We stopped before your server answered": true, "How this attempt ended is not known": true}
	for _, v := range verdict.Table() {
		if !met[v.Title] && !untold[v.Title] {
			t.Errorf("no receiver here is told as %q", v.Title)
		}
	}
}
