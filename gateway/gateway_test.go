package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// get fetches a page of the admin listener.
func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	req := request(t, url, "", header...)
	req.Method = http.MethodGet
	res := do(t, req)
	return res.StatusCode, body(t, res)
}

func TestLifecycle(t *testing.T) {
	working, finish := make(chan struct{}), make(chan struct{})
	order := make(chan string, 2)
	g, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		close(working)
		<-finish
		order <- "request"
		return result(c, `{"resultType":"complete"}`), nil
	}}, func(o *Options) { o.AdminListen = "127.0.0.1:0" })
	admin := "http://" + g.AdminAddr().String()
	for _, path := range []string{"/livez", "/readyz"} {
		if status, text := get(t, admin+path); status != 200 || text != "ok\n" {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	// The collaborators are closed when no request needs them any more.
	g.cleanups.list = append([]cleanup{{"collaborator", func(context.Context) error {
		order <- "collaborator"
		return errors.New("was busy")
	}}}, g.cleanups.list...)

	answer := make(chan string, 1)
	req := request(t, url+"/mcp", message("tools/call", `"name":"x"`))
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		answer <- string(text) + errorText(err)
	}()
	<-working
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(context.Background()) }()
	for {
		if status, text := get(t, admin+"/readyz"); status == 503 {
			if text != "draining\n" {
				t.Errorf("readyz: %s", text)
			}
			break
		}
	}
	if status, _ := get(t, admin+"/livez"); status != 200 {
		t.Errorf("livez while draining: %d", status)
	}
	close(finish)
	if got := <-answer; got != complete {
		t.Errorf("the request under way: %s", got)
	}
	if err := <-stopped; err == nil || err.Error() != "stop collaborator: was busy" {
		t.Errorf("stop: %v", err)
	}
	if first, second := <-order, <-order; first != "request" || second != "collaborator" {
		t.Errorf("order: %s, %s", first, second)
	}
	if conn, err := net.Dial("tcp", g.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}

// While a stop waits for balancers to learn of it, requests are still served.
func TestStopGoesOnServing(t *testing.T) {
	g, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return result(c, `{"resultType":"complete"}`), nil
	}}, func(o *Options) {
		o.AdminListen = "127.0.0.1:0"
		o.Limits.DrainDelay, o.Limits.ShutdownGrace = time.Minute, time.Hour
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = g.Stop(ctx) // that the wait was cut short is not what is tested
	}()
	for {
		if status, _ := get(t, "http://"+g.AdminAddr().String()+"/readyz"); status == 503 {
			break
		}
	}
	if res := do(t, request(t, url+"/mcp", message("tools/call", `"name":"x"`))); res.StatusCode != 200 {
		t.Errorf("a request while draining: %d %s", res.StatusCode, body(t, res))
	}
	cancel()
	<-stopped
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestStopCutsOffWhatDoesNotEnd(t *testing.T) {
	entered := make(chan struct{})
	opts := testOptions()
	opts.Limits.ShutdownGrace = 50 * time.Millisecond
	g := newGateway(opts, &fakeRouter{handle: func(ctx context.Context, _ *federation.Call) (*federation.Reply, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}}, nil, newTestMetrics(t))
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	req := request(t, "http://"+g.Addr().String()+"/mcp", message("tools/call", `"name":"x"`))
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		done <- err
	}()
	<-entered
	if err := g.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "stop MCP listener: requests were cut off") {
		t.Errorf("stop: %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the request was answered")
	}
}

func TestRun(t *testing.T) {
	t.Run("until its context ends", func(t *testing.T) {
		g := newGateway(testOptions(), &fakeRouter{}, nil, newTestMetrics(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Run(ctx); !errors.Is(err, context.Canceled) && err != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("until a listener fails", func(t *testing.T) {
		g := newGateway(testOptions(), &fakeRouter{}, nil, newTestMetrics(t))
		g.failed <- errors.New("MCP listener: broken")
		if err := g.Run(t.Context()); err == nil || err.Error() != "MCP listener: broken" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a port that is taken", func(t *testing.T) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		opts := testOptions()
		opts.AdminListen = ln.Addr().String()
		g := newGateway(opts, &fakeRouter{}, nil, newTestMetrics(t))
		if err := g.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listen for administration: ") {
			t.Errorf("got %v", err)
		}
		if conn, err := net.Dial("tcp", g.Addr().String()); err == nil {
			_ = conn.Close()
			t.Error("the other port is still open")
		}
	})
}

func TestAdminListener(t *testing.T) {
	g, _ := start(t, &fakeRouter{}, func(o *Options) { o.AdminListen = "127.0.0.1:0" })
	admin := "http://" + g.AdminAddr().String()
	tests := []struct {
		name, path string
		header     []string
		status     int
		want       string
	}{
		{name: "metrics", path: "/metrics", status: 200, want: "causeway_inflight_requests 0"},
		{name: "OpenMetrics", path: "/metrics", header: []string{"Accept", "Accept: application/openmetrics-text; version=1.0.0"}, status: 200, want: "# EOF"},
		{name: "native histograms", path: "/metrics", header: []string{"Accept", "Accept: application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"}, status: 200, want: "causeway_buffered_bytes"},
		{name: "foreign host", path: "/metrics", header: []string{"Host: evil.example"}, status: 403, want: `{"error":"Forbidden"}`},
		{name: "foreign origin", path: "/livez", header: []string{"Origin: http://evil.example"}, status: 403, want: `{"error":"Forbidden"}`},
		{name: "unknown", path: "/mcp", status: 404, want: `{"error":"Not Found"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if status, text := get(t, admin+tt.path, tt.header...); status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%d: %s", status, text)
			}
		})
	}
	res := do(t, request(t, admin+"/metrics", "{}"))
	if got := body(t, res); res.StatusCode != 405 || res.Header.Get("Allow") != "GET" {
		t.Errorf("POST: %d, Allow %q: %s", res.StatusCode, res.Header.Get("Allow"), got)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	var reply func(c *federation.Call) (*federation.Reply, error)
	opts := testOptions()
	g, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
		return reply(c)
	}}, func(o *Options) { o.Registerer, o.Gatherer = opts.Registerer, opts.Gatherer })
	send := func(path, text string, header ...string) {
		t.Helper()
		body(t, do(t, request(t, url+path, text, header...)))
	}
	typed := func(errorType string) func(c *federation.Call) (*federation.Reply, error) {
		return func(c *federation.Call) (*federation.Reply, error) {
			r := result(c, `{}`)
			r.ErrorType = errorType
			return r, nil
		}
	}
	reply = typed("")
	send("/mcp", message("tools/call", `"name":"x"`))
	send("/t/acme/u/weather/mcp", message("unknown/method", ""))
	reply = typed("tool_error")
	send("/mcp", message("tools/call", `"name":"x"`))
	reply = typed("-32602")
	send("/mcp", message("tools/call", `"name":"x"`))
	reply = typed("-31999")
	send("/mcp", message("tools/call", `"name":"x"`))
	reply = func(*federation.Call) (*federation.Reply, error) {
		return nil, &upstream.Error{Alias: "ledger", Class: upstream.ClassBreakerOpen, Err: io.EOF}
	}
	send("/mcp", message("tools/list", ""))
	send("/mcp", message("ping", ""))
	send("/mcp", message("ping", ""), "Origin: http://evil.example")
	send("/t/nobody/mcp", message("ping", ""))
	send("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	want := `
# HELP causeway_requests_total Requests by what answered them and how: error_type is empty for success, a JSON-RPC code, tool_error or a transport class.
# TYPE causeway_requests_total counter
causeway_requests_total{error_type="",mcp_method_name="other",tenant="acme",upstream="weather"} 1
causeway_requests_total{error_type="",mcp_method_name="other",tenant="default",upstream=""} 1
causeway_requests_total{error_type="",mcp_method_name="tools/call",tenant="default",upstream="weather"} 1
causeway_requests_total{error_type="-32601",mcp_method_name="other",tenant="default",upstream=""} 1
causeway_requests_total{error_type="-32602",mcp_method_name="tools/call",tenant="default",upstream="weather"} 1
causeway_requests_total{error_type="breaker_open",mcp_method_name="tools/list",tenant="default",upstream="ledger"} 1
causeway_requests_total{error_type="no_endpoint",mcp_method_name="other",tenant="",upstream=""} 1
causeway_requests_total{error_type="origin",mcp_method_name="other",tenant="",upstream=""} 1
causeway_requests_total{error_type="other_code",mcp_method_name="tools/call",tenant="default",upstream="weather"} 1
causeway_requests_total{error_type="tool_error",mcp_method_name="tools/call",tenant="default",upstream="weather"} 1
`
	// A request is counted a moment after its response; Stop waits for that.
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := testutil.GatherAndCompare(opts.Gatherer, strings.NewReader(want), "causeway_requests_total"); err != nil {
		t.Error(err)
	}
}

// TestAccessLog holds that requests are logged at the debug level alone, and
// without what is in them.
func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	g, url := start(t, &fakeRouter{}, func(o *Options) { o.Logger = testLogger(&log) })
	body(t, do(t, request(t, url+"/t/acme/u/weather/mcp", message("tools/call", `"name":"secret_tool","arguments":{"key":"secret"}`),
		"X-Request-Id: r1", "X-Forwarded-For: 203.0.113.9", "Authorization: Bearer secret")))
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	for _, want := range []string{"level=DEBUG msg=request", "request_id=r1", "client=127.0.0.1", "tenant=acme", "alias=weather", "method=tools/call", "status=200", "upstream=weather"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("a secret is logged: %s", text)
	}
	if diff := cmp.Diff(1, strings.Count(text, "level=INFO")); diff != "" {
		t.Errorf("lines at the level info (-want +got):\n%s\n%s", diff, text)
	}
}

func TestForwardedAddresses(t *testing.T) {
	tests := []struct {
		name    string
		trusted []string
		want    string
	}{
		{"no proxy", nil, "127.0.0.1"},
		{"a trusted proxy", []string{"127.0.0.1/32"}, "203.0.113.9"},
		{"another proxy", []string{"10.0.0.0/8"}, "127.0.0.1"},
		{"two proxies", []string{"127.0.0.0/8", "203.0.113.0/24"}, "198.51.100.4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			g, url := start(t, &fakeRouter{}, func(o *Options) {
				o.Logger = testLogger(&log)
				for _, p := range tt.trusted {
					o.TrustedProxies = append(o.TrustedProxies, netip.MustParsePrefix(p))
				}
			})
			body(t, do(t, request(t, url+"/mcp", message("tools/list", ""), "X-Forwarded-For: 198.51.100.4, 203.0.113.9")))
			if err := g.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), "client="+tt.want+" ") {
				t.Errorf("want %s in %s", tt.want, &log)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	seen := map[string]upstream.Class{}
	for _, c := range []upstream.Class{
		upstream.ClassConnect, upstream.ClassTimeout, upstream.ClassInterrupted, upstream.ClassStatus, upstream.ClassUnauthorized,
		upstream.ClassProtocol, upstream.ClassVersion, upstream.ClassTooLarge, upstream.ClassOverloaded, upstream.ClassBreakerOpen,
		upstream.ClassRejected, upstream.ClassCanceled,
	} {
		text := reason(c)
		if other, ok := seen[text]; ok || text == reason("new") {
			t.Errorf("%s reads like %q", c, other)
		}
		seen[text] = c
		e := upstreamError(&upstream.Error{Alias: "a", Class: c, Err: errors.New("dial tcp 10.0.0.7:443: refused")})
		if e.Code != mcp.CodeInternal || strings.Contains(e.Message+string(e.Data), "10.0.0.7") {
			t.Errorf("%s: %v %s", c, e, e.Data)
		}
	}
}
