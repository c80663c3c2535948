package upstream

import (
	"slices"
	"strconv"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// askedRequest is a request of the server that the client was asked to answer.
type askedRequest struct {
	key string // in inputRequests
	id  []byte // raw JSON, the server's
	ask []byte // raw JSON, as the client is given it
}

// metaInputError is the key of an input response that refuses: its value is the
// JSON-RPC error with which the client answered a request of the server. Only the
// gateway itself makes such, for clients of the handshake era, which may answer
// with errors; the modern revision has results only.
const metaInputError = mcp.MetaOwnPrefix + "error"

// requested takes a request of the server. It goes to the call that it belongs
// to, if the client may be asked; else the server is told at once. It never goes
// to another user, since all calls in a session are one user's.
func (s *session) requested(it flightItem, f *flight) {
	m := it.msg
	id := m.ID.In(m.Raw)
	f = s.attributed(f)
	refusal := s.refusal(m, f)
	switch {
	case m.Method == methodPing:
		s.tell(append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":{}}`...), "")
	case refusal == nil && f.ask(it):
		return
	case refusal == nil:
		refusal = mcp.Errorf(mcp.CodeInternal, "too many requests wait for the client, or the call has ended")
		fallthrough
	default:
		s.tell(mcp.AppendErrorResponse(nil, id, refusal), "")
	}
	it.buf.Release()
}

// refusal tells why the client is not asked; nil when it is. The errors are those
// with which a client of that era would refuse (2025-11-25, client/elicitation,
// client/sampling and client/roots, Error Handling).
func (s *session) refusal(m *mcp.Message, f *flight) *mcp.Error {
	c := s.caps
	if f == nil || f.own || !asksClient(f.method) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "there is no call that %.100q could belong to", m.Method)
	}
	switch m.Method {
	case methodElicit:
		mode, _ := mcp.String(m.Raw, mcp.Find(m.Raw, m.Params, "mode"))
		switch {
		case !c.form && !c.url:
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not support elicitation")
		case mode == "url" && !c.url, (mode == "" || mode == "form") && !c.form, mode != "" && mode != "form" && mode != "url":
			return mcp.Errorf(mcp.CodeInvalidParams, "the client does not support that mode of elicitation")
		}
		return nil
	case methodSample:
		switch {
		case !c.sampling:
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not support sampling")
		case !c.samplingTools && (mcp.Find(m.Raw, m.Params, "tools").Ok() || mcp.Find(m.Raw, m.Params, "toolChoice").Ok()):
			return mcp.Errorf(mcp.CodeInvalidParams, "the client does not support tools in sampling")
		}
		return nil
	case methodRoots:
		if !c.roots {
			return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not support roots")
		}
		return nil
	}
	return mcp.Errorf(mcp.CodeMethodNotFound, "the client does not know the method")
}

// inputRequest gives a request of the server as the client is given it: its method
// and its params, without what the modern revision does not have.
func inputRequest(m *mcp.Message, c *clientCaps) []byte {
	b := mcp.AppendQuote([]byte(`{"method":`), m.Method)
	if m.Params.Ok() {
		var edits mcp.Edits
		params := slices.Clone(m.Params.In(m.Raw))
		whole := mcp.Span{Start: 0, End: len(params)}
		edits.RemoveMember(params, whole, "task") // of 2025-11-25
		switch m.Method {
		case methodElicit:
			edits.RemoveMember(params, whole, "elicitationId")
		case methodSample:
			// Servers of older revisions may name a context whatever the client
			// declared, and the client may ignore it (2025-06-18, client/sampling).
			if !c.samplingContext {
				edits.RemoveMember(params, whole, "includeContext")
			}
		}
		b = edits.AppendTo(append(b, `,"params":`...), params)
	} else {
		// They may be left out of roots/list (2026-07-28, client/roots), but the Go SDK's
		// client cannot read a request without.
		b = append(b, `,"params":{}`...)
	}
	return append(b, '}')
}

// question adds a request of the server to those that the client is asked.
func (f *flight) question(it flightItem) {
	m := it.msg
	f.asked = append(f.asked, askedRequest{
		key: "input-" + strconv.FormatInt(f.session.pool.ids.Add(1), 10),
		id:  slices.Clone(m.ID.In(m.Raw)),
		ask: inputRequest(m, f.session.caps),
	})
	it.buf.Release()
}

// inputRequired makes the result that asks the client
// (2026-07-28, basic/patterns/mrtr, InputRequiredResult).
func inputRequired(id []byte, asked []askedRequest, state string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"result":{"resultType":"`+mcp.ResultInputRequired+`","inputRequests":{`...)
	for i, q := range asked {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(mcp.AppendQuote(b, q.key), ':')
		b = append(b, q.ask...)
	}
	b = append(b, `},"requestState":`...)
	return append(mcp.AppendQuote(b, state), "}}"...)
}

// inputAnswer makes the response to a request of the server from the client's
// input response.
func inputAnswer(q askedRequest, value []byte) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), q.id...)
	whole := mcp.Span{Start: 0, End: len(value)}
	if e := mcp.Find(value, whole, metaInputError); isObject(value, e) {
		return append(append(append(b, `,"error":`...), e.In(value)...), '}')
	}
	return append(append(append(b, `,"result":`...), value...), '}')
}

// urlElicitations gives the questions of a URLElicitationRequiredError
// (2025-11-25, client/elicitation, URL Elicitation Required Error).
func urlElicitations(m *mcp.Message) []askedRequest {
	var asked []askedRequest
	for at := range mcp.Elements(m.Raw, mcp.Find(m.Raw, m.ErrorData, "elicitations")) {
		if !isObject(m.Raw, at) || len(asked) == maxHeldRequests {
			continue
		}
		params := slices.Clone(at.In(m.Raw))
		whole := mcp.Span{Start: 0, End: len(params)}
		var edits mcp.Edits
		edits.RemoveMember(params, whole, "elicitationId")
		edits.SetMember(params, whole, "mode", []byte(`"url"`))
		b := edits.AppendTo([]byte(`{"method":"`+methodElicit+`","params":`), params)
		asked = append(asked, askedRequest{key: "url-" + strconv.Itoa(len(asked)+1), ask: append(b, '}')})
	}
	return asked
}
