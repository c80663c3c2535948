package federation

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// bubble runs a test in front of one fake upstream, a, whose time is that of the
// bubble.
func bubble(t *testing.T, test func(t *testing.T, p *fake, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		p.list(kindTools, tool("one"))
		p.listens("")
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		defer stop()
		test(t, p, r)
	})
}

// open opens a listen stream that the test need not close.
func (r *rig) open(t *testing.T, filter string) *Subscription {
	t.Helper()
	s, err := r.fed.Listen(t.Context(), r.callOf("", mcp.MethodListen, `"notifications":`+filter))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ended tells whether the federation has ended the subscription.
func ended(s *Subscription) bool {
	for {
		if msg, open := s.Next(); msg == nil {
			return !open
		}
	}
}

func TestStreamsThatEndAtOnceAreReopenedEverMoreRarely(t *testing.T) {
	tests := []struct {
		name, grant string
		most        int // streams and readings of a list in an hour
	}{
		// go-sdk does so where it has nothing to tell.
		{"nothing granted", `{}`, 15},
		{"granted and ended", ``, 150},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				p.handle(mcp.MethodListen, func(_ context.Context, m *mcp.Request) (*answer, error) {
					grant := tt.grant
					if grant == "" {
						grant = string(m.Notifications.In(m.Raw))
					}
					return says(200, ackOf(m, grant), resultFor(m, `{"resultType":"complete"}`)), nil
				})
				r.listed("", kindTools)
				r.open(t, `{"toolsListChanged":true}`)
				time.Sleep(time.Hour)
				if n := p.count(mcp.MethodListen); n > tt.most {
					t.Errorf("%d streams were opened in an hour, want at most %d", n, tt.most)
				}
				if n := p.count(mcp.MethodToolsList); n > tt.most+120 {
					t.Errorf("the list was read %d times in an hour", n)
				}
			})
		})
	}
}

// A stream that lives for long is opened again soon, however often that happens.
func TestStreamsThatAreCutOffAreReopenedSoon(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.open(t, `{"toolsListChanged":true}`)
		for range 50 {
			time.Sleep(time.Minute)
			p.hangUp()
			time.Sleep(time.Second)
			if p.open() != 1 {
				t.Fatal("the stream was not opened again within a second")
			}
		}
	})
}

// While an upstream's stream cannot be opened again its lists are polled.
func TestListsArePolledWhileTheStreamIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.listed("", kindTools)
		s := r.open(t, `{"toolsListChanged":true}`)
		time.Sleep(time.Second)
		p.fails(mcp.MethodListen, upstream.ClassConnect)
		p.hangUp()
		time.Sleep(time.Second)
		p.list(kindTools, tool("two"))
		time.Sleep(5 * time.Minute)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
	})
}

// rejecting makes a fake refuse listen requests whose filter holds text, as
// go-sdk does when its handler of subscriptions fails for one URI.
func rejecting(p *fake, text string) {
	p.listens("")
	accept := p.handler(mcp.MethodListen)
	p.handle(mcp.MethodListen, func(ctx context.Context, m *mcp.Request) (*answer, error) {
		if strings.Contains(string(m.Notifications.In(m.Raw)), text) {
			return says(200, errorFor(m, mcp.CodeInvalidParams)), nil
		}
		return accept(ctx, m)
	})
}

// What one client subscribes to cannot take the notifications of the others away.
func TestOneBadURIHarmsNobodyElse(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost stream: ", lost), func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				rejecting(p, "doc://bad")
				var text atomic.Value
				text.Store("1")
				p.handle(mcp.MethodResourcesRead, func(_ context.Context, m *mcp.Request) (*answer, error) {
					return says(200, resultFor(m, `{"resultType":"complete","contents":[{"text":"`+text.Load().(string)+`"}],"ttlMs":0}`)), nil
				})
				good := r.open(t, `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://good"]}`)
				time.Sleep(time.Second)
				bad := r.open(t, `{"resourceSubscriptions":["a+doc://bad"]}`)
				time.Sleep(time.Second)
				if lost {
					p.hangUp()
					time.Sleep(10 * time.Second)
					for !strings.Contains(next(t, bad), "doc://bad") {
					}
					for msg, _ := good.Next(); msg != nil; msg, _ = good.Next() {
					}
				}
				if n := p.open(); n != 1 {
					t.Fatalf("%d streams are open", n)
				}
				p.push(mcp.NotificationResourceUpdated, `{"uri":"doc://good"}`)
				time.Sleep(time.Second)
				if got := next(t, good); !strings.Contains(got, "a+doc://good") {
					t.Errorf("got %s", got)
				}
				// The refused one is polled.
				time.Sleep(2 * time.Minute)
				text.Store("2")
				time.Sleep(2 * time.Minute)
				if got := next(t, bad); !strings.Contains(got, "a+doc://bad") {
					t.Errorf("got %s", got)
				}
				if n := p.count(mcp.MethodListen); n > 10 {
					t.Errorf("the stream was asked for %d times", n)
				}
			})
		})
	}
}

// A stream that was granted a task ends when the upstream turns out not to push
// it, and the task is not granted again.
func TestTasksThatAreNotPushedEndTheirStream(t *testing.T) {
	grantOnly := func(p *fake) { p.listens(`{"toolsListChanged":true,"taskIds":["t1"]}`) }
	tests := []struct {
		name    string
		script  func(*fake)
		t1Stays bool
	}{
		{"one of two", grantOnly, true},
		{"an empty list", func(p *fake) { p.listens(`{"toolsListChanged":true,"taskIds":[]}`) }, false},
		{"no listen streams at all", func(p *fake) { p.handle(mcp.MethodListen, nil) }, false},
		{"refused for it", func(p *fake) { rejecting(p, "t2") }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				tt.script(p)
				lists := r.open(t, `{"toolsListChanged":true}`)
				one := r.open(t, `{"taskIds":["a+t1"]}`)
				time.Sleep(time.Second)
				two := r.open(t, `{"taskIds":["a+t2"]}`)
				time.Sleep(time.Second)
				promised := func(s *Subscription) bool { return strings.Contains(string(s.Ack), "taskIds") }
				if ended(one) != (promised(one) && !tt.t1Stays) || ended(two) != promised(two) || ended(lists) {
					t.Errorf("ended: the first task's stream %v, the second's %v, that of lists %v", ended(one), ended(two), ended(lists))
				}
				again := r.open(t, `{"toolsListChanged":true,"taskIds":["a+t2"]}`)
				if strings.Contains(string(again.Ack), "taskIds") {
					t.Errorf("granted again: %s", again.Ack)
				}
				if tt.t1Stays {
					p.push(mcp.NotificationTasks, `{"taskId":"t1","status":"working"}`)
					time.Sleep(time.Second)
					if got := next(t, one); !strings.Contains(got, `"taskId":"a+t1"`) {
						t.Errorf("got %s", got)
					}
				}
			})
		})
	}
}

// An upstream that announces changes of a list which it does not give keeps one
// goroutine busy, not one for each announcement.
func TestManyAnnouncementsOfAListThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.listed("", kindTools)
		s := r.open(t, `{"toolsListChanged":true}`)
		time.Sleep(time.Second)
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		before := runtime.NumGoroutine()
		for range 500 {
			p.push(mcp.NotificationToolsChanged, `{}`)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 20 {
			t.Errorf("%d more goroutines after 500 announcements", n)
		}
		p.list(kindTools, tool("two"))
		time.Sleep(time.Minute)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
		none(t, s)
		// Nobody asks for a list of an upstream that nobody listens to any more.
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
		p.push(mcp.NotificationToolsChanged, `{}`)
		time.Sleep(time.Second)
		s.Close()
		time.Sleep(time.Minute)
		asked := p.count(mcp.MethodToolsList)
		time.Sleep(time.Hour)
		if n := p.count(mcp.MethodToolsList) - asked; n > 0 {
			t.Errorf("the list was asked for %d times though nobody listens", n)
		}
	})
}

// One announcement is one notification where the upstream is shown alone, also
// when the list changed.
func TestAnAnnouncementIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.listed("a", kindTools)
		s := r.listen("a", `{"toolsListChanged":true}`)
		defer s.Close()
		time.Sleep(time.Second)
		for i, items := range [][]string{{tool("two")}, {tool("two")}, {tool("three")}} {
			p.list(kindTools, items...)
			p.push(mcp.NotificationToolsChanged, `{}`)
			time.Sleep(time.Second)
			if got := next(t, s); got != toolsChangedToClient {
				t.Errorf("announcement %d: got %s", i, got)
			}
			none(t, s)
		}
	})
}

// A resource is polled no more often than its ttlMs says.
func TestResourcesArePolledByTheirTTL(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.handle(mcp.MethodListen, nil)
		p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"text":"1"}],"ttlMs":1200000,"cacheScope":"public"}`)
		s := r.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
		time.Sleep(3 * time.Hour)
		if n := p.count(mcp.MethodResourcesRead); n < 6 || n > 10 {
			t.Errorf("a resource that is good for 20 minutes was read %d times in 3 hours", n)
		}
		// A passing failure of the upstream is no change.
		p.handle(mcp.MethodResourcesRead, func(_ context.Context, m *mcp.Request) (*answer, error) {
			return says(200, errorFor(m, mcp.CodeInternal)), nil
		})
		time.Sleep(time.Hour)
		none(t, s)
		p.handle(mcp.MethodResourcesRead, func(_ context.Context, m *mcp.Request) (*answer, error) {
			return says(200, errorFor(m, mcp.CodeInvalidParams)), nil
		})
		time.Sleep(time.Hour)
		if got := next(t, s); !strings.Contains(got, "a+doc://1") {
			t.Errorf("when it was gone: %s", got)
		}
	})
}

// Nothing is kept of what nobody wants any more.
func TestNothingStaysOfStreamsThatWent(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		p.handle(mcp.MethodListen, nil)
		p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"text":"1"}],"ttlMs":0}`)
		stays := r.open(t, `{"toolsListChanged":true}`)
		for i := range 50 {
			s := r.open(t, fmt.Sprintf(`{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a+doc://%d"],"taskIds":["a+%d"]}`, i, i))
			time.Sleep(time.Minute)
			s.Close()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		h := r.fed.domains["default"].hub
		if n := len(h.listeners[r.fed.domains["default"].member("a")].poll.seen); n != 0 {
			t.Errorf("%d resources that nobody watches are remembered", n)
		}
		stays.Close()
		time.Sleep(time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.open) != 0 || len(h.listeners) != 0 || len(h.topics) != 0 || len(h.demands) != 0 {
			t.Errorf("left: %d streams, %d listeners, %d topics, %d demands", len(h.open), len(h.listeners), len(h.topics), len(h.demands))
		}
	})
}

// Notifications are marked with the stream's id whatever `_meta` they bring.
func TestOddMetaOfNotifications(t *testing.T) {
	for _, params := range []string{`{"uri":"doc://1"}`, `{"uri":"doc://1","_meta":null}`, `{"uri":"doc://1","_meta":7}`, `{"_meta":{"x":1},"uri":"doc://1"}`} {
		t.Run(params, func(t *testing.T) {
			bubble(t, func(t *testing.T, p *fake, r *rig) {
				s := r.open(t, `{"resourceSubscriptions":["a+doc://1"]}`)
				time.Sleep(time.Second)
				p.push(mcp.NotificationResourceUpdated, params)
				time.Sleep(time.Second)
				got := next(t, s)
				if field(t, got, "params", "_meta", mcp.MetaSubscriptionID) != `"c-1"` || field(t, got, "params", "uri") != `"a+doc://1"` {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// A reader that is slow is ended for the bytes that wait for it, too.
func TestSlowReaderOfLargeMessages(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		s := r.open(t, `{"taskIds":["a+t"]}`)
		time.Sleep(time.Second)
		large := fmt.Sprintf(`{"taskId":"t","status":"completed","result":{"content":[{"type":"text","text":%q}]}}`, strings.Repeat("x", maxQueued/2))
		p.push(mcp.NotificationTasks, large)
		time.Sleep(time.Second)
		if got := next(t, s); len(got) < maxQueued/2 {
			t.Fatal("a message is cut off")
		}
		for range 3 {
			p.push(mcp.NotificationTasks, large)
			time.Sleep(time.Second)
		}
		n := 0
		for _, open := awaitNext(t, s); open; _, open = awaitNext(t, s) {
			n++
		}
		if n == 0 || n > 2 {
			t.Errorf("%d messages of %d bytes waited", n, len(large))
		}
	})
}

// Clients that come in quick succession get what they subscribed to soon, and
// those that come while an upstream is down do not make it be tried more often.
func TestManyClientsComeInQuickSuccession(t *testing.T) {
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		for i := range 100 {
			r.open(t, fmt.Sprintf(`{"resourceSubscriptions":["a+doc://%d"]}`, i))
			time.Sleep(20 * time.Millisecond)
			if i >= 20 {
				if want := fmt.Sprintf(`"doc://%d"`, i-10); !strings.Contains(p.wanted(), want) {
					t.Errorf("after 200 ms the upstream is not asked for %s", want)
				}
			}
		}
		if n := p.count(mcp.MethodListen); n > 30 {
			t.Errorf("%d streams were opened within 2 s", n)
		}
		p.fails(mcp.MethodListen, upstream.ClassConnect)
		p.hangUp()
		before := p.count(mcp.MethodListen)
		for i := range 600 {
			r.open(t, fmt.Sprintf(`{"resourceSubscriptions":["a+doc://x%d"]}`, i))
			time.Sleep(100 * time.Millisecond)
		}
		if n := p.count(mcp.MethodListen) - before; n > 10 {
			t.Errorf("an upstream that is down was tried %d times in a minute", n)
		}
	})
}

// elapse lets time go by in a bubble, and all that is due then be done.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
