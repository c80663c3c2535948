package egress

import (
	"net/netip"
	"slices"
)

// level says what it takes to reach an address.
type level int

const (
	open    level = iota // nothing
	private              // FetchOptions.Private or a network of Options.AllowPrivate
	named                // a network of Options.AllowPrivate
	exact                // the very address in Options.AllowPrivate: no network happens to hold it
	never                // it is not the address of one machine
)

// network is a part of the address space whose addresses are all alike.
type network struct {
	prefix netip.Prefix
	level  level
	what   string // what its addresses are, in words
}

// networks gives the address space; the first one that holds an address counts.
// They are those of the IANA registries of special-purpose addresses (RFC 6890) and
// of multicast, with the addresses at which clouds give out credentials. Whatever is
// not global unicast (RFC 4291, section 2.4, as 2000::/3) is refused.
func networks() []network {
	list := []struct {
		level level
		what  string
		nets  []string
	}{
		{exact, "a cloud's metadata service", []string{
			"169.254.169.254/32",     // most clouds
			"169.254.170.0/24",       // the credentials of containers
			"100.100.100.200/32",     // Alibaba
			"168.63.129.16/32",       // Azure
			"192.0.0.192/32",         // Oracle
			"fd00:ec2::/32",          // Amazon
			"fd20:ce::254/128",       // Google
			"fd00:c1::a9fe:a9fe/128", // Oracle
			"fd00:42::42/128",        // Scaleway
		}},
		{exact, "a link-local address", []string{"169.254.0.0/16", "fe80::/10"}},
		{private, "a loopback address", []string{"127.0.0.0/8", "::1/128"}},
		{private, "a private address", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"}},
		{private, "a shared address", []string{"100.64.0.0/10"}},            // RFC 6598
		{private, "a local translated address", []string{"64:ff9b:1::/48"}}, // RFC 8215
		{never, "an unspecified address", []string{"0.0.0.0/8", "::/128"}},
		{never, "a multicast address", []string{"224.0.0.0/4", "ff00::/8"}},
		{never, "a broadcast address", []string{"255.255.255.255/32"}},
		{named, "a documentation address", []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"}},
		{named, "a benchmarking address", []string{"198.18.0.0/15", "2001:2::/48"}},
		{named, "a site-local address", []string{"fec0::/10"}},   // RFC 3879
		{named, "a relay's address", []string{"192.88.99.0/24"}}, // RFC 7526
		{named, "a reserved address", []string{"192.0.0.0/24", "240.0.0.0/4"}},
		{open, "", []string{"0.0.0.0/0"}},
		{open, "", []string{"64:ff9b::/96", "2001::/32", "2002::/16"}}, // what they embed is judged
		{named, "a reserved address", []string{"2001::/23"}},
		{open, "", []string{"2000::/3"}},
		{named, "a reserved address", []string{"::/0"}},
	}
	var all []network
	for _, l := range list {
		for _, n := range l.nets {
			all = append(all, network{netip.MustParsePrefix(n), l.level, l.what})
		}
	}
	return all
}

// embedded gives the IPv4 addresses that a router or this machine may take an IPv6
// address for. A network that translates with a prefix of another length than 96 in
// 64:ff9b:1::/48 is not understood.
func embedded(a netip.Addr) []netip.Addr {
	if !a.Is6() || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return nil
	}
	b := a.As16()
	in := func(prefix ...byte) bool { return slices.Equal(b[:len(prefix)], prefix) }
	last := netip.AddrFrom4([4]byte(b[12:]))
	var all []netip.Addr
	switch {
	case in(0x20, 0x02): // 6to4: RFC 3056, section 2
		all = append(all, netip.AddrFrom4([4]byte(b[2:])))
	case in(0x20, 0x01, 0, 0): // Teredo: RFC 4380, section 4: the server, and the client's address inverted
		client := [4]byte{^b[12], ^b[13], ^b[14], ^b[15]}
		all = append(all, netip.AddrFrom4([4]byte(b[4:])), netip.AddrFrom4(client))
	case in(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), // IPv4-compatible: RFC 4291, section 2.5.5.1
		in(0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0),    // IPv4-translated: RFC 2765, section 2.1
		in(0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0), // NAT64: RFC 6052, section 2.1
		in(0, 0x64, 0xff, 0x9b, 0, 1):                   // NAT64 of one network: RFC 8215
		all = append(all, last)
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP: RFC 5214, section 6.1
		all = append(all, last)
	}
	return all
}

// unmapped gives the IPv4 network of an IPv4-mapped one.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
