package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

var settings = Settings{ConnectTimeout: 2 * time.Second, IdleTimeout: 4 * time.Second}

// post sends a request and gives the answer with its body read.
func post(t *testing.T, p *Pool, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

func TestIdleTime(t *testing.T) {
	tests := []struct {
		header string
		want   time.Duration
	}{
		{"timeout=5", 4 * time.Second},
		{"timeout=5, max=100", 4 * time.Second},
		{"max=100,Timeout=65", 64 * time.Second},
		{`timeout="20"`, 19 * time.Second},
		{"timeout=1", time.Second / 2},
		{"timeout=0", 0},
		{"timeout=-1", 0},
		{"timeout=", 0},
		{"timeout", 0},
		{"timeout=x", 0},
		{"max=5", 0},
		{"", 0},
		{"timeout=100000", MaxIdleTimeout},
		{"timeout=99999999999999999999", 0},
	}
	for _, tt := range tests {
		t.Run(tt.header, func(t *testing.T) {
			if got := idleTime(tt.header); got != tt.want {
				t.Errorf("idleTime(%q) = %v, want %v", tt.header, got, tt.want)
			}
		})
	}
}

// The announced idle time is taken over; connections stay usable meanwhile.
func TestAnnouncedIdleTime(t *testing.T) {
	announce := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := <-announce; a != "" {
			w.Header().Set("Keep-Alive", a)
		}
	}))
	defer s.Close()
	p := New(Options{}).Calls(settings)
	defer p.Close()
	steps := []struct {
		announced string
		want      time.Duration
	}{
		{"", 4 * time.Second},
		{"timeout=5", 4 * time.Second},
		{"timeout=3", 2 * time.Second},  // shorter holds
		{"timeout=30", 2 * time.Second}, // longer does not, when it is not the first
		{"timeout=2", time.Second},
		{"", time.Second},
	}
	for _, step := range steps {
		announce <- step.announced
		if _, err := post(t, p, s.URL); err != nil {
			t.Fatal(err)
		}
		if got := p.current.Load().IdleConnTimeout; got != step.want {
			t.Errorf("after %q the idle time is %v, want %v", step.announced, got, step.want)
		}
	}
	longer := New(Options{}).Calls(settings)
	defer longer.Close()
	announce <- "timeout=65"
	if _, err := post(t, longer, s.URL); err != nil {
		t.Fatal(err)
	}
	if got := longer.current.Load().IdleConnTimeout; got != 64*time.Second {
		t.Errorf("after a first announcement of 65 s the idle time is %v, want 64 s", got)
	}
}

func TestControl(t *testing.T) {
	refused := errors.New("refused")
	var asked string
	p := New(Options{Control: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		asked = network + " " + address
		return refused
	}}).Calls(settings)
	defer p.Close()
	_, err := post(t, p, "http://127.0.0.1:1/")
	if !errors.Is(err, refused) || !NotSent(err) {
		t.Errorf("error = %v (not sent: %v), want the refusal", err, NotSent(err))
	}
	if asked != "tcp4 127.0.0.1:1" {
		t.Errorf("asked about %q", asked)
	}
}

func TestProxy(t *testing.T) {
	seen := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r.URL.String() }))
	defer proxy.Close()
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{Proxy: http.ProxyURL(u)}).Calls(settings)
	defer p.Close()
	if _, err := post(t, p, "http://upstream.invalid/mcp"); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "http://upstream.invalid/mcp" {
		t.Errorf("the proxy was asked for %q", got)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
	}))
	p := New(Options{}).Calls(settings)
	defer p.Close()
	resp, err := post(t, p, s.URL+"/mcp")
	s.Close()
	if err != nil || resp.StatusCode != http.StatusPermanentRedirect || len(paths) != 1 {
		t.Errorf("status %v, error %v after requests for %q, want 308 after one", resp, err, paths)
	}
}

func TestCompression(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("Accept-Encoding"))
	}))
	defer s.Close()
	transports := New(Options{})
	for want, p := range map[string]*Pool{"gzip": transports.Calls(settings), "": transports.Listens(settings)} {
		resp, err := post(t, p, s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Seen"); got != want {
			t.Errorf("Accept-Encoding = %q, want %q", got, want)
		}
		p.Close()
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	known := New(Options{TLS: &tls.Config{RootCAs: roots}}).Calls(settings)
	defer known.Close()
	resp, err := post(t, known, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ProtoMajor != 2 {
		t.Errorf("protocol = %s, want HTTP/2", resp.Proto)
	}
	unknown := New(Options{TLS: &tls.Config{RootCAs: x509.NewCertPool()}}).Calls(settings)
	defer unknown.Close()
	if _, err := post(t, unknown, s.URL); !NotSent(err) {
		t.Errorf("error = %v, want one that says that nothing was sent", err)
	}
}

func TestDialError(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		timeout bool
	}{
		{"refused", syscall.ECONNREFUSED, false},
		{"timeout", context.DeadlineExceeded, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := &DialError{Err: tt.err}
			if err.Timeout() != tt.timeout || !errors.Is(err, tt.err) || !NotSent(err) || NotSent(io.EOF) {
				t.Errorf("%v: timeout %v, not sent %v", err, err.Timeout(), NotSent(err))
			}
		})
	}
}
