package mcp

// request is what a client's message is read into.
type request struct {
	Request
	version, method Text
	result, failure Span
}

// The tables of members that requests are routed on. They are read only.
var (
	requestFields = [...]field[request]{
		{key: "jsonrpc", text: func(r *request) *Text { return &r.version }},
		{key: "id", span: func(r *request) *Span { return &r.ID }},
		{key: "method", text: func(r *request) *Text { return &r.method }},
		{key: "params", span: func(r *request) *Span { return &r.Params }, inner: requestParams[:], where: "params"},
		{key: "result", span: func(r *request) *Span { return &r.result }},
		{key: "error", span: func(r *request) *Span { return &r.failure }},
	}
	requestParams = [...]field[request]{
		{key: "name", text: func(r *request) *Text { return &r.Name }},
		{key: "arguments", span: func(r *request) *Span { return &r.Arguments }},
		{key: "_meta", span: func(r *request) *Span { return &r.Meta.Span }, inner: requestMeta[:], where: "params._meta"},
		{key: "uri", text: func(r *request) *Text { return &r.URI }},
		{key: "cursor", text: func(r *request) *Text { return &r.Cursor }, opaque: true},
		{key: "taskId", text: func(r *request) *Text { return &r.TaskID }},
		{key: "ref", span: func(r *request) *Span { return &r.Ref.Span }, inner: requestRef[:], where: "params.ref"},
		{key: "notifications", span: func(r *request) *Span { return &r.Notifications }},
		{key: "inputResponses", span: func(r *request) *Span { return &r.InputResponses }},
		{key: "requestState", text: func(r *request) *Text { return &r.RequestState }, opaque: true},
	}
	requestRef = [...]field[request]{
		{key: "type", text: func(r *request) *Text { return &r.Ref.Type }},
		{key: "name", text: func(r *request) *Text { return &r.Ref.Name }},
		{key: "uri", text: func(r *request) *Text { return &r.Ref.URI }},
	}
	requestMeta = [...]field[request]{
		{key: MetaProtocolVersion, text: func(r *request) *Text { return &r.Meta.ProtocolVersion }},
		{key: MetaClientInfo, span: func(r *request) *Span { return &r.Meta.ClientInfo }},
		{key: MetaClientCapabilities, span: func(r *request) *Span { return &r.Meta.ClientCapabilities }},
		{key: MetaProgressToken, span: func(r *request) *Span { return &r.Meta.ProgressToken }},
		{key: MetaLogLevel, text: func(r *request) *Text { return &r.Meta.LogLevel }},
		{key: MetaTraceparent, text: func(r *request) *Text { return &r.Meta.Traceparent }},
		{key: MetaTracestate, text: func(r *request) *Text { return &r.Meta.Tracestate }},
		{key: MetaBaggage, text: func(r *request) *Text { return &r.Meta.Baggage }},
	}
)

// ParseRequest reads the envelope of a client's message: one pass, nothing
// copied but the short strings it routes on. maxDepth bounds the nesting; 0
// means 10,000, which is never exceeded.
// The Request is returned with an error too, holding the ID where it could be
// read. Errors are -32700 for what is not JSON (raw invalid UTF-8 and trailing
// data included) and -32600 for what is not a request or notification, for a
// duplicate of a routed key and for a key that equals one but for letter case
// at envelope, params, ref and reserved `_meta` level.
func ParseRequest(raw []byte, maxDepth int) (*Request, *Error) {
	r := &request{Request: Request{Raw: raw}}
	p := getParser(raw, true)
	defer p.release()
	if err := readMessage(p, maxDepth, r, requestFields[:]); err != nil {
		return &Request{Raw: raw}, err
	}
	r.Method = r.method.Value
	hasID := r.ID.Ok()
	if p.twoIDs || !validID(r.ID.In(raw)) {
		r.ID = Span{}
	}
	switch {
	case p.bad != nil:
	case hasID && !r.ID.Ok():
		p.fail("id is neither a string nor an integer")
	case r.version.Value != "2.0":
		p.fail(`jsonrpc is not "2.0"`)
	case r.result.Ok() || r.failure.Ok():
		p.fail("message is a response")
	case r.Method == "":
		p.fail("method is not a string, or empty")
	case r.Params.Ok() && raw[r.Params.Start] != '{':
		p.fail("params is not an object")
	}
	return &r.Request, p.bad
}
