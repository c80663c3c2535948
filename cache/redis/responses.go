package redis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// Kinds of keys of responses.
const (
	kindTopic = "topic"
	kindEntry = "entry"
	kindDone  = "done"
)

const (
	// topicLife is how long the hash of a topic is kept after its last use: longer
	// than any entry, which are valid only with it.
	topicLife = 2 * maxLife
	// maxMarks bounds the parameters that a topic has marks of. Over it, an
	// invalidation of one is one of all.
	maxMarks = 1000
	// maxAncestors bounds the parameters that one invalidation covers, likewise.
	maxAncestors = 64
	// doneLife is how long Redis knows that a change which could not be written at
	// first has been written, by one of those who heard of it.
	doneLife = time.Hour
)

var (
	errPending = errors.New("an invalidation could not be written to redis yet")
	errClosed  = errors.New("the cache is closed")
)

// Responses is a cache.Responses in a Store, with a cache.Memory in front unless it
// is nil: what is fresh there is served without asking Redis, also while Redis
// cannot be reached. It stores nothing then, since nobody could tell the others what
// has changed. A change that is made meanwhile counts in this process at once, and
// in Redis as soon as it can be written.
//
// The Memory is for one Responses alone.
type Responses struct {
	store *Store
	near  *cache.Memory
	codec *entryCodec
	now   func() time.Time

	mu      sync.Mutex
	closed  bool
	tenants map[string]*tenantTopics
	pending pending

	attend chan struct{} // that somebody is to look at Redis soon
	rework chan struct{} // that tenants have come or gone
	end    context.CancelFunc
	wg     sync.WaitGroup
}

var _ cache.Responses = (*Responses)(nil)

// NewResponses makes it. Close ends what it does in the background.
func NewResponses(s *Store, near *cache.Memory) *Responses { return newResponses(s, near, time.Now) }

func newResponses(s *Store, near *cache.Memory, now func() time.Time) *Responses {
	ctx, end := context.WithCancel(context.Background())
	r := &Responses{
		store: s, near: near, codec: newEntryCodec(), now: now,
		tenants: map[string]*tenantTopics{}, pending: newPending(),
		attend: make(chan struct{}, 1), rework: make(chan struct{}, 1), end: end,
	}
	forget := s.OnRecovered(r.look)
	r.wg.Go(func() { r.subscribe(ctx) })
	r.wg.Go(func() {
		defer forget()
		r.watch(ctx)
	})
	return r
}

// Close ends what runs in the background, and what followers are told. Whatever is
// asked for afterwards is an error.
func (r *Responses) Close() {
	r.mu.Lock()
	r.closed = true
	var followers []*follower
	for _, tt := range r.tenants {
		followers = append(followers, tt.followers...)
	}
	r.mu.Unlock()
	r.end()
	r.wg.Wait()
	for _, f := range followers {
		f.stop()
	}
	r.codec.close()
}

// Generation implements cache.Responses.
func (r *Responses) Generation(ctx context.Context, t cache.Topic) (uint64, error) {
	v, err := r.visit(t)
	if err != nil {
		return 0, fmt.Errorf("read a generation: %w", err)
	}
	reply, err := r.store.run(ctx, scriptGeneration, []string{r.topicKey(t)}, r.generationArgs(v)...)
	if err != nil {
		return 0, fmt.Errorf("read a generation: %w", err)
	}
	n, err := numbers(reply, 3)
	if err != nil {
		return 0, fmt.Errorf("read a generation: %w", err)
	}
	r.observe(v, n[0], n[1], n[2])
	return n[0], nil
}

func (r *Responses) generationArgs(v visit) []any {
	whole := notice{kind: noticeChange, topic: v.state.topic}
	return []any{v.seen, millis(topicLife), r.channel(v.state.topic.Tenant), whole.note()}
}

// Get implements cache.Responses. An entry that has expired here is looked for in
// Redis too, where another process may have put a newer one.
func (r *Responses) Get(ctx context.Context, k cache.Key) (cache.Entry, bool, error) {
	if e, ok := r.getNear(ctx, k); ok && r.now().Before(e.Stored.Add(e.TTL)) {
		return e, true, nil
	}
	far, ok, err := r.getFar(ctx, k)
	// Looked for again, since what was learnt just now may have put an end to it.
	if near, has := r.getNear(ctx, k); has && (!ok || near.Stored.After(far.Stored)) {
		return near, true, nil
	}
	return far, ok, err
}

// getNear gives the entry in memory, unless it is of no use any more.
func (r *Responses) getNear(ctx context.Context, k cache.Key) (cache.Entry, bool) {
	if r.near == nil {
		return cache.Entry{}, false
	}
	e, ok, _ := r.near.Get(ctx, k) // never fails
	if !ok || r.now().Sub(e.Stored) >= lifeOf(e) {
		return cache.Entry{}, false
	}
	return e, true
}

// getFar gives the entry in Redis, and keeps it in memory.
func (r *Responses) getFar(ctx context.Context, k cache.Key) (cache.Entry, bool, error) {
	v, err := r.visit(k.Topic)
	if err != nil {
		return cache.Entry{}, false, fmt.Errorf("get an entry: %w", err)
	}
	// The server reckons what is left of the entry's life after this, so the entry
	// is taken for no younger than it is.
	asked := r.now()
	got, err := r.fetch(ctx, k)
	if err != nil {
		return cache.Entry{}, false, fmt.Errorf("get an entry: %w", err)
	}
	r.observe(v, got.gen, got.drops, 0)
	e, ok := got.entry(r.codec, asked)
	if !ok {
		return cache.Entry{}, false, nil
	}
	r.fill(ctx, v, k, e)
	return e, true, nil
}

// fetched is what Redis has of a topic and an entry, as of one moment.
type fetched struct {
	gen, all, mark, drops uint64
	left                  time.Duration
	value                 []byte
}

func (r *Responses) fetch(ctx context.Context, k cache.Key) (fetched, error) {
	reply, err := r.store.run(ctx, scriptGet, []string{r.topicKey(k.Topic), r.entryKey(k)}, markOf(k.Param))
	if err != nil {
		return fetched{}, err
	}
	l, err := list(reply, 3)
	if err != nil {
		return fetched{}, err
	}
	fields, err := list(l[0], 4)
	if err != nil {
		return fetched{}, err
	}
	var f fetched
	for i, n := range []*uint64{&f.gen, &f.all, &f.drops, &f.mark} {
		if fields[i] == nil {
			continue
		}
		if *n, err = number(fields[i]); err != nil {
			return fetched{}, err
		}
	}
	left, ok := l[1].(int64)
	if !ok {
		return fetched{}, errReply
	}
	f.left = time.Duration(left) * time.Millisecond
	value, _ := l[2].(string) // nothing when there is none
	f.value = []byte(value)
	return f, nil
}

// entry gives the entry if it is valid. asked is when it was asked for.
func (f fetched) entry(c *entryCodec, asked time.Time) (cache.Entry, bool) {
	if f.gen == 0 || f.all == 0 || f.left <= 0 || len(f.value) == 0 {
		return cache.Entry{}, false
	}
	s, err := c.decode(f.value)
	// A generation that is still to come is one of before the server lost its data.
	if err != nil || s.gen < f.all || s.gen < f.mark || s.gen > f.gen {
		return cache.Entry{}, false
	}
	s.Stored = asked.Add(-max(s.life-f.left, 0))
	return s.Entry, true
}

// Put implements cache.Responses. It also tells false for an entry that is of no
// use any more, that is larger than 65 MiB, or that was fetched under an earlier
// lease than the one that is there.
func (r *Responses) Put(ctx context.Context, k cache.Key, e cache.Entry, gen uint64) (bool, error) {
	if len(e.Body) > maxBody {
		return false, nil
	}
	v, err := r.visit(k.Topic)
	if err == nil && v.clock.server == 0 {
		// By whose time the entry is as old as it is here is not known yet.
		if _, err = r.Generation(ctx, k.Topic); err == nil {
			v, err = r.visit(k.Topic)
		}
	}
	if err != nil {
		return false, fmt.Errorf("put an entry: %w", err)
	}
	shared := 0
	if k.Credential == "" {
		shared = 1
	}
	reply, err := r.store.run(ctx, scriptPut, []string{r.topicKey(k.Topic), r.entryKey(k)},
		gen, millis(topicLife), r.codec.encode(e, gen), lifeOf(e).Milliseconds(), v.clock.at(e.Stored), shared)
	if err != nil {
		return false, fmt.Errorf("put an entry: %w", err)
	}
	n, err := numbers(reply, 4)
	if err != nil {
		return false, fmt.Errorf("put an entry: %w", err)
	}
	r.observe(v, n[1], n[2], n[3])
	if n[0] == 0 {
		if n[1] == gen && r.now().Sub(e.Stored) >= lifeOf(e) {
			// Nor is the one that it replaces.
			r.dropped(notice{topic: k.Topic, param: k.Param, credential: k.Credential})
		}
		return false, nil
	}
	r.fill(ctx, v, k, e)
	return true, nil
}

// Delete implements cache.Responses. When Redis cannot do it, what the entry is of
// counts as invalidated.
func (r *Responses) Delete(ctx context.Context, k cache.Key) error {
	m := notice{kind: noticeDrop, topic: k.Topic, param: k.Param, credential: k.Credential}
	shared := 0
	if k.Credential == "" {
		shared = 1
	}
	reply, err := r.store.run(ctx, scriptDelete, []string{r.topicKey(k.Topic), r.entryKey(k)},
		r.channel(k.Tenant), m.note(), shared)
	var n []uint64
	if err == nil {
		n, err = numbers(reply, 0)
	}
	if err != nil {
		r.postpone(notice{kind: noticeChange, topic: k.Topic, param: k.Param, id: newID()})
		return fmt.Errorf("delete an entry: %w", err)
	}
	if len(n) == 2 {
		m.prev, m.gen = n[0], n[1]
	}
	r.dropped(m)
	return nil
}

// numbers reads the numbers of a script's answer, at least n.
func numbers(reply any, n int) ([]uint64, error) {
	l, err := list(reply, n)
	if err != nil {
		return nil, err
	}
	all := make([]uint64, len(l))
	for i, v := range l {
		if all[i], err = number(v); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func scopeOf(t cache.Topic) cache.Scope { return cache.Scope{Tenant: t.Tenant, Upstream: t.Upstream} }

func (r *Responses) topicKey(t cache.Topic) string {
	return r.store.key(scopeOf(t), kindTopic, t.Version, t.Method)
}

// entryKey gives the key of an entry. What names it within its topic may be long,
// and is nothing for those to read who may list keys.
func (r *Responses) entryKey(k cache.Key) string {
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(k.Credential))))
	h.Write([]byte(k.Credential))
	h.Write([]byte(k.Param))
	return r.store.key(scopeOf(k.Topic), kindEntry, k.Version, k.Method, hex.EncodeToString(h.Sum(nil)))
}

// channel gives the channel of a tenant, as Redis has it.
func (r *Responses) channel(tenant string) string { return r.store.channel(channelOf(tenant)) }

// channelOf gives it as the Store has it.
func channelOf(tenant string) string { return "responses:" + escape(tenant) }

// markOf gives the field that marks a parameter.
func markOf(param string) string {
	sum := sha256.Sum256([]byte(param))
	return "u:" + string(sum[:16])
}
