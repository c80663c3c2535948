package main

import (
	"crypto/sha256"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
)

// TestKeys holds the life of a key, of a tenant of the file.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	conf := writeFile(t, "causeway.yaml", "store: {type: file, dataDir: "+dir+"}\ntenants: [{name: acme, auth: {mode: keys}}, {name: open}]\n")
	made := invoke(t, "key", "create", "--config", conf, "--tenant", "acme", "--name", "CI", "--scopes", "mcp, read", "--groups", "ops", "--expires", "24h")
	plain := strings.TrimSpace(made.Stdout)
	if made.Code != exitOK || !strings.HasPrefix(plain, "cwk_") || !strings.Contains(made.Stderr, "not shown again") || strings.Contains(made.Stderr, plain) {
		t.Fatalf("create: %+v", made)
	}
	id := strings.Split(plain, "_")[1]

	r, err := bolt.Open(filepath.Join(dir, "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := r.Key(t.Context(), "acme", id)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(plain)); string(key.Hash) != string(sum[:]) {
		t.Error("the hash is another one")
	}
	if left := time.Until(key.Expires); left > 24*time.Hour || left < 23*time.Hour {
		t.Errorf("it expires in %s", left)
	}
	want := tenant.APIKey{ID: id, Tenant: "acme", Name: "CI", Subject: "key:" + id, Scopes: []string{"mcp", "read"}, Groups: []string{"ops"}}
	key.Hash, key.Created, key.Expires = nil, time.Time{}, time.Time{}
	if diff := cmp.Diff(want, key); diff != "" {
		t.Errorf("the key (-want +got):\n%s", diff)
	}
	// Without its file the tenant is closed to all who have no key.
	if stored, err := r.Tenant(t.Context(), "acme"); err != nil || stored.Auth.Mode != tenant.AuthKeys {
		t.Errorf("the tenant of the registry: %+v, %v", stored, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	listed := invoke(t, "key", "list", "--config", conf, "--tenant", "acme")
	listed.Stdout = regexp.MustCompile(`[0-9-]{10}T[0-9:]+Z`).ReplaceAllString(listed.Stdout, "TIME")
	if lines := strings.Split(listed.Stdout, "\n"); len(lines) != 3 ||
		!cmp.Equal(strings.Fields(lines[1]), []string{id, "CI", "key:" + id, "mcp,read", "ops", "TIME", "TIME", "never"}) {
		t.Errorf("list: %+v", listed)
	}
	want2 := outcome{0, "", "deleted key " + id + " of tenant acme\n"}
	if diff := cmp.Diff(want2, invoke(t, "key", "delete", "--config", conf, "--tenant", "acme", id)); diff != "" {
		t.Errorf("delete (-want +got):\n%s", diff)
	}
	if again := invoke(t, "key", "delete", "--config", conf, "--tenant", "acme", id); again.Code != exitFailure {
		t.Errorf("delete again: %+v", again)
	}
	if got := invoke(t, "key", "create", "--config", conf, "--tenant", "open"); got.Code != exitOK || !strings.Contains(got.Stderr, "nobody needs the key") {
		t.Errorf("a tenant without authentication: %+v", got)
	}
}

// TestKeysRefused holds what is wrong.
func TestKeysRefused(t *testing.T) {
	conf := writeFile(t, "causeway.yaml", "store: {type: file, dataDir: "+t.TempDir()+"}\n")
	memory := writeFile(t, "memory.yaml", "store: {type: memory}\n")
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no command", []string{"key"}, exitUsage, "Commands:"},
		{"unknown command", []string{"key", "make"}, exitUsage, `unknown command "make": it has create, list and delete`},
		{"unknown tenant", []string{"key", "create", "--config", conf, "--tenant", "x"}, exitFailure, `there is no tenant "x"`},
		{"no time", []string{"key", "create", "--config", conf, "--expires", "soon"}, exitUsage, "neither a time"},
		{"past", []string{"key", "create", "--config", conf, "--expires", "2020-01-01T00:00:00Z"}, exitUsage, "over already"},
		{"no id", []string{"key", "delete", "--config", conf}, exitUsage, "too few arguments"},
		{"in memory", []string{"key", "list", "--config", memory}, exitFailure, "store.type: memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(t, tt.args...)
			if got.Code != tt.code || !strings.Contains(got.Stderr, tt.want) || got.Stdout != "" {
				t.Errorf("%+v, want code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}
