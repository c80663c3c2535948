package redis

import (
	"fmt"
	"strings"

	"github.com/causeway-mcp/causeway/cache"
)

// Kinds of keys. The response cache has some of its own.
const (
	kindFence = "fence"
	kindLease = "lease"
	kindBoard = "board"
	kindRate  = "rate"
	kindShare = "share"
	kindValue = "value"
	kindProbe = "probe"
	kindBus   = "bus" // of channels
)

// key gives the key of something in a scope. It carries the scope as a hash tag,
// so that what belongs to a scope is in one slot of a cluster and one script can
// use it, while a big tenant is spread over many.
func (s *Store) key(sc cache.Scope, kind string, parts ...string) string {
	var b strings.Builder
	b.WriteString(s.opts.Prefix)
	b.WriteString(":{")
	b.WriteString(escape(sc.Tenant))
	b.WriteByte('/')
	b.WriteString(escape(sc.Upstream))
	b.WriteString("}:")
	b.WriteString(kind)
	for _, p := range parts {
		b.WriteByte(':')
		b.WriteString(escape(p))
	}
	return b.String()
}

// loneKey gives the key of something that has no scope.
func (s *Store) loneKey(kind, name string) string {
	return s.opts.Prefix + ":" + kind + ":{" + escape(name) + "}"
}

// channel gives the name that a channel of the bus has in Redis, for scripts that
// publish.
func (s *Store) channel(name string) string { return s.opts.Prefix + ":" + kindBus + ":" + name }

// escape takes from a name what has a meaning in keys.
func escape(name string) string {
	if !strings.ContainsAny(name, "%{}:/") {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; c {
		case '%', '{', '}', ':', '/':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
