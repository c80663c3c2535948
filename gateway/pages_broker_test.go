package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestBrokersPages holds that what the broker has for browsers and authorization servers
// is where it says, and not at the host of a tenant.
func TestBrokersPages(t *testing.T) {
	h := newHosted(t)
	r := h.start()
	fetch := func(host, path string) (int, http.Header, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(body)
	}
	if status, _, body := fetch("gw.example.com", "/oauth/client.json"); status != 200 || !strings.Contains(body, `"client_id":"`+publicURL+`/oauth/client.json"`) {
		t.Errorf("the client's metadata document: %d %s", status, body)
	}
	if status, header, body := fetch("gw.example.com", "/oauth/connect?ticket=hush"); status != 400 || !strings.HasPrefix(header.Get("Content-Type"), "text/html") ||
		strings.Contains(body, "hush") || header.Get("Content-Security-Policy") == "" {
		t.Errorf("a bad link: %d %v %s", status, header, body)
	}
	for _, host := range []string{"mcp.acme.example", "evil.example"} {
		if status, _, body := fetch(host, "/oauth/client.json"); status == 200 || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("at %s: %d %s", host, status, body)
		}
	}
	if log := h.logs(r); strings.Contains(log, "hush") {
		t.Errorf("a link is in the log:\n%s", log)
	}
}
