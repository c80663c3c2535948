package tenant

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stored gives a copy of a tenant as registries keep it: with a separator and
// prefixes where none are set, ManagedBy "store", secret headers sorted, each
// upstream's Version its Digest, and Revision 0, which the registry sets. The error is
// Faults. A program is refused, and so are references to secrets and issuers at
// private addresses: who may start programs on this machine, read what it has and
// reach what is beside it is said by its configuration file alone.
func Stored(t *Tenant) (*Tenant, error) {
	stored, faults := storedTenant(t)
	return stored, faults.err()
}

func storedTenant(t *Tenant) (*Tenant, Faults) {
	t = new(*t)
	t.Revision, t.ManagedBy = 0, ManagedByStore
	t.Separator = cmp.Or(t.Separator, "_")
	t.Upstreams = slices.Clone(t.Upstreams)
	for i := range t.Upstreams {
		u := &t.Upstreams[i]
		u.ManagedBy = ManagedByStore
		u.Prefix = cmp.Or(u.Prefix, PrefixAlias)
	}
	if faults := check(t); len(faults) > 0 {
		return nil, faults
	}
	for i := range t.Upstreams {
		u := &t.Upstreams[i]
		u.Auth.Headers = slices.SortedFunc(slices.Values(u.Auth.Headers), func(a, b SecretHeader) int { return strings.Compare(a.Name, b.Name) })
	}
	// What it came from may be changed afterwards, and an empty list is none: so it
	// takes the way that it will take through a store.
	raw, err := EncodeTenant(t)
	if err == nil {
		t, err = DecodeTenant(raw)
	}
	if err != nil {
		return nil, Faults{{Message: err.Error()}}
	}
	for i := range t.Upstreams {
		t.Upstreams[i].Version = t.Upstreams[i].Digest()
	}
	return t, nil
}

// StoredKey gives a copy of a key as registries keep it: its times in UTC, LastUsed
// to the hour. The error is Faults.
func StoredKey(k APIKey) (APIKey, error) {
	stored, faults := storedKey(k)
	return stored, faults.err()
}

func storedKey(k APIKey) (APIKey, Faults) {
	if faults := checkKey(&k); len(faults) > 0 {
		return APIKey{}, faults
	}
	k.LastUsed = k.LastUsed.UTC().Truncate(time.Hour)
	k.Created, k.Expires = k.Created.UTC(), k.Expires.UTC()
	raw, err := EncodeKey(k)
	if err == nil {
		k, err = DecodeKey(raw)
	}
	if err != nil {
		return APIKey{}, Faults{{Message: err.Error()}}
	}
	return k, nil
}

// Stored gives a copy of a snapshot as registries keep it: each tenant as Stored and
// each key as StoredKey give it, sorted, and all revisions 0. The error is Faults:
// all that is wrong with it together.
func (s *Snapshot) Stored() (*Snapshot, error) {
	stored, faults := s.stored()
	if len(faults) > 0 {
		return nil, faults
	}
	stored.sort()
	return stored, nil
}

// sort orders tenants by name, and keys by tenant and id.
func (s *Snapshot) sort() {
	slices.SortFunc(s.Tenants, func(a, b *Tenant) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Keys, func(a, b APIKey) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.ID, b.ID))
	})
}

// stored leaves all in its order. What it gives with faults is of no use.
func (s *Snapshot) stored() (*Snapshot, Faults) {
	var faults Faults
	next := &Snapshot{Tenants: make([]*Tenant, 0, len(s.Tenants)), Keys: make([]APIKey, 0, len(s.Keys))}
	first := make(map[string]int, len(s.Tenants))
	for i, t := range s.Tenants {
		path := fmt.Sprintf("tenants[%d]", i)
		stored, wrong := storedTenant(t)
		faults.below(path, wrong)
		if j, double := first[t.Name]; double && t.Name != "" {
			faults.add(path+".name", "%q is the name of tenants[%d] too", t.Name, j)
		} else {
			first[t.Name] = i
		}
		next.Tenants = append(next.Tenants, stored)
	}
	faults = append(faults, doubleHosts(s.Tenants)...)
	ids := make(map[[2]string]int, len(s.Keys))
	for i, k := range s.Keys {
		path := fmt.Sprintf("keys[%d]", i)
		stored, wrong := storedKey(k)
		faults.below(path, wrong)
		if _, ok := first[k.Tenant]; !ok && k.Tenant != "" {
			faults.add(path+".tenant", "%q is not a tenant of this snapshot", k.Tenant)
		}
		if j, double := ids[[2]string{k.Tenant, k.ID}]; double && k.ID != "" {
			faults.add(path+".id", "%q is the id of keys[%d] too", k.ID, j)
		} else {
			ids[[2]string{k.Tenant, k.ID}] = i
		}
		next.Keys = append(next.Keys, stored)
	}
	return next, faults
}

// doubleHosts reports host names that two tenants have: which one a request is for
// could not be told.
func doubleHosts(tenants []*Tenant) Faults {
	var faults Faults
	first := map[string]int{}
	for i, t := range tenants {
		for k, h := range t.Hosts {
			if j, there := first[h.Name]; !there {
				first[h.Name] = i
			} else if j != i && h.Name != "" {
				faults.add(fmt.Sprintf("tenants[%d].hosts[%d].name", i, k), "%q is a name of tenants[%d] too", h.Name, j)
			}
		}
	}
	return faults
}
