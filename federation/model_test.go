package federation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// world is a tenant whose upstreams change at random.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	r     *rig
	ups   map[string]*fake
	tools map[string][]string // what each upstream has
	delay map[string]time.Duration
	conf  []tenant.Upstream
	n     int
}

// step does one thing that may happen to a tenant.
func (w *world) step() {
	alias := []string{"a", "b", "c"}[w.rng.IntN(3)]
	p := w.ups[alias]
	switch w.rng.IntN(12) {
	case 0, 1, 2: // the list changes, and the upstream says so
		w.n++
		w.tools[alias] = []string{fmt.Sprint("t", w.n)}
		w.give(alias)
		p.push(mcp.NotificationToolsChanged, `{}`)
	case 3: // it changes while the stream is cut off
		w.n++
		w.tools[alias] = append(slices.Clone(w.tools[alias]), fmt.Sprint("t", w.n))
		w.give(alias)
		p.hangUp()
	case 4: // an announcement without a change
		p.push(mcp.NotificationToolsChanged, `{}`)
	case 5:
		p.fails(mcp.MethodToolsList, upstream.ClassConnect)
	case 6:
		p.hangs(mcp.MethodToolsList, 3*time.Second, upstream.ClassTimeout)
	case 7:
		w.delay[alias] = time.Duration(w.rng.IntN(4000)) * time.Millisecond
		w.give(alias)
	case 8: // a refusal that is over when the next thing happens
		p.fails(mcp.MethodListen, upstream.ClassConnect)
	case 9: // the upstream goes, or comes back
		i := slices.IndexFunc(w.conf, func(u tenant.Upstream) bool { return u.Alias == alias })
		if i >= 0 {
			w.conf = slices.Delete(slices.Clone(w.conf), i, i+1)
		} else {
			w.conf = append(slices.Clone(w.conf), fakeUp(alias))
		}
		w.r.reconfigure(w.conf...)
	case 10: // it has another configuration
		for i := range w.conf {
			if w.conf[i].Alias == alias {
				w.conf = slices.Clone(w.conf)
				w.conf[i].Version = fmt.Sprint(w.rng.IntN(100))
			}
		}
		w.r.reconfigure(w.conf...)
	case 11: // somebody else lists
		_, _ = w.r.try(w.r.callOf("", mcp.MethodToolsList, ""))
	}
}

// give makes the upstream answer with what it has.
func (w *world) give(alias string) {
	var items []string
	for _, name := range w.tools[alias] {
		items = append(items, tool(name))
	}
	delay := w.delay[alias]
	w.ups[alias].handle(mcp.MethodToolsList, func(ctx context.Context, m *mcp.Request) (*answer, error) {
		raw := resultFor(m, listResult(kindTools, 60_000, items...))
		select {
		case <-time.After(delay):
			return says(200, raw), nil
		case <-ctx.Done():
			return nil, &upstream.Error{Alias: alias, Class: upstream.ClassCanceled, Err: ctx.Err()}
		}
	})
}

// want is what a client should see in the end.
func (w *world) want() []string {
	want := []string{}
	for _, u := range w.conf {
		for _, name := range w.tools[u.Alias] {
			want = append(want, u.Alias+"_"+name)
		}
	}
	slices.Sort(want)
	return want
}

// client lists once, and then only when it is told to. One that got an error tries
// again.
func (w *world) client(s *Subscription, seen *[]string) {
	for told := true; told; _, told, _ = waitNext(s, nil) {
		body, err := w.r.try(w.r.callOf("", mcp.MethodToolsList, ""))
		for ; err != nil; body, err = w.r.try(w.r.callOf("", mcp.MethodToolsList, "")) {
			time.Sleep(time.Second)
		}
		*seen = names(w.t, kindTools, body)
	}
}

// Whatever happens, and in whatever order: a client that lists its tools when it
// is told that they changed, and never else, ends with the tools that there are.
func TestClientsThatListWhenToldAreUpToDate(t *testing.T) {
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{
				t: t, rng: rand.New(rand.NewPCG(seed, 1)), ups: map[string]*fake{}, tools: map[string][]string{}, delay: map[string]time.Duration{},
			}
			doers := map[string]upstream.Doer{}
			for _, alias := range []string{"a", "b", "c"} {
				w.ups[alias] = newFake(t)
				w.ups[alias].listens("")
				w.tools[alias] = []string{"first"}
				w.give(alias)
				doers[alias] = w.ups[alias]
				w.conf = append(w.conf, fakeUp(alias))
			}
			r, stop := newFakeRig(t, doers, nil)
			w.r = r
			listen := map[string]func(context.Context, *mcp.Request) (*answer, error){}
			for alias, p := range w.ups {
				listen[alias] = p.handler(mcp.MethodListen)
			}
			seen := make([][]string, 3)
			var subs []*Subscription
			for i := range seen {
				s := r.open(t, `{"toolsListChanged":true}`)
				subs = append(subs, s)
				go w.client(s, &seen[i])
				time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond)
			}
			pause := []int{30, 200, 1500}[seed%3]
			for range 30 {
				w.step()
				time.Sleep(time.Duration(w.rng.IntN(pause)) * time.Millisecond)
				for alias, p := range w.ups {
					p.handle(mcp.MethodListen, listen[alias])
				}
			}
			for alias := range w.ups { // all is well again
				w.give(alias)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			for i, got := range seen {
				if diff := cmp.Diff(w.want(), got); diff != "" {
					t.Errorf("seed %d, client %d (-want +got):\n%s", seed, i, diff)
				}
			}
			for _, s := range subs {
				s.Close()
			}
			stop()
		})
	}
}
