package tenanttest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// follow gives the names that a registry tells from now on.
func follow(t *testing.T, r tenant.Registry) <-chan string {
	t.Helper()
	told := make(chan string, 1024)
	t.Cleanup(r.Watch(t.Context(), func(name string) { told <- name }))
	return told
}

// next gives the next name that was told.
func next(t *testing.T, told <-chan string) string {
	t.Helper()
	select {
	case name := <-told:
		return name
	case <-time.After(patience):
		t.Fatalf("nothing was told within %s", patience)
		return ""
	}
}

// mustTell fails unless exactly those changes are told, in that order. Another
// change, of a tenant that is new each time, shows that no more come.
func mustTell(t *testing.T, r tenant.Registry, told []<-chan string, want ...string) {
	t.Helper()
	const marks = "mark-"
	mark := marks + strings.ToLower(rand.Text())
	put(t, r, named(mark, 1), 0)
	for i := range told {
		var got []string
		for name := next(t, told[i]); name != mark; name = next(t, told[i]) {
			if !strings.HasPrefix(name, marks) {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("registry %d told (-want +got):\n%s", i, diff)
		}
	}
}

func testBothTold(t *testing.T, open openRegistry) {
	a, b := open(t)
	told := []<-chan string{follow(t, a), follow(t, b)}
	put(t, a, named("one", 1), 0)
	put(t, b, named("two", 1), 0)
	mustTell(t, a, told, "one", "two")

	first := get(t, a, "one").Revision
	put(t, a, named("one", 2), first)
	mustBe(t, "Delete", a.Delete(t.Context(), "two", tenant.Any), nil)
	mustTell(t, b, told, "one", "two")
	await(t, "the changes elsewhere", func() bool {
		one, err := b.Tenant(t.Context(), "one")
		_, gone := b.Tenant(t.Context(), "two")
		return err == nil && one.Upstreams[0].URL == named("one", 2).Upstreams[0].URL && errors.Is(gone, tenant.ErrNotFound)
	})

	// What is refused is not told.
	_, err := a.Put(t.Context(), named("one", 3), first)
	mustBe(t, "Put over another revision", err, tenant.ErrConflict)
	mustBe(t, "Delete of nobody", a.Delete(t.Context(), "two", tenant.Any), tenant.ErrNotFound)
	mustTell(t, a, told)

	// An import is told of by what it changes.
	s := &tenant.Snapshot{Tenants: []*tenant.Tenant{named("one", 2), named("four", 1), named("three", 1)}}
	if _, err := a.Import(t.Context(), s, tenant.Any); err != nil {
		t.Fatal(err)
	}
	mustTell(t, a, told, "four", "three")
}

func testToldOfKeys(t *testing.T, open openRegistry) {
	a, b := open(t)
	told := []<-chan string{follow(t, a), follow(t, b)}
	put(t, a, named("acme", 1), 0)
	mustTell(t, a, told, "acme")
	putKeys(t, a, key("acme", "k1", "s"))
	mustTell(t, a, told, "acme")
	mustBe(t, "TouchKey", a.TouchKey(t.Context(), "acme", "k1", time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)), nil)
	mustTell(t, a, told)
	mustBe(t, "DeleteKey", a.DeleteKey(t.Context(), "acme", "k1"), nil)
	mustTell(t, a, told, "acme")

	s := export(t, a)
	s.Keys = append(s.Keys, key("acme", "k2", "s"))
	if _, err := a.Import(t.Context(), s, tenant.Any); err != nil {
		t.Fatal(err)
	}
	mustTell(t, a, told, "acme")
}

// testToldSoon holds that changes reach everybody within a second. A machine that
// is busy with something else may be late now and then, so the middle one of
// several counts.
func testToldSoon(t *testing.T, open openRegistry) {
	a, b := open(t)
	told := follow(t, b)
	took := make([]time.Duration, 9)
	for i := range took {
		name := fmt.Sprintf("t%d", i)
		start := time.Now()
		put(t, a, named(name, 1), 0)
		if got := next(t, told); got != name {
			t.Fatalf("%s was told, want %s", got, name)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	if middle := took[len(took)/2]; middle > time.Second {
		t.Errorf("changes are told after %s", middle)
	}
}
