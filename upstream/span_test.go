package upstream

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestSpan(t *testing.T) {
	traceparent := make(chan [2]string, 1)
	answer := make(chan string, 1)
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
		traceparent <- [2]string{r.Header.Get("Traceparent"), metaField(t, r, mcp.MetaTraceparent)}
		answerJSON(w, 200, <-answer)
	})
	tests := []struct {
		name   string
		req    *Request
		answer string
		span   string
		want   map[string]string
		status codes.Code
	}{
		{
			"call", toolCall(), callResult, "tools/call transfer",
			map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.tool.name": "transfer", "mcp.protocol.version": "2026-07-28",
				"jsonrpc.request.id": "7", "server.address": "127.0.0.1",
			}, codes.Unset,
		}, {
			"JSON-RPC error", request(mcp.MethodPromptsGet), `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`, "prompts/get",
			map[string]string{
				"mcp.method.name": "prompts/get", "mcp.protocol.version": "2026-07-28",
				"jsonrpc.request.id": "7", "server.address": "127.0.0.1", "error.type": "-32602",
			}, codes.Error,
		}, {
			"failure", request(mcp.MethodPromptsGet), `[]`, "prompts/get",
			map[string]string{
				"mcp.method.name": "prompts/get", "mcp.protocol.version": "2026-07-28",
				"jsonrpc.request.id": "7", "server.address": "127.0.0.1", "error.type": "protocol",
			}, codes.Error,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			recorder := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
			c.tracer = provider.Tracer("test")
			ctx, parent := c.tracer.Start(context.Background(), "parent")
			answer <- tt.answer
			read(ctx, c, tt.req)
			if n := len(recorder.Ended()); n != 1 {
				t.Fatalf("%d spans have ended, want 1", n)
			}
			span := recorder.Ended()[0]
			got := map[string]string{}
			for _, a := range span.Attributes() {
				got[string(a.Key)] = a.Value.String()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("attributes (-want +got):\n%s", diff)
			}
			if span.Name() != tt.span || span.SpanKind() != trace.SpanKindClient || span.Status().Code != tt.status || span.Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("span = %q, %v, %v, want %q, client, %v, below its parent", span.Name(), span.SpanKind(), span.Status(), tt.span, tt.status)
			}
			sc := span.SpanContext()
			want := "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01"
			if got := <-traceparent; got != [2]string{want, want} {
				t.Errorf("traceparent in header and _meta = %q, want %q", got, want)
			}
		})
	}
}

// metaField gives a string of a request's `_meta`.
func metaField(t *testing.T, r *http.Request, key string) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	req, bad := mcp.ParseRequest(raw, 64)
	if bad != nil {
		t.Fatal(bad)
	}
	s, _ := mcp.String(raw, mcp.Find(raw, req.Meta.Span, key))
	return s
}

// The trace context in `_meta` is replaced, and what belongs to the old one goes.
func TestTraceInMeta(t *testing.T) {
	const parent = "00-01000000000000000000000000000000-0200000000000000-01"
	state, err := trace.ParseTraceState("a=b")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		state trace.TraceState
		meta  string
		want  string
	}{
		{"none before", trace.TraceState{}, `{"x":1}`, `{"x":1,"traceparent":"` + parent + `"}`},
		{"replaced", state, `{"traceparent":"old","x":1,"tracestate":"c=d"}`, `{"traceparent":"` + parent + `","x":1,"tracestate":"a=b"}`},
		{"no state", trace.TraceState{}, `{"traceparent":"old","tracestate":"c=d"}`, `{"traceparent":"` + parent + `"}`},
		{"the same", state, `{"traceparent":"` + parent + `","tracestate":"a=b"}`, `{"traceparent":"` + parent + `","tracestate":"a=b"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, TraceState: tt.state})
			message := func(meta string) string {
				return `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + meta + `}}`
			}
			got, ok := withTrace(trace.ContextWithSpanContext(context.Background(), sc), []byte(message(tt.meta)), 64)
			if want := message(tt.want); !ok || string(got) != want {
				t.Errorf("message = %s, want %s", got, want)
			}
		})
	}
}

// Without a tracer of our own, a client's trace still reaches the upstream.
func TestTraceWithoutTracer(t *testing.T) {
	tests := []struct {
		name string
		sc   trace.SpanContextConfig
		want string
	}{
		{"no trace", trace.SpanContextConfig{}, ""},
		{
			"the client's trace",
			trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true},
			"00-01000000000000000000000000000000-0200000000000000-01",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan string, 1)
			c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
				got <- r.Header.Get("Traceparent")
				answerJSON(w, 200, callResult)
			})
			ctx := trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(tt.sc))
			if _, err := read(ctx, c, toolCall()); err != nil {
				t.Fatal(err)
			}
			if g := <-got; g != tt.want {
				t.Errorf("traceparent = %q, want %q", g, tt.want)
			}
		})
	}
}
