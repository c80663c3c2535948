package tenant

import (
	"context"
	"time"
)

// Store is what the gateway reads. Snapshots it returns are immutable.
type Store interface {
	// Tenant gives one tenant, or ErrNotFound.
	Tenant(ctx context.Context, name string) (*Tenant, error)
	// Names gives all tenants' names, sorted.
	Names(ctx context.Context) ([]string, error)
	// Watch calls changed with a tenant's name after each change, until ctx ends
	// or the returned function is called. Calls come one after the other, those of
	// all watchers of a Store, and changes of one tenant that follow one another
	// closely may be told as one. When the returned function returns, no call is
	// running and none will come; only from within a call it does not wait for that
	// one to end.
	Watch(ctx context.Context, changed func(name string)) (stop func())
}

// Any stands for any revision.
const Any = ^uint64(0)

// Registry is a Store that can be written, by several processes where its back end
// allows it. Each change is atomic and has a revision of its own, higher than all
// before it in the registry. What is written is checked as Validate and ValidateKey
// do, and refused with Faults. It is not changed afterwards: its Revision is set on
// a copy, and so is what Stored says.
//
// All open registries of one content tell their watchers of each change within a
// second, in the order of the changes. A change of a tenant's keys is told by the
// tenant's name too, but leaves the tenant its revision.
type Registry interface {
	Store
	// Put writes a tenant whose revision is still expect: 0 for one that is not
	// there, Any for whatever there is. It gives the new revision, or ErrConflict.
	// A tenant that is written as it was has changed nevertheless.
	Put(ctx context.Context, t *Tenant, expect uint64) (uint64, error)
	// Delete takes a tenant away together with its keys, and with its values where the
	// registry is a Vault too; ErrNotFound when there is none, ErrConflict when its
	// revision is another one.
	Delete(ctx context.Context, name string, expect uint64) error
	// Keys gives the keys of a tenant, sorted by id; ErrNotFound when the tenant is
	// not registered.
	Keys(ctx context.Context, tenant string) ([]APIKey, error)
	// Key gives one key, or ErrNotFound. It answers at once, from memory or a file on
	// this machine, since whoever presents a key waits for it.
	Key(ctx context.Context, tenant, id string) (APIKey, error)
	// PutKey writes a key; ErrNotFound when its tenant is not registered.
	PutKey(ctx context.Context, k APIKey) error
	// TouchKey sets when a key was last used, to the hour, unless it was used later.
	// Unlike a PutKey of what Key gave, it cannot bring back a key that is taken away
	// meanwhile: then it gives ErrNotFound. Watchers are not told.
	TouchKey(ctx context.Context, tenant, id string, used time.Time) error
	// DeleteKey takes a key away; ErrNotFound when there is none.
	DeleteKey(ctx context.Context, tenant, id string) error
	// Export gives all that is registered, as of one moment.
	Export(ctx context.Context) (*Snapshot, error)
	// Import makes a snapshot the whole content, atomically: the registry's revision
	// rises, which Import gives, and tenants that stay as they were keep theirs and
	// are not told, unless their keys are others. Revisions in the snapshot do not
	// count. expect is the registry's revision that it replaces, or Any; ErrConflict
	// when it is another one.
	Import(ctx context.Context, s *Snapshot, expect uint64) (uint64, error)
}

// Snapshot is the whole content of a Registry.
type Snapshot struct {
	Revision uint64    // of the registry
	Tenants  []*Tenant // sorted by name
	Keys     []APIKey  // sorted by tenant and id
}
