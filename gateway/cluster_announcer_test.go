package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// announcer is an upstream that tells those who listen what its test wants, and
// counts them.
type announcer struct {
	*scripted

	hearing sync.Mutex // guards what follows
	open    map[*hearer]bool
	total   int // streams up to now
	most    int // of them at once
}

// hearer is one who listens.
type hearer struct {
	remote string // address
	id     string // of the subscription, as JSON
	filter string
	out    chan string
}

// newAnnouncer starts one. It ends with the test.
func newAnnouncer(tb testing.TB) *announcer {
	tb.Helper()
	a := &announcer{scripted: newScripted(tb), open: map[*hearer]bool{}}
	a.handle("subscriptions/listen", a.listen)
	return a
}

// listen answers subscriptions/listen. All that is asked for is granted.
func (a *announcer) listen(w http.ResponseWriter, r *http.Request, q *asked) {
	h := &hearer{
		remote: r.RemoteAddr, id: string(q.ID), out: make(chan string),
		filter: string(memberOf(a.tb, q.body, "params", "notifications")),
	}
	a.hearing.Lock()
	a.open[h] = true
	a.total++
	a.most = max(a.most, len(a.open))
	a.hearing.Unlock()
	defer func() {
		a.hearing.Lock()
		defer a.hearing.Unlock()
		delete(a.open, h)
	}()
	answerEvents(w, h.note("subscriptions/acknowledged", "", `"notifications":`+h.filter))
	for {
		select {
		case message := <-h.out:
			answerEvents(w, message)
		case <-r.Context().Done():
			return
		}
	}
}

// note makes a notification; params are members besides _meta.
func (h *hearer) note(name, mark, params string) string {
	meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + h.id
	if mark != "" {
		meta += `,"example.com/mark":"` + mark + `"`
	}
	if params != "" {
		params = "," + params
	}
	return `{"jsonrpc":"2.0","method":"notifications/` + name + `","params":{` + meta + "}" + params + "}}"
}

// only waits until there is one stream, whose filter has all of parts in it, and
// gives it.
func (a *announcer) only(what string, parts ...string) (one *hearer) {
	a.tb.Helper()
	eventually(a.tb, what, func() bool {
		a.hearing.Lock()
		defer a.hearing.Unlock()
		if len(a.open) != 1 {
			return false
		}
		for one = range a.open {
			for _, part := range parts {
				if !strings.Contains(one.filter, part) {
					return false
				}
			}
		}
		return true
	})
	return one
}

// announce sends a notification on the one stream that there is.
func (a *announcer) announce(name, mark, params string) {
	a.tb.Helper()
	h := a.only("one stream hears of "+name, "")
	h.out <- h.note(name, mark, params)
}

// streams gives how many there were, and how many at once.
func (a *announcer) streams() (total, most int) {
	a.hearing.Lock()
	defer a.hearing.Unlock()
	return a.total, a.most
}

// ownerOf gives the index of the replica that has opened a stream.
func (a *announcer) ownerOf(r *gatewaytest.Replicas, h *hearer) (owner int) {
	a.tb.Helper()
	// While connections come and go the system may leave some out of what it tells of
	// them.
	eventually(a.tb, "a replica has opened the stream from "+h.remote, func() bool {
		owner = slices.IndexFunc(r.All, func(one *gatewaytest.Replica) bool {
			return one.Connects(a.tb, h.remote, a.Listener.Addr().String())
		})
		return owner >= 0
	})
	return owner
}
