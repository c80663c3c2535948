package tenant

import "context"

// Vault keeps what the gateway was given for its users, such as the tokens by which it
// acts for them at upstreams, over restarts and for all replicas. Values are sealed by
// who puts them: a Vault cannot read them. Registries implement it. What one of several
// open ones has written is what all of them read from then on.
//
// Keys and values over the bounds of this package are refused with Faults. Values of a
// tenant go when a Registry deletes it, or imports something without it; they are not
// part of an export, and no change of one is a change of the Registry.
type Vault interface {
	// Secret gives a value; ErrNotFound when there is none.
	Secret(ctx context.Context, key VaultKey) (VaultValue, error)
	// PutSecret writes a value whose revision is expect, which may be Any and is 0
	// where there must be none yet; else ErrConflict. It gives the new revision. The
	// tenant need not be registered.
	PutSecret(ctx context.Context, key VaultKey, sealed []byte, expect uint64) (uint64, error)
	// DeleteSecret takes a value away, as PutSecret writes one. What is not there is
	// no fault.
	DeleteSecret(ctx context.Context, key VaultKey, expect uint64) error
	// Secrets gives all values, a page at a time: those after the key, which is the
	// zero VaultKey at first, sorted as VaultKey.Compare says, and at most limit of
	// them, nor more than MaxVaultPage. An empty page is the end. The key need not be
	// there: one with nothing but a tenant begins that tenant's values. A walk sees
	// all that is there from its beginning to its end.
	Secrets(ctx context.Context, after VaultKey, limit int) ([]VaultValue, error)
}

// VaultKey names a value. No part of it is secret. Parts hold any text, of at most
// MaxVaultPart bytes.
type VaultKey struct {
	Tenant string // never empty
	Alias  string // of an upstream; empty for what belongs to the tenant
	Kind   string // what it is, of a few words that the writer knows; never empty
	Name   string // whose it is; may be empty
}

// VaultValue is a value with its key.
type VaultValue struct {
	Key      VaultKey
	Revision uint64 // rises with every write; never 0
	Sealed   []byte // at most MaxSealed bytes, and never empty
}
