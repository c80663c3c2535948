package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	const public = "https://gw.example.com/base"
	extra := []string{"https://app.example.com:8443", "http://other.example.com"}
	tests := []struct {
		name     string
		loopback bool
		host     string
		origin   []string
		want     bool
	}{
		{"no origin", false, "gw.example.com", nil, true},
		{"public URL", false, "gw.example.com", []string{"https://gw.example.com"}, true},
		{"public URL with its default port", false, "x", []string{"https://gw.example.com:443"}, true},
		{"upper case", false, "x", []string{"HTTPS://GW.Example.Com"}, true},
		{"another scheme", false, "x", []string{"http://gw.example.com"}, false},
		{"another port", false, "x", []string{"https://gw.example.com:8443"}, false},
		{"a subdomain", false, "x", []string{"https://a.gw.example.com"}, false},
		{"a longer name", false, "x", []string{"https://gw.example.com.evil.example"}, false},
		{"configured", false, "x", []string{"https://app.example.com:8443"}, true},
		{"configured, without the port", false, "x", []string{"https://app.example.com"}, false},
		{"configured, default port", false, "x", []string{"http://other.example.com:80"}, true},
		{"null", false, "x", []string{"null"}, false},
		{"empty", false, "x", []string{""}, false},
		{"two", false, "x", []string{"https://gw.example.com", "https://gw.example.com"}, false},
		{"user information", false, "x", []string{"https://gw.example.com@evil.example"}, false},
		{"another scheme than HTTP", false, "x", []string{"chrome-extension://gw.example.com"}, false},
		{"loopback origin on a public listener", false, "x", []string{"http://localhost:3000"}, false},

		{"loopback, name", true, "localhost:8080", nil, true},
		{"loopback, name in upper case", true, "LocalHost", nil, true},
		{"loopback, IPv4", true, "127.0.0.1:8080", nil, true},
		{"loopback, IPv6", true, "[::1]:8080", nil, true},
		{"loopback, IPv6 without port", true, "[::1]", nil, true},
		{"loopback, public host", true, "gw.example.com:1234", nil, true},
		{"loopback, foreign host", true, "evil.example:8080", nil, false},
		{"loopback, no host", true, "", nil, false},
		{"loopback, a name that begins alike", true, "localhost.evil.example", nil, false},
		{"loopback, address in a name", true, "127.0.0.1.evil.example", nil, false},
		{"loopback, a letter that folds to s", true, "localho\u017ft", nil, false},
		{"loopback, such an origin", true, "localhost", []string{"http://localho\u017ft"}, false},
		{"loopback, two colons", true, "::1:80", nil, false},
		{"loopback, origin at any port", true, "localhost:8080", []string{"http://localhost:5173"}, true},
		{"loopback, origin without port", true, "localhost:8080", []string{"https://127.0.0.1"}, true},
		{"loopback, IPv6 origin", true, "[::1]:8080", []string{"http://[::1]:3000"}, true},
		{"loopback, foreign origin", true, "localhost:8080", []string{"http://evil.example"}, false},
		{"loopback, foreign origin and host", true, "evil.example", []string{"http://evil.example"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuard(tt.loopback, public, extra)
			r := &http.Request{Host: tt.host, Header: http.Header{}}
			if tt.origin != nil {
				r.Header["Origin"] = tt.origin
			}
			if got := g.allow(r); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGuardWithoutPublicURL(t *testing.T) {
	g := newGuard(true, "", nil)
	for _, host := range []string{"", ":8080"} {
		if g.allow(&http.Request{Host: host, Header: http.Header{}}) {
			t.Errorf("host %q is allowed", host)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	tests := []struct {
		name, listen string
		want         bool
	}{
		{"IPv4", "127.0.0.1:8080", true},
		{"another IPv4", "127.1.2.3:0", true},
		{"IPv6", "[::1]:8080", true},
		{"name", "localhost:8080", true},
		{"all", ":8080", false},
		{"all IPv4", "0.0.0.0:8080", false},
		{"all IPv6", "[::]:8080", false},
		{"private", "10.0.0.1:8080", false},
		{"other name", "example.com:80", false},
		{"no port", "127.0.0.1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := isLoopback(tt.listen); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzGuard(f *testing.F) {
	f.Add("localhost:80", "http://localhost")
	f.Add("[::1]", "null")
	f.Add("evil.example", "https://gw.example.com")
	f.Fuzz(func(t *testing.T, host, origin string) {
		g := newGuard(true, "https://gw.example.com", nil)
		r := &http.Request{Host: host, Header: http.Header{"Origin": {origin}}}
		if !g.allow(r) {
			return
		}
		// What passes names this machine or the public URL, however it is written.
		r.Header.Set("Origin", "http://evil.example")
		if g.allow(r) {
			t.Errorf("host %q makes a foreign origin pass", host)
		}
		if name := hostname(host); !isLoopbackName(name) && !strings.EqualFold(name, "gw.example.com") {
			t.Errorf("host %q passes", host)
		}
	})
}
