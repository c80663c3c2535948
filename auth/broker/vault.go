package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// VaultPurpose is what all values in Options.Vault are sealed for, with VaultBinding of
// their keys.
const VaultPurpose = "vault"

// VaultBinding gives what a value is bound to when it is sealed: its key, so that it
// cannot be opened as the value of another one.
func VaultBinding(key tenant.VaultKey) []byte { return []byte(key.Encode()) }

// keep seals a value and writes it to the vault, in place of that with the revision
// expect (0 for none). It gives the new revision; the error is tenant.ErrConflict where
// there is another value.
func (b *Broker) keep(ctx context.Context, key tenant.VaultKey, value any, expect uint64) (uint64, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("encode a %s: %w", key.Kind, err)
	}
	sealed := b.opts.Ring.Seal(VaultPurpose, plain, VaultBinding(key))
	revision, err := b.opts.Vault.PutSecret(ctx, key, []byte(sealed), expect)
	if err != nil {
		return 0, fmt.Errorf("keep a %s: %w", key.Kind, err)
	}
	return revision, nil
}

// kept reads a value of the vault. The revision is that for keep; ok is false where
// there is nothing that can be read, as when the key that sealed it is gone.
func (b *Broker) kept(ctx context.Context, key tenant.VaultKey, value any) (revision uint64, ok bool, err error) {
	v, err := b.opts.Vault.Secret(ctx, key)
	if errors.Is(err, tenant.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read a %s: %w", key.Kind, err)
	}
	if !b.unseal(v, value) {
		b.opts.Logger.Warn("a value of the vault cannot be opened with the keys that are configured", "tenant", key.Tenant, "upstream", key.Alias, "kind", key.Kind)
		return v.Revision, false, nil
	}
	return v.Revision, true, nil
}

// unseal opens a value, and tells whether that could be done.
func (b *Broker) unseal(v tenant.VaultValue, value any) bool {
	plain, err := b.opts.Ring.Open(VaultPurpose, string(v.Sealed), VaultBinding(v.Key))
	return err == nil && json.Unmarshal(plain, value) == nil
}
