package tenant

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"
)

// MemoryRegistry is a Registry in this process, which is gone with it.
type MemoryRegistry struct {
	watchers Watchers

	mu       sync.RWMutex
	revision uint64
	tenants  map[string]*Tenant
	keys     map[string]map[string]APIKey // by tenant and id
	vault    memoryVault
}

var _ Registry = (*MemoryRegistry)(nil)

// NewMemoryRegistry makes an empty one.
func NewMemoryRegistry() *MemoryRegistry {
	return &MemoryRegistry{tenants: map[string]*Tenant{}, keys: map[string]map[string]APIKey{}}
}

// Tenant implements Store.
func (m *MemoryRegistry) Tenant(_ context.Context, name string) (*Tenant, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if t, ok := m.tenants[name]; ok {
		return t, nil
	}
	return nil, ErrNotFound
}

// Names implements Store.
func (m *MemoryRegistry) Names(context.Context) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.tenants)), nil
}

// Watch implements Store.
func (m *MemoryRegistry) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	return m.watchers.Watch(ctx, changed)
}

// change makes one change under the lock, and tells of the names that it gives.
func (m *MemoryRegistry) change(do func(revision uint64) (names []string, err error)) (uint64, error) {
	m.mu.Lock()
	next := m.revision + 1
	names, err := do(next)
	if err != nil {
		m.mu.Unlock()
		return 0, err
	}
	m.revision = next
	m.watchers.Queue(names...)
	m.mu.Unlock()
	m.watchers.Flush()
	return next, nil
}

// Put implements Registry.
func (m *MemoryRegistry) Put(_ context.Context, t *Tenant, expect uint64) (uint64, error) {
	t, err := Stored(t)
	if err != nil {
		return 0, err
	}
	return m.change(func(revision uint64) ([]string, error) {
		var now uint64
		if old, ok := m.tenants[t.Name]; ok {
			now = old.Revision
		}
		if expect != Any && expect != now {
			return nil, ErrConflict
		}
		t.Revision = revision
		m.tenants[t.Name] = t
		return []string{t.Name}, nil
	})
}

// Delete implements Registry.
func (m *MemoryRegistry) Delete(_ context.Context, name string, expect uint64) error {
	_, err := m.change(func(uint64) ([]string, error) {
		old, ok := m.tenants[name]
		if !ok {
			return nil, ErrNotFound
		}
		if expect != Any && expect != old.Revision {
			return nil, ErrConflict
		}
		delete(m.tenants, name)
		delete(m.keys, name)
		m.vault.drop(name)
		return []string{name}, nil
	})
	return err
}

// Keys implements Registry.
func (m *MemoryRegistry) Keys(_ context.Context, tenant string) ([]APIKey, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.tenants[tenant] == nil {
		return nil, ErrNotFound
	}
	return m.keysLocked(tenant), nil
}

// keysLocked gives the keys of a tenant, sorted.
func (m *MemoryRegistry) keysLocked(tenant string) []APIKey {
	keys := make([]APIKey, 0, len(m.keys[tenant]))
	for _, id := range slices.Sorted(maps.Keys(m.keys[tenant])) {
		keys = append(keys, m.keys[tenant][id])
	}
	return keys
}

// Key implements Registry.
func (m *MemoryRegistry) Key(_ context.Context, tenant, id string) (APIKey, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if k, ok := m.keys[tenant][id]; ok {
		return k, nil
	}
	return APIKey{}, ErrNotFound
}

// PutKey implements Registry.
func (m *MemoryRegistry) PutKey(_ context.Context, k APIKey) error {
	k, err := StoredKey(k)
	if err != nil {
		return err
	}
	_, err = m.change(func(uint64) ([]string, error) {
		if m.tenants[k.Tenant] == nil {
			return nil, ErrNotFound
		}
		if m.keys[k.Tenant] == nil {
			m.keys[k.Tenant] = map[string]APIKey{}
		}
		m.keys[k.Tenant][k.ID] = k
		return []string{k.Tenant}, nil
	})
	return err
}

// TouchKey implements Registry.
func (m *MemoryRegistry) TouchKey(_ context.Context, tenant, id string, used time.Time) error {
	_, err := m.change(func(uint64) ([]string, error) {
		k, ok := m.keys[tenant][id]
		if !ok {
			return nil, ErrNotFound
		}
		if used = used.UTC().Truncate(time.Hour); used.After(k.LastUsed) {
			k.LastUsed = used
			m.keys[tenant][id] = k
		}
		return nil, nil
	})
	return err
}

// DeleteKey implements Registry.
func (m *MemoryRegistry) DeleteKey(_ context.Context, tenant, id string) error {
	_, err := m.change(func(uint64) ([]string, error) {
		if _, ok := m.keys[tenant][id]; !ok {
			return nil, ErrNotFound
		}
		delete(m.keys[tenant], id)
		return []string{tenant}, nil
	})
	return err
}

// Export implements Registry.
func (m *MemoryRegistry) Export(context.Context) (*Snapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := &Snapshot{Revision: m.revision}
	for _, name := range slices.Sorted(maps.Keys(m.tenants)) {
		s.Tenants = append(s.Tenants, m.tenants[name])
		s.Keys = append(s.Keys, m.keysLocked(name)...)
	}
	return s, nil
}

// Import implements Registry.
func (m *MemoryRegistry) Import(_ context.Context, s *Snapshot, expect uint64) (uint64, error) {
	s, err := s.Stored()
	if err != nil {
		return 0, err
	}
	return m.change(func(revision uint64) ([]string, error) {
		if expect != Any && expect != m.revision {
			return nil, ErrConflict
		}
		tenants := make(map[string]*Tenant, len(s.Tenants))
		keys := map[string]map[string]APIKey{}
		changed := map[string]bool{}
		for _, t := range s.Tenants {
			t.Revision = revision
			if old := m.tenants[t.Name]; old != nil {
				t.Revision = old.Revision
				if reflect.DeepEqual(old, t) {
					tenants[t.Name] = old
					continue
				}
				t.Revision = revision
			}
			tenants[t.Name] = t
			changed[t.Name] = true
		}
		for _, k := range s.Keys {
			if keys[k.Tenant] == nil {
				keys[k.Tenant] = map[string]APIKey{}
			}
			keys[k.Tenant][k.ID] = k
		}
		for name := range m.tenants {
			if tenants[name] == nil || !reflect.DeepEqual(m.keys[name], keys[name]) && len(m.keys[name])+len(keys[name]) > 0 {
				changed[name] = true
			}
			if tenants[name] == nil {
				m.vault.drop(name)
			}
		}
		m.tenants, m.keys = tenants, keys
		return slices.Sorted(maps.Keys(changed)), nil
	})
}
