package upstream

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// startSpan starts the CLIENT span of a request, as Client does. It gives nil when
// there is no tracer.
func (l *Legacy) startSpan(ctx context.Context, req *Request) (context.Context, trace.Span) {
	if l.tracer == nil {
		return ctx, nil
	}
	name := req.Method
	if req.ToolName != "" {
		name += " " + req.ToolName
	}
	ctx, span := l.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("mcp.method.name", req.Method),
			attribute.String("jsonrpc.request.id", strings.Trim(string(req.ID), `"`)),
		)
		if req.ToolName != "" {
			span.SetAttributes(attribute.String("gen_ai.tool.name", req.ToolName))
		}
		if l.address != "" {
			span.SetAttributes(attribute.String("server.address", l.address))
		}
	}
	return ctx, span
}

// noteVersion notes the protocol version of the session that is used.
func noteVersion(span trace.Span, version string) {
	if span != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("mcp.protocol.version", version))
	}
}
