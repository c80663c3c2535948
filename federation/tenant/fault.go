package tenant

import (
	"fmt"
	"strings"
)

// Fault is one thing that is wrong with a registration.
type Fault struct {
	Path    string // such as upstreams[0].alias; empty for the whole
	Message string
}

// String gives path and message in one line.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// Faults is the error of a faulty registration: all that is wrong with it.
type Faults []Fault

// Error gives one fault in each line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// err gives the faults as an error, or nil when there are none.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

func (f *Faults) add(path, format string, args ...any) {
	*f = append(*f, Fault{path, fmt.Sprintf(format, args...)})
}

// below adds others, which are about what is at path.
func (f *Faults) below(path string, others Faults) {
	for _, o := range others {
		if o.Path == "" {
			o.Path = path
		} else {
			o.Path = path + "." + o.Path
		}
		*f = append(*f, o)
	}
}

// unrelated gives those of others that are not at, above or below a path that f
// is about already: they are only consequences.
func (f Faults) unrelated(others Faults) Faults {
	var left Faults
	for _, o := range others {
		related := false
		for i := range f {
			related = related || contains(f[i].Path, o.Path) || contains(o.Path, f[i].Path)
		}
		if !related {
			left = append(left, o)
		}
	}
	return left
}

// contains tells whether the value at path inner is the one at outer, or in it.
func contains(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}
