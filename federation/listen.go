package federation

import (
	"context"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// stream is one client's listen stream.
type stream struct {
	id    []byte // raw: the subscription id
	at    Endpoint
	alias string // of the endpoint
	mode  mode   // of its lists of tools
	// caller is who listens, audience the class that they belong to, and heard are the
	// members whose lists they want to know of; guarded by the hub.
	caller   caller
	audience audience
	heard    []*member
	forwards []string // the headers that are kept of caller, if there
	wants    [kindResources + 1]bool
	uris     []watch
	tasks    []watch
	queue    *Queue
	ended    bool // guarded by the hub
}

// key names the list of a kind that the stream is told of.
func (s *stream) key(k kind) topicKey {
	key := topicKey{audience: s.audience, viewKey: viewKey{alias: s.alias, kind: k}}
	if k == kindTools {
		key.mode = s.mode
	}
	return key
}

// wantsLists tells whether the stream wants to know of changes of any list.
func (s *stream) wantsLists() bool { return s.wants != [len(s.wants)]bool{} }

// fits tells whether a stream may go on under a new roster. One whose endpoint
// went ends, as does one whose URL may not choose a mode any more; so does one whose
// watched upstream went or has another configuration, or whose client may not have what
// it watches any more: it must ask anew to learn what it may watch. One that came
// before a header counted ends too, since that was not kept of it.
func (s *stream) fits(next *roster) bool {
	if next.checkEndpoint(s.at) != nil {
		return false
	}
	for _, name := range next.forwards {
		if !slices.Contains(s.forwards, name) {
			return false
		}
	}
	d := next.seenBy(s.caller)
	if s.alias != "" && d.byAlias[s.alias] == nil {
		return false
	}
	for _, w := range s.uris {
		if !d.has(w.member) || !d.mayHear(s.caller.who, w.member, w.name) {
			return false
		}
	}
	for _, w := range s.tasks {
		if !d.has(w.member) {
			return false
		}
	}
	return true
}

// subscribe opens a listen stream for a checked subscriptions/listen request. It
// asks no upstream: what is granted follows from what is known
// (2026-07-28, basic/patterns/subscriptions). Only what policy may read is asked for.
func (h *hub) subscribe(ctx context.Context, c *Call) (*Subscription, error) {
	for {
		base := h.domain.current()
		if err := base.checkEndpoint(c.Endpoint); err != nil {
			return nil, err
		}
		d := base.seenBy(callerOf(c))
		if c.Endpoint.Alias != "" && d.byAlias[c.Endpoint.Alias] == nil {
			return nil, ErrNoEndpoint
		}
		d.take(c)
		s, err := h.read(ctx, d, c)
		if err != nil {
			return nil, err
		}
		if ok, err := h.join(d, s); ok || err != nil {
			return &Subscription{Ack: s.ack(), End: s.end(), queue: s.queue, close: func() { h.leave(s) }}, err
		}
	}
}

// join takes in a stream that was made for d; false when the tenant is another
// one by now.
func (h *hub) join(d *roster, s *stream) (bool, error) {
	limit := d.snap.Limits.ListenStreams
	if limit <= 0 {
		limit = h.domain.fed.opts.Limits.ListenStreams
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return false, ErrNoEndpoint
	case d.outdated():
		return false, nil
	case len(h.open) >= limit:
		h.domain.fed.metrics.rejected(h.domain.name, "listen_streams")
		return false, overQuota("too many listen streams of this tenant are open", time.Minute)
	}
	h.add(s, d)
	return true, nil
}

// read checks the filter and finds what can be granted.
func (h *hub) read(ctx context.Context, d *roster, c *Call) (*stream, error) {
	r := c.Request
	if !r.Notifications.Ok() || r.Raw[r.Notifications.Start] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications must be an object")
	}
	s := &stream{
		id:    append([]byte(nil), r.ID.In(r.Raw)...),
		at:    c.Endpoint,
		alias: c.Endpoint.Alias,
		mode:  d.modeOf(c.Endpoint),

		audience: d.audience,
		forwards: d.forwards,
		queue:    NewQueue(h.domain.fed.opts.Limits.ListenQueue),
	}
	who := c.Principal
	s.caller = caller{who: &who, toolset: c.Endpoint.Toolset, header: pick(c.Header, d.forwards)}
	for m := range mcp.Members(r.Raw, r.Notifications) {
		var err error
		switch m.Key {
		case "toolsListChanged":
			s.wants[kindTools], err = readBool(r.Raw, m)
		case "promptsListChanged":
			s.wants[kindPrompts], err = readBool(r.Raw, m)
		case "resourcesListChanged":
			s.wants[kindResources], err = readBool(r.Raw, m)
		case "resourceSubscriptions":
			s.uris, err = h.readWatches(r.Raw, m, h.watchResource(ctx, d, c))
		case "taskIds":
			if !declares(r, mcp.ExtensionTasks) {
				return nil, missingTasks()
			}
			s.tasks, err = h.readWatches(r.Raw, m, h.watchTask(d, c))
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func readBool(raw []byte, m mcp.Member) (bool, error) {
	switch string(m.Value.In(raw)) {
	case "true":
		return true, nil
	case "false", "null":
		return false, nil
	}
	return false, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications.%s must be a boolean", m.Key)
}

func (h *hub) readWatches(raw []byte, m mcp.Member, find func(string) *target) ([]watch, error) {
	var out []watch
	if raw[m.Value.Start] != '[' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications.%s must be an array of strings", m.Key)
	}
	n, most := 0, h.domain.fed.opts.Limits.Watches
	for at := range mcp.Elements(raw, m.Value) {
		if n++; n > most {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications.%s has more than %d elements", m.Key, most)
		}
		exposed, ok := mcp.String(raw, at)
		if !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications.%s must be an array of strings", m.Key)
		}
		if t := find(exposed); t != nil {
			out = append(out, watch{t.member, t.name, exposed})
		}
	}
	return out, nil
}

// ack is the stream's first message: the part of the filter that is granted.
func (s *stream) ack() []byte {
	b := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotificationAcknowledged+`","params":{"_meta":`...)
	b = s.appendMeta(b)
	b = append(b, `,"notifications":{`...)
	sep := ""
	for i, name := range []string{"toolsListChanged", "promptsListChanged", "resourcesListChanged"} {
		if s.wants[listKinds[i]] {
			b = append(b, sep+`"`+name+`":true`...)
			sep = ","
		}
	}
	for _, f := range []struct {
		name string
		list []watch
	}{{"resourceSubscriptions", s.uris}, {"taskIds", s.tasks}} {
		if len(f.list) == 0 {
			continue
		}
		b = append(b, sep+`"`+f.name+`":[`...)
		for i, w := range f.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = mcp.AppendQuote(b, w.exposed)
		}
		b = append(b, ']')
		sep = ","
	}
	return append(b, "}}}"...)
}

// end is the completion result (basic/patterns/subscriptions, Graceful Closure).
func (s *stream) end() []byte {
	b := append([]byte(nil), `{"jsonrpc":"2.0","id":`...)
	b = append(b, s.id...)
	b = append(b, `,"result":{"resultType":"complete","_meta":`...)
	return append(s.appendMeta(b), "}}"...)
}

func (s *stream) appendMeta(b []byte) []byte {
	b = append(b, `{"`+mcp.MetaSubscriptionID+`":`...)
	b = append(b, s.id...)
	return append(b, '}')
}
