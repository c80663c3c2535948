package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// translate gives the final message as the client's revision has it; nil when it
// is not final, but says input_required. The message is given in both cases and
// lives in the reply.
func (t *turn) translate(reply *federation.Reply) (*mcp.Buffer, *mcp.Message, error) {
	msg, err := mcp.ParseMessage(reply.Body.B, 0)
	if err != nil {
		return nil, nil, t.nonsense(reply, "an answer that cannot be read")
	}
	var e mcp.Edits
	switch {
	case msg.Kind == mcp.KindError:
		t.translateError(&e, msg)
	case msg.ResultType.Value == mcp.ResultInputRequired:
		return nil, msg, nil
	default:
		t.translateResult(&e, msg)
	}
	out := mcp.GetBuffer(len(msg.Raw) + 256)
	out.B = e.AppendTo(out.B, msg.Raw)
	return out, msg, nil
}

// translateResult takes out what revision 2026-07-28 added to results and means
// nothing to the client.
func (t *turn) translateResult(e *mcp.Edits, msg *mcp.Message) {
	e.RemoveMember(msg.Raw, msg.Result, "resultType")
	switch t.req.Method {
	case mcp.MethodToolsList:
		for tool := range mcp.Elements(msg.Raw, msg.ItemsNamed("tools")) {
			dropOutputSchema(e, msg.Raw, tool)
		}
		fallthrough
	case mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList, mcp.MethodResourcesRead:
		e.RemoveMember(msg.Raw, msg.Result, "ttlMs")
		e.RemoveMember(msg.Raw, msg.Result, "cacheScope")
	case mcp.MethodToolsCall:
		structuredAsText(e, msg)
	}
	dropMeta(e, msg.Raw, msg.Result, msg.Meta, mcp.MetaServerInfo)
}

// dropMeta takes one key out of `_meta`, and `_meta` out of its object when
// nothing else is in it.
func dropMeta(e *mcp.Edits, raw []byte, obj, meta mcp.Span, key string) {
	others, found := false, false
	for m := range mcp.Members(raw, meta) {
		if m.Key == key {
			found = true
		} else {
			others = true
		}
	}
	switch {
	case found && others:
		e.RemoveMember(raw, meta, key)
	case found:
		e.RemoveMember(raw, obj, "_meta")
	}
}

// dropOutputSchema takes an output schema out of a tool that earlier revisions do
// not allow: one of something else than an object (2026-07-28, changelog).
func dropOutputSchema(e *mcp.Edits, raw []byte, tool mcp.Span) {
	schema := mcp.Find(raw, tool, "outputSchema")
	if typ, _ := mcp.String(raw, mcp.Find(raw, schema, "type")); schema.Ok() && typ != "object" {
		e.RemoveMember(raw, tool, "outputSchema")
	}
}

// structuredAsText gives structured content that is not an object as text, unless
// the result says the same in text already: earlier revisions have objects alone.
func structuredAsText(e *mcp.Edits, msg *mcp.Message) {
	raw := msg.Raw
	structured := mcp.Find(raw, msg.Result, "structuredContent")
	if !structured.Ok() || isObject(raw, structured) {
		return
	}
	e.RemoveMember(raw, msg.Result, "structuredContent")
	value := structured.In(raw)
	block := append(mcp.AppendQuote([]byte(`{"type":"text","text":`), string(value)), '}')
	content := mcp.Find(raw, msg.Result, "content")
	if !content.Ok() || raw[content.Start] != '[' {
		e.SetMember(raw, msg.Result, "content", append(append([]byte{'['}, block...), ']'))
		return
	}
	last := 0
	for at := range mcp.Elements(raw, content) {
		last = at.End
		if text, ok := mcp.String(raw, mcp.Find(raw, at, "text")); ok && saysSame(text, value) {
			return
		}
	}
	if last == 0 {
		e.Replace(content, append(append([]byte{'['}, block...), ']'))
		return
	}
	e.Insert(last, append([]byte{','}, block...))
}

// saysSame tells whether a text is a JSON value, in whatever spacing, or the
// string that the value is.
func saysSame(text string, value []byte) bool {
	if s, ok := mcp.String(value, mcp.Span{End: len(value)}); ok && s == text {
		return true
	}
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, value) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

// translateError gives an upstream's error the code that the client's revision
// has for it.
func (t *turn) translateError(e *mcp.Edits, msg *mcp.Message) {
	uri := mcp.Find(msg.Raw, msg.ErrorData, "uri")
	if t.isNotFound(msg.Code, msg.ErrorText, uri.Ok()) {
		e.Replace(mcp.Find(msg.Raw, msg.Error, "code"), strconv.AppendInt(nil, mcp.CodeLegacyResourceNotFound, 10))
		t.x.errorType = codeLabel(mcp.CodeLegacyResourceNotFound)
	}
}

// legacyError does the same with an error of the gateway's own.
func (t *turn) legacyError(err error) error {
	var rpc *mcp.Error
	if errors.As(err, &rpc) && t.isNotFound(rpc.Code, rpc.Message, mcp.Find(rpc.Data, mcp.Span{End: len(rpc.Data)}, "uri").Ok()) {
		return &mcp.Error{Code: mcp.CodeLegacyResourceNotFound, Message: rpc.Message, Data: rpc.Data}
	}
	return err
}

// isNotFound tells whether an error says that a resource does not exist. Since
// 2026-07-28 it has the code of other invalid params (changelog).
func (t *turn) isNotFound(code int, text string, uri bool) bool {
	switch t.req.Method {
	case mcp.MethodResourcesRead, methodSubscribe:
		return code == mcp.CodeInvalidParams && (uri || strings.Contains(strings.ToLower(text), "not found"))
	}
	return false
}
