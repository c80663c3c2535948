package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// FuzzCompile holds that no expression breaks the compiler, and that what compiles
// comes to a decision with a list and a call, without arguments in its error, and about
// the upstream as a whole.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`"finance" in principal.groups && tool.alias == "ledger"`,
		`tool.annotations.readOnlyHint == true`,
		`request.arguments.path.startsWith("/") || request.arguments[request.arguments.path] == 1`,
		`principal.groups.exists(g, g in ["a", "b"]) ? has(item.title) : kind == "tool"`,
		`request.arguments.map(k, k + k).filter(k, k.matches("a*")) == []`,
		`.principal.subject != r"x" // why`, `1u / 0u == 1u`, `dyn(item).name == type(item)`, `{"a": [1, 2.5, b"x", null]}["a"][0] == 1`,
	} {
		f.Add(s)
	}
	raw := arguments(`{"path":"s3cr3t!","n":[1,2,{"a":null}]}`).Arguments
	f.Fuzz(func(t *testing.T, when string) {
		p, err := Compile(&tenant.Tenant{Policy: &tenant.Policy{Default: tenant.EffectDeny, Rules: []tenant.Rule{{Name: "it", When: when, Effect: tenant.EffectAllow}}}})
		var faults tenant.Faults
		switch {
		case err != nil && !errors.As(err, &faults):
			t.Fatalf("error %T", err)
		case err != nil:
			return
		}
		for _, it := range []*Item{bookHotel(), planTrip(), terms()} {
			call := &Call{Method: it.Kind.method(), Arguments: raw}
			seen, called := p.Decide(alice(), "", it, nil), p.Decide(alice(), "", it, call)
			if seen.Allowed && !p.MayUse(alice(), "", it.Alias, it.Tags, false) {
				t.Errorf("%s: is seen, but its upstream is of no use", it.Name)
			}
			if called.Allowed && !seen.Allowed {
				t.Errorf("%s: can be called, but is not seen: %+v", it.Name, seen)
			}
			if called.Err != nil && strings.Contains(called.Err.Error(), "s3cr3t!") && !strings.Contains(when, "s3cr3t!") {
				t.Errorf("the error quotes an argument: %v", called.Err)
			}
		}
	})
}

// FuzzParseObject holds that JSON is read, or refused, without more.
func FuzzParseObject(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-2.5e3,true,null,"\ud800"]}`, `{"a":1,"a":2}`, `{"a":1}{}`, `[`, `{"a":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parseObject("arguments", raw)
		if (v == nil) == (err == nil) {
			t.Errorf("got %v and %v", v, err)
		}
	})
}
