package tenanttest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// export gives the whole content of a registry.
func export(t *testing.T, r tenant.Registry) *tenant.Snapshot {
	t.Helper()
	s, err := r.Export(t.Context())
	if err != nil {
		t.Fatalf("Export: %v", err)
	}
	return s
}

// text gives a snapshot as JSON, without revisions.
func text(t *testing.T, s *tenant.Snapshot) string {
	t.Helper()
	plain := &tenant.Snapshot{Keys: s.Keys}
	for _, one := range s.Tenants {
		one = new(*one)
		one.Revision = 0
		plain.Tenants = append(plain.Tenants, one)
	}
	raw, err := tenant.EncodeSnapshot(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// fill registers two tenants with keys.
func fill(t *testing.T, r tenant.Registry) {
	t.Helper()
	put(t, r, named("zoo", 1), 0)
	put(t, r, named("acme", 1), 0)
	putKeys(t, r, key("zoo", "k2", "s"), key("zoo", "k1", "s"), key("acme", "k", "s"))
}

// testExport takes the content to another registry and back.
func testExport(t *testing.T, open openRegistry) {
	r, b := open(t)
	if s := export(t, r); len(s.Tenants) != 0 || len(s.Keys) != 0 {
		t.Errorf("an empty registry exports %+v", s)
	}
	fill(t, r)
	s := export(t, r)
	raw, err := tenant.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := tenant.DecodeSnapshot(raw)
	if err != nil {
		t.Fatalf("DecodeSnapshot of what was exported: %v", err)
	}
	if diff := cmp.Diff(s, read); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}

	other, _ := open(t)
	if _, err := other.Import(t.Context(), read, tenant.Any); err != nil {
		t.Fatalf("Import: %v", err)
	}
	if diff := cmp.Diff(text(t, s), text(t, export(t, other))); diff != "" {
		t.Errorf("after export and import (-want +got):\n%s", diff)
	}
	await(t, "the same content elsewhere", func() bool { return text(t, export(t, b)) == text(t, s) })
}

func testImport(t *testing.T, open openRegistry) {
	r, _ := open(t)
	fill(t, r)
	put(t, r, named("gone", 1), 0)
	before := export(t, r)
	acme, zoo := get(t, r, "acme").Revision, get(t, r, "zoo").Revision

	next := &tenant.Snapshot{
		Revision: 1, // does not count
		Tenants:  []*tenant.Tenant{named("zoo", 2), named("new", 1), named("acme", 1)},
		Keys:     []tenant.APIKey{key("zoo", "k3", "s"), key("acme", "k", "s")},
	}
	_, err := r.Import(t.Context(), next, before.Revision+1)
	mustBe(t, "Import over another revision", err, tenant.ErrConflict)
	if diff := cmp.Diff(before, export(t, r)); diff != "" {
		t.Errorf("after a conflict (-want +got):\n%s", diff)
	}

	revision, err := r.Import(t.Context(), next, before.Revision)
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	if s := export(t, r); revision <= before.Revision || s.Revision != revision {
		t.Errorf("Import gave revision %d, and the registry has %d; before it had %d", revision, s.Revision, before.Revision)
	}
	if got := get(t, r, "acme").Revision; got != acme {
		t.Errorf("the revision of an unchanged tenant went from %d to %d", acme, got)
	}
	for _, name := range []string{"zoo", "new"} {
		if got := get(t, r, name).Revision; got <= zoo || got > revision {
			t.Errorf("the revision of %s is %d, want more than %d and at most %d", name, got, zoo, revision)
		}
	}
	mustLack(t, r, "gone")
	mustHaveKeys(t, r, "zoo", key("zoo", "k3", "s"))
	mustHaveKeys(t, r, "acme", key("acme", "k", "s"))

	if again, err := r.Import(t.Context(), export(t, r), revision); err != nil || again <= revision {
		t.Errorf("a second Import gave %d, %v, want more than %d", again, err, revision)
	}
	if next := put(t, r, named("late", 1), 0); next <= revision {
		t.Errorf("revision %d after an Import that gave %d", next, revision)
	}
}

func testImportWhole(t *testing.T, open openRegistry) {
	r, _ := open(t)
	fill(t, r)
	before := export(t, r)
	_, err := r.Import(t.Context(), &tenant.Snapshot{
		Tenants: []*tenant.Tenant{named("fine", 1), named("Bad", 1), named("fine", 2)},
		Keys:    []tenant.APIKey{key("nobody", "k", "s")},
	}, tenant.Any)
	var faults tenant.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("Import of a faulty snapshot: %v, want Faults", err)
	}
	want := tenant.Faults{
		{Path: "tenants[1].name", Message: `"Bad" must match ^[a-z0-9][a-z0-9-]{0,62}$`},
		{Path: "tenants[2].name", Message: `"fine" is the name of tenants[0] too`},
		{Path: "keys[0].tenant", Message: `"nobody" is not a tenant of this snapshot`},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, export(t, r)); diff != "" {
		t.Errorf("a refused Import has changed something (-want +got):\n%s", diff)
	}
}
