package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// identify gets what the server is shown of who calls, before the request takes a
// place that others may want. Where the breaker is open nobody is asked.
func (r *Response) identify(ctx context.Context) *fault {
	c := r.client
	if r.source = c.conf.source(&r.req); r.source == nil {
		return nil
	}
	if !r.req.Listen && c.guard.isOpen() {
		return r.failure(ClassBreakerOpen, gobreaker.ErrOpenState)
	}
	defer r.wait(time.Now())
	var err error
	if r.lines, err = show(ctx, r.source); err != nil {
		return r.unidentified(err)
	}
	return nil
}

// reshow tells the source that the server refused its lines. When it gives others
// there may be another attempt, once for each request.
func (r *Response) reshow(ctx context.Context) (again bool, _ *fault) {
	r.ticket.settle(nil) // the server is there, whatever the source has to say
	defer r.wait(time.Now())
	again, err := refused(ctx, r.source, r.lines, r.resp)
	if err != nil {
		return false, r.unidentified(err)
	}
	if !again || r.reshown {
		return false, nil
	}
	r.reshown = true
	r.abandon(nil)
	if r.lines, err = show(ctx, r.source); err != nil {
		return false, r.unidentified(err)
	}
	return true, nil
}

// unidentified makes the fault of a source that has failed, or of a request that was
// given up meanwhile.
func (r *Response) unidentified(err error) *fault {
	le, ok := errors.AsType[*linkError](err)
	if !ok {
		return r.ended(err)
	}
	f := *le.fault
	f.Alias = r.client.conf.Alias
	return &f
}

// identify asks the source of a request before that takes a place that others may
// want, and before a session is made for it: what the source gives is given again, at
// once, for each message that is sent. Where the breaker is open nobody is asked.
func (a *legacyAnswer) identify(ctx context.Context) *fault {
	l, source := a.legacy, a.key.source
	if source == nil {
		return nil
	}
	if !a.req.Listen && l.guard.isOpen() {
		return l.failure(a.req.Method, linkFailure(ClassBreakerOpen, true, gobreaker.ErrOpenState))
	}
	defer a.wait(time.Now())
	if _, err := show(ctx, source); err != nil {
		return l.failure(a.req.Method, err)
	}
	return nil
}
