package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// fakeRouter stands for the federation. It serves the tenants default and acme,
// and of acme the upstream weather. A nil function answers with an empty result.
type fakeRouter struct {
	handle func(ctx context.Context, c *federation.Call) (*federation.Reply, error)
	listen func(ctx context.Context, c *federation.Call) (*federation.Subscription, error)
	watch  func(c *federation.Call) error
}

func (f *fakeRouter) Tenant(_ context.Context, e federation.Endpoint) (*tenant.Tenant, error) {
	switch e {
	case federation.Endpoint{Tenant: "default"}, federation.Endpoint{Tenant: "acme"}, federation.Endpoint{Tenant: "acme", Alias: "weather"}:
		return &tenant.Tenant{Name: e.Tenant}, nil
	case federation.Endpoint{Tenant: "broken"}:
		return nil, errors.New("the store at 10.0.0.7 does not answer")
	}
	return nil, federation.ErrNoEndpoint
}

func (f *fakeRouter) Handle(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
	if f.handle == nil {
		return result(c, `{"resultType":"complete"}`), nil
	}
	return f.handle(ctx, c)
}

func (f *fakeRouter) Watchable(_ context.Context, c *federation.Call) error {
	if f.watch == nil {
		return nil
	}
	return f.watch(c)
}

func (f *fakeRouter) Listen(ctx context.Context, c *federation.Call) (*federation.Subscription, error) {
	return f.listen(ctx, c)
}

// result answers a call.
func result(c *federation.Call, raw string) *federation.Reply {
	b := mcp.GetBuffer(256)
	b.B = append(b.B, `{"jsonrpc":"2.0","id":`...)
	b.B = append(b.B, c.Request.ID.In(c.Request.Raw)...)
	b.B = append(b.B, `,"result":`+raw+`}`...)
	return &federation.Reply{Status: http.StatusOK, Body: b, Upstream: "weather"}
}

// testOptions are options for listeners on free ports of this machine.
func testOptions() Options {
	reg := prometheus.NewRegistry()
	o := DefaultOptions()
	o.Listen, o.AdminListen = "127.0.0.1:0", ""
	o.Registerer, o.Gatherer = reg, reg
	o.Logger, o.Ring = slog.New(slog.DiscardHandler), seal.NewRandom()
	return o
}

// start runs a gateway in front of r until the test ends.
func start(t *testing.T, r router, change func(*Options)) (*Gateway, string) {
	t.Helper()
	return startEdge(t, r, change, nil)
}

// startEdge is start for an edge that is completed before it serves.
func startEdge(t *testing.T, r router, change func(*Options), complete func(*edge)) (*Gateway, string) {
	t.Helper()
	opts := testOptions()
	if change != nil {
		change(&opts)
	}
	budget := mcp.NewBudget(opts.Limits.MaxBuffered)
	metrics, err := telemetry.NewMetrics(opts.Registerer, budget)
	if err != nil {
		t.Fatal(err)
	}
	g := newGateway(opts, r, budget, metrics)
	if complete != nil {
		complete(g.edge)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		returned(t, budget)
	})
	return g, "http://" + g.Addr().String()
}

// returned holds that all memory is given back. Handlers whose connections were cut
// off end a little later than the server.
func returned(t *testing.T, budget *mcp.Budget) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for budget.Used() != 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("%d buffered bytes are left", budget.Used())
			return
		}
	}
}

// message is a JSON-RPC request as a well-behaved client sends it.
func message(method, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + meta + `}}`
}

// request makes the HTTP request that goes with a message. header lines are
// "Name: value"; a line without a value takes the header away.
func request(t *testing.T, url, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	var envelope struct {
		Method string
		Params struct{ Name, URI, TaskID string }
	}
	if json.Unmarshal([]byte(body), &envelope) == nil && envelope.Method != "" {
		req.Header.Set("Mcp-Method", envelope.Method)
		if name := envelope.Params.Name + envelope.Params.URI + envelope.Params.TaskID; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	for _, line := range header {
		name, value, ok := strings.Cut(line, ": ")
		switch {
		case !ok:
			req.Header.Del(name)
		case name == "Host":
			req.Host = value
		default:
			req.Header.Add(name, value)
		}
	}
	return req
}

// do sends a request; the response's body is closed when the test ends.
func do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// body reads a response to its end.
func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the response: %v", err)
	}
	return string(b)
}

// rpcError is the error of a response.
type rpcError struct {
	ID    json.RawMessage
	Error struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

func decodeError(t *testing.T, text string) rpcError {
	t.Helper()
	var e rpcError
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%q is not a JSON-RPC error: %v", text, err)
	}
	return e
}

// events reads the data of the events of a stream; comments are given as ":".
func events(r io.Reader) func() (string, error) {
	br := bufio.NewReader(r)
	return func() (string, error) {
		var data []byte
		for {
			line, err := br.ReadBytes('\n')
			if err != nil {
				return string(data), err
			}
			line = bytes.TrimRight(line, "\r\n")
			switch {
			case len(line) == 0 && data != nil:
				return string(data), nil
			case bytes.HasPrefix(line, []byte(":")):
				data = []byte(":")
			case bytes.HasPrefix(line, []byte("data:")):
				data = append(data, bytes.TrimPrefix(bytes.TrimPrefix(line, []byte("data:")), []byte(" "))...)
			}
		}
	}
}

// testLogger writes everything to w.
func testLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newTestMetrics(tb testing.TB) *telemetry.Metrics {
	tb.Helper()
	m, err := telemetry.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
