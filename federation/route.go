package federation

import (
	"context"
	"slices"
	"strings"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// target is where a request goes.
type target struct {
	member *member
	item   *item  // as the catalogue knows it; nil for what is in no list
	name   string // the upstream's own name, URI or task id
	field  mcp.Text
	// exposed is the name of a tool or prompt that was found, and facts what policy
	// reads of it.
	exposed string
	facts   *policy.Item
}

// quoted gives the name in JSON: as the upstream wrote it, where it is from a list.
func (t *target) quoted() []byte {
	if t.item != nil && t.item.name == t.name {
		return t.item.nameAt.In(t.item.raw)
	}
	return mcp.AppendQuote(nil, t.name)
}

// unknown is the one error for what is not there and what is hidden, so that the
// two cannot be told apart.
func unknown(k kind, name string) *mcp.Error {
	switch k {
	case kindTools:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", name)
	case kindPrompts:
		return mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", name)
	default:
		// 2026-07-28, server/resources, Error Handling.
		e := mcp.Errorf(mcp.CodeInvalidParams, "Resource not found")
		e.Data = append(mcp.AppendQuote([]byte(`{"uri":`), name), '}')
		return e
	}
}

// lookup finds an exposed name in the view of what is known.
func (d *roster) lookup(alias string, k kind, exposed string) *target {
	v := d.view(alias, k)
	i, ok := v.index[exposed]
	if !ok {
		return nil
	}
	e := &v.entries[i]
	return &target{member: e.member, item: e.item, name: e.item.name, exposed: exposed, facts: e.facts}
}

// resolve finds the tool or prompt behind an exposed name. A name that could
// belong to a member but is not known causes one folded refresh of that member's
// list before it is refused.
func (d *roster) resolve(ctx context.Context, c *Call, k kind, exposed string) (*target, error) {
	if t := d.lookup(c.Endpoint.Alias, k, exposed); t != nil {
		return t, nil
	}
	candidates := d.candidates(c.Endpoint.Alias, exposed)
	if err := consented(ctx, candidates); err != nil {
		return nil, err
	}
	d.reread(ctx, candidates, k, func() bool { return d.lookup(c.Endpoint.Alias, k, exposed) != nil })
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t := d.lookup(c.Endpoint.Alias, k, exposed); t != nil {
		return t, nil
	}
	if err := consented(ctx, candidates); err != nil {
		return nil, err // it was not known before
	}
	for _, m := range candidates {
		if m.known(k) == nil {
			return nil, unavailable(m.conf.Alias, m.failure(k), "its list could never be had")
		}
	}
	if d.audience.hidden && d.own.lookup(c.Endpoint.Alias, k, exposed) != nil {
		d.decisions.denied.Inc() // it is there, and not for this caller
	}
	return nil, unknown(k, exposed)
}

// candidates gives the members that an exposed name may belong to.
func (d *roster) candidates(alias, exposed string) []*member {
	if alias != "" {
		return d.at(alias)
	}
	sep := d.snap.Separator
	return slices.DeleteFunc(slices.Clone(d.members), func(m *member) bool {
		return m.conf.Prefix != tenant.PrefixNone && !strings.HasPrefix(exposed, m.conf.Alias+sep)
	})
}

// failure says why the member's list is not there.
func (m *member) failure(k kind) upstream.Class {
	s := &m.slots[k]
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := classOf(s.err); c != "" {
		return c
	}
	return upstream.ClassTimeout
}

// locate finds the upstream behind a resource's exposed URI. URIs that are in no
// list (expansions of templates, links from results) are routed by their alias. What
// policy may read of it is waited for; checkResource is for the caller to call.
func (d *roster) locate(ctx context.Context, c *Call, uri string) (*target, error) {
	t, err := d.own.locateAny(ctx, c, uri, d)
	if err != nil || !d.audience.hidden {
		return t, err
	}
	if !d.has(t.member) {
		return nil, unknown(kindResources, uri)
	}
	t.member.look(ctx, kindResources, kindTemplates)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return t, nil
}

// locateAny is locate, whatever policy says. Only members of asker are asked.
func (d *roster) locateAny(ctx context.Context, c *Call, uri string, asker *roster) (*target, error) {
	alias := c.Endpoint.Alias
	if alias != "" {
		t := &target{member: d.byAlias[alias], name: uri}
		if seg := t.member.known(kindResources); seg != nil {
			t.item = seg.index[uri]
		}
		return t, nil
	}
	for _, k := range []kind{kindResources, kindTemplates} {
		if t := d.lookup("", k, uri); t != nil {
			return t, nil
		}
	}
	if a, original, ok := splitURI(uri); ok {
		if m := d.byAlias[a]; m != nil {
			return &target{member: m, name: original}, nil
		}
	}
	return d.locateBare(ctx, uri, asker)
}

// locateBare finds a URI without an alias among the upstreams with prefix none:
// by their lists, then by their templates, else it goes to the only one.
func (d *roster) locateBare(ctx context.Context, uri string, asker *roster) (*target, error) {
	bare := d.bareMembers()
	if len(bare) == 0 {
		return nil, unknown(kindResources, uri)
	}
	if len(bare) == 1 {
		return &target{member: bare[0], name: uri}, nil
	}
	if t := d.bareOwner(bare, uri); t != nil {
		return t, nil
	}
	found := func() bool { return d.bareOwner(bare, uri) != nil }
	asked := asker.bareMembers()
	d.reread(ctx, asked, kindResources, found)
	d.reread(ctx, asked, kindTemplates, found)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t := d.bareOwner(bare, uri); t != nil {
		return t, nil
	}
	return nil, unknown(kindResources, uri)
}

// bareMembers gives the members with prefix none.
func (d *roster) bareMembers() []*member {
	return slices.DeleteFunc(slices.Clone(d.members), func(m *member) bool { return m.conf.Prefix != tenant.PrefixNone })
}

// bareOwner finds a URI among the lists and templates of members with prefix
// none.
func (d *roster) bareOwner(bare []*member, uri string) *target {
	if t := d.lookup("", kindResources, uri); t != nil {
		return t
	}
	for _, m := range bare {
		if seg := m.known(kindTemplates); seg != nil {
			for _, it := range seg.items {
				if it.match != nil && it.match(uri) {
					return &target{member: m, item: it, name: uri}
				}
			}
		}
	}
	return nil
}

// locateKnown finds the upstream of an exposed URI without asking anyone.
func (d *roster) locateKnown(alias, uri string) *target {
	if alias != "" {
		return &target{member: d.byAlias[alias], name: uri}
	}
	if t := d.lookup("", kindResources, uri); t != nil {
		return t
	}
	if a, original, ok := splitURI(uri); ok {
		if m := d.byAlias[a]; m != nil {
			return &target{member: m, name: original}
		}
	}
	bare := d.bareMembers()
	if len(bare) == 1 {
		return &target{member: bare[0], name: uri}
	}
	return d.bareOwner(bare, uri)
}

// locateTask finds the upstream of an exposed task id.
func (d *roster) locateTask(alias, id string) *target {
	if alias != "" {
		return &target{member: d.byAlias[alias], name: id}
	}
	if a, own, ok := strings.Cut(id, "+"); ok {
		if m := d.byAlias[a]; m != nil {
			return &target{member: m, name: own}
		}
	}
	return nil
}
