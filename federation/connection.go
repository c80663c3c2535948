package federation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// ackWait is how long an upstream's acknowledgement is waited for.
const ackWait = 10 * time.Second

// interest is what a tenant's streams want of one upstream. The changes of its
// lists are always wanted, since they keep the catalogue true.
type interest struct {
	uris  map[string]bool
	tasks map[string]bool
}

// interest gives what is wanted of a member now.
func (h *hub) interest(m *member) *interest {
	in := &interest{uris: map[string]bool{}, tasks: map[string]bool{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if dm := h.demands[m]; dm != nil {
		for uri := range dm.uris {
			in.uris[uri] = true
		}
		for id := range dm.tasks {
			in.tasks[id] = true
		}
	}
	return in
}

// covers tells whether all that other wants is wanted.
func (in *interest) covers(other *interest) bool {
	return within(other.uris, in.uris) && within(other.tasks, in.tasks)
}

func within(part, whole map[string]bool) bool {
	for key := range part {
		if !whole[key] {
			return false
		}
	}
	return true
}

// beyond gives what is wanted besides what was, in order.
func beyond(now, before map[string]bool) []string {
	var more []string
	for key := range now {
		if !before[key] {
			more = append(more, key)
		}
	}
	slices.Sort(more)
	return more
}

// and gives what both want.
func (in *interest) and(other *interest) *interest {
	not := func(set map[string]bool) func(string, bool) bool {
		return func(key string, _ bool) bool { return !set[key] }
	}
	both := &interest{uris: maps.Clone(in.uris), tasks: maps.Clone(in.tasks)}
	maps.DeleteFunc(both.uris, not(other.uris))
	maps.DeleteFunc(both.tasks, not(other.tasks))
	return both
}

// errCannotPush tells that the upstream has no subscriptions/listen.
var errCannotPush = errors.New("the upstream has no listen streams")

// isRefusal tells whether an upstream refused a listen request, maybe for what it
// asks for.
func isRefusal(err error) bool {
	c := classOf(err)
	return c == upstream.ClassRejected || c == upstream.ClassStatus
}

// connection is one open stream towards the upstream.
type connection struct {
	asked  *interest
	serves *interest // what was wanted when it was last looked at: asked, and what was refused
	pushed *pushed   // what the upstream granted; set before the stream counts as open
	cancel context.CancelFunc
	done   chan struct{}
}

// pushed is what an upstream has acknowledged to push.
type pushed struct {
	lists [kindResources + 1]bool
	uris  map[string]bool
	tasks map[string]bool
}

// nothing tells whether the upstream granted nothing at all.
func (p *pushed) nothing() bool {
	return p.lists == [len(p.lists)]bool{} && len(p.uris) == 0 && len(p.tasks) == 0
}

// close ends the connection and waits for its reader. A nil connection is fine.
func (c *connection) close() {
	if c != nil {
		c.cancel()
		<-c.done
	}
}

// ended is closed when the stream has ended; a nil connection never ends.
func (c *connection) ended() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.done
}

// connect opens a stream and waits for its acknowledgement.
func (l *listener) connect(ctx context.Context, want *interest) (*connection, error) {
	ctx, cancel := context.WithCancel(ctx)
	resp, err := l.member.doer.Do(ctx, l.request(want))
	if err != nil {
		cancel()
		return nil, err
	}
	c := &connection{asked: want, serves: want, cancel: cancel, done: make(chan struct{})}
	acked := make(chan error, 1)
	l.hub.domain.work.Go(func() {
		defer close(c.done)
		defer resp.Close()
		l.read(ctx, c, resp, acked)
	})
	timeout := time.NewTimer(ackWait)
	defer timeout.Stop()
	select {
	case err = <-acked:
	case <-timeout.C:
		err = l.member.nonsense(upstream.ClassTimeout, "no acknowledgement of subscriptions/listen")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// request makes the listen request.
func (l *listener) request(want *interest) *upstream.Request {
	f := l.hub.domain.fed
	filter := []byte(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`)
	if len(want.uris) > 0 {
		filter = appendStrings(append(filter, `,"resourceSubscriptions":`...), want.uris)
	}
	if len(want.tasks) > 0 {
		filter = appendStrings(append(filter, `,"taskIds":`...), want.tasks)
	}
	filter = append(filter, '}')
	id := f.nextID()
	buf := mcp.GetBuffer(512)
	buf.B = mcp.AppendRequest(buf.B, id, mcp.MethodListen, f.clientInfo, ownCapabilities, []mcp.Param{{Key: "notifications", Value: filter}})
	return &upstream.Request{Method: mcp.MethodListen, ID: strconv.AppendInt(nil, id, 10), Body: buf, Listen: true}
}

func appendStrings(b []byte, set map[string]bool) []byte {
	b = append(b, '[')
	for i, s := range slices.Sorted(maps.Keys(set)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = mcp.AppendQuote(b, s)
	}
	return append(b, ']')
}

// read takes the stream's messages until it ends. What comes first decides
// whether it is open.
func (l *listener) read(ctx context.Context, c *connection, resp upstream.Answer, acked chan<- error) {
	for {
		msg, err := resp.Next()
		if err != nil {
			acked <- err
			return
		}
		switch {
		case msg.Kind == mcp.KindNotification && msg.Method == mcp.NotificationAcknowledged:
			if c.pushed == nil {
				c.pushed = acknowledged(msg)
				acked <- nil
				acked = make(chan error, 1) // nobody waits any more
			}
		case msg.Kind == mcp.KindNotification && msg.Method == mcp.NotificationCancelled, msg.Kind == mcp.KindResult:
			acked <- l.member.nonsense(upstream.ClassInterrupted, "subscriptions/listen ended at once")
			return
		case msg.Kind == mcp.KindError:
			if msg.Code == mcp.CodeMethodNotFound {
				acked <- errCannotPush
			} else {
				acked <- l.member.nonsense(upstream.ClassRejected, "subscriptions/listen answered with error %d", msg.Code)
			}
			return
		case msg.Kind == mcp.KindNotification:
			l.take(ctx, msg)
		}
	}
}

// acknowledged reads what the upstream will push.
func acknowledged(msg *mcp.Message) *pushed {
	p := &pushed{uris: map[string]bool{}, tasks: map[string]bool{}}
	names := func(at mcp.Span, into map[string]bool) {
		for el := range mcp.Elements(msg.Raw, at) {
			if s, ok := mcp.String(msg.Raw, el); ok {
				into[s] = true
			}
		}
	}
	for m := range mcp.Members(msg.Raw, msg.Notifications) {
		yes := string(m.Value.In(msg.Raw)) == "true"
		switch m.Key {
		case "toolsListChanged":
			p.lists[kindTools] = yes
		case "promptsListChanged":
			p.lists[kindPrompts] = yes
		case "resourcesListChanged":
			p.lists[kindResources] = yes
		case "resourceSubscriptions":
			names(m.Value, p.uris)
		case "taskIds":
			names(m.Value, p.tasks)
		}
	}
	return p
}
