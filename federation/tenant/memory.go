package tenant

import (
	"context"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Memory is a Store in this process. Its content is replaced as a whole, as a
// configuration file is read as a whole.
type Memory struct {
	mu       sync.RWMutex
	idle     sync.Cond // a watcher's call has ended
	tenants  map[string]*Tenant
	revision uint64
	watchers []*watcher
	pending  []string // changed names whose watchers have not been called yet
	calling  bool     // somebody works on pending
}

var _ Store = (*Memory)(nil)

// watcher is one Watch.
type watcher struct {
	ended   <-chan struct{} // the context of Watch has ended
	changed func(name string)
	stopped bool
	running bool // changed is being called
}

// NewMemory makes a store of tenants, whose names are unique. They must not be
// changed afterwards; the store sets the Revision of copies.
func NewMemory(tenants []*Tenant) *Memory {
	m := &Memory{}
	m.idle.L = &m.mu
	m.swap(tenants)
	return m
}

// Tenant implements Store.
func (m *Memory) Tenant(_ context.Context, name string) (*Tenant, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t, ok := m.tenants[name]; ok {
		return t, nil
	}
	return nil, ErrNotFound
}

// Names implements Store.
func (m *Memory) Names(context.Context) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.tenants)), nil
}

// Replace makes tenants the whole content. A tenant whose content differs gets
// a new Revision, one that does not keeps its snapshot. Watchers are called for
// all that changed, came or went, in the order of the names, before Replace
// returns; only when another Replace is calling them, that one calls them for
// this change too. The tenants must not be changed afterwards.
func (m *Memory) Replace(tenants []*Tenant) {
	m.mu.Lock()
	m.pending = append(m.pending, m.swapLocked(tenants)...)
	if m.calling {
		m.mu.Unlock()
		return
	}
	m.calling = true
	for len(m.pending) > 0 {
		name := m.pending[0]
		m.pending = m.pending[1:]
		for _, w := range slices.Clone(m.watchers) {
			m.callLocked(w, name)
		}
	}
	m.pending, m.calling = nil, false
	m.mu.Unlock()
}

func (m *Memory) swap(tenants []*Tenant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.swapLocked(tenants)
}

// swapLocked sets the content and gives the sorted names of what changed.
func (m *Memory) swapLocked(tenants []*Tenant) []string {
	m.revision++
	next := make(map[string]*Tenant, len(tenants))
	var changed []string
	for _, t := range tenants {
		t = new(*t)
		if old, ok := m.tenants[t.Name]; ok {
			if t.Revision = old.Revision; reflect.DeepEqual(t, old) {
				next[t.Name] = old
				continue
			}
		}
		t.Revision = m.revision
		next[t.Name] = t
		changed = append(changed, t.Name)
	}
	for name := range m.tenants {
		if _, ok := next[name]; !ok {
			changed = append(changed, name)
		}
	}
	m.tenants = next
	slices.Sort(changed)
	return changed
}

// callLocked calls the watcher without the lock, unless it was stopped.
func (m *Memory) callLocked(w *watcher, name string) {
	select {
	case <-w.ended:
		return
	default:
	}
	if w.stopped {
		return
	}
	w.running = true
	m.mu.Unlock()
	w.call(name)
	m.mu.Lock()
	w.running = false
	m.idle.Broadcast()
}

// call is the frame that insideCall looks for.
//
//go:noinline
func (w *watcher) call(name string) { w.changed(name) }

// insideCall tells whether this goroutine is in a watcher's call.
func insideCall() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for {
			f, more := frames.Next()
			if strings.HasSuffix(f.Function, "tenant.(*watcher).call") {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// Watch implements Store. changed may use the store, and may call stop. When
// stop returns, no call is running and none will come; only from within a call
// it does not wait for that one to end.
func (m *Memory) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	w := &watcher{ended: ctx.Done(), changed: changed}
	m.mu.Lock()
	m.watchers = append(m.watchers, w)
	m.mu.Unlock()

	remove := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.stopped = true
		m.watchers = slices.DeleteFunc(m.watchers, func(o *watcher) bool { return o == w })
	}
	release := context.AfterFunc(ctx, remove)
	return func() {
		release()
		remove()
		if insideCall() {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for w.running {
			m.idle.Wait()
		}
	}
}
