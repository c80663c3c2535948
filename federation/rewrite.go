package federation

import "github.com/causeway-mcp/causeway/upstream/mcp"

// uriMapper gives the exposed form of an upstream's URI; false leaves the URI as
// it is.
type uriMapper func(uri string) (exposed string, ok bool)

// rewriteResult adds the edits that turn an upstream's result for method into
// what the client gets: URIs and task ids in their exposed form wherever a
// client may take one from. Results of other methods than tools/call,
// prompts/get, resources/read and those of the tasks extension only have the
// URIs in `_meta` changed. inputRequests, structuredContent, texts and blobs are
// not touched and not decoded.
func rewriteResult(e *mcp.Edits, method string, m *mcp.Message, mapURI uriMapper, mapTask func(string) string) {
	panic("stub")
}

// rewriteError adds the edit for `error.data.uri` of an upstream's error.
func rewriteError(e *mcp.Edits, m *mcp.Message, mapURI uriMapper) { panic("stub") }

// rewriteNotification adds the edits for an upstream's notification: the URI of
// notifications/resources/updated and the whole task of notifications/tasks.
// Others hold nothing that is ours.
func rewriteNotification(e *mcp.Edits, m *mcp.Message, mapURI uriMapper, mapTask func(string) string) {
	panic("stub")
}

// unwrapArguments adds the edits that give a tool the original form of its own
// upstream's URIs: string values at any depth of the arguments that are wholly
// an exposed URI of that alias. args is a span of raw, which has been validated.
// Keys and all else stay.
func unwrapArguments(e *mcp.Edits, raw []byte, args mcp.Span, alias string) { panic("stub") }
