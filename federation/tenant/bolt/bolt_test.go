package bolt_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
	"github.com/causeway-mcp/causeway/federation/tenant/tenanttest"
)

func open(t *testing.T, path string) *bolt.Registry {
	t.Helper()
	r, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegistry(t *testing.T) {
	tenanttest.TestRegistry(t, func(t *testing.T) (a, b tenant.Registry) {
		r := open(t, filepath.Join(t.TempDir(), "registry.db"))
		t.Cleanup(func() { _ = r.Close() })
		return r, r // the file is one process's
	})
}

func TestVault(t *testing.T) {
	tenanttest.TestVault(t, func(t *testing.T) (a, b tenanttest.Vaulted) {
		r := open(t, filepath.Join(t.TempDir(), "registry.db"))
		t.Cleanup(func() { _ = r.Close() })
		return r, r
	})
}

// TestVaultStaysOnDisk opens a file again, after it was one without a vault, as older
// programs have made it.
func TestVaultStaysOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	fill(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("vault")) })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	key := tenant.VaultKey{Tenant: "acme", Alias: "weather", Kind: "token", Name: "alice"}
	var revision uint64
	for _, sealed := range []string{"one", "two"} {
		r := open(t, path)
		next, err := r.PutSecret(t.Context(), key, []byte(sealed), revision)
		if err != nil || next <= revision {
			t.Fatalf("PutSecret: revision %d after %d, %v", next, revision, err)
		}
		revision = next
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, path)
	defer r.Close()
	want := tenant.VaultValue{Key: key, Revision: revision, Sealed: []byte("two")}
	got, err := r.Secret(t.Context(), key)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Secret: %v (-want +got):\n%s", err, diff)
	}
	if names, err := r.Names(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("Names: %q, %v", names, err)
	}
}

// fill opens a registry of two tenants with keys, and closes it.
func fill(t *testing.T, path string) *tenant.Snapshot {
	t.Helper()
	r := open(t, path)
	s := &tenant.Snapshot{}
	for _, name := range []string{"acme", "zoo"} {
		s.Tenants = append(s.Tenants, &tenant.Tenant{Name: name, Upstreams: []tenant.Upstream{
			{Alias: "weather", URL: "http://127.0.0.1:1/mcp", Description: strings.Repeat("d", 4000)},
			{Alias: "travel", URL: "http://127.0.0.1:1/mcp", Description: strings.Repeat("e", 4000)},
		}})
		s.Keys = append(s.Keys, tenant.APIKey{ID: "k", Tenant: name, Hash: make([]byte, 32), Subject: "s"})
	}
	if _, err := r.Import(t.Context(), s, 0); err != nil {
		t.Fatal(err)
	}
	s, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStaysOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	want := fill(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has mode %o, want 600", mode)
	}
	r := open(t, path)
	defer r.Close()
	got, err := r.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("opened again (-want +got):\n%s", diff)
	}
	if next, err := r.Put(t.Context(), &tenant.Tenant{Name: "next"}, 0); err != nil || next <= want.Revision {
		t.Errorf("Put after opening again: revision %d, %v, want more than %d", next, err, want.Revision)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	first := open(t, path)
	_, err := bolt.Open(path)
	if !errors.Is(err, bolt.ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second Open: %v, want ErrLocked with the file's name", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCannotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "registry.db")
	_, err := bolt.Open(path)
	if want := "open registry " + path + ": open: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("Open without the directory: %v, want %s", err, want)
	}
}

func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	fill(t, whole)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	pages := bytes.Repeat([]byte{0xff}, len(data)-2*page)
	tests := []struct {
		name string
		data []byte
	}{
		{"text", []byte(strings.Repeat("not a registry\n", 1000))},
		{"short", []byte("x")},
		{"cut in the middle", data[:len(data)/2]},
		{"cut after the first pages", data[:2*page]},
		{"zeros but for the first pages", append(bytes.Clone(data[:2*page]), make([]byte, len(data)-2*page)...)},
		{"ones but for the first pages", append(bytes.Clone(data[:2*page]), pages...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-")+".db")
			if err := os.WriteFile(path, tt.data, 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := bolt.Open(path)
			if err == nil {
				t.Fatal("it was opened", r.Close())
			}
			if !strings.HasPrefix(err.Error(), "open registry "+path+": the file is damaged: ") {
				t.Errorf("the error is %q: it has to name the file and say that it is damaged", err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, tt.data) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// TestDamagedValue holds that one value that cannot be read hides no other.
func TestDamagedValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registry.db")
	fill(t, path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("tenants")).Put([]byte("acme"), []byte("12345678"+`{"v":2,"tenant":{"name":"acme","more":1}}`))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	defer r.Close()
	_, err = r.Tenant(t.Context(), "acme")
	want := "read tenant acme: registry " + path + ": read stored tenant: version 2 of the format is not known: this program reads version 1"
	if err == nil || err.Error() != want {
		t.Errorf("Tenant: %v, want %s", err, want)
	}
	if _, err := r.Tenant(t.Context(), "zoo"); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if names, err := r.Names(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("Names: %q, %v", names, err)
	}
}
