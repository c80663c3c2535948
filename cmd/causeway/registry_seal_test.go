package main

import (
	"os"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/auth/seal"
)

// TestRegistrySeal holds that what is sealed opens with the configuration's first key,
// and that a secret is not printed in any other way.
func TestRegistrySeal(t *testing.T) {
	conf, _ := fileStore(t)
	base, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	first, second := strings.Repeat("f", 40), strings.Repeat("s", 40)
	t.Setenv("SEAL_FIRST", first)
	t.Setenv("SEAL_SECOND", second)
	if err := os.WriteFile(conf, append(base, "\nkeys: [{id: k1, secret: {env: SEAL_FIRST}}, {id: k2, secret: {env: SEAL_SECOND}}]\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := seal.New([]seal.Key{{ID: "k1", Secret: []byte(first)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, in, want, says string }{
		{"with a line end", "hush\n", "hush", ""},
		{"without one", "hush", "hush", ""},
		{"of two lines", "hu\nsh\r\n", "hu\nsh", ""},
		{"none", "\n", "", "there is no secret"},
		{"too long", strings.Repeat("x", maxSecretInput+1), "", "longer than 16384 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := dispatch(t.Context(), commands(), []string{"registry", "seal", "--config", conf}, strings.NewReader(tt.in), &stdout, &stderr)
			if tt.says != "" {
				if code != exitFailure || !strings.Contains(stderr.String(), tt.says) || stdout.Len() > 0 {
					t.Errorf("exit %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
				}
				return
			}
			got, err := ring.Open("secret", strings.TrimSpace(stdout.String()), nil)
			if code != exitOK || err != nil || string(got) != tt.want || strings.Contains(stdout.String()+stderr.String(), "hush") {
				t.Errorf("exit %d, %v, opens as %q; stderr %q", code, err, got, stderr.String())
			}
		})
	}
}

// TestImportOfUnopenedSecrets holds that an import says which of its secrets are of no
// use here.
func TestImportOfUnopenedSecrets(t *testing.T) {
	conf, _ := fileStore(t)
	var stdout, stderr strings.Builder
	if code := dispatch(t.Context(), commands(), []string{"registry", "seal", "--config", conf}, strings.NewReader("hush"), &stdout, &stderr); code != exitOK {
		t.Fatal(stderr.String())
	}
	elsewhere := seal.NewRandom().Seal("secret", []byte("hush"), nil)
	const one = `{"alias":"ALIAS","url":"https://h.example/mcp","auth":{"mode":"bearer","token":{"sealed":"SEALED"}}}`
	upstream := func(alias, sealed string) string {
		return strings.NewReplacer("ALIAS", alias, "SEALED", strings.TrimSpace(sealed)).Replace(one)
	}
	in := `{"version":1,"tenants":[{"name":"acme","upstreams":[` + upstream("here", stdout.String()) + `,` + upstream("elsewhere", elsewhere) + `]}],"keys":[]}`
	stdout.Reset()
	code := dispatch(t.Context(), commands(), []string{"registry", "import", "--config", conf}, strings.NewReader(in), &stdout, &stderr)
	const want = "warning: tenant acme, upstream elsewhere: auth.token cannot be opened with the keys that are configured: put the key back that has sealed it, or enter it anew\n"
	if code != exitOK || stderr.String() != want || !strings.Contains(stdout.String(), "added tenant acme\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
