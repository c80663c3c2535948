package federation

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// uriMapper gives the exposed form of an upstream's URI; false leaves the URI as
// it is. A nil mapper leaves all.
type uriMapper func(uri string) (exposed string, ok bool)

// rewriteResult adds the edits that turn an upstream's result for method into
// what the client gets: URIs and task ids in their exposed form wherever a
// client may take one from. Results of other methods than tools/call,
// prompts/get, resources/read and those of the tasks extension only have the
// URIs in `_meta` changed. inputRequests, structuredContent, texts and blobs are
// not touched and not decoded. A nil mapTask leaves task ids.
func rewriteResult(e *mcp.Edits, method string, m *mcp.Message, mapURI uriMapper, mapTask func(string) string) {
	w := rewriter{e, m.Raw, mapURI, mapTask}
	switch {
	case isTaskMethod(method), m.ResultType.Value == mcp.ResultTask:
		w.detailedTask(m.Result)
		return
	case !mayHoldURI(m.Result.In(m.Raw)):
		return
	}
	switch method {
	case mcp.MethodToolsCall:
		w.toolResult(m.Result)
	case mcp.MethodPromptsGet:
		for msg := range mcp.Elements(m.Raw, mcp.Find(m.Raw, m.Result, "messages")) {
			w.content(mcp.Find(m.Raw, msg, "content"))
		}
		w.meta(m.Meta)
	case mcp.MethodResourcesRead:
		for el := range mcp.Elements(m.Raw, mcp.Find(m.Raw, m.Result, "contents")) {
			w.resource(el)
		}
		w.meta(m.Meta)
	default:
		w.meta(m.Meta)
	}
}

func isTaskMethod(method string) bool {
	return method == mcp.MethodTasksGet || method == mcp.MethodTasksUpdate || method == mcp.MethodTasksCancel
}

// rewriteError adds the edit for `error.data.uri` of an upstream's error.
func rewriteError(e *mcp.Edits, m *mcp.Message, mapURI uriMapper) {
	w := rewriter{e: e, raw: m.Raw, mapURI: mapURI}
	w.uri(mcp.Find(m.Raw, m.ErrorData, "uri"))
}

// rewriteNotification adds the edits for an upstream's notification: the URI of
// notifications/resources/updated and the whole task of notifications/tasks.
// Others hold nothing that is ours.
func rewriteNotification(e *mcp.Edits, m *mcp.Message, mapURI uriMapper, mapTask func(string) string) {
	w := rewriter{e, m.Raw, mapURI, mapTask}
	switch m.Method {
	case mcp.NotificationResourceUpdated:
		w.uri(m.URI.Span)
	case mcp.NotificationTasks:
		w.detailedTask(m.Params)
	}
}

// mayHoldURI tells whether raw may hold one of the keys `uri`, `resourceUri` and
// `ui/resourceUri`. It is much cheaper than a walk, and most messages hold none.
// `\u00` starts the only escapes that can hide a letter of a key; the searches
// are for what is rarest in texts.
func mayHoldURI(raw []byte) bool {
	return bytes.Contains(raw, []byte(`ri"`)) || mayEscape(raw)
}

// mayEscape tells whether raw may hold an escaped ASCII character other than the
// quote, the solidus and the backslash.
func mayEscape(raw []byte) bool { return bytes.Contains(raw, []byte(`u00`)) }

// rewriter adds edits while it walks over the parts of one message. It reads
// spans only: no string is decoded but URIs and task ids.
type rewriter struct {
	e       *mcp.Edits
	raw     []byte
	mapURI  uriMapper
	mapTask func(string) string
}

// detailedTask walks over a task, which is what tasks/get and
// notifications/tasks hold and what a created task starts as (ext-tasks, Tasks).
func (w *rewriter) detailedTask(task mcp.Span) {
	for m := range mcp.Members(w.raw, task) {
		switch m.Key {
		case "taskId":
			if id, ok := mcp.String(w.raw, m.Value); ok && w.mapTask != nil {
				spliceString(w.e, w.raw, m.Value, id, w.mapTask(id))
			}
		case "result":
			if mayHoldURI(m.Value.In(w.raw)) {
				w.toolResult(m.Value)
			}
		case "error":
			w.uri(mcp.Find(w.raw, mcp.Find(w.raw, m.Value, "data"), "uri"))
		case "_meta":
			w.meta(m.Value)
		}
	}
}

// toolResult walks over a CallToolResult.
func (w *rewriter) toolResult(result mcp.Span) {
	for m := range mcp.Members(w.raw, result) {
		switch m.Key {
		case "content":
			w.content(m.Value)
		case "_meta":
			w.meta(m.Value)
		}
	}
}

// content walks over a content block or an array of them.
func (w *rewriter) content(at mcp.Span) {
	if !at.Ok() || w.raw[at.Start] != '[' {
		w.block(at)
		return
	}
	for el := range mcp.Elements(w.raw, at) {
		w.block(el)
	}
}

// block walks over one content block (2026-07-28, schema, ContentBlock): a
// resource_link has a `uri`, a resource embeds one.
func (w *rewriter) block(at mcp.Span) {
	if !mayHoldURI(at.In(w.raw)) {
		return
	}
	kind := ""
	for m := range mcp.Members(w.raw, at) {
		switch m.Key {
		case "type":
			kind, _ = mcp.String(w.raw, m.Value)
		case "_meta":
			w.meta(m.Value)
		}
	}
	// The type may stand behind what it decides.
	if kind != "resource_link" && kind != "resource" {
		return
	}
	for m := range mcp.Members(w.raw, at) {
		switch {
		case m.Key == "uri" && kind == "resource_link":
			w.uri(m.Value)
		case m.Key == "resource" && kind == "resource":
			w.resource(m.Value)
		}
	}
}

// resource walks over ResourceContents.
func (w *rewriter) resource(at mcp.Span) {
	for m := range mcp.Members(w.raw, at) {
		switch m.Key {
		case "uri":
			w.uri(m.Value)
		case "_meta":
			w.meta(m.Value)
		}
	}
}

// meta walks over `_meta`: both forms of the key under which a tool names its
// user interface (ext-apps, Tool Metadata).
func (w *rewriter) meta(at mcp.Span) {
	if !mayHoldURI(at.In(w.raw)) {
		return
	}
	for m := range mcp.Members(w.raw, at) {
		switch m.Key {
		case "ui":
			for ui := range mcp.Members(w.raw, m.Value) {
				if ui.Key == "resourceUri" {
					w.uri(ui.Value)
				}
			}
		case "ui/resourceUri":
			w.uri(m.Value)
		}
	}
}

func (w *rewriter) uri(at mcp.Span) {
	if uri, ok := mcp.String(w.raw, at); ok && w.mapURI != nil {
		if exposed, ok := w.mapURI(uri); ok {
			spliceString(w.e, w.raw, at, uri, exposed)
		}
	}
}

// spliceString changes the JSON string at at, which means old, to mean with. Where
// only something is put in front or in between, the other bytes stay as they are
// escaped.
func spliceString(e *mcp.Edits, raw []byte, at mcp.Span, old, with string) {
	if with == old {
		return
	}
	if added, ok := strings.CutSuffix(with, old); ok {
		e.Insert(at.Start+1, quoteInner(added))
		return
	}
	n := 0
	for body := raw[at.Start+1:]; n < len(old) && n < len(with) && old[n] == with[n] && body[n] == old[n] && old[n] != '\\'; n++ {
	}
	if added, ok := strings.CutSuffix(with[n:], old[n:]); ok {
		e.Insert(at.Start+1+n, quoteInner(added))
		return
	}
	e.Replace(at, mcp.AppendQuote(nil, with))
}

// quoteInner gives s as it stands inside a JSON string.
func quoteInner(s string) []byte {
	q := mcp.AppendQuote(nil, s)
	return q[1 : len(q)-1]
}

// unwrapArguments adds the edits that give a tool the original form of its own
// upstream's URIs: string values at any depth of the arguments that are wholly
// an exposed URI of that alias. args is a span of raw, which has been validated.
// Keys and all else stay. It tells whether there are any.
//
// It reads the text once from left to right, so its work does not grow with the
// depth, and decodes only strings that start with the alias.
func unwrapArguments(e *mcp.Edits, raw []byte, args mcp.Span, alias string) (found bool) {
	in := args.In(raw)
	if !mayHoldAlias(in, alias) && !mayEscape(in) {
		return false
	}
	for i := 0; i < len(in); {
		open := bytes.IndexByte(in[i:], '"')
		if open < 0 {
			return found
		}
		start := i + open
		i = stringEnd(in, start)
		from, to := aliasIn(in[start+1:i-1], alias)
		if to == 0 || isKey(in, i) {
			continue
		}
		at := mcp.Span{Start: args.Start + start, End: args.Start + i}
		if s, ok := mcp.String(raw, at); ok && isExposedURI(alias, s) {
			e.Replace(mcp.Span{Start: at.Start + 1 + from, End: at.Start + 1 + to}, nil)
			found = true
		}
	}
	return found
}

// mayHoldAlias tells whether raw holds the alias and `+`.
func mayHoldAlias(raw []byte, alias string) bool {
	for i := 0; ; i++ {
		plus := bytes.IndexByte(raw[i:], '+')
		if plus < 0 {
			return false
		}
		i += plus
		if i >= len(alias) && string(raw[i-len(alias):i]) == alias {
			return true
		}
	}
}

// isKey tells whether the JSON string that ends before i is the key of a member.
func isKey(raw []byte, i int) bool {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i < len(raw) && raw[i] == ':'
}

// aliasIn finds the alias and `+` at the start of an exposed URI: body is the
// inside of a JSON string as it is escaped. to is 0 when they are not there.
func aliasIn(body []byte, alias string) (from, to int) {
	from = literalLen(body, uiPrefix)
	n := literalLen(body[from:], alias)
	if n == 0 {
		return 0, 0
	}
	plus := literalLen(body[from+n:], "+")
	if plus == 0 {
		return 0, 0
	}
	return from, from + n + plus
}

// literalLen is the number of bytes that stand for the ASCII string want at the
// start of the inside of a JSON string, escapes included; 0 when it starts
// otherwise. Letters match in any case: what uses it compares the decoded string.
func literalLen(body []byte, want string) int {
	i := 0
	for n := range len(want) {
		switch c := want[n]; {
		case i < len(body) && body[i]|0x20 == c|0x20:
			i++
		case c == '/' && i+1 < len(body) && body[i] == '\\' && body[i+1] == c:
			i += 2
		case i+5 < len(body) && body[i] == '\\' && body[i+1] == 'u' && hexByte(body[i+2:i+6])|0x20 == c|0x20:
			i += 6
		default:
			return 0
		}
	}
	return i
}

// hexByte reads four hexadecimal digits; 0 for what is no ASCII character.
func hexByte(digits []byte) byte {
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil || n >= 0x80 {
		return 0
	}
	return byte(n)
}

// isExposedURI tells whether s as a whole is an exposed URI of the alias. Behind
// a scheme and `//` it takes what real servers put into their URIs (spaces, say);
// else only what may stand in a URI (RFC 3986; RFC 3987 for other scripts), since
// prose may start with `alias+word:`, too.
func isExposedURI(alias, s string) bool {
	a, original, ok := splitURI(s)
	if !ok || a != alias {
		return false
	}
	n := schemeLen(original)
	if n == 0 || n+1 >= len(original) || original[n] != ':' {
		return false
	}
	loose := strings.HasPrefix(original[n+1:], "//")
	for i := range len(original) {
		c := original[i]
		if c < 0x20 || c == 0x7f || !loose && strings.IndexByte(" \"<>\\^`{|}", c) >= 0 {
			return false
		}
	}
	return true
}
