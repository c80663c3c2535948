package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Bounds on one call's round trips (basic/patterns/mrtr).
const (
	maxRounds = 50 // of questions
	maxBusy   = 5  // answers in a row that only ask to come again
)

// Answerer answers what a server asks the user during a call.
type Answerer interface {
	// Answer gives the raw JSON of the result for one input request. method is
	// that of the request and params its raw JSON.
	Answer(ctx context.Context, method string, params []byte) ([]byte, error)
}

// Call is one tools/call with all its rounds.
type Call struct {
	Tool string
	// Definition is the tool's, for the headers that its schema wants; nil when
	// it is not known.
	Definition *Tool
	Arguments  []byte // raw JSON object
	Answerer   Answerer
	// Notify gets each notification; may be nil.
	Notify func(*mcp.Message)
}

// Call carries out a call: it sends the request, has the user asked where the
// server wants to know something, and sends it again with the answers, until
// there is a final result. Errors are those of Do and of the Answerer.
func (c *Client) Call(ctx context.Context, call *Call) (*mcp.Message, error) {
	headers, err := call.headers()
	if err != nil {
		return nil, err
	}
	var more []byte // the members that only a retry has
	busy := 0
	for range maxRounds {
		params := append([]byte(`"name":`), mcp.AppendQuote(nil, call.Tool)...)
		params = append(params, `,"arguments":`...)
		params = append(params, call.Arguments...)
		m, err := c.Do(ctx, &Request{
			Method: mcp.MethodToolsCall, Name: call.Tool, HasName: true,
			Params: append(params, more...), Headers: headers,
			Elicitation: true, Progress: true,
		}, call.Notify)
		if err != nil {
			return nil, err
		}
		switch {
		// Absent means complete, as from servers of older revisions.
		case !m.ResultType.Ok() || m.ResultType.Value == mcp.ResultComplete:
			return m, nil
		case m.ResultType.Value != mcp.ResultInputRequired:
			return nil, c.failure(fmt.Errorf("the result has the type %s, which this client does not know", m.ResultType.In(m.Raw)))
		}
		if !m.InputRequests.Ok() {
			if busy++; busy > maxBusy {
				return nil, c.failure(errors.New("the server keeps asking to come again later"))
			}
			if err := pause(ctx, 250*time.Millisecond<<busy); err != nil {
				return nil, err
			}
		} else {
			busy = 0
		}
		if more, err = retryMembers(ctx, m, call.Answerer); err != nil {
			return nil, err
		}
	}
	return nil, c.failure(fmt.Errorf("the server asked %d times and still has no result", maxRounds))
}

// headers makes the Mcp-Param-* headers from the arguments
// (basic/transports/streamable-http, Client Behavior).
func (call *Call) headers() ([][2]string, error) {
	if call.Definition == nil {
		return nil, nil
	}
	var headers [][2]string
	for _, p := range call.Definition.params {
		value, ok, err := p.Value(call.Arguments)
		if err != nil {
			return nil, fmt.Errorf("the argument for the header %s%s: %w", mcp.HeaderParamPrefix, p.Name, err)
		}
		if ok {
			headers = append(headers, [2]string{mcp.HeaderParamPrefix + p.Name, value})
		}
	}
	return headers, nil
}

// retryMembers answers the questions of an input_required result and gives the
// members that the retry adds: the answers, and the state exactly as it came.
func retryMembers(ctx context.Context, m *mcp.Message, a Answerer) ([]byte, error) {
	var b []byte
	if m.InputRequests.Ok() {
		b = append(b, `,"inputResponses":{`...)
		first := true
		for question := range mcp.Members(m.Raw, m.InputRequests) {
			method := member(m.Raw, question.Value, "method")
			params := mcp.Find(m.Raw, question.Value, "params").In(m.Raw)
			answer, err := a.Answer(ctx, method, params)
			if err != nil {
				return nil, err
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = mcp.AppendQuote(b, question.Key)
			b = append(b, ':')
			b = append(b, answer...)
		}
		b = append(b, '}')
	}
	if m.RequestState.Ok() {
		b = append(b, `,"requestState":`...)
		b = append(b, m.RequestState.In(m.Raw)...)
	}
	return b, nil
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
