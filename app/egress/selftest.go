package egress

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// forbidden are addresses that a proxy must refuse: one or more of every range in denied, and the odd places.
var forbidden = addrs(
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.254", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.1.2.3",
	"161.26.0.10", "166.9.0.1", "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.254",
	"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.80.8.124", "192.88.99.1",
	"192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.254", "198.51.100.1", "203.0.113.1", "224.0.0.1",
	"239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::10.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
	"::ffff:0:127.0.0.1", "::ffff:0:a00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1",
	"64:ff9b:1:fffe::a00:1", "100::1", "100:0:0:1::1", "2001::1", "2001:0:7f00:1::1", "2001:2::1", "2001:10::1", "2001:20::1",
	"2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2620:4f:8000::1", "3fff::1", "5f00::1", "fc00::1",
	"fd00:ec2::254", "fdaa::3", "fe80::1", "fec0::1", "ff02::1",
)

// ErrLetThrough is in the error of a SelfTest whose proxy lets a forbidden address through, and not in that of
// one that is silent.
var ErrLetThrough = errors.New("the proxy does not refuse what it must")

// selfTestWithin bounds a self-test whose context has no nearer end.
const selfTestWithin = AnswerWithin + 2*time.Second

// SelfTest asks the running proxy at proxyURL (http://[user:password@]host:port) to CONNECT to what must be
// refused: addresses of both families from every range that is not public, except those inside allow. It fails
// with ErrLetThrough when one is let through or tried, and with another error when the proxy does not answer. It
// needs no network beyond the proxy, and takes some round trips to it when all is well. Any smokescreen with the
// same ranges passes, also one that is not started by us.
func SelfTest(ctx context.Context, proxyURL string, allow []netip.Prefix) error {
	u, err := url.Parse(proxyURL)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return errors.New("egress self-test: the proxy's URL must be http://host:port")
	}
	ctx, cancel := context.WithTimeout(ctx, selfTestWithin)
	defer cancel()
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		passed []string
		silent error
		slots  = make(chan struct{}, 16) // a proxy may limit its clients
	)
	for _, target := range selfTestTargets(allow) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			refused, err := refuses(ctx, u, target)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				silent = err
			case !refused:
				passed = append(passed, target)
			}
		})
	}
	wg.Wait()
	if len(passed) > 0 {
		slices.Sort(passed)
		return fmt.Errorf("egress self-test: %w: %s", ErrLetThrough, strings.Join(passed, ", "))
	}
	if silent != nil {
		return fmt.Errorf("egress self-test: the proxy does not answer: %w", silent)
	}
	return nil
}

func selfTestTargets(allow []netip.Prefix) []string {
	var out []string
	for _, addr := range forbidden {
		if Denied(addr, allow) {
			// As the text stands, so that mapped addresses arrive as such.
			out = append(out, "["+addr.String()+"]:443")
			if addr.Is4() {
				out[len(out)-1] = addr.String() + ":443"
			}
		}
	}
	if Denied(netip.MustParseAddr("127.0.0.1"), allow) && Denied(netip.IPv6Loopback(), allow) {
		out = append(out, "localhost:443", "LOCALHOST.:80")
	}
	return out
}

// refuses sends one CONNECT and reads the answer. An answer that shows the proxy tried (connected, refused
// by the other side, timed out) is not a refusal; one that says the name or address cannot be used is.
func refuses(ctx context.Context, proxy *url.URL, target string) (bool, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", proxy.Host)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	}
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	ask := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if u := proxy.User; u != nil {
		pw, _ := u.Password()
		ask += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pw)) + "\r\n"
	}
	if _, err := conn.Write([]byte(ask + "\r\n")); err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	why := resp.Header.Get(errorHeader)
	switch Verdict(resp.Header.Get(VerdictHeader)) {
	case Blocked, Unresolved:
		return true, nil
	case "":
	default:
		return false, nil
	}
	switch resp.StatusCode {
	case http.StatusForbidden:
		return true, nil
	case http.StatusProxyAuthRequired:
		// Without smokescreen's reason this asks for a password, and judged nothing.
		if why == "" {
			return false, errors.New("it wants other credentials")
		}
		return true, nil
	case http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
		return strings.Contains(why, "resolve") || strings.Contains(why, "AddrError") ||
			strings.Contains(why, "no IPs resolved") || strings.Contains(why, "lookup "), nil
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return false, errors.New("it is overloaded")
	default:
		return false, nil
	}
}

func addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParseAddr(t)
	}
	return out
}
