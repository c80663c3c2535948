package federation

import (
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// enlist has a stream told of a list. The caller holds the lock.
func (h *hub) enlist(s *stream, k kind, d *roster) *topic {
	key := s.key(k)
	t := h.topics[key]
	if t == nil {
		t = &topic{streams: map[*stream]struct{}{}, told: h.look(key, d)}
		h.topics[key] = t
	}
	t.from = d
	t.streams[s] = struct{}{}
	return t
}

// delist undoes enlist.
func (h *hub) delist(s *stream, k kind) {
	key := s.key(k)
	if t := h.topics[key]; t != nil {
		delete(t.streams, s)
		if len(t.streams) == 0 {
			delete(h.topics, key)
		}
	}
}

// move gives a stream the mode and the audience that it has under another registration,
// of which d is what its caller sees, and tells it of the lists which that makes other
// ones. The caller holds the lock.
func (h *hub) move(s *stream, d *roster) {
	var told [len(s.wants)]sight
	for _, k := range listKinds {
		if s.wants[k] {
			told[k] = h.topics[s.key(k)].told
		}
	}
	mode := d.modeOf(s.at)
	moves := mode != s.mode || d.audience != s.audience
	for _, k := range listKinds {
		if s.wants[k] && moves {
			h.delist(s, k)
		}
	}
	s.mode, s.audience = mode, d.audience
	for _, k := range listKinds {
		if !s.wants[k] {
			continue
		}
		if t := h.enlist(s, k, d); moves && t.told != told[k] {
			h.tellOne(s, k)
		}
	}
}

// tellOne tells a stream that a list changed. The caller holds the lock.
func (h *hub) tellOne(s *stream, k kind) {
	method, label := changedMethod(k)
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","method":"`+method+`","params":{"_meta":`...)
	h.send(s, label, append(s.appendMeta(b), "}}"...))
}

// send queues a message; a reader that lets its queue run full is ended
// gracefully, not waited for. The caller holds the lock.
func (h *hub) send(s *stream, kind noteKind, msg []byte) {
	if s.ended {
		return
	}
	if s.queue.Push(msg) {
		h.domain.fed.metrics.notified(kind, outcomeSent)
		return
	}
	h.domain.fed.metrics.notified(kind, outcomeDropped)
	h.domain.log.Info("listen stream ended: its reader is too slow")
	h.finish(s)
}

func changedMethod(k kind) (method string, label noteKind) {
	switch k {
	case kindTools:
		return mcp.NotificationToolsChanged, noteTools
	case kindPrompts:
		return mcp.NotificationPromptsChanged, notePrompts
	default:
		return mcp.NotificationResourcesChanged, noteResources
	}
}

// watched tells whether a stream wants to know of the member's resource, or of
// one that it is a part of.
func (h *hub) watched(m *member, uri string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers(m, uri)) > 0
}

// resourceChanged tells the streams that subscribed to exactly this URI, else
// those that subscribed to a parent of it (2026-07-28, server/resources: an
// update may be of a sub-resource). raw is the upstream's notification.
func (h *hub) resourceChanged(m *member, uri string, raw []byte) {
	msg, err := mcp.ParseMessage(raw, h.domain.fed.opts.Limits.MaxDepth)
	if err != nil {
		return // it was parsed before
	}
	h.mu.Lock()
	streams := h.watchers(m, uri)
	now := h.domain.current()
	for s := range streams {
		// A part of what one may have is not always what one may have.
		if s.audience.hidden && !now.seenBy(s.caller).mayHear(s.caller.who, m, uri) {
			delete(streams, s)
		}
	}
	h.mu.Unlock()
	h.deliver(streams, noteUpdated, msg, func(e *mcp.Edits) {
		spliceString(e, msg.Raw, msg.URI.Span, uri, exposedURI(m.conf.Alias, uri))
	})
}

// watchers finds the streams for a URI of a member; those to which it goes under
// the alias are true. The caller holds the lock.
func (h *hub) watchers(m *member, uri string) map[*stream]bool {
	dm := h.demands[m]
	if dm == nil || len(dm.uris) == 0 {
		return nil
	}
	if exact := dm.uris[uri]; exact != nil {
		found := make(map[*stream]bool, len(exact))
		for s, exposed := range exact {
			found[s] = exposed != uri
		}
		return found
	}
	if len(uri) > maxMatchLen {
		return nil
	}
	var found map[*stream]bool
	under := func(parent string) {
		for s, exposed := range dm.uris[parent] {
			if found == nil {
				found = map[*stream]bool{}
			}
			found[s] = exposed != parent
		}
	}
	// A parent ends with a slash, or is followed by one.
	for i := strings.LastIndexByte(uri, '/'); i > 0; i = strings.LastIndexByte(uri[:i], '/') {
		if i+1 < len(uri) {
			under(uri[:i+1])
		}
		under(uri[:i])
	}
	return found
}

// taskChanged tells the streams that subscribed to the task.
func (h *hub) taskChanged(m *member, msg *mcp.Message) {
	streams := map[*stream]bool{}
	h.mu.Lock()
	if dm := h.demands[m]; dm != nil {
		for s := range dm.tasks[msg.TaskID.Value] {
			streams[s] = s.alias == ""
		}
	}
	d := h.domain.current()
	for s := range streams {
		d = d.seenBy(s.caller) // those of one member share all members
		break
	}
	h.mu.Unlock()
	h.deliver(streams, noteTasks, msg, func(e *mcp.Edits) {
		// The upstream's stream is not kept waiting for lists.
		rewriteNotification(e, msg, d.exposeKnown(m), func(id string) string { return m.conf.Alias + "+" + id })
	})
}

// deliver sends an upstream's notification to streams, each with its own
// subscription id; to those that are true in the form that expose gives it.
func (h *hub) deliver(streams map[*stream]bool, kind noteKind, msg *mcp.Message, expose func(e *mcp.Edits)) {
	var shown *mcp.Message
	for s, under := range streams {
		form := msg
		if under {
			if shown == nil {
				if shown = h.edited(msg, expose); shown == nil {
					return
				}
			}
			form = shown
		}
		b := s.mark(form)
		h.mu.Lock()
		h.send(s, kind, b)
		h.mu.Unlock()
	}
}

// edited gives a message with edits applied.
func (h *hub) edited(msg *mcp.Message, edit func(e *mcp.Edits)) *mcp.Message {
	var e mcp.Edits
	edit(&e)
	out, err := mcp.ParseMessage(e.AppendTo(nil, msg.Raw), h.domain.fed.opts.Limits.MaxDepth)
	if err != nil {
		h.domain.log.Error("edit a notification", "method", msg.Method, "error", err)
		return nil
	}
	return out
}

// mark gives a notification with the stream's subscription id
// (basic/patterns/subscriptions, Receiving Notifications).
func (s *stream) mark(msg *mcp.Message) []byte {
	var e mcp.Edits
	switch meta := mcp.Find(msg.Raw, msg.Params, "_meta"); {
	case !meta.Ok():
		e.SetMember(msg.Raw, msg.Params, "_meta", s.appendMeta(nil))
	case msg.Raw[meta.Start] == '{':
		e.SetMember(msg.Raw, meta, mcp.MetaSubscriptionID, s.id)
	default:
		e.Replace(meta, s.appendMeta(nil))
	}
	return e.AppendTo(make([]byte, 0, len(msg.Raw)+128), msg.Raw)
}

// dropTasks ends the streams that were granted tasks of an upstream which turned
// out not to push them.
func (h *hub) dropTasks(m *member, refused func(id string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	dm := h.demands[m]
	if dm == nil {
		return
	}
	for id, streams := range dm.tasks {
		if refused(id) {
			for s := range streams {
				h.finish(s)
			}
		}
	}
}
