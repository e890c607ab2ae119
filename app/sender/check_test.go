package sender

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestCheckConnection(t *testing.T) {
	t.Parallel()
	var seen []string
	h := func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
	plain, secure := receiver(t, nil, h), receiver(t, tlsConfig(t, "h2"), h)
	expired := tlsConfig(t, "http/1.1")
	expired.Certificates[0] = world.ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	silent := serve(t, nil, func(c net.Conn) { io.Copy(io.Discard, c) })
	banner := serve(t, nil, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); readSome(c) })
	name := func(url string) string { return strings.Replace(url, "127.0.0.2", "r.t.test", 1) }
	for url, steps := range map[string]string{
		plain + "/hook":           "connect ok, http ok",
		name(plain):               "name ok, connect ok, http ok",
		secure + "/a%2Fb":         "name ok, connect ok, tls ok, http ok",
		"http://u:p@" + plain[7:]: "connect ok, http ok",
		"https://nx.t.test/":      "name dns",
		"https://127.0.0.1/":      "connect blocked_address",
		"https://r.t.test:25/":    "name ok, connect blocked_address",
		receiver(t, expired, h):   "name ok, connect ok, tls tls",
		"http://" + silent:        "connect ok, http timeout",
		"https://" + silent:       "connect ok, tls timeout",
		answers(t, 308, "Location", "https://www.t.test/hook"): "connect ok, http redirect",
		answers(t, 404):                     "connect ok, http ok",
		"nonsense":                          "connect bad_request_config",
		"http://" + closedPort(t):           "connect no_answer",
		name("http://" + closedPort(t)):     "name ok, connect no_answer",
		"http://" + banner:                  "connect no_answer",
		"https://" + banner:                 "connect no_answer",
		name("https://" + banner):           "name ok, connect no_answer",
		"https://" + plain[len("http://"):]: "connect no_answer",
	} {
		for _, way := range ways {
			var got []string
			for _, s := range newSender(t, way, nil).CheckConnection(t.Context(), url, time.Second) {
				if s.OK != (s.Class == "") || s.Detail == "" {
					t.Errorf("%s: %+v", url, s)
				}
				if want := map[Class]string{Redirect: "https://www.t.test/hook"}[s.Class]; s.Location != want || s.Class == Redirect && s.Status != 308 {
					t.Errorf("%s: %+v", url, s)
				}
				if s.OK {
					got = append(got, s.Name+" ok")
				} else {
					got = append(got, fmt.Sprint(s.Name, " ", s.Class))
				}
			}
			if text := strings.Join(got, ", "); text != steps {
				t.Errorf("%s, %s: %s, want %s", way, url, text, steps)
			}
		}
	}
	for _, r := range seen {
		if !strings.HasPrefix(r, "HEAD /") {
			t.Errorf("the receiver got %q", r)
		}
	}
	down := newSender(t, "tcp", func(c *Config) { c.ProxyURL = "http://" + closedPort(t) })
	if got := down.CheckConnection(t.Context(), "https://r.t.test/", time.Second); len(got) != 1 || got[0].Class != Proxy {
		t.Errorf("without a proxy: %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if got := newSender(t, "tcp", nil).CheckConnection(ctx, "http://"+silent, time.Minute); got[len(got)-1].Class != Canceled {
		t.Errorf("canceled: %+v", got)
	}
}
