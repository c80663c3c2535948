package upstream

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// startSpan starts the CLIENT span of a request, with the attributes of the
// OpenTelemetry conventions for MCP. It gives nil when there is no tracer.
func (c *Client) startSpan(ctx context.Context, r *Response) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, nil
	}
	name := r.req.Method
	if r.req.ToolName != "" {
		name += " " + r.req.ToolName
	}
	ctx, span := c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("mcp.method.name", r.req.Method),
			attribute.String("mcp.protocol.version", r.version),
			attribute.String("jsonrpc.request.id", strings.Trim(string(r.req.ID), `"`)),
		)
		if r.req.ToolName != "" {
			span.SetAttributes(attribute.String("gen_ai.tool.name", r.req.ToolName))
		}
		if c.url != nil && c.url.Host != "" { // not that of a program
			span.SetAttributes(attribute.String("server.address", c.url.Hostname()))
		}
	}
	return ctx, span
}

// spanError notes on the span why the request failed: the class of the failure,
// or the code of the upstream's own JSON-RPC error.
func spanError(span trace.Span, errorType string) {
	if span == nil || errorType == "" || !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("error.type", errorType))
	span.SetStatus(codes.Error, errorType)
}

// injectTrace writes the span that ctx carries into the header
// (W3C Trace Context).
func injectTrace(ctx context.Context, h http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// withTrace gives a copy of a request's message whose `_meta` names the span that
// ctx carries (2026-07-28, basic/index, OpenTelemetry Trace Context); false when
// there is no span or no `_meta`.
func withTrace(ctx context.Context, message []byte, maxDepth int) ([]byte, bool) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil, false
	}
	req, err := mcp.ParseRequest(message, maxDepth)
	if err != nil || !req.Meta.Ok() {
		return nil, false
	}
	fields := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, fields)
	var edits mcp.Edits
	for _, key := range []string{mcp.MetaTraceparent, mcp.MetaTracestate} {
		if v := fields[key]; v != "" {
			edits.SetMember(message, req.Meta.Span, key, mcp.AppendQuote(nil, v))
		} else {
			edits.RemoveMember(message, req.Meta.Span, key)
		}
	}
	return edits.AppendTo(nil, message), true
}
