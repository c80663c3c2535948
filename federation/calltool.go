package federation

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// callTool answers call_tool: the call goes the way of a direct one, with the name
// and the arguments that it holds. So a requestState is bound to the tool, and its
// retry may come either way.
func (d *roster) callTool(ctx context.Context, c *Call) (*Reply, error) {
	raw, args := c.Request.Raw, c.Request.Arguments
	name := mcp.Find(raw, args, "name")
	inner := mcp.Find(raw, args, "arguments")
	tool, ok := mcp.String(raw, name)
	switch {
	case !args.Ok() || !ok:
		return d.replyTool(c, mistake("name must be the name of a tool, as search_tools gives it")), nil
	case inner.Ok() && raw[inner.Start] != '{':
		return d.replyTool(c, mistake("arguments must be an object, as get_tool_details says")), nil
	case metaTool(tool) != nil:
		return d.replyTool(c, mistake("%s is called by itself, not through call_tool", tool)), nil
	}
	for m := range mcp.Members(raw, args) {
		if m.Key != "name" && m.Key != "arguments" {
			return d.replyTool(c, mistake("call_tool takes name and arguments: what is meant for the tool belongs into arguments")), nil
		}
	}
	arguments := []byte("{}")
	if inner.Ok() {
		arguments = inner.In(raw)
	}
	var e mcp.Edits
	e.Replace(c.Request.Name.Span, name.In(raw))
	e.Replace(args, arguments)
	req, bad := mcp.ParseRequest(e.AppendTo(nil, raw), d.fed.opts.Limits.MaxDepth)
	if bad != nil {
		return nil, bad
	}
	if d.lookup("", kindTools, tool) != nil { // others are of no closed set
		span := trace.SpanFromContext(ctx)
		span.SetName(mcp.MethodToolsCall + " " + tool)
		span.SetAttributes(attribute.String("gen_ai.tool.name", tool))
	}
	direct := *c
	direct.Request, direct.NoHeaders = req, true
	return d.call(ctx, &direct, kindTools)
}
