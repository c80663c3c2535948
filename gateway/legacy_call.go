package gateway

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Bounds of one call of a handshake client.
const (
	// maxRounds is how often a server may say input_required for one call.
	maxRounds = 20
	// maxWaits is how often it may do so without asking anything.
	maxWaits = 10
	// firstWait is the pause before such a call is retried; each further one is
	// longer by as much.
	firstWait = 200 * time.Millisecond
	// maxSubscriptions bounds the resources that one session subscribes to, and
	// maxSubscriptionBytes all their URIs together.
	maxSubscriptions     = 1000
	maxSubscriptionBytes = 256 << 10
)

// turn is one request of a handshake client.
type turn struct {
	x       *exchange // what is counted
	out     *exchange // whose response it goes to; the same but in a batch
	session *session
	state   softState
	req     *mcp.Request

	cancelled bool // by the client: there is no response

	mu      sync.Mutex // guards what follows
	waiting map[string]*question
	missing int           // questions that were not answered
	ready   chan struct{} // closed when all are
}

// run answers the request. The error is one for mapError.
func (t *turn) run(ctx context.Context) (*mcp.Buffer, error) {
	switch t.req.Method {
	case methodPing:
		return t.emptyResult(), nil
	case methodSetLevel:
		return t.setLevel(ctx)
	case methodSubscribe:
		return t.subscribe(ctx)
	case methodUnsubscribe:
		return t.unsubscribe(ctx)
	}
	if !isShared(t.req.Method) && (t.x.at.Alias == "" || t.isOfOtherEra()) {
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
	}
	ctx, cancel, stop := t.x.edge.handshakes.detach(ctx)
	defer stop()
	if t.session.id != "" {
		key := idKey(t.req.Raw, t.req.ID)
		defer t.x.edge.handshakes.states.attach(t.session.id, func(s signal) {
			switch {
			case s.kind == signalDeleted, s.kind == signalState && s.state.deleted, s.kind == signalCancel && s.key == key:
				cancel(errCancelled)
			case s.kind == signalAnswer:
				t.take(s)
			}
		})()
	}
	body, err := t.call(ctx)
	if errors.Is(context.Cause(ctx), errCancelled) {
		body.Release()
		t.cancelled, t.x.errorType = true, string(upstream.ClassCanceled)
		return nil, nil
	}
	return body, err
}

// isOfOtherEra tells whether the method belongs to the era without sessions: not
// even an endpoint of one upstream passes it on.
func (t *turn) isOfOtherEra() bool {
	m := t.req.Method
	return known(m) || removed(m)
}

// emptyResult answers with {}.
func (t *turn) emptyResult() *mcp.Buffer {
	b := mcp.GetBuffer(64)
	b.B = append(b.B, `{"jsonrpc":"2.0","id":`...)
	b.B = append(b.B, t.req.ID.In(t.req.Raw)...)
	b.B = append(b.B, `,"result":{}}`...)
	return b
}

// update changes the session's soft state.
func (t *turn) update(ctx context.Context, change func(*softState) error) error {
	return t.x.edge.handshakes.states.update(ctx, t.session.id, t.session.expires, change)
}

// setLevel serves logging/setLevel.
func (t *turn) setLevel(ctx context.Context) (*mcp.Buffer, error) {
	level, _ := mcp.String(t.req.Raw, mcp.Find(t.req.Raw, t.req.Params, "level"))
	switch {
	case t.session.id == "":
		return nil, needsSession()
	case !isLogLevel(level):
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.level is not a log level")
	}
	err := t.update(ctx, func(s *softState) error {
		s.level = level
		return nil
	})
	return t.emptyResult(), err
}

// subscribe serves resources/subscribe. The updates come on the GET stream.
func (t *turn) subscribe(ctx context.Context) (*mcp.Buffer, error) {
	if t.session.id == "" {
		return nil, needsSession()
	}
	call := t.x.newCall(t.req)
	if err := t.x.edge.router.Watchable(ctx, &call); err != nil {
		return nil, t.legacyError(err)
	}
	uri := t.req.URI.Value
	return t.watch(ctx, func(uris []string) ([]string, error) {
		switch {
		case slices.Contains(uris, uri):
			return uris, nil
		case len(uris) >= maxSubscriptions:
			return nil, mcp.Errorf(federation.CodeOverQuota, "A session may subscribe to %d resources", maxSubscriptions)
		case total(uris)+len(uri) > maxSubscriptionBytes:
			return nil, mcp.Errorf(federation.CodeOverQuota, "The URIs that a session subscribes to may have %d bytes", maxSubscriptionBytes)
		}
		return append(slices.Clip(uris), uri), nil
	})
}

// total is the length of all of them, in bytes.
func total(uris []string) int {
	n := 0
	for _, uri := range uris {
		n += len(uri)
	}
	return n
}

// unsubscribe serves resources/unsubscribe.
func (t *turn) unsubscribe(ctx context.Context) (*mcp.Buffer, error) {
	switch {
	case t.session.id == "":
		return nil, needsSession()
	case !t.req.URI.IsString:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
	}
	return t.watch(ctx, func(uris []string) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(uris), func(uri string) bool { return uri == t.req.URI.Value }), nil
	})
}

// watch changes what the session subscribed to and tells its GET stream.
func (t *turn) watch(ctx context.Context, change func([]string) ([]string, error)) (*mcp.Buffer, error) {
	err := t.update(ctx, func(s *softState) (err error) {
		s.uris, err = change(s.uris)
		return err
	})
	if err == nil {
		err = t.x.edge.handshakes.states.signal(ctx, t.session.id, signal{kind: signalSubscribe})
	}
	if err != nil {
		return nil, err
	}
	return t.emptyResult(), nil
}

// call has the federation answer the request, and asks the client what servers
// want to know in between (2026-07-28, basic/patterns/mrtr).
func (t *turn) call(ctx context.Context) (*mcp.Buffer, error) {
	var more retry
	waits := 0
	for range maxRounds {
		reply, err := t.handle(ctx, more)
		if err != nil {
			return nil, t.legacyError(err)
		}
		body, msg, err := t.translate(reply)
		if body != nil || err != nil {
			reply.Body.Release()
			return body, err
		}
		more = retry{}
		if msg.RequestState.Ok() {
			more.state = slices.Clone(msg.RequestState.In(msg.Raw))
		}
		asked := time.Now()
		if isEmptyObject(msg.Raw, msg.InputRequests) {
			if waits++; waits > maxWaits {
				err = t.nonsense(reply, "input_required too often, without a question")
			} else {
				err = pause(ctx, time.Duration(waits)*firstWait)
			}
		} else {
			more.responses, err = t.ask(ctx, reply, msg)
		}
		t.x.waited += time.Since(asked)
		alias := reply.Upstream
		reply.Body.Release()
		if err != nil {
			t.x.upstream = alias
			return nil, err
		}
	}
	return nil, t.nonsense(&federation.Reply{Upstream: t.x.upstream}, "input_required too often")
}

// nonsense is the failure of an upstream that does not keep to the protocol.
func (t *turn) nonsense(reply *federation.Reply, what string) error {
	return &upstream.Error{Alias: reply.Upstream, Class: upstream.ClassProtocol, Err: errors.New(what)}
}

// isEmptyObject tells whether there is nothing in the object at at.
func isEmptyObject(raw []byte, at mcp.Span) bool {
	for range mcp.Members(raw, at) {
		return false
	}
	return true
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retry is what a repeated request has besides the first one: raw JSON, nil for
// none.
type retry struct{ responses, state []byte }

// handle sends the request in the form of revision 2026-07-28.
func (t *turn) handle(ctx context.Context, more retry) (*federation.Reply, error) {
	buf, err := t.modernize(more)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	// Nesting is deeper by what was added, at most by three levels.
	req, bad := mcp.ParseRequest(buf.B, t.x.edge.limits.MaxDepth+3)
	if bad != nil {
		return nil, bad
	}
	call := t.x.newCall(req)
	if t.out.accept.sse {
		call.Notify = func(raw []byte) error {
			// A client that left has not cancelled the call.
			_ = t.out.notify(raw)
			return nil
		}
	}
	reply, err := t.x.edge.router.Handle(ctx, &call)
	if err != nil {
		return nil, err
	}
	t.x.errorType, t.x.upstream = closedLabel(reply.ErrorType), reply.Upstream
	t.x.waited += reply.Waited
	return reply, nil
}

// modernize makes the request as revision 2026-07-28 has it: `_meta` says what the
// session knows. What else the client sent stays as it is, but for what would
// mean something there that it cannot mean here.
func (t *turn) modernize(more retry) (*mcp.Buffer, error) {
	raw := t.req.Raw
	meta := t.req.Meta.Span
	if meta.Ok() && !isObject(raw, meta) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params._meta must be an object")
	}
	var e mcp.Edits
	if meta.Ok() {
		for _, f := range t.metaFields() {
			if f.Value == nil {
				e.RemoveMember(raw, meta, f.Key)
			} else {
				e.SetMember(raw, meta, f.Key, f.Value)
			}
		}
	}
	if t.req.Params.Ok() {
		params := t.req.Params
		if !meta.Ok() {
			e.SetMember(raw, params, "_meta", t.newMeta())
		}
		for _, f := range []mcp.Param{{Key: "inputResponses", Value: more.responses}, {Key: "requestState", Value: more.state}} {
			if f.Value == nil {
				e.RemoveMember(raw, params, f.Key)
			} else {
				e.SetMember(raw, params, f.Key, f.Value)
			}
		}
		// Tasks of 2025-11-25 are not offered, so the wish for one is ignored (2025-11-25,
		// basic/utilities/tasks, Task Support and Handling).
		e.RemoveMember(raw, params, "task")
	} else {
		e.SetMember(raw, mcp.Span{End: len(raw)}, "params", slices.Concat([]byte(`{"_meta":`), t.newMeta(), []byte("}")))
	}
	buf := mcp.GetBuffer(len(raw) + len(t.session.capabilities) + len(more.responses) + 512)
	buf.B = e.AppendTo(buf.B, raw)
	return buf, nil
}

// metaFields are the members of `_meta` that the gateway sets; a nil value means
// that there is none.
func (t *turn) metaFields() []mcp.Param {
	fields := []mcp.Param{
		{Key: mcp.MetaProtocolVersion, Value: []byte(strconv.Quote(mcp.VersionModern))},
		{Key: mcp.MetaClientCapabilities, Value: t.session.capabilities},
		{Key: mcp.MetaClientInfo},
		{Key: mcp.MetaLogLevel},
	}
	if len(t.session.client) > 0 {
		fields[2].Value = t.session.client
	}
	if t.state.level != "" {
		fields[3].Value = []byte(strconv.Quote(t.state.level))
	}
	return fields
}

// newMeta gives a whole `_meta`.
func (t *turn) newMeta() []byte {
	out := []byte{'{'}
	for _, f := range t.metaFields() {
		if f.Value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(mcp.AppendQuote(out, f.Key), ':')
		out = append(out, f.Value...)
	}
	return append(out, '}')
}
