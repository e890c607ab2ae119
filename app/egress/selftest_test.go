package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestSelfTestPassesOurProxy(t *testing.T) {
	t.Parallel()
	for name, allow := range map[string][]netip.Prefix{
		"nothing allowed":  nil,
		"receivers":        receivers,
		"much of our own":  {netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")},
		"loopback of IPv6": {netip.MustParsePrefix("::1/128")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, Config{Allow: allow}, deadDial)
			if err := SelfTest(t.Context(), p.URL(), allow); err != nil {
				t.Error(err)
			}
		})
	}
}

// A proxy that allows more than the self-test was told is found out, even by one address.
func TestSelfTestFindsAHole(t *testing.T) {
	t.Parallel()
	for _, hole := range []string{"10.0.0.0/24", "169.254.169.254/32", "::/96", "64:ff9b::/96", "2001:db8::/32", "fe80::/16", "255.255.255.255/32"} {
		t.Run(hole, func(t *testing.T) {
			t.Parallel()
			prefix := netip.MustParsePrefix(hole)
			p := startProxy(t, Config{Allow: []netip.Prefix{prefix}}, deadDial)
			err := SelfTest(t.Context(), p.URL(), nil)
			if !errors.Is(err, ErrLetThrough) {
				t.Fatalf("SelfTest: %v", err)
			}
			// It names what it found, and only that.
			for _, addr := range forbidden {
				in := strings.Contains(err.Error(), netip.AddrPortFrom(addr, 443).String())
				if in != prefix.Contains(addr.Unmap()) {
					t.Errorf("%s named: %v (%v)", addr, in, err)
				}
			}
		})
	}
}

// fakeProxy answers each CONNECT as told.
func fakeProxy(t *testing.T, answer string) string {
	t.Helper()
	return "http://" + listen(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, answer)
		if answer == "" {
			io.Copy(io.Discard, br)
		}
	})
}

func TestSelfTestJudgesOtherProxies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, want string }{
		"lets all through": {"HTTP/1.1 200 OK\r\n\r\n", "does not refuse"},
		"tried and failed": {"HTTP/1.1 502 Bad Gateway\r\nX-Smokescreen-Error: Failed to connect to remote host: <nil> (*net.OpError)\r\n\r\n", "does not refuse"},
		"tried in vain":    {"HTTP/1.1 504 Gateway Timeout\r\nX-Smokescreen-Error: Timed out connecting to remote host: dial tcp 10.0.0.1:443: i/o timeout\r\n\r\n", "does not refuse"},
		"our own, tried":   {"HTTP/1.1 502 Bad Gateway\r\nX-Waybill-Verdict: unreachable\r\n\r\n", "does not refuse"},
		"smokescreen":      {"HTTP/1.1 407 Request rejected by proxy\r\nX-Smokescreen-Error: Egress proxying is denied\r\n\r\n", ""},
		"another":          {"HTTP/1.1 403 Forbidden\r\n\r\n", ""},
		"IPv4 only":        {"HTTP/1.1 502 Bad Gateway\r\nX-Smokescreen-Error: Failed to connect to remote host: <nil> (*net.AddrError)\r\n\r\n", ""},
		"no such name":     {"HTTP/1.1 502 Bad Gateway\r\nX-Smokescreen-Error: Failed to resolve remote hostname: lookup localhost: no such host\r\n\r\n", ""},
		"wants a password": {"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n", "credentials"},
		"overloaded":       {"HTTP/1.1 429 Too Many Requests\r\n\r\n", "overloaded"},
		"no HTTP":          {"SSH-2.0-x\r\n", "does not answer"},
		"redirects":        {"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "does not refuse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := SelfTest(t.Context(), fakeProxy(t, c.answer), nil)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("SelfTest: %v, want %q", err, c.want)
			case errors.Is(err, ErrLetThrough) != (c.want == "does not refuse"):
				t.Errorf("SelfTest: %v", err)
			}
		})
	}
}

func TestSelfTestOfASilentProxyEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := SelfTest(ctx, fakeProxy(t, ""), nil); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("SelfTest: %v", err)
	}
	for _, url := range []string{"http://" + closedPort(t), "https://127.0.0.2", "", "127.0.0.2:4750", "http://"} {
		if err := SelfTest(ctx, url, nil); err == nil {
			t.Errorf("SelfTest(%q) passed", url)
		}
	}
}

func TestSelfTestSendsCredentials(t *testing.T) {
	t.Parallel()
	seen := make(chan string, len(forbidden)+8)
	addr := listen(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			seen <- r.Header.Get("Proxy-Authorization")
			io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n")
		}
	})
	if err := SelfTest(t.Context(), "http://u:p%40ss@"+addr, nil); err != nil {
		t.Error(err)
	}
	if got := <-seen; got != "Basic dTpwQHNz" {
		t.Errorf("Proxy-Authorization: %q", got)
	}
}
