package policy

import (
	"fmt"
	"hash/maphash"
	"math"
	"path"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Bounds of a policy and of each of its expressions.
const (
	maxRules      = 1000
	maxToolsets   = 1000
	maxExpression = 16 << 10 // code points
	maxNodes      = 5000     // of the syntax tree, with what macros make
	maxNesting    = 100      // of the syntax tree
	maxLoops      = 4        // loops within or after one another
	maxRegex      = 1000     // instructions
	maxMade       = 20_000   // values that a loop may make, one for each KiB of text
)

// Compile makes the program of a tenant. The error is tenant.Faults: all that is
// wrong, each with the name of the rule or toolset and its place in the expression
// (line:column, from 1).
func Compile(t *tenant.Tenant) (*Program, error) {
	return compile(t, &opener{known: fieldsOf(itemAlias, itemTags)})
}

// compile is Compile; about says what the vague parts of expressions know.
func compile(t *tenant.Tenant, about *opener) (*Program, error) {
	p := &Program{none: &toolset{}, toolsets: map[string]*toolset{}, takes: map[Kind]bool{}, memo: memo{seed: maphash.MakeSeed()}}
	c := &compiler{program: p, about: about}
	policy := tenant.Policy{Default: tenant.EffectAllow}
	if t.Policy != nil {
		policy = *t.Policy
	}
	p.byDef = policy.Default
	if !isEffect(policy.Default) {
		c.fault("policy.default", "%q must be allow or deny", policy.Default)
	}
	if len(policy.Rules) > maxRules || len(t.Toolsets) > maxToolsets {
		c.fault("policy", "has %d rules and %d toolsets, at most %d and %d are allowed", len(policy.Rules), len(t.Toolsets), maxRules, maxToolsets)
		return nil, c.faults
	}
	for i := range policy.Rules {
		c.rule(fmt.Sprintf("policy.rules[%d]", i), &policy.Rules[i])
	}
	for i := range t.Toolsets {
		c.toolset(fmt.Sprintf("toolsets[%d]", i), &t.Toolsets[i])
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	c.finish()
	return p, nil
}

func isEffect(e tenant.Effect) bool { return e == tenant.EffectAllow || e == tenant.EffectDeny }

// compiler makes a program.
type compiler struct {
	program *Program
	about   *opener
	env     *environment // nil until there is an expression
	faults  tenant.Faults
}

func (c *compiler) fault(path, format string, args ...any) {
	c.faults = append(c.faults, tenant.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) rule(path string, r *tenant.Rule) {
	if !isEffect(r.Effect) {
		c.fault(path+".effect", "rule %q: %q must be allow or deny", r.Name, r.Effect)
	}
	if r.Effect == tenant.EffectDeny && len(r.Scopes) > 0 {
		c.fault(path+".scopes", "rule %q: what is denied needs no scopes", r.Name)
	}
	c.program.rules = append(c.program.rules, rule{Rule: *r, when: c.expression(path+".when", fmt.Sprintf("rule %q", r.Name), r.When)})
}

func (c *compiler) toolset(at string, t *tenant.Toolset) {
	place := fmt.Sprintf("toolset %q", t.Name)
	for i, glob := range t.Include {
		if _, err := path.Match(glob, ""); err != nil {
			c.fault(fmt.Sprintf("%s.include[%d]", at, i), "%s: %q is not a glob", place, glob)
		}
	}
	if t.Name == "" || c.program.toolsets[t.Name] != nil {
		c.fault(at+".name", "%s: the name must be there and unique", place)
	}
	when := c.expression(at+".when", place, t.When)
	if when != nil && when.reads.arguments {
		c.fault(at+".when", "%s: a toolset cannot depend on arguments", place)
	}
	c.program.toolsets[t.Name] = &toolset{Toolset: *t, index: len(c.program.toolsets) + 1, needed: needed(t.Scopes), when: when}
}

// finish notes what decisions depend on.
func (c *compiler) finish() {
	p := c.program
	var facts []int
	for _, r := range p.rules {
		if r.when != nil {
			facts = append(facts, r.when.reads.facts...)
			p.reads.add(&r.when.reads)
			for _, k := range []Kind{KindTool, KindPrompt} {
				p.takes[k] = p.takes[k] || r.when.reads.arguments && r.applies(k)
			}
		}
	}
	p.none.facts = sorted(facts)
	for _, t := range p.toolsets {
		own := slices.Clone(facts)
		if t.when != nil {
			own = append(own, t.when.reads.facts...)
			p.reads.add(&t.when.reads)
		}
		t.facts = sorted(own)
		if len(t.Include) > 0 {
			p.reads.item.add(itemName)
		}
		if len(t.Tags) > 0 {
			p.reads.item.add(itemTags)
		}
	}
	if c.env != nil {
		p.records = c.env.records
	}
}

func sorted(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// expression compiles one; it gives nil when there is none, or a faulty one.
func (c *compiler) expression(path, place, source string) *expression {
	if source == "" {
		return nil
	}
	if c.env == nil {
		var err error
		if c.env, err = newEnvironment(); err != nil {
			c.fault(path, "%s: %v", place, err)
			return nil
		}
	}
	checked, issues := c.env.cel.Compile(source)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			c.fault(path, "%s: %s%s", place, at(e.Location), e.Message)
		}
		return nil
	}
	a := checked.NativeRep()
	x := &expression{place: place, source: source, info: a.SourceInfo()}
	before := len(c.faults)
	fault := func(id int64, format string, args ...any) {
		c.fault(path, "%s: %s%s", place, at(x.info.GetStartLocation(id)), fmt.Sprintf(format, args...))
	}
	root := a.Expr()
	if typ := a.GetType(root.ID()); !typ.IsExactType(types.BoolType) {
		fault(root.ID(), "gives %s, not bool", cel.FormatCELType(typ))
	}
	w := walker{program: c.program, ast: a, fault: fault}
	w.walk()
	x.reads = w.reads
	if len(x.reads.kinds) > 1 {
		fault(root.ID(), "is about %v at once and never holds: item is of any kind", x.reads.kinds)
	}
	c.price(a, fault)
	if len(c.faults) > before {
		return nil
	}
	return c.plan(x, a, fault)
}

// at gives a place in an expression; nothing when it is not known.
func at(l common.Location) string {
	if l.Line() < 1 {
		return ""
	}
	return fmt.Sprintf("%d:%d: ", l.Line(), l.Column()+1)
}

// plan makes the programs of a checked expression.
func (c *compiler) plan(x *expression, a *ast.AST, fault func(int64, string, ...any)) *expression {
	plan := func(e ast.Expr) program {
		part := ast.NewCheckedAST(ast.NewAST(e, a.SourceInfo()), a.TypeMap(), a.ReferenceMap())
		made, err := c.env.cel.PlanProgram(part, programOptions(x.reads.loops)...)
		if err != nil {
			fault(e.ID(), "%v", err)
		}
		return program{cel: made, loops: x.reads.loops, most: maxTime}
	}
	x.program = plan(a.Expr())
	if x.reads.arguments {
		o := opener{ast: a, plan: plan}
		x.open = o.part(a.Expr())
	}
	if o := (opener{ast: a, plan: plan, vague: true, known: c.about.known, called: c.about.called}); o.reads(a.Expr()) {
		x.vague = o.part(a.Expr())
	} else {
		x.vague = &part{program: x.program}
	}
	return x
}

// programOptions bounds what a program may cost. What does not loop makes no values
// that are larger than its expression and what it reads.
func programOptions(loops bool) []cel.ProgramOption {
	opts := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.CostTracking(charges{})}
	if loops {
		opts = append(opts,
			cel.InterruptCheckFrequency(100),
			cel.MemoryLimit(maxMade),
			cel.MemoryTracking(
				types.MemoryTrackerSampleInterval(64),
				types.MemoryTrackerSizeCalculator(types.NewSizeCalculator(
					types.SizeCalculatorMaxDepth(maxDepth+maxNesting),
					types.SizeCalculatorMaxTraversal(maxMade),
					types.SizeCalculatorStringUnitLength(1024),
				)),
			),
		)
	}
	return opts
}

// price refuses expressions that cost too much whatever they read, or for what they
// are likely to read. Those that read JSON have no upper bound; they are cut off when
// they are evaluated.
func (c *compiler) price(a *ast.AST, fault func(int64, string, ...any)) {
	estimate, err := cost.Cost(a, sizes{})
	switch {
	case err != nil:
		fault(a.Expr().ID(), "%v", err)
	case estimate.Min > maxCost:
		fault(a.Expr().ID(), "costs %d at least, at most %d are allowed", estimate.Min, maxCost)
	case estimate.Max > maxCost && estimate.Max != math.MaxUint64:
		fault(a.Expr().ID(), "may cost %d, at most %d are allowed", estimate.Max, maxCost)
	}
}
