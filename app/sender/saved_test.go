package sender

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"testing"

	"waybill/app/egress"
)

// What CheckURL saves is delivered, to the name, path and query that were given.
func TestSavedIsDelivered(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x.t.test", "foo_bar.t.test", "xn--mnchen-3ya.t.test"} {
		world.zone.set(name, "127.0.0.2")
	}
	type seen struct{ host, target, auth string }
	got := make(chan seen, 1)
	addr := serve(t, nil, func(c net.Conn) {
		text, err := readRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Error(err)
			return
		}
		_, target, _ := strings.Cut(text, " ")
		target, _, _ = strings.Cut(target, " ")
		user, password, _ := r.BasicAuth()
		got <- seen{r.Host, target, user + " " + password}
		io.WriteString(c, "HTTP/1.1 204 x\r\nConnection: close\r\n\r\n")
	})
	_, port, _ := net.SplitHostPort(addr)
	for raw, w := range map[string]seen{
		"http://x.t.test:PORT":                             {"x.t.test", "/", " "},
		"http://X.T.Test.:PORT/?":                          {"x.t.test", "/?", " "},
		"http://foo_bar.t.test:PORT/a":                     {"foo_bar.t.test", "/a", " "},
		"http://münchen.t.test:PORT/a":                     {"xn--mnchen-3ya.t.test", "/a", " "},
		"http://127.0.0.2:PORT/a%2Fb;c=[d]/../e":           {"127.0.0.2", "/a%2Fb;c=[d]/../e", " "},
		"http://x.t.test:PORT//a?q=a+b%20c&d={|}^~'()*!$,": {"x.t.test", "//a?q=a+b%20c&d={|}^~'()*!$,", " "},
		"http://u%40corp:p%2Fw%3A%C3%A9@x.t.test:PORT/":    {"x.t.test", "/", "u@corp p/w:é"},
	} {
		stored, err := egress.CheckURL(strings.Replace(raw, "PORT", port, 1), egress.URLOptions{AllowHTTP: true, Allow: receivers})
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		want(t, post(t, newSender(t, "tcp", nil), stored), Delivered, "")
		w.host += ":" + port
		if g := <-got; g != w {
			t.Errorf("%s: the receiver saw %+v, want %+v", raw, g, w)
		}
	}
}

func TestIPv6Literals(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("no IPv6 on this machine")
	}
	srv := &http.Server{Handler: http.HandlerFunc(ok)}
	t.Cleanup(func() { srv.Close() })
	go srv.Serve(ln)
	p, err := egress.Start(t.Context(), egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("::1/128")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.Cleanup(func() { p.Close(ctx) })
	for _, tunnel := range []func(context.Context, string) (net.Conn, *http.Response, error){nil, p.Tunnel} {
		s := newSender(t, "tcp", func(c *Config) { c.ProxyURL, c.Tunnel = p.URL(), tunnel })
		out := post(t, s, "http://"+ln.Addr().String()+"/")
		if want(t, out, Delivered, ""); out.RemoteAddr != ln.Addr().String() {
			t.Errorf("RemoteAddr %q", out.RemoteAddr)
		}
		want(t, post(t, s, "http://127.0.0.1:8080/"), BlockedAddress, "")
	}
}

// Package egress and this one read a saved URL alike.
func FuzzSavedIsSendable(f *testing.F) {
	for _, raw := range []string{"https://x.t.test", "http://u:p%40@8.8.8.8:8443//x?y", "https://[2606:4700::1]:8443?x", "https://münchen.t.test./%2F;[",
		"https://a_b.t.test/?q={|}", "http://x.t.test:80/"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		stored, bad := egress.CheckURL(raw, egress.URLOptions{AllowHTTP: true})
		if bad != nil {
			return
		}
		got, ok := parseTarget(stored)
		u, err := url.Parse(stored)
		if !ok || err != nil {
			t.Fatalf("%q is saved and cannot be sent: %v", stored, err)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		if got.name != u.Hostname() || got.addr != net.JoinHostPort(u.Hostname(), port) || got.host != u.Host || got.https != (u.Scheme == "https") ||
			!strings.HasSuffix(stored, got.host+got.path) || (got.auth != "") != (u.User != nil) {
			t.Fatalf("%q: %+v", stored, got)
		}
		r := &http.Request{Header: http.Header{"Authorization": {got.auth}}}
		if user, password, ok := r.BasicAuth(); u.User != nil {
			want, _ := u.User.Password()
			if !ok || user != u.User.Username() || password != want {
				t.Fatalf("%q: %q %q", stored, user, password)
			}
		}
	})
}

// Nothing of a URL that holds secrets gets into the phrase, whatever goes wrong.
func TestSecretsStayOutOfPhrases(t *testing.T) {
	t.Parallel()
	world.zone.set("inside2.t.test", "10.0.0.1")
	s := newSender(t, "tcp", nil)
	for _, base := range []string{closedPort(t), "nx.t.test", "inside2.t.test", "127.0.0.1:9000", raw(t, "SSH-SECRET\r\n"), raw(t, ""),
		raw(t, "HTTP/1.1 500 SECRET\r\nContent-Length: 0\r\n\r\n"), raw(t, "HTTP/1.1 301 SECRET\r\nLocation: http://SECRET/\r\nContent-Length: 0\r\n\r\n")} {
		for _, scheme := range []string{"http", "https"} {
			out := s.Send(t.Context(), Request{EndpointID: base + scheme, URL: scheme + "://user:SECRET@" + base + "/hook/SECRETPATH?token=SECRET", Timeout: ample})
			if strings.Contains(out.Err, "SECRET") || out.Err == "" || strings.Contains(out.RemoteAddr, "SECRET") {
				t.Errorf("%s: %q", base, out.Err)
			}
		}
	}
}
