package redis

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// apply makes changes in s, whose maps are its own, and gives the tenants to tell
// of, each once, in the order of the changes. list holds the kind, the name and the
// value of each, which is empty for what is gone.
func (s *state) apply(list []any) []string {
	var names []string
	told, own := map[string]bool{}, map[string]bool{}
	if s.tenants == nil {
		s.tenants = map[string]string{}
	}
	if s.keys == nil {
		s.keys = map[string]map[string]string{}
	}
	for i := 0; i+2 < len(list); i += 3 {
		kind, _ := list[i].(string)
		field, _ := list[i+1].(string)
		value, _ := list[i+2].(string)
		name, id, _ := strings.Cut(field, "/")
		if kind == "t" {
			set(s.tenants, name, value)
		} else {
			if !own[name] {
				own[name] = true
				if s.keys[name] = maps.Clone(s.keys[name]); s.keys[name] == nil {
					s.keys[name] = map[string]string{}
				}
			}
			set(s.keys[name], id, value)
			if len(s.keys[name]) == 0 {
				delete(s.keys, name)
				own[name] = false
			}
		}
		if kind != "q" && !told[name] {
			told[name] = true
			names = append(names, name)
		}
	}
	return names
}

func set(m map[string]string, name, value string) {
	if value == "" {
		delete(m, name)
	} else {
		m[name] = value
	}
}

// differing gives the tenants that n has otherwise than s, where it is not known in
// which order that came about: those that have changed, by their revisions, and then
// those that are gone or whose keys alone differ. That a key was used is no
// difference.
func (s *state) differing(n *state) []string {
	var changed, others []string
	for name, value := range n.tenants {
		switch {
		case s.tenants[name] != value:
			changed = append(changed, name)
		case !maps.EqualFunc(s.keys[name], n.keys[name], sameKey):
			others = append(others, name)
		}
	}
	for name := range s.tenants {
		if _, ok := n.tenants[name]; !ok {
			others = append(others, name)
		}
	}
	revision := func(name string) string {
		rev, _, _ := strings.Cut(n.tenants[name], " ")
		return rev
	}
	slices.SortFunc(changed, func(a, b string) int {
		ra, rb := revision(a), revision(b)
		return cmp.Or(cmp.Compare(len(ra), len(rb)), cmp.Compare(ra, rb), cmp.Compare(a, b))
	})
	slices.Sort(others)
	return append(changed, others...)
}

// sameKey compares stored keys but for their last use.
func sameKey(a, b string) bool {
	_, a, _ = strings.Cut(a, "\n")
	_, b, _ = strings.Cut(b, "\n")
	return a == b
}
