package tenant_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/tenanttest"
)

// importer gives what makes tenants the whole content of a registry.
func importer(t *testing.T, r tenant.Registry) func(tenants []*tenant.Tenant) {
	return func(tenants []*tenant.Tenant) {
		if _, err := r.Import(context.Background(), &tenant.Snapshot{Tenants: tenants}, tenant.Any); err != nil {
			t.Errorf("Import: %v", err)
		}
	}
}

func TestLayered(t *testing.T) {
	t.Run("File", func(t *testing.T) {
		tenanttest.TestStore(t, func(t *testing.T, initial []*tenant.Tenant) tenanttest.Backend {
			m := tenant.NewMemory(initial)
			l := tenant.Layered(m, tenant.NewMemoryRegistry())
			t.Cleanup(l.Close)
			return tenanttest.Backend{Store: l, Replace: m.Replace}
		})
	})
	t.Run("Registry", func(t *testing.T) {
		tenanttest.TestStore(t, func(t *testing.T, initial []*tenant.Tenant) tenanttest.Backend {
			r := tenant.NewMemoryRegistry()
			replace := importer(t, r)
			replace(initial)
			l := tenant.Layered(tenant.NewMemory(nil), r)
			t.Cleanup(l.Close)
			return tenanttest.Backend{Store: l, Replace: replace, Stored: tenant.Stored}
		})
	})
	t.Run("Both", func(t *testing.T) {
		tenanttest.TestStore(t, func(t *testing.T, initial []*tenant.Tenant) tenanttest.Backend {
			m, r := tenant.NewMemory(nil), tenant.NewMemoryRegistry()
			replace := func(tenants []*tenant.Tenant) {
				// Tenants whose names are early in the alphabet are the file's.
				var early, late []*tenant.Tenant
				for _, one := range tenants {
					if one.Name < "d" {
						early = append(early, one)
					} else {
						late = append(late, one)
					}
				}
				m.Replace(early)
				importer(t, r)(late)
			}
			replace(initial)
			l := tenant.Layered(m, r)
			t.Cleanup(l.Close)
			stored := func(one *tenant.Tenant) (*tenant.Tenant, error) {
				if one.Name < "d" {
					return one, nil
				}
				return tenant.Stored(one)
			}
			return tenanttest.Backend{Store: l, Replace: replace, Stored: stored}
		})
	})
}

// reached gives a tenant whose upstreams have those aliases.
func reached(name, managedBy string, aliases ...string) *tenant.Tenant {
	one := &tenant.Tenant{Name: name, Separator: "_", ManagedBy: managedBy}
	for _, alias := range aliases {
		one.Upstreams = append(one.Upstreams, tenant.Upstream{
			Alias: alias, URL: "http://" + managedBy + ".example/mcp", Prefix: tenant.PrefixAlias, ManagedBy: managedBy,
		})
	}
	return one
}

// urls gives aliases and URLs of a tenant's upstreams.
func urls(one *tenant.Tenant) (list []string) {
	for _, u := range one.Upstreams {
		list = append(list, u.Alias+" "+u.URL+" "+u.ManagedBy)
	}
	return list
}

func TestLayeredMerges(t *testing.T) {
	file := tenant.NewMemory([]*tenant.Tenant{reached("acme", "file", "b", "a"), reached("filed", "file")})
	store := tenant.NewMemoryRegistry()
	importer(t, store)([]*tenant.Tenant{reached("acme", "store", "c", "a", "d"), reached("stored", "store", "x")})
	var log bytes.Buffer
	l := tenant.Layered(file, store)
	defer l.Close()
	l.Logger = slog.New(slog.NewTextHandler(&log, nil))

	names, err := l.Names(t.Context())
	if diff := cmp.Diff([]string{"acme", "filed", "stored"}, names); err != nil || diff != "" {
		t.Errorf("Names: %v (-want +got):\n%s", err, diff)
	}
	for range 2 {
		got, err := l.Tenant(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"b http://file.example/mcp file", "a http://file.example/mcp file",
			"c http://store.example/mcp store", "d http://store.example/mcp store",
		}
		if diff := cmp.Diff(want, urls(got)); diff != "" {
			t.Errorf("upstreams (-want +got):\n%s", diff)
		}
		if got.ManagedBy != "file" {
			t.Errorf("managed by %q, want file", got.ManagedBy)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "tenant=acme upstream=a") {
		t.Errorf("the clash of one alias was logged %d times:\n%s", n, &log)
	}
	if one, err := file.Tenant(t.Context(), "acme"); err != nil || len(one.Upstreams) != 2 {
		t.Errorf("the file's own tenant has changed: %v, %v", one, err)
	}
}

// TestLayeredRevisions takes a tenant through both layers: each change is told and
// gives it a higher revision.
func TestLayeredRevisions(t *testing.T) {
	file, store := tenant.NewMemory(nil), tenant.NewMemoryRegistry()
	for range 10 { // the store's revisions are ahead of the file's
		importer(t, store)(nil)
	}
	l := tenant.Layered(file, store)
	defer l.Close()
	var told []string
	defer l.Watch(t.Context(), func(name string) { told = append(told, name) })()
	steps := []struct {
		name string
		do   func()
		want []string // aliases; none when it is gone
	}{
		{"registered", func() { importer(t, store)([]*tenant.Tenant{reached("acme", "store", "s")}) }, []string{"s"}},
		{"in the file too", func() { file.Replace([]*tenant.Tenant{reached("acme", "file", "f")}) }, []string{"f", "s"}},
		{"changed in the store", func() { importer(t, store)([]*tenant.Tenant{reached("acme", "store", "s", "t")}) }, []string{"f", "s", "t"}},
		{"changed in the file", func() { file.Replace([]*tenant.Tenant{reached("acme", "file", "g")}) }, []string{"g", "s", "t"}},
		{"gone from the store", func() { importer(t, store)(nil) }, []string{"g"}},
		{"gone from the file", func() { file.Replace(nil) }, nil},
		{"in the file again", func() { file.Replace([]*tenant.Tenant{reached("acme", "file", "g")}) }, []string{"g"}},
	}
	last := uint64(0)
	for _, step := range steps {
		told = nil
		step.do()
		if diff := cmp.Diff([]string{"acme"}, told); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.name, diff)
		}
		got, err := l.Tenant(t.Context(), "acme")
		if step.want == nil {
			if !errors.Is(err, tenant.ErrNotFound) {
				t.Errorf("%s: %v, %v, want ErrNotFound", step.name, got, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var aliases []string
		for _, u := range got.Upstreams {
			aliases = append(aliases, u.Alias)
		}
		if diff := cmp.Diff(step.want, aliases); diff != "" {
			t.Errorf("%s: aliases (-want +got):\n%s", step.name, diff)
		}
		if got.Revision <= last {
			t.Errorf("%s: revision %d after %d", step.name, got.Revision, last)
		}
		last = got.Revision
		if again, err := l.Tenant(t.Context(), "acme"); err != nil || again.Revision != last {
			t.Errorf("%s: asked again, the revision is another one: %v, %v", step.name, again, err)
		}
	}
}
