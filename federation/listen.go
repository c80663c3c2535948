package federation

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// hub fans one tenant's notifications out to its listen streams, and keeps one
// listener for each upstream that somebody listens to.
type hub struct {
	domain  *domain
	streams atomic.Int64 // how many are open

	mu        sync.Mutex
	closed    bool
	open      map[*stream]struct{}
	listeners map[*member]*listener
	dirty     map[viewKey]bool     // views that may have changed since the last flush
	told      map[viewKey][32]byte // the digests that streams were last told of
	forced    map[viewKey]bool     // views of one upstream that it has announced a change of
	flushing  bool                 // a flush is due
}

func newHub(d *domain) *hub {
	return &hub{
		domain:    d,
		open:      map[*stream]struct{}{},
		listeners: map[*member]*listener{},
		dirty:     map[viewKey]bool{},
		told:      map[viewKey][32]byte{},
		forced:    map[viewKey]bool{},
	}
}

// stream is one client's listen stream.
type stream struct {
	id    []byte // raw: the subscription id
	alias string // of the endpoint
	wants [kindResources + 1]bool
	uris  []watch
	tasks []watch
	ch    chan []byte
	ended bool // guarded by the hub
}

// listKinds are the kinds whose changes are told; templates belong to resources.
var listKinds = [...]kind{kindTools, kindPrompts, kindResources}

// told gives the list that a client is told of for a kind.
func (k kind) told() kind {
	if k == kindTemplates {
		return kindResources
	}
	return k
}

// subscribe opens a listen stream for a checked subscriptions/listen request. It
// asks no upstream: what is granted follows from what is known
// (2026-07-28, basic/patterns/subscriptions).
func (h *hub) subscribe(c *Call) (*Subscription, error) {
	for {
		d := h.domain.current()
		if c.Endpoint.Alias != "" && d.byAlias[c.Endpoint.Alias] == nil {
			return nil, ErrNoEndpoint
		}
		s, err := h.read(d, c)
		if err != nil {
			return nil, err
		}
		if ok, err := h.join(d, s); ok || err != nil {
			return &Subscription{Ack: s.ack(), C: s.ch, End: s.end(), close: func() { h.leave(s) }}, err
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
	case h.domain.current() != d:
		return false, nil
	case len(h.open) >= limit:
		h.domain.fed.metrics.rejected(h.domain.name, "listen_streams")
		return false, overQuota("too many listen streams of this tenant are open", time.Minute)
	}
	h.open[s] = struct{}{}
	h.streams.Add(1)
	for _, k := range listKinds {
		if key := (viewKey{s.alias, k}); s.wants[k] {
			if _, ok := h.told[key]; !ok {
				h.told[key] = h.digest(key)
			}
		}
	}
	h.employ()
	return true, nil
}

// read checks the filter and finds what can be granted.
func (h *hub) read(d *roster, c *Call) (*stream, error) {
	r := c.Request
	if !r.Notifications.Ok() || r.Raw[r.Notifications.Start] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications must be an object")
	}
	s := &stream{
		id:    append([]byte(nil), r.ID.In(r.Raw)...),
		alias: c.Endpoint.Alias,
		ch:    make(chan []byte, h.domain.fed.opts.Limits.ListenQueue),
	}
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
			s.uris, err = readWatches(r.Raw, m, h.watchResource(d, c))
		case "taskIds":
			if !declares(r, mcp.ExtensionTasks) {
				return nil, missingTasks()
			}
			s.tasks, err = readWatches(r.Raw, m, h.watchTask(d, c))
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

func readWatches(raw []byte, m mcp.Member, find func(string) *target) ([]watch, error) {
	var out []watch
	if raw[m.Value.Start] != '[' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "params.notifications.%s must be an array of strings", m.Key)
	}
	for at := range mcp.Elements(raw, m.Value) {
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

// leave ends a stream for its client.
func (h *hub) leave(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finish(s)
	if !h.closed {
		h.employ()
	}
}

// finish takes a stream out. The caller holds the lock.
func (h *hub) finish(s *stream) {
	if s.ended {
		return
	}
	s.ended = true
	delete(h.open, s)
	h.streams.Add(-1)
	close(s.ch)
}

// send queues a message; a reader that lets its queue run full is ended
// gracefully, not waited for. The caller holds the lock.
func (h *hub) send(s *stream, kind string, msg []byte) {
	if s.ended {
		return
	}
	select {
	case s.ch <- msg:
		h.domain.fed.metrics.notified(kind, "sent")
	default:
		h.domain.fed.metrics.notified(kind, "dropped")
		h.domain.log.Info("listen stream ended: its reader is too slow")
		h.finish(s)
	}
}

// employ starts a listener for each upstream that a stream needs and stops the
// others. The caller holds the lock.
func (h *hub) employ() {
	need := map[*member]*interest{}
	want := func(m *member) *interest {
		if need[m] == nil {
			need[m] = &interest{uris: map[string]bool{}, tasks: map[string]bool{}}
		}
		return need[m]
	}
	for s := range h.open {
		if s.wants != ([kindResources + 1]bool{}) {
			for _, m := range h.domain.current().at(s.alias) {
				want(m)
			}
		}
		for _, w := range s.uris {
			want(w.member).uris[w.name] = true
		}
		for _, w := range s.tasks {
			want(w.member).tasks[w.name] = true
		}
	}
	for m, l := range h.listeners {
		if need[m] == nil || !h.domain.current().has(m) {
			l.stop()
			delete(h.listeners, m)
		}
	}
	for m, in := range need {
		if !h.domain.current().has(m) {
			continue
		}
		if l := h.listeners[m]; l != nil {
			l.set(in)
		} else {
			h.listeners[m] = newListener(h, m, in)
		}
	}
}

// changed is told by the catalogue that a member's segment of kind k has been
// replaced by one with another digest. A first segment is no change for anyone,
// unless a list has been served without it (silent is false then). The caller
// holds the lock since before the segment was replaced.
func (h *hub) changed(m *member, k kind, silent bool) {
	if k == kindDiscover {
		return
	}
	for _, key := range []viewKey{{"", k.told()}, {m.conf.Alias, k.told()}} {
		if _, ok := h.told[key]; !ok {
			continue
		}
		if silent && !h.dirty[key] {
			h.told[key] = h.digest(key)
			continue
		}
		h.dirty[key] = true
	}
	h.schedule()
}

// announced is told that an upstream says a list of its has changed, before it
// is read again, and once more when it has been. Streams of the endpoint that
// shows this upstream alone are told in any case, as they would be without us;
// merged ones only when their view changed.
func (h *hub) announced(m *member, k kind, read bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := viewKey{m.conf.Alias, k.told()}
	if _, ok := h.told[key]; !ok {
		return
	}
	if !read {
		h.forced[key] = true
		return
	}
	if h.forced[key] {
		h.dirty[key] = true
		h.schedule()
	}
}

// schedule makes sure that the dirty views are looked at after the coalescing
// window. The caller holds the lock.
func (h *hub) schedule() {
	if h.flushing || len(h.dirty) == 0 || h.closed {
		return
	}
	h.flushing = h.domain.run(func(ctx context.Context) {
		select {
		case <-time.After(h.domain.fed.opts.Limits.Coalesce):
			h.flush()
		case <-ctx.Done():
		}
	})
}

// flush tells the streams whose own view changed.
func (h *hub) flush() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flushing = false
	for key := range h.dirty {
		delete(h.dirty, key)
		digest := h.digest(key)
		if digest == h.told[key] && !h.forced[key] {
			continue
		}
		delete(h.forced, key)
		h.told[key] = digest
		method, label := changedMethod(key.kind)
		heard := false
		for s := range h.open {
			if s.alias == key.alias && s.wants[key.kind] {
				heard = true
				b := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+method+`","params":{"_meta":`...)
				h.send(s, label, append(s.appendMeta(b), "}}"...))
			}
		}
		if !heard {
			delete(h.told, key)
		}
	}
}

// digest is that of the view, or of the two views that make the list of
// resources.
func (h *hub) digest(key viewKey) [32]byte {
	d := h.domain.current().view(key.alias, key.kind).digest
	if key.kind != kindResources {
		return d
	}
	t := h.domain.current().view(key.alias, kindTemplates).digest
	return sha256.Sum256(append(d[:], t[:]...))
}

func changedMethod(k kind) (method, label string) {
	switch k {
	case kindTools:
		return mcp.NotificationToolsChanged, "tools"
	case kindPrompts:
		return mcp.NotificationPromptsChanged, "prompts"
	default:
		return mcp.NotificationResourcesChanged, "resources"
	}
}

// reconfigure makes next what the tenant consists of; false once the hub is
// closed. It holds the lock all the while, so that nothing that is told meanwhile
// counts as told of the members that came or went.
func (h *hub) reconfigure(next *roster) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.domain.roster.Store(next)
	for s := range h.open {
		if s.alias != "" && next.byAlias[s.alias] == nil {
			h.finish(s)
			continue
		}
		// A watched upstream that went or has another configuration: the client
		// must ask anew to learn what it may watch.
		for _, w := range append(append([]watch(nil), s.uris...), s.tasks...) {
			if !next.has(w.member) {
				h.finish(s)
				break
			}
		}
	}
	h.employ()
	for key := range h.told {
		h.dirty[key] = true
	}
	for _, m := range next.members {
		for k := range kindDiscover {
			if m.known(k) == nil && h.listeners[m] != nil {
				h.listeners[m].reread(k)
			}
		}
	}
	h.schedule()
	return true
}

// close ends all streams gracefully. The listeners end with the domain's
// context.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.open {
		h.finish(s)
	}
	for m, l := range h.listeners {
		l.stop()
		delete(h.listeners, m)
	}
}
