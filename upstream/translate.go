package upstream

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Revisions of the handshake era.
const (
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"
	version20241105 = "2024-11-05"
)

// isHandshake tells whether we speak that revision of the handshake era.
func isHandshake(version string) bool {
	switch version {
	case version20251125, version20250618, version20250326, version20241105:
		return true
	}
	return false
}

// Methods of the handshake era.
const (
	methodInitialize  = "initialize"
	methodPing        = "ping"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodElicit      = "elicitation/create"
	methodSample      = "sampling/createMessage"
	methodRoots       = "roots/list"

	notificationInitialized = "notifications/initialized"
)

// isOwned tells whether a method means something else in the handshake era, or is
// the session's own: a client's request with it goes to no server.
func isOwned(method string) bool {
	switch method {
	case mcp.MethodListen, mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel,
		"tasks/list", "tasks/result", methodInitialize, methodPing, methodSetLevel, methodSubscribe, methodUnsubscribe:
		return true
	}
	return false
}

// isHandshakeMethod tells whether a method of clients is one of the handshake era
// that goes to servers; others are those of extensions, or nobody's.
func isHandshakeMethod(method string) bool {
	switch method {
	case mcp.MethodToolsList, mcp.MethodToolsCall, mcp.MethodPromptsList, mcp.MethodPromptsGet, mcp.MethodResourcesList,
		mcp.MethodTemplatesList, mcp.MethodResourcesRead, mcp.MethodComplete:
		return true
	}
	return false
}

// asksClient tells whether a server may ask the client something while it carries
// the method out (2026-07-28, basic/patterns/mrtr, Supported Requests).
func asksClient(method string) bool {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// spliceRoom is the room to leave behind a message for what is spliced into it.
const spliceRoom = 64

// toHandshake gives the handshake form of a modern request: without the `_meta`
// keys and parameters that only the modern revision has. The span that ctx carries
// is named in `_meta` where there is one (as withTrace does).
func toHandshake(ctx context.Context, req *mcp.Request) []byte {
	var edits mcp.Edits
	raw := req.Raw
	if meta := req.Meta.Span; meta.Ok() {
		if with := handshakeMeta(ctx, raw, meta); len(with) > len("{}") {
			edits.Replace(meta, with)
		} else {
			edits.RemoveMember(raw, req.Params, "_meta")
		}
	}
	if req.InputResponses.Ok() {
		edits.RemoveMember(raw, req.Params, "inputResponses")
	}
	if req.RequestState.Ok() {
		edits.RemoveMember(raw, req.Params, "requestState")
	}
	return edits.AppendTo(make([]byte, 0, len(raw)+spliceRoom), raw)
}

// handshakeMeta gives the `_meta` at meta without what the modern revision has put
// there. Other members keep their bytes and their order.
func handshakeMeta(ctx context.Context, raw []byte, meta mcp.Span) []byte {
	traced := trace.SpanContextFromContext(ctx).IsValid()
	b := make([]byte, 0, spliceRoom)
	add := func(member []byte) {
		if len(b) > 0 {
			b = append(b, ',')
		} else {
			b = append(b, '{')
		}
		b = append(b, member...)
	}
	for m := range mcp.Members(raw, meta) {
		switch m.Key {
		case mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel:
		case mcp.MetaTraceparent, mcp.MetaTracestate:
			if !traced {
				add(m.At.In(raw))
			}
		default:
			add(m.At.In(raw))
		}
	}
	if traced {
		fields := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, fields)
		for _, key := range []string{mcp.MetaTraceparent, mcp.MetaTracestate} {
			if v := fields[key]; v != "" {
				add(mcp.AppendQuote(append(mcp.AppendQuote(nil, key), ':'), v))
			}
		}
	}
	return append(b, '}')
}

// clientCaps is a set of client capabilities: what a request declares, in the form
// in which a handshake declares it.
type clientCaps struct {
	declared []byte // raw JSON
	digest   [sha256.Size]byte

	form, url, sampling, samplingTools, samplingContext, roots bool
}

// asks tells whether a server may ask such a client anything.
func (c *clientCaps) asks() bool { return c.form || c.url || c.sampling || c.roots }

// maxKnownCaps bounds the capability sets that are remembered, and
// maxKnownCapsSize the size of each in bytes.
const (
	maxKnownCaps     = 256
	maxKnownCapsSize = 8 << 10
)

// capsMemory remembers capability sets by their raw JSON: clients declare theirs
// with each request, and there are few different ones.
type capsMemory struct {
	mu    sync.RWMutex
	known map[string]*clientCaps
}

// of reads the capabilities that a request declares; raw may be nil.
func (k *capsMemory) of(raw []byte) *clientCaps {
	k.mu.RLock()
	c := k.known[string(raw)]
	k.mu.RUnlock()
	if c != nil {
		return c
	}
	c = readCaps(raw)
	if len(raw) > maxKnownCapsSize {
		return c
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxKnownCaps {
		k.known = map[string]*clientCaps{}
	}
	k.known[string(raw)] = c
	return c
}

// readCaps reads raw, which is part of a parsed message.
func readCaps(raw []byte) *clientCaps {
	whole := mcp.Span{Start: 0, End: len(raw)}
	if len(raw) == 0 || raw[0] != '{' {
		return readCaps([]byte("{}"))
	}
	c := &clientCaps{declared: declaration(raw)}
	has := func(obj mcp.Span, key string) bool { return isObject(raw, mcp.Find(raw, obj, key)) }
	if elicitation := mcp.Find(raw, whole, "elicitation"); isObject(raw, elicitation) {
		c.url = has(elicitation, "url")
		// 2026-07-28, client/elicitation, Capabilities: an empty object means form.
		c.form = has(elicitation, "form") || !c.url
	}
	if sampling := mcp.Find(raw, whole, "sampling"); isObject(raw, sampling) {
		c.sampling, c.samplingTools, c.samplingContext = true, has(sampling, "tools"), has(sampling, "context")
	}
	c.roots = has(whole, "roots")
	// It is valid JSON, so this cannot fail.
	c.digest, _ = mcp.CanonicalDigest(c.declared)
	return c
}

func isObject(raw []byte, at mcp.Span) bool { return at.Ok() && raw[at.Start] == '{' }

// declaration gives the capabilities as a handshake declares them: without those
// that the gateway could not honour in the client's name.
func declaration(raw []byte) []byte {
	whole := mcp.Span{Start: 0, End: len(raw)}
	var edits mcp.Edits
	edits.RemoveMember(raw, whole, "tasks") // of 2025-11-25
	if ext := mcp.Find(raw, whole, "extensions"); isObject(raw, ext) {
		edits.RemoveMember(raw, ext, mcp.ExtensionTasks)
	}
	if roots := mcp.Find(raw, whole, "roots"); isObject(raw, roots) {
		edits.RemoveMember(raw, roots, "listChanged")
	}
	if edits.Empty() {
		return slices.Clone(raw)
	}
	return edits.AppendTo(nil, raw)
}
