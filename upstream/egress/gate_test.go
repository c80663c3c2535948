package egress

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// errWouldDial is what the dialers of tests give in place of a connection: the
// address had passed.
var errWouldDial = errors.New("would dial")

// TestHosts holds that a host is refused in every form but the plain ones, before
// anybody resolves it.
func TestHosts(t *testing.T) {
	const (
		number  = "it is a number, or an address in a form that is not usual"
		noName  = "it is no host name"
		letters = "it is no host name of letters, digits and hyphens; others are written as xn--"
		cloud   = "it is a cloud's metadata service"
	)
	long := strings.Repeat("a", 63)
	tests := []struct{ host, want string }{
		{"example.com", ""},
		{"Example.COM.", ""},
		{"xn--bcher-kva.example", ""},
		{"1.example", ""},
		{"127.0.0.1.nip.io", ""}, // resolved, and judged by its address
		{"0x7f000001.example", ""},
		{"_srv.example", ""},
		{"localhost", ""}, // resolved
		{"8.8.8.8", ""},
		{"2606:4700:4700::1111", ""},

		{"127.0.0.1", "it is a loopback address"},
		{"::1", "it is a loopback address"},
		{"::ffff:127.0.0.1", "it is a loopback address"},
		{"::ffff:7f00:1", "it is a loopback address"},
		{"0:0:0:0:0:ffff:a9fe:a9fe", cloud},
		{"169.254.169.254", cloud},
		{"0.0.0.0", "it is an unspecified address"},
		{"::", "it is an unspecified address"},
		{"fe80::1%eth0", "it is an address with a zone"},
		{"::1%25lo", "it is an address with a zone"},

		{"2130706433", number}, // 127.0.0.1 as a number
		{"2852039166", number}, // 169.254.169.254
		{"0x7f000001", number},
		{"0X7F000001", number},
		{"017700000001", number},
		{"0177.0.0.1", number},
		{"0x7f.0.0.1", number},
		{"0x7f.1", number},
		{"127.1", number},
		{"127.0.1", number},
		{"127.0.0.01", number},
		{"127.0.0.0x1", number},
		{"127.0.0.1.", number},
		{"2130706433.", number},
		{"0", number},
		{"0x", number},
		{"0b1111111.0.0.0B1", number},
		{"0o177.0.0.0o1", number},
		{"169.254.0xa9fe", number},
		{"425.510.425.510", number}, // 169.254.169.254 where a byte overflows
		{"7147006462", number},
		{"1.2.3.4.5", number},
		{"example.123", number},

		{"127.0.0.1..", noName},
		{"", noName},
		{".", noName},
		{"..", noName},
		{".example.com", noName},
		{"example..com", noName},
		{long + "a.example", noName},
		{strings.Repeat(long+".", 4) + "com", noName},

		{"127。0。0。1", letters}, // ideographic full stops
		{"①②⑦.⓪.⓪.①", letters},
		{"１２７.0.0.1", letters},
		{"bücher.example", letters},
		{"ⓔxample.com", letters},
		{"loc\u00adalhost", letters}, // a soft hyphen, which IDNA drops
		{"127%2e0%2e0%2e1", letters},
		{"example.com%00.evil.example", letters},
		{"example.com\x00", letters},
		{"example.com ", letters},
		{"example.com\t", letters},
		{"example.com#@evil.example", letters},
		{"example.com\\@evil.example", letters},
		{"example.com/", letters},
		{"user@example.com", letters},
		{"[::1]", letters},
		{"::1::", letters},
		{"1:2:3", letters},
		{"example.com:80", letters},

		{"metadata.google.internal", cloud},
		{"Metadata.Google.Internal.", cloud},
		{"metadata", cloud},
		{"instance-data.ec2.internal", cloud},
	}
	g := New(Options{}).gate
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			got := ""
			if b := g.host(tt.host); b != nil {
				if got = b.Reason; b.Host != tt.host {
					t.Errorf("the host of the error is %q", b.Host)
				}
			}
			if got != tt.want {
				t.Errorf("host(%q) is refused since %q, want %q", tt.host, got, tt.want)
			}
		})
	}
}

// aton reads an address as inet_aton does, and as many programs do: one to four
// numbers, decimal, octal or hexadecimal, of which the last fills what is left.
func aton(s string) (netip.Addr, bool) {
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var all uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if n >= 1<<bits {
			return netip.Addr{}, false
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

// FuzzHost holds that whoever reads a host that passes as an address reads the one
// that was judged.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"example.com", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "8.8.8.8", "::ffff:7f00:1", "fe80::1%1", "①.com", "[::1]", "127.0.0.1."} {
		f.Add(s)
	}
	g := New(Options{}).gate
	f.Fuzz(func(t *testing.T, host string) {
		if g.host(host) != nil {
			return
		}
		if a, err := netip.ParseAddr(host); err == nil {
			public(t, a)
			return
		}
		if a, ok := aton(host); ok {
			t.Errorf("host(%q) passes as a name, and is %v to others", host, a)
		}
		u, err := url.Parse("https://" + host + "/")
		if err != nil || u.Hostname() != host || u.Port() != "" || u.User != nil || u.Path != "/" {
			t.Errorf("host(%q) passes, and is another one within a URL: %v, %v", host, u, err)
		}
	})
}

// TestCheckedPool holds that the transports of upstreams that the operator did not
// choose check addresses, and those of others do not.
func TestCheckedPool(t *testing.T) {
	loopback := nets("127.0.0.0/8")
	tests := []struct {
		name    string
		url     string
		checked bool
		allow   []netip.Prefix
		want    string // the reason of the refusal; empty where it would be dialled
	}{
		{"checked", "http://127.0.0.1:1/mcp", true, nil, "it is a loopback address"},
		{"not checked", "http://127.0.0.1:1/mcp", false, nil, ""},
		{"allowed", "http://127.0.0.1:1/mcp", true, loopback, ""},
		{"other allowed", "http://10.0.0.1/mcp", true, loopback, "it is a private address"},
		{"public", "https://8.8.8.8/mcp", true, nil, ""},
		{"odd form", "https://127.1/mcp", true, loopback, "it is a number, or an address in a form that is not usual"},
		{"name", "http://localhost:1/mcp", true, nil, "it is a loopback address"},
		{"credentials", "http://me:secret@8.8.8.8/", true, nil, "the URL holds credentials"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			transports := New(Options{AllowPrivate: tt.allow, Control: wouldDial(nil)})
			s := settings
			s.Checked = tt.checked
			for kind, p := range map[string]*Pool{"calls": transports.Calls(s), "listens": transports.Listens(s)} {
				_, err := post(t, p, tt.url)
				p.Close()
				wantBlocked(t, kind, err, tt.want)
				if !NotSent(err) {
					t.Errorf("%s: %v does not tell that nothing was sent", kind, err)
				}
			}
		})
	}
}

// wantBlocked looks for a refusal for that reason or, where it is empty, for an
// address that passed.
func wantBlocked(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if reason == "" {
		if !errors.Is(err, errWouldDial) {
			t.Errorf("%s: error = %v, want the address to pass", what, err)
		}
		return
	}
	b, ok := errors.AsType[*BlockedError](err)
	if !ok || b.Reason != reason {
		t.Errorf("%s: error = %v, want a refusal since %s", what, err, reason)
	}
}

// TestEnvironmentProxy holds that what is checked does not go through a proxy that
// merely happens to be in the environment: the check would see its address only. The
// environment itself is read once in a process, so the functions are compared.
func TestEnvironmentProxy(t *testing.T) {
	checked := settings
	checked.Checked = true
	tests := []struct {
		name string
		tr   *http.Transport
		want bool
	}{
		{"upstream of the file", New(Options{}).Calls(settings).current.Load(), true},
		{"checked upstream", New(Options{}).Calls(checked).current.Load(), false},
		{"fetcher", New(Options{}).fetch, false},
		{"fetcher of private addresses", New(Options{}).innerFetch, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := reflect.ValueOf(tt.tr.Proxy).Pointer() == reflect.ValueOf(http.ProxyFromEnvironment).Pointer(); got != tt.want {
				t.Errorf("it uses the environment's proxy: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestChosenProxy holds that a proxy which was chosen on purpose is used, although
// its own address is private, and that what it does not see is checked here.
func TestChosenProxy(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Proxied", r.URL.String()) })
	at, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	transports := New(Options{Proxy: func(r *http.Request) (*url.URL, error) {
		if r.URL.Hostname() == "localhost" {
			return nil, nil // as NO_PROXY says
		}
		return at, nil
	}})
	defer transports.Close()
	s := settings
	s.Checked = true
	pool := transports.Calls(s)
	defer pool.Close()
	fetcher := transports.Fetcher(FetchOptions{HTTP: true}).Transport
	for name, client := range map[string]http.RoundTripper{"pool": pool, "fetcher": fetcher} {
		get := func(to string) (string, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.RoundTrip(req)
			if err != nil {
				return "", err
			}
			resp.Body.Close()
			return resp.Header.Get("X-Proxied"), nil
		}
		if got, err := get("http://upstream.example/a"); err != nil || got != "http://upstream.example/a" {
			t.Errorf("%s: the proxy was asked for %q, %v", name, got, err)
		}
		_, err := get("http://169.254.169.254/")
		wantBlocked(t, name, err, "it is a cloud's metadata service")
		_, err = get("http://metadata.google.internal/")
		wantBlocked(t, name, err, "it is a cloud's metadata service")
		_, port, _ := net.SplitHostPort(at.Host)
		_, err = get("http://localhost:" + port + "/")
		wantBlocked(t, name, err, "it is a loopback address")
	}
}

// TestProxyFails holds that a request is not sent without the proxy that it needs.
func TestProxyFails(t *testing.T) {
	transports := New(Options{Proxy: func(*http.Request) (*url.URL, error) { return nil, syscall.EINVAL }, Control: wouldDial(nil)})
	if _, err := transports.Fetcher(FetchOptions{}).Get("https://8.8.8.8/"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("error = %v, want that of the proxy", err)
	}
}
