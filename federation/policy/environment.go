package policy

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Names of variables.
const (
	varPrincipal = "principal"
	varKind      = "kind"
	varItem      = "item"
	varRequest   = "request"
)

// environment is all that expressions can name: variables, their fields, and
// functions. It is made for one compilation.
type environment struct {
	*types.Registry // of CEL's own types
	cel             *cel.Env
	records         []*record
}

var _ types.Provider = (*environment)(nil)

func newEnvironment() (*environment, error) {
	reg, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	e := &environment{Registry: reg, records: records(reg)}
	opts := []cel.EnvOption{
		cel.CustomTypeAdapter(reg),
		cel.CustomTypeProvider(e),
		cel.StdLib(cel.StdLibSubset(&env.LibrarySubset{ExcludeFunctions: hostFunctions()})),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ExpressionNodeLimit(maxNodes),
		cel.ParserRecursionLimit(maxNesting),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(maxLoops)),
		cel.Variable(varKind, cel.StringType),
	}
	for _, r := range e.records {
		opts = append(opts, cel.Variable(r.variable, r.typ))
	}
	e.cel, err = cel.NewCustomEnv(opts...)
	return e, err
}

// hostFunctions gives the standard functions that expressions cannot call: those of
// time, some of which read the host's time zones.
func hostFunctions() []*env.Function {
	var all []*env.Function
	for _, name := range []string{
		"timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDate", "getDayOfMonth",
		"getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
	} {
		all = append(all, env.NewFunction(name))
	}
	return all
}

// records gives the types of our objects.
func records(adapter types.Adapter) []*record {
	object := func(variable string) *record {
		name := "causeway." + strings.ToUpper(variable[:1]) + variable[1:]
		typ := types.NewObjectType(name, traits.IndexerType|traits.FieldTesterType)
		return &record{variable: variable, typ: typ, fields: map[string]field{}}
	}
	principal := object(varPrincipal)
	for f := range principalFields {
		if f.isList() {
			principal.fields[f.String()] = field{types.NewListType(types.StringType), func(s *scope) (ref.Val, error) {
				return types.NewStringList(adapter, f.list(s.who)), nil
			}}
			continue
		}
		principal.fields[f.String()] = field{types.StringType, func(s *scope) (ref.Val, error) {
			return types.String(f.text(s.who)), nil
		}}
	}
	all := []*record{principal}
	for _, variable := range []string{varItem, string(KindTool), string(KindPrompt), string(KindResource)} {
		r := object(variable)
		for f := range itemFields {
			if variable == varItem || f.of(Kind(variable)) {
				r.fields[f.String()] = field{f.typ(), func(s *scope) (ref.Val, error) { return f.get(adapter, s) }}
			}
		}
		all = append(all, r)
	}
	request := object(varRequest)
	request.fields["method"] = field{types.StringType, func(s *scope) (ref.Val, error) { return types.String(s.method()), nil }}
	request.fields["arguments"] = field{jsonObject(), func(s *scope) (ref.Val, error) { return s.arguments(adapter) }}
	return append(all, request)
}

// jsonObject is the type of what comes as JSON.
func jsonObject() *types.Type { return types.NewMapType(types.StringType, types.DynType) }

// record gives the record with that type; nil when it is not ours.
func (e *environment) record(typeName string) *record {
	for _, r := range e.records {
		if r.typ.TypeName() == typeName {
			return r
		}
	}
	return nil
}

// FindStructType knows our records only.
func (e *environment) FindStructType(name string) (*types.Type, bool) {
	r := e.record(name)
	if r == nil {
		return nil, false
	}
	return types.NewTypeTypeWithParam(r.typ), true
}

// FindStructFieldNames gives the fields of a record.
func (e *environment) FindStructFieldNames(name string) ([]string, bool) {
	r := e.record(name)
	if r == nil {
		return nil, false
	}
	var names []string
	for f := range r.fields {
		names = append(names, f)
	}
	return names, true
}

// FindStructFieldType gives the type of a field, and how it is read.
func (e *environment) FindStructFieldType(name, fieldName string) (*types.FieldType, bool) {
	r := e.record(name)
	if r == nil {
		return nil, false
	}
	f, ok := r.fields[fieldName]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: f.typ,
		IsSet: func(target any) bool {
			s, ok := target.(*scope)
			return ok && r.has(s, fieldName)
		},
		GetFrom: func(target any) (any, error) {
			s, ok := target.(*scope)
			if !ok {
				return nil, fmt.Errorf("unexpected %T", target)
			}
			return r.value(s, fieldName)
		},
	}, true
}

// NewValue refuses: expressions make no objects.
func (e *environment) NewValue(name string, _ map[string]ref.Val) ref.Val {
	return types.NewErr("%s cannot be made", name)
}
