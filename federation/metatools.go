package federation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
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
// names them (2026-07-28, Client Best Practices, Using Progressive Discovery). Their
// definitions are short, since each client reads them. That of call_tool has no
// output schema: its result is that of the tool which it calls.
func metaTools() [4]metaDef {
	return [...]metaDef{
		{"call_tool", `{"name":"call_tool","description":"Call any tool of this server by its name. Read its definition with get_tool_details before.",` +
			`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"As search_tools gives it"},` +
			`"arguments":{"type":"object","description":"As the tool's inputSchema says"}},"required":["name"],"additionalProperties":false},` +
			`"annotations":{"readOnlyHint":false,"openWorldHint":true}}`, (*roster).callTool},
		{"get_tool_details", `{"name":"get_tool_details","description":"Get the full definitions of tools: descriptions, schemas of arguments and results.",` +
			`"inputSchema":{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20}},"required":["names"],"additionalProperties":false},` +
			`"outputSchema":{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}},"unknown":{"type":"array","items":{"type":"string"}},` + schemaUnavailable + `},"required":["tools"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).toolDetails},
		{"list_upstreams", `{"name":"list_upstreams","description":"List the servers whose tools can be found here, what they are for, and how many tools each has.",` +
			`"inputSchema":{"type":"object","additionalProperties":false},` +
			`"outputSchema":{"type":"object","properties":{"upstreams":{"type":"array","items":{"type":"object","properties":{"alias":{"type":"string"},"description":{"type":"string"},` +
			`"instructions":{"type":"string"},"tools":{"type":"integer"}},"required":["alias"]}},` + schemaUnavailable + `},"required":["upstreams"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).listUpstreams},
		{"search_tools", `{"name":"search_tools","description":"Find tools by what they do. Next: get_tool_details, then call_tool.",` +
			`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What is to be done, in plain words; one step at a time finds more"},` +
			`"limit":{"type":"integer","minimum":1,"maximum":50,"default":5},"upstream":{"type":"string","description":"An alias, to find only its tools"},` +
			`"detail":{"enum":["name","description","full"],"default":"description","description":"full: also definitions"}},"required":["query"],"additionalProperties":false},` +
			`"outputSchema":{"type":"object","properties":{"results":{"type":"array","description":"The best first","items":{"type":"object","properties":{"name":{"type":"string"},"upstream":{"type":"string"},` +
			`"description":{"type":"string"},"score":{"type":"number"},"definition":{"type":"object"}},"required":["name","upstream","score"]}},"total":{"type":"integer"},` + schemaUnavailable + `},"required":["results","total"]},` +
			`"annotations":{"readOnlyHint":true,"openWorldHint":false}}`, (*roster).searchTools},
	}
}

// schemaUnavailable is the property for upstreams whose tools are not known.
const schemaUnavailable = `"unavailable":{"type":"array","items":{"type":"string"}}`

// metaTool gives one by its name; nil when there is none.
func metaTool(name string) *metaDef {
	for _, t := range metaTools() {
		if t.name == name {
			return &t
		}
	}
	return nil
}

// usage tells a model how to use them. It does not depend on what is known of the
// upstreams, since clients keep it.
func (m mode) usage() string {
	switch m {
	case modeSearch:
		return "The tools of this server are not all listed. " + searchUsage
	case modeAuto:
		return "If search_tools is listed, the other tools of this server are not. " + searchUsage
	default:
		return ""
	}
}

const searchUsage = "Find them with search_tools (say in plain words what is to be done, one step at a time), " +
	"read their definitions with get_tool_details, and call them with call_tool or by their own names. " +
	"list_upstreams tells what there is.\n\n"

// metaBytes bounds one answer of these tools, its text and structured content
// together.
const metaBytes = 256 << 10

// toolAnswer is the result of one of these tools.
type toolAnswer struct {
	structured []byte // raw; nil when there is none
	text       []byte
	failed     bool // isError: the model can correct itself (2026-07-28, server/tools, Error Handling)
	members    []*member
	parts      []part // that the answer is made of
}

func mistake(format string, args ...any) *toolAnswer {
	return &toolAnswer{text: fmt.Appendf(nil, format, args...), failed: true}
}

// size is how long the answer is.
func (a *toolAnswer) size() int { return len(a.structured) + len(a.text) }

// unavailable ends an answer of structured content that is open: it says, here and
// there, which upstreams' tools are not known at the moment.
func (a *toolAnswer) unavailable() {
	sep, line := `,"unavailable":[`, "Not known at the moment: the tools of "
	for i, p := range a.parts {
		if p.seg != nil {
			continue
		}
		alias := a.members[i].conf.Alias
		a.structured = mcp.AppendQuote(append(a.structured, sep...), alias)
		if sep != "," && len(a.text) > 0 {
			a.text = append(a.text, '\n')
		}
		a.text = append(append(a.text, line...), alias...)
		sep, line = ",", ", "
	}
	if sep == "," {
		a.structured = append(a.structured, ']')
	}
	a.structured = append(a.structured, '}')
}

// replyTool makes the reply of an answer.
func (d *roster) replyTool(c *Call, a *toolAnswer) *Reply {
	reply := newReply(c, 512+a.size()+len(a.text)/4)
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
	reply.Body.B = append(d.appendMeta(b, nil, a.members, a.parts), "}}"...)
	return reply
}

// argumentsOf reads a call's arguments into to, strictly. It gives the answer to
// those that are wrong, else nil.
func argumentsOf(c *Call, to any) *toolAnswer {
	if !c.Request.Arguments.Ok() {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(c.Request.Arguments.In(c.Request.Raw))))
	dec.DisallowUnknownFields()
	var wrong *json.UnmarshalTypeError
	switch err := dec.Decode(to); {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return mistake("%s must be %s", wrong.Field, kindName(wrong.Type.Kind()))
	default:
		return mistake("the arguments cannot be used: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

// kindName names what a value of that kind is in JSON.
func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Float64:
		return "a number"
	default:
		return "an object"
	}
}
