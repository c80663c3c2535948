package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth"
)

// startPages runs a gateway with pages until the test ends. Its clients come to
// publicURL.
func startPages(t *testing.T, publicURL string, change func(*Options), handler http.HandlerFunc) string {
	t.Helper()
	who, err := auth.New(auth.Options{
		Client: func(bool) *http.Client { return http.DefaultClient }, FailuresPerMinute: 5,
		Registerer: prometheus.NewRegistry(), Logger: testOptions().Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(who.Close)
	_, url := startEdge(t, &fakeRouter{}, func(o *Options) {
		o.PublicURL = publicURL
		if change != nil {
			change(o)
		}
	}, func(e *edge) {
		e.auth = who
		e.mountPages(handler)
	})
	return url
}

// TestPages holds what reaches the handler of pages, and in which form.
func TestPages(t *testing.T) {
	const own = "https://gw.example.com"
	handler := func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s?%s %s %v", r.Method, r.URL.Path, r.URL.RawQuery, text, err)
	}
	url := startPages(t, own+"/base", func(o *Options) { o.AllowedOrigins = []string{"https://app.example.com"} }, handler)
	tests := []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"a page", "GET", "/oauth/connect?t=1", "", nil, 200, "GET /oauth/connect?t=1  <nil>"},
		{"below the path of the URL", "GET", "/base/oauth/connect", "", nil, 200, "GET /oauth/connect?  <nil>"},
		{"a form", "POST", "/oauth/consent", "a=b", []string{"Origin: " + own}, 200, "POST /oauth/consent? a=b <nil>"},
		{"a form of no browser", "POST", "/oauth/consent", "a=b", nil, 200, "POST /oauth/consent? a=b <nil>"},
		{"a form of another page", "POST", "/oauth/consent", "a=b", []string{"Origin: https://evil.example"}, 403, ""},
		{"a form of a page that may call", "POST", "/oauth/consent", "a=b", []string{"Origin: https://app.example.com"}, 403, ""},
		{"a form of this machine", "POST", "/oauth/consent", "a=b", []string{"Origin: http://localhost:3000"}, 403, ""},
		{"a form of a page without origin", "POST", "/oauth/consent", "a=b", []string{"Origin: null"}, 403, ""},
		{"a form of a page of its own that hides", "POST", "/oauth/consent", "a=b", []string{"Origin: null", "Sec-Fetch-Site: same-origin"}, 200, "POST /oauth/consent? a=b <nil>"},
		{"a form of another that hides", "POST", "/oauth/consent", "a=b", []string{"Origin: null", "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"another page that says so", "POST", "/oauth/consent", "a=b", []string{"Origin: https://evil.example", "Sec-Fetch-Site: same-origin"}, 403, ""},
		{"a link of another page", "GET", "/oauth/connect", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 200, "GET /oauth/connect?  <nil>"},
		{"an image of another page", "GET", "/oauth/connect", "", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403, ""},
		{"a foreign host", "GET", "/oauth/connect", "", []string{"Host: evil.example"}, 403, ""},
		{"the host that clients know", "GET", "/oauth/connect", "", []string{"Host: gw.example.com"}, 200, "GET /oauth/connect?  <nil>"},
		{"a large form", "POST", "/oauth/consent", strings.Repeat("a", maxForm+1), nil, 413, ""},
		{"the largest form", "POST", "/oauth/x", strings.Repeat("a", maxForm), nil, 200, "POST /oauth/x? " + strings.Repeat("a", maxForm) + " <nil>"},
		{"no page", "GET", "/oauth", "", nil, 404, ""},
		{"twice the path", "GET", "/base/base/oauth/x", "", nil, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t, url+tt.path, tt.body, tt.header...)
			req.Method = tt.method
			res := do(t, req)
			got := body(t, res)
			if res.StatusCode != tt.status || tt.want != "" && got != tt.want || tt.status != 200 && !strings.HasPrefix(got, `{"error":`) {
				t.Errorf("%d %.200s", res.StatusCode, got)
			}
			if res.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
}

// TestNoPages holds that there are none without an address that browsers know.
func TestNoPages(t *testing.T) {
	url := startPages(t, "", nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
	if status, _ := get(t, url+"/oauth/connect"); status != 404 {
		t.Errorf("%d", status)
	}
}

// TestPagesFail holds that a page that fails says nothing of why, and that what was asked
// for is in no log.
func TestPagesFail(t *testing.T) {
	var log bytes.Buffer
	url := startPages(t, "http://localhost", func(o *Options) { o.Logger = testLogger(&log) }, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/late" {
			_, _ = io.WriteString(w, "begun")
		}
		panic("broken")
	})
	if status, got := get(t, url+"/oauth/hush?hush=hush"); status != 500 || got != `{"error":"Internal Server Error"}`+"\n" {
		t.Errorf("%d %s", status, got)
	}
	if status, got := get(t, url+"/oauth/late?hush"); status != 200 || got != "begun" {
		t.Errorf("%d %s", status, got)
	}
	if !strings.Contains(log.String(), "serve a page") || strings.Contains(log.String(), "hush") {
		t.Errorf("log:\n%s", &log)
	}
}

// TestPagesArePaused holds that whoever fails too often has to wait, and only there.
func TestPagesArePaused(t *testing.T) {
	url := startPages(t, "http://localhost", nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/bad" {
			http.Error(w, "bad link", http.StatusForbidden)
		}
	})
	for range 10 {
		if status, _ := get(t, url+"/oauth/good"); status != 200 {
			t.Fatalf("a good page: %d", status)
		}
		// Another site's page cannot have its visitors wait.
		req := request(t, url+"/oauth/bad", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
		req.Method = http.MethodGet
		if res := do(t, req); res.StatusCode != 403 {
			t.Fatalf("an image: %d", res.StatusCode)
		}
	}
	for range 5 {
		if status, _ := get(t, url+"/oauth/bad"); status != 403 {
			t.Fatalf("a bad link: %d", status)
		}
	}
	req := request(t, url+"/oauth/good", "")
	req.Method = http.MethodGet
	if res := do(t, req); res.StatusCode != 429 || res.Header.Get("Retry-After") == "" {
		t.Errorf("after five failures: %d %v", res.StatusCode, res.Header)
	}
	if res := do(t, request(t, url+"/mcp", message("tools/list", ""))); res.StatusCode != 200 {
		t.Errorf("an endpoint: %d", res.StatusCode)
	}
}
