package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// counter is a reverse proxy that knows what went through it.
type counter struct {
	next http.Handler
	mu   sync.Mutex
	seen []string
}

// ServeHTTP implements http.Handler.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body) // what could not be read fails behind it
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct{ Method string }
		if json.Unmarshal(body, &m) == nil {
			what = m.Method
		}
	}
	c.mu.Lock()
	c.seen = append(c.seen, what)
	c.mu.Unlock()
	c.next.ServeHTTP(w, r)
}

// take gives the requests since the last time: the methods of POSTs, else the
// verb.
func (c *counter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// countRequests starts a counter in front of a server, and gives its URL.
func countRequests(t *testing.T, server string) (*counter, string) {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &counter{next: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return c, srv.URL
}

// TestOneRequestPerCall holds that a call costs one upstream request, and a list
// that is known none, whatever both sides speak.
func TestOneRequestPerCall(t *testing.T) {
	const times = 20
	for _, version := range []string{"", "2025-11-25"} {
		for _, stateless := range []bool{true, false} {
			t.Run(fmt.Sprintf("client %q, stateless server %v", version, stateless), func(t *testing.T) {
				counted, url := countRequests(t, startFixture(t, stateless))
				gw := gatewaytest.Start(t, gatewaytest.Config(gatewaytest.Upstream{Alias: "fixture", URL: url}))
				client, err := matrixConnect(t, gw.URL+"/mcp", version)
				if err != nil {
					t.Fatal(err)
				}
				echo := &use{"fixture_echo", map[string]any{"message": "x"}, "Echo: x"}
				warm := func() {
					t.Helper()
					if err := client.list(t.Context(), []string{"fixture_echo"}); err != nil {
						t.Fatal(err)
					}
					if err := client.call(t.Context(), echo); err != nil {
						t.Fatal(err)
					}
				}
				warm()
				if seen := strings.Join(counted.take(), " "); strings.Count(seen, "tools/call") != 1 || strings.Count(seen, "tools/list") != 1 {
					t.Errorf("the first list and call cost %s", seen)
				}
				for range times {
					warm()
				}
				// A client that listens has its lists read once more when the stream is open
				// (a change may have come before it), however many lists are asked for.
				calls, lists, others := 0, 0, []string(nil)
				for _, method := range counted.take() {
					switch method {
					case mcp.MethodToolsCall:
						calls++
					case mcp.MethodToolsList:
						lists++
					default:
						others = append(others, method) // to open that stream
					}
				}
				if calls != times || lists > 1 || len(others) > 5 {
					t.Errorf("%d calls and lists cost %d calls, %d lists and %v", times, calls, lists, others)
				}
			})
		}
	}
}
