package federation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// changing is an upstream whose tools and one resource change. What it answers
// names the version, and for whom it is.
type changing struct {
	*fake

	mu      sync.Mutex
	seq     int // of what happens
	version int
	ttl     time.Duration
	private bool
	broken  bool
	delay   time.Duration
	given   map[string]said // by method and version
}

// said is when a version was answered, and for how long it was said to be fresh.
type said struct {
	read     int       // when it was the current one: the latest seq
	answered time.Time // the latest
	ttl      time.Duration
}

// Do implements upstream.Doer.
func (u *changing) Do(ctx context.Context, req *upstream.Request) (upstream.Answer, error) {
	if req.Method != mcp.MethodToolsList && req.Method != mcp.MethodResourcesRead {
		return u.fake.Do(ctx, req)
	}
	m, perr := mcp.ParseRequest(slices.Clone(req.Body.B), 256)
	req.Body.Release()
	if perr != nil {
		return nil, perr
	}
	u.fake.mu.Lock()
	u.asked[req.Method]++
	u.fake.mu.Unlock()
	u.mu.Lock()
	u.seq++
	read, broken, delay, ttl := u.seq, u.broken, u.delay, u.ttl
	version, raw := u.version, u.answer(req)
	u.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil, &upstream.Error{Alias: "a", Class: upstream.ClassCanceled, Err: ctx.Err()}
	}
	if broken {
		return nil, &upstream.Error{Alias: "a", Class: upstream.ClassConnect, Err: io.ErrUnexpectedEOF}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := fmt.Sprint(req.Method, version)
	g := u.given[key]
	u.given[key] = said{read: max(g.read, read), answered: time.Now(), ttl: max(g.ttl, ttl)}
	a := says(http.StatusOK, resultFor(m, raw))
	a.ctx = ctx
	return a, nil
}

// answer is what it answers now. The caller holds the lock.
func (u *changing) answer(req *upstream.Request) string {
	scope := "public"
	if u.private {
		scope = "private"
	}
	hints := fmt.Sprintf(`"ttlMs":%d,"cacheScope":%q`, u.ttl.Milliseconds(), scope)
	if req.Method == mcp.MethodToolsList {
		return fmt.Sprintf(`{"resultType":"complete","tools":[%s],%s}`, tool(fmt.Sprint("v", u.version)), hints)
	}
	user := "everybody"
	if u.private {
		user = req.Header.Get("X-User")
	}
	return fmt.Sprintf(`{"resultType":"complete","contents":[{"uri":"doc://1","text":"v%d for %s"}],%s}`, u.version, user, hints)
}

// happens counts what happens.
func (u *changing) happens(change func()) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seq++
	if change != nil {
		change()
	}
	return u.seq
}

// sharedWorld is a gateway of several replicas, and what each of them must know.
type sharedWorld struct {
	t  *testing.T
	up *changing
	c  *replicas

	clients sync.WaitGroup

	mu     sync.Mutex
	faults []string
	// The latest announcement, of the list and of the resource, that each replica has
	// heard of, and that reached what is shared.
	known, knownReads     []int
	written, writtenReads int
}

const modelReplicas = 3

func newSharedWorld(t *testing.T) *sharedWorld {
	w := &sharedWorld{
		t: t, up: &changing{fake: newFake(t), ttl: time.Minute, given: map[string]said{}},
		known: make([]int, modelReplicas), knownReads: make([]int, modelReplicas),
	}
	w.c = newReplicas(t, 0, map[string]upstream.Doer{"a": w.up})
	for range modelReplicas {
		w.join()
	}
	return w
}

// join starts one more replica. What it reads is shared as well, and it tells the
// upstream who its users are.
func (w *sharedWorld) join() {
	r := w.c.join(func(o *Options) { o.Cache = o.Cluster.Lists })
	u := fakeUp("a")
	u.ForwardHeaders = []string{"X-User"}
	r.reconfigure(u)
}

// restart replaces a replica by one that knows nothing.
func (w *sharedWorld) restart(i int) {
	w.c.stops[i]()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join()
	last := len(w.c.all) - 1
	w.c.all[i], w.c.links[i], w.c.stops[i] = w.c.all[last], w.c.links[last], w.c.stops[last]
	w.c.all, w.c.links, w.c.stops = w.c.all[:last], w.c.links[:last], w.c.stops[:last]
	w.known[i], w.knownReads[i] = w.written, w.writtenReads
}

// announce has the upstream tell a replica that its list, and its resource, may have
// changed.
func (w *sharedWorld) announce(i int) {
	m, seq := w.member(i), w.up.happens(nil)
	w.mu.Lock()
	w.known[i] = seq // from now on, while the others are told
	w.mu.Unlock()
	w.clients.Go(func() {
		if gen := m.invalidate(context.Background(), kindTools); gen > 0 {
			w.heard(seq)
		}
		topic := m.topic(mcp.MethodResourcesRead)
		_, err := m.domain.fed.opts.Cache.Invalidate(context.Background(), topic, "doc://1")
		w.mu.Lock()
		w.knownReads[i] = max(w.knownReads[i], seq)
		w.mu.Unlock()
		if err == nil {
			w.heardReads(seq)
		}
	})
}

// heard notes that an announcement of the list reached what is shared, and whom it
// is told.
func (w *sharedWorld) heard(seq int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = max(w.written, seq)
	for i, l := range w.c.links {
		if cut, deaf := l.state(); !cut && !deaf {
			w.known[i] = max(w.known[i], seq)
		}
	}
}

// heardReads is the same for the resource, of which nobody need be told who looks at
// what is shared.
func (w *sharedWorld) heardReads(seq int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writtenReads = max(w.writtenReads, seq)
	for i, l := range w.c.links {
		if cut, _ := l.state(); !cut {
			w.knownReads[i] = max(w.knownReads[i], w.writtenReads)
		}
	}
}

// heal ends what keeps a replica from what is shared.
func (w *sharedWorld) heal(i int) {
	l := w.c.links[i]
	l.mu.Lock()
	_, follows := l.known[toolsTopic]
	owes := slices.Contains(l.owed, toolsTopic)
	reads := toolsTopic
	reads.Method = mcp.MethodResourcesRead
	owesReads := slices.Contains(l.owed, reads)
	l.mu.Unlock()
	l.heal(w.t)
	w.mu.Lock()
	known, knownReads := w.written, w.writtenReads
	if owes {
		known = max(known, w.known[i])
	}
	if owesReads {
		knownReads = max(knownReads, w.knownReads[i])
	}
	w.mu.Unlock()
	if owes {
		w.heard(known)
	}
	w.heardReads(knownReads)
	if follows {
		w.mu.Lock()
		w.known[i] = max(w.known[i], w.written)
		w.mu.Unlock()
	}
}

// member gives the member a of a replica, whose tenant may have been dropped as
// idle.
func (w *sharedWorld) member(i int) *member {
	fed := w.c.all[i].fed
	d, err := fed.enter(context.Background(), Endpoint{Tenant: "default"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.leave()
	return d.byAlias["a"]
}

func (w *sharedWorld) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

var versionOf = regexp.MustCompile(`"(?:name":"a_|text":")v([0-9]+)(?: for ([a-z]*))?"`)

// answered gives what the upstream has said of the version in a body, and for whom
// the body is.
func (w *sharedWorld) answered(method, body string) (g said, user string) {
	found := versionOf.FindStringSubmatch(body)
	if found == nil {
		w.fault("%s: %s", method, body)
		return g, ""
	}
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	return w.up.given[method+found[1]], found[2]
}

// folded is how much older than a request an answer may be which was asked for by
// those who came just before.
const folded = 2 * pollMost

// list has a client list the tools on a replica.
func (w *sharedWorld) list(i int) {
	w.mu.Lock()
	r, known, start := w.c.all[i], w.known[i], time.Now()
	w.mu.Unlock()
	w.clients.Go(func() {
		body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
		if err != nil {
			return // that nothing could be had is no lie
		}
		g, _ := w.answered(mcp.MethodToolsList, body)
		bound := r.fed.opts.Limits.Stale
		marked := strings.Contains(body, mcp.MetaPartial)
		switch {
		case marked:
			bound = r.fed.opts.Limits.StaleIfError
		case g.ttl == 0:
			bound = folded
		}
		if age := start.Sub(g.answered); age > g.ttl+bound {
			w.fault("replica %d: a list of %v ago, with a time to live of %v: %s", i, age, g.ttl, body)
		}
		if !marked && g.read < known {
			w.fault("replica %d: a list of before %d is served as fresh, which was said to have changed at %d: %s", i, g.read, known, body)
		}
	})
}

// read has a user read the resource on a replica.
func (w *sharedWorld) read(i int, user string) {
	w.mu.Lock()
	r, known, start := w.c.all[i], w.knownReads[i], time.Now()
	w.mu.Unlock()
	c := r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)
	c.Header.Set("X-User", user)
	w.clients.Go(func() {
		body, err := r.try(c)
		if err != nil {
			return
		}
		g, whose := w.answered(mcp.MethodResourcesRead, body)
		if whose != user && whose != "everybody" {
			w.fault("replica %d: %s got what is for %s", i, user, whose)
		}
		if age := start.Sub(g.answered); age > g.ttl {
			w.fault("replica %d: a resource of %v ago, with a time to live of %v", i, age, g.ttl)
		}
		if g.read < known {
			w.fault("replica %d: a resource of before %d is served, which was said to have changed at %d", i, g.read, known)
		}
	})
}

// call has a client call a tool that nobody knows.
func (w *sharedWorld) call(i int) {
	r := w.c.all[i]
	w.clients.Go(func() { _, _ = r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_unknown"`)) })
}

// actions are what may happen.
func (w *sharedWorld) actions() map[string]func(*rapid.T) {
	replica := func(t *rapid.T) int { return rapid.IntRange(0, modelReplicas-1).Draw(t, "replica") }
	up := func(change func(t *rapid.T)) func(*rapid.T) {
		return func(t *rapid.T) { w.up.happens(func() { change(t) }) }
	}
	return map[string]func(*rapid.T){
		"change": up(func(*rapid.T) { w.up.version++ }),
		"scope":  up(func(*rapid.T) { w.up.version++; w.up.private = !w.up.private }),
		"time to live": up(func(t *rapid.T) {
			w.up.version++
			w.up.ttl = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, 10 * time.Minute}).Draw(t, "ttl")
		}),
		"break": up(func(t *rapid.T) { w.up.broken = rapid.Bool().Draw(t, "broken") }),
		"delay": up(func(t *rapid.T) {
			w.up.delay = rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, time.Second, 5 * time.Second}).Draw(t, "delay")
		}),
		"announce":               func(t *rapid.T) { w.announce(replica(t)) },
		"change and announce":    func(t *rapid.T) { w.up.happens(func() { w.up.version++ }); w.announce(replica(t)) },
		"list":                   func(t *rapid.T) { w.list(replica(t)) },
		"list everywhere":        func(t *rapid.T) { w.listEverywhere() },
		"read":                   func(t *rapid.T) { w.read(replica(t), rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "user")) },
		"call what is not known": func(t *rapid.T) { w.call(replica(t)) },
		"cut":                    func(t *rapid.T) { w.c.links[replica(t)].sever() },
		"deaf":                   func(t *rapid.T) { w.c.links[replica(t)].set(func(l *link) { l.deaf = true }) },
		"lag": func(t *rapid.T) {
			lag := rapid.SampledFrom([]time.Duration{0, 2 * time.Millisecond, 20 * time.Millisecond}).Draw(t, "lag")
			w.c.links[replica(t)].set(func(l *link) { l.lag = lag })
		},
		"heal":    func(t *rapid.T) { w.heal(replica(t)) },
		"restart": func(t *rapid.T) { w.restart(replica(t)) },
		"time": func(t *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{
				time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Second, 2 * time.Minute, 20 * time.Minute, 2 * time.Hour,
			}).Draw(t, "time"))
		},
	}
}

func (w *sharedWorld) listEverywhere() {
	for i := range w.c.all {
		w.list(i)
	}
}

// settle makes all well, after which there is one current list for all, which was
// asked for once.
func (w *sharedWorld) settle() {
	w.up.happens(func() { w.up.broken, w.up.delay, w.up.ttl = false, 0, time.Hour })
	w.clients.Wait()
	for i, l := range w.c.links {
		w.heal(i)
		l.set(func(l *link) { l.lag = 0 })
	}
	for range 2 {
		time.Sleep(3 * time.Hour)
		w.up.happens(func() { w.up.version++ })
		before := w.up.count(mcp.MethodToolsList)
		for i, r := range w.c.all {
			body, err := r.try(r.callOf("", mcp.MethodToolsList, ""))
			if want := fmt.Sprintf(`"a_v%d"`, w.up.version); err != nil || !strings.Contains(body, want) {
				w.fault("in the end replica %d lists %s, %v, want %s", i, body, err, want)
			}
		}
		if n := w.up.count(mcp.MethodToolsList) - before; n != 1 {
			w.fault("in the end the upstream was asked %d times, want once", n)
		}
	}
}

// Whatever happens, on however many replicas: nobody gets what is for somebody else,
// nor what is older than the bounds allow, nor as fresh what the replica has heard to
// have changed.
func TestReplicasKeepTheRulesOfCaching(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			w := newSharedWorld(t)
			actions := w.actions()
			actions[""] = func(rt *rapid.T) {
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.faults) > 0 {
					rt.Errorf("%s", strings.Join(w.faults, "\n"))
				}
			}
			defer w.c.stop()
			defer w.clients.Wait()
			rt.Repeat(actions)
			w.settle()
			actions[""](rt)
		})
	})
}
