package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	traceA  = "0af7651916cd43dd8448eb211c80319c"
	traceB  = "1bf7651916cd43dd8448eb211c80319d"
	parentA = "00-" + traceA + "-00f067aa0ba902b7-01"
	parentB = "00-" + traceB + "-00f067aa0ba902b8-01"
)

func TestSpans(t *testing.T) {
	type span struct {
		Name, Trace, Error string
		Status             codes.Code
		Attributes         map[string]string
	}
	call := message("tools/call", `"name":"weather_now"`)
	tests := []struct {
		name   string
		body   string
		header []string
		want   span
	}{
		{
			name: "tool call", body: call,
			want: span{Name: "tools/call weather_now", Attributes: map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "weather_now",
				"mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "7",
			}},
		},
		{
			name: "parent of the header", body: strings.Replace(message("tools/list", ""), `"id":7`, `"id":"a\n"`, 1), header: []string{"Traceparent: " + parentB},
			want: span{Name: "tools/list", Trace: traceB, Attributes: map[string]string{
				"mcp.method.name": "tools/list", "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "a\n",
			}},
		},
		{
			name: "the parent of _meta is stronger",
			body: withMeta("tools/list", "", metaVersion+`,"traceparent":"`+parentA+`",`+metaCaps+`{}`), header: []string{"Traceparent: " + parentB},
			want: span{Name: "tools/list", Trace: traceA, Attributes: map[string]string{
				"mcp.method.name": "tools/list", "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "7",
			}},
		},
		{
			name:   "a client of the handshake era",
			body:   `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"weather_now","_meta":{"traceparent":"` + parentA + `"}}}`,
			header: []string{"Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Protocol-Version: 2025-06-18"},
			want: span{Name: "tools/call weather_now", Trace: traceA, Attributes: map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "weather_now",
				"mcp.protocol.version": "2025-06-18", "jsonrpc.request.id": "7",
			}},
		},
		{
			name: "an error", body: message("ping", ""),
			want: span{Name: "other", Status: codes.Error, Attributes: map[string]string{
				"mcp.method.name": "ping", "mcp.protocol.version": "2026-07-28", "jsonrpc.request.id": "7", "error.type": "-32601",
			}},
		},
		{
			name: "an error of the tool", body: message("tools/call", `"name":"weather_bad"`),
			want: span{Name: "tools/call weather_bad", Status: codes.Error, Attributes: map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "weather_bad", "mcp.protocol.version": "2026-07-28",
				"jsonrpc.request.id": "7", "error.type": "tool_error",
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			var inside trace.SpanContext
			g, url := start(t, &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
				inside = trace.SpanContextFromContext(ctx)
				r := result(c, `{}`)
				if c.Request.Name.Value == "weather_bad" {
					r.ErrorType = "tool_error"
				}
				return r, nil
			}}, func(o *Options) { o.Tracer = provider.Tracer("test") })
			res := do(t, request(t, url+"/mcp", tt.body, tt.header...))
			body(t, res)
			if err := g.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(recorder.Ended()); n != 1 {
				t.Fatalf("%d spans", n)
			}
			s := recorder.Ended()[0]
			got := span{Name: s.Name(), Status: s.Status().Code, Attributes: map[string]string{}}
			if s.Parent().IsValid() {
				got.Trace = s.SpanContext().TraceID().String()
			}
			for _, a := range s.Attributes() {
				got.Attributes[string(a.Key)] = a.Value.String()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s.SpanKind() != trace.SpanKindServer {
				t.Errorf("kind %v", s.SpanKind())
			}
			if res.StatusCode == http.StatusOK && inside.SpanID() != s.SpanContext().SpanID() {
				t.Error("the federation does not get the span")
			}
		})
	}
}

// TestListenSpan holds that the stream's context knows the span that opened it.
func TestListenSpan(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	h := newHub()
	_, url := start(t, &fakeRouter{listen: h.listen}, func(o *Options) { o.Tracer = provider.Tracer("test") })
	res := do(t, request(t, url+"/mcp", listenMessage()))
	if _, err := events(res.Body)(); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ctx := range h.open {
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("no span")
		}
	}
}

func TestNoSpansWithoutATracer(t *testing.T) {
	for _, tracer := range []trace.Tracer{nil, noop.NewTracerProvider().Tracer("")} {
		opts := testOptions()
		opts.Tracer = tracer
		if g := newGateway(opts, &fakeRouter{}, nil, newTestMetrics(t)); g.edge.tracer != nil {
			t.Errorf("spans are made for %T", tracer)
		}
	}
}

func TestCarrierMixesNothing(t *testing.T) {
	req, err := mcp.ParseRequest([]byte(withMeta("tools/list", "", `"traceparent":"`+parentA+`"`)), 100)
	if err != nil {
		t.Fatal(err)
	}
	c := carrier{&exchange{req: req, r: &http.Request{Header: http.Header{"Tracestate": {"a=b"}}}}}
	if got := c.Get("tracestate"); got != "" {
		t.Errorf("the header's tracestate %q goes with the traceparent of _meta", got)
	}
}

func TestTraceGoesOnWithoutATracer(t *testing.T) {
	got := make(chan string, 1)
	_, base := start(t, &fakeRouter{handle: func(ctx context.Context, c *federation.Call) (*federation.Reply, error) {
		got <- trace.SpanContextFromContext(ctx).TraceID().String()
		return result(c, `{}`), nil
	}}, nil)
	tests := []struct{ name, body, header, want string }{
		{"of _meta", withMeta("tools/list", "", metaVersion+`,"traceparent":"`+parentA+`",`+metaCaps+`{}`), parentB, traceA},
		{"of the header", message("tools/list", ""), parentB, traceB},
		{"none", message("tools/list", ""), "", trace.TraceID{}.String()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp", strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Content-Type": "application/json", "Mcp-Protocol-Version": mcp.VersionModern, "Mcp-Method": "tools/list", "Traceparent": tt.header} {
				req.Header.Set(k, v)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			select {
			case id := <-got:
				if id != tt.want {
					t.Errorf("trace = %s, want %s", id, tt.want)
				}
			default:
				t.Errorf("not handled: status %d", resp.StatusCode)
			}
		})
	}
}
