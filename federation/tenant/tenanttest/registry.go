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

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// patience bounds how long the suite waits for what has to come.
const patience = 30 * time.Second

// openRegistry gives two registries of one new content, as two processes have them:
// one and the same twice where the back end is for one process.
type openRegistry = func(t *testing.T) (a, b tenant.Registry)

// TestRegistry runs the suite of registries, and TestStore. open gives two
// registries of one new, empty content, and cleans up through t.
func TestRegistry(t *testing.T, open func(t *testing.T) (a, b tenant.Registry)) {
	t.Run("Store", func(t *testing.T) { testAsStore(t, open) })
	t.Run("Put", func(t *testing.T) { testPut(t, open) })
	t.Run("PutChecks", func(t *testing.T) { testPutChecks(t, open) })
	t.Run("PutCopies", func(t *testing.T) { testPutCopies(t, open) })
	t.Run("OneWriterWins", func(t *testing.T) { testOneWins(t, open) })
	t.Run("NoUpdateIsLost", func(t *testing.T) { testNoneLost(t, open) })
	t.Run("Delete", func(t *testing.T) { testDelete(t, open) })
	t.Run("Keys", func(t *testing.T) { testKeys(t, open) })
	t.Run("KeysGoWithTheirTenant", func(t *testing.T) { testKeysGo(t, open) })
	t.Run("TouchKey", func(t *testing.T) { testTouch(t, open) })
	t.Run("Export", func(t *testing.T) { testExport(t, open) })
	t.Run("ImportReplaces", func(t *testing.T) { testImport(t, open) })
	t.Run("ImportIsWholeOrNot", func(t *testing.T) { testImportWhole(t, open) })
	t.Run("BothAreTold", func(t *testing.T) { testBothTold(t, open) })
	t.Run("ToldOfKeys", func(t *testing.T) { testToldOfKeys(t, open) })
	t.Run("ToldWithinASecond", func(t *testing.T) { testToldSoon(t, open) })
	t.Run("Many", func(t *testing.T) { testMany(t, open) })
}

// testAsStore runs the suite of stores on a registry that is written by Import.
func testAsStore(t *testing.T, open openRegistry) {
	TestStore(t, func(t *testing.T, initial []*tenant.Tenant) Backend {
		r, _ := open(t)
		replace := func(tenants []*tenant.Tenant) {
			if _, err := r.Import(context.Background(), &tenant.Snapshot{Tenants: tenants}, tenant.Any); err != nil {
				t.Errorf("Import: %v", err)
			}
		}
		if initial != nil {
			replace(initial)
		}
		return Backend{Store: r, Replace: replace, Stored: tenant.Stored}
	})
}

// put writes a tenant and gives its revision.
func put(t *testing.T, r tenant.Registry, one *tenant.Tenant, expect uint64) uint64 {
	t.Helper()
	revision, err := r.Put(t.Context(), one, expect)
	if err != nil {
		t.Fatalf("Put(%q, %d): %v", one.Name, expect, err)
	}
	return revision
}

// mustBe fails unless err is want.
func mustBe(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// stored gives a tenant as a registry keeps it.
func stored(t *testing.T, one *tenant.Tenant, revision uint64) *tenant.Tenant {
	t.Helper()
	one, err := tenant.Stored(one)
	if err != nil {
		t.Fatal(err)
	}
	one.Revision = revision
	return one
}

func testPut(t *testing.T, open openRegistry) {
	r, _ := open(t)
	if _, err := r.Put(t.Context(), named("acme", 1), 5); !errors.Is(err, tenant.ErrConflict) {
		t.Errorf("Put of a tenant that is gone: %v, want ErrConflict", err)
	}
	mustLack(t, r, "acme")

	first := put(t, r, named("acme", 1), 0)
	got := get(t, r, "acme")
	if diff := cmp.Diff(stored(t, named("acme", 1), first), got); diff != "" {
		t.Errorf("Tenant (-want +got):\n%s", diff)
	}
	if u := got.Upstreams[0]; got.ManagedBy != "store" || u.ManagedBy != "store" || u.Version != u.Digest() {
		t.Errorf("managed by %q and %q, version %q", got.ManagedBy, u.ManagedBy, u.Version)
	}
	_, err := r.Put(t.Context(), named("acme", 2), 0)
	mustBe(t, "Put of a tenant that is there already", err, tenant.ErrConflict)

	second := put(t, r, named("acme", 2), first)
	if second <= first {
		t.Errorf("revision %d after %d", second, first)
	}
	_, err = r.Put(t.Context(), named("acme", 3), first)
	mustBe(t, "Put over another revision", err, tenant.ErrConflict)
	if diff := cmp.Diff(stored(t, named("acme", 2), second), get(t, r, "acme")); diff != "" {
		t.Errorf("Tenant after a conflict (-want +got):\n%s", diff)
	}

	third := put(t, r, named("acme", 4), tenant.Any)
	other := put(t, r, named("zoo", 1), tenant.Any)
	again := put(t, r, named("acme", 4), third)
	if third <= second || other <= third || again <= other {
		t.Errorf("revisions %d, %d, %d after %d: each change has a higher one", third, other, again, second)
	}
}

func testPutChecks(t *testing.T, open openRegistry) {
	r, _ := open(t)
	_, err := r.Put(t.Context(), &tenant.Tenant{
		Name: "Acme", Separator: "-",
		Upstreams: []tenant.Upstream{
			{Alias: "search", URL: "http://u:p@127.0.0.1/"},
			{Alias: "files", Process: &tenant.Process{Command: []string{"x"}}},
		},
	}, 0)
	var faults tenant.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Put of a faulty tenant: %v, want Faults", err)
	}
	var paths []string
	for _, f := range faults {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	want := []string{"name", "separator", "upstreams[0].alias", "upstreams[0].url", "upstreams[1].process"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if names, err := r.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("names %q, %v after a refused Put", names, err)
	}
}

// testPutCopies changes what was written afterwards.
func testPutCopies(t *testing.T, open openRegistry) {
	r, _ := open(t)
	one := named("acme", 1)
	one.Separator, one.Upstreams[0].Prefix = "", ""
	revision := put(t, r, one, 0)
	one.Upstreams[0].Alias = "x"
	one.Upstreams[0].Tags[0] = "x"
	if diff := cmp.Diff(stored(t, named("acme", 1), revision), get(t, r, "acme")); diff != "" {
		t.Errorf("what is stored changed with what was written (-want +got):\n%s", diff)
	}
}

func testOneWins(t *testing.T, open openRegistry) {
	a, b := open(t)
	expect := uint64(0)
	for round := range 5 {
		var won atomic.Int32
		var revision atomic.Uint64
		var writers sync.WaitGroup
		for i := range 8 {
			r := []tenant.Registry{a, b}[i%2]
			writers.Go(func() {
				switch next, err := r.Put(context.Background(), named("acme", i+1), expect); {
				case err == nil:
					won.Add(1)
					revision.Store(next)
				case !errors.Is(err, tenant.ErrConflict):
					t.Errorf("Put: %v", err)
				}
			})
		}
		writers.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d writers have won, want 1", round, n)
		}
		expect = revision.Load()
	}
}

// testNoneLost has several writers count in one tenant, each by what it reads.
func testNoneLost(t *testing.T, open openRegistry) {
	a, b := open(t)
	put(t, a, named("acme", 1), 0)
	start := get(t, a, "acme").PageSize
	const writers, each = 4, 5
	deadline := time.Now().Add(patience)
	var group sync.WaitGroup
	for i := range writers {
		r := []tenant.Registry{a, b}[i%2]
		group.Go(func() {
			for n := 0; n < each && time.Now().Before(deadline); {
				old, err := r.Tenant(context.Background(), "acme")
				if errors.Is(err, tenant.ErrNotFound) {
					continue // this one has not heard of it yet
				} else if err != nil {
					t.Errorf("Tenant: %v", err)
					return
				}
				next := *old
				next.PageSize++
				if _, err = r.Put(context.Background(), &next, old.Revision); err == nil {
					n++
				} else if !errors.Is(err, tenant.ErrConflict) {
					t.Errorf("Put: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	await(t, "all updates", func() bool {
		return get(t, a, "acme").PageSize == start+writers*each && get(t, b, "acme").PageSize == start+writers*each
	})
}

// await waits until is tells true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func testDelete(t *testing.T, open openRegistry) {
	r, _ := open(t)
	first := put(t, r, named("acme", 1), 0)
	mustBe(t, "Delete of another revision", r.Delete(t.Context(), "acme", first+1), tenant.ErrConflict)
	get(t, r, "acme")
	mustBe(t, "Delete of nobody", r.Delete(t.Context(), "nobody", tenant.Any), tenant.ErrNotFound)
	mustBe(t, "Delete", r.Delete(t.Context(), "acme", first), nil)
	mustLack(t, r, "acme")
	mustBe(t, "second Delete", r.Delete(t.Context(), "acme", first), tenant.ErrNotFound)
	_, err := r.Put(t.Context(), named("acme", 1), first)
	mustBe(t, "Put of a tenant that was deleted", err, tenant.ErrConflict)
	if again := put(t, r, named("acme", 1), 0); again <= first {
		t.Errorf("revision %d of a tenant that came back, after %d", again, first)
	}
	mustBe(t, "Delete of any revision", r.Delete(t.Context(), "acme", tenant.Any), nil)
	mustLack(t, r, "acme")
}

// testMany holds that a registry of many tenants is no burden: a name and a tenant
// come without a look at all others.
func testMany(t *testing.T, open openRegistry) {
	a, b := open(t)
	const count = 10_000
	s := &tenant.Snapshot{}
	for i := range count {
		s.Tenants = append(s.Tenants, named(fmt.Sprintf("t%05d", i), 1+i))
	}
	if _, err := a.Import(t.Context(), s, tenant.Any); err != nil {
		t.Fatal(err)
	}
	await(t, "all tenants", func() bool {
		names, err := b.Names(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(names) == count
	})
	var one *tenant.Tenant
	work := testing.AllocsPerRun(3, func() { one = get(t, b, "t04321") })
	if diff := cmp.Diff(stored(t, named("t04321", 4322), one.Revision), one); diff != "" {
		t.Errorf("one of many (-want +got):\n%s", diff)
	}
	if work > count {
		t.Errorf("one tenant of %d takes %.0f allocations: others are read for it", count, work)
	}
}
