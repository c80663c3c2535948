package federation

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// viewKey names a view: the alias of an endpoint that shows one upstream, or ""
// for the merged one.
type viewKey struct {
	alias string
	kind  kind
	mode  mode // of a list of tools
}

// view is what one endpoint shows of one kind: the merge of its members'
// segments, sorted by exposed name. It is immutable, and the only table: lists
// are cut from it and calls are routed by it.
type view struct {
	parts   []part  // that it was made of, one for each member
	entries []entry // sorted by exposed name
	index   map[string]int
	list    []byte      // the elements, joined by commas
	digest  [32]byte    // equal digests mean that a caller sees no difference
	clashes []rejection // names that an upstream with prefix none could not have
	tokens  int         // estimated, of the list
	of      *view       // the view of all that a brief one is made of; nil for others
	// all is the view of which policy has hidden something, and names the one whose
	// names policy reads; nil for others.
	all, names *view
	rows       atomic.Pointer[viewRows] // see rowsIn
}

// entryBytes is about what an entry takes besides its element.
const entryBytes = 200

// size is about what the view takes, in bytes.
func (v *view) size() int {
	if v == nil {
		return 0
	}
	return len(v.list) + entryBytes*len(v.entries)
}

// entry is one row of a view.
type entry struct {
	exposed    string
	member     *member
	item       *item
	start, end int          // of the element in view.list
	facts      *policy.Item // what policy reads of it; nil where that hides nothing
}

// view merges what is known now, without waiting.
func (d *roster) view(alias string, k kind) *view {
	if d.audience.hidden {
		if alias != "" && d.byAlias[alias] == nil {
			return &view{}
		}
		return d.permitted(viewKey{alias: alias, kind: k}, d.own.view(alias, k))
	}
	key, members := viewKey{alias: alias, kind: k}, d.at(alias)
	kept := d.views.get(key)
	if kept != nil {
		same := true
		for i, m := range members {
			same = same && kept.parts[i].equals(m.known(k))
		}
		if same {
			return kept
		}
	}
	parts := make([]part, len(members))
	for i, m := range members {
		parts[i].seg = m.known(k)
	}
	return d.merge(key, members, parts)
}

// merge gives the view of these parts. Views are kept until a segment behind them
// changes, and are made one at a time, since many may ask for the same.
func (d *roster) merge(key viewKey, members []*member, parts []part) *view {
	if d.audience.hidden {
		all := d.own.at(key.alias)
		return d.permitted(key, d.own.merge(key, all, d.partsOf(key.kind, all, members, parts)))
	}
	if kept := d.views.get(key); kept != nil && kept.madeOf(parts) {
		return kept
	}
	d.views.making.Lock()
	defer d.views.making.Unlock()
	kept := d.views.get(key)
	if kept != nil && kept.madeOf(parts) {
		return kept
	}
	v := buildView(key, d.snap.Separator, members, parts)
	d.keepView(key, v)
	d.report(key, kept, v)
	return v
}

// partsOf gives the parts of all members, of whom those that have none say what is
// known of them. A member without a prefix may take names from others, so its list is
// fetched if it is not known; nobody waits for that.
func (d *roster) partsOf(k kind, all, members []*member, parts []part) []part {
	if len(all) == len(members) {
		return parts
	}
	full := make([]part, len(all))
	at := 0 // members are in the order of all
	for i, m := range all {
		if at < len(members) && members[at] == m {
			full[i] = parts[at]
			at++
		} else if full[i].seg = m.known(k); full[i].seg == nil && m.conf.Prefix == tenant.PrefixNone {
			m.slots[k].fetchAside(d.fed.now())
		}
	}
	return full
}

// report logs the clashes of a view that the one before, which may be nil, did
// not have.
func (d *roster) report(key viewKey, before, v *view) {
	known := map[rejection]bool{}
	if before != nil {
		for _, c := range before.clashes {
			known[c] = true
		}
	}
	reported := 0
	for _, c := range v.clashes {
		if known[c] {
			continue
		}
		if reported++; reported > maxReports {
			d.log.Warn("more exposed names are taken", "method", key.kind.method(), "count", len(v.clashes))
			return
		}
		d.log.Warn("exposed name is taken", "method", key.kind.method(), "name", c.name, "reason", c.reason)
	}
}

// madeOf tells whether the view is the one of these parts.
func (v *view) madeOf(parts []part) bool {
	return slices.EqualFunc(v.parts, parts, func(a, b part) bool { return a.equals(b.seg) })
}

// equals tells whether the part's segment has the same items as seg.
func (p part) equals(seg *segment) bool {
	return p.seg == seg || p.seg != nil && seg != nil && p.seg.digest == seg.digest
}

// buildView makes a view. Names with a prefix come first, since an alias holds no
// separator and they cannot clash; then the names of upstreams with prefix none,
// in the order of their registration.
func buildView(key viewKey, sep string, members []*member, parts []part) *view {
	v := &view{parts: slices.Clone(parts)}
	size, count := 0, 0
	for _, p := range parts {
		if p.seg != nil {
			count += len(p.seg.items)
			for _, it := range p.seg.items {
				size += len(it.raw) + 64
			}
		}
	}
	rows := rowBuilder{key: key, sep: sep, taken: make(map[string]bool, count), rows: make([]row, 0, count), view: v}
	if key.alias == "" && key.kind == kindTools {
		for _, t := range metaTools() {
			rows.taken[t.name] = true // no upstream's tool takes their place, in any mode
		}
	}
	for _, bare := range []bool{false, true} {
		for i, m := range members {
			if isBare := key.alias != "" || m.conf.Prefix == tenant.PrefixNone; isBare != bare || parts[i].seg == nil {
				continue
			}
			for _, it := range parts[i].seg.items {
				rows.add(m, it, bare)
			}
		}
	}
	slices.SortFunc(rows.rows, func(a, b row) int { return strings.Compare(a.exposed, b.exposed) })
	v.entries = make([]entry, 0, len(rows.rows))
	v.index = make(map[string]int, len(rows.rows))
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
	if key.kind == kindTools {
		v.tokens = estimateTokens(v.list)
	}
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
	case bare && !it.connect: // that one would not say of which upstream it is
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
