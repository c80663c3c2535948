package federation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// The upstream is asked for what the clients of all replicas want, and not for what
// nobody wants any more.
func TestInterestsOfAllReplicas(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.open(t, `{"toolsListChanged":true}`)
		elapse(10 * time.Second)
		first := c.holder()
		var subs []*Subscription
		for i, r := range c.rigs {
			subs = append(subs, r.open(t, fmt.Sprintf(`{"resourceSubscriptions":["a+doc://%d"],"taskIds":["a+t%d"]}`, i, i)))
		}
		elapse(500 * time.Millisecond)
		if want := `"resourceSubscriptions":["doc://0","doc://1","doc://2"],"taskIds":["t0","t1","t2"]`; !strings.Contains(c.p.wanted(), want) {
			t.Fatalf("the upstream is asked for %s", c.p.wanted())
		}
		// What changed before the upstream was asked for it counts as updated.
		for i, s := range subs {
			if got := strings.Join(received(t, s), ""); !strings.Contains(got, fmt.Sprintf("a+doc://%d", i)) {
				t.Errorf("replica %d: %s", i, got)
			}
		}
		for i := range c.rigs {
			c.p.push(mcp.NotificationResourceUpdated, fmt.Sprintf(`{"uri":"doc://%d"}`, i))
			c.p.push(mcp.NotificationTasks, fmt.Sprintf(`{"taskId":"t%d","status":"working"}`, i))
		}
		elapse(500 * time.Millisecond)
		for i, s := range subs {
			got := received(t, s)
			if len(got) != 2 || !strings.Contains(got[0]+got[1], fmt.Sprintf("a+doc://%d", i)) || !strings.Contains(got[0]+got[1], fmt.Sprintf("a+t%d", i)) {
				t.Errorf("replica %d: %s", i, got)
			}
		}
		other := (first + 1) % 3
		subs[other].Close()
		elapse(4 * time.Second)
		c.rigs[(first+2)%3].open(t, `{"resourceSubscriptions":["a+doc://new"]}`)
		elapse(500 * time.Millisecond)
		if got := c.p.wanted(); strings.Contains(got, fmt.Sprintf("doc://%d", other)) || !strings.Contains(got, "doc://new") {
			t.Errorf("the upstream is asked for %s", got)
		}
		if n := c.p.open(); n != 1 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// Clients that come in quick succession on another replica get what they subscribed
// to soon, without a stream for each.
func TestManyClientsComeToAnotherReplica(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		c.open(t, `{"toolsListChanged":true}`)
		elapse(10 * time.Second)
		other := c.rigs[1-c.holder()]
		before := c.p.count(mcp.MethodListen)
		for i := range 100 {
			other.open(t, fmt.Sprintf(`{"resourceSubscriptions":["a+doc://%d"]}`, i))
			elapse(20 * time.Millisecond)
			if want := fmt.Sprintf(`"doc://%d"`, i-15); i >= 20 && !strings.Contains(c.p.wanted(), want) {
				t.Errorf("after 300 ms the upstream is not asked for %s", want)
			}
		}
		if n := c.p.count(mcp.MethodListen) - before; n > 30 {
			t.Errorf("%d streams were opened within 2 s", n)
		}
	})
}

// While the shared state fails each replica listens for itself, and one for all when
// it works again. Nothing is lost and nothing told twice.
func TestReplicasListenForThemselvesWhileTheSharedStateFails(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		for _, l := range c.links {
			l.setCut(true)
		}
		c.p.list(kindTools, tool("early")) // as soon as nobody can tell the others
		c.p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(5 * time.Second)
		if n := c.p.open(); n != 3 {
			t.Fatalf("%d streams are open, want one for each replica", n)
		}
		for i, s := range subs {
			if got := received(t, s); !strings.Contains(strings.Join(got, ""), "tools/list_changed") {
				t.Errorf("replica %d: of a change when it failed: %s", i, got)
			}
		}
		tell := func(name string) {
			t.Helper()
			clearAll(t, subs)
			c.p.list(kindTools, tool(name))
			c.p.push(mcp.NotificationToolsChanged, `{}`)
			c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
			elapse(time.Second)
			for i, s := range subs {
				got := received(t, s)
				if all := strings.Join(got, ""); len(got) != 2 || !strings.Contains(all, "tools/list_changed") || !strings.Contains(all, "doc://1") {
					t.Errorf("%s, replica %d: %s", name, i, got)
				}
				if got, _ := c.rigs[i].listed("", kindTools); !cmp.Equal(got, []string{"a_" + name}) {
					t.Errorf("%s, replica %d lists %v", name, i, got)
				}
			}
		}
		tell("alone")
		for i := range 20 {
			c.rigs[i%3].open(t, fmt.Sprintf(`{"resourceSubscriptions":["a+doc://x%d"]}`, i))
		}
		for _, l := range c.links {
			l.setCut(false)
		}
		elapse(5 * time.Second)
		if n := c.p.open(); n != 1 {
			t.Fatalf("%d streams are open", n)
		}
		if !strings.Contains(c.p.wanted(), "doc://x19") || !strings.Contains(c.p.wanted(), "doc://x18") {
			t.Errorf("the upstream is asked for %s", c.p.wanted())
		}
		c.holder()
		tell("together")
	})
}

// A holder that cannot renew its lease for a moment goes on, and makes up for what
// it could not tell.
func TestAMomentWithoutTheSharedState(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		clearAll(t, subs)
		first := c.holder()
		streams := c.p.count(mcp.MethodListen)
		c.links[first].setCut(true)
		c.p.list(kindTools, tool("two"))
		c.p.push(mcp.NotificationToolsChanged, `{}`)
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		elapse(1200 * time.Millisecond)
		c.links[first].setCut(false)
		elapse(3 * time.Second)
		for i, s := range subs {
			if got := strings.Join(received(t, s), ""); strings.Count(got, "tools/list_changed") != 1 || !strings.Contains(got, "doc://1") {
				t.Errorf("replica %d: %s", i, got)
			}
		}
		if n := c.p.count(mcp.MethodListen); n != streams || c.holder() != first {
			t.Errorf("%d streams were opened, %d listens", n-streams, c.holder())
		}
	})
}

// A replica that is cut off listens for itself, and another one for the others.
func TestAHolderThatIsCutOff(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true}`)
		elapse(10 * time.Second)
		first := c.holder()
		c.links[first].setCut(true)
		elapse(6 * time.Second)
		if n := c.p.open(); n != 2 {
			t.Fatalf("%d streams are open", n)
		}
		c.p.list(kindTools, tool("two"))
		c.p.push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		c.links[first].setCut(false)
		elapse(5 * time.Second)
		if n := c.p.open(); n != 1 || c.holder() == first {
			t.Errorf("%d streams are open, held by %d", n, c.holder())
		}
		for i, s := range subs {
			if diff := cmp.Diff([]string{toolsChangedToClient}, received(t, s)); diff != "" {
				t.Errorf("replica %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// A replica that may have missed messages reads the lists again that others have
// read since, and tells that what is watched may have changed.
func TestMissedMessagesAreMadeUpFor(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(10 * time.Second)
		clearAll(t, subs)
		other := 1 - c.holder()
		c.links[other].setDeaf(true)
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		c.p.hangUp() // the holder reads the lists again, and has the others do so
		c.p.list(kindTools, tool("two"))
		elapse(2 * time.Second)
		if got := received(t, subs[other]); len(got) > 0 {
			t.Fatalf("heard although deaf: %s", got)
		}
		asked := c.p.count(mcp.MethodToolsList)
		c.links[other].setDeaf(false)
		elapse(2 * time.Second)
		if got := strings.Join(received(t, subs[other]), ""); !strings.Contains(got, "tools/list_changed") || strings.Count(got, "doc://1") != 1 {
			t.Errorf("got %s", got)
		}
		if n := c.p.count(mcp.MethodToolsList) - asked; n != 0 {
			t.Errorf("the upstream was asked %d times for what another replica has", n)
		}
	})
}

// Replicas with different versions of a registration, as in a rolling reload, listen
// apart.
func TestVersionsOfARegistrationListenApart(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true}`)
		elapse(10 * time.Second)
		next := fakeUp("a")
		next.Version = "2"
		for i, want := range []int{2, 2, 1} {
			c.rigs[i].reconfigure(next)
			elapse(5 * time.Second)
			if n := c.p.open(); n != want {
				t.Fatalf("after %d changes %d streams are open", i+1, n)
			}
			clearAll(t, subs)
			c.p.list(kindTools, tool(fmt.Sprint("v", i)))
			c.p.push(mcp.NotificationToolsChanged, `{}`)
			elapse(time.Second)
			for i, s := range subs {
				if got := received(t, s); !cmp.Equal(got, []string{toolsChangedToClient}) {
					t.Errorf("replica %d: %s", i, got)
				}
			}
		}
		c.rigs[0].store.Replace([]*tenant.Tenant{})
		elapse(time.Second)
		if !ended(subs[0]) || ended(subs[1]) {
			t.Error("a tenant that goes on one replica ends the streams of all, or of none")
		}
	})
}

// Streams for tasks that the upstream does not push end on all replicas, also when
// they are opened after that was found out.
func TestRefusedTasksEndTheStreamsOfAllReplicas(t *testing.T) {
	for name, script := range map[string]func(*fake){
		"refused":           func(p *fake) { p.listens(`{"toolsListChanged":true,"taskIds":["t1"]}`) },
		"no listen streams": func(p *fake) { p.handle(mcp.MethodListen, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			grouped(t, 3, func(t *testing.T, c *group) {
				script(c.p)
				lists := c.rigs[0].open(t, `{"toolsListChanged":true}`)
				elapse(2 * time.Second)
				late := c.open(t, `{"taskIds":["a+t2"]}`)
				elapse(5 * time.Second)
				for i, s := range late {
					if !ended(s) && strings.Contains(string(s.Ack), "taskIds") {
						t.Errorf("the stream of replica %d goes on", i)
					}
				}
				if ended(lists) {
					t.Error("the stream of lists has ended")
				}
			})
		})
	}
}

// What is too large for the bus is asked for by the others, or told without its body:
// nothing is lost in silence.
func TestLargeNotifications(t *testing.T) {
	large := strings.Repeat("x", maxRaw)
	task := fmt.Sprintf(`"taskId":"t","status":"completed","result":{"content":[{"type":"text","text":%q}]}}`, large)
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprint("the task is answered: ", answered), func(t *testing.T) {
			grouped(t, 2, func(t *testing.T, c *group) {
				tasks := c.open(t, `{"taskIds":["a+t"]}`)
				docs := c.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
				elapse(10 * time.Second)
				clearAll(t, docs)
				first := c.holder()
				if answered {
					c.p.result(mcp.MethodTasksGet, `{"resultType":"complete",`+task)
				}
				c.p.push(mcp.NotificationTasks, `{`+task)
				c.p.push(mcp.NotificationResourceUpdated, fmt.Sprintf(`{"uri":"doc://1","x":%q}`, large))
				elapse(time.Second)
				var got []string
				for i, s := range tasks {
					if i == first || answered {
						got = append(got, next(t, s))
					} else if !ended(s) {
						t.Error("a task's stream goes on whose client was not told")
					}
				}
				if answered && got[0] != got[1] || len(got[0]) < maxRaw {
					t.Errorf("told of %d and %d bytes", len(got[0]), len(got[1]))
				}
				for i, s := range docs {
					if got := next(t, s); !strings.Contains(got, "a+doc://1") || (len(got) > maxRaw) != (i == first) {
						t.Errorf("replica %d: %d bytes", i, len(got))
					}
				}
			})
		})
	}
}

// What became of tasks while nobody could tell is asked for.
func TestTasksAreAskedFor(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		subs := c.open(t, `{"taskIds":["a+t"]}`)
		elapse(10 * time.Second)
		for _, s := range subs {
			none(t, s) // nobody knows of it
		}
		c.p.result(mcp.MethodTasksGet, `{"resultType":"complete","taskId":"t","status":"completed","ttlMs":1}`)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"a+t","status":"completed","ttlMs":1,"_meta":{"io.modelcontextprotocol/subscriptionId":"c-1"}}}`}
		check := func(when string, on ...int) {
			t.Helper()
			for _, i := range on {
				if diff := cmp.Diff(want, received(t, subs[i])); diff != "" {
					t.Errorf("%s, replica %d (-want +got):\n%s", when, i, diff)
				}
			}
		}
		c.p.hangUp()
		elapse(2 * time.Second)
		check("after a lost stream", 0, 1, 2)
		first := c.holder()
		one, other := (first+1)%3, (first+2)%3
		c.links[one].setDeaf(true)
		elapse(time.Second)
		c.links[one].setDeaf(false)
		elapse(2 * time.Second)
		check("after a gap", one)
		none(t, subs[other])
		// The upstream may be away for a moment.
		c.p.fails(mcp.MethodTasksGet, upstream.ClassConnect)
		c.end(first)
		elapse(2 * time.Second)
		c.p.result(mcp.MethodTasksGet, `{"resultType":"complete","taskId":"t","status":"completed","ttlMs":1}`)
		elapse(10 * time.Second)
		check("after a replica ended", one, other)
		// What a notification says is not overtaken by what was asked for before it.
		c.p.handle(mcp.MethodTasksGet, func(_ context.Context, m *mcp.Request) (*answer, error) {
			<-time.After(3 * time.Second)
			return says(200, resultFor(m, `{"resultType":"complete","taskId":"t","status":"working"}`)), nil
		})
		c.p.hangUp()
		elapse(2 * time.Second)
		c.p.push(mcp.NotificationTasks, `{"taskId":"t","status":"completed","ttlMs":1}`)
		elapse(10 * time.Second)
		check("by a notification", one, other)
		// One that cannot be had ends the stream.
		c.p.fails(mcp.MethodTasksGet, upstream.ClassConnect)
		c.p.hangUp()
		elapse(time.Minute)
		if !ended(subs[one]) || !ended(subs[other]) {
			t.Error("a stream goes on whose client may have missed something")
		}
	})
}

// An upstream that cannot push is polled by one replica, and all are told.
func TestOneReplicaPollsForAll(t *testing.T) {
	grouped(t, 3, func(t *testing.T, c *group) {
		c.p.handle(mcp.MethodListen, nil)
		content := func(text string) {
			c.p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"text":"`+text+`"}],"ttlMs":0}`)
		}
		content("one")
		c.p.result(mcp.MethodToolsList, listResult(kindTools, 0, tool("one")))
		c.listed("", kindTools)
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`)
		elapse(5 * time.Minute)
		clearAll(t, subs)
		lists, reads := c.p.count(mcp.MethodToolsList), c.p.count(mcp.MethodResourcesRead)
		elapse(10 * time.Minute)
		if n := c.p.count(mcp.MethodToolsList) - lists; n < 15 || n > 25 {
			t.Errorf("the list was asked for %d times in 10 minutes", n)
		}
		if n := c.p.count(mcp.MethodResourcesRead) - reads; n < 15 || n > 25 {
			t.Errorf("the resource was asked for %d times in 10 minutes", n)
		}
		content("two")
		c.p.result(mcp.MethodToolsList, listResult(kindTools, 0, tool("two")))
		elapse(2 * time.Minute)
		for i, s := range subs {
			got := received(t, s)
			if all := strings.Join(got, ""); len(got) != 2 || !strings.Contains(all, "tools/list_changed") || !strings.Contains(all, "doc://1") {
				t.Errorf("replica %d: %s", i, got)
			}
		}
		// Nor is a change lost that nobody polled for when the one that polls ends.
		first := c.holder()
		content("three")
		c.end(first)
		elapse(time.Second)
		for i, s := range subs {
			if i != first {
				if got := strings.Join(received(t, s), ""); strings.Count(got, "doc://1") != 1 {
					t.Errorf("replica %d: %s", i, got)
				}
			}
		}
	})
}

// A change that a replica finds is told by all, also one that it finds for clients who
// do not listen.
func TestAChangeThatAnotherReplicaFinds(t *testing.T) {
	for name, script := range map[string]func(*fake){
		"one that does not say so": func(*fake) {},
		"one that cannot push":     func(p *fake) { p.handle(mcp.MethodListen, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			grouped(t, 3, func(t *testing.T, c *group) {
				script(c.p)
				c.listed("", kindTools)
				var subs []*Subscription
				for _, r := range c.rigs[:2] {
					subs = append(subs, r.open(t, `{"toolsListChanged":true}`))
				}
				for i := range 10 {
					elapse(10 * time.Minute)
					clearAll(t, subs)
					c.p.list(kindTools, tool(fmt.Sprint("next", i)))
					for _, r := range []*rig{c.rigs[2], c.rigs[i%2]} {
						r.listed("", kindTools) // what is there is old, and is read again
						elapse(time.Second)
					}
					elapse(2 * time.Minute)
					for i, s := range subs {
						if diff := cmp.Diff([]string{toolsChangedToClient}, received(t, s)); diff != "" {
							t.Errorf("replica %d (-want +got):\n%s", i, diff)
						}
					}
				}
			})
		})
	}
}

// Nothing is kept, in a replica or between them, of what nobody wants any more.
func TestNothingStaysBetweenReplicas(t *testing.T) {
	grouped(t, 2, func(t *testing.T, c *group) {
		subs := c.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"],"taskIds":["a+t"]}`)
		elapse(10 * time.Second)
		for _, s := range subs {
			s.Close()
		}
		elapse(100 * time.Millisecond)
		if n := c.p.open(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		scope := cache.Scope{Tenant: "default", Upstream: "a"}
		if board, err := c.links[0].Read(t.Context(), scope, "listen 1"); err != nil || len(board) > 0 {
			t.Errorf("on the board: %q, %v", board, err)
		}
		if _, ok, err := c.links[0].Acquire(t.Context(), scope, "listen 1", "me", time.Second); !ok || err != nil {
			t.Errorf("the lease is not free, %v", err)
		}
		elapse(2 * time.Second)
		// Who comes back gets what there is, and hears of changes.
		s := c.rigs[0].open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		elapse(2 * time.Second)
		received(t, s)
		c.p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		elapse(time.Second)
		if got := received(t, s); len(got) != 1 {
			t.Errorf("got %s", got)
		}
	})
}
