package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Bounds of one evaluation.
const (
	maxCost     = 100_000         // of one expression, in CEL's units: some 20 ns each
	maxDecision = 5 * maxCost     // of one decision
	maxTime     = 2 * time.Second // of an expression that loops; cost ends it long before on an idle machine
	maxMessage  = 200             // bytes of an error's text
)

// Errors of decisions and evaluations.
var (
	errNoToolset = errors.New("there is no such toolset")
	errCost      = fmt.Errorf("costs more than %d", maxCost)
	errDecision  = fmt.Errorf("what is left of %d for all rules together is used up", maxDecision)
	errSize      = errors.New("makes values that are too large")
	errTime      = fmt.Errorf("takes longer than %s", maxTime)
	errBool      = errors.New("gives no bool")
	errArguments = errors.New("fails with the arguments of this call")
)

// outcomes is a set of what an expression may come to.
type outcomes uint8

const (
	yes outcomes = 1 << iota
	no
	fails
	any3 = yes | no | fails
)

// expression is a compiled one.
type expression struct {
	place   string // such as rule "finance"
	source  string
	info    *ast.SourceInfo
	reads   reads
	program program
	open    *part // for unknown arguments; nil when it reads none
	vague   *part // for an item of which only kind, alias and tags are known
}

// program is a CEL program.
type program struct {
	cel   cel.Program
	loops bool
	most  time.Duration // that it may take, if it loops
}

// evaluate gives what the expression comes to. err tells why it fails; it is nil
// unless that is the only thing that it may come to.
func (x *expression) evaluate(s *scope) (outcomes, error) {
	var o outcomes
	var err error
	if s.vague {
		o, _ = x.vague.evaluate(s)
		return o, nil
	}
	if x.reads.arguments && s.open() {
		o, err = x.open.evaluate(s)
	} else {
		if x.reads.arguments && s.item.Kind != KindResource {
			s.fleeting = true
		}
		o, err = x.program.evaluate(s)
	}
	if o != fails {
		return o, nil
	}
	return o, fmt.Errorf("%s: %w", x.place, x.explain(err, x.reads.arguments && !s.open()))
}

// evaluate runs the program. Only open ones may come to more than one thing.
func (p *program) evaluate(s *scope) (outcomes, error) {
	v, err := p.run(s)
	if err != nil && s.vague && isBound(err) {
		// Without what is not known it might not have come to this.
		return any3, nil
	}
	if err != nil {
		return fails, err
	}
	switch {
	case v == types.True:
		return yes, nil
	case v == types.False:
		return no, nil
	case types.IsUnknown(v):
		return any3, nil
	default:
		return fails, errBool
	}
}

// isBound tells whether an evaluation failed since it came to its bounds.
func isBound(err error) bool {
	return err == errDecision || err == errCost || err == errSize || err == errTime
}

// run gives the program's value.
func (p *program) run(s *scope) (v ref.Val, err error) {
	if s.spent > maxDecision {
		return nil, errDecision
	}
	var details *cel.EvalDetails
	if p.loops {
		ctx, cancel := context.WithTimeout(context.Background(), p.most)
		defer cancel()
		v, details, err = p.cel.ContextEval(ctx, s)
	} else {
		v, details, err = p.cel.Eval(s)
	}
	if spent := details.ActualCost(); spent != nil {
		s.spent += *spent
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) {
		switch cancelled.Cause {
		case interpreter.CostLimitExceeded:
			return nil, errCost
		case interpreter.MemoryLimitExceeded:
			return nil, errSize
		}
	}
	if errors.Is(err, interpreter.InterruptError{}) {
		s.fleeting = true // a machine with less to do might have come to an end
		return nil, errTime
	}
	return v, err
}

// explain gives the text of a failure for people. What CEL says may quote values, so
// it is left out where arguments were read.
func (x *expression) explain(err error, secret bool) error {
	var bad *types.Err
	if !errors.As(err, &bad) {
		return err
	}
	var own *valueError
	message := bad.Error()
	switch {
	case errors.As(err, &own):
		message = own.Error()
	case secret:
		message = errArguments.Error()
	case len(message) > maxMessage:
		message = fmt.Sprintf("%q…", message[:maxMessage])
	}
	return errors.New(at(x.info.GetStartLocation(bad.NodeID())) + message)
}
