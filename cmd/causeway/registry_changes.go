package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// writeChanges prints how one content of a registry differs from the one before, a
// line each, and then how many tenants and keys there are.
func writeChanges(w io.Writer, before, after *tenant.Snapshot) {
	old, now := registered(before), registered(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := old[name], now[name]
		switch {
		case was == nil:
			fmt.Fprintf(w, "added %s\n", name)
		case is == nil:
			fmt.Fprintf(w, "removed %s\n", name)
		case !reflect.DeepEqual(was, is):
			fmt.Fprintf(w, "changed %s\n", name)
		default:
			continue
		}
	}
	fmt.Fprintf(w, "revision %d: %s and %s\n", after.Revision, plural(len(after.Tenants), "tenant"), plural(len(after.Keys), "key"))
}

// registered gives tenants and keys by what they are called, without revisions.
func registered(s *tenant.Snapshot) map[string]any {
	all := make(map[string]any, len(s.Tenants)+len(s.Keys))
	for _, t := range s.Tenants {
		one := *t
		one.Revision = 0
		all["tenant "+t.Name] = one
	}
	for _, k := range s.Keys {
		all["key "+k.Tenant+"/"+k.ID] = k
	}
	return all
}
