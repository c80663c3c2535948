package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// model is what random histories are checked against. It knows when each answer
// was fetched and what was invalidated since, by numbering all that happens.
type model struct {
	server   *redistest.Server
	replicas []*modelReplica

	// Of one history. Its tenants are its own, and have the same upstreams.
	tenants  []string
	seq      int
	private  map[string]bool // the parameters that upstreams say are private now
	flying   []*modelFetch
	fetched  map[string]*modelFetch // by the body
	changes  []modelChange
	deletes  []modelDelete
	episodes int // failures so far
}

// modelReplica is one replica, with a clock of its own.
type modelReplica struct {
	*Responses
	proxy *redistest.Proxy
	off   time.Duration

	mu   sync.Mutex
	told map[cache.Topic]uint64 // the highest generation that its follower was told of
}

// modelFetch is one answer of an upstream, and what a replica does with it.
type modelFetch struct {
	by         *modelReplica
	topic      cache.Topic
	credential string
	param      string
	private    bool
	entry      cache.Entry
	gen        uint64
	seq        int       // when it was asked for
	at         time.Time // the same
	put        int       // when it was last written; 0 for never
}

// modelChange is an invalidation; gen is 0 when it could not be written.
type modelChange struct {
	by    *modelReplica
	topic cache.Topic
	param string
	gen   uint64
	seq   int
}

type modelDelete struct {
	by  *modelReplica
	key cache.Key
	seq int
}

var (
	modelCredentials = []string{"alice", "bob", "carol"}
	modelParams      = []string{"", "file:///a", "file:///a/b", "file:///a/b/c", "file:///d"}
)

// newModel starts replicas that reach one server through proxies, and whose clocks
// differ.
func newModel(t *testing.T, timeout time.Duration) *model {
	t.Helper()
	m := &model{server: redistest.Start(t)}
	for _, off := range []time.Duration{0, time.Hour, -7 * time.Minute} {
		r := &modelReplica{proxy: redistest.Slow(t, m.server.Addr(), 0), off: off}
		opts := at(r.proxy.URL())
		opts.Timeout, opts.PollInterval = timeout, 100*time.Millisecond
		// So small that entries are evicted too.
		r.Responses = newResponses(openWell(t, opts), cache.NewMemory(20<<10), r.clock)
		t.Cleanup(r.Close)
		m.replicas = append(m.replicas, r)
	}
	return m
}

func (r *modelReplica) clock() time.Time { return time.Now().Add(r.off) }

// begin begins a history, which ends with the function that it gives.
func (m *model) begin(name string) (end func()) {
	m.tenants = []string{name + "a", name + "b"}
	m.seq, m.private, m.flying = 0, map[string]bool{}, nil
	m.fetched, m.changes, m.deletes = map[string]*modelFetch{}, nil, nil
	var stops []func()
	for _, r := range m.replicas {
		r.told = map[cache.Topic]uint64{}
		for _, tenant := range m.tenants {
			stops = append(stops, r.Follow(tenant, func(c cache.Change) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.told[c.Topic] = max(r.told[c.Topic], c.Gen)
			}))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (m *model) next() int {
	m.seq++
	return m.seq
}

func (m *model) topic(t *rapid.T) cache.Topic {
	return cache.Topic{Tenant: rapid.SampledFrom(m.tenants).Draw(t, "tenant"), Upstream: "files", Version: "v1", Method: "resources/read"}
}

func (m *model) replica(t *rapid.T) *modelReplica {
	i := rapid.IntRange(0, len(m.replicas)-1).Draw(t, "replica")
	return m.replicas[i]
}

// read is what a gateway does for a client: it looks for what all share, then for
// what is the credential's own, and else asks the upstream.
func (m *model) read(t *rapid.T) {
	r, topic := m.replica(t), m.topic(t)
	credential := rapid.SampledFrom(modelCredentials).Draw(t, "credential")
	param := rapid.SampledFrom(modelParams).Draw(t, "param")
	for _, c := range []string{"", credential} {
		k := cache.Key{Topic: topic, Credential: c, Param: param}
		before := m.known(r, k)
		e, ok, err := r.Get(t.Context(), k)
		if err != nil || !ok {
			continue
		}
		m.check(t, r, k, credential, e, before)
		if r.clock().Before(e.Stored.Add(e.TTL)) {
			return
		}
	}
	m.fetch(t, r, topic, credential, param)
}

// fetch asks the upstream, which answers at once; what is done with the answer
// comes later.
func (m *model) fetch(t *rapid.T, r *modelReplica, topic cache.Topic, credential, param string) {
	gen, err := r.Generation(t.Context(), topic)
	if err != nil {
		return
	}
	f := &modelFetch{
		by: r, topic: topic, credential: credential, param: param, gen: gen,
		private: m.private[topic.Tenant+param], seq: m.next(), at: time.Now(),
	}
	f.entry = cache.Entry{
		Body:   fmt.Appendf(nil, "%s %s %s %d", topic.Tenant, credential, param, f.seq),
		Stored: f.at.Add(r.off),
		TTL:    rapid.SampledFrom([]time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond, time.Hour}).Draw(t, "ttl"),
		Keep:   rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, time.Hour}).Draw(t, "keep"),
		Public: !f.private,
	}
	if rapid.Bool().Draw(t, "long") {
		f.entry.Body = fmt.Appendf(f.entry.Body, "%4000d", 0)
	}
	m.fetched[string(f.entry.Body)] = f
	m.flying = append(m.flying, f)
}

// finish does what a gateway does with an answer.
func (m *model) finish(t *rapid.T) {
	if len(m.flying) == 0 {
		t.Skip("nothing is being fetched")
	}
	i := rapid.IntRange(0, len(m.flying)-1).Draw(t, "fetch")
	f := m.flying[i]
	m.flying = append(m.flying[:i], m.flying[i+1:]...)
	shared := cache.Key{Topic: f.topic, Param: f.param}
	k := shared
	if f.private {
		k.Credential = f.credential
	}
	f.put = m.next()
	_, _ = f.by.Put(t.Context(), k, f.entry, f.gen)
	if f.private {
		_ = f.by.Delete(t.Context(), shared)
		m.deletes = append(m.deletes, modelDelete{by: f.by, key: shared, seq: m.next()})
	}
}

// change has a replica hear that something has changed.
func (m *model) change(t *rapid.T) {
	c := modelChange{by: m.replica(t), topic: m.topic(t), param: rapid.SampledFrom(modelParams).Draw(t, "param")}
	c.seq = m.next()
	c.gen, _ = c.by.Invalidate(t.Context(), c.topic, c.param)
	m.changes = append(m.changes, c)
}

// flip has an upstream answer with another scope from now on.
func (m *model) flip(t *rapid.T) {
	p := rapid.SampledFrom(m.tenants).Draw(t, "tenant") + rapid.SampledFrom(modelParams).Draw(t, "param")
	m.private[p] = !m.private[p]
}

// wait lets some time go by.
func (m *model) wait(t *rapid.T) {
	<-time.After(time.Duration(rapid.IntRange(1, 10).Draw(t, "milliseconds")) * time.Millisecond)
}

// known gives the number of the last change of an entry, or of its deletion, that a
// replica knows of.
func (m *model) known(r *modelReplica, k cache.Key) (last [2]int) {
	r.mu.Lock()
	told := r.told[k.Topic]
	r.mu.Unlock()
	for _, c := range m.changes {
		if c.topic == k.Topic && cache.Covers(c.param, k.Param) && (c.by == r || c.gen != 0 && c.gen <= told) {
			last[0] = c.seq
		}
	}
	for _, d := range m.deletes {
		if d.by == r && d.key == k {
			last[1] = d.seq
		}
	}
	return last
}

// check checks what a client may be given.
func (m *model) check(t *rapid.T, r *modelReplica, k cache.Key, credential string, e cache.Entry, known [2]int) {
	now := time.Now()
	f := m.fetched[string(e.Body)]
	switch {
	case f == nil:
		t.Fatalf("%q was never fetched in this history", e.Body)
	case f.topic != k.Topic || f.param != k.Param:
		t.Fatalf("%q was given for %+v", e.Body, k)
	case f.private && f.credential != credential:
		t.Fatalf("%q, which is private, was given to %q", e.Body, credential)
	case f.private == e.Public:
		t.Fatalf("%q is private: %v, and now public: %v", e.Body, f.private, e.Public)
	case f.seq < known[0]:
		t.Fatalf("%q was fetched at %d, and the replica knows of a change at %d", e.Body, f.seq, known[0])
	case f.put < known[1]:
		t.Fatalf("%q was written at %d, and the replica deleted it at %d", e.Body, f.put, known[1])
	}
	// Redis counts in milliseconds.
	const grain = 2 * time.Millisecond
	if age := now.Sub(f.at); age > f.entry.TTL+f.entry.Keep+grain {
		t.Fatalf("%q is %v old, and of use for %v", e.Body, age, f.entry.TTL+f.entry.Keep)
	}
	if younger := e.Stored.Add(-r.off).Sub(f.at); younger > grain {
		t.Fatalf("%q counts as %v younger than it is", e.Body, younger)
	}
}

// settled tells whether no replica has anything that was invalidated, or was
// deleted and not written again, whoever did it.
func (m *model) settled(t *rapid.T) bool {
	for _, r := range m.replicas {
		for _, tenant := range m.tenants {
			topic := cache.Topic{Tenant: tenant, Upstream: "files", Version: "v1", Method: "resources/read"}
			for _, param := range modelParams {
				for _, credential := range append([]string{""}, modelCredentials...) {
					k := cache.Key{Topic: topic, Credential: credential, Param: param}
					e, ok, err := r.Get(t.Context(), k)
					if err != nil || ok && m.outdated(k, e) {
						return false
					}
				}
			}
		}
	}
	return true
}

func (m *model) outdated(k cache.Key, e cache.Entry) bool {
	f := m.fetched[string(e.Body)]
	if f == nil {
		return true
	}
	for _, c := range m.changes {
		if c.topic == k.Topic && cache.Covers(c.param, k.Param) && c.seq > f.seq {
			return true
		}
	}
	for _, d := range m.deletes {
		if d.key == k && d.seq > f.put {
			return true
		}
	}
	return false
}
