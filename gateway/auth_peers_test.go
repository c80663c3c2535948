package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// authorized is what testdata/node/oauth.mjs saw.
type authorized struct {
	Authorizations []struct{ Resource, Scope, Method string }
	Errors         []string
	Version        string
	Registered     bool
	Audience       string
	Subject        string
	Tools          []string
	Content        []struct{ Type, Text string }
}

// nodeDir gives a directory with scripts of testdata/node, where they find the
// packages.
func nodeDir(t *testing.T, node gatewaytest.Node, scripts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range scripts {
		script, err := os.ReadFile(filepath.Join("../testdata/node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), script, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(node.Modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// authorize runs the script to its end.
func authorize(t *testing.T, node gatewaytest.Node, dir string, args ...string) *authorized {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), journeyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node.Path, append([]string{"oauth.mjs"}, args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the TypeScript client: %v\n%s", err, &stderr)
	}
	seen := &authorized{}
	if err := json.Unmarshal(out, seen); err != nil {
		t.Fatalf("read what the TypeScript client printed: %v\n%s", err, out)
	}
	return seen
}

// TestAuthorizationFlow has the TypeScript client find, from the 401 alone, the real
// authorization server that the gateway trusts, register with it, get a token for the
// endpoint and use it, in both eras.
func TestAuthorizationFlow(t *testing.T) {
	node := gatewaytest.NewNode(t)
	dir := nodeDir(t, node, "idp.mjs", "oauth.mjs")
	idp := gatewaytest.StartNode(t, node, "", "PORT", filepath.Join(dir, "idp.mjs"))
	up := newScripted(t)
	up.tools("x")
	up.result("tools/call", booked)
	addr := freeAddress(t) // the public URL says it before the gateway listens
	gatewaytest.Start(t, fmt.Sprintf("listen: %s\nadmin: {listen: 127.0.0.1:0}\npublicURL: http://%s\n"+
		"tenants:\n  - name: acme\n    auth: {mode: oauth, scopes: [mcp], issuers: [{issuer: %q, groupsClaim: groups, private: true}]}\n"+
		"    upstreams: [{alias: a, url: %q}]\n", addr, addr, idp, up.URL))
	for _, tt := range []struct{ version, path, tool string }{
		{"2026-07-28", "/t/acme/mcp", "a_x"}, {"2025-11-25", "/t/acme/u/a/mcp", "x"},
	} {
		t.Run(tt.version, func(t *testing.T) {
			endpoint := "http://" + addr + tt.path
			want := &authorized{
				Authorizations: []struct{ Resource, Scope, Method string }{{endpoint, "mcp", "S256"}},
				Errors:         []string{}, Version: tt.version, Registered: true, Audience: endpoint, Subject: "ann",
				Tools: []string{tt.tool}, Content: []struct{ Type, Text string }{{"text", "ok"}},
			}
			if diff := cmp.Diff(want, authorize(t, node, dir, endpoint, "ann", tt.version, tt.tool)); diff != "" {
				t.Errorf("the client saw (-want +got):\n%s", diff)
			}
		})
	}
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, a := range up.seen {
		if a.header.Get("Authorization") != "" || strings.Contains(fmt.Sprint(a.header)+a.body, "eyJ") {
			t.Errorf("a token reached the upstream: %v %s", a.header, a.body)
		}
	}
}

// freeAddress gives an address of this machine that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
