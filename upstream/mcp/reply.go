package mcp

import (
	"errors"
	"strconv"
)

// message is what a server's message is read into.
type message struct {
	Message
	version, method Text
	code, text      Span
	items           [len(itemKeys)]Span
}

// itemKeys are the members that hold the items of a list, or of a resource.
var itemKeys = [...]string{"tools", "prompts", "resources", "resourceTemplates", "contents"}

// The tables of members that a server's messages are routed on. They are read
// only.
var (
	messageFields = [...]field[message]{
		{key: "jsonrpc", text: func(m *message) *Text { return &m.version }},
		{key: "id", span: func(m *message) *Span { return &m.ID }},
		{key: "result", span: func(m *message) *Span { return &m.Result }, inner: messageResult[:], where: "result"},
		{key: "error", span: func(m *message) *Span { return &m.Error }, inner: messageError[:], where: "error"},
		{key: "method", text: func(m *message) *Text { return &m.method }},
		{key: "params", span: func(m *message) *Span { return &m.Params }, inner: messageParams[:], where: "params"},
	}
	messageResult = [...]field[message]{
		{key: "resultType", text: func(m *message) *Text { return &m.ResultType }},
		{key: "_meta", span: func(m *message) *Span { return &m.Meta }, inner: messageMeta[:], where: "result._meta"},
		{key: "isError", span: func(m *message) *Span { return &m.IsError }},
		{key: "requestState", text: func(m *message) *Text { return &m.RequestState }, opaque: true},
		{key: "cacheScope", text: func(m *message) *Text { return &m.CacheScope }},
		{key: "nextCursor", text: func(m *message) *Text { return &m.NextCursor }, opaque: true},
		{key: "inputRequests", span: func(m *message) *Span { return &m.InputRequests }},
		{key: "ttlMs", span: func(m *message) *Span { return &m.TTLMs }},
		{key: "taskId", text: func(m *message) *Text { return &m.TaskID }},
		{key: itemKeys[0], span: func(m *message) *Span { return &m.items[0] }},
		{key: itemKeys[1], span: func(m *message) *Span { return &m.items[1] }},
		{key: itemKeys[2], span: func(m *message) *Span { return &m.items[2] }},
		{key: itemKeys[3], span: func(m *message) *Span { return &m.items[3] }},
		{key: itemKeys[4], span: func(m *message) *Span { return &m.items[4] }},
	}
	messageParams = [...]field[message]{
		{key: "_meta", span: func(m *message) *Span { return &m.Meta }, inner: messageMeta[:], where: "params._meta"},
		{key: "progressToken", span: func(m *message) *Span { return &m.ProgressToken }},
		{key: "notifications", span: func(m *message) *Span { return &m.Notifications }},
		{key: "uri", text: func(m *message) *Text { return &m.URI }},
		{key: "taskId", text: func(m *message) *Text { return &m.TaskID }},
		{key: "level", text: func(m *message) *Text { return &m.Level }},
	}
	messageMeta = [...]field[message]{
		{key: MetaSubscriptionID, span: func(m *message) *Span { return &m.SubscriptionID }},
	}
	messageError = [...]field[message]{
		{key: "code", span: func(m *message) *Span { return &m.code }},
		{key: "message", span: func(m *message) *Span { return &m.text }},
		{key: "data", span: func(m *message) *Span { return &m.ErrorData }},
	}
)

// ParseMessage reads the envelope of a server's message, with the same bounds
// and the same care for JSON. It differs from ParseRequest where being strict
// would only lose messages: keys that equal a routed one but for letter case are
// unknown keys, and params may be null. The error says what is wrong without
// repeating the message.
func ParseMessage(raw []byte, maxDepth int) (*Message, error) {
	m := &message{Message: Message{Raw: raw}}
	p := getParser(raw, false)
	defer p.release()
	bad := readMessage(p, maxDepth, m, messageFields[:])
	if bad == nil {
		bad = p.bad
	}
	if bad != nil {
		// Not as an Error, which is made for clients: this is the server's fault.
		return nil, errors.New(bad.Message)
	}
	if m.version.Value != "2.0" {
		return nil, errors.New(`jsonrpc is not "2.0"`)
	}
	m.Method = m.method.Value
	if err := m.classify(m.method.Ok()); err != nil {
		return nil, err
	}
	if m.Kind == KindError {
		n, err := strconv.Atoi(string(m.code.In(raw)))
		if err != nil {
			return nil, errors.New("code of the error is not an integer")
		}
		m.Code = n
		m.ErrorText, _ = String(raw, m.text)
	}
	m.pickItems(&m.items)
	if string(m.NextCursor.In(raw)) == "null" {
		m.NextCursor = Text{}
	}
	return &m.Message, nil
}

// classify finds the message's kind and holds it against JSON-RPC's rules for
// that kind.
func (m *Message) classify(hasMethod bool) error {
	answers := m.Result.Ok() || m.Error.Ok()
	nullID := string(m.ID.In(m.Raw)) == "null"
	switch {
	case hasMethod && answers:
		return errors.New("message has a method and is a response")
	case hasMethod && m.Method == "":
		return errors.New("method is not a string, or empty")
	case hasMethod && m.ID.Ok():
		m.Kind = KindRequest
	case hasMethod:
		m.Kind = KindNotification
	case m.Result.Ok() && m.Error.Ok():
		return errors.New("message has a result and an error")
	case m.Result.Ok():
		m.Kind = KindResult
	case m.Error.Ok():
		m.Kind = KindError
	default:
		return errors.New("message has neither method, result nor error")
	}
	switch {
	case m.Kind == KindResult && m.Raw[m.Result.Start] != '{':
		return errors.New("result is not an object")
	case m.Kind == KindError && m.Raw[m.Error.Start] != '{':
		return errors.New("error is not an object")
	case m.Kind == KindError && nullID:
		m.ID = Span{} // as servers say that they could not read the request's id
	case m.Kind == KindResult && !m.ID.Ok():
		return errors.New("result has no id")
	}
	if m.ID.Ok() && !validID(m.ID.In(m.Raw)) {
		return errors.New("id is neither a string nor an integer")
	}
	return m.checkParams()
}

func (m *Message) checkParams() error {
	switch {
	case !m.Params.Ok():
		return nil
	case m.Kind == KindResult || m.Kind == KindError:
		return errors.New("response has params")
	case string(m.Params.In(m.Raw)) == "null":
		m.Params = Span{}
		return nil
	case m.Raw[m.Params.Start] != '{':
		return errors.New("params is not an object")
	}
	return nil
}

// pickItems takes the first of them in the message.
func (m *Message) pickItems(items *[len(itemKeys)]Span) {
	for i, at := range items {
		if at.Ok() && (!m.Items.Ok() || at.Start < m.Items.Start) {
			m.Items, m.ItemsKey = at, itemKeys[i]
		}
	}
}

// ItemsNamed gives the place of one member that holds items, also when the
// result has several of them.
func (m *Message) ItemsNamed(key string) Span {
	if m.ItemsKey == key {
		return m.Items
	}
	return Find(m.Raw, m.Result, key)
}
