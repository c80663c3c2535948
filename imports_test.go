package causeway

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/build"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/causeway-mcp/causeway"

// arrows gives, for each of our packages that may be imported by others, the
// ones of ours that it may import itself. A name that ends in /... stands for a
// package and all below it. The first line that matches a package holds.
func arrows() []arrow {
	all := []string{"gateway/...", "federation/...", "upstream/...", "auth/...", "cache/..."}
	return []arrow{
		{"cmd/...", append([]string{"cmd/..."}, all...)},
		{"loadtest/...", append([]string{"loadtest/..."}, all...)},
		{"gateway/...", all},

		{"federation/tenant", nil},
		{"federation/tenant/...", []string{"federation/tenant"}}, // back ends and their suite
		{"federation/policy", []string{"federation/tenant"}},
		{"federation/search", nil},
		{"federation", []string{"federation/tenant", "federation/policy", "federation/search", "upstream", "upstream/mcp", "upstream/sse", "cache", "auth/seal"}},

		{"upstream/mcp", nil},
		{"upstream/sse", nil},
		{"upstream/egress", nil},
		{"upstream", []string{"upstream/mcp", "upstream/sse", "upstream/egress", "auth/seal"}},

		{"auth/seal", nil},
		{"auth/...", []string{"auth/...", "federation/tenant", "cache", "upstream/egress"}},

		{"cache", nil},
		{"cache/...", []string{"cache"}}, // back ends and their suite
	}
}

type arrow struct {
	from string
	to   []string
}

// matches tells whether the package name, relative to the module, is meant by
// pattern.
func matches(pattern, name string) bool {
	parent, below := strings.CutSuffix(pattern, "/...")
	return name == parent || below && strings.HasPrefix(name, parent+"/")
}

// listed is what go list tells about a package.
type listed struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path string }
}

// goList runs go list -deps on all packages of the repository: every package that
// the product is made of, with what each imports. Tests are not among them.
func goList(t *testing.T) []listed {
	t.Helper()
	args := []string{"list", "-deps", "-json=ImportPath,Imports,Module"}
	dirs := map[string]bool{}
	for _, name := range repoFiles(t) {
		dir := path.Dir(name)
		if path.Ext(name) != ".go" || dirs[dir] {
			continue
		}
		dirs[dir] = true
		if p, err := build.ImportDir(dir, 0); err == nil && len(p.GoFiles) > 0 { // not for tests or other platforms only
			args = append(args, "./"+dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("read what go list printed: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// ours gives the name of a package relative to the module.
func ours(path string) (name string, ok bool) {
	return strings.CutPrefix(path, modulePath+"/")
}

func TestImportArrows(t *testing.T) {
	table := arrows()
	for _, p := range goList(t) {
		name, ok := ours(p.ImportPath)
		if !ok {
			continue
		}
		row := slices.IndexFunc(table, func(a arrow) bool { return matches(a.from, name) })
		if row < 0 {
			t.Errorf("package %s is not in the table of arrows: say there, and in the design, what it may import", name)
			continue
		}
		for _, path := range p.Imports {
			to, ok := ours(path)
			if ok && !slices.ContainsFunc(table[row].to, func(pattern string) bool { return matches(pattern, to) }) {
				t.Errorf("%s imports %s: allowed are %q", name, to, table[row].to)
			}
		}
	}
}

// TestEchoStaysInGateway holds the router behind one package, so that its next
// major version changes nothing else.
func TestEchoStaysInGateway(t *testing.T) {
	for _, p := range goList(t) {
		name, ok := ours(p.ImportPath)
		if !ok || matches("gateway/...", name) {
			continue
		}
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/labstack/") {
				t.Errorf("%s imports %s: only gateway/ may", name, path)
			}
		}
	}
}

// TestTestOnlyModules holds what is for tests, the demo and the load generator
// out of the packages that serve.
func TestTestOnlyModules(t *testing.T) {
	testOnly := []string{
		"github.com/google/go-cmp",
		"github.com/modelcontextprotocol/go-sdk",
		"golang.org/x/tools",
		"testing",
	}
	helpers := []string{"cmd/causeway/demo/...", "loadtest/...", "gateway/gatewaytest", "federation/tenant/tenanttest", "cache/cachetest", "cache/redistest"}
	// The deprecated HTTP+SSE transport is the SDK's, at its raw level; the linter
	// holds it to the one file that uses it.
	raw := []string{"github.com/modelcontextprotocol/go-sdk/mcp", "github.com/modelcontextprotocol/go-sdk/jsonrpc"}
	for _, p := range goList(t) {
		name, ok := ours(p.ImportPath)
		if !ok || slices.ContainsFunc(helpers, func(h string) bool { return matches(h, name) }) {
			continue
		}
		for _, path := range p.Imports {
			if name == "upstream" && slices.Contains(raw, path) {
				continue
			}
			if slices.ContainsFunc(testOnly, func(m string) bool { return matches(m+"/...", path) }) {
				t.Errorf("%s imports %s, which is for tests", name, path)
			}
		}
	}
}
