package federation

import (
	"crypto/sha256"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// mode says which tools a list shows. All of them can be called in every mode.
type mode uint8

const (
	modeFull   mode = iota // all
	modeSearch             // the tools that find tools, and pinned ones
	modeAuto               // as search where all would be too many, else all
)

// discoveryOf gives how the tools of a toolset are found: the tenant's own way, where
// the toolset has none.
func (d *roster) discoveryOf(toolset string) *tenant.Discovery {
	if s := d.toolset(toolset); s != nil && s.Discovery.Mode != "" {
		return &s.Discovery
	}
	return &d.snap.Discovery
}

// modeOf gives the mode of an endpoint: what its URL asks for, where the tenant
// lets it, else the tenant's own. The endpoint of one upstream shows it as it is.
func (d *roster) modeOf(at Endpoint) mode {
	if at.Alias != "" {
		return modeFull
	}
	chosen := d.discoveryOf(at.Toolset).Mode
	if at.Discovery != "" {
		chosen = at.Discovery
	}
	switch chosen {
	case tenant.DiscoverySearch:
		return modeSearch
	case tenant.DiscoveryAuto:
		return modeAuto
	default:
		return modeFull
	}
}

// checkMode refuses a mode in an endpoint's URL that is none, or that the tenant
// does not let clients choose.
func (d *roster) checkMode(at Endpoint) error {
	switch at.Discovery {
	case "":
		return nil
	case tenant.DiscoveryFull, tenant.DiscoverySearch, tenant.DiscoveryAuto:
	default:
		return mcp.Errorf(mcp.CodeInvalidRequest, "discovery in the URL must be full, search or auto, once")
	}
	if at.Alias != "" || !d.discoveryOf(at.Toolset).FromURL {
		return mcp.Errorf(mcp.CodeInvalidRequest, "discovery cannot be chosen in the URL of this endpoint")
	}
	return nil
}

// behind gives the upstreams that an endpoint's list is made of: where it shows the
// tools that find tools alone, those whose tools may be pinned.
func (d *roster) behind(at Endpoint, k kind) []*member {
	all := d.at(at.Alias)
	if k != kindTools || d.modeOf(at) != modeSearch {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return !d.mayPin(m) })
}

// mayPin tells whether a tool of the member may be pinned, by the names that its
// tools can have.
func (d *roster) mayPin(m *member) bool {
	prefix := m.conf.Alias + d.snap.Separator
	for _, pattern := range d.discoveryOf(d.caller.toolset).Pinned {
		literal := pattern
		if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
			literal = pattern[:i]
		}
		if m.conf.Prefix == tenant.PrefixNone || strings.HasPrefix(literal, prefix) ||
			len(literal) < len(pattern) && strings.HasPrefix(prefix, literal) {
			return true
		}
	}
	return false
}

// prepare makes ready what searches need, for a client that will search. It does not
// wait.
func (d *roster) prepare() {
	d.warm(kindTools)
	d.warm(kindDiscover)
	d.index.want()
}

// warm has the lists of all upstreams fetched that are not there.
func (d *roster) warm(k kind) {
	now := d.fed.now()
	for _, m := range d.members {
		if m.known(k) == nil {
			m.slots[k].begin(now)
		}
	}
}

// shown gives what a list shows of a view in a mode. full is the view of all.
func (d *roster) shown(key viewKey, full *view) *view {
	if key.kind != kindTools || key.mode == modeFull || key.mode == modeAuto && !d.isLarge(full) {
		return full
	}
	key.mode = modeSearch
	if kept := d.views.get(key); kept != nil && kept.of == full {
		return kept
	}
	v := d.brief(full)
	d.keepView(key, v)
	return v
}

// isLarge tells whether all tools are more than a client should have to read.
func (d *roster) isLarge(full *view) bool {
	threshold := d.discoveryOf(d.caller.toolset).AutoThresholdTokens
	if threshold <= 0 {
		threshold = d.fed.opts.Limits.AutoThresholdTokens
	}
	return full.tokens > threshold
}

// brief makes the view of the tools that find tools and of the pinned ones.
func (d *roster) brief(full *view) *view {
	v := &view{parts: full.parts, of: full}
	add := func(e entry, raw []byte) {
		if len(v.entries) > 0 {
			v.list = append(v.list, ',')
		}
		e.start = len(v.list)
		v.list = append(v.list, raw...)
		e.end = len(v.list)
		v.entries = append(v.entries, e)
	}
	// By name, as all lists are: so the cursors of pages hold.
	pinned := full.entries
	for _, t := range metaTools() {
		for len(pinned) > 0 && pinned[0].exposed < t.name {
			if d.isPinned(pinned[0].exposed) {
				add(pinned[0], full.list[pinned[0].start:pinned[0].end])
			}
			pinned = pinned[1:]
		}
		add(entry{exposed: t.name}, []byte(t.definition))
	}
	for _, e := range pinned {
		if d.isPinned(e.exposed) {
			add(e, full.list[e.start:e.end])
		}
	}
	v.digest = sha256.Sum256(v.list)
	v.tokens = estimateTokens(v.list)
	return v
}

// isPinned tells whether a tool is shown in every mode.
func (d *roster) isPinned(exposed string) bool {
	for _, pattern := range d.discoveryOf(d.caller.toolset).Pinned {
		if ok, err := path.Match(pattern, exposed); ok && err == nil {
			return true
		}
	}
	return false
}

// estimateTokens gives about how many tokens a model takes a text for: four bytes of
// ASCII, or one other character, are one.
func estimateTokens(text []byte) int {
	ascii := 0
	for _, b := range text {
		if b < utf8.RuneSelf {
			ascii++
		}
	}
	return (ascii+3)/4 + utf8.RuneCount(text) - ascii
}
