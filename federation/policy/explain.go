package policy

import "github.com/causeway-mcp/causeway/federation/tenant"

// Part says what a Step looked at.
type Part string

// Parts.
const (
	PartToolset Part = "toolset"
	PartRule    Part = "rule"
	PartDefault Part = "default"
)

// Outcome is what came of it.
type Outcome string

// Outcomes.
const (
	Holds       Outcome = "holds"
	HoldsNot    Outcome = "does not hold"
	MayHold     Outcome = "may hold" // depends on arguments, which a list does not know
	Fails       Outcome = "fails"
	OtherKind   Outcome = "is about another kind"
	NotIncluded Outcome = "includes other names"
	NotTagged   Outcome = "has other tags"
)

// outcome puts a set of outcomes into one word.
func (o outcomes) outcome() Outcome {
	switch o {
	case yes:
		return Holds
	case no:
		return HoldsNot
	case fails:
		return Fails
	default:
		return MayHold
	}
}

// Step is one step of a decision.
type Step struct {
	Part    Part
	Name    string // of the toolset or rule
	When    string // its expression; empty where it always holds
	Effect  tenant.Effect
	Outcome Outcome
	Scopes  []string // that it needs; those of the toolset and of what decides are Decision.Needed
	// Untrusted says that it reads what the server says of its item, which nobody
	// vouches for.
	Untrusted bool
	// Unknown are the fields of the item that are not known and on which it depends
	// what comes of it, if ExplainWithout was asked; the outcome is MayHold then.
	Unknown []string
	Decides bool
	Err     error // why it fails
}

// Explain gives the steps of the decision that Decide makes, in their order. The last
// one decides.
func (p *Program) Explain(who *tenant.Principal, toolset string, it *Item, call *Call) []Step {
	t := p.toolset(toolset)
	if t == nil {
		return []Step{{Part: PartToolset, Name: toolset, Outcome: Fails, Decides: true, Err: errNoToolset}}
	}
	var steps []Step
	newScope(p, who, it, call).decide(t, func(s *Step) { steps = append(steps, *s) })
	return steps
}
