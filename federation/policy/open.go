package policy

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// part is a part of an expression that reads arguments or items, for decisions
// without them.
// It is made of operators of logic and leaves.
type part struct {
	operator string // one of logic; empty for a leaf
	parts    []*part
	program  program // of a leaf
	// strict are operands of a leaf that read no arguments. Where one of them fails,
	// the leaf does.
	strict []program
	// unknown tells of a leaf that it is not looked at, since it may come to anything.
	unknown bool
	// container is the list or map without arguments that a leaf looks into for an
	// argument; nil for other leaves. Nothing is in an empty one.
	container *program
}

// evaluate gives all that the part may come to, if each leaf that depends on
// arguments may come to anything, whatever others do.
func (p *part) evaluate(s *scope) (outcomes, error) {
	switch {
	case p.unknown:
		return any3, nil
	case p.operator == "":
		for i := range p.strict {
			if _, err := p.strict[i].run(s); err != nil {
				return fails, err
			}
		}
		o, err := p.program.evaluate(s)
		if p.container != nil && o&yes != 0 && p.container.isEmpty(s) {
			o &^= yes
		}
		return o, err
	}
	all := make([]outcomes, len(p.parts))
	var failure error
	for i, q := range p.parts {
		o, err := q.evaluate(s)
		if failure == nil {
			failure = err
		}
		all[i] = o
	}
	switch p.operator {
	case operators.LogicalNot:
		return all[0].not(), failure
	case operators.Conditional:
		return all[0].choose(all[1], all[2]), failure
	}
	result := all[0]
	for _, o := range all[1:] {
		if p.operator == operators.LogicalAnd {
			result = result.and(o)
		} else {
			result = result.not().and(o.not()).not() // De Morgan
		}
	}
	return result, failure
}

// isEmpty tells whether the program gives an empty list or map.
func (p *program) isEmpty(s *scope) bool {
	v, err := p.run(s)
	sizer, ok := v.(traits.Sizer)
	return err == nil && ok && sizer.Size() == types.IntZero
}

func (o outcomes) not() outcomes {
	result := o & fails
	if o&yes != 0 {
		result |= no
	}
	if o&no != 0 {
		result |= yes
	}
	return result
}

// and gives what a && b may come to: no operand decides alone but a false one, also
// where the other fails.
func (o outcomes) and(other outcomes) (result outcomes) {
	for _, a := range []outcomes{yes, no, fails} {
		for _, b := range []outcomes{yes, no, fails} {
			switch {
			case o&a == 0 || other&b == 0:
			case a == no || b == no:
				result |= no
			case a == fails || b == fails:
				result |= fails
			default:
				result |= yes
			}
		}
	}
	return result
}

// choose gives what o ? a : b may come to.
func (o outcomes) choose(a, b outcomes) outcomes {
	result := o & fails
	if o&yes != 0 {
		result |= a
	}
	if o&no != 0 {
		result |= b
	}
	return result
}

// opener takes an expression into parts.
type opener struct {
	ast  *ast.AST
	plan func(ast.Expr) program
	// vague is set for parts that know nothing of the item but its kind and what is
	// in known, and arguments only if called is set.
	vague  bool
	known  fieldSet
	called bool
}

// part makes the part of an expression that gives a bool.
func (o *opener) part(e ast.Expr) *part {
	if e.Kind() == ast.CallKind && o.reads(e) {
		switch call := e.AsCall(); call.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional:
			p := &part{operator: call.FunctionName()}
			for _, arg := range call.Args() {
				p.parts = append(p.parts, o.part(arg))
			}
			return p
		}
	}
	if o.vague && o.reads(e) {
		return &part{unknown: true}
	}
	p := &part{program: o.plan(e)}
	if !o.reads(e) {
		return p
	}
	o.strict(e, p)
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.In {
		if container := e.AsCall().Args()[1]; !o.reads(container) {
			made := o.plan(container)
			p.container = &made
		}
	}
	return p
}

// strict adds the operands without arguments that e cannot do without.
func (o *opener) strict(e ast.Expr, p *part) {
	for _, operand := range operands(e) {
		switch {
		case o.reads(operand):
			o.strict(operand, p)
		case operand.Kind() != ast.LiteralKind && operand.Kind() != ast.IdentKind:
			p.strict = append(p.strict, o.plan(operand))
		}
	}
}

// operands gives those parts of an expression that are always evaluated, and make
// it fail when they do.
func operands(e ast.Expr) []ast.Expr {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.LogicalAnd, operators.LogicalOr:
			return nil
		case operators.Conditional:
			return call.Args()[:1]
		}
		if call.IsMemberFunction() {
			return append([]ast.Expr{call.Target()}, call.Args()...)
		}
		return call.Args()
	case ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		var all []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			all = append(all, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return all
	case ast.ComprehensionKind:
		return []ast.Expr{e.AsComprehension().IterRange()}
	default:
		return nil
	}
}

// reads tells whether a part of the expression may depend on what is not known.
func (o *opener) reads(e ast.Expr) bool {
	return !o.called && o.readsArguments(e) || o.vague && o.readsItem(e)
}

// readsItem tells whether a part of the expression may depend on more of the item
// than what is known: whether the item is in it other than for that.
func (o *opener) readsItem(e ast.Expr) bool {
	found := false
	known := map[int64]bool{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind {
			known[e.AsSelect().Operand().ID()] = o.known.hasNamed(e.AsSelect().FieldName())
		}
		switch Kind(variable(o.ast, e)) {
		case varItem, KindTool, KindPrompt, KindResource:
			found = found || !known[e.ID()]
		}
	}))
	return found
}

// readsArguments tells whether a part of the expression may depend on arguments:
// whether request is in it other than for its method.
func (o *opener) readsArguments(e ast.Expr) bool {
	found := false
	methods := map[int64]bool{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.SelectKind && e.AsSelect().FieldName() == "method" {
			methods[e.AsSelect().Operand().ID()] = true
		}
		found = found || variable(o.ast, e) == varRequest && !methods[e.ID()]
	}))
	return found
}
