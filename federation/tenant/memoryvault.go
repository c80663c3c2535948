package tenant

import (
	"bytes"
	"context"
	"slices"
)

var _ Vault = (*MemoryRegistry)(nil)

// memoryVault is what a MemoryRegistry keeps sealed, under its lock.
type memoryVault struct {
	revision uint64
	values   []VaultValue // sorted by key
}

func (v *memoryVault) find(key VaultKey) (at int, ok bool) {
	return slices.BinarySearchFunc(v.values, key, func(one VaultValue, key VaultKey) int { return one.Key.Compare(key) })
}

// drop takes all values of a tenant away.
func (v *memoryVault) drop(tenant string) {
	v.values = slices.DeleteFunc(v.values, func(one VaultValue) bool { return one.Key.Tenant == tenant })
}

// clone gives a copy that its holder may change.
func (v VaultValue) clone() VaultValue {
	v.Sealed = bytes.Clone(v.Sealed)
	return v
}

// Secret implements Vault.
func (m *MemoryRegistry) Secret(_ context.Context, key VaultKey) (VaultValue, error) {
	if err := key.CheckKey(); err != nil {
		return VaultValue{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if at, ok := m.vault.find(key); ok {
		return m.vault.values[at].clone(), nil
	}
	return VaultValue{}, ErrNotFound
}

// PutSecret implements Vault.
func (m *MemoryRegistry) PutSecret(_ context.Context, key VaultKey, sealed []byte, expect uint64) (uint64, error) {
	if err := key.CheckValue(sealed); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.vault
	at, there := v.find(key)
	var now uint64
	if there {
		now = v.values[at].Revision
	}
	if expect != Any && expect != now {
		return 0, ErrConflict
	}
	v.revision++
	next := VaultValue{Key: key, Revision: v.revision, Sealed: bytes.Clone(sealed)}
	if there {
		v.values[at] = next
	} else {
		v.values = slices.Insert(v.values, at, next)
	}
	return next.Revision, nil
}

// DeleteSecret implements Vault.
func (m *MemoryRegistry) DeleteSecret(_ context.Context, key VaultKey, expect uint64) error {
	if err := key.CheckKey(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &m.vault
	at, there := v.find(key)
	if !there {
		return nil
	}
	if expect != Any && expect != v.values[at].Revision {
		return ErrConflict
	}
	v.values = slices.Delete(v.values, at, at+1)
	return nil
}

// Secrets implements Vault.
func (m *MemoryRegistry) Secrets(_ context.Context, after VaultKey, limit int) ([]VaultValue, error) {
	limit, err := CheckPage(after, limit)
	if err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, there := m.vault.find(after)
	if there {
		at++
	}
	page := make([]VaultValue, 0, min(limit, len(m.vault.values)-at))
	for _, one := range m.vault.values[at:] {
		if len(page) == limit {
			break
		}
		page = append(page, one.clone())
	}
	return page, nil
}
