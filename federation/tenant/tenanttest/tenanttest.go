// Package tenanttest holds the conformance suites of tenant.Store and
// tenant.Registry: every back end runs them.
package tenanttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Backend is a store under test and the way to change what it holds.
type Backend struct {
	Store tenant.Store
	// Replace makes tenants the whole content.
	Replace func(tenants []*tenant.Tenant)
	// Stored gives what the store makes of a tenant; nil where it keeps it as it is.
	Stored func(t *tenant.Tenant) (*tenant.Tenant, error)
}

// want gives a tenant as the store will give it, but for its revision.
func (b *Backend) want(t *testing.T, one *tenant.Tenant) *tenant.Tenant {
	t.Helper()
	if b.Stored == nil {
		return one
	}
	one, err := b.Stored(one)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// TestStore runs the suite. open gives a new store with that content each time
// and cleans up through t.
func TestStore(t *testing.T, open func(t *testing.T, initial []*tenant.Tenant) Backend) {
	t.Run("Lookup", func(t *testing.T) { testLookup(t, open) })
	t.Run("Revisions", func(t *testing.T) { testRevisions(t, open) })
	t.Run("SnapshotsStay", func(t *testing.T) { testSnapshotsStay(t, open) })
	t.Run("WatchTellsChanges", func(t *testing.T) { testWatch(t, open) })
	t.Run("WatchSeesTheChange", func(t *testing.T) { testWatchSeesChange(t, open) })
	t.Run("WatchOneAfterTheOther", func(t *testing.T) { testWatchSerial(t, open) })
	t.Run("StopWaits", func(t *testing.T) { testStopWaits(t, open) })
	t.Run("StopWithinCall", func(t *testing.T) { testStopWithinCall(t, open) })
	t.Run("ContextEnds", func(t *testing.T) { testContextEnds(t, open) })
}

// named gives a tenant with one upstream, whose port tells versions apart.
func named(name string, port int) *tenant.Tenant {
	ttl := time.Minute
	return &tenant.Tenant{
		Name: name, Separator: "_", PageSize: 10,
		Limits: tenant.Limits{Quota: tenant.Quota{InFlight: 3}, ListenStreams: 4},
		Upstreams: []tenant.Upstream{{
			Alias: "weather", URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port), Prefix: tenant.PrefixAlias,
			Description: "Wetter", Tags: []string{"a", "b"}, ForwardHeaders: []string{"X-Tenant"},
			Timeouts: tenant.Timeouts{Connect: time.Second, Call: time.Minute},
			Cache:    tenant.CacheTimes{ListTTL: &ttl, Stale: time.Second},
			InFlight: 7, Version: "v", ManagedBy: "file",
		}},
	}
}

func get(t *testing.T, s tenant.Store, name string) *tenant.Tenant {
	t.Helper()
	got, err := s.Tenant(t.Context(), name)
	if err != nil {
		t.Fatalf("Tenant(%q): %v", name, err)
	}
	return got
}

// mustLack fails unless the store says that it has no such tenant.
func mustLack(t *testing.T, s tenant.Store, name string) {
	t.Helper()
	if got, err := s.Tenant(t.Context(), name); !errors.Is(err, tenant.ErrNotFound) {
		t.Errorf("Tenant(%q) = %v, %v, want ErrNotFound", name, got, err)
	}
}

type opener = func(t *testing.T, initial []*tenant.Tenant) Backend

func testLookup(t *testing.T, open opener) {
	b := open(t, []*tenant.Tenant{named("zoo", 1), named("acme", 2), named("default", 3)})
	names, err := b.Store.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"acme", "default", "zoo"}, names); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
	ignoreRevision := cmpopts.IgnoreFields(tenant.Tenant{}, "Revision")
	if diff := cmp.Diff(b.want(t, named("acme", 2)), get(t, b.Store, "acme"), ignoreRevision); diff != "" {
		t.Errorf("Tenant (-want +got):\n%s", diff)
	}
	mustLack(t, b.Store, "nobody")
	mustLack(t, b.Store, "")

	empty := open(t, nil)
	if names, err := empty.Store.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("Names of an empty store = %v, %v", names, err)
	}
}

func testRevisions(t *testing.T, open opener) {
	b := open(t, []*tenant.Tenant{named("acme", 1), named("zoo", 1)})
	acme, zoo := get(t, b.Store, "acme").Revision, get(t, b.Store, "zoo").Revision
	if acme == 0 || zoo == 0 {
		t.Errorf("first revisions are %d and %d, want more than 0", acme, zoo)
	}

	b.Replace([]*tenant.Tenant{named("acme", 2), named("zoo", 1)})
	if got := get(t, b.Store, "zoo").Revision; got != zoo {
		t.Errorf("the revision of an unchanged tenant went from %d to %d", zoo, got)
	}
	second := get(t, b.Store, "acme").Revision
	if second <= acme {
		t.Errorf("the revision of a changed tenant went from %d to %d", acme, second)
	}

	b.Replace([]*tenant.Tenant{named("zoo", 1)})
	mustLack(t, b.Store, "acme")
	b.Replace([]*tenant.Tenant{named("zoo", 1), named("acme", 2)})
	if got := get(t, b.Store, "acme").Revision; got <= second {
		t.Errorf("the revision of a tenant that came back is %d, want more than %d", got, second)
	}
}

func testSnapshotsStay(t *testing.T, open opener) {
	b := open(t, []*tenant.Tenant{named("acme", 1)})
	before := get(t, b.Store, "acme")
	revision := before.Revision
	b.Replace([]*tenant.Tenant{named("acme", 2)})
	want := b.want(t, named("acme", 1))
	want.Revision = revision
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("an old snapshot has changed (-want +got):\n%s", diff)
	}
}

func testWatch(t *testing.T, open opener) {
	b := open(t, []*tenant.Tenant{named("same", 1), named("changes", 1), named("goes", 1)})
	got := make(chan string, 16)
	defer b.Store.Watch(t.Context(), func(name string) { got <- name })()

	b.Replace([]*tenant.Tenant{named("same", 1), named("changes", 2), named("comes", 1)})
	names := []string{<-got, <-got, <-got}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"changes", "comes", "goes"}, names); diff != "" {
		t.Errorf("changed names (-want +got):\n%s", diff)
	}

	// Nothing may come for what is equal: the next name is that of a real change.
	b.Replace([]*tenant.Tenant{named("same", 1), named("changes", 2), named("comes", 1)})
	b.Replace([]*tenant.Tenant{named("same", 2), named("changes", 2), named("comes", 1)})
	if name := <-got; name != "same" {
		t.Errorf("the next change is %q, want %q", name, "same")
	}
}

func testWatchSeesChange(t *testing.T, open opener) {
	b := open(t, []*tenant.Tenant{named("acme", 1)})
	type seen struct {
		url   string
		names int
	}
	got := make(chan seen, 16)
	defer b.Store.Watch(t.Context(), func(name string) {
		// The store may be used from within a call.
		var s seen
		if snap, err := b.Store.Tenant(context.Background(), name); err == nil {
			s.url = snap.Upstreams[0].URL
		}
		names, _ := b.Store.Names(context.Background())
		s.names = len(names)
		b.Store.Watch(t.Context(), func(string) {})()
		got <- s
	})()
	b.Replace([]*tenant.Tenant{named("acme", 2)})
	if s, want := <-got, (seen{"http://127.0.0.1:2/mcp", 1}); s != want {
		t.Errorf("within the call: %v, want %v", s, want)
	}
	b.Replace(nil)
	if s, want := <-got, (seen{"", 0}); s != want {
		t.Errorf("within the call after the removal: %v, want %v", s, want)
	}
}

func testWatchSerial(t *testing.T, open opener) {
	b := open(t, nil)
	const writers, each, watchers = 10, 5, 2
	var running, most atomic.Int32
	var got [watchers]chan uint64 // revisions that a watcher has seen
	for i := range got {
		got[i] = make(chan uint64, 2*writers*each)
		defer b.Store.Watch(t.Context(), func(name string) {
			most.Store(max(most.Load(), running.Add(1)))
			if now, err := b.Store.Tenant(context.Background(), name); err == nil {
				got[i] <- now.Revision
			}
			running.Add(-1)
		})()
	}
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			for n := range each {
				b.Replace([]*tenant.Tenant{named("acme", 1+i*each+n)})
			}
		})
	}
	group.Wait()
	last := get(t, b.Store, "acme").Revision
	for i := range got {
		for seen := uint64(0); seen < last; {
			next := <-got[i]
			if next < seen {
				t.Errorf("revision %d was seen after revision %d", next, seen)
			}
			seen = next
		}
	}
	if most.Load() > 1 {
		t.Errorf("%d calls ran at the same time", most.Load())
	}
}

func testStopWaits(t *testing.T, open opener) {
	b := open(t, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	var left atomic.Bool
	var calls atomic.Int32
	stop := b.Store.Watch(t.Context(), func(string) {
		if calls.Add(1) == 1 {
			close(entered)
			<-leave
			left.Store(true)
		}
	})
	other := make(chan string, 16)
	defer b.Store.Watch(t.Context(), func(name string) { other <- name })()

	var work sync.WaitGroup
	work.Go(func() { b.Replace([]*tenant.Tenant{named("acme", 1)}) })
	<-entered
	stopped := make(chan bool)
	work.Go(func() {
		stop()
		stopped <- left.Load()
	})
	close(leave)
	if !<-stopped {
		t.Error("stop returned while a call was running")
	}
	work.Wait()
	<-other

	b.Replace([]*tenant.Tenant{named("acme", 2)})
	<-other
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want none after stop", n-1)
	}
	stop() // a second time is fine
}

func testStopWithinCall(t *testing.T, open opener) {
	b := open(t, nil)
	var calls atomic.Int32
	var stop func()
	stop = b.Store.Watch(t.Context(), func(string) {
		calls.Add(1)
		stop()
	})
	other := make(chan string, 16)
	defer b.Store.Watch(t.Context(), func(name string) { other <- name })()
	for i := range 2 {
		b.Replace([]*tenant.Tenant{named("acme", i+1)})
		<-other
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func testContextEnds(t *testing.T, open opener) {
	b := open(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	stop := b.Store.Watch(ctx, func(string) { calls.Add(1) })
	other := make(chan string, 16)
	defer b.Store.Watch(t.Context(), func(name string) { other <- name })()
	cancel()
	b.Replace([]*tenant.Tenant{named("acme", 1)})
	<-other
	if n := calls.Load(); n != 0 {
		t.Errorf("%d calls after the context ended", n)
	}
	stop()
}
