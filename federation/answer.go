package federation

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// notify passes one notification of the upstream on, where the client asked for
// its kind.
func (x *exchange) notify(ctx context.Context, msg *mcp.Message) error {
	r := x.call.Request
	if x.call.Notify == nil {
		return nil
	}
	var e mcp.Edits
	switch msg.Method {
	case mcp.NotificationProgress:
		// Only for the token of this very request (basic/patterns/progress).
		if !r.Meta.ProgressToken.Ok() || !bytes.Equal(msg.ProgressToken.In(msg.Raw), x.id) {
			return nil
		}
		e.Replace(msg.ProgressToken, r.Meta.ProgressToken.In(r.Raw))
	case mcp.NotificationMessage:
		// Only if the request set a level, and from that level on
		// (server/utilities/logging).
		if !r.Meta.LogLevel.IsString || levelOf(msg.Level.Value) < levelOf(r.Meta.LogLevel.Value) {
			return nil
		}
	case mcp.NotificationCancelled, mcp.NotificationAcknowledged, mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged,
		mcp.NotificationResourcesChanged, mcp.NotificationResourceUpdated, mcp.NotificationTasks:
		// These do not relate to the request
		// (basic/transports/streamable-http, Receiving Messages).
		return nil
	}
	if e.Empty() {
		return x.call.Notify(msg.Raw)
	}
	buf := mcp.GetBuffer(len(msg.Raw) + 64)
	defer buf.Release()
	buf.B = e.AppendTo(buf.B, msg.Raw)
	return x.call.Notify(buf.B)
}

// levels are the log levels of RFC 5424, the least severe first.
var levels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// levelOf gives the rank of a level; an unknown one counts as the most severe.
func levelOf(name string) int {
	if i := slices.Index(levels[:], name); i >= 0 {
		return i
	}
	return len(levels)
}

// mapURI gives the exposed form of the target's URIs. The contents of what was
// read have the URI that the client knows it by, also where links stay as they
// are.
func (x *exchange) mapURI(ctx context.Context) uriMapper {
	expose := x.domain.exposeURI(ctx, x.target.member)
	if x.call.Request.Method != mcp.MethodResourcesRead || !isWeb(x.target.name) || x.target.field.Value == x.target.name {
		return expose
	}
	return func(uri string) (string, bool) {
		if uri == x.target.name {
			return x.target.field.Value, true
		}
		return expose(uri)
	}
}

// mapTask gives the exposed form of the target's task ids.
func (x *exchange) mapTask(id string) string { return x.target.member.conf.Alias + "+" + id }

// expose adds the edits for URIs and task ids of a result.
func (x *exchange) expose(ctx context.Context, e *mcp.Edits, msg *mcp.Message) {
	method := x.call.Request.Method
	if !x.merged || !isTaskMethod(method) && msg.ResultType.Value != mcp.ResultTask && !mayHoldURI(msg.Result.In(msg.Raw)) {
		return
	}
	rewriteResult(e, method, msg, x.mapURI(ctx), x.mapTask)
}

// result turns the upstream's result into the client's. left replaces ttlMs when
// it is not negative.
func (x *exchange) result(ctx context.Context, msg *mcp.Message, left time.Duration) (*Reply, error) {
	r := x.call.Request
	if err := x.checkResultType(msg); err != nil {
		return nil, err
	}
	e := &x.edits
	e.Reset()
	e.Replace(msg.ID, r.ID.In(r.Raw))
	x.expose(ctx, e, msg)
	if msg.RequestState.Ok() && msg.ResultType.Value == mcp.ResultInputRequired {
		b, err := x.bound()
		if err != nil {
			return nil, err
		}
		if !msg.RequestState.IsString {
			return nil, x.target.member.nonsense(classProtocol, "requestState is no string")
		}
		e.Replace(msg.RequestState.Span, mcp.AppendQuote(nil, x.sealState(b, msg.RequestState.In(msg.Raw))))
	}
	if left >= 0 {
		e.SetMember(msg.Raw, msg.Result, "ttlMs", strconv.AppendInt(nil, left.Milliseconds(), 10))
	}
	if msg.CacheScope.Value == "public" && r.Method == mcp.MethodResourcesRead && x.domain.differs(x.target.member) {
		e.Replace(msg.CacheScope.Span, []byte(`"private"`))
	}
	reply := &Reply{Status: http.StatusOK, Body: mcp.GetBuffer(len(msg.Raw) + 128), Upstream: x.target.member.conf.Alias}
	reply.Body.B = e.AppendTo(reply.Body.B, msg.Raw)
	if string(msg.IsError.In(msg.Raw)) == "true" {
		reply.ErrorType = "tool_error"
	}
	return reply, nil
}

// sealState wraps the upstream's requestState, and says who holds the call where
// there are several replicas and it is parked in this one.
func (x *exchange) sealState(b *stateBinding, state []byte) string {
	opts := &x.domain.fed.opts
	token := sealState(opts.Ring, b, state, x.domain.fed.now().Add(opts.Limits.StateTTL))
	if opts.Cluster == nil {
		return token
	}
	// Another holder than this replica is what a server has seen elsewhere and repeats.
	if holder, ok := upstream.HolderOf(opts.Ring, b.tenant, b.alias, state); ok && holder == opts.Holder {
		token = withHolder(opts.Ring, token, Elsewhere{Holder: holder, Alias: b.alias})
	}
	return token
}

// checkResultType refuses results that the client could not know
// (2026-07-28, basic/index, ResultType).
func (x *exchange) checkResultType(msg *mcp.Message) error {
	if !msg.ResultType.Ok() {
		return nil // an absent one means complete
	}
	r := x.call.Request
	switch kind := msg.ResultType.Value; {
	case kind == mcp.ResultComplete:
		return nil
	case kind == mcp.ResultInputRequired:
		switch r.Method {
		case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
			return nil
		}
		if x.unknownMethod() {
			return nil
		}
	case kind == mcp.ResultTask && (r.Method == mcp.MethodToolsCall || isTaskMethod(r.Method)) && declares(r, mcp.ExtensionTasks):
		// Of the methods of tasks it must not be the type, yet the extension's own
		// example of a failed task has it (ext-tasks, Task Execution Errors).
		return nil
	case msg.ResultType.IsString && kind != mcp.ResultTask && x.call.Endpoint.Alias != "" && x.otherExtension():
		return nil // one of an extension that passes through
	}
	return x.target.member.nonsense(classProtocol, "resultType %q in answer to %s", msg.ResultType.Value, r.Method)
}

// unknownMethod tells whether the request is one that merely passes through.
func (x *exchange) unknownMethod() bool {
	return !x.merged && x.target.field.Span == (mcp.Span{})
}

// otherExtension tells whether the client declared an extension that the gateway
// does not know.
func (x *exchange) otherExtension() bool {
	r := x.call.Request
	for ext := range mcp.Members(r.Raw, mcp.Find(r.Raw, r.Meta.ClientCapabilities, "extensions")) {
		if ext.Key != mcp.ExtensionTasks && ext.Key != mcp.ExtensionUI {
			return true
		}
	}
	return false
}

// rpcError turns the upstream's JSON-RPC error into the client's.
func (x *exchange) rpcError(ctx context.Context, msg *mcp.Message, status int) (*Reply, error) {
	m := x.target.member
	switch msg.Code {
	case mcp.CodeHeaderMismatch:
		return nil, errHeaderMismatch
	case mcp.CodeUnsupportedProtocol:
		return nil, m.nonsense(upstream.ClassVersion, "the upstream speaks no version of ours")
	case mcp.CodeMethodNotFound:
		if status != http.StatusNotFound && !x.lacksMethod() {
			return nil, m.nonsense(upstream.ClassRejected, "method not found, though its capability is there")
		}
	}
	r := x.call.Request
	var e mcp.Edits
	if msg.ID.Ok() {
		e.Replace(msg.ID, r.ID.In(r.Raw))
	} else {
		e.SetMember(msg.Raw, mcp.Span{Start: 0, End: len(msg.Raw)}, "id", r.ID.In(r.Raw))
	}
	if x.merged && msg.ErrorData.Ok() {
		rewriteError(&e, msg, x.mapURI(ctx))
	}
	reply := &Reply{Status: http.StatusOK, Body: mcp.GetBuffer(len(msg.Raw) + 128), Upstream: m.conf.Alias, ErrorType: strconv.Itoa(msg.Code)}
	switch msg.Code {
	case mcp.CodeMissingClientCapability:
		reply.Status = http.StatusBadRequest
	case mcp.CodeMethodNotFound:
		reply.Status = http.StatusNotFound
	}
	reply.Body.B = e.AppendTo(reply.Body.B, msg.Raw)
	return reply, nil
}

// lacksMethod tells whether the upstream is known not to have the method at all.
func (x *exchange) lacksMethod() bool {
	if x.unknownMethod() {
		return true
	}
	seg := x.target.member.known(kindDiscover)
	if seg == nil {
		return false
	}
	switch x.call.Request.Method {
	case mcp.MethodToolsCall:
		return !seg.discover.tools
	case mcp.MethodPromptsGet:
		return !seg.discover.prompts
	case mcp.MethodResourcesRead:
		return !seg.discover.resources
	case mcp.MethodComplete:
		return !seg.discover.completions
	}
	return false
}
