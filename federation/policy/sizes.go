package policy

import (
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Sizes that an expression's price is reckoned with. Larger ones are read as well;
// the bounds of an evaluation hold for them.
const (
	likelyGroups = 200
	likelyTags   = 20
	likelyKeys   = 50  // of annotations
	likelyText   = 200 // characters
)

// sizes tells how large likely inputs are.
type sizes struct{}

var _ cost.Estimator = sizes{}

// EstimateSize gives the size of a variable's field, or of its elements.
func (sizes) EstimateSize(e cost.AstNode) *cost.SizeEstimate {
	path := e.Path()
	most := uint64(likelyText)
	switch {
	case len(path) == 1 && path[0] == varKind:
	case len(path) < 2 || !isVariable(path[0]):
		return nil
	case path[0] == varRequest && path[1] != "method":
		return nil
	case len(path) == 3 && path[1] == itemAnnotations.String() && path[2] == "@values" || len(path) > 3:
		return nil
	case len(path) == 2:
		switch path[1] {
		case principalGroups.String(), principalScopes.String():
			most = likelyGroups
		case itemTags.String():
			most = likelyTags
		case itemAnnotations.String():
			most = likelyKeys
		}
	case path[2] != "@items" && path[2] != "@keys":
		return nil
	}
	size := cost.RangedSizeEstimate(0, most)
	return &size
}

// EstimateCallCost leaves functions to CEL's own estimates.
func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// charges tells what calls cost where CEL reckons too little: comparisons of lists
// and maps, of which it takes the lengths only, and operators on values whose types
// were not known, for which it takes 1.
type charges struct{}

var _ cost.ActualCostEstimator = charges{}

// CallCost gives what a call cost, nil to leave it to CEL.
func (charges) CallCost(function, overload string, args []ref.Val, _ ref.Val) *uint64 {
	var total uint64
	switch {
	case len(args) == 2 && (function == operators.Equals || function == operators.NotEquals):
		if !isAggregate(args[0]) || !isAggregate(args[1]) {
			return nil
		}
		total = min(weight(args[0]), weight(args[1]))
	case len(args) == 2 && function == operators.In:
		if _, ok := args[1].(traits.Lister); !ok {
			return nil
		}
		total = weight(args[1])
	case overload != "":
		return nil
	default:
		for _, arg := range args {
			if !isAggregate(arg) {
				total += weight(arg)
			}
		}
	}
	return &total
}

func isAggregate(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}

// weight gives how many values there are in one, and a tenth of the bytes of texts,
// but not much more than an expression may cost.
func weight(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return 1 + uint64(len(v))/10
	case types.Bytes:
		return 1 + uint64(len(v))/10
	case traits.Mapper:
		total := uint64(1)
		for it := v.Iterator(); it.HasNext() == types.True && total <= maxCost; {
			key := it.Next()
			total += weight(key) + weight(v.Get(key))
		}
		return total
	case traits.Lister:
		total := uint64(1)
		for it := v.Iterator(); it.HasNext() == types.True && total <= maxCost; {
			total += weight(it.Next())
		}
		return total
	default:
		return 1
	}
}
