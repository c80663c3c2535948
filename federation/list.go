package federation

import (
	"context"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// list answers one of the list methods from the view.
func (d *roster) list(ctx context.Context, c *Call, k kind) (*Reply, error) {
	d, members, parts, err := d.collect(ctx, c, c.Endpoint, k)
	if err != nil {
		return nil, err
	}
	key := viewKey{alias: c.Endpoint.Alias, kind: k}
	var full *view
	if all := d.at(c.Endpoint.Alias); len(members) == len(all) {
		full = d.merge(key, members, parts)
	} else {
		full = d.view(c.Endpoint.Alias, k)
	}
	if k == kindTools {
		key.mode = d.modeOf(c.Endpoint)
	}
	v := d.shown(key, full)
	if key.mode != modeSearch {
		if err := nothingHad(members, parts); err != nil {
			return nil, err
		}
	}
	d.hub.shown(topicKey{d.audience, key}, v)
	if v.of != nil {
		d.prepare()
		if !c.Request.Cursor.Ok() {
			d.fed.metrics.saved(full.tokens - v.tokens)
		}
	}
	hints := d.hints(parts)
	from, err := d.from(c, k, v, &hints)
	if err != nil {
		return nil, err
	}
	to := min(from+d.pageSize(), len(v.entries))
	if from > to {
		from = to
	}
	reply := newReply(c, 512+v.bytes(from, to))
	b := append(reply.Body.B, `"result":{"resultType":"complete","`...)
	b = append(b, k.items()...)
	b = append(b, `":[`...)
	b = append(b, v.slice(from, to)...)
	b = append(b, ']')
	if to < len(v.entries) {
		b = append(b, `,"nextCursor":`...)
		b = mcp.AppendQuote(b, sealCursor(d.fed.opts.Ring, c.Endpoint, k, cursor{last: v.entries[to-1].exposed, public: hints.public, brief: v.of != nil}))
	}
	b = hints.append(b)
	var own *segment
	if c.Endpoint.Alias != "" {
		own = parts[0].seg
		b = append(b, own.extras...)
	}
	b = d.appendMeta(b, own, members, parts)
	reply.Body.B = append(b, "}}"...)
	return reply, nil
}

// collect gathers the parts of a list, as an endpoint has it, from the upstreams that
// it is made of. It gives the roster that they are of: the registration may change
// meanwhile, and with it what is hidden from the caller.
func (d *roster) collect(ctx context.Context, c *Call, at Endpoint, k kind) (*roster, []*member, []part, error) {
	members := d.behind(at, k)
	parts := d.gather(ctx, members, k)
	for range maxRestarts {
		if !d.outdated() {
			break
		}
		d = d.current().seenBy(callerOf(c))
		if at.Alias != "" && d.byAlias[at.Alias] == nil || !d.hasToolset(at.Toolset) {
			return nil, nil, nil, ErrNoEndpoint
		}
		d.take(c)
		members = d.behind(at, k)
		parts = d.gather(ctx, members, k)
	}
	if ctx.Err() != nil {
		return nil, nil, nil, context.Cause(ctx)
	}
	return d, members, parts, nil
}

// from finds where a page starts. All pages of one walk have the scope of the
// first (2026-07-28, server/utilities/caching).
func (d *roster) from(c *Call, k kind, v *view, h *hints) (int, error) {
	given := c.Request.Cursor
	if !given.Ok() {
		return 0, nil
	}
	if !given.IsString {
		return 0, mcp.Errorf(mcp.CodeInvalidParams, "cursor is no string")
	}
	cur, err := openCursor(d.fed.opts.Ring, c.Endpoint, k, given.Value, h.public)
	if err != nil {
		return 0, err
	}
	if cur.brief != (v.of != nil) {
		return 0, errCursor() // the rest of another list
	}
	h.public = cur.public
	return sort.Search(len(v.entries), func(i int) bool { return v.entries[i].exposed > cur.last }), nil
}

// pageSize is how many items one page of the tenant's lists holds.
func (d *roster) pageSize() int {
	if n := d.snap.PageSize; n > 0 {
		return n
	}
	return d.fed.opts.Limits.PageSize
}

// bytes is the length of the elements from one index to another, exclusive.
func (v *view) bytes(from, to int) int { return len(v.slice(from, to)) }

// slice gives these elements, joined by commas.
func (v *view) slice(from, to int) []byte {
	if from >= to {
		return nil
	}
	return v.list[v.entries[from].start:v.entries[to-1].end]
}

// nothingHad gives an error when not one member could give its part, so that an
// outage is never an empty list.
func nothingHad(members []*member, parts []part) error {
	if len(parts) == 0 || slices.ContainsFunc(parts, func(p part) bool { return p.seg != nil }) {
		return nil
	}
	e := mcp.Errorf(mcp.CodeInternal, "no upstream could be asked")
	e.Data = append(e.Data, `{"alias":`...)
	e.Data = mcp.AppendQuote(e.Data, members[0].conf.Alias)
	e.Data = append(e.Data, `,"reason":`...)
	e.Data = mcp.AppendQuote(e.Data, parts[0].reason)
	e.Data = append(e.Data, `,"retryable":true,"upstreams":`...)
	e.Data = append(appendPartial(e.Data, members, parts), '}')
	return e
}

// hints are the caching hints of a result (2026-07-28, server/utilities/caching).
type hints struct {
	ttl    time.Duration
	public bool
}

// hints gives the least time left among the parts, 0 when one is missing, stale
// or outdated, and the strictest scope.
func (d *roster) hints(parts []part) hints {
	h := hints{ttl: maxTTL, public: !d.varies()}
	now := d.fed.now()
	for _, p := range parts {
		if p.seg == nil || p.reason != "" || p.outdated {
			h.ttl = 0
		}
		if p.seg != nil {
			h.public = h.public && !p.seg.consent
			h.ttl = min(h.ttl, p.seg.fetched.Add(p.seg.ttl).Sub(now))
			h.public = h.public && p.seg.public
		}
	}
	if len(parts) == 0 {
		h.ttl = d.fed.opts.Limits.ListTTL
	}
	h.ttl = max(h.ttl, 0)
	return h
}

// append writes the hints as members of a result.
func (h hints) append(b []byte) []byte {
	b = append(b, `,"ttlMs":`...)
	b = strconv.AppendInt(b, h.ttl.Milliseconds(), 10)
	if h.public {
		return append(b, `,"cacheScope":"public"`...)
	}
	return append(b, `,"cacheScope":"private"`...)
}

// appendMeta writes `_meta` of a result of ours. own is the segment of the only
// upstream behind the endpoint, whose `_meta` is kept; nil for merged lists.
func (d *roster) appendMeta(b []byte, own *segment, members []*member, parts []part) []byte {
	partial := slices.ContainsFunc(parts, func(p part) bool { return p.reason != "" })
	if own != nil && len(own.meta) > 0 && own.meta[0] == '{' {
		b = append(b, `,"_meta":`...)
		if !partial {
			return append(b, own.meta...)
		}
		var e mcp.Edits
		e.SetMember(own.meta, mcp.Span{Start: 0, End: len(own.meta)}, mcp.MetaPartial, appendPartial(nil, members, parts))
		return e.AppendTo(b, own.meta)
	}
	b = append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...)
	b = append(b, d.fed.clientInfo...)
	if partial {
		b = append(b, `,"`+mcp.MetaPartial+`":`...)
		b = appendPartial(b, members, parts)
	}
	return append(b, '}')
}

// appendPartial writes which upstreams' parts are missing or stale, and why.
func appendPartial(b []byte, members []*member, parts []part) []byte {
	b = append(b, '[')
	for i, p := range parts {
		if p.reason == "" {
			continue
		}
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, `{"alias":`...)
		b = mcp.AppendQuote(b, members[i].conf.Alias)
		b = append(b, `,"reason":`...)
		b = append(mcp.AppendQuote(b, p.reason), '}')
	}
	return append(b, ']')
}

// newReply starts a reply of our own: the envelope up to the result or error.
func newReply(c *Call, size int) *Reply {
	r := &Reply{Status: 200, Body: mcp.GetBuffer(size)}
	b := append(r.Body.B, `{"jsonrpc":"2.0","id":`...)
	b = append(b, c.Request.ID.In(c.Request.Raw)...)
	r.Body.B = append(b, ',')
	return r
}
