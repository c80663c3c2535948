package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration. It never holds the
// value of a secret.
type Fault struct {
	Path    string // such as tenants[1].upstreams[0].alias; empty for the file as a whole
	Message string
	Line    int    // in the file, from 1; 0 when the value did not come from there
	Source  string // where the value came from instead, such as "environment CAUSEWAY_LISTEN"
}

// String gives path, message and place in one line.
func (f Fault) String() string {
	s := f.Message
	if f.Path != "" {
		s = f.Path + ": " + s
	}
	switch {
	case f.Source != "":
		return fmt.Sprintf("%s (%s)", s, f.Source)
	case f.Line > 0:
		return fmt.Sprintf("%s (line %d)", s, f.Line)
	}
	return s
}

// Faults is the error of a faulty configuration: all that is wrong with it, in
// the order of the file.
type Faults []Fault

// Error gives one fault in each line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// sorted orders by line.
func (f Faults) sorted() Faults {
	slices.SortStableFunc(f, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return f
}

// related tells for a path whether it has a fault itself, above it or below it.
func (f Faults) related() func(path string) bool {
	exact, above := make(map[string]bool), make(map[string]bool)
	for i := range f {
		exact[f[i].Path] = true
		for p := parent(f[i].Path); p != ""; p = parent(p) {
			above[p] = true
		}
	}
	return func(path string) bool {
		if above[path] {
			return true
		}
		for ; path != ""; path = parent(path) {
			if exact[path] {
				return true
			}
		}
		return false
	}
}

// parent gives the path of what holds the value at path; empty at the top.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
