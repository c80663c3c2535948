package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// change makes one change, which is on the disk when it returns, and tells of the
// names that it gives.
func (r *Registry) change(what string, do func(tx *bbolt.Tx, revision uint64) (names []string, err error)) (uint64, error) {
	revision, err := r.commit(do)
	if err != nil {
		return 0, r.explain(what, err)
	}
	r.watchers.Flush()
	return revision, nil
}

// commit makes one change and queues the names.
func (r *Registry) commit(do func(tx *bbolt.Tx, revision uint64) (names []string, err error)) (revision uint64, err error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	var names []string
	err = r.db.Update(func(tx *bbolt.Tx) error {
		revision = revisionOf(tx) + 1
		if names, err = do(tx, revision); err != nil {
			return err
		}
		return tx.Bucket([]byte(bucketMeta)).Put([]byte(keyRevision), binary.BigEndian.AppendUint64(nil, revision))
	})
	if err == nil {
		r.watchers.Queue(names...)
	}
	return revision, err
}

// putTenant writes what encoded is with its revision.
func putTenant(tx *bbolt.Tx, name string, encoded []byte, revision uint64) error {
	value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(encoded)), revision)
	return tx.Bucket([]byte(bucketTenants)).Put([]byte(name), append(value, encoded...))
}

// tenantRevision gives the revision of a tenant; 0 when there is none.
func tenantRevision(tx *bbolt.Tx, name string) uint64 {
	value := tx.Bucket([]byte(bucketTenants)).Get([]byte(name))
	if len(value) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// Put implements tenant.Registry.
func (r *Registry) Put(_ context.Context, t *tenant.Tenant, expect uint64) (uint64, error) {
	t, err := tenant.Stored(t)
	if err != nil {
		return 0, err
	}
	encoded, err := tenant.EncodeTenant(t)
	if err != nil {
		return 0, err
	}
	return r.change("write tenant "+t.Name, func(tx *bbolt.Tx, revision uint64) ([]string, error) {
		if expect != tenant.Any && expect != tenantRevision(tx, t.Name) {
			return nil, tenant.ErrConflict
		}
		return []string{t.Name}, putTenant(tx, t.Name, encoded, revision)
	})
}

// Delete implements tenant.Registry.
func (r *Registry) Delete(_ context.Context, name string, expect uint64) error {
	_, err := r.change("delete tenant "+name, func(tx *bbolt.Tx, _ uint64) ([]string, error) {
		switch now := tenantRevision(tx, name); {
		case now == 0:
			return nil, tenant.ErrNotFound
		case expect != tenant.Any && expect != now:
			return nil, tenant.ErrConflict
		}
		if err := deleteOf(tx, name); err != nil {
			return nil, err
		}
		return []string{name}, tx.Bucket([]byte(bucketTenants)).Delete([]byte(name))
	})
	return err
}

// PutKey implements tenant.Registry.
func (r *Registry) PutKey(_ context.Context, k tenant.APIKey) error {
	k, err := tenant.StoredKey(k)
	if err != nil {
		return err
	}
	_, err = r.change("write a key of "+k.Tenant, func(tx *bbolt.Tx, _ uint64) ([]string, error) {
		if tenantRevision(tx, k.Tenant) == 0 {
			return nil, tenant.ErrNotFound
		}
		return []string{k.Tenant}, putKey(tx, k)
	})
	return err
}

func putKey(tx *bbolt.Tx, k tenant.APIKey) error {
	encoded, err := tenant.EncodeKey(k)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(bucketKeys)).Put(keyName(k.Tenant, k.ID), encoded)
}

// TouchKey implements tenant.Registry. Only the first use of an hour writes.
func (r *Registry) TouchKey(ctx context.Context, of, id string, used time.Time) error {
	used = used.UTC().Truncate(time.Hour)
	k, err := r.Key(ctx, of, id)
	if err != nil || !used.After(k.LastUsed) {
		return err
	}
	_, err = r.change("write the use of a key of "+of, func(tx *bbolt.Tx, _ uint64) ([]string, error) {
		k, err := keyOf(tx, of, id)
		if err != nil || !used.After(k.LastUsed) {
			return nil, err
		}
		k.LastUsed = used
		return nil, putKey(tx, k)
	})
	return err
}

// DeleteKey implements tenant.Registry.
func (r *Registry) DeleteKey(_ context.Context, of, id string) error {
	_, err := r.change("delete a key of "+of, func(tx *bbolt.Tx, _ uint64) ([]string, error) {
		b, name := tx.Bucket([]byte(bucketKeys)), keyName(of, id)
		if b.Get(name) == nil {
			return nil, tenant.ErrNotFound
		}
		return []string{of}, b.Delete(name)
	})
	return err
}

// Import implements tenant.Registry.
func (r *Registry) Import(_ context.Context, s *tenant.Snapshot, expect uint64) (uint64, error) {
	s, err := s.Stored()
	if err != nil {
		return 0, err
	}
	return r.change("import", func(tx *bbolt.Tx, revision uint64) ([]string, error) {
		if expect != tenant.Any && expect != revision-1 {
			return nil, tenant.ErrConflict
		}
		changed := map[string]bool{}
		if err := importTenants(tx, s.Tenants, revision, changed); err != nil {
			return nil, err
		}
		for name := range changed {
			if tenantRevision(tx, name) == 0 {
				if err := deleteValues(tx, name); err != nil {
					return nil, err
				}
			}
		}
		if err := importKeys(tx, s.Keys, changed); err != nil {
			return nil, err
		}
		return slices.Sorted(maps.Keys(changed)), nil
	})
}

// importTenants makes tenants the content, and notes the names of those that
// differ.
func importTenants(tx *bbolt.Tx, tenants []*tenant.Tenant, revision uint64, changed map[string]bool) error {
	b := tx.Bucket([]byte(bucketTenants))
	next := make(map[string]bool, len(tenants))
	for _, t := range tenants {
		next[t.Name] = true
		encoded, err := tenant.EncodeTenant(t)
		if err != nil {
			return err
		}
		if old := b.Get([]byte(t.Name)); len(old) >= 8 && bytes.Equal(old[8:], encoded) {
			continue
		}
		changed[t.Name] = true
		if err := putTenant(tx, t.Name, encoded, revision); err != nil {
			return err
		}
	}
	return deleteOthers(b, func(name string) bool { return next[name] }, func(name string) { changed[name] = true })
}

// importKeys makes keys the content, and notes the names of their tenants where
// they differ.
func importKeys(tx *bbolt.Tx, keys []tenant.APIKey, changed map[string]bool) error {
	b := tx.Bucket([]byte(bucketKeys))
	next := make(map[string]bool, len(keys))
	for _, k := range keys {
		name := keyName(k.Tenant, k.ID)
		next[string(name)] = true
		encoded, err := tenant.EncodeKey(k)
		if err != nil {
			return err
		}
		if bytes.Equal(b.Get(name), encoded) {
			continue
		}
		changed[k.Tenant] = true
		if err := b.Put(name, encoded); err != nil {
			return err
		}
	}
	return deleteOthers(b, func(name string) bool { return next[name] }, func(name string) {
		of, _, _ := bytes.Cut([]byte(name), []byte{'/'})
		changed[string(of)] = true
	})
}

// deleteOthers takes away what is not to stay, and calls gone for each.
func deleteOthers(b *bbolt.Bucket, stays func(name string) bool, gone func(name string)) error {
	var others [][]byte // a bucket must not be changed while it is walked
	err := b.ForEach(func(name, _ []byte) error {
		if !stays(string(name)) {
			others = append(others, bytes.Clone(name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range others {
		if err := b.Delete(name); err != nil {
			return err
		}
		gone(string(name))
	}
	return nil
}

// syncDir makes a new name in a directory last.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
