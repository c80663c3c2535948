package mcp

// ParseRequest reads the envelope of a client's message: one pass, nothing
// copied but the short strings it routes on. maxDepth bounds the nesting; 0
// means 10,000, which is never exceeded.
// The Request is returned with an error too, holding the ID where it could be
// read. Errors are -32700 for what is not JSON (raw invalid UTF-8 and trailing
// data included) and -32600 for what is not a request or notification, for a
// duplicate of a routed key and for a key that equals one but for letter case
// at envelope, params, ref and reserved `_meta` level.
func ParseRequest(raw []byte, maxDepth int) (*Request, *Error) {
	r := &Request{Raw: raw}
	var version, method Text
	var result, failure Span
	meta := [...]slot{
		{key: MetaProtocolVersion, text: &r.Meta.ProtocolVersion},
		{key: MetaClientInfo, span: &r.Meta.ClientInfo},
		{key: MetaClientCapabilities, span: &r.Meta.ClientCapabilities},
		{key: MetaProgressToken, span: &r.Meta.ProgressToken},
		{key: MetaLogLevel, text: &r.Meta.LogLevel},
		{key: MetaTraceparent, text: &r.Meta.Traceparent},
		{key: MetaTracestate, text: &r.Meta.Tracestate},
		{key: MetaBaggage, text: &r.Meta.Baggage},
	}
	ref := [...]slot{
		{key: "type", text: &r.Ref.Type},
		{key: "name", text: &r.Ref.Name},
		{key: "uri", text: &r.Ref.URI},
	}
	params := [...]slot{
		{key: "name", text: &r.Name},
		{key: "arguments", span: &r.Arguments},
		{key: "_meta", span: &r.Meta.Span, inner: meta[:], where: "params._meta"},
		{key: "uri", text: &r.URI},
		{key: "cursor", text: &r.Cursor},
		{key: "taskId", text: &r.TaskID},
		{key: "ref", span: &r.Ref.Span, inner: ref[:], where: "params.ref"},
		{key: "notifications", span: &r.Notifications},
		{key: "inputResponses", span: &r.InputResponses},
		{key: "requestState", text: &r.RequestState},
	}
	envelope := [...]slot{
		{key: "id", span: &r.ID},
		{key: "jsonrpc", text: &version},
		{key: "method", text: &method},
		{key: "params", span: &r.Params, inner: params[:], where: "params"},
		{key: "result", span: &result},
		{key: "error", span: &failure},
	}

	p := getParser(raw, true)
	defer p.release()
	if err := p.message(maxDepth, envelope[:]); err != nil {
		return &Request{Raw: raw}, err
	}
	if envelope[0].seen && !validID(r.ID.In(raw)) {
		p.fail("id is neither a string nor an integer")
	}
	if envelope[0].twice || !validID(r.ID.In(raw)) {
		r.ID = Span{}
	}
	switch {
	case p.bad != nil:
	case version.Value != "2.0":
		p.fail(`jsonrpc is not "2.0"`)
	case result.Ok() || failure.Ok():
		p.fail("message is a response")
	case method.Value == "":
		p.fail("method is not a string, or empty")
	case r.Params.Ok() && raw[r.Params.Start] != '{':
		p.fail("params is not an object")
	}
	r.Method = method.Value
	return r, p.bad
}
