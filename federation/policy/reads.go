package policy

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// fieldSet is a set of an item's fields.
type fieldSet uint16

func (s fieldSet) has(f itemField) bool { return s&(1<<f) != 0 }

func (s *fieldSet) add(f itemField) { *s |= 1 << f }

// hasNamed tells whether the field with that name is in the set.
func (s fieldSet) hasNamed(name string) bool {
	for f := range itemFields {
		if s.has(f) && f.String() == name {
			return true
		}
	}
	return false
}

// fieldsOf makes a set.
func fieldsOf(fields ...itemField) fieldSet {
	var s fieldSet
	for _, f := range fields {
		s.add(f)
	}
	return s
}

// names gives the names of the fields in the set.
func (s fieldSet) names() []string {
	var all []string
	for f := range itemFields {
		if s.has(f) {
			all = append(all, f.String())
		}
	}
	return all
}

// reads says what an expression reads.
type reads struct {
	kinds     []Kind   // of the variables tool, prompt and resource; compiled expressions read at most one
	item      fieldSet // of the item, by any variable
	method    bool
	arguments bool
	facts     []int // indexes of facts
	loops     bool  // whether it has a macro that loops
}

// about tells whether the expression is about items of the kind.
func (r *reads) about(k Kind) bool { return len(r.kinds) == 0 || slices.Contains(r.kinds, k) }

// add adds what another expression reads of items and requests.
func (r *reads) add(o *reads) {
	r.item |= o.item
	r.method = r.method || o.method
	r.arguments = r.arguments || o.arguments
}

// untrusted tells whether it reads what only the server vouches for.
func (r *reads) untrusted() bool {
	return r.item.has(itemAnnotations) || r.item.has(itemTitle) || r.item.has(itemOwnName)
}

// walker finds what a checked expression reads, and puts variables in the place of
// facts.
type walker struct {
	program *Program
	ast     *ast.AST
	reads   reads
	fault   func(id int64, format string, args ...any)
	seen    map[int64]bool // variables whose field is selected
}

// walk looks at the whole expression.
func (w *walker) walk() {
	w.seen = map[int64]bool{}
	ast.PreOrderVisit(w.ast.Expr(), ast.NewExprVisitor(w.visit))
}

// name gives the name of the variable that an expression is; empty when it is none.
func (w *walker) name(e ast.Expr) string { return variable(w.ast, e) }

func variable(a *ast.AST, e ast.Expr) string {
	if e.Kind() != ast.IdentKind {
		return ""
	}
	name := e.AsIdent()
	if r := a.ReferenceMap()[e.ID()]; r != nil && r.Name != "" {
		name = r.Name
	}
	return strings.TrimPrefix(name, ".")
}

func (w *walker) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		if !w.seen[e.ID()] {
			w.read(w.name(e), "")
		}
	case ast.SelectKind:
		sel := e.AsSelect()
		if name := w.name(sel.Operand()); isVariable(name) {
			w.seen[sel.Operand().ID()] = true
			w.read(name, sel.FieldName())
		}
	case ast.CallKind:
		if f, ok := factOf(e, w.principalField); ok {
			i := w.fact(f)
			e.SetKindCase(ast.NewExprFactory().NewIdent(e.ID(), factName(i)))
			w.ast.SetReference(e.ID(), ast.NewIdentReference(factName(i), nil))
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		w.reads.loops = true
		for _, name := range []string{c.IterVar(), c.IterVar2()} {
			if isVariable(name) {
				w.fault(e.ID(), "%s is a variable already: loop with another name", name)
			}
		}
	case ast.StructKind:
		w.fault(e.ID(), "objects cannot be made")
	}
}

// isVariable tells whether the environment has a variable with that name.
func isVariable(name string) bool {
	switch Kind(name) {
	case varPrincipal, varItem, varRequest, varKind, KindTool, KindPrompt, KindResource:
		return true
	}
	return false
}

// principalField gives the field of principal that an expression selects.
func (w *walker) principalField(e ast.Expr) (f principalField, ok bool) {
	if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() || w.name(e.AsSelect().Operand()) != varPrincipal {
		return 0, false
	}
	for f = range principalFields {
		if f.String() == e.AsSelect().FieldName() {
			return f, true
		}
	}
	return 0, false
}

// read records that a field of a variable is read; an empty field stands for all.
func (w *walker) read(variable, field string) {
	switch variable {
	case varPrincipal:
		for f := range principalFields {
			if field == "" || field == f.String() {
				w.fact(fact{field: f, whole: true})
			}
		}
	case varRequest:
		w.reads.method = w.reads.method || field != "arguments"
		w.reads.arguments = w.reads.arguments || field != "method"
	case string(KindTool), string(KindPrompt), string(KindResource):
		if k := Kind(variable); !slices.Contains(w.reads.kinds, k) {
			w.reads.kinds = append(w.reads.kinds, k)
		}
		w.readItem(field)
	case varItem:
		w.readItem(field)
	}
}

func (w *walker) readItem(field string) {
	for f := range itemFields {
		if field == "" || field == f.String() {
			w.reads.item.add(f)
		}
	}
}

// fact records that a fact is read, and gives its index.
func (w *walker) fact(f fact) int {
	i := w.program.fact(f)
	if !slices.Contains(w.reads.facts, i) {
		w.reads.facts = append(w.reads.facts, i)
	}
	return i
}
