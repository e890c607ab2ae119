package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stripe/smokescreen/pkg/smokescreen/hostport"

	"waybill/app/fault"
)

func TestCheckURLRefuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"":                                  "is missing",
		"x":                                 "must start with https://",
		"//x.t.test":                        "must start with",
		"http:x":                            "must start with",
		"https:x.t.test/":                   "must start with",
		"ftp://x.t.test/":                   "must start with",
		"javascript:alert(1)":               "must start with",
		"javascript://x.t.test/%0aalert(1)": "must start with",
		"http:///x":                         "has no host",
		"https://":                          "has no host",
		"https://:443/":                     "has no host",
		"https://?x":                        "has no host",
		"https://u:p@/":                     "has no host",
		"http://x:0/":                       "not allowed",
		"http://x.t.test:65536/":            "not allowed",
		"http://x.t.test:22/":               "not allowed",
		"http://x.t.test:25/":               "not allowed",
		"http://x.t.test:465/":              "not allowed",
		"http://x.t.test:587/":              "not allowed",
		"http://x.t.test:1023/":             "not allowed",
		"http://x.t.test:/":                 "not a number",
		"http://x.t.test:+80/":              "not a number",
		"http://x.t.test:0443/":             "not a number",
		"http://x.t.test:https/":            "not a number",
		"http://x.t.test:80:80/":            "not a number",
		"http://2130706433/":                "four decimal numbers",
		"http://0177.0.0.1/":                "four decimal numbers",
		"http://0x7f.1/":                    "four decimal numbers",
		"http://0x7F000001/":                "four decimal numbers",
		"http://127.1/":                     "four decimal numbers",
		"http://0/":                         "four decimal numbers",
		"http://127.0.0.1./":                "four decimal numbers",
		"http://8.8.8.8./":                  "four decimal numbers",
		"http://8.8.8.08/":                  "four decimal numbers",
		"http://8.8.8.256/":                 "four decimal numbers",
		"http://x.t.test.1/":                "four decimal numbers",
		"http://127。0。0。1/":                 "four decimal numbers",
		"http://8。8。8。8/":                   "four decimal numbers",
		"http://①②⑦.0.0.1/":                 "four decimal numbers",
		"http://１２７.0.0.1/":                 "four decimal numbers",
		"http://127.0.0.1/":                 notPublic,
		"http://10.0.0.1/":                  notPublic,
		"http://169.254.169.254/latest":     notPublic,
		"http://a@127.0.0.1/":               notPublic,
		"https://[::1]/":                    notPublic,
		"https://[::127.0.0.1]/":            notPublic,
		"https://[64:ff9b::7f00:1]/":        notPublic,
		"https://[2002:7f00:1::]/":          notPublic,
		"https://[2001:db8::10]/":           notPublic,
		"https://[fd00:ec2::254]/":          notPublic,
		"http://[::ffff:127.0.0.1]/":        "IPv4 address written as",
		"http://[::ffff:8.8.8.8]/":          "IPv4 address written as",
		"http://[::1%25lo]/":                "zone",
		"http://[fe80::1%25eth0]/":          "zone",
		"http://[127.0.0.1]/":               "brackets",
		"http://[localhost]/":               "brackets",
		"http://[::1/":                      "not a number", // the host is "[", the port "" and so on
		"http://[]/":                        "brackets",
		"http://::1/":                       "has no host",
		"http://[::2]x/":                    "not a number",
		"http://localhost/":                 notPublic,
		"http://localhost./":                notPublic,
		"http://LOCALHOST/":                 notPublic,
		"http://ⓛocalhost/":                 notPublic,
		"http://a.localhost/":               notPublic,
		"http://printer.local/":             notPublic,
		"http://db.internal/":               notPublic,
		"http://metadata.google.internal/":  notPublic,
		"http://x/":                         "full host name",
		"http://x./":                        "full host name",
		"http://./":                         "not a valid name",
		"http://../":                        "not a valid name",
		"http://x..t.test/":                 "not a valid name",
		"http://.t.test/":                   "not a valid name",
		"http://-x.t.test/":                 "not a valid name",
		"http://x-.t.test/":                 "not a valid name",
		"http://r3---sn.t.test/":            "not a valid name",
		"http://xn--a.t.test/":              "not a valid name",
		"http://a!b.t.test/":                "not a valid name",
		"http://a,b.t.test/":                "not a valid name",
		"http://℀.t.test/":                  "not a valid name", // its compatibility form has a slash
		"http://" + strings.Repeat("a", 64) + ".t.test/":     "not a valid name",
		"http://" + strings.Repeat("a.", 124) + "t.test/":    "more than 253",
		"http://127.0.0.1%2f@x.t.test/":                      "looks like a host",
		"http://127.0.0.1%5c@x.t.test/":                      "looks like a host",
		"http://u%3ap@x.t.test/":                             "looks like a host",
		"http://a@b@x.t.test/":                               "percent-encoded",
		"http://u:p:q@x.t.test/":                             "percent-encoded",
		"http://é:p@x.t.test/":                               "percent-encoded",
		"http://u:p%0d@x.t.test/":                            "control",
		"http://u:p%zz@x.t.test/":                            "two hexadecimal digits",
		"http://@x.t.test/":                                  "without a user name",
		"http://:p@x.t.test/":                                "without a user name",
		"http://x%2et.test/":                                 "percent-encoding",
		"http://x.t.test%00/":                                "percent-encoding",
		"http://x.t.test#@127.0.0.1/":                        "fragment",
		"http://x.t.test/#":                                  "fragment",
		`http://x.t.test\@127.0.0.1/`:                        "backslash",
		`http://x.t.test/\x`:                                 "backslash",
		"http://x.t.test/ ":                                  "spaces",
		" http://x.t.test/":                                  "spaces",
		"http://x.t.test/a b":                                "spaces",
		"http://x.t.test/\t":                                 "spaces",
		"http://x.t.test/\r\nHost: y":                        "spaces",
		"http://x.t.test\u00a0/":                             "spaces",
		"http://x.t.test/\x00":                               "control",
		"http://x.t.test/\x7f":                               "control",
		"http://x.t.test/\u0085":                             "control",
		"http://x.t.test/\xff":                               "UTF-8",
		"http://x.t.test/straße":                             "percent-encoded",
		"http://x.t.test/<b>":                                "percent-encoded",
		"http://x.t.test/?q=\"":                              "percent-encoded",
		"http://x.t.test/%":                                  "two hexadecimal digits",
		"http://x.t.test/%4":                                 "two hexadecimal digits",
		"http://x.t.test/%g0":                                "two hexadecimal digits",
		"https://x.t.test/" + strings.Repeat("a", MaxURL):    "2,048",
		"https://x.t.test/" + strings.Repeat("a", 5000):      "2,048",
		"https://ü.t.test/" + strings.Repeat("a", MaxURL-18): "2,048", // too long once in punycode
	} {
		t.Run(raw[:min(len(raw), 40)], func(t *testing.T) {
			t.Parallel()
			got, err := CheckURL(raw, URLOptions{AllowHTTP: true})
			if err == nil {
				t.Fatalf("accepted as %q", got)
			}
			if err.Kind != fault.Invalid || len(err.Fields) != 1 || err.Fields[0].Name != "url" || got != "" {
				t.Errorf("%v", err)
			}
			if why := err.Fields[0].Detail; !strings.Contains(why, want) {
				t.Errorf("%q: %q, want %q", raw, why, want)
			}
		})
	}
}

func TestCheckURLAccepts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://x.t.test":                                   "https://x.t.test/",
		"https://x.t.test?a=1":                               "https://x.t.test/?a=1",
		"https://x.t.test/":                                  "",
		"HTTPS://X.T.Test/Path":                              "https://x.t.test/Path",
		"https://x.t.test./":                                 "https://x.t.test/",
		"https://x.t.test:443/":                              "https://x.t.test/",
		"https://x.t.test:80/":                               "",
		"https://x.t.test:8443/":                             "",
		"https://x.t.test:65535/":                            "",
		"https://foo_bar.t.test/":                            "",
		"https://_x.t.test/":                                 "",
		"https://1.t.test/":                                  "",
		"https://0x7f.t.test/":                               "",
		"https://münchen.t.test/":                            "https://xn--mnchen-3ya.t.test/",
		"https://MÜNCHEN.t.test/":                            "https://xn--mnchen-3ya.t.test/",
		"https://xn--mnchen-3ya.t.test/":                     "",
		"https://faß.t.test/":                                "https://xn--fa-hia.t.test/",
		"https://例え。テスト/":                                    "https://xn--r8jz45g.xn--zckzah/",
		"https://साड़ी.t.test/":                              "https://xn--e2b9bngm.t.test/",
		"https://8.8.8.8/":                                   "",
		"https://8.8.8.8:8443/x":                             "",
		"https://[2606:4700::1111]/":                         "",
		"https://[2606:4700:0:0:0:0:0:1111]:443/":            "https://[2606:4700::1111]/",
		"https://[2606:4700::1111]:8443/x":                   "",
		"https://x.t.test/a%2Fb;c=[d]/../e//f":               "",
		"https://x.t.test//a":                                "",
		"https://x.t.test/?q=a+b%20c&d={e}|^~'()*!$,:@/?":    "",
		"https://x.t.test/?":                                 "",
		"https://user@x.t.test/":                             "",
		"https://user:pw@x.t.test/hook":                      "",
		"https://u%40corp:p%2Fw%3A%20%C3%A9@x.t.test/":       "",
		"https://x.t.test/" + strings.Repeat("a", MaxURL-17): "",
	} {
		t.Run(raw[:min(len(raw), 40)], func(t *testing.T) {
			t.Parallel()
			if want == "" {
				want = raw
			}
			got, err := CheckURL(raw, URLOptions{})
			if err != nil || got != want {
				t.Fatalf("CheckURL(%q) = %q, %v; want %q", raw, got, err, want)
			}
		})
	}
}

func TestCheckURLOptions(t *testing.T) {
	t.Parallel()
	loop := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	docker := []netip.Prefix{netip.MustParsePrefix("172.18.0.0/16")}
	for _, c := range []struct {
		raw  string
		opts URLOptions
		ok   bool
	}{
		{"http://x.t.test/", URLOptions{}, false},
		{"http://x.t.test/", URLOptions{AllowHTTP: true}, true},
		{"http://x.t.test:80/", URLOptions{AllowHTTP: true}, true},
		{"https://127.0.0.1:3000/", URLOptions{Allow: loop}, true},
		{"https://[::1]:3000/", URLOptions{Allow: loop}, true},
		{"https://localhost:3000/", URLOptions{Allow: loop}, true},
		{"https://a.localhost:3000/", URLOptions{Allow: loop}, true},
		{"https://10.0.0.1/", URLOptions{Allow: loop}, false},
		{"https://127.0.0.3/", URLOptions{Allow: receivers}, false},
		{"https://localhost/", URLOptions{Allow: docker}, false},
		{"https://receiver:3000/", URLOptions{Allow: docker}, true},
		{"https://receiver.local/", URLOptions{Allow: docker}, true},
		{"https://172.18.0.5/", URLOptions{Allow: docker}, true},
		{"https://2130706433/", URLOptions{Allow: loop}, false},
		{"https://127.1/", URLOptions{Allow: loop}, false},
	} {
		if _, err := CheckURL(c.raw, c.opts); (err == nil) != c.ok {
			t.Errorf("CheckURL(%q, %+v): %v", c.raw, c.opts, err)
		}
	}
}

func TestHostFormsAndMaskURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, dialled, written, masked string }{
		{"https://x.t.test/", "x.t.test", "x.t.test", "https://x.t.test/"},
		{"https://xn--mnchen-3ya.t.test:8443/a?b", "xn--mnchen-3ya.t.test", "münchen.t.test", "https://xn--mnchen-3ya.t.test:8443/…"},
		{"https://user:pw@h.t.test/hook/SECRETPATH?token=SECRET", "h.t.test", "h.t.test", "https://…@h.t.test/…"},
		{"https://[2606:4700::1111]/", "2606:4700::1111", "2606:4700::1111", "https://[2606:4700::1111]/"},
		{"https://8.8.8.8/?x", "8.8.8.8", "8.8.8.8", "https://8.8.8.8/…"},
		{"nonsense", "", "", "…"},
	} {
		dialled, written := HostForms(c.stored)
		if dialled != c.dialled || written != c.written {
			t.Errorf("HostForms(%q) = %q, %q", c.stored, dialled, written)
		}
		if got := MaskURL(c.stored); got != c.masked {
			t.Errorf("MaskURL(%q) = %q, want %q", c.stored, got, c.masked)
		}
	}
}

// What CheckURL lets through is deliverable: stable, read alike by Go's parser and the proxy's, on an allowed
// port, and never an address that is not public.
func FuzzCheckURL(f *testing.F) {
	for _, raw := range []string{
		"https://x.t.test/a?b=c", "http://a@127.0.0.1/", "https://münchen.t.test./", "https://[::ffff:127.0.0.1]/",
		"https://u:p%40@8.8.8.8:8443//x", "https://127。0。0。1/", "http://0x7f.1/", "https://[2606:4700::1]:443?x", "https://x.t.test#@y",
		"https://user%2f@x.t.test/%2F;[", `https://x\@y/`, "https://℀.t.test/", "https://xn--mnchen-3ya.t.test/", "https://1.2.3.4.5/",
	} {
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw string, allowHTTP bool) {
		opts := URLOptions{AllowHTTP: allowHTTP}
		normal, fail := CheckURL(raw, opts)
		if fail != nil {
			return
		}
		if again, fail := CheckURL(normal, opts); fail != nil || again != normal {
			t.Fatalf("%q became %q, which becomes %q, %v", raw, normal, again, fail)
		}
		u, err := url.Parse(normal)
		if err != nil {
			t.Fatalf("%q: %v", normal, err)
		}
		if u.Scheme != "https" && !(allowHTTP && u.Scheme == "http") || u.Fragment != "" || u.Opaque != "" || u.Host == "" {
			t.Fatalf("%q: %#v", normal, u)
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		hp, err := hostport.New(net.JoinHostPort(u.Hostname(), port), false)
		if err != nil || hp.Host != u.Hostname() || !PortAllowed(hp.Port) {
			t.Fatalf("%q: the proxy reads %+v, %v", normal, hp, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && Denied(addr, nil) {
			t.Fatalf("%q is not public", normal)
		}
		if net.ParseIP(u.Hostname()) == nil && isNumber(u.Hostname()[strings.LastIndexByte(u.Hostname(), '.')+1:]) {
			t.Fatalf("%q may be read as a number", normal)
		}
		_, rest, _ := strings.Cut(normal, "://")
		target := rest[strings.IndexByte(rest, '/'):]
		if !strings.HasSuffix(raw, target) && !strings.HasSuffix("/"+raw, target) && !strings.HasSuffix(raw, target[1:]) {
			t.Fatalf("%q: the target %q is not what was given", raw, target)
		}
	})
}
