package delivery

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
)

// hiddenValue stands where a value is that the reader may not see.
const hiddenValue = "<hidden>"

// Shown is the header's value, or a mark when it is hidden.
func (h Header) Shown() string {
	if h.Hidden {
		return hiddenValue
	}
	return h.Value
}

// Curl is the request as a command for a POSIX shell that sends the same bytes again: everything is quoted, nothing in it is run. What is
// hidden stands as a mark, to be filled in.
func (r Request) Curl(body []byte) string {
	var b strings.Builder
	b.WriteString("curl --request POST " + quoted(r.shownURL()))
	for _, h := range r.Headers {
		// A header without a value is written with a semicolon; "name:" would take it out (curl's manual, -H).
		line := h.Name + ": " + h.Shown()
		if h.Shown() == "" {
			line = h.Name + ";"
		}
		b.WriteString(" \\\n  --header " + quoted(line))
	}
	b.WriteString(" \\\n  --data-raw " + quoted(string(body)) + "\n")
	return b.String()
}

// HTTP is the request as an HTTP/1.1 message, with the lines that the client adds by itself.
func (r Request) HTTP(body []byte) string {
	target, host, authorization := r.parts()
	var b strings.Builder
	b.WriteString("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\n")
	for _, h := range r.Headers {
		b.WriteString(h.Name + ": " + h.Shown() + "\r\n")
		if strings.EqualFold(h.Name, "authorization") {
			authorization = ""
		}
	}
	if authorization != "" {
		b.WriteString("Authorization: " + authorization + "\r\n")
	}
	b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	b.Write(body)
	return b.String()
}

// shownURL is the address, or with a hidden one its host and a mark.
func (r Request) shownURL() string {
	if r.Hidden {
		return r.URL + "/" + hiddenValue
	}
	return r.URL
}

// parts are the request's target, Host header and the Authorization that the address holds, as package sender writes them: the path and query
// byte for byte.
func (r Request) parts() (target, host, authorization string) {
	_, user, host, target := split(r.URL)
	if r.Hidden {
		return "/" + hiddenValue, host, ""
	}
	if user != "" {
		name, password, _ := strings.Cut(user, ":")
		name, errName := url.PathUnescape(name)
		password, errPassword := url.PathUnescape(password)
		if errName == nil && errPassword == nil {
			authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
		}
	}
	return target, host, authorization
}

// split takes an address apart without changing a byte of it.
func split(address string) (scheme, user, host, target string) {
	scheme, rest, _ := strings.Cut(address, "://")
	host, target = rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, target = rest[:i], rest[i:]
		if target[0] == '?' {
			target = "/" + target
		}
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		user, host = host[:i], host[i+1:]
	}
	return scheme, user, host, target
}

// hostOnly is an address without what may be secret in it: user, password, path and query.
func hostOnly(address string) string {
	scheme, _, host, _ := split(address)
	return scheme + "://" + host
}

// quoted is text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
