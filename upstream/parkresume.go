package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// gatherTime is how long a call waits for more after a request of the server, before
// the client is asked: servers that ask several things at once send them one right
// after the other, and a client that is asked again has its user come back.
const gatherTime = 25 * time.Millisecond

// gather takes all that the server asks at once, up to maxHeldRequests.
func (a *legacyAnswer) gather(first flightItem) *fault {
	defer a.wait(time.Now())
	f := a.flight
	f.question(first)
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for !f.isOver() && len(f.asked) < maxHeldRequests {
		if it, ok := f.pollRequest(); ok {
			f.question(it)
			timer.Reset(gatherTime)
			continue
		}
		select {
		case <-f.wake:
		case <-timer.C:
			return nil
		case <-a.ctx.Done():
			return a.legacy.failure(a.req.Method, context.Cause(a.ctx))
		}
	}
	return nil
}

// park leaves the call to itself and asks the client what the server asks.
func (a *legacyAnswer) park() (*mcp.Message, *fault) {
	f := a.flight
	state, ok := a.legacy.parking.put(f, a.key.owner)
	if !ok {
		fault := a.legacy.rejected(ClassOverloaded, "too many calls wait for their users")
		fault.Retryable = false // it was begun
		return nil, fault
	}
	a.flight = nil
	return a.say(inputRequired(a.req.ID, f.asked, state)), nil
}

// resume comes back to a parked call with what the client answered, and gives the
// first message that is new. What the client has not answered is asked again.
func (a *legacyAnswer) resume() (*mcp.Message, *fault) {
	f := a.legacy.parking.claim(a.state, a.key.owner, a.req.Method)
	if f == nil {
		return a.say(mcp.AppendErrorResponse(nil, a.req.ID, mcp.Errorf(mcp.CodeInvalidParams,
			"no call waits under this requestState: its time is over, it was answered already, or its server has gone"))), nil
	}
	a.flight, a.sent = f, true
	whole := mcp.Span{Start: 0, End: len(a.responses)}
	asked := f.asked
	f.asked = nil
	for _, q := range asked {
		value := mcp.Find(a.responses, whole, q.key)
		switch {
		case f.isOver():
		case !isObject(a.responses, value):
			f.asked = append(f.asked, q)
		default:
			if fault := a.answer(q, value.In(a.responses)); fault != nil {
				return nil, fault
			}
		}
	}
	if len(f.asked) > 0 && !f.isOver() {
		return a.park()
	}
	return a.read()
}

// answer gives the server the client's answer.
func (a *legacyAnswer) answer(q askedRequest, value []byte) *fault {
	defer a.wait(time.Now())
	s := a.flight.session
	err := s.link.post(a.ctx, inputAnswer(q, value), linkMeta{header: a.req.Header})
	if err == nil {
		return nil
	}
	s.check(err)
	var le *linkError
	if errors.As(err, &le) && le.fault.Class == ClassStatus && le.fault.status < 500 {
		// The server does not wait for this answer any more; what comes of the call
		// it says itself.
		s.pool.log.Debug("the server refuses an answer of the client", "error", err)
		return nil
	}
	fault := a.legacy.failure(a.req.Method, err)
	fault.Retryable = false // the call has ended with this
	return fault
}
