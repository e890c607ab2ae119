package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// listenFunc opens a listener; net.Listen is one.
type listenFunc func(network, address string) (net.Listener, error)

// portsTried is how many ports after a taken one are tried before any free one is taken.
const portsTried = 50

// listenNear listens at addr (host:port) or, if that is taken, at the next free port. moved says that it is another port.
func listenNear(addr string, listen listenFunc) (ln net.Listener, moved bool, err error) {
	host, portName, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, fmt.Errorf("WAYBILL_ADDR: must be host:port or :port, such as :8080")
	}
	port, err := net.LookupPort("tcp", portName)
	if err != nil {
		return nil, false, fmt.Errorf("WAYBILL_ADDR: there is no port %q", portName)
	}
	if port == 0 {
		ln, err := listen("tcp", addr)
		return ln, false, err
	}
	for p := port; p <= min(port+portsTried, 65535); p++ {
		ln, err := listenAt(host, p, listen)
		if err == nil {
			return ln, p != port, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, false, fmt.Errorf("WAYBILL_ADDR: %w", err)
		}
	}
	ln, err = listen("tcp", net.JoinHostPort(host, "0"))
	return ln, true, err
}

// listenAt listens at one port. On some systems a listener at every address does not mind one at 127.0.0.1, which is then the one that
// a browser reaches; so that is looked at first.
func listenAt(host string, port int, listen listenFunc) (net.Listener, error) {
	text := strconv.Itoa(port)
	if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
		ln, err := listen("tcp", net.JoinHostPort("127.0.0.1", text))
		if err != nil {
			return nil, err
		}
		if err := ln.Close(); err != nil {
			return nil, err
		}
	}
	return listen("tcp", net.JoinHostPort(host, text))
}

// receiverHosts are where the sellers may be, the best first: an address at which nothing else listens, so that the
// egress proxy can let requests through to it and refuse 127.0.0.1, with all that is there, as it must.
var receiverHosts = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")}

// receiverHost is the first of receiverHosts that this machine has. (macOS has only one IPv4 loopback address.)
func receiverHost(listen listenFunc) (netip.Addr, error) {
	var problems []error
	for _, host := range receiverHosts {
		ln, err := listen("tcp", netip.AddrPortFrom(host, 0).String())
		if err == nil {
			return host, ln.Close()
		}
		problems = append(problems, err)
	}
	return netip.Addr{}, fmt.Errorf("no loopback address for the sellers' receivers: %w", errors.Join(problems...))
}

// selfURL is the HTTP address at which this process reaches its own listener.
func selfURL(addr net.Addr) string {
	at := addr.(*net.TCPAddr).AddrPort()
	host := at.Addr().Unmap()
	if host.IsUnspecified() {
		host = netip.MustParseAddr("127.0.0.1")
	}
	return "http://" + netip.AddrPortFrom(host, at.Port()).String()
}
