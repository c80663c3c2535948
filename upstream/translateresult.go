package upstream

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// resultTypeComplete is spliced into results, which in the handshake era have no
// type (2026-07-28, basic/index, ResultType).
const resultTypeComplete = `"resultType":"` + mcp.ResultComplete + `"`

// withResultType gives a result its type where it has none: the member is the
// first one, and all other bytes stay as they are. The message is changed in its
// buffer.
func withResultType(buf *mcp.Buffer, m *mcp.Message) {
	if m.ResultType.Ok() {
		return
	}
	at := m.Result.Start + 1
	member := resultTypeComplete
	if rest := bytes.TrimLeft(m.Raw[at:], " \t\r\n"); rest[0] != '}' {
		member += ","
	}
	buf.B = slices.Insert(buf.B, at, []byte(member)...)
	shift(m, at, len(member))
	m.Raw = buf.B
	m.ResultType = mcp.Text{
		Span:  mcp.Span{Start: at + len(`"resultType":`), End: at + len(resultTypeComplete)},
		Value: mcp.ResultComplete, IsString: true,
	}
}

// shift moves the places of all members of a message, after n bytes have been
// inserted at an offset.
func shift(m *mcp.Message, at, n int) {
	for _, s := range []*mcp.Span{
		&m.ID, &m.Params, &m.Result, &m.Error, &m.Meta, &m.ErrorData,
		&m.ResultType.Span, &m.RequestState.Span, &m.CacheScope.Span, &m.NextCursor.Span,
		&m.InputRequests, &m.TTLMs, &m.IsError, &m.Items,
		&m.ProgressToken, &m.Notifications, &m.SubscriptionID,
		&m.URI.Span, &m.TaskID.Span, &m.Level.Span,
	} {
		if s.End > at { // those that are absent are at 0
			s.End += n
			if s.Start >= at {
				s.Start += n
			}
		}
	}
}

// withCode gives an error another code.
func withCode(m *mcp.Message, code int, maxDepth int) (*mcp.Message, error) {
	var edits mcp.Edits
	edits.Replace(mcp.Find(m.Raw, m.Error, "code"), strconv.AppendInt(nil, int64(code), 10))
	return mcp.ParseMessage(edits.AppendTo(nil, m.Raw), maxDepth)
}

// readdressed gives a message the id and the progress token of another request
// than the one that the upstream knows. What is nil stays.
func readdressed(m *mcp.Message, id, token []byte, maxDepth int) (*mcp.Message, error) {
	var edits mcp.Edits
	if m.ID.Ok() && id != nil {
		edits.Replace(m.ID, id)
	}
	if m.ProgressToken.Ok() && token != nil {
		edits.Replace(m.ProgressToken, token)
	}
	if edits.Empty() {
		return m, nil
	}
	return mcp.ParseMessage(edits.AppendTo(nil, m.Raw), maxDepth)
}

// discoverResult makes the answer to server/discover from what initialize was
// answered with (2026-07-28, server/discover). Capabilities pass as they are,
// except for the tasks of 2025-11-25, which are others than those of today.
func discoverResult(id []byte, offers *offers) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	b = append(b, `,"result":{"resultType":"complete","supportedVersions":["`+mcp.VersionModern+`"],"capabilities":`...)
	raw := offers.capabilities
	whole := mcp.Span{Start: 0, End: len(raw)}
	var edits mcp.Edits
	edits.RemoveMember(raw, whole, "tasks")
	if ext := mcp.Find(raw, whole, "extensions"); isObject(raw, ext) {
		edits.RemoveMember(raw, ext, mcp.ExtensionTasks)
	}
	b = edits.AppendTo(b, raw)
	if len(offers.instructions) > 0 {
		b = append(append(b, `,"instructions":`...), offers.instructions...)
	}
	if len(offers.serverInfo) > 0 {
		b = append(append(b, `,"_meta":{"`+mcp.MetaServerInfo+`":`...), offers.serverInfo...)
		b = append(b, '}')
	}
	return append(b, "}}"...)
}

// offers is what a server said of itself when it was initialized.
type offers struct {
	version                                string
	capabilities, serverInfo, instructions []byte // raw JSON; nil when absent

	logging, subscribe, tasks         bool // tasks: tools/call as a task of 2025-11-25
	toolsChanged, promptsChanged      bool
	resourcesChanged, anyNotification bool
}

// readOffers reads an InitializeResult; nil when it is none.
func readOffers(m *mcp.Message) *offers {
	raw := m.Raw
	version, ok := mcp.String(raw, mcp.Find(raw, m.Result, "protocolVersion"))
	caps := mcp.Find(raw, m.Result, "capabilities")
	if !ok {
		return nil
	}
	o := &offers{version: version, capabilities: []byte("{}")}
	if isObject(raw, caps) {
		o.capabilities = slices.Clone(caps.In(raw))
	}
	if info := mcp.Find(raw, m.Result, "serverInfo"); isObject(raw, info) {
		o.serverInfo = slices.Clone(info.In(raw))
	}
	if text := mcp.Find(raw, m.Result, "instructions"); text.Ok() && raw[text.Start] == '"' {
		o.instructions = slices.Clone(text.In(raw))
	}
	isTrue := func(key, flag string) bool {
		obj := mcp.Find(raw, caps, key)
		return isObject(raw, obj) && string(mcp.Find(raw, obj, flag).In(raw)) == "true"
	}
	o.logging = mcp.Find(raw, caps, "logging").Ok()
	o.subscribe = isTrue("resources", "subscribe")
	o.toolsChanged = isTrue("tools", "listChanged")
	o.promptsChanged = isTrue("prompts", "listChanged")
	o.resourcesChanged = isTrue("resources", "listChanged")
	o.anyNotification = o.subscribe || o.toolsChanged || o.promptsChanged || o.resourcesChanged
	requests := mcp.Find(raw, mcp.Find(raw, caps, "tasks"), "requests")
	o.tasks = mcp.Find(raw, mcp.Find(raw, requests, "tools"), "call").Ok()
	return o
}
