package sender

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill/app/fault"
)

// The request on the wire is the caller's: target, order, case, body.
func TestTheRequestOnTheWire(t *testing.T) {
	t.Parallel()
	body := `{"b":1, "a":"<b>&é😀\u0000"}`
	for _, c := range []struct{ url, head string }{
		{"http://HOST/hook", "POST /hook HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nUser-Agent: Waybill/1\r\nWebhook-Id: evt_1\r\nX-b: 2\r\nX-A:  spaced\r\nContent-Length: %d\r\n\r\n"},
		{"http://HOST", "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nUser-Agent: Waybill/1\r\nWebhook-Id: evt_1\r\nX-b: 2\r\nX-A:  spaced\r\nContent-Length: %d\r\n\r\n"},
		{"http://HOST?a=b", "POST /?a=b HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nUser-Agent: Waybill/1\r\nWebhook-Id: evt_1\r\nX-b: 2\r\nX-A:  spaced\r\nContent-Length: %d\r\n\r\n"},
		{"http://u%40x:p%2Fw%3A%C3%A9@HOST//a%2Fb;c=[d]/../e?q=a+b%20c&d={|}^~", "POST //a%%2Fb;c=[d]/../e?q=a+b%%20c&d={|}^~ HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nUser-Agent: Waybill/1\r\nWebhook-Id: evt_1\r\nX-b: 2\r\nX-A:  spaced\r\nAuthorization: Basic dUB4OnAvdzrDqQ==\r\nContent-Length: %d\r\n\r\n"},
	} {
		for _, size := range []int{len(body), smallBody, smallBody + 1, 1 << 20} {
			t.Run(fmt.Sprint(c.url, size), func(t *testing.T) {
				t.Parallel()
				got := make(chan string, 1)
				addr := serve(t, nil, func(c net.Conn) {
					text, err := readRequest(bufio.NewReader(c))
					if err != nil {
						t.Error(err)
					}
					got <- text
					io.WriteString(c, "HTTP/1.1 204 x\r\n\r\n")
				})
				sent := body + strings.Repeat("x", size-len(body))
				out := newSender(t, "tcp", nil).Send(t.Context(), Request{EndpointID: "a", URL: strings.Replace(c.url, "HOST", addr, 1),
					Body: []byte(sent), Timeout: ample, Header: []Header{{"Content-Type", "application/json"},
						{"User-Agent", "Waybill/1"}, {"Webhook-Id", "evt_1"}, {"X-b", "2"}, {"X-A", " spaced"}}})
				want(t, out, Delivered, "")
				if wire := strings.ReplaceAll(fmt.Sprintf(c.head, size), "HOST", addr) + sent; <-got != wire {
					t.Errorf("want %.400q", wire)
				}
			})
		}
	}
}

func TestAnEndpointsAuthorizationWinsOverTheURLs(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"", "http/1.1", "h2"} {
		var got []string
		h := func(w http.ResponseWriter, r *http.Request) { got = append(got, r.Header.Values("Authorization")...) }
		url := receiver(t, nil, h)
		if protocol != "" {
			url = receiver(t, tlsConfig(t, protocol), h)
		}
		url = strings.Replace(url, "://", "://user:pw@", 1)
		s := newSender(t, "tcp", nil)
		s.Send(t.Context(), Request{EndpointID: "a", URL: url, Timeout: ample})
		s.Send(t.Context(), Request{EndpointID: "a", URL: url, Timeout: ample, Header: []Header{{"authorization", "Bearer x"}}})
		if fmt.Sprint(got) != "[Basic dXNlcjpwdw== Bearer x]" {
			t.Errorf("%q: %q", protocol, got)
		}
	}
}

// A row from before the rules fails alone, with a reason, before anything is sent.
func TestWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	s := newSender(t, "tcp", func(c *Config) { c.ProxyURL = "http://" + closedPort(t) })
	for _, h := range []Header{{"X A", "b"}, {"", "b"}, {"X:", "b"}, {"Xé", "b"}, {"X-A", "a\r\nB: c"}, {"X-A", "a\nb"}, {"X-A", "a\x00"},
		{"X-A", "é"}, {"X-A", "a\tb"}, {"X-A", strings.Repeat("x", 200<<10)}, {"Host", "x"}, {"CONTENT-LENGTH", "1"}, {"Transfer-Encoding", "chunked"},
		{"connection", "close"}, {"Expect", "100-continue"}, {"Upgrade", "h2c"}, {"TE", "trailers"}, {"Trailer", "X"}, {"Keep-Alive", "1"}, {"Proxy-Connection", "close"}} {
		out := s.Send(t.Context(), Request{EndpointID: "a", URL: "http://r.t.test/", Header: []Header{h}, Timeout: time.Second})
		if want(t, out, BadConfig, ""); out.Sent {
			t.Errorf("%q was sent", h)
		}
	}
	if out := s.Send(t.Context(), Request{EndpointID: "a", URL: "http://r.t.test/", Header: make([]Header, 500), Timeout: time.Second}); out.Class != BadConfig {
		t.Errorf("500 headers: %s", out.Class)
	}
	for _, url := range []string{"", "x", "//x", "http:x", "ftp://x/", "HTTP://x/", "http://", "http:///x", "http://x y/", "http://x/ ", "http://x/\r\nA: b", "http://x/é",
		"http://é/", "http://x:/", "http://x:port/", "http://x:1:2/", "http://[::1/", "http://[::1%25lo]/", "http://[x]/", "http://::1/", "http://x%2e/",
		"http://x/#f", `http://x\y/`, "http://u:%zz@x/", "http://:80/", "https://" + strings.Repeat("x", 5000)} {
		if out := s.Send(t.Context(), Request{EndpointID: "a", URL: url, Timeout: time.Second}); out.Class != BadConfig || out.Sent {
			t.Errorf("%.60q: %s", url, out.Class)
		}
	}
	// The same endpoint works as soon as its URL does.
	want(t, s.Send(t.Context(), Request{EndpointID: "a", URL: "http://r.t.test/", Timeout: time.Second}), Proxy, "")
}

func TestCheckHeaders(t *testing.T) {
	t.Parallel()
	for _, good := range [][]Header{nil, {{"X-Api-Key", "SECRET"}, {"Authorization", "Bearer x"}, {"x", ""}}, {{"Cookie", "a=b; c=d"}},
		{{strings.Repeat("x", MaxHeaderName), strings.Repeat("y", MaxHeaderValue)}}, many(MaxHeaders)} {
		if err := CheckHeaders(good); err != nil {
			t.Errorf("%.100q: %v", good, err)
		}
		if !sendable(good) {
			t.Errorf("%.100q is saved and cannot be sent", good)
		}
	}
	for _, c := range []struct {
		headers []Header
		field   string
	}{
		{many(MaxHeaders + 1), "headers"},
		{many(500), "headers"},
		{[]Header{{"", "b"}}, "headers[0].name"},
		{[]Header{{"X A", "b"}}, "headers[0].name"},
		{[]Header{{"X-A:", "b"}}, "headers[0].name"},
		{[]Header{{"X-A\r\nB", "b"}}, "headers[0].name"},
		{[]Header{{"X-É", "b"}}, "headers[0].name"},
		{[]Header{{strings.Repeat("x", MaxHeaderName+1), "b"}}, "headers[0].name"},
		{[]Header{{"X-A", "1"}, {"x-a", "2"}}, "headers[1].name"},
		{[]Header{{"X-A", "a\r\nB: c"}}, "headers[0].value"},
		{[]Header{{"X-A", "é"}}, "headers[0].value"},
		{[]Header{{"X-A", "a\tb"}}, "headers[0].value"},
		{[]Header{{"X-A", "a\x00b"}}, "headers[0].value"},
		{[]Header{{"X-A", " a"}}, "headers[0].value"},
		{[]Header{{"X-A", "a "}}, "headers[0].value"},
		{[]Header{{"X-A", strings.Repeat("x", MaxHeaderValue+1)}}, "headers[0].value"},
		{[]Header{{"X-A", strings.Repeat("x", 64<<10)}}, "headers[0].value"},
		{[]Header{{"Webhook-Signature", "v1,x"}}, "headers[0].name"},
	} {
		err := CheckHeaders(c.headers)
		if err == nil || err.Kind != fault.Invalid || len(err.Fields) != 1 || err.Fields[0].Name != c.field {
			t.Errorf("%.60q: %v, want the field %q", c.headers, err, c.field)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("a value in the error: %v", err)
		}
	}
	for name, reserved := range map[string]bool{"Host": true, "HOST": true, "webhook-anything": true, "Webhook-Id": true, "content-type": true,
		"Content-Encoding": true, "Content-Length": true, "Transfer-Encoding": true, "User-Agent": true, "Expect": true, "Connection": true, "Keep-Alive": true,
		"TE": true, "Trailer": true, "Upgrade": true, "Proxy-Authorization": true, "proxy-x": true, "Idempotency-Key": true, "X-Idempotency-Key": true,
		"X-Upstream-Https-Proxy": true, "x-smokescreen-role": true, "X-Waybill-Verdict": true, "Accept-Encoding": true, "HTTP2-Settings": true,
		"Authorization": false, "X-Api-Key": false, "X-Webhook-Id": false, "Accept": false, "Cookie": false, "Hostess": false} {
		if got := ForbiddenHeader(name); got != reserved {
			t.Errorf("ForbiddenHeader(%q) = %v", name, got)
		}
	}
}

func many(n int) []Header {
	out := make([]Header, n)
	for i := range out {
		out[i] = Header{fmt.Sprintf("X-%d", i), "v"}
	}
	return out
}

// A saved header can be sent, and every name that frames a message is reserved.
func FuzzCheckHeaders(f *testing.F) {
	f.Add("X-A", "b")
	f.Add("Host", "x\r\ny")
	f.Fuzz(func(t *testing.T, name, value string) {
		h := []Header{{name, value}}
		if CheckHeaders(h) == nil && !sendable(h) {
			t.Errorf("%q: %q is saved and cannot be sent", name, value)
		}
		if framing(name) && !ForbiddenHeader(name) {
			t.Errorf("%q is not reserved", name)
		}
	})
}

func TestPublicClasses(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for class, phrase := range phrases {
		switch class {
		case Refused, ConnectTimeout, Reset, NotHTTP:
			if class.Public() != NoAnswer || phrase != noAnswer {
				t.Errorf("%q can be told apart: %q, %q", class, class.Public(), phrase)
			}
		default:
			if class.Public() != class || seen[phrase] {
				t.Errorf("%q: public %q, phrase %q", class, class.Public(), phrase)
			}
			seen[phrase] = true
		}
	}
	if Delivered.Public() != Delivered {
		t.Error("Delivered has another public class")
	}
}

// Who cannot show a certificate or an answer of a port learns nothing about it but the total time.
func TestNoOracle(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		s := newSender(t, way, nil)
		banner := serve(t, nil, func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); readSome(c) })
		hangsUp := serve(t, nil, func(c net.Conn) { readSome(c) })
		var first string
		for _, url := range []string{"http://" + closedPort(t), "https://" + closedPort(t), "http://" + banner, "https://" + banner, "http://" + hangsUp, "https://" + hangsUp} {
			out := s.Send(t.Context(), Request{EndpointID: url, URL: url, Timeout: ample})
			out.Class, out.Started, out.Total, out.Sent = out.Class.Public(), time.Time{}, 0, false
			if text := fmt.Sprintf("%+v", out); first == "" {
				first = text
			} else if text != first {
				t.Errorf("%s can be told from a closed port:\n%s\n%s", url, text, first)
			}
		}
	}
}
