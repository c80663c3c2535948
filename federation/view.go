package federation

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// viewKey names a view: the alias of an endpoint that shows one upstream, or ""
// for the merged one.
type viewKey struct {
	alias string
	kind  kind
}

// view is what one endpoint shows of one kind: the merge of its members'
// segments, sorted by exposed name. It is immutable, and the only table: lists
// are cut from it and calls are routed by it.
type view struct {
	segs    []*segment // that it was made of, one for each member; nil where there is none
	entries []entry    // sorted by exposed name
	index   map[string]int
	list    []byte   // the elements, joined by commas
	digest  [32]byte // equal digests mean that a caller sees no difference
	// complete tells that every member had a segment when the view was made.
	complete bool
	clashes  []rejection // names that an upstream with prefix none could not have
}

// entry is one row of a view.
type entry struct {
	exposed    string
	member     *member
	item       *item
	start, end int // of the element in view.list
}

// view merges what is known now, without waiting. Views are kept until a segment
// behind them changes.
func (d *roster) view(alias string, k kind) *view {
	members := d.at(alias)
	segs := make([]*segment, len(members))
	for i, m := range members {
		segs[i] = m.known(k)
	}
	return d.merge(viewKey{alias, k}, members, segs)
}

// merge gives the view of these segments.
func (d *roster) merge(key viewKey, members []*member, segs []*segment) *view {
	d.views.RLock()
	kept := d.views.kept[key]
	d.views.RUnlock()
	if kept != nil && slices.Equal(kept.segs, segs) {
		return kept
	}
	v := buildView(key, d.snap, members, segs)
	d.views.Lock()
	d.views.kept[key] = v
	d.views.Unlock()
	for _, c := range v.clashes {
		if kept == nil || !slices.Contains(kept.clashes, c) {
			d.log.Warn("exposed name is taken", "method", key.kind.method(), "name", c.name, "reason", c.reason)
		}
	}
	return v
}

// buildView makes a view. Names with a prefix come first, since an alias holds no
// separator and they cannot clash; then the names of upstreams with prefix none,
// in the order of their registration.
func buildView(key viewKey, snap *tenant.Tenant, members []*member, segs []*segment) *view {
	v := &view{segs: segs, complete: true, index: map[string]int{}}
	rows := rowBuilder{key: key, sep: snap.Separator, taken: map[string]bool{}, view: v}
	size := 0
	for _, bare := range []bool{false, true} {
		for i, m := range members {
			if segs[i] == nil {
				v.complete = false
				continue
			}
			if isBare := key.alias != "" || m.conf.Prefix == tenant.PrefixNone; isBare != bare {
				continue
			}
			for _, it := range segs[i].items {
				rows.add(m, it, bare)
				size += len(it.raw) + 64
			}
		}
	}
	slices.SortFunc(rows.rows, func(a, b row) int { return strings.Compare(a.exposed, b.exposed) })
	v.entries = make([]entry, 0, len(rows.rows))
	v.list = make([]byte, 0, size)
	h := sha256.New()
	var n [8]byte
	for i, r := range rows.rows {
		if i > 0 {
			v.list = append(v.list, ',')
		}
		start := len(v.list)
		v.list = append(v.list, r.raw(key)...)
		v.index[r.exposed] = i
		v.entries = append(v.entries, entry{exposed: r.exposed, member: r.member, item: r.item, start: start, end: len(v.list)})
		binary.BigEndian.PutUint64(n[:], uint64(len(v.list)-start))
		h.Write(n[:])
	}
	h.Write(v.list)
	h.Sum(v.digest[:0])
	return v
}

// row is an entry before it is sorted.
type row struct {
	exposed string
	cleaned bool
	member  *member
	item    *item
}

// raw is the element as the endpoint shows it.
func (r *row) raw(key viewKey) []byte {
	if key.alias != "" {
		return r.item.raw
	}
	var mapURI uriMapper
	if alias := r.member.conf.Alias; r.member.conf.Prefix != tenant.PrefixNone {
		mapURI = func(uri string) (string, bool) { return exposedURI(alias, uri), true }
	}
	return spliceItem(key.kind, r.item, r.exposed, r.cleaned, mapURI)
}

// rowBuilder gives each item the name it is exposed under.
type rowBuilder struct {
	key   viewKey
	sep   string
	taken map[string]bool
	rows  []row
	view  *view
}

func (b *rowBuilder) add(m *member, it *item, bare bool) {
	r := row{member: m, item: it}
	switch {
	case b.key.alias != "":
		r.exposed = it.name
	case bare:
		if r.exposed, r.cleaned = b.expose(m, it, false); b.taken[r.exposed] {
			b.view.clashes = append(b.view.clashes, rejection{r.exposed, "upstream " + m.conf.Alias + " keeps its prefix here"})
			r.exposed, r.cleaned = b.expose(m, it, true)
		}
	default:
		r.exposed, r.cleaned = b.expose(m, it, true)
	}
	if b.taken[r.exposed] {
		b.view.clashes = append(b.view.clashes, rejection{r.exposed, "left out, upstream " + m.conf.Alias})
		return
	}
	b.taken[r.exposed] = true
	b.rows = append(b.rows, r)
}

// expose gives the name of an item on the merged endpoint.
func (b *rowBuilder) expose(m *member, it *item, prefixed bool) (string, bool) {
	alias := m.conf.Alias
	if b.key.kind.named() {
		if !prefixed {
			alias = ""
		}
		return exposedName(alias, b.sep, it.name)
	}
	if !prefixed {
		return it.name, false
	}
	return exposedURI(alias, it.name), false
}
