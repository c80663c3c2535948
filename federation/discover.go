package federation

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// discover answers server/discover: for one upstream with what it said itself,
// else with what all offer together (2026-07-28, server/discover).
func (d *roster) discover(ctx context.Context, c *Call) (*Reply, error) {
	members := d.at(c.Endpoint.Alias)
	if c.Endpoint.Alias == "" && d.audience.hidden {
		members = slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return !d.shows(m) })
	}
	parts := d.gather(ctx, members, kindDiscover)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Endpoint.Alias != "" {
		if err := nothingHad(members, parts); err != nil {
			return nil, err
		}
		return d.discoverOne(c, members, parts), nil
	}
	// The merged endpoint is the gateway's own: clients can connect to it whatever
	// its upstreams do, and what they could not say is marked.
	known := make([]*discovered, len(parts))
	for i, m := range members {
		// What was last known counts, however old, so that an outage does not
		// shrink the capabilities.
		if seg := m.known(kindDiscover); seg != nil {
			known[i] = seg.discover
		}
	}
	reply := newReply(c, 1024)
	b := append(reply.Body.B, `"result":{"resultType":"complete","supportedVersions":`...)
	b = appendVersions(b)
	b = append(b, `,"capabilities":`...)
	b = appendCapabilities(b, known)
	if text := d.modeOf(c.Endpoint).usage() + d.instructions(members, known); text != "" {
		b = append(b, `,"instructions":`...)
		b = mcp.AppendQuote(b, text)
	}
	b = d.hints(parts).append(b)
	b = d.appendMeta(b, nil, members, parts)
	reply.Body.B = append(b, "}}"...)
	return reply, nil
}

// discoverOne relays one upstream's answer with the versions that both speak and
// the time that is left.
func (d *roster) discoverOne(c *Call, members []*member, parts []part) *Reply {
	raw := parts[0].seg.discover.raw
	whole := mcp.Span{Start: 0, End: len(raw)}
	h := d.hints(parts)
	var e mcp.Edits
	e.SetMember(raw, whole, "supportedVersions", appendVersions(nil))
	e.SetMember(raw, whole, "ttlMs", strconv.AppendInt(nil, h.ttl.Milliseconds(), 10))
	if parts[0].seg.public && !h.public {
		e.SetMember(raw, whole, "cacheScope", []byte(`"private"`))
	}
	if parts[0].reason != "" {
		if meta := mcp.Find(raw, whole, "_meta"); meta.Ok() && raw[meta.Start] == '{' {
			e.SetMember(raw, meta, mcp.MetaPartial, appendPartial(nil, members, parts))
		} else {
			e.SetMember(raw, whole, "_meta", append(appendPartial([]byte(`{"`+mcp.MetaPartial+`":`), members, parts), '}'))
		}
	}
	reply := newReply(c, len(raw)+256)
	reply.Body.B = append(reply.Body.B, `"result":`...)
	reply.Body.B = append(e.AppendTo(reply.Body.B, raw), '}')
	return reply
}

// appendVersions writes the versions that are spoken per request.
func appendVersions(b []byte) []byte {
	b = append(b, '[')
	for i, v := range mcp.ModernVersions() {
		if i > 0 {
			b = append(b, ',')
		}
		b = mcp.AppendQuote(b, v)
	}
	return append(b, ']')
}

// appendCapabilities writes the capabilities of the merged endpoint. The lists
// are always there, since the gateway notices changes itself; the rest is what
// the upstreams were last known to offer, so that an outage does not shrink it.
// Of the extensions only those that the gateway routes are named.
func appendCapabilities(b []byte, known []*discovered) []byte {
	any := func(has func(*discovered) bool) bool {
		return slices.ContainsFunc(known, func(c *discovered) bool { return c != nil && has(c) })
	}
	b = append(b, `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true`...)
	if any(func(c *discovered) bool { return c.subscribe }) {
		b = append(b, `,"subscribe":true`...)
	}
	b = append(b, '}')
	if any(func(c *discovered) bool { return c.completions }) {
		b = append(b, `,"completions":{}`...)
	}
	if any(func(c *discovered) bool { return c.logging }) {
		b = append(b, `,"logging":{}`...)
	}
	sep := `,"extensions":{`
	for _, ext := range []string{mcp.ExtensionTasks, mcp.ExtensionUI} {
		if any(func(c *discovered) bool { return c.extensions[ext] }) {
			b = append(b, sep...)
			b = append(mcp.AppendQuote(b, ext), `:{}`...)
			sep = ","
		}
	}
	if sep == "," {
		b = append(b, '}')
	}
	return append(b, '}')
}

// instructions composes the upstreams' instructions, each under its alias and
// bounded.
func (d *roster) instructions(members []*member, known []*discovered) string {
	var sb strings.Builder
	for i, c := range known {
		if c == nil || c.instructions == "" {
			continue
		}
		if sb.Len() > 0 {
			sb.WriteString("\n\n")
		}
		sb.WriteString("## " + members[i].conf.Alias + "\n")
		sb.WriteString(truncate(c.instructions, d.fed.opts.Limits.Instructions))
	}
	return sb.String()
}

// truncate cuts s to at most n bytes at the border of a character, and says so.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + " [shortened]"
}
