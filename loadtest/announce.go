package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Paths of an upstream that announces.
const (
	// announcePath changes the list of tools and tells all who listen. The answer is
	// when that began, in nanoseconds since 1970 by the clock of the machine.
	announcePath = "/announce"
	// hearersPath tells how many listen streams are open, mostPath how many were
	// open at once.
	hearersPath = "/hearers"
	mostPath    = "/most"
)

// Names of notifications.
const (
	noteAcknowledged = "notifications/subscriptions/acknowledged"
	noteToolsChanged = "notifications/tools/list_changed"
)

const metaSubscription = "io.modelcontextprotocol/subscriptionId"

// announcer is what an upstream has that tells those who listen of changes of its
// tools (revision 2026-07-28, basic/patterns/subscriptions).
type announcer struct {
	lists [2][]byte // results of tools/list that take turns: all tools, and all but the last

	mu   sync.Mutex
	now  int                          // which of lists is served
	open map[chan<- struct{}]struct{} // those who listen
	most int                          // of them at once
}

// newAnnouncingUpstream makes an upstream whose list can change.
func newAnnouncingUpstream(tools []tool) (*upstream, error) {
	u, err := newUpstream(tools, false)
	if err != nil {
		return nil, err
	}
	_, raws, err := indexTools(tools[:max(0, len(tools)-1)])
	if err != nil {
		return nil, err
	}
	u.announcer = &announcer{lists: [2][]byte{u.list, listResult(raws)}, open: map[chan<- struct{}]struct{}{}}
	return u, nil
}

// control answers what the load generator asks, and tells whether it was that. An
// announcer that is nil is asked nothing.
func (a *announcer) control(w http.ResponseWriter, r *http.Request) bool {
	if a == nil {
		return false
	}
	var n int64
	switch r.URL.Path {
	case announcePath:
		n = a.announce().UnixNano()
	case hearersPath:
		a.mu.Lock()
		n = int64(len(a.open))
		a.mu.Unlock()
	case mostPath:
		a.mu.Lock()
		n = int64(a.most)
		a.mu.Unlock()
	default:
		return false
	}
	_, _ = io.WriteString(w, strconv.FormatInt(n, 10))
	return true
}

// announce changes the list, has all be told who listen, and gives when.
func (a *announcer) announce() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = 1 - a.now
	began := time.Now()
	for hear := range a.open {
		select {
		case hear <- struct{}{}:
		default: // it is about to be told anyway
		}
	}
	return began
}

// answer answers the requests that differ from those of an upstream whose list
// stays, and tells whether it was one.
func (a *announcer) answer(w http.ResponseWriter, r *http.Request, req *message) bool {
	if a == nil {
		return false
	}
	switch req.Method {
	case methodDiscover:
		respond(w, req.ID, "result", discoverResult(`{"listChanged":true}`, serverInfo))
	case methodList:
		a.mu.Lock()
		list := a.lists[a.now]
		a.mu.Unlock()
		respond(w, req.ID, "result", list)
	case methodListen:
		a.listen(w, r, req)
	default:
		return false
	}
	return true
}

// listen holds a listen stream until its client leaves. All that is asked for is
// granted.
func (a *announcer) listen(w http.ResponseWriter, r *http.Request, req *message) {
	hear := make(chan struct{}, 1)
	a.mu.Lock()
	a.open[hear] = struct{}{}
	a.most = max(a.most, len(a.open))
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.open, hear)
	}()
	meta := fmt.Sprintf(`"_meta":{%q:%s}`, metaSubscription, req.ID)
	filter := req.Params.Notifications
	if len(filter) == 0 {
		filter = []byte("{}")
	}
	beginStream(w)
	err := sendEvent(w, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{%s,"notifications":%s}}`, noteAcknowledged, meta, filter))
	for err == nil {
		select {
		case <-hear:
			err = sendEvent(w, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{%s}}`, noteToolsChanged, meta))
		case <-r.Context().Done():
			return
		}
	}
}
