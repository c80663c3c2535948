package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

var _ tenant.Vault = (*Registry)(nil)

var errShortValue = errors.New("a sealed value without a revision")

// Secret implements tenant.Vault.
func (r *Registry) Secret(_ context.Context, key tenant.VaultKey) (v tenant.VaultValue, err error) {
	if err := key.CheckKey(); err != nil {
		return v, err
	}
	err = r.view("read a sealed value", func(tx *bbolt.Tx) error {
		value := tx.Bucket([]byte(bucketVault)).Get([]byte(key.Encode()))
		if value == nil {
			return tenant.ErrNotFound
		}
		v, err = decodeValue(key, value)
		return err
	})
	return v, err
}

// decodeValue copies a value out of the file.
func decodeValue(key tenant.VaultKey, value []byte) (tenant.VaultValue, error) {
	if len(value) < 8 {
		return tenant.VaultValue{}, errShortValue
	}
	return tenant.VaultValue{Key: key, Revision: binary.BigEndian.Uint64(value), Sealed: bytes.Clone(value[8:])}, nil
}

// expectValue gives tenant.ErrConflict when the revision of what is there is another one.
func expectValue(value []byte, expect uint64) error {
	var now uint64
	if len(value) >= 8 {
		now = binary.BigEndian.Uint64(value)
	}
	if expect != tenant.Any && expect != now {
		return tenant.ErrConflict
	}
	return nil
}

// PutSecret implements tenant.Vault. The value is on the disk when it returns.
func (r *Registry) PutSecret(_ context.Context, key tenant.VaultKey, sealed []byte, expect uint64) (revision uint64, err error) {
	if err := key.CheckValue(sealed); err != nil {
		return 0, err
	}
	name := []byte(key.Encode())
	err = r.explain("write a sealed value", r.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketVault))
		if err := expectValue(b.Get(name), expect); err != nil {
			return err
		}
		if revision, err = b.NextSequence(); err != nil {
			return err
		}
		value := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(sealed)), revision)
		return b.Put(name, append(value, sealed...))
	}))
	if err != nil {
		return 0, err
	}
	return revision, nil
}

// DeleteSecret implements tenant.Vault.
func (r *Registry) DeleteSecret(_ context.Context, key tenant.VaultKey, expect uint64) error {
	if err := key.CheckKey(); err != nil {
		return err
	}
	name := []byte(key.Encode())
	return r.explain("delete a sealed value", r.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucketVault))
		value := b.Get(name)
		if value == nil {
			return nil
		}
		if err := expectValue(value, expect); err != nil {
			return err
		}
		return b.Delete(name)
	}))
}

// Secrets implements tenant.Vault.
func (r *Registry) Secrets(_ context.Context, after tenant.VaultKey, limit int) (page []tenant.VaultValue, err error) {
	if limit, err = tenant.CheckPage(after, limit); err != nil {
		return nil, err
	}
	err = r.view("read the sealed values", func(tx *bbolt.Tx) error {
		from := []byte(after.Encode())
		c := tx.Bucket([]byte(bucketVault)).Cursor()
		name, value := c.Seek(from)
		if bytes.Equal(name, from) {
			name, value = c.Next()
		}
		for ; name != nil && len(page) < limit; name, value = c.Next() {
			key, err := tenant.DecodeVaultKey(string(name))
			if err != nil {
				return err
			}
			one, err := decodeValue(key, value)
			if err != nil {
				return err
			}
			page = append(page, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// deletePrefix takes away all of a bucket whose name begins so.
func deletePrefix(b *bbolt.Bucket, prefix []byte) error {
	c := b.Cursor()
	for name, _ := c.Seek(prefix); bytes.HasPrefix(name, prefix); name, _ = c.Seek(prefix) {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// deleteOf takes away the keys and sealed values of a tenant.
func deleteOf(tx *bbolt.Tx, of string) error {
	if err := deletePrefix(tx.Bucket([]byte(bucketKeys)), keyName(of, "")); err != nil {
		return err
	}
	return deleteValues(tx, of)
}

// deleteValues takes away the sealed values of a tenant.
func deleteValues(tx *bbolt.Tx, of string) error {
	return deletePrefix(tx.Bucket([]byte(bucketVault)), []byte(tenant.VaultPrefix(of)))
}
