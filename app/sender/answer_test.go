package sender

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestStatusDecides(t *testing.T) {
	t.Parallel()
	const end = "Content-Length: 0\r\n\r\n"
	type expected struct {
		class  Class
		status int
	}
	cases := map[string]expected{
		"HTTP/1.1 100 Continue\r\n\r\n":                              {Reset, 100},
		"HTTP/1.1 199 Odd\r\n\r\n":                                   {Reset, 199},
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 x\r\n\r\n":     {Delivered, 204},
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbyte": {Status, 101},
		"HTTP/1.0 200 OK\r\n\r\nto the end":                          {Delivered, 200},
		"HTTP/1.1 200\r\n" + end:                                     {Delivered, 200},
		"HTTP/1.1 200 \r\n" + end:                                    {Delivered, 200},
		"HTTP/1.1  200 OK\r\n" + end:                                 {Delivered, 200},
		"HTTP/1.1 200 OK\n" + "Content-Length: 0\n\n":                {Delivered, 200},
		"HTTP/1.1 304 Not Modified\r\n\r\n":                          {Status, 304},
		"HTTP/1.1 099 Odd\r\n" + end:                                 {Status, 99},
		"HTTP/2.0 200 OK\r\n" + end:                                  {Delivered, 200},
	}
	for _, code := range []int{200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 250, 299} {
		cases[fmt.Sprintf("HTTP/1.1 %d x\r\n%s", code, end)] = expected{Delivered, code}
	}
	for _, code := range []int{300, 301, 302, 303, 305, 307, 308} {
		cases[fmt.Sprintf("HTTP/1.1 %d x\r\n%s", code, end)] = expected{Redirect, code}
	}
	for _, code := range []int{309, 399, 400, 401, 404, 407, 429, 500, 502, 503, 599, 600, 999} {
		cases[fmt.Sprintf("HTTP/1.1 %d x\r\n%s", code, end)] = expected{Status, code}
	}
	cases["HTTP/1.1 410 Gone\r\n"+end] = expected{Gone, 410}
	s := newSender(t, "tcp", nil)
	for answer, c := range cases {
		t.Run(strings.SplitN(answer, "\r\n", 2)[0], func(t *testing.T) {
			t.Parallel()
			out := s.Send(t.Context(), Request{EndpointID: t.Name(), URL: "http://" + raw(t, answer) + "/", Timeout: ample})
			want(t, out, c.class, "")
			if out.Status != c.status || !out.Sent || out.Proto != answer[:8] {
				t.Errorf("%q: status %d, sent %v, %q", answer, out.Status, out.Sent, out.Proto)
			}
		})
	}
}

func TestWhatIsNotHTTP(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", nil)
	for answer, class := range map[string]Class{
		"SSH-2.0-OpenSSH_9.6 SECRET\r\n":        NotHTTP,
		"220 mail.internal ESMTP SECRET\r\n":    NotHTTP,
		"-ERR unknown command SECRET\r\n":       NotHTTP,
		"<html>HTTP/0.9 SECRET</html>":          NotHTTP,
		"HTTP/1.1 mail.internal SECRET\r\n\r\n": NotHTTP,
		"HTTP/1.1 2000 OK\r\n\r\n":              NotHTTP,
		"HTTP/1.1 20 OK\r\n\r\n":                NotHTTP,
		"HTTP/1.1 000 OK\r\n\r\n":               NotHTTP,
		"HTTP/1.1 -20 OK\r\n\r\n":               NotHTTP,
		"HTTP/1.1\r\n\r\n":                      NotHTTP,
		"HTTP/11 200 OK\r\n\r\n":                NotHTTP,
		"HTTP/x.y 200 OK\r\n\r\n":               NotHTTP,
		"http/1.1 200 OK\r\n\r\n":               NotHTTP,
		"ICY 200 OK\r\n\r\n":                    NotHTTP,
		"\r\nHTTP/1.1 200 OK\r\n\r\n":           NotHTTP,
		"H":                                     NotHTTP,
		"HTT":                                   NotHTTP,
		"HELO":                                  NotHTTP,
		"\x15\x03\x01\x00\x02\x02\x28":          NotHTTP, // a TLS alert, to plain HTTP
		"HTTP/":                                 Reset,
		"HTTP/1.1 200 OK\r\nContent-Le":         Reset,
		"":                                      Reset,
	} {
		t.Run(fmt.Sprintf("%.20q", answer), func(t *testing.T) {
			t.Parallel()
			out := s.Send(t.Context(), Request{EndpointID: t.Name(), URL: "http://" + raw(t, answer) + "/", Timeout: ample})
			want(t, out, class, "")
			if out.Status != 0 || out.Header != nil || out.Body != nil || class.Public() != NoAnswer {
				t.Errorf("%q: %+v", answer, out)
			}
		})
	}
}

// A greeting is recognised when it comes; no timeout is waited for.
func TestABannerIsRecognisedAtOnce(t *testing.T) {
	t.Parallel()
	addr := serve(t, nil, func(c net.Conn) {
		io.WriteString(c, "SSH-2.0-x\r\n")
		io.Copy(io.Discard, c)
	})
	for _, way := range ways {
		for _, scheme := range []string{"http", "https"} {
			out := post(t, newSender(t, way, nil), scheme+"://"+addr+"/")
			want(t, out, NotHTTP, "")
			if out.Total > patience {
				t.Errorf("%s, %s: it took %v", way, scheme, out.Total)
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	second := receiver(t, nil, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	for _, location := range []string{second + "/other", "http://169.254.169.254/latest/meta-data"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			requests := 0
			first := receiver(t, nil, func(w http.ResponseWriter, r *http.Request) {
				requests++
				w.Header().Set("Location", location)
				w.Header().Set("Set-Cookie", "a=b")
				w.WriteHeader(code)
			})
			out := post(t, newSender(t, "tcp", nil), first)
			want(t, out, Redirect, "")
			if out.Status != code || requests != 1 || field(out, "Location") != location {
				t.Errorf("%d: status %d after %d requests, Location %q", code, out.Status, requests, field(out, "Location"))
			}
		}
	}
}

func field(out Outcome, name string) string {
	for _, h := range out.Header {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// What a receiver says about proxies is the receiver's (inside a tunnel smokescreen cannot strip it).
func TestASpoofedVerdictIsTheReceivers(t *testing.T) {
	t.Parallel()
	for _, code := range []int{407, 429, 502, 503, 504} {
		h := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Smokescreen-Error", "x")
			w.Header().Set("X-Waybill-Verdict", "blocked")
			w.Header().Set("X-Server-Ip", "10.0.0.1")
			w.WriteHeader(code)
		}
		for _, url := range []string{receiver(t, nil, h), receiver(t, tlsConfig(t, "http/1.1"), h), receiver(t, tlsConfig(t, "h2"), h)} {
			out := post(t, newSender(t, "tcp", nil), url)
			want(t, out, Status, "")
			if out.Status != code || field(out, "X-Smokescreen-Error") != "x" || !strings.HasPrefix(out.RemoteAddr, "127.0.0.2:") {
				t.Errorf("%d: %+v", code, out)
			}
		}
	}
}

func TestReceiversBytesAreCleaned(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", nil)
	for _, c := range []struct{ answer, text, name, value, body string }{
		{"HTTP/1.1 500 caf\xe9\r\nX-A: caf\xe9\r\nContent-Length: 0\r\n\r\n", "caf\uFFFD", "X-A", "caf\uFFFD", ""},
		{"HTTP/1.1 500 \x1b[31mred\r\nX-A: a\x00b\r\nContent-Length: 0\r\n\r\n", "\uFFFD[31mred", "X-A", "a\uFFFDb", ""},
		{"HTTP/1.1 500 ünï\r\nX-A:\tünï\t\r\nContent-Length: 0\r\n\r\n", "ünï", "X-A", "ünï", ""},
		{"HTTP/1.1 500 \u009bC1\r\nX\xff\x01: v\r\nContent-Length: 0\r\n\r\n", "\uFFFDC1", "X\uFFFD\uFFFD", "v", ""},
		{"HTTP/1.1 500 x\r\nno colon\r\nContent-Length: 4\r\n\r\n\xff\xfe\x00\x01", "x", "", "no colon", "\xff\xfe\x00\x01"},
		{"HTTP/1.1 500 x\r\nX-A: one\r\n two\r\nContent-Length: 0\r\n\r\n", "x", "X-A", "one", ""},
		{"HTTP/1.1 500 x\r\nX-A : spaced\r\nContent-Length: 0\r\n\r\n", "x", "X-A ", "spaced", ""},
		{"HTTP/1.1 500 x\r\n: empty\r\nContent-Length: 0\r\n\r\n", "x", "", "empty", ""},
		{"HTTP/1.1 500 " + strings.Repeat("é", 300) + "\r\nX-A: b\r\nContent-Length: 0\r\n\r\n", strings.Repeat("é", 100), "X-A", "b", ""},
	} {
		t.Run(c.text+c.value, func(t *testing.T) {
			t.Parallel()
			out := s.Send(t.Context(), Request{EndpointID: t.Name(), URL: "http://" + raw(t, c.answer) + "/", Timeout: ample})
			want(t, out, Status, "")
			if out.StatusText != c.text || out.Header[0] != (Header{c.name, c.value}) || string(out.Body) != c.body {
				t.Errorf("text %q, header %q, body %q", out.StatusText, out.Header[0], out.Body)
			}
		})
	}
}

func TestHeaderOrderCaseAndBounds(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", nil)
	out := post(t, s, "http://"+raw(t, "HTTP/1.1 200 OK\r\nx-B: 2\r\nX-a: 1\r\nSet-Cookie: b\r\nSet-Cookie: a\r\nContent-Length: 0\r\n\r\n"))
	if got := fmt.Sprint(out.Header); got != "[{x-B 2} {X-a 1} {Set-Cookie b} {Set-Cookie a} {Content-Length 0}]" {
		t.Errorf("as on the wire: %s", got)
	}
	for name, c := range map[string]struct {
		head  string
		class Class
		kept  int
	}{
		"100 fields":              {strings.Repeat("A: b\r\n", 99), Delivered, 100},
		"101 fields":              {strings.Repeat("A: b\r\n", 100), Delivered, 100},
		"a field of 20 KB":        {"A: " + strings.Repeat("b", 20<<10) + "\r\n", Delivered, 0},
		"fields of 60 KB":         {strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 58), Delivered, 16},
		"10,000 cookies":          {strings.Repeat("Set-Cookie: a=b\r\n", 10_000), TooLargeHeader, 0},
		"a field without an end":  {"A: " + strings.Repeat("b", 100<<10), TooLargeHeader, 0},
		"a status line, 100 KB":   {"", TooLargeHeader, 0},
		"interim answers, 100 KB": {"", TooLargeHeader, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := "HTTP/1.1 200 OK\r\n" + c.head + "Content-Length: 0\r\n\r\n"
			switch name {
			case "a status line, 100 KB":
				answer = "HTTP/1.1 200 " + strings.Repeat("O", 100<<10)
			case "interim answers, 100 KB":
				answer = strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 2500)
			}
			out := s.Send(t.Context(), Request{EndpointID: t.Name(), URL: "http://" + raw(t, answer), Timeout: ample})
			want(t, out, c.class, "")
			if len(out.Header) != c.kept || out.HeaderCut != (c.class == Delivered && c.kept != 100 || name == "101 fields") {
				t.Errorf("%d fields, cut %v", len(out.Header), out.HeaderCut)
			}
		})
	}
}

func TestRetryAfterIsTheReceivers(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", nil)
	out := post(t, s, "http://"+raw(t, "HTTP/1.1 503 x\r\nRetry-After: 1\r\nretry-after:  3600 \r\nRetry-After: "+strings.Repeat("9", 1000)+"\r\nContent-Length: 0\r\n\r\n"))
	if len(out.RetryAfter) != 3 || out.RetryAfter[0] != "1" || out.RetryAfter[1] != "3600" || len(out.RetryAfter[2]) != 256 {
		t.Errorf("%q", out.RetryAfter)
	}
}
