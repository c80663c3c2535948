package federation

import (
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestInbox(t *testing.T) {
	in := &inbox{ready: make(chan struct{}, 1)}
	take := func(wantBodies int, wantMissed bool) {
		t.Helper()
		if bodies, missed := in.take(); len(bodies) != wantBodies || missed != wantMissed {
			t.Errorf("%d messages, missed: %v, want %d, %v", len(bodies), missed, wantBodies, wantMissed)
		}
	}
	take(0, false)
	in.put(nil, true)
	in.put([]byte("x"), false)
	in.put(nil, false)
	take(2, true)
	take(0, false)
	large := make([]byte, maxEvent)
	for range 2*maxInbox/maxEvent + 1 {
		in.put(large, false)
	}
	if bodies, missed := in.take(); !missed || len(bodies)*maxEvent > maxInbox {
		t.Errorf("%d messages, missed: %v", len(bodies), missed)
	}
	in.put([]byte("x"), false)
	take(1, false)
}

// What cannot be read, or is about something else, is ignored.
func TestMessagesThatAreNoEvents(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		s := c.rigs[1].open(t, `{"resourceSubscriptions":["a+doc://1"],"taskIds":["a+t"]}`)
		elapse(10 * time.Second)
		received(t, s)
		from := func(ev event) []byte {
			ev.origin, ev.version = "r0", "1"
			if ev.alias == "" {
				ev.alias = "a"
			}
			return ev.appendTo(nil)
		}
		other := from(event{kind: eventAgain, all: true})
		other[0]++
		ofVersion := event{kind: eventAgain, all: true, origin: "r0", alias: "a", version: "2"}
		ofItself := event{kind: eventAgain, all: true, origin: "r1", alias: "a", version: "1"}
		for _, body := range [][]byte{
			nil, []byte("nonsense"), other, ofVersion.appendTo(nil), ofItself.appendTo(nil),
			from(event{kind: eventAgain, all: true, alias: "b"}),
			from(event{kind: eventUpdated, raw: []byte("{")}),
			from(event{kind: eventUpdated, raw: []byte(`{"jsonrpc":"2.0","method":"x"}`)}),
			from(event{kind: eventTask, raw: []byte("[]")}),
			from(event{kind: eventTask}),
			from(event{kind: eventRefused}),
		} {
			if err := c.links[0].Publish(t.Context(), "listen/default", body); err != nil {
				t.Fatal(err)
			}
		}
		elapse(time.Second)
		none(t, s)
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		elapse(time.Second)
		if got := received(t, s); len(got) != 1 {
			t.Errorf("got %s", got)
		}
	})
}
