package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Bounds of what is read as YAML.
const (
	maxDepth   = 32      // nesting; the deepest key of a configuration has 8
	maxAliased = 100_000 // values that aliases (*name) stand for, together
)

// kind is the type of a YAML value.
type kind uint8

const (
	kindNull kind = iota
	kindMap
	kindList
	kindString
	kindInt
	kindFloat
	kindBool
)

// String gives the kind as it is named in faults.
func (k kind) String() string {
	return [...]string{"null", "a mapping", "a list", "a string", "an integer", "a float", "a boolean"}[k]
}

// node is one YAML value with its place.
type node struct {
	kind    kind
	text    string // of a scalar, decoded
	entries []entry
	items   []*node
	line    int
	source  string // see Fault
	// loose is set for text from the environment and the command line, which
	// stands for any scalar, and for a list when commas separate it.
	loose bool
}

// entry is one member of a mapping. Keys may be double.
type entry struct {
	key   string
	line  int
	value *node
}

// lookup gives the first value of a mapping's key, or nil.
func (n *node) lookup(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// find walks along a path such as tenants[1].name and gives the last node that
// is there.
func (n *node) find(path string) *node {
	for path != "" {
		var step string
		step, path = cutStep(path)
		var next *node
		if i, err := strconv.Atoi(step); err == nil && n.kind == kindList {
			if i < len(n.items) {
				next = n.items[i]
			}
		} else {
			next = n.lookup(step)
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// cutStep splits off the first step of a path that join made: a key, which may be
// quoted, or an index.
func cutStep(path string) (step, rest string) {
	path = strings.TrimPrefix(path, ".")
	index, bracket := strings.CutPrefix(path, "[")
	if !bracket {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		return path[:end], path[end:]
	}
	if quoted, err := strconv.QuotedPrefix(index); err == nil {
		step, _ = strconv.Unquote(quoted)
		return step, strings.TrimPrefix(index[len(quoted):], "]")
	}
	step, rest, _ = strings.Cut(index, "]")
	return step, rest
}

// set puts value at a path of keys, and makes the mappings that lead there where
// they are missing. Where another type is in the way nothing is set: reading it
// will say so.
func (n *node) set(path string, value *node) {
	key, rest, deeper := strings.Cut(path, ".")
	if n.kind != kindMap {
		return
	}
	i := slices.IndexFunc(n.entries, func(e entry) bool { return e.key == key })
	if i < 0 {
		i = len(n.entries)
		n.entries = append(n.entries, entry{key: key, value: &node{}})
	}
	if !deeper {
		n.entries[i].value = value
		return
	}
	if n.entries[i].value.kind == kindNull {
		n.entries[i].value = &node{kind: kindMap, line: n.entries[i].line}
	}
	n.entries[i].value.set(rest, value)
}

// parseTree reads one YAML document. An empty one is an empty mapping.
func parseTree(data []byte) (*node, Faults) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, Faults{syntaxFault(err)}
	}
	c := &converter{anchors: make(map[string]ast.Node)}
	root := &node{kind: kindMap, line: 1}
	found := false
	for _, doc := range file.Docs {
		if _, isDirective := doc.Body.(*ast.DirectiveNode); doc.Body == nil || isDirective {
			continue
		}
		if found {
			c.fault(lineOf(doc.Body), "one document only; here a second one begins")
			break
		}
		found = true
		root = c.convert(doc.Body, 0)
	}
	if root.kind == kindNull {
		root.kind = kindMap
	}
	if root.kind != kindMap {
		c.fault(root.line, "must be a mapping of keys, not "+root.kind.String())
	}
	return root, c.faults
}

// syntaxFault turns the parser's error into a fault without the excerpt, which
// might show a secret.
func syntaxFault(err error) Fault {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return Fault{Message: "not YAML"}
	}
	f := Fault{Message: "not YAML: " + syntax.GetMessage()}
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		f.Line = t.Position.Line
	}
	return f
}

// converter makes our tree from the parser's, with aliases followed.
type converter struct {
	anchors map[string]ast.Node
	open    []string // anchors that are being followed
	aliased int      // values made while following one
	faults  Faults
}

func (c *converter) fault(line int, message string) {
	c.faults = append(c.faults, Fault{Message: message, Line: line})
}

func (c *converter) convert(n ast.Node, depth int) *node {
	out := &node{line: lineOf(n)}
	if len(c.open) > 0 {
		c.aliased++
	}
	switch {
	case depth > maxDepth:
		c.fault(out.line, fmt.Sprintf("nested deeper than %d levels", maxDepth))
		return out
	case c.aliased == maxAliased:
		c.fault(out.line, fmt.Sprintf("aliases stand for more than %d values", maxAliased))
		return out
	case c.aliased > maxAliased:
		return out
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		c.convertMapping(out, n, depth)
	case *ast.SequenceNode:
		out.kind = kindList
		for _, v := range n.Values {
			out.items = append(out.items, c.convert(v, depth+1))
		}
	case *ast.AnchorNode:
		c.anchors[nameOf(n.Name)] = n.Value
		return c.convert(n.Value, depth)
	case *ast.AliasNode:
		return c.follow(nameOf(n.Value), out, depth)
	case *ast.StringNode:
		out.kind, out.text = kindString, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindString, n.Value.Value
	case *ast.IntegerNode:
		out.kind, out.text = kindInt, fmt.Sprint(n.Value)
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind = kindFloat
	case *ast.BoolNode:
		out.kind, out.text = kindBool, strconv.FormatBool(n.Value)
	case *ast.NullNode, nil:
	case *ast.TagNode:
		c.fault(out.line, fmt.Sprintf("the tag %q is not supported", n.Start.Value))
	default:
		c.fault(out.line, "this YAML construct is not supported")
	}
	return out
}

// convertMapping adds the mapping's keys to out. `<<` then adds what its value
// has and the mapping itself has not (yaml.org/type/merge).
func (c *converter) convertMapping(out *node, n *ast.MappingNode, depth int) {
	out.kind = kindMap
	var merged []*node
	own := make(map[string]bool, len(n.Values))
	for _, v := range n.Values {
		if v.Key.IsMergeKey() {
			m := c.convert(v.Value, depth+1)
			if m.kind == kindMap {
				merged = append(merged, m)
			} else {
				merged = append(merged, m.items...)
			}
			continue
		}
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			c.fault(lineOf(v.Key), "keys must be plain words")
			continue
		}
		name := fmt.Sprint(key.GetValue())
		own[name] = true
		out.entries = append(out.entries, entry{name, lineOf(v.Key), c.convert(v.Value, depth+1)})
	}
	for _, m := range merged {
		for _, e := range m.entries {
			if !own[e.key] {
				own[e.key] = true
				out.entries = append(out.entries, e)
			}
		}
	}
}

func (c *converter) follow(name string, out *node, depth int) *node {
	target, ok := c.anchors[name]
	if !ok {
		c.fault(out.line, fmt.Sprintf("there is no anchor %q before this alias", name))
		return out
	}
	for _, o := range c.open {
		if o == name {
			c.fault(out.line, fmt.Sprintf("the alias %q stands for itself", name))
			return out
		}
	}
	c.open = append(c.open, name)
	out = c.convert(target, depth)
	c.open = c.open[:len(c.open)-1]
	return out
}

func nameOf(n ast.Node) string {
	if n == nil {
		return ""
	}
	return n.GetToken().Value
}

func lineOf(n ast.Node) int {
	if n == nil {
		return 0
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		// The token of a block mapping is its first colon.
		return lineOf(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}
