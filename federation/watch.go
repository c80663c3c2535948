package federation

import (
	"context"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// watch is one resource or task that a stream subscribed to.
type watch struct {
	member  *member
	name    string // the upstream's own URI or task id
	exposed string
}

// watchResource finds the upstream of a resource that may be subscribed to. Where
// something may be hidden, what policy may read of the resource is waited for.
func (h *hub) watchResource(ctx context.Context, d *roster, c *Call) func(string) *target {
	looked := map[*member]bool{}
	return func(uri string) *target {
		t := d.own.locateKnown(c.Endpoint.Alias, uri)
		if t == nil || !d.has(t.member) || !t.member.canSubscribe() {
			return nil
		}
		if d.audience.hidden && !looked[t.member] {
			looked[t.member] = true
			t.member.look(ctx, kindResources, kindTemplates)
		}
		if !d.mayHear(&c.Principal, t.member, t.name) {
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
		if t.member.refusesTask(t.name, time.Now()) {
			return nil
		}
		return t
	}
}

// How long, and how many, tasks that an upstream does not push are remembered, so
// that clients which ask again are not granted them again and again.
const (
	refusalMemory = 10 * time.Minute
	maxRefusals   = 1000
)

// refusals are the tasks that an upstream does not push.
type refusals struct {
	mu    sync.Mutex
	all   time.Time            // when it was found that it pushes none
	tasks map[string]time.Time // when it was found not to push these, by its own id
}

// refuseTasks notes that the upstream does not push these tasks, or none at all.
func (m *member) refuseTasks(now time.Time, ids ...string) {
	r := &m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(ids) == 0 {
		r.all = now
	}
	if r.tasks == nil || len(r.tasks)+len(ids) > maxRefusals {
		r.tasks = map[string]time.Time{}
	}
	for _, id := range ids {
		r.tasks[id] = now
	}
}

// refusesTask tells whether the upstream is known not to push the task.
func (m *member) refusesTask(id string, now time.Time) bool {
	r := &m.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.all) < refusalMemory || now.Sub(r.tasks[id]) < refusalMemory
}

// Watchable gives an error unless the resource that params.uri names may be
// subscribed to, which makes sense for clients that subscribe to one at a time.
// The errors are those of Handle.
func (f *Federation) Watchable(ctx context.Context, c *Call) error {
	d, err := f.enterAs(ctx, c)
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
	t.field = c.Request.URI
	if err := d.checkResource(c, t); err != nil {
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
