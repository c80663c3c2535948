// Package bolt keeps a tenant.Registry in one file (bbolt), for a gateway of one
// process. It imports package tenant.
package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// lockTimeout bounds how long Open waits for another process to end that has the
// file.
const lockTimeout = time.Second

// Registry is a tenant.Registry and a tenant.Vault in a file. Tenants and keys are
// JSON, one value each, and a tenant is read when it is asked for. No open secret is
// among them: keys are there by their hashes, all others sealed.
type Registry struct {
	db       *bbolt.DB
	path     string
	watchers tenant.Watchers
	writing  sync.Mutex // keeps what is told in the order of the changes
}

var _ tenant.Registry = (*Registry)(nil)

// The buckets of the file. Keys of buckets are below; all revisions are 8 bytes, big
// endian.
const (
	bucketMeta    = "meta"
	bucketTenants = "tenants" // by name: revision, then what tenant.EncodeTenant gives
	bucketKeys    = "keys"    // by tenant/id: what tenant.EncodeKey gives
	bucketVault   = "vault"   // by tenant.VaultKey.Encode: revision, of the bucket's sequence, then what was sealed
	keyRevision   = "revision"
)

// ErrLocked tells that another process has the file.
var ErrLocked = errors.New("another process has it open: a registry in a file is for one process, several need one in redis")

// Open opens the registry in the file at path, and makes it (mode 0600) where there
// is none; its directory has to be there. It gives ErrLocked, wrapped, when another
// process has the file for more than a second. A file that is damaged is an error
// that names it; it is never repaired or replaced.
func Open(path string) (*Registry, error) {
	db, err := open(path)
	if err != nil {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
		return nil, fmt.Errorf("open registry %s: %w", path, err)
	}
	return &Registry{db: db, path: path}, nil
}

// open gives a database together with an error when it has to be closed.
func open(path string) (db *bbolt.DB, err error) {
	// Where a page is not what it should be the library panics, or reads memory that
	// is not there.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(fmt.Errorf("%v", r))
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return nil, damaged(err)
	case err != nil:
		return nil, pathless(err)
	}
	if err := db.View(verify); err != nil {
		return db, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{bucketMeta, bucketTenants, bucketKeys, bucketVault} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return db, fmt.Errorf("make its buckets: %w", err)
	}
	return db, syncDir(filepath.Dir(path))
}

// pathless gives what went wrong with a file without its name, which Open says.
func pathless(err error) error {
	var perr *os.PathError
	if errors.As(err, &perr) {
		return fmt.Errorf("%s: %w", perr.Op, perr.Err)
	}
	return err
}

// damaged gives the error of a file that cannot be believed.
func damaged(reason error) error {
	return fmt.Errorf("the file is damaged: %w; move it away and import an export (causeway registry import), or restore a copy of it", reason)
}

// verify looks at the whole file, so that damage is told at the start and not when
// a tenant is asked for.
func verify(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return pathless(err)
	}
	if info.Size() < tx.Size() {
		return damaged(fmt.Errorf("it has %d bytes, and should have %d", info.Size(), tx.Size()))
	}
	// Check looks at pages on a goroutine of its own, where a page that is not there
	// would end the process: so all are read here before.
	var sum byte
	err = tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			for _, part := range [][]byte{k, v} {
				for _, c := range part {
					sum ^= c
				}
			}
			return nil
		})
	})
	for wrong := range tx.Check() { // to its end
		err = cmp.Or(err, wrong)
	}
	if err != nil {
		return damaged(err)
	}
	return nil
}

// Close closes the file. Nothing may use the registry afterwards.
func (r *Registry) Close() error {
	if err := r.db.Close(); err != nil {
		return fmt.Errorf("close registry %s: %w", r.path, err)
	}
	return nil
}

// Tenant implements tenant.Store.
func (r *Registry) Tenant(_ context.Context, name string) (t *tenant.Tenant, err error) {
	err = r.view("read tenant "+name, func(tx *bbolt.Tx) error {
		t, err = tenantOf(tx, name)
		return err
	})
	return t, err
}

// Names implements tenant.Store.
func (r *Registry) Names(context.Context) (names []string, err error) {
	err = r.view("read the tenants' names", func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketTenants)).ForEach(func(name, _ []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	return names, err
}

// Watch implements tenant.Store.
func (r *Registry) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	return r.watchers.Watch(ctx, changed)
}

// Keys implements tenant.Registry.
func (r *Registry) Keys(_ context.Context, of string) (keys []tenant.APIKey, err error) {
	err = r.view("read the keys of "+of, func(tx *bbolt.Tx) error {
		if tx.Bucket([]byte(bucketTenants)).Get([]byte(of)) == nil {
			return tenant.ErrNotFound
		}
		keys, err = keysOf(tx, of)
		return err
	})
	return keys, err
}

// Key implements tenant.Registry.
func (r *Registry) Key(_ context.Context, of, id string) (k tenant.APIKey, err error) {
	err = r.view("read a key of "+of, func(tx *bbolt.Tx) error {
		k, err = keyOf(tx, of, id)
		return err
	})
	return k, err
}

// Export implements tenant.Registry.
func (r *Registry) Export(context.Context) (*tenant.Snapshot, error) {
	s := &tenant.Snapshot{}
	err := r.view("export", func(tx *bbolt.Tx) error {
		s.Revision = revisionOf(tx)
		err := tx.Bucket([]byte(bucketTenants)).ForEach(func(name, value []byte) error {
			t, err := decodeTenant(value)
			s.Tenants = append(s.Tenants, t)
			return err
		})
		if err != nil {
			return err
		}
		s.Keys, err = keysOf(tx, "")
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// view reads. Errors, but for those that callers look for, say what was done and
// where.
func (r *Registry) view(what string, do func(tx *bbolt.Tx) error) error {
	return r.explain(what, r.db.View(do))
}

func (r *Registry) explain(what string, err error) error {
	if err == nil || errors.Is(err, tenant.ErrNotFound) || errors.Is(err, tenant.ErrConflict) {
		return err
	}
	return fmt.Errorf("%s: registry %s: %w", what, r.path, err)
}

// revisionOf gives the registry's revision.
func revisionOf(tx *bbolt.Tx) uint64 {
	value := tx.Bucket([]byte(bucketMeta)).Get([]byte(keyRevision))
	if len(value) != 8 {
		return 0 // nothing was ever written
	}
	return binary.BigEndian.Uint64(value)
}

// tenantOf gives a tenant, or tenant.ErrNotFound.
func tenantOf(tx *bbolt.Tx, name string) (*tenant.Tenant, error) {
	value := tx.Bucket([]byte(bucketTenants)).Get([]byte(name))
	if value == nil {
		return nil, tenant.ErrNotFound
	}
	return decodeTenant(value)
}

func decodeTenant(value []byte) (*tenant.Tenant, error) {
	if len(value) < 8 {
		return nil, errShort
	}
	t, err := tenant.DecodeTenant(value[8:])
	if err != nil {
		return nil, err
	}
	t.Revision = binary.BigEndian.Uint64(value)
	return t, nil
}

var errShort = errors.New("a tenant without a revision")

// keyName gives the name of an API key in the file: no tenant's name has a slash.
func keyName(of, id string) []byte { return []byte(of + "/" + id) }

// keyOf gives a key, or tenant.ErrNotFound.
func keyOf(tx *bbolt.Tx, of, id string) (tenant.APIKey, error) {
	value := tx.Bucket([]byte(bucketKeys)).Get(keyName(of, id))
	if value == nil {
		return tenant.APIKey{}, tenant.ErrNotFound
	}
	return tenant.DecodeKey(value)
}

// keysOf gives the keys of a tenant, or of all where of is empty, sorted by tenant
// and id.
func keysOf(tx *bbolt.Tx, of string) ([]tenant.APIKey, error) {
	var prefix string
	if of != "" {
		prefix = of + "/"
	}
	var keys []tenant.APIKey
	c := tx.Bucket([]byte(bucketKeys)).Cursor()
	for name, value := c.Seek([]byte(prefix)); name != nil && strings.HasPrefix(string(name), prefix); name, value = c.Next() {
		k, err := tenant.DecodeKey(value)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}
