package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// keySize is how long a key may be before a hash stands for it.
const keySize = 256

// fact is something about a principal that expressions read: a field as a whole, or
// whether it is, or as a list holds, one of some texts. The second kind keeps users
// together that differ in what no rule asks for; expressions see it as a variable of
// its own, so that they cannot depend on more.
type fact struct {
	field principalField
	whole bool
	texts []string
	not   bool // the opposite is meant
}

// equal tells whether two facts are the same.
func (f fact) equal(o fact) bool {
	return f.field == o.field && f.whole == o.whole && f.not == o.not && slices.Equal(f.texts, o.texts)
}

// holds gives the fact, which is not a whole field.
func (f *fact) holds(who *tenant.Principal) bool {
	found := false
	if f.field.isList() {
		for _, text := range f.texts {
			found = found || slices.Contains(f.field.list(who), text)
		}
	} else {
		found = slices.Contains(f.texts, f.field.text(who))
	}
	return found != f.not
}

// append adds the fact to a key.
func (f *fact) append(b []byte, who *tenant.Principal) []byte {
	switch {
	case !f.whole && f.holds(who):
		return append(b, 1)
	case !f.whole:
		return append(b, 0)
	case f.field.isList():
		return appendTexts(b, f.field.list(who))
	default:
		return appendText(b, f.field.text(who))
	}
}

// factPrefix begins the name of a fact's variable. No expression can write it.
const factPrefix = "@"

// factName gives the name of the variable of a fact.
func factName(index int) string { return factPrefix + strconv.Itoa(index) }

// factIndex gives the index of the fact whose variable has that name.
func factIndex(name string) (index int, ok bool) {
	digits, ok := strings.CutPrefix(name, factPrefix)
	if !ok {
		return 0, false
	}
	index, err := strconv.Atoi(digits)
	return index, err == nil
}

// factOf gives the fact that a call of an operator is about; ok is false when it is
// not about a fact: "text" in principal.groups, principal.subject == "text" or !=,
// and principal.subject in ["text", …].
func factOf(e ast.Expr, fieldOf func(ast.Expr) (principalField, bool)) (f fact, ok bool) {
	call := e.AsCall()
	args := call.Args()
	if len(args) != 2 {
		return fact{}, false
	}
	switch call.FunctionName() {
	case operators.In:
		if f.field, ok = fieldOf(args[1]); ok {
			f.texts, ok = texts(args[:1])
			return f, ok && f.field.isList()
		}
		if f.field, ok = fieldOf(args[0]); ok && args[1].Kind() == ast.ListKind {
			f.texts, ok = texts(args[1].AsList().Elements())
			return f, ok && !f.field.isList()
		}
	case operators.Equals, operators.NotEquals:
		f.not = call.FunctionName() == operators.NotEquals
		for i := range args {
			if f.field, ok = fieldOf(args[i]); ok {
				f.texts, ok = texts(args[1-i : 2-i])
				return f, ok && !f.field.isList()
			}
		}
	}
	return fact{}, false
}

// texts gives the values of literals; ok is false unless all are strings.
func texts(all []ast.Expr) (values []string, ok bool) {
	for _, e := range all {
		if e.Kind() != ast.LiteralKind {
			return nil, false
		}
		s, ok := e.AsLiteral().(types.String)
		if !ok {
			return nil, false
		}
		values = append(values, string(s))
	}
	return values, true
}

// fact gives the index of a fact, which it adds unless it is there.
func (p *Program) fact(f fact) int {
	if i := slices.IndexFunc(p.facts, f.equal); i >= 0 {
		return i
	}
	p.facts = append(p.facts, f)
	return len(p.facts) - 1
}

// appendFacts adds all facts that decisions in the toolset depend on.
func (p *Program) appendFacts(b []byte, who *tenant.Principal, s *toolset) []byte {
	for _, i := range s.facts {
		b = p.facts[i].append(b, who)
	}
	return b
}

// Modes of a key: what it is for. The first byte of each key is one of them.
const (
	keyList   = 'l' // a decision for lists, or one that is the same for calls
	keyCall   = 'c' // a decision for calls, where some depend on arguments
	keyMayUse = 'u' // whether anything of an upstream may be allowed
	keyHashed = 'h' // stands for a longer key of any mode
)

// appendKey adds the key of a decision: all that it depends on but arguments.
func (p *Program) appendKey(b []byte, who *tenant.Principal, s *toolset, it *Item, call *Call) []byte {
	mode := byte(keyList)
	if call != nil && p.ReadsArguments(it.Kind) {
		mode = keyCall
	}
	b = binary.AppendUvarint(append(b, mode), uint64(s.index))
	b = appendText(b, it.Kind)
	b = p.appendFacts(b, who, s)
	for f := range itemFields {
		if p.reads.item.has(f) {
			b = f.append(b, it)
		}
	}
	if p.reads.method {
		b = appendText(b, methodOf(it, call))
	}
	return shorten(b)
}

// shorten gives a hash in place of a long key.
func shorten(key []byte) []byte {
	if len(key) <= keySize {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(key[:0], keyHashed), sum[:]...)
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}
