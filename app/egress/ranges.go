package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// denied lists every range no request may reach: the special-purpose registries of IANA for both families,
// each form that carries an IPv4 address inside an IPv6 one (the proxy would check the outside and a
// translator would connect to the inside), and the fabric addresses of clouds that look public.
//
// ::ffff:0:0/96 must not stand here: Go reads it as 0.0.0.0/0 of IPv4. Mapped addresses are judged as the
// IPv4 address they hold, by smokescreen and by Denied alike.
var denied = prefixes(
	"0.0.0.0/8",        // this network, RFC 791
	"10.0.0.0/8",       // private use, RFC 1918
	"100.64.0.0/10",    // shared address space of carriers, RFC 6598
	"127.0.0.0/8",      // loopback, RFC 1122
	"161.26.0.0/16",    // IBM Cloud service network
	"166.8.0.0/14",     // IBM Cloud service network
	"168.63.129.16/32", // Azure's wire server
	"169.254.0.0/16",   // link-local, RFC 3927: the metadata services of clouds
	"172.16.0.0/12",    // private use, RFC 1918
	"192.0.0.0/24",     // protocol assignments, RFC 6890
	"192.0.2.0/24",     // documentation, RFC 5737
	"192.31.196.0/24",  // AS112, RFC 7535
	"192.52.193.0/24",  // AMT, RFC 7450
	"192.80.8.124/32",  // Equinix Metal's metadata service
	"192.88.99.0/24",   // 6to4 relays, RFC 7526
	"192.168.0.0/16",   // private use, RFC 1918
	"192.175.48.0/24",  // AS112, RFC 7534
	"198.18.0.0/15",    // benchmarks, RFC 2544
	"198.51.100.0/24",  // documentation, RFC 5737
	"203.0.113.0/24",   // documentation, RFC 5737
	"224.0.0.0/4",      // multicast, RFC 5771
	"240.0.0.0/4",      // reserved, RFC 1112, with the limited broadcast address

	"::/96",             // unspecified, loopback and IPv4-compatible, RFC 4291
	"::ffff:0:0:0/96",   // IPv4-translated, RFC 2765
	"64:ff9b::/96",      // NAT64, RFC 6052
	"64:ff9b:1::/48",    // NAT64 of local use, RFC 8215
	"100::/64",          // discard, RFC 6666
	"100:0:0:1::/64",    // dummy prefix, RFC 9780
	"2001::/23",         // protocol assignments with Teredo, benchmarks and ORCHID, RFC 2928
	"2001:db8::/32",     // documentation, RFC 3849
	"2002::/16",         // 6to4, RFC 3056
	"2620:4f:8000::/48", // AS112, RFC 7534
	"3fff::/20",         // documentation, RFC 9637
	"5f00::/16",         // segment routing, RFC 9602
	"fc00::/7",          // unique local, RFC 4193
	"fe80::/10",         // link-local, RFC 4291
	"fec0::/10",         // site-local, RFC 3879
	"ff00::/8",          // multicast, RFC 4291
)

// Denied says whether no request may reach addr: it lies in none of allow and in one of the ranges that are
// not public. It judges as the running proxy does; an address with a zone is always denied.
func Denied(addr netip.Addr, allow []netip.Prefix) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return true
	}
	addr = addr.Unmap()
	return !contains(addr, allow) && contains(addr, denied)
}

// PortAllowed says whether an endpoint may be on port: 80, 443 or above 1023. The others belong to services
// that must not be prodded through us (SSH, mail, DNS, …).
func PortAllowed(port int) bool {
	return port == 80 || port == 443 || port > 1023 && port <= 65535
}

// ParseAllow reads WAYBILL_EGRESS_ALLOW: CIDRs or single addresses, separated by commas; an empty text is an
// empty list. What is allowed wins over every denied range, loopback too, so a range wider than /8 (IPv4)
// or /16 (IPv6), or one written as a mapped address, is an error.
func ParseAllow(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		p, err := netip.ParsePrefix(item)
		if err != nil {
			addr, bad := netip.ParseAddr(item)
			if bad != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("allowed range %q: want a CIDR as 10.1.0.0/16 or an address", item)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("allowed range %q: the address has bits beyond the prefix; write %s", item, p.Masked())
		}
		if err := checkAllow(p); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func checkAllow(p netip.Prefix) error {
	switch {
	case !p.IsValid():
		return fmt.Errorf("allowed range %s is not valid", p)
	case p.Addr().Is4In6():
		return fmt.Errorf("allowed range %s: write the IPv4 form", p)
	case p.Addr().Is4() && p.Bits() < 8, p.Addr().Is6() && p.Bits() < 16:
		return fmt.Errorf("allowed range %s is too wide: at least /8 (IPv4) or /16 (IPv6)", p)
	}
	return nil
}

func contains(addr netip.Addr, in []netip.Prefix) bool {
	for _, p := range in {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

func prefixTexts(in []netip.Prefix) []string {
	out := make([]string, len(in))
	for i, p := range in {
		out[i] = p.String()
	}
	return out
}
