package federation

import (
	"context"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// watch is one resource or task that a stream subscribed to.
type watch struct {
	member  *member
	name    string // the upstream's own URI or task id
	exposed string
}

// watchResource finds the upstream of a resource that may be subscribed to.
func (h *hub) watchResource(d *roster, c *Call) func(string) *target {
	return func(uri string) *target {
		t := d.locateKnown(c.Endpoint.Alias, uri)
		if t == nil || !t.member.canSubscribe() {
			return nil
		}
		return t
	}
}

// watchTask finds the upstream of a task.
func (h *hub) watchTask(d *roster, c *Call) func(string) *target {
	return func(id string) *target {
		t := d.locateTask(c.Endpoint.Alias, id)
		if t == nil {
			return nil
		}
		if seg := t.member.known(kindDiscover); seg != nil && !seg.discover.extensions[mcp.ExtensionTasks] {
			return nil
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if l := h.listeners[t.member]; l != nil && l.noTasks.Load() {
			return nil
		}
		return t
	}
}

// Watchable gives an error unless the resource that params.uri names may be
// subscribed to, which makes sense for clients that subscribe to one at a time.
// The errors are those of Handle.
func (f *Federation) Watchable(ctx context.Context, c *Call) error {
	d, err := f.enter(ctx, c.Endpoint)
	if err != nil {
		return err
	}
	defer d.leave()
	if !c.Request.URI.IsString {
		return mcp.Errorf(mcp.CodeInvalidParams, "params.uri must be a string")
	}
	t, err := d.locate(ctx, c, c.Request.URI.Value)
	if err != nil {
		return err
	}
	if !t.member.canSubscribe() {
		return mcp.Errorf(mcp.CodeInvalidParams, "Updates of this resource are not offered")
	}
	return nil
}

// canSubscribe tells whether the upstream is not known to lack subscriptions to
// resources.
func (m *member) canSubscribe() bool {
	seg := m.known(kindDiscover)
	return seg == nil || seg.discover.subscribe
}
