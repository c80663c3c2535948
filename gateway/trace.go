package gateway

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// startSpan begins the SERVER span of a request, by the OpenTelemetry conventions
// for MCP. Its parent comes from `_meta`, else from the HTTP header.
func (x *exchange) startSpan() context.Context {
	ctx, req := x.r.Context(), x.req
	var from propagation.TextMapCarrier = carrier{x}
	if x.passed != nil && len(x.passed.Trace) > 0 {
		from = propagation.MapCarrier(x.passed.Trace) // the span of the replica that passed it on
	}
	if x.edge.tracer == nil {
		// The client's trace still goes on to the upstream, in body and header.
		if x.passed != nil || req.Meta.Traceparent.IsString || len(x.r.Header["Traceparent"]) > 0 {
			ctx = propagation.TraceContext{}.Extract(ctx, from)
		}
		return ctx
	}
	ctx = propagation.TraceContext{}.Extract(ctx, from)
	name := x.method
	attrs := []attribute.KeyValue{
		attribute.String("mcp.method.name", cut(req.Method)),
		attribute.String("jsonrpc.request.id", cut(string(req.ID.In(req.Raw)))),
	}
	version := req.Meta.ProtocolVersion.Value
	if x.legacy != nil {
		version = x.legacy.revision
	}
	if version != "" {
		attrs = append(attrs, attribute.String("mcp.protocol.version", cut(version)))
	}
	if id, ok := mcp.String(req.Raw, req.ID); ok {
		attrs[1] = attribute.String("jsonrpc.request.id", cut(id))
	}
	if req.Method == mcp.MethodToolsCall && req.Name.Value != "" {
		tool := cut(req.Name.Value)
		name += " " + tool
		attrs = append(attrs, attribute.String("gen_ai.tool.name", tool))
	}
	ctx, x.span = x.edge.tracer.Start(ctx, name,
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithTimestamp(x.start),
		trace.WithAttributes(attrs...),
	)
	return ctx
}

// endSpan ends the span, with what became of the request.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	if x.errorType != "" {
		x.span.SetAttributes(attribute.String("error.type", x.errorType))
		x.span.SetStatus(codes.Error, x.errorType)
	}
	x.span.End()
}

// carrier reads the trace context of a request (basic/index, OpenTelemetry trace
// context).
type carrier struct{ x *exchange }

var _ propagation.TextMapCarrier = carrier{}

// Get gives a field from `_meta` if the request has its trace context there, else
// from the HTTP headers: never one from here and one from there.
func (c carrier) Get(key string) string {
	meta := &c.x.req.Meta
	if !meta.Traceparent.IsString {
		return c.x.r.Header.Get(key)
	}
	switch key {
	case mcp.MetaTraceparent:
		return meta.Traceparent.Value
	case mcp.MetaTracestate:
		return meta.Tracestate.Value
	}
	return ""
}

// Set does nothing: the carrier is for reading.
func (c carrier) Set(string, string) {}

// Keys gives the fields of a trace context.
func (c carrier) Keys() []string { return []string{mcp.MetaTraceparent, mcp.MetaTracestate} }
