package upstream

import (
	"bytes"
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestToHandshake(t *testing.T) {
	const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"`
	span := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	tests := []struct {
		name, params, want string
		ctx                context.Context
	}{
		{"nothing else", `{"_meta":{` + modernMeta + `}}`, `{}`, nil},
		{"arguments stay", `{"name":"x","arguments":{"n":1e400, "n":12345678901234567890},"_meta":{` + modernMeta + `}}`, `{"name":"x","arguments":{"n":1e400, "n":12345678901234567890}}`, nil},
		{"progress token", `{"_meta":{"progressToken":7,` + modernMeta + `},"name":"x"}`, `{"_meta":{"progressToken":7},"name":"x"}`, nil},
		{"foreign keys", `{"_meta":{"a/b": [1, 2],` + modernMeta + `,"traceparent":"00"}}`, `{"_meta":{"a/b": [1, 2],"traceparent":"00"}}`, nil},
		{"retry", `{"_meta":{` + modernMeta + `},"inputResponses":{"a":{}},"name":"x","requestState":"s"}`, `{"name":"x"}`, nil},
		{"trace", `{"_meta":{` + modernMeta + `,"traceparent":"00","tracestate":"x=1"}}`, `{"_meta":{"traceparent":"00-01000000000000000000000000000000-0200000000000000-01"}}`, span},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			req, err := mcp.ParseRequest([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+tt.params+`}`), 0)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + tt.want + `}`
			if got := string(toHandshake(ctx, req)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestClientCaps(t *testing.T) {
	tests := []struct {
		name, raw, declared string
		want                clientCaps
	}{
		{"none", ``, `{}`, clientCaps{}},
		{"not an object", `[]`, `{}`, clientCaps{}},
		{"empty elicitation is form", `{"elicitation":{}}`, `{"elicitation":{}}`, clientCaps{form: true}},
		{"url only", `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`, clientCaps{url: true}},
		{"both modes", `{"elicitation":{"url":{},"form":{}}}`, `{"elicitation":{"url":{},"form":{}}}`, clientCaps{url: true, form: true}},
		{"sampling", `{"sampling":{"tools":{}}}`, `{"sampling":{"tools":{}}}`, clientCaps{sampling: true, samplingTools: true}},
		{"roots", `{"roots":{"listChanged":true}}`, `{"roots":{}}`, clientCaps{roots: true}},
		{"not for servers", `{"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"a":1}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{"a":1}}}`, clientCaps{}},
		{"null", `{"roots":null,"sampling":true}`, `{"roots":null,"sampling":true}`, clientCaps{}},
	}
	var memory capsMemory
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := memory.of([]byte(tt.raw))
			if string(got.declared) != tt.declared {
				t.Errorf("declared %s, want %s", got.declared, tt.declared)
			}
			tt.want.declared, tt.want.digest = got.declared, got.digest
			if got.form != tt.want.form || got.url != tt.want.url || got.sampling != tt.want.sampling ||
				got.samplingTools != tt.want.samplingTools || got.samplingContext != tt.want.samplingContext || got.roots != tt.want.roots {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if memory.of([]byte(tt.raw)) != got {
				t.Error("it was read twice")
			}
		})
	}
}

func TestDiscoverResult(t *testing.T) {
	m, err := mcp.ParseMessage([]byte(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"tasks":{"requests":{"tools":{"call":{}}}},"experimental":{"x":{}},"resources":{"subscribe":true}},"serverInfo":{"name":"a","icons":[]},"instructions":"ä\u00e4"}}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	o := readOffers(m)
	want := `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"experimental":{"x":{}},"resources":{"subscribe":true}},"instructions":"ä\u00e4","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a","icons":[]}}}}`
	if got := string(discoverResult([]byte("7"), o)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !o.toolsChanged || !o.subscribe || !o.tasks || o.logging || o.resourcesChanged {
		t.Errorf("offers = %+v", o)
	}
}

// FuzzResultType holds that the type is the first member of the result, that no
// other byte changes, and that all places are right afterwards.
func FuzzResultType(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{ }}`,
		`{"jsonrpc":"2.0","result":{"tools":[],"nextCursor":"x","_meta":{}},"id":"a"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"1"}}`,
		` {"id":1,"jsonrpc":"2.0","result" : {"a":1,"isError":true,"ttlMs":1,"cacheScope":"public"} } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := mcp.ParseMessage(raw, 0)
		if err != nil || m.Kind != mcp.KindResult {
			return
		}
		had := m.ResultType.Ok()
		buf := mcp.GetBuffer(len(raw))
		defer buf.Release()
		buf.B = append(buf.B, raw...)
		m.Raw = buf.B
		withResultType(buf, m)
		if had {
			if !bytes.Equal(m.Raw, raw) {
				t.Fatalf("%q became %q", raw, m.Raw)
			}
			return
		}
		at := m.Result.Start + 1
		if !bytes.Equal(m.Raw[:at], raw[:at]) || !bytes.HasPrefix(m.Raw[at:], []byte(resultTypeComplete)) || !bytes.HasSuffix(m.Raw, raw[at:]) {
			t.Fatalf("%q became %q", raw, m.Raw)
		}
		again, err := mcp.ParseMessage(m.Raw, 0)
		if err != nil {
			t.Fatalf("%q became %q: %v", raw, m.Raw, err)
		}
		type places struct{ id, result, meta, items, isError, ttl, inputs mcp.Span }
		of := func(m *mcp.Message) places {
			return places{m.ID, m.Result, m.Meta, m.Items, m.IsError, m.TTLMs, m.InputRequests}
		}
		if of(m) != of(again) || m.ResultType != again.ResultType || m.NextCursor != again.NextCursor ||
			m.CacheScope != again.CacheScope || m.RequestState != again.RequestState || m.TaskID != again.TaskID {
			t.Fatalf("%q became %q with the places %+v, want %+v", raw, m.Raw, m, again)
		}
	})
}
