package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// maxQuestions bounds what a server may ask at once.
const maxQuestions = 64

// question is one request of a server that its client has to answer.
type question struct {
	key    string // in inputRequests
	method string
	id     string // of our request to the client
	params mcp.Span
	answer *mcp.Message // nil until the client answered
}

// ask sends what the server asks as requests on the call's own stream, waits for
// the client's answers, which come in requests of their own, and gives
// inputResponses.
func (t *turn) ask(ctx context.Context, reply *federation.Reply, msg *mcp.Message) ([]byte, error) {
	list, err := t.questions(reply, msg)
	if err != nil {
		return nil, err
	}
	switch {
	case !t.out.accept.sse:
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "The server asks the client something, which needs an Accept that allows text/event-stream")
	case t.session.id == "":
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "The server asks the client something, which needs a session")
	case t.out.gone():
		return nil, errGone
	}
	done, err := t.x.edge.handshakes.ask(t.x.caller)
	if err != nil {
		return nil, err
	}
	defer done()
	ready := t.expect(list)
	defer t.expect(nil)
	for _, q := range list {
		if err := t.out.notify(t.appendQuestion(nil, msg.Raw, q)); err != nil {
			return nil, errGone // nobody is there who could answer
		}
	}
	limit := time.NewTimer(t.x.edge.limits.AnswerWait)
	defer limit.Stop()
	select {
	case <-ready:
	case <-ctx.Done():
		t.withdraw(list)
		return nil, context.Cause(ctx)
	case <-limit.C:
		t.withdraw(list)
		return nil, mcp.Errorf(mcp.CodeInternal, "The client did not answer the server's question within %s", t.x.edge.limits.AnswerWait)
	case <-t.x.edge.streams.quit:
		return nil, &refusal{
			status: http.StatusServiceUnavailable, class: "draining", header: retryAfter(time.Second),
			rpc: mcp.Errorf(mcp.CodeInternal, "The gateway is shutting down"),
		}
	}
	return t.responses(list)
}

// questions reads inputRequests. A client is not asked what it did not declare.
func (t *turn) questions(reply *federation.Reply, msg *mcp.Message) ([]*question, error) {
	var list []*question
	raw := msg.Raw
	if !isObject(raw, msg.InputRequests) {
		return nil, t.nonsense(reply, "inputRequests is not an object")
	}
	for m := range mcp.Members(raw, msg.InputRequests) {
		q := &question{key: m.Key, id: t.x.edge.handshakes.questionID(t.session.id), params: mcp.Find(raw, m.Value, "params")}
		q.method, _ = mcp.String(raw, mcp.Find(raw, m.Value, "method"))
		switch q.method {
		case methodElicit, methodSampling, methodRoots:
		default:
			return nil, t.nonsense(reply, "inputRequests holds a request that no client answers")
		}
		if lacking := t.session.lacks(raw, q.method, q.params); lacking != "" {
			return nil, &mcp.Error{
				Code:    mcp.CodeMissingClientCapability,
				Message: "Missing required client capability",
				Data:    []byte(`{"requiredCapabilities":` + lacking + `}`),
			}
		}
		if list = append(list, q); len(list) > maxQuestions {
			return nil, t.nonsense(reply, "too many requests in inputRequests")
		}
	}
	return list, nil
}

// expect notes the questions whose answers are waited for; the channel is closed
// when all are there.
func (t *turn) expect(list []*question) (ready <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting, t.missing, t.ready = map[string]*question{}, len(list), make(chan struct{})
	for _, q := range list {
		t.waiting[`"`+q.id] = q
	}
	return t.ready
}

// take is told of an answer that came in the session.
func (t *turn) take(s signal) {
	msg, err := mcp.ParseMessage(s.body, 0)
	if err != nil {
		return // it was parsed when it came
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.waiting[s.key]
	if q == nil || q.answer != nil {
		return // for another call, or a second one
	}
	q.answer = msg
	if t.missing--; t.missing == 0 {
		close(t.ready)
	}
}

// appendQuestion writes the request for the client.
func (t *turn) appendQuestion(dst, raw []byte, q *question) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = mcp.AppendQuote(dst, q.id)
	dst = append(dst, `,"method":`...)
	dst = mcp.AppendQuote(dst, q.method)
	if isObject(raw, q.params) {
		dst = append(dst, `,"params":`...)
		dst = t.appendParams(dst, raw, q)
	}
	return append(dst, '}')
}

// appendParams writes a question's params as the client's revision has them.
func (t *turn) appendParams(dst, raw []byte, q *question) []byte {
	var e mcp.Edits
	if q.method == methodElicit {
		switch mode, _ := mcp.String(raw, mcp.Find(raw, q.params, "mode")); {
		case mode == "url" && !mcp.Find(raw, q.params, "elicitationId").Ok():
			e.SetMember(raw, q.params, "elicitationId", []byte(strconv.Quote(rand.Text())))
		case t.session.revision == revision202506:
			e.RemoveMember(raw, q.params, "mode")
		}
	}
	if e.Empty() {
		return append(dst, q.params.In(raw)...)
	}
	return append(dst, without(&e, raw, q.params)...)
}

// withdraw tells the client that nobody waits for its answers any more.
func (t *turn) withdraw(list []*question) {
	t.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(list), func(q *question) bool { return q.answer != nil })
	t.mu.Unlock()
	for _, q := range open {
		_ = t.out.notify([]byte(`{"jsonrpc":"2.0","method":"` + mcp.NotificationCancelled + `","params":{"requestId":"` + q.id + `"}}`)) // it may have left
	}
}

// responses gives inputResponses. That a user was not asked in the end is an
// answer to an elicitation; without the others the call cannot go on.
func (t *turn) responses(list []*question) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []byte{'{'}
	for i, q := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(mcp.AppendQuote(out, q.key), ':')
		switch a := q.answer; {
		case a.Kind == mcp.KindResult:
			out = append(out, a.Result.In(a.Raw)...)
		case q.method == methodElicit:
			out = append(out, `{"action":"cancel"}`...)
		default:
			return nil, mcp.Errorf(mcp.CodeInternal, "The client answered %s with an error: %s (%d)", q.method, cut(a.ErrorText), a.Code)
		}
	}
	return append(out, '}'), nil
}
