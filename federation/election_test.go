package federation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// One replica listens for all, and each client is told once of each change.
func TestOneStreamForAllReplicas(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		c.listed("a", kindTools)
		merged := append(c.open(t, `{"toolsListChanged":true}`), c.open(t, `{"toolsListChanged":true}`)...)
		docs := c.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		tasks := c.open(t, `{"taskIds":["a+t"]}`)
		elapse(10 * time.Second)
		if n := c.p.open(); n != 1 {
			t.Fatalf("%d upstream streams are open", n)
		}
		clearAll(t, docs)
		asked := c.p.count(mcp.MethodToolsList)
		c.p.list(kindTools, tool("two"))
		for range 5 {
			c.p.push(mcp.NotificationToolsChanged, `{}`)
		}
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1","x":1e400}`)
		c.p.push(mcp.NotificationTasks, `{"taskId":"t","status":"working"}`)
		elapse(500 * time.Millisecond)
		for i, s := range merged {
			if diff := cmp.Diff([]string{toolsChangedToClient}, received(t, s)); diff != "" {
				t.Errorf("client %d of lists (-want +got):\n%s", i, diff)
			}
		}
		for i := range c.rigs {
			got := append(received(t, docs[i]), received(t, tasks[i])...)
			if len(got) != 2 || !strings.Contains(got[0], `"uri":"a+doc://1","x":1e400`) || !strings.Contains(got[1], `"taskId":"a+t"`) {
				t.Errorf("replica %d: %s", i, got)
			}
			if got, _ := c.rigs[i].listed("", kindTools); !cmp.Equal(got, []string{"a_two"}) {
				t.Errorf("replica %d lists %v", i, got)
			}
		}
		// At most once for each, and once more when one comes while the last is read.
		if n := c.p.count(mcp.MethodToolsList) - asked; n < 1 || n > 6 {
			t.Errorf("the list was asked for %d times after 5 announcements", n)
		}
		asked = c.p.count(mcp.MethodToolsList)
		c.p.list(kindTools, tool("three"))
		c.p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(500 * time.Millisecond)
		for i, s := range merged {
			if diff := cmp.Diff([]string{toolsChangedToClient}, received(t, s)); diff != "" {
				t.Errorf("client %d of lists (-want +got):\n%s", i, diff)
			}
		}
		if n := c.p.count(mcp.MethodToolsList) - asked; n != 1 {
			t.Errorf("the list was asked for %d times after one announcement", n)
		}
		elapse(time.Minute)
		if n := c.p.count(mcp.MethodListen); n > 3 {
			t.Errorf("%d streams were opened", n)
		}
		for _, s := range append(append(merged, docs...), tasks...) {
			none(t, s)
		}
	})
}

// A replica that ends gives the stream over at once.
func TestAnotherReplicaTakesOverAtOnce(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		for range 2 {
			first := c.holder()
			asked := c.p.count(mcp.MethodToolsList)
			clearAll(t, subs)
			c.end(first)
			elapse(99 * time.Millisecond)
			if n := c.p.open(); n != 1 {
				t.Fatalf("%d streams are open", n)
			}
			subs[first] = nil
			elapse(5 * time.Second)
			if n := c.p.count(mcp.MethodToolsList) - asked; n != 1 {
				t.Errorf("the list was read %d times", n)
			}
			c.p.list(kindTools, tool(fmt.Sprint("after", first)))
			c.p.push(mcp.NotificationToolsChanged, `{}`)
			elapse(time.Second)
			for i, s := range subs {
				if s == nil {
					continue
				}
				got := received(t, s)
				if len(got) != 2 || !strings.Contains(got[0], "doc://1") || got[1] != toolsChangedToClient {
					t.Errorf("replica %d: %s", i, got)
				}
			}
		}
	})
}

// A replica that falls silent is replaced within 5 s, and what changed meanwhile is
// told.
func TestASilentReplicaIsReplaced(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		clearAll(t, subs)
		first := c.holder()
		c.links[first].freeze()
		elapse(10 * time.Millisecond)
		c.p.list(kindTools, tool("two")) // nobody is told
		elapse(5 * time.Second)
		if n := c.p.open(); n != 2 {
			t.Fatalf("%d streams are open, want the one before and another one", n)
		}
		elapse(time.Second)
		for i, s := range subs {
			if i == first {
				continue
			}
			got := received(t, s)
			if len(got) != 2 || !strings.Contains(got[0]+got[1], "doc://1") || !strings.Contains(got[0]+got[1], "tools") {
				t.Errorf("replica %d, in the gap: %s", i, got)
			}
		}
		c.links[first].thaw()
		elapse(2 * time.Second)
		if n := c.p.open(); n != 1 || c.holder() == first {
			t.Errorf("%d streams are open, held by %d", n, c.holder())
		}
		clearAll(t, subs)
		c.p.list(kindTools, tool("three"))
		c.p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		for i, s := range subs {
			if got := received(t, s); !cmp.Equal(got, []string{toolsChangedToClient}) {
				t.Errorf("replica %d: %s", i, got)
			}
		}
	})
}

// What a replica tells late, after another one has taken over, is not acted on.
func TestLateEventsAreFencedOff(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		subs := c.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		first := c.holder()
		c.links[first].freeze()
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1","late":true}`)
		elapse(6 * time.Second)
		other := c.holder2(first)
		clearAll(t, subs)
		c.links[first].thaw()
		elapse(2 * time.Second)
		if got := received(t, subs[other]); len(got) > 0 {
			t.Errorf("got %s", got)
		}
		if n := c.p.open(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// holder2 is the holder besides one that does not know yet that it is none.
func (c *group) holder2(but int) int {
	c.t.Helper()
	for i := range c.rigs {
		if i != but && c.listener(i).election.is(holder) {
			return i
		}
	}
	c.t.Fatal("nobody took over")
	return 0
}
