package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const (
	// matrixTimeout bounds one client's way through all upstreams.
	matrixTimeout = 100 * time.Second
	// envMatrix names a file that gets the table in Markdown.
	envMatrix = "CAUSEWAY_MATRIX"
)

// outcomes are those of one client with one upstream: for each feature that was
// tried "yes" or why it fails.
type outcomes map[string]string

// matrixClient is one real client. It gives its outcomes by alias.
type matrixClient struct {
	name string
	run  func(t *testing.T, url string, plans []*plan) map[string]outcomes
	only []string // the features that it has; nil for all
}

// matrixClients gives all of them.
func matrixClients(node gatewaytest.Node) []matrixClient {
	script := func(kind string) func(*testing.T, string, []*plan) map[string]outcomes {
		return func(t *testing.T, url string, plans []*plan) map[string]outcomes {
			return runMatrixScript(t, node, kind, url, plans)
		}
	}
	return []matrixClient{
		{name: "go-sdk 1.8, modern", run: goMatrix("")},
		{name: "go-sdk 1.8, handshake", run: goMatrix("2025-11-25")},
		{name: "TypeScript client 2.4, modern", run: script("client-modern")},
		{name: "TypeScript client 2.4, handshake", run: script("client")},
		{name: "TypeScript SDK 1.32", run: script("sdk")},
		{
			name: "Inspector CLI 2.12", only: []string{featureList, featureCall},
			run: func(t *testing.T, url string, plans []*plan) map[string]outcomes {
				return inspect(t, node, url, plans)
			},
		},
	}
}

// TestMatrix holds that each client can use each upstream, with all that both
// offer. It logs a table.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("the matrix of real clients and servers takes a minute")
	}
	node := gatewaytest.NewNode(t)
	everything := gatewaytest.StartNode(t, node, "/mcp", "PORT", filepath.Join(node.Modules, ".bin", "mcp-server-everything"), "streamableHttp")
	clients := matrixClients(node)
	rows := make([]string, len(clients))
	t.Run("clients", func(t *testing.T) { // returns when all have ended
		for i, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				plans, conf := matrixPlans(t, node, everything)
				gw := gatewaytest.Start(t, conf)
				seen := c.run(t, gw.URL, plans)
				for _, p := range plans {
					rows[i] += c.row(t, p, seen[p.Alias])
				}
			})
		}
	})
	table := matrixHead() + strings.Join(rows, "")
	t.Log("\n" + table)
	if path := os.Getenv(envMatrix); path != "" {
		if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func matrixHead() string {
	names := features()
	return "| client | upstream | " + strings.Join(names, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(names)) + "\n"
}

// row gives a line of the table, and reports what fails.
func (c *matrixClient) row(t *testing.T, p *plan, seen outcomes) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | %s |", c.name, p.Name)
	for _, feature := range features() {
		cell := "not offered"
		if p.offers(feature) && c.has(feature) {
			if cell = seen[feature]; cell != "yes" {
				t.Errorf("%s with %s: %s fails: %s", c.name, p.Name, feature, cell)
				cell = "fails"
			}
		}
		fmt.Fprintf(&b, " %s |", cell)
	}
	b.WriteByte('\n')
	return b.String()
}

func (c *matrixClient) has(feature string) bool {
	for _, f := range c.only {
		if f == feature {
			return true
		}
	}
	return c.only == nil
}

// endpoint is where one upstream is alone, with its own names.
func endpoint(url, alias string) string { return url + "/t/default/u/" + alias + "/mcp" }

// runMatrixScript runs testdata/node/matrix.mjs.
func runMatrixScript(t *testing.T, node gatewaytest.Node, kind, url string, plans []*plan) map[string]outcomes {
	t.Helper()
	arg, err := json.Marshal(plans)
	if err != nil {
		t.Fatal(err)
	}
	out := runNode(t, node, "../testdata/node/matrix.mjs", kind, url+"/t/default/u/", string(arg))
	var seen map[string]outcomes
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("read what %s printed: %v\n%s", kind, err, out)
	}
	return seen
}

// runNode runs a script and gives what it printed. Node looks for packages beside
// the script, and the packages are elsewhere.
func runNode(t *testing.T, node gatewaytest.Node, path string, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(path)
	if err := os.WriteFile(filepath.Join(dir, name), script, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(node.Modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), matrixTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node.Path, append([]string{name}, args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", name, err, out, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("%s complains:\n%s", name, &stderr)
	}
	return out
}

// inspect has the Inspector's command line list and call the tools of each
// upstream.
func inspect(t *testing.T, node gatewaytest.Node, url string, plans []*plan) map[string]outcomes {
	t.Helper()
	home := t.TempDir()
	run := func(p *plan, want string, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), matrixTimeout)
		defer cancel()
		main := filepath.Join(node.Modules, ".bin", "mcp-inspector")
		cmd := exec.CommandContext(ctx, node.Path, append([]string{
			main, "--cli", "--transport", "http", "--server-url", endpoint(url, p.Alias), "--format", "json",
		}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil:
			return fmt.Sprintf("%v: %s", err, tail(out, 3))
		case !strings.Contains(string(out), want):
			return fmt.Sprintf("%q is not in %s", want, out)
		}
		return "yes"
	}
	seen := map[string]outcomes{}
	for _, p := range plans {
		call := []string{"--method", "tools/call", "--tool-name", p.Call.Tool}
		for name, value := range p.Call.Args {
			call = append(call, "--tool-arg", fmt.Sprintf("%s=%v", name, value))
		}
		seen[p.Alias] = outcomes{
			featureList: run(p, p.Tools[0], "--method", "tools/list"),
			featureCall: run(p, p.Call.Want, call...),
		}
	}
	return seen
}
