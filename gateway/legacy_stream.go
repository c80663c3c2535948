package gateway

import (
	"context"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// feed is what a GET stream of the handshake era has besides its subscription. Its
// methods are fine with nil, which is what other streams have.
type feed struct {
	edge    *edge
	session *session
	call    federation.Call // without its request
	number  uint64          // of the stream
	open    func() (*federation.Subscription, error)
	detach  func()

	news    chan struct{} // the session subscribed to something else
	ended   chan struct{} // closed when another stream took the place, or the session is over
	endOnce sync.Once

	mu   sync.Mutex
	uris []string // that it subscribes to
}

// stream opens the GET stream of a session (2025-11-25, basic/transports,
// Listening for Messages from the Server). It replaces the one before, since a
// message goes to one stream only.
func (x *exchange) stream() error {
	if x.accept = parseAccept(x.r.Header); !x.accept.sse {
		return refuse(http.StatusNotAcceptable, "not_acceptable", "Accept must allow text/event-stream")
	}
	x.method = mcp.MethodListen
	h, s := x.edge.handshakes, x.legacy
	return x.hold(x.r.Context(), func(life context.Context, st *stream) error {
		f := &feed{edge: x.edge, session: s, call: x.newCall(nil), news: make(chan struct{}, 1), ended: make(chan struct{})}
		err := h.states.update(life, s.id, s.expires, func(state *softState) error {
			if state.deleted {
				return noSession()
			}
			// The clock keeps numbers growing if the state was forgotten in between.
			f.number = max(state.stream+1, uint64(time.Now().UnixNano()))
			state.stream = f.number
			return nil
		})
		if err != nil {
			return err
		}
		f.open = func() (*federation.Subscription, error) { return f.subscribe(life) }
		st.feed = f
		f.detach = h.states.attach(s.id, f.take)
		if err := h.states.signal(life, s.id, signal{kind: signalStream, stream: f.number}); err != nil {
			return err
		}
		st.sub, err = f.open()
		return err
	})
}

// subscribe opens a listen stream of the federation for all that the client is to
// hear of. Its own messages of beginning and end are not for the client.
func (f *feed) subscribe(life context.Context) (*federation.Subscription, error) {
	state, err := f.edge.handshakes.states.get(life, f.session.id)
	if err != nil {
		return nil, err
	}
	// A stream that was opened elsewhere at the same time may have told so before
	// this one listened.
	f.follow(state)
	f.mu.Lock()
	f.uris = state.uris
	f.mu.Unlock()
	filter := []byte(`{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":[`)
	for i, uri := range state.uris {
		if i > 0 {
			filter = append(filter, ',')
		}
		filter = mcp.AppendQuote(filter, uri)
	}
	filter = append(filter, "]}"...)
	raw := mcp.AppendRequest(nil, 1, mcp.MethodListen, f.session.client, f.session.capabilities, []mcp.Param{{Key: "notifications", Value: filter}})
	req, bad := mcp.ParseRequest(raw, 0)
	if bad != nil {
		return nil, bad
	}
	call := f.call
	call.Request = req
	sub, err := f.edge.router.Listen(life, &call)
	if err != nil {
		return nil, err
	}
	sub.Ack, sub.End = nil, nil // a GET stream has neither
	return sub, nil
}

// take is told of the session's signals.
func (f *feed) take(s signal) {
	switch s.kind {
	case signalSubscribe:
		f.stir()
	case signalDeleted:
		f.end()
	case signalStream:
		f.follow(softState{stream: s.stream})
	case signalState:
		f.follow(s.state)
		f.mu.Lock()
		same := slices.Equal(f.uris, s.state.uris)
		f.mu.Unlock()
		if !same {
			f.stir()
		}
	}
}

// stir has the stream look at what is subscribed to.
func (f *feed) stir() {
	select {
	case f.news <- struct{}{}:
	default: // it will look anyway
	}
}

// follow ends the stream where the session has a later one, or is over.
func (f *feed) follow(state softState) {
	if state.deleted || state.stream > f.number {
		f.end()
	}
}

func (f *feed) end() { f.endOnce.Do(func() { close(f.ended) }) }

// changed gives news of other subscriptions.
func (f *feed) changed() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.news
}

// over is closed when the stream has to end.
func (f *feed) over() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.ended
}

// left is how long the session lasts.
func (f *feed) left() time.Duration {
	if f == nil {
		return math.MaxInt64
	}
	return time.Until(f.session.expires)
}

// close ends what the registry does not know of.
func (f *feed) close() {
	if f != nil && f.detach != nil {
		f.detach()
	}
}

// translate takes out of a notification what marks it as one of a subscription.
func (f *feed) translate(message []byte) []byte {
	if f == nil {
		return message
	}
	msg, err := mcp.ParseMessage(message, 0)
	if err != nil {
		return message
	}
	var e mcp.Edits
	dropMeta(&e, msg.Raw, msg.Params, msg.Meta, mcp.MetaSubscriptionID)
	return e.AppendTo(nil, msg.Raw)
}

// renew subscribes to what the session wants now. The new subscription is open
// before the old one ends, so that nothing is lost in between; something may come
// twice.
func (st *stream) renew() error {
	sub, err := st.feed.open()
	if err != nil {
		// There may be room for one alone.
		st.sub.Close()
		if sub, err = st.feed.open(); err != nil {
			st.out.end(nil)
			return err
		}
	}
	old := st.sub
	st.sub = sub
	defer old.Close()
	st.sub.Notify(st.signal)
	for {
		message, _ := old.Next()
		if message == nil {
			return nil
		}
		if err := st.out.send(st.feed.translate(message)); err != nil {
			return err
		}
	}
}
