package federation

import (
	"context"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// resourceChanged tells the streams that subscribed to exactly this URI, else
// those that subscribed to a parent of it (2026-07-28, server/resources: an
// update may be of a sub-resource). raw is the upstream's notification.
func (h *hub) resourceChanged(ctx context.Context, m *member, uri string, raw []byte) {
	msg, err := mcp.ParseMessage(raw, h.domain.fed.opts.Limits.MaxDepth)
	if err != nil {
		return // it was parsed before
	}
	h.mu.Lock()
	streams := h.watchers(m, uri)
	h.mu.Unlock()
	h.deliver(ctx, m, streams, "updated", msg)
}

// watchers finds the streams for a URI of a member. The caller holds the lock.
func (h *hub) watchers(m *member, uri string) []*stream {
	var exact, parent []*stream
	for s := range h.open {
		best := 0
		for _, w := range s.uris {
			switch {
			case w.member != m:
			case w.name == uri:
				best = 2
			case best == 0 && isBelow(uri, w.name):
				best = 1
			}
		}
		switch best {
		case 2:
			exact = append(exact, s)
		case 1:
			parent = append(parent, s)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return parent
}

// isBelow tells whether uri is a sub-resource of parent.
func isBelow(uri, parent string) bool {
	rest, ok := strings.CutPrefix(uri, parent)
	return ok && rest != "" && (strings.HasSuffix(parent, "/") || strings.HasPrefix(rest, "/"))
}

// taskChanged tells the streams that subscribed to the task.
func (h *hub) taskChanged(ctx context.Context, m *member, msg *mcp.Message) {
	var streams []*stream
	h.mu.Lock()
	for s := range h.open {
		for _, w := range s.tasks {
			if w.member == m && w.name == msg.TaskID.Value {
				streams = append(streams, s)
				break
			}
		}
	}
	h.mu.Unlock()
	h.deliver(ctx, m, streams, "tasks", msg)
}

// deliver sends an upstream's notification to streams, each with its own
// subscription id and the URIs and ids of its endpoint.
func (h *hub) deliver(ctx context.Context, m *member, streams []*stream, kind string, msg *mcp.Message) {
	for _, s := range streams {
		var e mcp.Edits
		if s.alias == "" {
			alias := m.conf.Alias
			mapURI := h.domain.current().exposeKnown(m)
			rewriteNotification(&e, msg, mapURI, func(id string) string { return alias + "+" + id })
		}
		if msg.Meta.Ok() {
			e.SetMember(msg.Raw, msg.Meta, mcp.MetaSubscriptionID, s.id)
		} else {
			e.SetMember(msg.Raw, msg.Params, "_meta", s.appendMeta(nil))
		}
		b := e.AppendTo(make([]byte, 0, len(msg.Raw)+64), msg.Raw)
		h.mu.Lock()
		h.send(s, kind, b)
		h.mu.Unlock()
	}
}

// dropTasks ends the streams that were granted tasks of an upstream which turned
// out not to push them.
func (h *hub) dropTasks(m *member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.open {
		for _, w := range s.tasks {
			if w.member == m {
				h.finish(s)
				break
			}
		}
	}
}
