package upstream

import "github.com/causeway-mcp/causeway/upstream/mcp"

// withoutHints takes the cache hints out of a list of a handshake server. They
// came with 2026-07-28 (server/utilities/caching). What an older revision does not
// know passes otherwise, but SDKs that speak both eras put a ttlMs of 0 there
// which nobody chose, and which would have each list asked for again each time.
// The message is changed in its buffer.
func withoutHints(method string, buf *mcp.Buffer, m *mcp.Message, maxDepth int) (*mcp.Message, error) {
	switch method {
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodTemplatesList:
	default:
		return m, nil
	}
	if !m.TTLMs.Ok() && !m.CacheScope.Ok() {
		return m, nil
	}
	var edits mcp.Edits
	edits.RemoveMember(m.Raw, m.Result, "ttlMs")
	edits.RemoveMember(m.Raw, m.Result, "cacheScope")
	buf.B = append(buf.B[:0], edits.AppendTo(nil, m.Raw)...)
	return mcp.ParseMessage(buf.B, maxDepth)
}
