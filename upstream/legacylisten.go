package upstream

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

const (
	// subscribeTime bounds the resource subscriptions of one listen request; those
	// that are not made in that time are not granted.
	subscribeTime = 5 * time.Second
	// maxWaiting bounds the notifications that wait for a listener.
	maxWaiting = 1024
)

// legacyListener is the answer of a handshake server to subscriptions/listen: the
// session's own stream and its resource subscriptions.
type legacyListener struct {
	answer  *legacyAnswer
	session *session // nil when nothing will be pushed
	uris    []string // that are subscribed to

	mu      sync.Mutex
	waiting [][]byte
	err     error
	wake    chan struct{}

	fault  *fault
	closed bool
}

var _ Answer = (*legacyListener)(nil)

// listen answers subscriptions/listen. The acknowledgement grants what the server
// can push (2026-07-28, basic/patterns/subscriptions); the rest has to be polled.
// When the stream ends so does the answer, with ClassInterrupted.
func (l *Legacy) listen(ctx context.Context, a *legacyAnswer) (Answer, error) {
	n := &legacyListener{answer: a, wake: make(chan struct{}, 1)}
	wait, cancel := context.WithTimeoutCause(a.ctx, l.conf.CallTimeout, errDeadline)
	defer cancel()
	f := a.identify(wait)
	var ack []byte
	if f == nil {
		var err error
		if ack, err = n.open(wait); err != nil {
			f = l.failure(mcp.MethodListen, err)
		}
	}
	if f != nil {
		a.fail(f)
		n.Close()
		return nil, &f.Error
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = append([][]byte{ack}, n.waiting...) // before what has come meanwhile
	return n, nil
}

// open gets what there is to listen to and makes the acknowledgement.
func (n *legacyListener) open(ctx context.Context) ([]byte, error) {
	a, l := n.answer, n.answer.legacy
	s, err := l.session(ctx, a.key, a.caps)
	if err != nil {
		return nil, err
	}
	noteVersion(a.span, s.offers.version)
	if !s.offers.anyNotification {
		l.release(s)
		return acknowledgement(a.req.ID, nil, nil, nil), nil
	}
	n.session = s
	s.stream.join(n)
	if err := s.stream.ensure(ctx); errors.Is(err, errNoStream) {
		n.part()
		n.mu.Lock()
		n.err = nil // that there is no stream is no reason to try again
		n.mu.Unlock()
		return acknowledgement(a.req.ID, nil, nil, nil), nil
	} else if err != nil {
		return nil, err
	}
	whole := mcp.Span{Start: 0, End: len(a.filter)}
	if s.offers.subscribe {
		var uris []string
		for at := range mcp.Elements(a.filter, mcp.Find(a.filter, whole, "resourceSubscriptions")) {
			if uri, ok := mcp.String(a.filter, at); ok && !slices.Contains(uris, uri) {
				uris = append(uris, uri)
			}
		}
		if len(uris) > 0 {
			ctx, cancel := context.WithTimeout(ctx, subscribeTime)
			defer cancel()
			n.uris = s.stream.subscribe(ctx, uris)
		}
	}
	return acknowledgement(a.req.ID, s.offers, a.filter, n.uris), nil
}

// acknowledgement makes the first message of the answer: what is granted of the
// filter. Nothing is granted when offers is nil.
func acknowledgement(id []byte, o *offers, filter []byte, uris []string) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"` + mcp.NotificationAcknowledged + `","params":{"_meta":{"` + mcp.MetaSubscriptionID + `":`)
	b = append(append(b, id...), `},"notifications":{`...)
	if o != nil {
		sep := ""
		whole := mcp.Span{Start: 0, End: len(filter)}
		for _, flag := range []struct {
			key    string
			offers bool
		}{{"toolsListChanged", o.toolsChanged}, {"promptsListChanged", o.promptsChanged}, {"resourcesListChanged", o.resourcesChanged}} {
			if flag.offers && string(mcp.Find(filter, whole, flag.key).In(filter)) == "true" {
				b = append(append(b, sep+`"`+flag.key...), `":true`...)
				sep = ","
			}
		}
		for i, uri := range uris {
			if i == 0 {
				b = append(b, sep+`"resourceSubscriptions":[`...)
			} else {
				b = append(b, ',')
			}
			b = mcp.AppendQuote(b, uri)
		}
		if len(uris) > 0 {
			b = append(b, ']')
		}
	}
	return append(b, "}}}"...)
}

// add takes a notification. A listener that does not keep up is ended: it reads
// everything again then.
func (n *legacyListener) add(m *mcp.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return
	}
	if len(n.waiting) >= maxWaiting {
		n.err = linkFailure(ClassInterrupted, false, errors.New("too many notifications wait"))
	} else {
		n.waiting = append(n.waiting, slices.Clone(m.Raw))
	}
	signal(n.wake)
}

// end ends the answer after what waits.
func (n *legacyListener) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = linkFailure(ClassInterrupted, false, err)
	}
	signal(n.wake)
}

// part leaves the session.
func (n *legacyListener) part() {
	s := n.session
	if s == nil {
		return
	}
	n.session = nil
	s.stream.leave(n)
	if len(n.uris) == 0 || s.isLost() {
		s.pool.release(s)
		return
	}
	uris := n.uris
	s.pool.background(func() {
		defer s.pool.release(s)
		ctx, cancel := context.WithTimeout(context.Background(), subscribeTime)
		defer cancel()
		s.stream.unsubscribe(ctx, uris)
	})
}

// Status implements Answer.
func (n *legacyListener) Status() int { return n.answer.status }

// Waited implements Answer.
func (n *legacyListener) Waited() time.Duration { return n.answer.waited }

// Next implements Answer.
func (n *legacyListener) Next() (*mcp.Message, error) {
	if n.fault != nil {
		return nil, &n.fault.Error
	}
	if n.closed {
		return nil, io.EOF
	}
	start := time.Now()
	defer n.answer.wait(start)
	for {
		raw, err := n.poll()
		if raw != nil {
			m, err := mcp.ParseMessage(raw, n.answer.legacy.conf.MaxDepth)
			return m, err
		}
		if err == nil {
			select {
			case <-n.wake:
				continue
			case <-n.answer.ctx.Done():
				err = context.Cause(n.answer.ctx)
			}
		}
		n.fault = n.answer.fail(n.answer.legacy.failure(mcp.MethodListen, err))
		return nil, &n.fault.Error
	}
}

func (n *legacyListener) poll() ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) > 0 {
		raw := n.waiting[0]
		n.waiting = n.waiting[1:]
		return raw, nil
	}
	return nil, n.err
}

// Close implements Answer.
func (n *legacyListener) Close() {
	if n.closed {
		return
	}
	n.closed = true
	n.part()
	n.answer.Close()
}
