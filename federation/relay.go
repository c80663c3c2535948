package federation

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const classProtocol = upstream.ClassProtocol

// exchange is one relayed request: what is needed to turn it into the upstream's
// form and the answer back into the client's.
type exchange struct {
	domain  *roster
	call    *Call
	target  *target
	merged  bool   // names, URIs and task ids are exposed in another form
	id      []byte // our own id, and progress token, in raw JSON
	binding *stateBinding
	keep    func(*mcp.Message) // is given the final message; may be nil
	waited  time.Duration

	upstream bound // the upstream's, where it has limits

	// Memory that is used again within the exchange.
	digits [20]byte // of id
	edits  mcp.Edits
	req    upstream.Request
}

func (d *roster) exchange(c *Call, t *target) *exchange {
	return &exchange{domain: d, call: c, target: t, merged: c.Endpoint.Alias == ""}
}

// relay sends the request to its target and gives the answer.
func (d *roster) relay(ctx context.Context, c *Call, t *target) (*Reply, error) {
	return d.exchange(c, t).relay(ctx)
}

func (x *exchange) relay(ctx context.Context) (*Reply, error) {
	if err := x.admit(ctx); err != nil {
		return nil, err
	}
	defer x.leave()
	reply, err := x.do(ctx)
	if err == errHeaderMismatch {
		// The upstream's schema changed under us: read it again and retry once
		// (2026-07-28, basic/transports/streamable-http, Client Behavior).
		if reply, err = x.again(ctx); err == errHeaderMismatch {
			return nil, unavailable(x.target.member.conf.Alias, upstream.ClassRejected, "it refuses the headers of a request")
		}
	}
	return reply, err
}

// errHeaderMismatch is an upstream's -32020.
var errHeaderMismatch = errors.New("header mismatch")

// again re-reads the list that the target came from and sends the request once
// more. What came from no list is not sent again.
func (x *exchange) again(ctx context.Context) (*Reply, error) {
	m := x.target.member
	var k kind
	switch x.call.Request.Method {
	case mcp.MethodToolsCall:
		k = kindTools
	case mcp.MethodPromptsGet:
		k = kindPrompts
	default:
		return nil, errHeaderMismatch
	}
	wait, cancel := context.WithTimeout(ctx, m.listWait())
	defer cancel()
	seg, err := m.anew(wait, k)
	if err != nil {
		return nil, x.failed(ctx, err)
	}
	it := seg.index[x.target.name]
	if it == nil {
		return nil, unknown(k, x.call.Request.Name.Value)
	}
	x.target.item = it
	if err := x.checkAgain(k); err != nil {
		return nil, err
	}
	return x.do(ctx)
}

// checkAgain checks the call of what has another definition by now.
func (x *exchange) checkAgain(k kind) error {
	d, t := x.domain, x.target
	if !d.audience.hidden {
		return nil
	}
	now := d.lookup(x.call.Endpoint.Alias, k, t.exposed)
	if now == nil || now.member != t.member || now.name != t.name {
		return unknown(k, t.exposed)
	}
	return d.checkNamed(x.call, k, now)
}

// do sends the request once and reads its answer.
func (x *exchange) do(ctx context.Context) (*Reply, error) {
	req, err := x.request(ctx)
	if err != nil {
		return nil, err
	}
	if mayChange(req.Method) {
		x.target.member.calls.Add(1)
		defer x.target.member.calls.Add(1)
	}
	resp, err := x.target.member.doer.Do(ctx, req)
	if err != nil {
		return nil, x.failed(ctx, err)
	}
	defer resp.Close()
	for {
		msg, err := resp.Next()
		if errors.Is(err, io.EOF) {
			err = x.target.member.nonsense(upstream.ClassInterrupted, "the answer ended before its final message")
		}
		if err != nil {
			return nil, x.failed(ctx, err)
		}
		switch msg.Kind {
		case mcp.KindNotification:
			if err := x.notify(ctx, msg); err != nil {
				return nil, err
			}
		case mcp.KindResult:
			if x.keep != nil {
				x.keep(msg)
			}
			reply, err := x.result(ctx, msg, -1)
			x.settle(reply, resp)
			return reply, err
		case mcp.KindError:
			reply, err := x.rpcError(ctx, msg, resp.Status())
			x.settle(reply, resp)
			return reply, err
		case mcp.KindRequest:
			// Modern servers send none (basic/patterns); there is nobody to ask.
		}
	}
}

// mayChange tells whether a request may change something at the upstream.
func mayChange(method string) bool {
	return method != mcp.MethodResourcesRead && method != mcp.MethodComplete && method != mcp.MethodPromptsGet
}

// settle notes who answered and how long we waited.
func (x *exchange) settle(reply *Reply, resp upstream.Answer) {
	x.waited += resp.Waited()
	if reply != nil {
		reply.Upstream = x.target.member.conf.Alias
		reply.Waited = x.waited
	}
}

// failed gives the client's own leaving precedence over what it caused.
func (x *exchange) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// request makes the upstream's form of the client's request.
func (x *exchange) request(ctx context.Context) (*upstream.Request, error) {
	r, t := x.call.Request, x.target
	x.id = strconv.AppendInt(x.digits[:0], x.domain.fed.nextID(), 10)
	e := &x.edits
	e.Reset()
	e.Replace(r.ID, x.id)
	req := &x.req
	*req = upstream.Request{
		Method: r.Method, ID: x.id, Header: x.forwarded(),
		Principal: principalKey(&x.call.Principal), Session: x.call.Session,
	}
	if r.Meta.ProgressToken.Ok() {
		e.Replace(r.Meta.ProgressToken, x.id)
		req.ProgressToken = x.id
	}
	if t.field.Ok() && t.name != t.field.Value {
		e.Replace(t.field.Span, t.quoted())
	}
	unwrapped := x.merged && r.Method == mcp.MethodToolsCall && unwrapArguments(e, r.Raw, r.Arguments, t.member.conf.Alias)
	if r.RequestState.Ok() {
		state, err := x.openState()
		if err != nil {
			return nil, err
		}
		e.Replace(r.RequestState.Span, state)
	}
	switch r.Method {
	case mcp.MethodToolsCall:
		req.Name, req.HasName, req.ToolName = t.name, true, t.name
	case mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		req.Name, req.HasName = t.name, true
	default:
		if err := x.passName(req); err != nil {
			return nil, err
		}
	}
	req.Body = mcp.GetBuffer(len(r.Raw) + 256)
	req.Body.B = e.AppendTo(req.Body.B, r.Raw)
	if t.item != nil && len(t.item.params) > 0 {
		if err := x.params(req, unwrapped); err != nil {
			req.Body.Release()
			return nil, err
		}
	}
	return req, nil
}

// principalKey is a string that is equal for one user only; empty for nobody.
func principalKey(p *tenant.Principal) string {
	if p.Issuer == "" && p.Subject == "" {
		return ""
	}
	return p.Issuer + "\x00" + p.Subject
}

// passName keeps the Mcp-Name of a method that the gateway does not know.
func (x *exchange) passName(req *upstream.Request) error {
	values := x.call.Header[mcp.HeaderName]
	if !x.unknownMethod() || len(values) == 0 {
		return nil
	}
	name, err := mcp.DecodeHeader(values[0])
	if err != nil {
		return mcp.Errorf(mcp.CodeHeaderMismatch, "Header mismatch: %s is malformed: %v", mcp.HeaderName, err)
	}
	req.Name, req.HasName = name, true
	return nil
}

// params derives the Mcp-Param headers from the arguments that are sent: the
// client's own, unless URIs in them have been unwrapped.
func (x *exchange) params(req *upstream.Request, unwrapped bool) error {
	args := x.call.Request.Arguments.In(x.call.Request.Raw)
	if unwrapped {
		sent, perr := mcp.ParseRequest(req.Body.B, x.domain.fed.opts.Limits.MaxDepth)
		if perr != nil {
			return perr
		}
		args = sent.Arguments.In(sent.Raw)
	}
	for i := range x.target.item.params {
		p := &x.target.item.params[i]
		value, ok, err := p.Value(args)
		if err != nil {
			return mcp.Errorf(mcp.CodeHeaderMismatch, "%s: %v", p.Header(), err)
		}
		if ok {
			req.Params = append(req.Params, upstream.Header{Name: p.Header(), Value: value})
		}
	}
	return nil
}

// forwarded gives the client's headers that pass through: Mcp-Param-* that the
// tool's schema does not name (the others are made anew), and those of the
// upstream's configuration.
func (x *exchange) forwarded() http.Header {
	var out http.Header
	add := func(name string, values []string) {
		if out == nil {
			out = http.Header{}
		}
		out[name] = values
	}
	for name, values := range x.call.Header {
		if strings.HasPrefix(name, mcp.HeaderParamPrefix) && !x.recognised(name) {
			add(name, values)
		}
	}
	for _, name := range x.target.member.conf.ForwardHeaders {
		name = http.CanonicalHeaderKey(name)
		if values := x.call.Header[name]; len(values) > 0 {
			add(name, values)
		}
	}
	return out
}

func (x *exchange) recognised(header string) bool {
	if x.target.item == nil {
		return false
	}
	for i := range x.target.item.params {
		if strings.EqualFold(x.target.item.params[i].Header(), header) {
			return true
		}
	}
	return false
}

// bound gives what a requestState of this request is good for.
func (x *exchange) bound() (*stateBinding, error) {
	if x.binding != nil {
		return x.binding, nil
	}
	r, p := x.call.Request, &x.call.Principal
	digest, err := mcp.CanonicalDigest(r.Arguments.In(r.Raw))
	if err != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.arguments cannot be read")
	}
	x.binding = &stateBinding{
		tenant: x.domain.name, issuer: p.Issuer, subject: p.Subject,
		alias: x.target.member.conf.Alias, method: r.Method, name: x.target.name, args: digest,
	}
	return x.binding, nil
}

// openState gives the upstream's own requestState, as raw JSON.
func (x *exchange) openState() ([]byte, error) {
	b, err := x.bound()
	if err != nil {
		return nil, err
	}
	return openState(x.domain.fed.opts.Ring, b, x.call.Request.RequestState.Value, x.domain.fed.now())
}
