package federation

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// metaDef is one of the tools by which clients find others.
type metaDef struct {
	name       string
	definition string // raw, as in a list
	call       func(d *roster, ctx context.Context, c *Call) (*Reply, error)
}

// metaTools gives them, sorted by name. They are named as the MCP documentation
// names them (client best practices, progressive tool discovery). Their definitions
// are short, since each client reads them. That of call_tool has no output schema:
// its result is that of the tool which it calls.
func metaTools() [4]metaDef {
	return [...]metaDef{
		{"call_tool", `{"name":"call_tool","title":"Call a tool","description":"Call a tool found by search_tools. Its arguments are as get_tool_details says.",` +
			`"inputSchema":{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]},` +
			`"annotations":{"openWorldHint":true}}`, (*roster).callTool},
		{"get_tool_details", `{"name":"get_tool_details","title":"Tool details","description":"Full definitions of tools, with the schemas of their arguments. Needed before call_tool.",` +
			`"inputSchema":{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20}},"required":["names"]},` +
			`"outputSchema":{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}},"unknown":{"type":"array","items":{"type":"string"}}},"required":["tools"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).toolDetails},
		{"list_upstreams", `{"name":"list_upstreams","title":"List upstreams","description":"The servers behind this one, what they are for, and how many tools each has.",` +
			`"inputSchema":{"type":"object"},` +
			`"outputSchema":{"type":"object","properties":{"upstreams":{"type":"array","items":{"type":"object","properties":{"alias":{"type":"string"},"description":{"type":"string"},"instructions":{"type":"string"},"tools":{"type":"integer"}},"required":["alias","tools"]}}},"required":["upstreams"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).listUpstreams},
		{"search_tools", `{"name":"search_tools","title":"Search tools","description":"Find tools by what is to be done, said in a few plain words. Then get_tool_details, then call_tool.",` +
			`"inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50,"default":5},` +
			`"upstream":{"type":"string","description":"Only tools of this one"},"detail":{"enum":["name","description","full"],"default":"description"}},"required":["query"]},` +
			`"outputSchema":{"type":"object","properties":{"results":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"upstream":{"type":"string"},"description":{"type":"string"},"score":{"type":"number"},"definition":{"type":"object"}},"required":["name","upstream","score"]}},"total":{"type":"integer"}},"required":["results","total"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).searchTools},
	}
}

// metaTool gives one by its name; nil when there is none.
func metaTool(name string) *metaDef {
	for _, t := range metaTools() {
		if t.name == name {
			return &t
		}
	}
	return nil
}

// Bounds of what these tools take and give.
const (
	searchLimit     = 5 // results, where the caller says nothing
	searchLimitMost = 50
	detailsMost     = 20
	metaBytes       = 256 << 10 // of one answer; at least one result is given
	oneLine         = 160       // characters of a description
	aboutLine       = 400       // of an upstream's description, and of its instructions
)

// searchUsage tells a model how to use them.
const searchUsage = "The tools of this server are not all listed. Find them with search_tools (say in plain words what is to be done, " +
	"one step at a time), read their definitions with get_tool_details, and call them with call_tool, or by name. " +
	"list_upstreams tells what there is.\n\n"

// toolAnswer is the result of one of these tools.
type toolAnswer struct {
	structured []byte // raw; nil when there is none
	text       []byte
	failed     bool // isError: the model can correct itself (2026-07-28, server/tools, Error Handling)
}

func mistake(format string, args ...any) *toolAnswer {
	return &toolAnswer{text: fmt.Appendf(nil, format, args...), failed: true}
}

// replyTool makes the reply of an answer.
func (d *roster) replyTool(c *Call, a *toolAnswer) *Reply {
	reply := newReply(c, 512+2*len(a.structured)+2*len(a.text))
	b := append(reply.Body.B, `"result":{"resultType":"complete","content":[{"type":"text","text":`...)
	b = append(mcp.AppendQuote(b, string(a.text)), `}]`...)
	if a.structured != nil {
		b = append(b, `,"structuredContent":`...)
		b = append(b, a.structured...)
	}
	if a.failed {
		reply.ErrorType = "tool_error"
		b = append(b, `,"isError":true`...)
	}
	b = append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...)
	b = append(b, d.fed.clientInfo...)
	reply.Body.B = append(b, "}}}"...)
	return reply
}

// argumentsOf reads a call's arguments into to, strictly.
func argumentsOf(c *Call, to any) *toolAnswer {
	raw := c.Request.Arguments.In(c.Request.Raw)
	if !c.Request.Arguments.Ok() {
		raw = []byte("{}")
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return mistake("The arguments cannot be used: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// searchTools answers search_tools.
func (d *roster) searchTools(ctx context.Context, c *Call) (*Reply, error) {
	var args struct {
		Query    string `json:"query"`
		Limit    *int   `json:"limit"`
		Upstream string `json:"upstream"`
		Detail   string `json:"detail"`
	}
	if bad := argumentsOf(c, &args); bad != nil {
		return d.replyTool(c, bad), nil
	}
	limit := searchLimit
	if args.Limit != nil {
		limit = *args.Limit
	}
	switch {
	case strings.TrimSpace(args.Query) == "":
		return d.replyTool(c, mistake("query is missing: say in a few words what is to be done")), nil
	case limit < 1 || limit > searchLimitMost:
		return d.replyTool(c, mistake("limit must be between 1 and %d", searchLimitMost)), nil
	case args.Detail != "" && args.Detail != "name" && args.Detail != "description" && args.Detail != "full":
		return d.replyTool(c, mistake("detail must be name, description or full")), nil
	case args.Upstream != "" && d.byAlias[args.Upstream] == nil:
		return d.replyTool(c, mistake("there is no upstream %q: list_upstreams tells which there are", args.Upstream)), nil
	}
	d.fed.metrics.searches.Inc()
	v, parts, err := d.tools(ctx)
	if err != nil {
		return nil, err
	}
	found, total := d.find(ctx, v, args.Query, args.Upstream, limit)
	a := &toolAnswer{structured: []byte(`{"results":[`)}
	given := 0
	for i, f := range found {
		one, line := f.show(v, args.Detail)
		if i > 0 && len(a.structured)+len(one)+len(line) > metaBytes {
			break
		}
		if i > 0 {
			a.structured = append(a.structured, ',')
			a.text = append(a.text, '\n')
		}
		a.structured, a.text, given = append(a.structured, one...), append(a.text, line...), i+1
	}
	a.structured = append(a.structured, `],"total":`...)
	a.structured = append(strconv.AppendInt(a.structured, int64(total), 10), '}')
	switch {
	case total == 0:
		a.text = fmt.Appendf(a.text, "No tool was found for this. Try other words, or list_upstreams.")
	case given < total:
		a.text = fmt.Appendf(a.text, "\n(%d of %d)", given, total)
	}
	a.text = appendMissing(a.text, d.members, parts)
	return d.replyTool(c, a), nil
}

// appendMissing says which upstreams' tools are not known at the moment.
func appendMissing(text []byte, members []*member, parts []part) []byte {
	sep := "\nNot known at the moment: the tools of "
	for i, p := range parts {
		if p.seg == nil {
			text = append(append(text, sep...), members[i].conf.Alias...)
			sep = ", "
		}
	}
	return text
}

// tools gives the view of all tools, and its parts, as a list would.
func (d *roster) tools(ctx context.Context) (*view, []part, error) {
	parts := d.gather(ctx, d.members, kindTools)
	if err := ctx.Err(); err != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err := nothingHad(d.members, parts); err != nil {
		return nil, nil, err
	}
	return d.merge(viewKey{kind: kindTools}, d.members, parts), parts, nil
}

// toolDetails answers get_tool_details.
func (d *roster) toolDetails(ctx context.Context, c *Call) (*Reply, error) {
	var args struct {
		Names []string `json:"names"`
	}
	if bad := argumentsOf(c, &args); bad != nil {
		return d.replyTool(c, bad), nil
	}
	if len(args.Names) < 1 || len(args.Names) > detailsMost {
		return d.replyTool(c, mistake("names must hold between 1 and %d names", detailsMost)), nil
	}
	v, parts, err := d.tools(ctx)
	if err != nil {
		return nil, err
	}
	a := &toolAnswer{structured: []byte(`{"tools":[`)}
	var unknown []string
	some := false
	for _, name := range args.Names {
		i, ok := v.index[name]
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		raw := v.list[v.entries[i].start:v.entries[i].end]
		if some && len(a.structured)+len(raw) > metaBytes {
			return d.replyTool(c, mistake("these definitions are too long for one answer: ask for fewer at once")), nil
		}
		if some {
			a.structured = append(a.structured, ',')
			a.text = append(a.text, '\n')
		}
		a.structured, a.text, some = append(a.structured, raw...), append(a.text, raw...), true
	}
	a.structured = append(a.structured, ']')
	if len(unknown) > 0 {
		list, _ := json.Marshal(unknown) // strings never fail
		a.structured = append(append(a.structured, `,"unknown":`...), list...)
		if some {
			a.text = append(a.text, '\n')
		}
		a.text = append(append(a.text, "Unknown: "...), strings.Join(unknown, ", ")...)
		a.text = appendMissing(a.text, d.members, parts)
		a.failed = !some
	}
	a.structured = append(a.structured, '}')
	return d.replyTool(c, a), nil
}

// listUpstreams answers list_upstreams.
func (d *roster) listUpstreams(ctx context.Context, c *Call) (*Reply, error) {
	if bad := argumentsOf(c, &struct{}{}); bad != nil {
		return d.replyTool(c, bad), nil
	}
	v, parts, err := d.tools(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[*member]int{}
	for i := range v.entries {
		counts[v.entries[i].member]++
	}
	a := &toolAnswer{structured: []byte(`{"upstreams":[`)}
	for i, m := range d.members {
		if i > 0 {
			a.structured = append(a.structured, ',')
			a.text = append(a.text, '\n')
		}
		a.structured = mcp.AppendQuote(append(a.structured, `{"alias":`...), m.conf.Alias)
		a.text = fmt.Appendf(a.text, "%s (%d tools)", m.conf.Alias, counts[m])
		about, instructions := m.about()
		for _, f := range [...]struct{ key, value string }{{"description", about}, {"instructions", instructions}} {
			if f.value = brief(f.value, aboutLine); f.value == "" {
				continue
			}
			a.structured = append(append(append(a.structured, `,"`...), f.key...), `":`...)
			a.structured = mcp.AppendQuote(a.structured, f.value)
			a.text = append(append(a.text, ": "...), f.value...)
		}
		a.structured = fmt.Appendf(a.structured, `,"tools":%d}`, counts[m])
	}
	a.structured = append(a.structured, "]}"...)
	a.text = appendMissing(a.text, d.members, parts)
	return d.replyTool(c, a), nil
}

// callTool answers call_tool: the call goes the way of a direct one, with the name
// and the arguments that it holds.
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
	direct := *c
	direct.Request, direct.NoHeaders = req, true
	return d.call(ctx, &direct, kindTools)
}
