package egress

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stripe/smokescreen/pkg/smokescreen/hostport"
	"golang.org/x/net/idna"

	"waybill/app/fault"
)

// MaxURL is the longest URL of an endpoint, in bytes, as given and as stored.
const MaxURL = 2048

// URLOptions say which URLs CheckURL lets through beside https:// ones with public hosts.
type URLOptions struct {
	AllowHTTP bool           // http:// too (WAYBILL_ALLOW_HTTP)
	Allow     []netip.Prefix // as in Config; when not empty, names without a dot and private suffixes are let through too
}

// CheckURL checks an endpoint's URL when it is saved and returns the form to store and to dial: lower-case
// scheme and host, international names in punycode, no default port, no trailing dot, a path. Path and query
// stay byte for byte. A user and password before the host are kept; the sender turns them into an
// Authorization header. CheckURL of its own result returns it unchanged.
//
// What it refuses is an Invalid fault with one field, "url". What it accepts may still be refused by the proxy,
// which sees the addresses behind the name; it is never refused for its form.
func CheckURL(raw string, opts URLOptions) (string, *fault.Error) {
	normal, why := checkURL(raw, opts)
	if why != "" {
		return "", fault.New(fault.Invalid, "This URL cannot be used.").Field("url", why)
	}
	return normal, nil
}

func checkURL(raw string, opts URLOptions) (normal, why string) {
	if why := checkText(raw); why != "" {
		return "", why
	}
	scheme, rest, found := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case found && scheme == "https":
	case found && scheme == "http" && opts.AllowHTTP:
	case opts.AllowHTTP:
		return "", "must start with https:// or http://"
	default:
		return "", "must start with https://"
	}
	authority, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], rest[i:]
		if target[0] == '?' {
			target = "/" + target
		}
	}
	if why := checkTarget(target); why != "" {
		return "", why
	}
	userinfo, hostPort := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if why := checkUserinfo(authority[:i]); why != "" {
			return "", why
		}
		userinfo, hostPort = authority[:i+1], authority[i+1:]
	}
	host, port, why := splitPort(hostPort, scheme)
	if why != "" {
		return "", why
	}
	if host, why = checkHost(host, opts.Allow); why != "" {
		return "", why
	}
	normal = scheme + "://" + userinfo + host + port + target
	if len(normal) > MaxURL {
		return "", tooLong
	}
	return normal, ""
}

const tooLong = "must have at most 2,048 characters"

// checkText refuses what no part of a URL may hold.
func checkText(raw string) string {
	switch {
	case raw == "":
		return "is missing"
	case len(raw) > MaxURL:
		return tooLong
	case !utf8.ValidString(raw):
		return "is not valid UTF-8"
	case strings.ContainsAny(raw, " \t\r\n\u00a0\u3000"):
		return "must not contain spaces or line ends; write %20 for a space"
	case strings.Contains(raw, `\`):
		return "must not contain a backslash"
	case strings.Contains(raw, "#"):
		return "must not have a fragment (#…): it would never be sent"
	}
	for _, r := range raw {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return "must not contain control characters"
		}
	}
	return ""
}

// checkTarget refuses what cannot stand in a request line, so that the rest can go out as it is.
func checkTarget(target string) string {
	if why := checkEscapes(target); why != "" {
		return why
	}
	for _, r := range target {
		if r > 0x7e || strings.ContainsRune("\"<>`", r) {
			return "has characters in its path or query that must be percent-encoded"
		}
	}
	return ""
}

func checkEscapes(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return "has a % that is not followed by two hexadecimal digits"
		}
	}
	return ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// checkUserinfo takes "user:password" with everything unusual percent-encoded. A user that decodes to something
// with a slash or a colon is a host in disguise or cannot be told from its password.
func checkUserinfo(s string) string {
	const odd = "has a user name or password with characters that must be percent-encoded"
	if why := checkEscapes(s); why != "" {
		return why
	}
	for _, r := range s {
		if r > 0x7e || strings.ContainsRune("@[]\"<>`^{|}", r) {
			return odd
		}
	}
	user, password, _ := strings.Cut(s, ":")
	name, err1 := url.PathUnescape(user)
	word, err2 := url.PathUnescape(password)
	switch {
	case user == "":
		return "has an @ without a user name before it"
	case err1 != nil || err2 != nil || strings.Contains(password, ":"):
		return odd
	case strings.ContainsAny(name, "/\\:?#"):
		return "has a user name that looks like a host"
	}
	for _, r := range name + word {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return "must not contain control characters"
		}
	}
	return ""
}

// splitPort returns the host with its brackets, and the port with its colon or nothing when it is the
// scheme's own.
func splitPort(hostPort, scheme string) (host, port, why string) {
	host = hostPort
	if end := strings.LastIndexByte(hostPort, ']'); strings.HasPrefix(hostPort, "[") && end > 0 {
		host, port = hostPort[:end+1], hostPort[end+1:]
	} else if i := strings.IndexByte(hostPort, ':'); i >= 0 {
		host, port = hostPort[:i], hostPort[i:]
	}
	if host == "" {
		return "", "", "has no host"
	}
	if port == "" {
		return host, "", ""
	}
	digits := port[1:]
	n, err := strconv.Atoi(digits)
	if port[0] != ':' || err != nil || strconv.Itoa(n) != digits {
		return "", "", "has a port that is not a number"
	}
	if !PortAllowed(n) {
		return "", "", "has a port that is not allowed: use 80, 443 or 1024 to 65535"
	}
	if scheme == "https" && n == 443 || scheme == "http" && n == 80 {
		port = ""
	}
	return host, port, ""
}

const notPublic = "has an address that is not public; use a name that leads to a public one, or waybill listen for your own machine"

// checkHost returns the host as it is dialled.
func checkHost(host string, allow []netip.Prefix) (normal, why string) {
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		switch {
		case err != nil || !addr.Is6():
			return "", "has brackets around something that is not an IPv6 address"
		case addr.Zone() != "":
			return "", "has an IPv6 address with a zone"
		case addr.Is4In6():
			return "", "has an IPv4 address written as an IPv6 one"
		case Denied(addr, allow):
			return "", notPublic
		}
		return "[" + addr.String() + "]", ""
	}
	if strings.ContainsAny(host, "%") {
		return "", "has a host with percent-encoding"
	}
	// The proxy's own rule, so that what is saved here cannot be refused there for its form.
	normal, err := hostport.NormalizeHost(host, false)
	if err != nil {
		return "", "has a host that is not a valid name"
	}
	normal = strings.TrimSuffix(normal, ".")
	if isNumber(normal[strings.LastIndexByte(normal, '.')+1:]) {
		addr, err := netip.ParseAddr(normal)
		switch {
		case err != nil || normal != host:
			return "", "has an address that is not written as four decimal numbers"
		case Denied(addr, allow):
			return "", notPublic
		}
		return normal, ""
	}
	if why := checkName(normal, allow); why != "" {
		return "", why
	}
	return normal, ""
}

// isNumber says whether a last label makes the whole host an address for some reader (WHATWG URL, "ends in a
// number"): digits, or 0x and hexadecimal ones.
func isNumber(label string) bool {
	if label == "" {
		return false
	}
	if strings.HasPrefix(label, "0x") {
		return strings.Trim(label[2:], "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// private are the ends of names that never lead to a public host.
var private = []string{".local", ".internal", ".localdomain", ".lan", ".home.arpa", ".onion"}

func checkName(name string, allow []netip.Prefix) string {
	if len(name) > 253 {
		return "has a host of more than 253 characters"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "has a host that is not a valid name"
		}
	}
	loopback := !Denied(netip.AddrFrom4([4]byte{127, 0, 0, 1}), allow) || !Denied(netip.IPv6Loopback(), allow)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		if loopback {
			return ""
		}
		return notPublic
	}
	if len(allow) > 0 {
		return ""
	}
	if !strings.Contains(name, ".") {
		return "must have a full host name, such as hooks.example.com"
	}
	for _, end := range private {
		if strings.HasSuffix(name, end) {
			return notPublic
		}
	}
	return ""
}

// HostForms returns the host of a stored URL as it is dialled and as people write it: equal unless the name is
// an international one. Both are empty when url is not one that CheckURL returned.
func HostForms(stored string) (dialled, written string) {
	u, err := url.Parse(stored)
	if err != nil || u.Host == "" {
		return "", ""
	}
	written, err = idna.Display.ToUnicode(u.Hostname())
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		written = u.Hostname()
	}
	return u.Hostname(), written
}

// MaskURL is a stored URL for places where others may look: scheme, host and port stay, a user, a path beyond
// "/" and a query become "…", since receivers put secrets into all three.
func MaskURL(stored string) string {
	scheme, rest, ok := strings.Cut(stored, "://")
	if !ok {
		return "…"
	}
	authority, target := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, target = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = "…@" + authority[i+1:]
	}
	if len(target) > 1 {
		target = "/…"
	}
	return scheme + "://" + authority + target
}
