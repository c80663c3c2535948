package causeway

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// calls gives all calls of x.name for the given x.
func calls(s *source, name string, x ...string) []*ast.CallExpr {
	var found []*ast.CallExpr
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != name {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && slices.Contains(x, id.Name) {
			found = append(found, call)
		}
		return true
	})
	return found
}

// TestNoSleepInTests holds that tests wait for what they want to see, and not for
// a while. In a bubble of testing/synctest time does not pass, so files that use
// it may sleep.
func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() && !strings.Contains(s.path, "test/") || s.imports("testing/synctest") {
			continue
		}
		for _, call := range calls(s, "Sleep", "time") {
			t.Errorf("%s: a test sleeps", s.at(call))
		}
	}
}

// TestSkipsHaveReasons holds that whoever sees a skipped test learns why.
func TestSkipsHaveReasons(t *testing.T) {
	tests := []string{"t", "b", "f", "tb"}
	for _, s := range sources(t) {
		for _, call := range calls(s, "SkipNow", tests...) {
			t.Errorf("%s: SkipNow gives no reason", s.at(call))
		}
		for _, name := range []string{"Skip", "Skipf"} {
			for _, call := range calls(s, name, tests...) {
				if len(call.Args) == 0 || isEmptyString(call.Args[0]) {
					t.Errorf("%s: a test is skipped without a reason", s.at(call))
				}
			}
		}
	}
}

func isEmptyString(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	text, err := strconv.Unquote(lit.Value)
	return err == nil && strings.TrimSpace(text) == ""
}

// TestParsersAreFuzzed holds that each package that takes bytes from strangers
// has fuzz targets.
func TestParsersAreFuzzed(t *testing.T) {
	want := []string{"upstream/mcp/", "upstream/sse/", "federation/", "gateway/", "gateway/config/", "auth/"}
	have := map[string]bool{}
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && s.isTest() && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				have[s.path[:strings.LastIndex(s.path, "/")+1]] = true
			}
		}
	}
	for _, dir := range want {
		if !have[dir] {
			t.Errorf("%s has no fuzz target", dir)
		}
	}
}
