package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// sharedCapabilities are those of servers that both eras have. Extensions are of
// the later one, tasks of the earlier are not offered.
func sharedCapabilities() []string {
	return []string{"tools", "prompts", "resources", "completions", "logging", "experimental"}
}

// initialize begins a session (2025-11-25, basic/lifecycle, Initialization).
func (x *exchange) initialize() error {
	req := x.req
	x.method = methodInitialize
	requested, ok := mcp.String(req.Raw, mcp.Find(req.Raw, req.Params, "protocolVersion"))
	s := &session{
		id:       rand.Text(),
		revision: revision202511,
		client:   appendClientInfo(nil, req.Raw, mcp.Find(req.Raw, req.Params, "clientInfo")),
		expires:  time.Now().Add(x.edge.limits.SessionLifetime),
	}
	if isLegacyRevision(requested) {
		s.revision = requested
	}
	x.legacy = s
	ctx := x.startSpan()
	declared := mcp.Find(req.Raw, req.Params, "capabilities")
	switch {
	case !ok:
		return mcp.Errorf(mcp.CodeInvalidParams, "params.protocolVersion must be a string")
	case !isObject(req.Raw, declared):
		return mcp.Errorf(mcp.CodeInvalidParams, "params.capabilities must be an object")
	}
	s.capabilities = capabilitiesOf(req.Raw, declared, s.revision)
	token, err := sealSession(x.edge.handshakes.ring, s, x.at, &x.caller)
	if err != nil {
		return mcp.Errorf(mcp.CodeInvalidParams, "The client's name and capabilities are too large: a session id may have %d bytes", maxSessionID)
	}
	body, err := x.discover(ctx, s)
	if err != nil {
		return err
	}
	defer body.Release()
	if x.gone() {
		return errGone
	}
	x.w.Header()[mcp.HeaderSessionID] = []string{token}
	x.reply(http.StatusOK, body.B)
	return nil
}

// discover asks the federation what is offered and gives the InitializeResult.
func (x *exchange) discover(ctx context.Context, s *session) (*mcp.Buffer, error) {
	raw := mcp.AppendRequest(nil, 1, mcp.MethodDiscover, s.client, s.capabilities, nil)
	asked, bad := mcp.ParseRequest(raw, 0)
	if bad != nil {
		return nil, bad
	}
	call := x.newCall(asked)
	reply, err := x.edge.router.Handle(ctx, &call)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Release()
	x.errorType, x.upstream, x.waited = closedLabel(reply.ErrorType), reply.Upstream, reply.Waited
	msg, err := mcp.ParseMessage(reply.Body.B, 0)
	if err != nil {
		return nil, err
	}
	out := mcp.GetBuffer(len(msg.Raw))
	out.B = appendInitialized(out.B, x.req, s.revision, msg, x.edge.handshakes.server)
	return out, nil
}

// appendInitialized writes the response to initialize from that to
// server/discover.
func appendInitialized(dst []byte, req *mcp.Request, revision string, msg *mcp.Message, own []byte) []byte {
	raw := msg.Raw
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, req.ID.In(req.Raw)...)
	if msg.Kind == mcp.KindError {
		dst = append(dst, `,"error":`...)
		return append(append(dst, msg.Error.In(raw)...), '}')
	}
	dst = append(dst, `,"result":{"protocolVersion":`...)
	dst = mcp.AppendQuote(dst, revision)
	dst = append(dst, `,"capabilities":{`...)
	offered := mcp.Find(raw, msg.Result, "capabilities")
	sep := ""
	for _, key := range sharedCapabilities() {
		if value := mcp.Find(raw, offered, key); isObject(raw, value) {
			dst = append(append(dst, sep...), `"`+key+`":`...)
			dst = append(dst, value.In(raw)...)
			sep = ","
		}
	}
	dst = append(dst, `},"serverInfo":`...)
	if info := mcp.Find(raw, msg.Meta, mcp.MetaServerInfo); isObject(raw, info) {
		dst = append(dst, info.In(raw)...)
	} else {
		dst = append(dst, own...)
	}
	if text := mcp.Find(raw, msg.Result, "instructions"); text.Ok() {
		dst = append(dst, `,"instructions":`...)
		dst = append(dst, text.In(raw)...)
	}
	return append(dst, "}}"...)
}
