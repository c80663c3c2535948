package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestPagesOfAllowedOrigins(t *testing.T) {
	_, base := start(t, &fakeRouter{}, func(o *Options) { o.AllowedOrigins = []string{"https://app.example.com"} })
	ask := func(method, origin string, header map[string]string, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		for k, v := range header {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	preflight := map[string]string{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,mcp-method,mcp-param-x"}
	tests := []struct {
		name, method, origin string
		header               map[string]string
		wantStatus           int
		wantOrigin, wantAsk  string
	}{
		{"preflight", "OPTIONS", "https://app.example.com", preflight, 204, "https://app.example.com", "content-type,mcp-method,mcp-param-x"},
		{"preflight of a stranger", "OPTIONS", "https://evil.example.com", preflight, 403, "", ""},
		{"no preflight", "OPTIONS", "https://app.example.com", nil, 405, "https://app.example.com", ""},
		{"request", "POST", "https://app.example.com", map[string]string{"Content-Type": "application/json"}, 400, "https://app.example.com", ""},
		{"request of a stranger", "POST", "https://evil.example.com", map[string]string{"Content-Type": "application/json"}, 403, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := ask(tt.method, tt.origin, tt.header, `{}`)
			if resp.StatusCode != tt.wantStatus {
				t.Errorf("status = %d, want %d", resp.StatusCode, tt.wantStatus)
			}
			for name, want := range map[string]string{
				"Access-Control-Allow-Origin":      tt.wantOrigin,
				"Access-Control-Allow-Headers":     tt.wantAsk,
				"Access-Control-Allow-Credentials": "",
			} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
		})
	}
}
