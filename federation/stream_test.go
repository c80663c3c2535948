package federation

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// A new filter opens its stream, and only then closes the one before.
func TestAChangedFilterLeavesNoGap(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		elapse(time.Second)
		accept := p.handler(mcp.MethodListen)
		p.handle(mcp.MethodListen, func(ctx context.Context, m *mcp.Request) (*answer, error) {
			elapse(5 * time.Second)
			if p.open() != 1 {
				t.Error("the stream was closed before there was another one")
			}
			return accept(ctx, m)
		})
		r.open(t, `{"resourceSubscriptions":["a+doc://2"]}`)
		elapse(10 * time.Second)
		if p.open() != 1 || !strings.Contains(p.wanted(), `["doc://1","doc://2"]`) {
			t.Errorf("%d streams are open, the last for %s", p.open(), p.wanted())
		}
	})
}

// An upstream may end a stream with a result, with notifications/cancelled or in
// silence: it is opened again.
func TestEndsOfStreams(t *testing.T) {
	for name, end := range map[string]func(*fake){
		"result": func(p *fake) {
			p.say(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}`)
		},
		"cancelled": func(p *fake) { p.push(mcp.NotificationCancelled, `{"requestId":1}`) },
		"silence":   func(p *fake) { p.hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				s := r.open(t, `{"toolsListChanged":true}`)
				elapse(time.Minute)
				end(p)
				elapse(time.Second)
				if n := p.count(mcp.MethodListen); n != 2 {
					t.Errorf("%d streams were opened, want 2", n)
				}
				if ended(s) {
					t.Error("the client's stream ended with the upstream's")
				}
			})
		})
	}
}

// Each revision of the registry is held against the open streams.
func TestStreamsAreHeldAgainstTheRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.list(kindTools, tool("one"))
		r.listed("", kindTools)
		lists := r.open(t, `{"toolsListChanged":true}`)
		watching := r.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		task := r.open(t, `{"taskIds":["a+t"]}`)
		elapse(time.Second)
		// Nothing that matters to them changes.
		conf := r.conf
		conf.PageSize = 7
		r.store.Replace([]*tenant.Tenant{&conf})
		elapse(time.Second)
		if ended(lists) || ended(watching) || ended(task) {
			t.Fatal("a stream ended without a reason")
		}
		// The upstream has another configuration, and another list.
		p.list(kindTools, tool("two"))
		changed := fakeUp("a")
		changed.Version = "2"
		r.reconfigure(changed)
		elapse(time.Second)
		if !ended(watching) || !ended(task) {
			t.Error("a stream goes on that watches what is another upstream now")
		}
		if got := next(t, lists); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
		none(t, lists)
		if p.open() != 1 {
			t.Errorf("%d streams are open", p.open())
		}
	})
}

// What changed before anybody listened is told when somebody does.
func TestAChangeBeforeTheFirstStream(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.listed("", kindTools)
		p.list(kindTools, tool("two"))
		s := r.open(t, `{"toolsListChanged":true}`)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
		if n := p.count(mcp.MethodToolsList); n != 2 {
			t.Errorf("the list was read %d times, want 2", n)
		}
	})
}
