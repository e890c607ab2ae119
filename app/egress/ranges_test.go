package egress

import (
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deadDial lets nothing through, so that any address may be asked for: Refused then means "was let through".
func deadDial(context.Context, string, string, time.Duration) (net.Conn, error) {
	return nil, syscall.ECONNREFUSED
}

var public = addrs("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
	"128.0.0.1", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255",
	"192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
	"::ffff:8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1", "2001:200::1", "2001:db7:ffff::1", "2003::1", "2620:4f:8001::1",
	"64:ff9c::1")

func TestTheProxyAndDeniedJudgeAlike(t *testing.T) {
	t.Parallel()
	p := startProxy(t, Config{Allow: receivers}, deadDial)
	ask := func(addr netip.Addr) Verdict {
		return verdict(t, direct, p, netip.AddrPortFrom(addr, 443).String())
	}
	for _, addr := range forbidden {
		if !Denied(addr, nil) || ask(addr) != Blocked {
			t.Errorf("%s: Denied %v, the proxy says %q", addr, Denied(addr, nil), ask(addr))
		}
	}
	for _, addr := range public {
		if Denied(addr, nil) || ask(addr) != Refused {
			t.Errorf("%s: Denied %v, the proxy says %q", addr, Denied(addr, nil), ask(addr))
		}
	}
	// The edges of each range, and whatever chance brings.
	var some []netip.Addr
	for _, r := range denied {
		last := lastOf(r)
		some = append(some, r.Addr(), last)
		if before := r.Addr().Prev(); before.IsValid() {
			some = append(some, before)
		}
		if after := last.Next(); after.IsValid() {
			some = append(some, after)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b [16]byte
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		some = append(some, netip.AddrFrom16(b), netip.AddrFrom4([4]byte(b[:4])))
		copy(b[:], make([]byte, 4+rnd.IntN(9))) // zeros in front, where the embedding forms are
		some = append(some, netip.AddrFrom16(b))
	}
	for _, addr := range some {
		if want := Denied(addr, receivers); (ask(addr) == Blocked) != want {
			t.Errorf("%s: Denied %v, the proxy says %q", addr, want, ask(addr))
		}
	}
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

func TestForbiddenCoversEveryRange(t *testing.T) {
	t.Parallel()
	for _, r := range denied {
		if !slices.ContainsFunc(forbidden, r.Contains) {
			t.Errorf("the self-test asks for no address of %s", r)
		}
		if r != r.Masked() {
			t.Errorf("%s has bits beyond its prefix", r)
		}
	}
}

func TestDeniedOddities(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32"), netip.MustParsePrefix("::1/128")}
	for text, want := range map[string]bool{
		"127.0.0.2": false, "::ffff:127.0.0.2": false, "::1": false,
		"127.0.0.3": true, "::127.0.0.2": true, "::2": true, "fe80::1%eth0": true, "2606:4700::1%eth0": true,
	} {
		if got := Denied(netip.MustParseAddr(text), allow); got != want {
			t.Errorf("Denied(%s) = %v", text, got)
		}
	}
	if !Denied(netip.Addr{}, nil) {
		t.Error("no address at all is not denied")
	}
}

func TestPortAllowed(t *testing.T) {
	t.Parallel()
	for port, want := range map[int]bool{
		80: true, 443: true, 1024: true, 5432: true, 8080: true, 65535: true,
		-1: false, 0: false, 22: false, 25: false, 53: false, 79: false, 465: false, 587: false, 1023: false, 65536: false,
	} {
		if got := PortAllowed(port); got != want {
			t.Errorf("PortAllowed(%d) = %v", port, got)
		}
	}
}

func TestParseAllow(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                "",
		" , ":                             "",
		"127.0.0.2":                       "127.0.0.2/32",
		"127.0.0.0/8, 172.18.0.0/16,":     "127.0.0.0/8 172.18.0.0/16",
		"fd00::/16,::1":                   "fd00::/16 ::1/128",
		"10.0.0.1/8":                      "error: write 10.0.0.0/8",
		"0.0.0.0/0":                       "error: too wide",
		"::/0":                            "error: too wide",
		"10.0.0.0/7":                      "error: too wide",
		"::ffff:127.0.0.1":                "error: IPv4 form",
		"localhost":                       "error: want a CIDR",
		"fe80::1%lo":                      "error: want a CIDR",
		"127.0.0.1;10.0.0.1":              "error: want a CIDR",
		"127.0.0.1/33":                    "error: want a CIDR",
		"192.168.0.0/16 192.168.0.0/16":   "error: want a CIDR",
		"127.0.0.2/32,127.0.0.2/32,::1/0": "error: write ::/0",
	} {
		got, err := ParseAllow(text)
		if end, bad := strings.CutPrefix(want, "error: "); bad {
			if err == nil || !strings.Contains(err.Error(), end) {
				t.Errorf("ParseAllow(%q) = %v, %v; want an error with %q", text, got, err, end)
			}
			continue
		}
		if s := strings.Join(prefixTexts(got), " "); s != want || err != nil {
			t.Errorf("ParseAllow(%q) = %q, %v", text, s, err)
		}
	}
}
