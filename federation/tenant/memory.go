package tenant

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Memory is a Store in this process. Its content is replaced as a whole, as a
// configuration file is read as a whole.
type Memory struct {
	watchers Watchers

	mu       sync.RWMutex
	tenants  map[string]*Tenant
	revision uint64
}

var _ Store = (*Memory)(nil)

// NewMemory makes a store of tenants, whose names are unique. They must not be
// changed afterwards; the store sets the Revision of copies.
func NewMemory(tenants []*Tenant) *Memory {
	m := &Memory{}
	m.Replace(tenants)
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
	m.watchers.Queue(m.swapLocked(tenants)...)
	m.mu.Unlock()
	m.watchers.Flush()
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

// Watch implements Store.
func (m *Memory) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	return m.watchers.Watch(ctx, changed)
}
