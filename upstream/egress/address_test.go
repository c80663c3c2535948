package egress

import (
	"net/netip"
	"testing"
)

// nets parses networks.
func nets(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, n := range list {
		all = append(all, netip.MustParsePrefix(n))
	}
	return all
}

// TestAddresses holds which addresses are reached, as they are and in every
// disguise.
func TestAddresses(t *testing.T) {
	// What a gate allows: nothing private, what is private, or the named networks.
	public := New(Options{}).gate
	inner := New(Options{}).inner
	everything := New(Options{AllowPrivate: nets("0.0.0.0/0", "::/0")}).gate
	tests := []struct {
		address               string
		want                  string // of public; empty when it is reached
		wantInner, wantListed bool   // whether the others reach it
	}{
		{"8.8.8.8", "", true, true},
		{"1.1.1.1", "", true, true},
		{"100.63.255.255", "", true, true},
		{"100.128.0.0", "", true, true},
		{"172.15.255.255", "", true, true},
		{"172.32.0.0", "", true, true},
		{"169.253.255.255", "", true, true},
		{"223.255.255.255", "", true, true},
		{"2606:4700:4700::1111", "", true, true},
		{"2a00:1450:4001:80b::200e", "", true, true},

		{"127.0.0.1", "it is a loopback address", true, true},
		{"127.255.255.254", "it is a loopback address", true, true},
		{"::1", "it is a loopback address", true, true},
		{"10.0.0.1", "it is a private address", true, true},
		{"172.16.0.1", "it is a private address", true, true},
		{"172.31.255.255", "it is a private address", true, true},
		{"192.168.1.1", "it is a private address", true, true},
		{"fc00::1", "it is a private address", true, true},
		{"fdff:ffff::1", "it is a private address", true, true},
		{"100.64.0.1", "it is a shared address", true, true},
		{"100.127.255.255", "it is a shared address", true, true},

		{"169.254.169.254", "it is a cloud's metadata service", false, false},
		{"169.254.170.2", "it is a cloud's metadata service", false, false},
		{"169.254.0.1", "it is a link-local address", false, false},
		{"100.100.100.200", "it is a cloud's metadata service", false, false},
		{"168.63.129.16", "it is a cloud's metadata service", false, false},
		{"192.0.0.192", "it is a cloud's metadata service", false, false},
		{"fd00:ec2::254", "it is a cloud's metadata service", false, false},
		{"fd00:ec2::23", "it is a cloud's metadata service", false, false},
		{"fd20:ce::254", "it is a cloud's metadata service", false, false},
		{"fe80::1", "it is a link-local address", false, false},
		{"febf:ffff::1", "it is a link-local address", false, false},
		{"fe80::1%lo", "it is an address with a zone", false, false},
		{"::1%1", "it is an address with a zone", false, false},
		{"2606:4700:4700::1111%1", "it is an address with a zone", false, false},

		{"0.0.0.0", "it is an unspecified address", false, false},
		{"0.1.2.3", "it is an unspecified address", false, false},
		{"::", "it is an unspecified address", false, false},
		{"224.0.0.1", "it is a multicast address", false, false},
		{"239.255.255.255", "it is a multicast address", false, false},
		{"ff02::1", "it is a multicast address", false, false},
		{"255.255.255.255", "it is a broadcast address", false, false},

		{"240.0.0.1", "it is a reserved address", false, true},
		{"192.0.0.1", "it is a reserved address", false, true},
		{"192.0.2.1", "it is a documentation address", false, true},
		{"198.51.100.1", "it is a documentation address", false, true},
		{"203.0.113.1", "it is a documentation address", false, true},
		{"2001:db8::1", "it is a documentation address", false, true},
		{"3fff::1", "it is a documentation address", false, true},
		{"198.18.0.1", "it is a benchmarking address", false, true},
		{"198.19.255.255", "it is a benchmarking address", false, true},
		{"2001:2::1", "it is a benchmarking address", false, true},
		{"fec0::1", "it is a site-local address", false, true},
		{"192.88.99.1", "it is a relay's address", false, true},
		{"2001:10::1", "it is a reserved address", false, true},
		{"100::1", "it is a reserved address", false, true},
		{"5f00::1", "it is a reserved address", false, true},
		{"4000::1", "it is a reserved address", false, true},

		{"::ffff:8.8.8.8", "", true, true},
		{"::ffff:127.0.0.1", "it is a loopback address", true, true},
		{"::ffff:a9fe:a9fe", "it is a cloud's metadata service", false, false},
		{"0:0:0:0:0:ffff:a00:1", "it is a private address", true, true},
		{"::127.0.0.1", "it is a reserved address", false, true},
		{"::a9fe:a9fe", "it is a reserved address", false, false},
		{"::ffff:0:169.254.169.254", "it is a reserved address", false, false},
		{"64:ff9b::808:808", "", true, true},
		{"64:ff9b::7f00:1", "it stands for a loopback address", true, true},
		{"64:ff9b::a00:1", "it stands for a private address", true, true},
		{"64:ff9b::a9fe:a9fe", "it stands for a cloud's metadata service", false, false},
		{"64:ff9b::e000:1", "it stands for a multicast address", false, false},
		{"64:ff9b:1::808:808", "it is a local translated address", true, true},
		{"64:ff9b:1::a9fe:a9fe", "it is a local translated address", false, false},
		{"64:ff9b:1:ffff::a9fe:a9fe", "it is a local translated address", false, false},
		{"64:ff9b:2::a9fe:a9fe", "it is a reserved address", false, true},
		{"2002:808:808::1", "", true, true},
		{"2002:7f00:1::", "it stands for a loopback address", true, true},
		{"2002:a00:1::1", "it stands for a private address", true, true},
		{"2002:a9fe:a9fe::1", "it stands for a cloud's metadata service", false, false},
		{"2001:0:808:808::f7f7:f7f7", "", true, true},
		{"2001:0:808:808::80ff:fffe", "it stands for a loopback address", true, true},
		{"2001:0:808:808::5601:5601", "it stands for a cloud's metadata service", false, false},
		{"2001:0:a00:1::f7f7:f7f7", "it stands for a private address", true, true},
		{"2a00::5efe:808:808", "", true, true},
		{"2a00::5efe:a00:1", "it stands for a private address", true, true},
		{"2a00::200:5efe:a9fe:a9fe", "it stands for a cloud's metadata service", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			a := netip.MustParseAddr(tt.address)
			got := ""
			if b := public.address(a); b != nil {
				got = b.Reason
			}
			if got != tt.want {
				t.Errorf("refused since %q, want %q", got, tt.want)
			}
			if got := inner.address(a) == nil; got != tt.wantInner {
				t.Errorf("reached where private addresses are allowed: %v, want %v", got, tt.wantInner)
			}
			if got := everything.address(a) == nil; got != tt.wantListed {
				t.Errorf("reached where everything is named: %v, want %v", got, tt.wantListed)
			}
		})
	}
}

// TestAllowPrivate holds what a named network opens, and what it does not.
func TestAllowPrivate(t *testing.T) {
	tests := []struct {
		name    string
		allow   []string
		address string
		want    bool
	}{
		{"within", []string{"10.1.0.0/16"}, "10.1.2.3", true},
		{"beside", []string{"10.1.0.0/16"}, "10.2.0.1", false},
		{"another kind", []string{"10.0.0.0/8"}, "127.0.0.1", false},
		{"mapped address", []string{"10.0.0.0/8"}, "::ffff:10.0.0.1", true},
		{"mapped network", []string{"::ffff:10.0.0.0/104"}, "10.0.0.1", true},
		{"embedded address", []string{"10.0.0.0/8"}, "64:ff9b::a00:1", true},
		{"network of a translator", []string{"64:ff9b:1::/48"}, "64:ff9b:1::808:808", true},
		{"what it translates to", []string{"64:ff9b:1::/48"}, "64:ff9b:1::a00:1", false},
		{"both", []string{"64:ff9b:1::/48", "10.0.0.0/8"}, "64:ff9b:1::a00:1", true},
		{"metadata in a network", []string{"100.64.0.0/10"}, "100.100.100.200", false},
		{"beside metadata", []string{"100.64.0.0/10"}, "100.100.100.201", true},
		{"metadata by network", []string{"169.254.0.0/16"}, "169.254.169.254", false},
		{"metadata itself", []string{"169.254.169.254/32"}, "169.254.169.254", true},
		{"metadata itself, IPv6", []string{"fd00:ec2::254/128"}, "fd00:ec2::254", true},
		{"unspecified itself", []string{"0.0.0.0/32"}, "0.0.0.0", false},
		{"zone", []string{"fe80::1/128"}, "fe80::1%1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := New(Options{AllowPrivate: nets(tt.allow...)}).gate.address(netip.MustParseAddr(tt.address))
			if got := b == nil; got != tt.want {
				t.Errorf("%s is reached: %v (%v), want %v", tt.address, got, b, tt.want)
			}
		})
	}
}

// FuzzAddress holds that no address is reached of which the standard library, or the
// IPv4 address in a known place of it, says that it is not public.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"8.8.8.8", "127.0.0.1", "::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:808:808::80ff:fffe", "fe80::1"} {
		f.Add(netip.MustParseAddr(s).AsSlice())
	}
	g := New(Options{}).gate
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || g.address(a) != nil {
			return
		}
		public(t, a)
		if a = a.Unmap(); a.Is4() {
			return
		}
		b := a.As16()
		if b[0]&0xe0 != 0x20 && b[0] != 0 {
			t.Errorf("%v is reached, which is no global unicast address", a)
		}
		switch {
		case b[0] == 0x20 && b[1] == 0x02:
			public(t, netip.AddrFrom4([4]byte(b[2:])))
		case b[0] == 0: // NAT64
			public(t, netip.AddrFrom4([4]byte(b[12:])))
		}
	})
}

// public fails where a is not.
func public(t *testing.T, a netip.Addr) {
	t.Helper()
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is4() && (a.As4()[0] == 0 || a.As4()[0] >= 224) {
		t.Errorf("%v is reached, which is not public", a)
	}
}
