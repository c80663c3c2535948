package egress

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wouldDial is a Control that lets nothing be dialled, and gives seen, which may be
// nil, every address that passed.
func wouldDial(seen func(string)) controlFunc {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if seen != nil {
			seen(address)
		}
		return errWouldDial
	}
}

// serve starts a server on a loopback address and gives its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// allowing makes transports that may reach the servers of tests.
func allowing(t *testing.T) *Transports {
	t.Helper()
	transports := New(Options{AllowPrivate: nets("127.0.0.1/32")})
	t.Cleanup(transports.Close)
	return transports
}

// TestFetchTargets holds which URLs are fetched.
func TestFetchTargets(t *testing.T) {
	const notHTTPS = "the URL is not an https URL"
	tests := []struct {
		name string
		opts FetchOptions
		url  string
		want string // the reason of the refusal; empty where it would be dialled
	}{
		{"https", FetchOptions{}, "https://8.8.8.8/", ""},
		{"any port", FetchOptions{}, "https://8.8.8.8:22/", ""},
		{"IPv6", FetchOptions{}, "https://[2606:4700:4700::1111]/", ""},
		{"http", FetchOptions{}, "http://8.8.8.8/", notHTTPS},
		{"http by option", FetchOptions{HTTP: true}, "http://8.8.8.8/", ""},
		{"http where private is allowed", FetchOptions{Private: true}, "http://127.0.0.1:1/", ""},
		{"file", FetchOptions{Private: true}, "file:///etc/passwd", notHTTPS},
		{"ftp", FetchOptions{Private: true}, "ftp://8.8.8.8/", notHTTPS},
		{"gopher", FetchOptions{Private: true}, "gopher://127.0.0.1:6379/_INFO", notHTTPS},
		{"no host", FetchOptions{}, "https:///a", "it is no host name"},
		{"opaque", FetchOptions{}, "https:8.8.8.8", "it is no host name"},
		{"credentials", FetchOptions{}, "https://me:secret@8.8.8.8/", "the URL holds credentials"},
		{"a user", FetchOptions{}, "https://8.8.8.8@127.0.0.1/", "it is a loopback address"},
		{"private", FetchOptions{}, "https://10.0.0.1/", "it is a private address"},
		{"private by option", FetchOptions{Private: true}, "https://10.0.0.1/", ""},
		{"loopback by option", FetchOptions{Private: true}, "https://[::1]/", ""},
		{"metadata by option", FetchOptions{Private: true}, "http://169.254.169.254/latest/meta-data/", "it is a cloud's metadata service"},
		{"allowed", FetchOptions{}, "https://192.168.7.1/", ""},
		{"allowed, mapped", FetchOptions{}, "https://[::ffff:192.168.7.1]/", ""},
		{"beside the allowed", FetchOptions{}, "https://192.168.8.1/", "it is a private address"},
		{"decimal", FetchOptions{}, "https://2130706433/", "it is a number, or an address in a form that is not usual"},
		{"hexadecimal", FetchOptions{}, "https://0x7f.1/", "it is a number, or an address in a form that is not usual"},
		{"octal", FetchOptions{Private: true}, "https://0177.0.0.1/", "it is a number, or an address in a form that is not usual"},
		{"mapped", FetchOptions{}, "https://[::ffff:7f00:1]/", "it is a loopback address"},
		{"NAT64", FetchOptions{}, "https://[64:ff9b::a9fe:a9fe]/", "it stands for a cloud's metadata service"},
		{"6to4", FetchOptions{}, "https://[2002:7f00:1::]/", "it stands for a loopback address"},
		{"zone", FetchOptions{Private: true}, "https://[fe80::1%25lo]/", "it is an address with a zone"},
		{"name", FetchOptions{}, "https://localhost/", "it is a loopback address"},
		{"metadata name", FetchOptions{Private: true}, "http://metadata.google.internal/", "it is a cloud's metadata service"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var dialled []string
			transports := New(Options{AllowPrivate: nets("192.168.7.0/24"), Control: wouldDial(func(a string) { dialled = append(dialled, a) })})
			resp, err := transports.Fetcher(tt.opts).Get(tt.url)
			if err == nil {
				resp.Body.Close()
				t.Fatal("an answer came")
			}
			wantBlocked(t, "fetch", err, tt.want)
			if tt.want != "" && len(dialled) > 0 {
				t.Errorf("dialled %q", dialled)
			}
		})
	}
}

// TestBlockedError holds that a refusal does not tell what a name stands for.
func TestBlockedError(t *testing.T) {
	_, err := New(Options{}).Fetcher(FetchOptions{}).Get("https://localhost:8443/a")
	want := `Get "https://localhost:8443/a": dial: "localhost" may not be reached: it is a loopback address`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
	if b, ok := errors.AsType[*BlockedError](err); !ok || b.Host != "localhost" || !b.Addr.IsLoopback() {
		t.Errorf("error = %#v, want host and address", b)
	}
}

// TestRedirects holds that redirects are followed within one origin, three times at
// most, and nowhere else.
func TestRedirects(t *testing.T) {
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s arrived at another origin", r.URL) })
	var seen []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Method+" "+r.URL.Path)
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
		if r.URL.Path == "/303" {
			http.Redirect(w, r, "/end", http.StatusSeeOther)
		}
		if steps := strings.Count(r.URL.Path, "x"); steps > 0 {
			http.Redirect(w, r, "/"+strings.Repeat("x", steps-1), http.StatusTemporaryRedirect)
		}
	})
	port := url[strings.LastIndex(url, ":"):]
	const elsewhere = "it is another origin than the one that redirects to it"
	tests := []struct {
		name, path string
		want       string // the reason of the refusal
		wantSeen   string
	}{
		{"three", "/xxx", "", "POST /xxx POST /xx POST /x POST /"},
		{"four", "/xxxx", "it redirects more than 3 times", "POST /xxxx POST /xxx POST /xx POST /x"},
		{"see other", "/303", "", "POST /303 GET /end"},
		{"another port", "/?to=" + other, elsewhere, "POST /"},
		{"another scheme", "/?to=https://127.0.0.1" + port, elsewhere, "POST /"},
		{"another host of the same server", "/?to=http://localhost" + port, elsewhere, "POST /"},
		{"metadata", "/?to=http://169.254.169.254/", elsewhere, "POST /"},
		{"another form of the host", "/?to=http://2130706433" + port, elsewhere, "POST /"},
		{"another protocol", "/?to=file:///etc/passwd", elsewhere, "POST /"},
		{"without a scheme", "/?to=//10.0.0.1/", elsewhere, "POST /"},
		{"credentials", "/?to=http://me:secret@127.0.0.1" + port, "the URL holds credentials", "POST /"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen = nil
			resp, err := allowing(t).Fetcher(FetchOptions{HTTP: true}).Post(url+tt.path, "text/plain", strings.NewReader("secret"))
			switch {
			case err == nil:
				resp.Body.Close()
				if tt.want != "" {
					t.Errorf("status %d, want a refusal since %s", resp.StatusCode, tt.want)
				}
			default:
				wantBlocked(t, "redirect", err, tt.want)
			}
			if got := strings.Join(seen, " "); got != tt.wantSeen {
				t.Errorf("the server saw %s, want %s", got, tt.wantSeen)
			}
		})
	}
}

// TestOrigin holds what the same origin is.
func TestOrigin(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"https://a.example/x", "https://A.example:443/y", true},
		{"http://a.example", "http://a.example:80", true},
		{"https://a.example", "http://a.example", false},
		{"https://a.example", "https://a.example:80", false},
		{"https://a.example", "https://a.example.", false},
		{"https://a.example", "https://b.example", false},
	}
	for _, tt := range tests {
		t.Run(tt.a+" "+tt.b, func(t *testing.T) {
			a, b := httptest.NewRequest(http.MethodGet, tt.a, http.NoBody).URL, httptest.NewRequest(http.MethodGet, tt.b, http.NoBody).URL
			if got := origin(a) == origin(b); got != tt.want {
				t.Errorf("same origin: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestMaxBytes holds that a body is given up to the bound, and that there is a clear
// error when there is more, whether its length is announced or not.
func TestMaxBytes(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscan(r.URL.Query().Get("n"), &n)
		if r.URL.Query().Has("flush") {
			http.NewResponseController(w).Flush()
		}
		io.WriteString(w, strings.Repeat("a", n))
	})
	for _, flush := range []string{"", "&flush"} {
		for n, fits := range map[int]bool{0: true, 99: true, 100: true, 101: false, 100_000: false} {
			t.Run(fmt.Sprint(n, flush), func(t *testing.T) {
				resp, err := allowing(t).Fetcher(FetchOptions{HTTP: true, MaxBytes: 100}).Get(fmt.Sprintf("%s/?n=%d%s", url, n, flush))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				size, over := errors.AsType[*SizeError](err)
				switch {
				case len(data) != min(n, 100):
					t.Errorf("%d bytes were given", len(data))
				case fits && err != nil, !fits && !over:
					t.Errorf("error = %v", err)
				case over && err.Error() != `the answer of "127.0.0.1" is larger than 100 bytes`:
					t.Errorf("error = %v from %#v", err, size)
				}
				if again, err2 := resp.Body.Read(make([]byte, 9)); over && (again != 0 || !errors.Is(err2, err)) {
					t.Errorf("after the end: %d bytes, %v", again, err2)
				}
			})
		}
	}
}

// TestNoCompression holds that a small body does not become a large one, also when
// the server compresses without being asked.
func TestNoCompression(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("Accept-Encoding = %q", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, strings.Repeat("a", 1<<20))
		z.Close()
	})
	resp, err := allowing(t).Fetcher(FetchOptions{HTTP: true, MaxBytes: 8 << 10}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err != nil || len(data) > 8<<10 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

func TestHeaderBytes(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("a", maxHeaderBytes)) })
	if resp, err := allowing(t).Fetcher(FetchOptions{HTTP: true}).Get(url); err == nil {
		resp.Body.Close()
		t.Error("a header over the bound was read")
	}
}

func TestNoCookies(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Cookies()) > 0 {
			t.Errorf("Cookie: %s", r.Header.Get("Cookie"))
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if r.URL.Path != "/end" {
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	})
	client := allowing(t).Fetcher(FetchOptions{HTTP: true})
	for range 2 {
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

// TestFetchTimeout holds that a server that trickles its answer does not hold
// anybody for longer than the whole time.
func TestFetchTimeout(t *testing.T) {
	left := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	resp, err := allowing(t).Fetcher(FetchOptions{HTTP: true, Timeout: 200 * time.Millisecond}).Get(url)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want that time ran out", err)
	}
	<-left
}

// TestFetchDefaults holds the bounds of a client that asks for none.
func TestFetchDefaults(t *testing.T) {
	c := New(Options{}).Fetcher(FetchOptions{})
	if f, ok := c.Transport.(*fetcher); !ok || f.max != DefaultFetchBytes || c.Timeout != DefaultFetchTimeout || c.Jar != nil {
		t.Errorf("%+v, %+v", c, c.Transport)
	}
}

// TestFetchTLS holds that a fetch trusts the roots it is given, and speaks no old
// version, whatever the options say.
func TestFetchTLS(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = quiet
	s.StartTLS()
	defer s.Close()
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.Config.ErrorLog = quiet
	old.StartTLS()
	defer old.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	transports := New(Options{AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}})
	defer transports.Close()
	resp, err := transports.Fetcher(FetchOptions{}).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp, err := transports.Fetcher(FetchOptions{}).Get(old.URL); err == nil {
		resp.Body.Close()
		t.Error("TLS 1.1 was spoken")
	}
	if resp, err := allowing(t).Fetcher(FetchOptions{}).Get(s.URL); err == nil {
		resp.Body.Close()
		t.Error("an unknown authority was trusted")
	}
}

// TestRefusedBodyIsClosed holds a promise of http.RoundTripper.
func TestRefusedBodyIsClosed(t *testing.T) {
	checked := settings
	checked.Checked = true
	transports := New(Options{})
	for name, rt := range map[string]http.RoundTripper{"pool": transports.Calls(checked), "fetcher": transports.Fetcher(FetchOptions{}).Transport} {
		body := &closing{Reader: strings.NewReader("x")}
		req := httptest.NewRequest(http.MethodPost, "http://10.0.0.1/", body)
		if resp, err := rt.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("%s: an answer came", name)
		}
		if !body.closed {
			t.Errorf("%s: the body is open", name)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}
