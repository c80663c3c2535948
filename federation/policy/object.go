package policy

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// record is a type of objects that expressions read, such as tool.
type record struct {
	variable string // that holds the one object of the type
	typ      *types.Type
	fields   map[string]field
}

// field is one of a record. get gives its value in a scope, nil where it is absent.
type field struct {
	typ *types.Type
	get func(*scope) (ref.Val, error)
}

// value gives the field's value; an absent one is an error.
func (r *record) value(s *scope, name string) (ref.Val, error) {
	f, ok := r.fields[name]
	if !ok {
		return nil, fmt.Errorf("no such field: %s", name)
	}
	v, err := f.get(s)
	if err == nil && v == nil {
		err = fmt.Errorf("the %s has no %s", s.item.Kind, name)
	}
	return v, err
}

// has tells whether the field is there.
func (r *record) has(s *scope, name string) bool {
	f, ok := r.fields[name]
	if !ok {
		return false
	}
	v, err := f.get(s)
	return err != nil || v != nil
}

// object is the value of a variable.
type object struct {
	record *record
	scope  *scope
}

var (
	_ traits.Indexer             = (*object)(nil)
	_ traits.FieldTester         = (*object)(nil)
	_ types.AggregateSizeVisitor = (*object)(nil)
)

// Get gives a field where the type is not known to the expression, as in
// dyn(tool).name.
func (o *object) Get(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	v, err := o.record.value(o.scope, string(name))
	if err != nil {
		return types.WrapErr(err)
	}
	return v
}

// IsSet tells whether a field is there.
func (o *object) IsSet(index ref.Val) ref.Val {
	name, ok := index.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(index)
	}
	return types.Bool(o.record.has(o.scope, string(name)))
}

// AggregateSize counts the object as one value: it was not made by the expression.
func (o *object) AggregateSize(types.AggregateSizer) uint32 { return 1 }

// ConvertToNative refuses: objects do not leave expressions.
func (o *object) ConvertToNative(typeDesc reflect.Type) (any, error) {
	return nil, fmt.Errorf("%s cannot be made a %v", o.record.typ, typeDesc)
}

// ConvertToType gives the object's type, and nothing else.
func (o *object) ConvertToType(typeVal ref.Type) ref.Val {
	if typeVal == types.TypeType {
		return o.record.typ
	}
	return types.NewErr("%s cannot be made a %s", o.record.typ, typeVal)
}

// Equal tells whether other is the same object; a scope has one of each type.
func (o *object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*object)
	return types.Bool(ok && *p == *o)
}

// Type gives the object's type.
func (o *object) Type() ref.Type { return o.record.typ }

// Value gives the scope, from which fields are read.
func (o *object) Value() any { return o.scope }
