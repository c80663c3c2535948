package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// duplicateKey begins the message of a key that is there twice.
const duplicateKey = "duplicate key"

// decoder turns the tree into a Config. It checks types; Config.validate checks
// what the values mean.
type decoder struct{ faults Faults }

func (d *decoder) fault(n *node, path, format string, args ...any) {
	d.faults = append(d.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...), Line: n.line, Source: n.source})
}

// is tells whether the node has that kind, and reports when it has not. text is
// what the fault asks for.
func (d *decoder) is(n *node, path string, k kind, text string) bool {
	if n.kind == k {
		return true
	}
	d.fault(n, path, "must be %s, not %s", text, n.kind)
	return false
}

// fields says for each key of a mapping what to do with its value.
type fields map[string]func(n *node, path string)

// object reads a mapping. A key without a value (null) counts as absent.
func (d *decoder) object(n *node, path string, known fields) {
	d.entries(n, path, func(e entry, at string) {
		read, ok := known[e.key]
		where := &node{line: e.line, source: e.value.source}
		switch {
		case !ok && isLater(at):
			d.fault(where, at, "not supported by this version")
		case !ok:
			d.fault(where, at, "unknown key%s", similarKey(e.key, known))
		case e.value.kind != kindNull:
			read(e.value, at)
		}
	})
}

// each reads a mapping whose keys are names of the user's own.
func (d *decoder) each(n *node, path string, read func(key string, n *node, path string)) {
	d.entries(n, path, func(e entry, at string) { read(e.key, e.value, at) })
}

// entries calls read for each entry of a mapping, but for keys that are there
// already.
func (d *decoder) entries(n *node, path string, read func(e entry, path string)) {
	if !d.is(n, path, kindMap, "a mapping") {
		return
	}
	first := make(map[string]int, len(n.entries))
	for _, e := range n.entries {
		at := join(path, e.key)
		if line, double := first[e.key]; double {
			d.fault(&node{line: e.line, source: e.value.source}, at, "%s; the first is on line %d", duplicateKey, line)
			continue
		}
		first[e.key] = e.line
		read(e, at)
	}
}

// similarKey names the known key that was meant where only letter case, underscores or
// hyphens differ, or one slip of the hand.
func similarKey(key string, known fields) string {
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, oneSlip} {
		for _, k := range slices.Sorted(maps.Keys(known)) {
			if same(plain(k), plain(key)) {
				return fmt.Sprintf("; did you mean %q?", k)
			}
		}
	}
	return ""
}

// oneSlip tells whether two words of some length differ by one character that is
// missing, added or wrong, or by two neighbours that have changed places.
func oneSlip(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 3 || len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:] // they differ at once, or a has ended
	if len(a) < len(b) {
		return a == b[1:]
	}
	return len(a) == 0 || a[1:] == b[1:] || len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}

// join extends a path by a key; one that is no word is quoted.
func join(path, key string) string {
	word := key != ""
	for _, r := range key {
		word = word && (r == '_' || r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z')
	}
	if !word {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// list calls read for each item of a list. Text from the environment is split
// at commas.
func (d *decoder) list(n *node, path string, read func(n *node, path string)) {
	if n.loose {
		for i, s := range strings.Split(n.text, ",") {
			item := *n
			item.text = strings.TrimSpace(s)
			read(&item, fmt.Sprintf("%s[%d]", path, i))
		}
		return
	}
	if !d.is(n, path, kindList, "a list") {
		return
	}
	for i, item := range n.items {
		read(item, fmt.Sprintf("%s[%d]", path, i))
	}
}

// str reads a string into to.
func (d *decoder) str(to *string) func(n *node, path string) {
	return func(n *node, path string) {
		text := "a string"
		if n.kind == kindInt || n.kind == kindFloat || n.kind == kindBool {
			text = "a string in quotes"
		}
		if d.is(n, path, kindString, text) {
			*to = n.text
		}
	}
}

// strs reads a list of strings into to.
func (d *decoder) strs(to *[]string) func(n *node, path string) {
	return func(n *node, path string) {
		d.list(n, path, func(n *node, path string) {
			// A faulty item keeps its place, so that paths stay right.
			var s string
			d.str(&s)(n, path)
			*to = append(*to, s)
		})
	}
}

// boolean reads true or false into to.
func (d *decoder) boolean(to *bool) func(n *node, path string) {
	return func(n *node, path string) {
		if n.loose {
			b, err := strconv.ParseBool(n.text)
			if err != nil {
				d.fault(n, path, "%q must be true or false", n.text)
			}
			*to = b
			return
		}
		if d.is(n, path, kindBool, "true or false") {
			*to = n.text == "true"
		}
	}
}

// count reads an integer above 0 into to.
func (d *decoder) count(to *int) func(n *node, path string) {
	return func(n *node, path string) {
		if !d.is(n, path, kindInt, "an integer") {
			return
		}
		v, err := strconv.ParseInt(n.text, 10, 64)
		if err != nil || v < 1 || v > math.MaxInt32 {
			d.fault(n, path, "%s must be between 1 and %d", n.text, math.MaxInt32)
			return
		}
		*to = int(v)
	}
}

// duration reads a duration above 0, such as 2s or 1m30s, into to.
func (d *decoder) duration(to *time.Duration) func(n *node, path string) {
	return func(n *node, path string) {
		if v, ok := d.span(n, path); ok && v == 0 {
			d.fault(n, path, "must be more than 0")
		} else if ok {
			*to = v
		}
	}
}

// optional reads a duration that may be 0 into a new *to.
func (d *decoder) optional(to **time.Duration) func(n *node, path string) {
	return func(n *node, path string) {
		if v, ok := d.span(n, path); ok {
			*to = &v
		}
	}
}

func (d *decoder) span(n *node, path string) (time.Duration, bool) {
	if !d.is(n, path, kindString, "a duration such as 2s") {
		return 0, false
	}
	v, err := time.ParseDuration(n.text)
	switch {
	case err != nil:
		d.fault(n, path, "%q must be a duration such as 2s or 1m30s", n.text)
	case v < 0:
		d.fault(n, path, "%s must not be negative", n.text)
	default:
		return v, true
	}
	return 0, false
}

// size reads a number of bytes above 0, such as 4MiB, into to.
func (d *decoder) size(to *int64) func(n *node, path string) {
	return func(n *node, path string) {
		if n.kind != kindInt && !d.is(n, path, kindString, "a size such as 4MiB") {
			return
		}
		v, ok := parseSize(n.text)
		switch {
		case !ok:
			d.fault(n, path, "%q must be a size such as 512KiB or 4MiB", n.text)
		case v == 0:
			d.fault(n, path, "must be more than 0")
		default:
			*to = v
		}
	}
}

// smallSize is size for what is an int elsewhere.
func (d *decoder) smallSize(to *int) func(n *node, path string) {
	return func(n *node, path string) {
		var v int64
		d.size(&v)(n, path)
		if v > math.MaxInt32 {
			d.fault(n, path, "%s must be less than 2GiB", n.text)
			return
		}
		*to = int(v)
	}
}

// parseSize reads a whole number of bytes with an optional unit: B, KB, MB and
// GB are powers of 1,000, KiB, MiB and GiB of 1,024.
func parseSize(s string) (int64, bool) {
	digits := strings.TrimLeft(s, "0123456789")
	unit, ok := map[string]int64{
		"": 1, "B": 1,
		"KB": 1e3, "MB": 1e6, "GB": 1e9,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	}[strings.TrimSpace(digits)]
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(s[:len(s)-len(digits)], 10, 64)
	if err != nil || v > math.MaxInt64/unit {
		return 0, false
	}
	return v * unit, true
}
