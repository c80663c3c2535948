package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/bolt"
)

// sealedStore makes a registry in a file, with a secret and a user's token that a key
// has sealed.
func sealedStore(t *testing.T, dir string, key seal.Key) {
	t.Helper()
	ring, err := seal.New([]seal.Key{key})
	if err != nil {
		t.Fatal(err)
	}
	r, err := bolt.Open(filepath.Join(dir, "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Put(t.Context(), &tenant.Tenant{Name: "acme", Upstreams: []tenant.Upstream{{
		Alias: "weather", URL: "https://weather.example.com/mcp",
		Auth: tenant.Credential{Mode: tenant.CredentialBearer, Token: tenant.Secret{Sealed: ring.Seal("secret", []byte("hush"), nil)}},
	}}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := tenant.VaultKey{Tenant: "acme", Alias: "weather", Kind: "user_token", Name: "alice"}
	_, err = r.PutSecret(t.Context(), at, []byte(ring.Seal(broker.VaultPurpose, []byte("hush"), broker.VaultBinding(at))), 0)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRegistryReseal rotates keys from the environment and from files, as Kubernetes
// mounts them: through links, and with a line end or without.
func TestRegistryReseal(t *testing.T) {
	conf, dir := fileStore(t)
	base, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	old, second, third := strings.Repeat("o", 40), strings.Repeat("s", 40), strings.Repeat("t", 40)
	t.Setenv("RESEAL_OLD", old)
	mount := t.TempDir()
	for name, text := range map[string]string{"second": second + "\n", "third": third, "short": "x\n"} {
		if err := os.MkdirAll(filepath.Join(mount, "..2026"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mount, "..2026", name), []byte(text), 0o440); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(mount, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026", filepath.Join(mount, "..data")); err != nil {
		t.Fatal(err)
	}
	sealedStore(t, dir, seal.Key{ID: "old", Secret: []byte(old)})

	const fromEnv = "{id: old, secret: {env: RESEAL_OLD}}"
	fromFile := func(name string) string { return "{id: " + name + ", secret: {file: " + mount + "/" + name + "}}" }
	const line = "sealed anew: 1 secret of registrations and 1 value of users; sealed by the first key before: 0\n"
	tests := []struct {
		name string
		keys []string
		want outcome
	}{
		{"the only key", []string{fromEnv}, outcome{0, "sealed anew: 0 secrets of registrations and 0 values of users; sealed by the first key before: 2\n", ""}},
		{"a key that cannot seal", []string{fromFile("short"), fromEnv}, outcome{
			1, "", "FILE: 1 fault\n  keys[0].secret: the secret has 1 bytes and needs at least 32\n",
		}},
		{"taken away too early", []string{fromFile("second")}, outcome{
			1, "sealed anew: 0 secrets of registrations and 0 values of users; sealed by the first key before: 0\n",
			"tenant acme, upstream weather: auth.token: 1 cannot be opened\ntenant acme, upstream weather: user_token: 1 cannot be opened\n" +
				"causeway registry reseal: not everything could be opened: put back the key that has sealed it, or enter it anew\n",
		}},
		{"a file with a line end", []string{fromFile("second"), fromEnv}, outcome{0, line, ""}},
		{"without the old key", []string{fromFile("second")}, outcome{0, "sealed anew: 0 secrets of registrations and 0 values of users; sealed by the first key before: 2\n", ""}},
		{"a file without", []string{fromFile("third"), fromFile("second"), fromEnv}, outcome{0, line, ""}},
		{"back to the environment", []string{fromEnv, fromFile("third")}, outcome{0, line, ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := string(base) + "keys: [" + strings.Join(tt.keys, ", ") + "]\n"
			if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := invoke(t, "registry", "reseal", "--config", conf)
			got.Stderr = strings.ReplaceAll(got.Stderr, conf, "FILE")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
