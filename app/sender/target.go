package sender

import (
	"encoding/base64"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// target is an endpoint's URL, taken apart once.
type target struct {
	https bool
	name  string // the host for TLS: no brackets, no port
	addr  string // what is dialled, host:port
	host  string // the Host header, as the URL has it
	auth  string // the Authorization header of the URL's user and password, or empty
	path  string // the request target, byte for byte
}

const maxURL = 4096

// parseTarget takes a URL apart without changing a byte of its path and query, which net/url would. It is no
// judge of URLs (package egress is, when they are saved); it refuses what cannot be sent.
func parseTarget(raw string) (*target, bool) {
	if len(raw) > maxURL || !printable(raw) || strings.ContainsAny(raw, "#\\ ") {
		return nil, false
	}
	t := &target{}
	rest, ok := strings.CutPrefix(raw, "https://")
	if t.https = ok; !ok {
		if rest, ok = strings.CutPrefix(raw, "http://"); !ok {
			return nil, false
		}
	}
	authority := rest
	t.path = "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, t.path = rest[:i], rest[i:]
		if t.path[0] == '?' {
			t.path = "/" + t.path
		}
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if t.auth, ok = basicAuth(authority[:i]); !ok {
			return nil, false
		}
		authority = authority[i+1:]
	}
	t.host = authority
	name, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		if name, port = authority[:i], authority[i+1:]; port == "" {
			return nil, false
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		name = strings.TrimSuffix(inner, "]")
		if addr, err := netip.ParseAddr(name); err != nil || addr.Zone() != "" {
			return nil, false
		}
	} else if strings.ContainsAny(name, ":[]") {
		return nil, false
	}
	if name == "" || strings.ContainsAny(name, "%<>\"@/") || strings.Trim(port, "0123456789") != "" {
		return nil, false
	}
	if port == "" {
		port = "80"
		if t.https {
			port = "443"
		}
	}
	t.name, t.addr = name, net.JoinHostPort(name, port)
	return t, true
}

// basicAuth decodes user:password once and encodes them as RFC 7617 says.
func basicAuth(userinfo string) (string, bool) {
	user, password, _ := strings.Cut(userinfo, ":")
	user, err1 := url.PathUnescape(user)
	password, err2 := url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return "", false
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)), true
}

// printable says whether s is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
