package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// TestFollow holds that followers on all replicas are told of what all replicas
// change, each change once, in the order in which they were made.
func TestFollow(t *testing.T) {
	t.Parallel()
	a, b := replicas(t, redistest.Start(t).URL())
	var near, far changes
	t.Cleanup(a.Follow("acme", near.add))
	t.Cleanup(b.Follow("acme", far.add))
	a.stands("acme")
	b.stands("acme")
	var want []cache.Change
	for i := range 50 {
		param := fmt.Sprint("file:///", i)
		gen, err := []replica{a, b}[i%2].Invalidate(t.Context(), reads, param)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, cache.Change{Topic: reads, Param: param, Gen: gen})
	}
	for _, c := range []*changes{&near, &far} {
		eventually(t, "all are told", func() bool { return len(c.all()) >= len(want) })
		if diff := cmp.Diff(want, c.all()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	}
}

// TestSlowFollower holds that one who is slow holds up nobody, and is told of less
// when too much waits for it, but of each topic.
func TestSlowFollower(t *testing.T) {
	t.Parallel()
	const topics = 5
	a, b := replicas(t, redistest.Start(t).URL())
	var slow, fast changes
	release := make(chan struct{})
	stopSlow := b.Follow("acme", func(c cache.Change) {
		<-release
		slow.add(c)
	})
	t.Cleanup(b.Follow("acme", fast.add))
	b.stands("acme")
	last := map[cache.Topic]uint64{}
	for i := range maxChanges + 500 {
		tp := reads
		tp.Upstream = fmt.Sprint(i % topics)
		gen, err := a.Invalidate(t.Context(), tp, "file:///a")
		if err != nil {
			t.Fatal(err)
		}
		last[tp] = gen
	}
	eventually(t, "the other is told of all", func() bool { return len(fast.all()) == maxChanges+500 })
	close(release)
	eventually(t, "the slow one is told of each topic's last change", func() bool {
		told := map[cache.Topic]uint64{}
		for _, c := range slow.all() {
			told[c.Topic] = c.Gen
		}
		return cmp.Equal(told, last)
	})
	if n := len(slow.all()); n > maxChanges+1 {
		t.Errorf("%d changes waited", n)
	}
	stopSlow()
	n := len(slow.all())
	a.invalidate(reads, "")
	eventually(t, "the other is told", func() bool { return len(fast.all()) == maxChanges+501 })
	if len(slow.all()) != n {
		t.Error("one who has stopped is told")
	}
}

// TestFollowersAfterGap holds that a follower who was cut off is told of what has
// changed meanwhile, and of nothing else.
func TestFollowersAfterGap(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, cut := behind(t, s)
	b := replicaOf(t, at(s.URL()), nil)
	var told changes
	t.Cleanup(a.Follow("acme", told.add))
	a.stands("acme")
	other := reads
	other.Upstream = "other"
	for _, tp := range []cache.Topic{reads, other} {
		if _, err := a.Generation(t.Context(), tp); err != nil {
			t.Fatal(err)
		}
	}
	cut.Cut()
	gen, err := b.Invalidate(t.Context(), reads, "file:///a")
	if err != nil {
		t.Fatal(err)
	}
	cut.Heal()
	eventually(t, "the change is told", func() bool { return len(told.all()) > 0 })
	b.invalidate(other, "")
	eventually(t, "another one is told", func() bool { return len(told.all()) > 1 })
	all := told.all()
	if want := (cache.Change{Topic: reads, Gen: gen}); all[0] != want {
		t.Errorf("told of %+v, want %+v", all[0], want)
	}
	if all[1].Topic != other || len(all) > 2 {
		t.Errorf("told of %+v, want one change of %v", all[1:], other)
	}
}

// TestForeignNotices holds that what another version, or somebody else, publishes
// does no harm.
func TestForeignNotices(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := replicas(t, s.URL())
	b.stands("acme")
	b.put(key("file:///a"), "1")
	others := cache.Topic{Tenant: "others", Upstream: "files"}
	b.put(cache.Key{Topic: others}, "theirs")
	gen := notice{kind: noticeChange, topic: others, gen: 1 << 60}
	for _, body := range []string{"", "hello", "1 2 9c", "99999999999999999999999 1 1c", string(gen.encode())} {
		s.Do("PUBLISH", b.channel("acme"), body)
	}
	a.invalidate(reads, "")
	eventually(t, "what comes behind counts", func() bool { return b.get(key("file:///a")) == "" })
	if !b.isNear(cache.Key{Topic: others}) {
		t.Error("one tenant's notices reach another")
	}
}

// TestIdleTopics holds that what nobody uses is forgotten.
func TestIdleTopics(t *testing.T) {
	t.Parallel()
	var ahead = make(chan time.Duration, 1)
	ahead <- 0
	now := func() time.Time {
		d := <-ahead
		ahead <- d
		return time.Now().Add(d)
	}
	s := redistest.Start(t)
	opts := at(s.URL())
	opts.PollInterval = 50 * time.Millisecond
	r := newResponses(openWell(t, opts), cache.NewMemory(0), now)
	t.Cleanup(r.Close)
	a := replica{r, t}
	a.put(key("file:///a"), "1")
	var told changes
	stop := a.Follow("followed", told.add)
	followed := cache.Topic{Tenant: "followed"}
	if _, err := a.Generation(t.Context(), followed); err != nil {
		t.Fatal(err)
	}
	a.stands("acme")
	a.stands("followed")
	<-ahead
	ahead <- 2 * idleAfter
	count := func() (topics, channels int) {
		a.mu.Lock()
		for _, tt := range a.tenants {
			topics += len(tt.topics)
		}
		a.mu.Unlock()
		a.store.bus.mu.Lock()
		defer a.store.bus.mu.Unlock()
		return topics, len(a.store.bus.channels)
	}
	eventually(t, "the one that nobody follows is forgotten", func() bool { n, c := count(); return n == 2 && c == 1 })
	if a.isNear(key("file:///a")) {
		t.Error("it is still in memory")
	}
	canary := followed
	canary.Upstream = "canary"
	s.Do("DEL", a.topicKey(followed))
	s.Do("DEL", a.topicKey(canary))
	eventually(t, "the other is told to have changed when Redis has forgotten it", func() bool { return len(told.all()) == 1 })
	eventually(t, "it is forgotten", func() bool { n, _ := count(); return n == 0 })
	stop()
	eventually(t, "nothing is left", func() bool { n, c := count(); return n == 0 && c == 0 })
	a.put(key("file:///a"), "2")
	a.want(key("file:///a"), "2")
}
