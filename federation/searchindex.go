package federation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/federation/search"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// indexWait is how long a search waits for the index of tools that have changed;
// then it looks in the one before. What is not shown any more is never found.
const indexWait = 500 * time.Millisecond

// toolIndex is the index of a tenant's tools. It is made anew beside the requests:
// of those upstreams whose tools have changed.
type toolIndex struct {
	domain *domain
	of     func() *roster // whose members' tools are in it
	cur    atomic.Pointer[indexed]
	wanted atomic.Bool // somebody searches, or is told to

	mu     sync.Mutex
	flight chan struct{} // closed when the build under way is done; nil when there is none
}

// finder finds tools of several sources. It is the seam for another way of searching,
// such as by embeddings: what a caller may see, and how results are shown, stays here.
type finder interface {
	Search(q search.Query) (hits []search.Hit, total int)
}

var _ finder = (*search.Index)(nil)

// indexed is an index, with what each of its parts was made of.
type indexed struct {
	index finder
	parts []indexedPart
}

// indexedPart is one member's share.
type indexedPart struct {
	member   *member
	tools    *segment
	discover *segment
	part     *search.Part
	names    []string // the upstream's own, by the numbers of the part
}

// of tells whether the part was made of what is known of a member.
func (p *indexedPart) of(m *member) bool {
	return p.member == m && sameItems(p.tools, m.known(kindTools)) && sameItems(p.discover, m.known(kindDiscover))
}

func sameItems(a, b *segment) bool {
	return a == b || a != nil && b != nil && a.digest == b.digest
}

// covers tells whether the index has all that is known of the members.
func (x *indexed) covers(members []*member) bool {
	if x == nil || len(x.parts) != len(members) {
		return false
	}
	for i, m := range members {
		if !x.parts[i].of(m) {
			return false
		}
	}
	return true
}

// get gives the index of what is known of a roster's tools: after a short wait the
// one before, and where there is none yet, whenever it is made.
func (t *toolIndex) get(ctx context.Context, d *roster) *indexed {
	t.wanted.Store(true)
	var late <-chan time.Time
	for {
		cur := t.cur.Load()
		if cur.covers(d.own.members) {
			return cur
		}
		done := t.build()
		if done == nil {
			return cur // the tenant is closed
		}
		if late == nil && cur != nil {
			timer := time.NewTimer(indexWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-done:
		case <-late:
			return cur
		case <-ctx.Done():
			return cur
		}
		if d.outdated() {
			return t.cur.Load() // the registration has changed meanwhile
		}
	}
}

// want has the index made, and kept up to date from now on.
func (t *toolIndex) want() {
	if !t.wanted.Swap(true) {
		t.build()
	}
}

// changed is told that the tools of a member, or what it says of itself, changed.
func (t *toolIndex) changed() {
	if t.wanted.Load() {
		t.build()
	}
}

// build starts a build, or joins the one under way. It gives nil when the domain is
// closed.
func (t *toolIndex) build() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flight != nil {
		return t.flight
	}
	done := make(chan struct{})
	started := t.domain.run(func(context.Context) {
		t.make()
		t.mu.Lock()
		t.flight = nil
		t.mu.Unlock()
		close(done)
		if !t.cur.Load().covers(t.of().members) {
			t.build() // something has changed since it began
		}
	})
	if !started {
		return nil
	}
	t.flight = done
	return done
}

// make makes the index of what is known now.
func (t *toolIndex) make() {
	members := t.of().members
	before := map[*member]*indexedPart{}
	// Of an audience's members most are those of all.
	for _, cur := range []*indexed{t.domain.tools.cur.Load(), t.cur.Load()} {
		if cur != nil {
			for i := range cur.parts {
				before[cur.parts[i].member] = &cur.parts[i]
			}
		}
	}
	next := &indexed{parts: make([]indexedPart, len(members))}
	parts := make([]*search.Part, len(members))
	for i, m := range members {
		if old := before[m]; old != nil && old.of(m) {
			next.parts[i] = *old
		} else {
			next.parts[i] = newIndexedPart(m)
		}
		parts[i] = next.parts[i].part
	}
	next.index = search.New(t.domain.fed.language, parts...)
	t.cur.Store(next)
}

func newIndexedPart(m *member) indexedPart {
	p := indexedPart{member: m, tools: m.known(kindTools), discover: m.known(kindDiscover)}
	s := search.Source{Alias: m.conf.Alias, Tags: m.conf.Tags}
	s.Description, s.Instructions = m.about()
	if p.discover != nil {
		s.Title, _ = p.discover.discover.presents()
	}
	if p.tools != nil {
		for _, it := range p.tools.items {
			s.Tools = append(s.Tools, searchable(it))
			p.names = append(p.names, it.name)
		}
	}
	p.part = m.domain.fed.language.NewPart(s)
	return p
}

func whole(raw []byte) mcp.Span { return mcp.Span{Start: 0, End: len(raw)} }

// searchable reads what can be searched of a tool.
func searchable(it *item) search.Tool {
	raw := it.raw
	t := search.Tool{Name: it.name, Title: titleOf(raw)}
	t.Description, _ = mcp.String(raw, mcp.Find(raw, whole(raw), "description"))
	properties := mcp.Find(raw, mcp.Find(raw, whole(raw), "inputSchema"), "properties")
	if !properties.Ok() || raw[properties.Start] != '{' {
		return t
	}
	for m := range mcp.Members(raw, properties) {
		a := search.Argument{Name: m.Key}
		if m.Value.Ok() && raw[m.Value.Start] == '{' {
			a.Description, _ = mcp.String(raw, mcp.Find(raw, m.Value, "description"))
		}
		t.Arguments = append(t.Arguments, a)
	}
	return t
}

// titleOf gives a tool's title.
func titleOf(raw []byte) string {
	if title, ok := mcp.String(raw, mcp.Find(raw, whole(raw), "title")); ok {
		return title
	}
	title, _ := mcp.String(raw, mcp.Find(raw, mcp.Find(raw, whole(raw), "annotations"), "title"))
	return title
}

// viewRows are the rows of a view by the numbers of an index.
type viewRows struct {
	of   *indexed
	rows [][]*entry // by part and tool; nil where the view does not show it
	all  bool       // it shows all
}

// rowsIn gives the rows of a view by the numbers of an index.
func (v *view) rowsIn(x *indexed) *viewRows {
	if kept := v.rows.Load(); kept != nil && kept.of == x {
		return kept
	}
	type itemName struct {
		member *member
		name   string
	}
	named := make(map[itemName]*entry, len(v.entries))
	for i := range v.entries {
		e := &v.entries[i]
		named[itemName{e.member, e.item.name}] = e
	}
	r := &viewRows{of: x, rows: make([][]*entry, len(x.parts)), all: true}
	for i := range x.parts {
		p := &x.parts[i]
		r.rows[i] = make([]*entry, len(p.names))
		for k, name := range p.names {
			r.rows[i][k] = named[itemName{p.member, name}]
			r.all = r.all && r.rows[i][k] != nil
		}
	}
	v.rows.Store(r)
	return r
}

// foundTool is a tool that a search has found.
type foundTool struct {
	entry *entry
	score float64
}

// find looks for tools among those that a view shows: of one upstream, or of all
// where alias is empty.
func (d *roster) find(ctx context.Context, v *view, query, alias string, limit int) (found []foundTool, total int, err error) {
	x := d.index.get(ctx, d)
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	if x == nil {
		return nil, 0, ErrNoEndpoint // the tenant is closed
	}
	rows := v.rowsIn(x)
	q := search.Query{Text: query, Limit: limit}
	if alias != "" || !rows.all {
		q.Visible = func(part, tool int) bool {
			return rows.rows[part][tool] != nil && (alias == "" || x.parts[part].member.conf.Alias == alias)
		}
	}
	hits, total := x.index.Search(q)
	for _, h := range hits {
		found = append(found, foundTool{rows.rows[h.Part][h.Tool], h.Score})
	}
	return found, total, nil
}

// about gives what an upstream is for, and what it says to models.
func (m *member) about() (description, instructions string) {
	description = m.conf.Description
	if seg := m.known(kindDiscover); seg != nil {
		instructions = seg.discover.instructions
		if description == "" {
			_, description = seg.discover.presents()
		}
	}
	return description, instructions
}

// presents gives how an upstream presents itself. Its name is for display where it
// has no title (2026-07-28, BaseMetadata).
func (c *discovered) presents() (title, description string) {
	info := mcp.Find(c.raw, mcp.Find(c.raw, whole(c.raw), "_meta"), mcp.MetaServerInfo)
	if title, _ = mcp.String(c.raw, mcp.Find(c.raw, info, "title")); title == "" {
		title, _ = mcp.String(c.raw, mcp.Find(c.raw, info, "name"))
	}
	description, _ = mcp.String(c.raw, mcp.Find(c.raw, info, "description"))
	return title, description
}
