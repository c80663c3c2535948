package policy

import (
	"fmt"
	"slices"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Explanation says how a decision is made about an item of which some is not known.
type Explanation struct {
	Steps []Step
	// MayAllow and MayDeny say what the decision may be: both are set where it depends
	// on what is not known. No step decides where it is not known which one does.
	MayAllow, MayDeny bool
	// Needed are all scopes of the toolset and of what decides, and Missing those of
	// them that the caller lacks; nil where none is missing, where the item may be
	// denied and where it is not known what decides.
	Needed, Missing []string
}

// ExplainWithout gives the steps of the decision that the tenant's policy makes, as
// Program.Explain does, where some of the item is not known: unknown are names of its
// fields as expressions read them, such as title and annotations, whose values in it
// do not count. A step that depends on them is shown with what it depends on, and the
// next ones follow, as long as it may not hold. The error is that of Compile, or one
// about unknown.
func ExplainWithout(t *tenant.Tenant, who *tenant.Principal, toolset string, it *Item, call *Call, unknown ...string) (*Explanation, error) {
	var missing, known fieldSet
	for f := range itemFields {
		if slices.Contains(unknown, f.String()) {
			missing.add(f)
		} else {
			known.add(f)
		}
	}
	for _, name := range unknown {
		if !missing.hasNamed(name) {
			return nil, fmt.Errorf("%q is not a field of item", name)
		}
	}
	p, err := compile(t, &opener{known: known, called: call != nil || it.Kind == KindResource})
	if err != nil {
		return nil, err
	}
	set := p.toolset(toolset)
	if set == nil {
		return &Explanation{Steps: p.Explain(who, toolset, it, call), MayDeny: true}, nil
	}
	g := guess{scope: newScope(p, who, it, call), missing: missing}
	g.explain(set)
	return &g.Explanation, nil
}

// guess is an explanation in the making.
type guess struct {
	Explanation
	scope   *scope
	missing fieldSet
	open    bool // whether a step before may have decided
}

// explain looks at what decides, in its order.
func (g *guess) explain(t *toolset) {
	s := g.scope
	if t != s.program.none {
		step := s.selected(t)
		o := g.revise(&step, t.when)
		g.MayDeny = o&^yes != 0
		if step.Decides = o&yes == 0; g.note(step) {
			return
		}
	}
	for i := range s.program.rules {
		r := &s.program.rules[i]
		step := s.tried(r)
		o := outcomeOf(&step)
		if step.Outcome != OtherKind {
			o = g.revise(&step, r.when)
		}
		allows := r.Effect == tenant.EffectAllow
		if step.Unknown == nil && step.Outcome == MayHold { // for a list, which is shown what some arguments allow
			o = no
			if step.Decides {
				o = yes
			}
		}
		g.MayAllow = g.MayAllow || allows && o&yes != 0
		g.MayDeny = g.MayDeny || !allows && o&yes != 0 || o&fails != 0
		step.Decides = o&no == 0
		if g.note(step) {
			g.scopes(t.Scopes, r.Scopes)
			return
		}
	}
	allows := s.program.byDef == tenant.EffectAllow
	g.MayAllow, g.MayDeny = g.MayAllow || allows, g.MayDeny || !allows
	g.note(Step{Part: PartDefault, Effect: s.program.byDef, Outcome: Holds, Decides: true})
	g.scopes(t.Scopes)
}

// revise looks again at a step whose expression reads what is not known. It gives all
// that the step may come to.
func (g *guess) revise(step *Step, when *expression) outcomes {
	selects := step.Outcome != NotIncluded && step.Outcome != NotTagged && step.Outcome != OtherKind
	if when == nil || !selects || when.reads.item&g.missing == 0 {
		return outcomeOf(step)
	}
	g.scope.vague = true // so that bounds are those of what is known
	o, err := when.vague.evaluate(g.scope)
	g.scope.vague = false
	step.Outcome, step.Err = o.outcome(), nil
	if o == fails {
		step.Err = fmt.Errorf("%s: %w", when.place, when.explain(err, when.reads.arguments && !g.scope.open()))
	}
	if step.Outcome == MayHold {
		step.Unknown = (when.reads.item & g.missing).names()
	}
	return o
}

// outcomeOf gives what a step has come to.
func outcomeOf(step *Step) outcomes {
	switch step.Outcome {
	case Holds:
		return yes
	case Fails:
		return fails
	case MayHold:
		return any3
	default:
		return no
	}
}

// note adds a step, and tells whether it is the last. Where it was not certain that
// those before do not decide, it does not decide for certain either.
func (g *guess) note(step Step) (last bool) {
	last = step.Decides
	g.open = g.open || step.Unknown != nil
	step.Decides = last && !g.open
	g.Steps = append(g.Steps, step)
	return last
}

// scopes notes what is needed of something allowed, once it is known what decides.
func (g *guess) scopes(lists ...[]string) {
	if last := g.Steps[len(g.Steps)-1]; g.MayAllow && !g.MayDeny && last.Decides {
		d := Decision{Allowed: true, Needed: needed(lists...)}.of(g.scope.who)
		g.Needed, g.Missing = d.Needed, d.Missing
	}
}
