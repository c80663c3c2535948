package gateway

import (
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// TestSecrets holds where secrets of registrations come from, and that errors do not
// show them.
func TestSecrets(t *testing.T) {
	ring, other := seal.NewRandom(), seal.NewRandom()
	open := secrets(ring, func(name string) (string, bool) { return "hush", name == "KEY" })
	tests := []struct {
		name      string
		secret    tenant.Secret
		want, err string
	}{
		{"environment", tenant.Secret{Env: "KEY"}, "hush", ""},
		{"not set", tenant.Secret{Env: "NONE"}, "", "environment variable NONE is not set"},
		{"sealed", tenant.Secret{Sealed: ring.Seal(secretPurpose, []byte("hush"), nil)}, "hush", ""},
		{"sealed for something else", tenant.Secret{Sealed: ring.Seal("session", []byte("hush"), nil)}, "", "cannot be opened"},
		{"sealed by another ring", tenant.Secret{Sealed: other.Seal(secretPurpose, []byte("hush"), nil)}, "", "cannot be opened"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := open(tt.secret)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if string(got) != tt.want || (tt.err == "") != (err == nil) || !strings.Contains(text, tt.err) || strings.Contains(text, "hush") {
				t.Errorf("%q, %q, want %q, %q", got, text, tt.want, tt.err)
			}
		})
	}
}
