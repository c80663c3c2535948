package mcp

import (
	"errors"
	"strconv"
)

// ParseMessage reads the envelope of a server's message, with the same bounds
// and the same care for JSON. It differs from ParseRequest where being strict
// would only lose messages: keys that equal a routed one but for letter case are
// unknown keys, and params may be null. The error says what is wrong without
// repeating the message.
func ParseMessage(raw []byte, maxDepth int) (*Message, error) {
	m := &Message{Raw: raw}
	var version, method Text
	var code, text Span
	var items [len(itemKeys)]Span
	meta := [...]slot{{key: MetaSubscriptionID, span: &m.SubscriptionID}}
	result := [...]slot{
		{key: "resultType", text: &m.ResultType},
		{key: "_meta", span: &m.Meta, inner: meta[:], where: "result._meta"},
		{key: "isError", span: &m.IsError},
		{key: "requestState", text: &m.RequestState},
		{key: "cacheScope", text: &m.CacheScope},
		{key: "nextCursor", text: &m.NextCursor},
		{key: "inputRequests", span: &m.InputRequests},
		{key: "ttlMs", span: &m.TTLMs},
		{key: "taskId", text: &m.TaskID},
		{key: itemKeys[0], span: &items[0]},
		{key: itemKeys[1], span: &items[1]},
		{key: itemKeys[2], span: &items[2]},
		{key: itemKeys[3], span: &items[3]},
		{key: itemKeys[4], span: &items[4]},
	}
	params := [...]slot{
		{key: "_meta", span: &m.Meta, inner: meta[:], where: "params._meta"},
		{key: "progressToken", span: &m.ProgressToken},
		{key: "notifications", span: &m.Notifications},
		{key: "uri", text: &m.URI},
		{key: "taskId", text: &m.TaskID},
		{key: "level", text: &m.Level},
	}
	failure := [...]slot{
		{key: "code", span: &code},
		{key: "message", span: &text},
		{key: "data", span: &m.ErrorData},
	}
	envelope := [...]slot{
		{key: "id", span: &m.ID},
		{key: "jsonrpc", text: &version},
		{key: "result", span: &m.Result, inner: result[:], where: "result"},
		{key: "error", span: &m.Error, inner: failure[:], where: "error"},
		{key: "method", text: &method},
		{key: "params", span: &m.Params, inner: params[:], where: "params"},
	}

	p := getParser(raw, false)
	defer p.release()
	if err := p.message(maxDepth, envelope[:]); err != nil {
		return nil, err
	}
	if p.bad != nil {
		return nil, p.bad
	}
	if version.Value != "2.0" {
		return nil, errors.New(`jsonrpc is not "2.0"`)
	}
	m.Method = method.Value
	if err := m.classify(method.Ok()); err != nil {
		return nil, err
	}
	if m.Kind == KindError {
		n, err := strconv.Atoi(string(code.In(raw)))
		if err != nil {
			return nil, errors.New("code of the error is not an integer")
		}
		m.Code = n
		m.ErrorText, _ = String(raw, text)
	}
	m.pickItems(&items)
	if string(m.NextCursor.In(raw)) == "null" {
		m.NextCursor = Text{}
	}
	return m, nil
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

// itemKeys are the members that hold the items of a list, or of a resource.
var itemKeys = [...]string{"tools", "prompts", "resources", "resourceTemplates", "contents"}

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
