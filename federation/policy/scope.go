package policy

import (
	"path"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// scope is one decision in the making: what its expressions see.
type scope struct {
	program  *Program
	who      *tenant.Principal
	item     *Item
	call     *Call    // nil for lists
	vague    bool     // whether only the item's kind, alias and tags are known
	starts   []string // how its name may start, then
	spent    uint64
	fleeting bool // whether the decision depends on more than its key tells
	hints    parsed
	args     parsed
}

// parsed is what was read of JSON, once it was asked for.
type parsed struct {
	done  bool
	value ref.Val
	err   error
}

var _ cel.Activation = (*scope)(nil)

func newScope(p *Program, who *tenant.Principal, it *Item, call *Call) *scope {
	return &scope{program: p, who: who, item: it, call: call}
}

// ResolveName gives the value of a variable.
func (s *scope) ResolveName(name string) (any, bool) {
	if i, ok := factIndex(name); ok {
		return types.Bool(s.program.facts[i].holds(s.who)), true
	}
	if name == varKind {
		return types.String(s.item.Kind), true
	}
	for _, r := range s.program.records {
		if r.variable == name {
			return &object{record: r, scope: s}, true
		}
	}
	return nil, false
}

// Parent gives none: there is nothing around a scope.
func (s *scope) Parent() cel.Activation { return nil }

// open tells whether arguments are not known.
func (s *scope) open() bool { return s.call == nil && s.item.Kind != KindResource }

func (s *scope) method() string { return methodOf(s.item, s.call) }

// methodOf gives the method of a call; for lists that by which the item is used.
func methodOf(it *Item, call *Call) string {
	if call == nil {
		return it.Kind.method()
	}
	return call.Method
}

// annotations gives the item's annotations, with the defaults of a tool's hints.
func (s *scope) annotations(adapter types.Adapter) (ref.Val, error) {
	if s.hints.done {
		return s.hints.value, s.hints.err
	}
	s.hints.done = true
	values, err := parseObject("annotations", s.item.Annotations)
	if err != nil {
		s.hints.err = err
		return nil, err
	}
	if s.item.Kind == KindTool {
		addHints(values)
	}
	s.hints.value = adapter.NativeToValue(values)
	return s.hints.value, nil
}

// addHints adds the defaults of absent hints (2026-07-28, schema, ToolAnnotations).
// Those that mean something only for tools that change things default to harmless
// for tools that do not.
func addHints(values map[string]any) {
	readOnly := values["readOnlyHint"] == true
	for name, value := range map[string]bool{
		"readOnlyHint":    false,
		"destructiveHint": !readOnly,
		"idempotentHint":  readOnly,
		"openWorldHint":   true,
	} {
		if _, ok := values[name]; !ok {
			values[name] = value
		}
	}
}

// arguments gives the call's arguments, which may be unknown.
func (s *scope) arguments(adapter types.Adapter) (ref.Val, error) {
	if s.open() {
		return types.NewUnknown(0, nil), nil
	}
	if s.args.done {
		return s.args.value, s.args.err
	}
	s.args.done = true
	var raw []byte
	if s.call != nil && s.item.Kind != KindResource {
		raw = s.call.Arguments
	}
	values, err := parseObject("arguments", raw)
	if err != nil {
		s.args.err = err
		return nil, err
	}
	s.args.value = adapter.NativeToValue(values)
	return s.args.value, nil
}

// decide makes the decision, with all the scopes that are needed, whoever asks: it is
// the same for all whose facts are. note, which may be nil, is told each step.
func (s *scope) decide(t *toolset, note func(*Step)) Decision {
	if note == nil {
		note = func(*Step) {}
	}
	if t != s.program.none {
		step := s.selected(t)
		note(&step)
		if step.Decides {
			return Decision{Err: step.Err}
		}
	}
	for i := range s.program.rules {
		r := &s.program.rules[i]
		step := s.tried(r)
		note(&step)
		if !step.Decides {
			continue
		}
		if r.Effect == tenant.EffectAllow && step.Outcome != Fails {
			return Decision{Allowed: true, Rule: r.Name, Needed: needed(t.Scopes, r.Scopes)}
		}
		return Decision{Rule: r.Name, Err: step.Err}
	}
	note(&Step{Part: PartDefault, Effect: s.program.byDef, Outcome: Holds, Decides: true})
	if s.program.byDef != tenant.EffectAllow {
		return Decision{}
	}
	return Decision{Allowed: true, Needed: t.needed}
}

// selected looks whether the item is in the toolset.
func (s *scope) selected(t *toolset) Step {
	step := Step{Part: PartToolset, Name: t.Name, When: t.When, Scopes: t.Scopes, Outcome: Holds}
	switch {
	case len(t.Include) > 0 && !slices.ContainsFunc(t.Include, s.matches):
		step.Outcome = NotIncluded
	case len(t.Tags) > 0 && !slices.ContainsFunc(t.Tags, func(tag string) bool { return slices.Contains(s.item.Tags, tag) }):
		step.Outcome = NotTagged
	case t.when == nil:
	case !t.when.reads.about(s.item.Kind):
		step.Outcome = OtherKind
	default:
		step.Untrusted = t.when.reads.untrusted()
		var o outcomes
		o, step.Err = t.when.evaluate(s)
		if step.Outcome = o.outcome(); s.vague && o&yes != 0 {
			step.Outcome = Holds
		}
	}
	step.Decides = step.Outcome != Holds
	return step
}

// matches tells whether the item's exposed name matches a glob, or may.
func (s *scope) matches(glob string) bool {
	if s.vague {
		return slices.ContainsFunc(s.starts, func(start string) bool { return mayMatch(glob, start) })
	}
	ok, err := path.Match(glob, s.item.Name)
	return ok && err == nil
}

// tried looks what a rule says.
func (s *scope) tried(r *rule) Step {
	step := Step{Part: PartRule, Name: r.Name, When: r.When, Effect: r.Effect, Scopes: r.Scopes, Outcome: Holds}
	o := yes
	switch {
	case r.when == nil:
	case !r.applies(s.item.Kind):
		step.Outcome = OtherKind
		return step
	default:
		step.Untrusted = r.when.reads.untrusted()
		o, step.Err = r.when.evaluate(s)
		step.Outcome = o.outcome()
	}
	step.Decides = o&no == 0 || o&yes != 0 && r.Effect == tenant.EffectAllow
	return step
}

// needed puts lists of scopes together, each scope once.
func needed(scopes ...[]string) []string {
	var all []string
	for _, scope := range slices.Concat(scopes...) {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// of gives the decision for who: with the scopes that are missing, if any.
func (d Decision) of(who *tenant.Principal) Decision {
	all := d.Needed
	d.Needed = nil
	for _, scope := range all {
		if !slices.Contains(who.Scopes, scope) {
			d.Missing = append(d.Missing, scope)
		}
	}
	if d.Missing != nil {
		d.Needed = all
	}
	return d
}
