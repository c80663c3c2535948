// Package policy decides who may see and call what: the rules of a tenant's policy
// and the selections of its toolsets, compiled once for lists and calls. It imports
// federation/tenant and CEL.
//
// # What expressions read
//
// An expression (CEL, github.com/google/cel-spec) gives a bool. It reads
//
//   - principal: tenant, issuer, subject, clientID, scopes and groups;
//   - kind: "tool", "prompt" or "resource", and item: what is asked for, of any
//     kind, with name (as clients of the merged endpoint see it: of a resource its
//     URI there), ownName (the server's), alias, tags (of the upstream), title,
//     annotations, uri (a resource's own) and template (whether the URI is a
//     template's);
//   - tool, prompt or resource: item, where it is of that kind, with the fields
//     that the kind has. An expression that reads one of them is about that kind,
//     and does not hold for others, whatever it says; one that reads two is faulty,
//     since it would never hold;
//   - request: method (of the call; for lists tools/call, prompts/get or
//     resources/read) and arguments.
//
// The functions are CEL's standard ones and macros, without those of time, which
// would read the host's time zones. Nothing else of the host can be reached.
//
// title, annotations and the names come from the server and are not trusted: a
// server that is hostile says of its tools what it likes. A rule may use them to hide
// what a server marks as dangerous, and should not to allow what it marks as
// harmless. A tool's hints that are absent read as the specification's defaults
// (2026-07-28, schema, ToolAnnotations); other absent keys, and absent titles and
// URIs, are an error where they are read, and has() asks for them.
//
// # How is decided
//
// The first rule whose expression holds decides, and its scopes are needed besides;
// where none holds, the tenant's default decides. An expression that fails denies.
// It fails too where it costs more than its bounds. Toolsets select by name, tag and
// expression, all of which must agree.
//
// Missing scopes hide nothing: what is allowed but for scopes is listed, and a call
// says which are missing, and which are needed in all. So callers who differ in their
// scopes only see the same, unless an expression reads principal.scopes.
//
// # Lists
//
// What a list shows is what can be called with some arguments. Rules that read no
// arguments are decided for a list as for a call. Of one that does, the parts that
// read none are decided, and each of the others may come out either way: such a
// rule may hold, may not hold, or both. If it may hold and allows, the item is seen;
// if it cannot but hold (or fail) and denies, the item is hidden; else the next
// rule is looked at. So a rule about arguments that denies only tightens calls.
// All that can be called is seen; what is seen can be called with some arguments,
// unless conditions about arguments exclude each other (no arguments are both 1 and
// 2). Resources have no arguments: for them request.arguments is empty.
package policy

import (
	"encoding/json"
	"slices"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Kind is what an item is.
type Kind string

// Kinds.
const (
	KindTool     Kind = "tool"
	KindPrompt   Kind = "prompt"
	KindResource Kind = "resource" // a resource or a template of some
)

// method gives the method that uses an item of the kind.
func (k Kind) method() string {
	switch k {
	case KindTool:
		return "tools/call"
	case KindPrompt:
		return "prompts/get"
	default:
		return "resources/read"
	}
}

// Item is something that a client may see and use. Decisions about equal items are
// equal: the endpoint by which it is used is not part of it.
type Item struct {
	Kind Kind
	// Name is the name that the merged endpoint exposes: of a resource its URI there,
	// of a template its URI template.
	Name string
	// OwnName is the server's; of an expansion of a template the template's.
	OwnName string
	Alias   string
	Tags    []string // of the upstream
	Title   string
	// Annotations is the JSON object that the server sent, if any.
	Annotations json.RawMessage
	URI         string // of a resource or template, the server's own
	Template    bool   // whether URI is a template
}

// Call is what an item is used for.
type Call struct {
	Method string
	// Arguments is the JSON object of tools/call and prompts/get, if any.
	Arguments json.RawMessage
}

// Decision says whether an item may be seen and used. It is shared and must not be
// changed.
type Decision struct {
	Allowed bool
	// Rule is the name of the rule that decided; empty where the default or the
	// toolset did.
	Rule string
	// Missing are the scopes that the caller of something allowed lacks: all those of
	// the toolset and the rule. A call without them is refused (403).
	Missing []string
	// Needed are all scopes of the toolset and the rule, also those that the caller
	// has; nil where none is missing.
	Needed []string
	// Err says why the deciding expression failed. It holds no arguments.
	Err error
}

// Program is the compiled policy of one tenant. It is safe for concurrent use.
type Program struct {
	rules    []rule
	byDef    tenant.Effect
	toolsets map[string]*toolset
	none     *toolset // stands for no toolset
	facts    []fact
	reads    reads         // of all expressions together
	takes    map[Kind]bool // the kinds for which decisions may depend on arguments
	records  []*record
	memo     memo
}

// rule is a compiled tenant.Rule.
type rule struct {
	tenant.Rule
	when *expression // nil where it always holds
}

// applies tells whether the rule is about items of the kind.
func (r *rule) applies(k Kind) bool { return r.when == nil || r.when.reads.about(k) }

// toolset is a compiled tenant.Toolset, or stands for none.
type toolset struct {
	tenant.Toolset
	index  int
	needed []string    // its scopes, each once
	when   *expression // nil where it always holds
	facts  []int       // indexes of the facts that decisions in it depend on
}

// selects tells whether the toolset leaves anything out.
func (s *toolset) selects() bool {
	return len(s.Include) > 0 || len(s.Tags) > 0 || s.when != nil
}

// toolset gives the one with that name, "" for none; nil when there is no such
// toolset.
func (p *Program) toolset(name string) *toolset {
	if name == "" {
		return p.none
	}
	return p.toolsets[name]
}

// Same tells whether the tenant has the policy and toolsets that the program was
// compiled of, so that it and what it remembers stay good.
func (p *Program) Same(t *tenant.Tenant) bool {
	policy := tenant.Policy{Default: tenant.EffectAllow}
	if t.Policy != nil {
		policy = *t.Policy
	}
	sameRule := func(a rule, b tenant.Rule) bool {
		return a.Name == b.Name && a.When == b.When && a.Effect == b.Effect && slices.Equal(a.Scopes, b.Scopes)
	}
	if p.byDef != policy.Default || len(p.toolsets) != len(t.Toolsets) || !slices.EqualFunc(p.rules, policy.Rules, sameRule) {
		return false
	}
	for i, b := range t.Toolsets {
		a := p.toolsets[b.Name]
		if a == nil || a.index != i+1 || a.When != b.When || !slices.Equal(a.Include, b.Include) ||
			!slices.Equal(a.Tags, b.Tags) || !slices.Equal(a.Scopes, b.Scopes) {
			return false
		}
	}
	return true
}

// Restricts tells whether anything may be hidden or refused, by a rule, the default
// or the named toolset ("" for none). Missing scopes are not looked at.
func (p *Program) Restricts(toolset string) bool {
	s := p.toolset(toolset)
	return s == nil || s.selects() || len(p.rules) > 0 || p.byDef != tenant.EffectAllow
}

// Varies tells whether decisions depend on who asks, in more than the scopes that are
// missing.
func (p *Program) Varies(toolset string) bool {
	s := p.toolset(toolset)
	return s != nil && len(s.facts) > 0
}

// ReadsArguments tells whether a decision about a call of that kind may depend on
// its arguments.
func (p *Program) ReadsArguments(k Kind) bool {
	return p.takes[k]
}

// Decide tells whether who may use it through a toolset ("" for none). Without a
// call it tells whether a list shows it, which is whether it may be used with some
// arguments; methods that use an item without arguments of their own, such as
// completion/complete for a prompt, are decided in the same way. An unknown toolset
// holds nothing.
func (p *Program) Decide(who *tenant.Principal, toolset string, it *Item, call *Call) Decision {
	s := p.toolset(toolset)
	if s == nil {
		return Decision{Err: errNoToolset}
	}
	if len(p.rules) == 0 && !s.selects() {
		if p.byDef != tenant.EffectAllow {
			return Decision{}
		}
		return Decision{Allowed: true, Needed: s.needed}.of(who)
	}
	var buf [keySize]byte
	key := p.appendKey(buf[:0], who, s, it, call)
	if d, ok := p.memo.get(key); ok {
		return d.of(who)
	}
	sc := newScope(p, who, it, call)
	d := sc.decide(s, nil)
	if !sc.fleeting {
		p.memo.put(key, d)
	}
	return d.of(who)
}

// Facts gives a key of all that decisions in the toolset ("" for none) read of a
// principal: where keys are equal, so is every decision but for its Missing and
// Needed, which are about calls. It is empty where nothing is read, at most 256 bytes
// long, and not for logs, since it may hold what was read.
func (p *Program) Facts(who *tenant.Principal, toolset string) string {
	s := p.toolset(toolset)
	if s == nil {
		return ""
	}
	var buf [keySize]byte
	return string(shorten(p.appendFacts(buf[:0], who, s)))
}
