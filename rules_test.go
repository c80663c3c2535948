package causeway

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Sizes that the house style allows, in lines.
const (
	maxFileLines     = 500
	typicalFileLines = 200 // at least half of the files are under it
	maxFuncLines     = 100
)

// longFunc in a function's doc comment, followed by the reason, lets one
// function be longer: straight-line wiring that would only be torn apart.
const longFunc = "//causeway:long "

// maxLongFuncs bounds how many functions may use it.
const maxLongFuncs = 1

// source is one parsed Go file.
type source struct {
	path  string
	data  []byte
	fset  *token.FileSet
	file  *ast.File
	lines int
}

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s *source) imports(path string) bool {
	return slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(path) })
}

// at gives the place of a node, as an editor understands it.
func (s *source) at(n ast.Node) token.Position { return s.fset.Position(n.Pos()) }

// watch looks into every directory of the repository. go test reuses a result
// while what the test itself has looked at stays the same; what git and go list
// look at for it does not count.
func watch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (name == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// repoFiles lists the files that are, or are about to be, in the repository.
func repoFiles(t *testing.T) []string {
	t.Helper()
	watch(t)
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("list the repository's files: %v", err)
	}
	names := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(name)
		return err != nil // deleted, but not yet committed
	})
}

// sources parses all Go files of the repository.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	for _, name := range repoFiles(t) {
		if path.Ext(name) != ".go" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &source{name, data, fset, file, bytes.Count(data, []byte("\n"))})
	}
	return all
}

func TestGofmt(t *testing.T) {
	for _, s := range sources(t) {
		want, err := format.Source(s.data)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if !bytes.Equal(want, s.data) {
			t.Errorf("%s is not gofmt-clean: run make fmt", s.path)
		}
	}
}

func TestFileSizes(t *testing.T) {
	files := sources(t)
	small := 0
	for _, s := range files {
		if s.lines >= maxFileLines {
			t.Errorf("%s has %d lines, %d or more: split it by what it holds", s.path, s.lines, maxFileLines)
		}
		if s.lines < typicalFileLines {
			small++
		}
	}
	if 2*small < len(files) {
		t.Errorf("only %d of %d files are under %d lines", small, len(files), typicalFileLines)
	}
}

// span gives the number of lines of a node.
func (s *source) span(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// tableLines counts the lines of a function's composite literals: the rows of a
// test's table are data, not code.
func (s *source) tableLines(fn *ast.FuncDecl) int {
	lines := 0
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if ok {
			lines += s.span(lit) - 1
		}
		return !ok
	})
	return lines
}

func TestFunctionSizes(t *testing.T) {
	long := 0
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			lines := s.span(fn)
			if s.isTest() {
				lines -= s.tableLines(fn)
			}
			if lines < maxFuncLines {
				continue
			}
			if hasReason(fn.Doc) {
				long++
				continue
			}
			t.Errorf("%s: %s has %d lines, %d or more", s.at(fn), fn.Name.Name, lines, maxFuncLines)
		}
	}
	if long > maxLongFuncs {
		t.Errorf("%d functions are marked %q: at most %d may be", long, longFunc, maxLongFuncs)
	}
}

// hasReason tells whether a doc comment holds longFunc with a reason.
func hasReason(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		reason, ok := strings.CutPrefix(c.Text, longFunc)
		return ok && strings.TrimSpace(reason) != ""
	})
}

func TestPackageComments(t *testing.T) {
	comments := map[string]int{} // by directory
	for _, s := range sources(t) {
		if strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		dir := path.Dir(s.path)
		if n := comments[dir]; s.file.Doc != nil && !s.isTest() {
			comments[dir] = n + 1
		} else {
			comments[dir] = n
		}
	}
	for dir, n := range comments {
		if n != 1 {
			t.Errorf("package in %s has %d package comments, want one", dir, n)
		}
	}
}

// TestExportedComments holds that each exported name tells what it is for.
func TestExportedComments(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		for _, decl := range s.file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s: %s has no comment", s.at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, name := range undocumented(d) {
					t.Errorf("%s: %s has no comment", s.at(name), name.Name)
				}
			}
		}
	}
}

// exportedReceiver tells whether fn is a function, or a method of an exported
// type: those of others are seen through an interface that tells about them.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

// undocumented gives the exported names of a declaration that have no comment:
// above them, beside them or above their group.
func undocumented(d *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				names = append(names, s.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init runs behind everybody's back", s.at(fn))
			}
		}
	}
}

// TestNothingLeftForLater holds that no code waits to be written.
func TestNothingLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b|\bnot implemented\b`)
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			if text := group.Text(); later.MatchString(text) {
				t.Errorf("%s: left for later: %s", s.at(group), strings.TrimSpace(text))
			}
		}
		if i := bytes.Index(s.data, []byte(`panic("st`+`ub")`)); i >= 0 {
			t.Errorf("%s:%d: a stub is left", s.path, 1+bytes.Count(s.data[:i], []byte("\n")))
		}
	}
}

// TestNoWorkplaceWords holds the repository free of what means something only on
// one machine.
func TestNoWorkplaceWords(t *testing.T) {
	words := regexp.MustCompile(`/wor` + `k/|/tm` + `p/prep|\bfar` + `m-[a-z]+|DEVEL` + `OPERS\.md|registry\.npm` + `js|proxy\.gol` + `ang\.org`)
	for _, name := range repoFiles(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // a link to nowhere
		}
		if bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			if word := words.FindString(line); word != "" {
				t.Errorf("%s:%d: %q means nothing to others", name, i+1, word)
			}
		}
	}
}
