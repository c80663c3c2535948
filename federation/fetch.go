package federation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// ownCapabilities is what the gateway declares when it asks for itself: all that a
// client may have and the extensions that it routes, so that upstreams show what
// needs them. Whether a client has what a call needs is between it and the
// upstream: calls declare its own.
var ownCapabilities = []byte(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{},` +
	`"extensions":{"` + mcp.ExtensionTasks + `":{},"` + mcp.ExtensionUI + `":{"mimeTypes":["text/html;profile=mcp-app"]}}}`)

// load gives one list, or the discovery, from the upstream, which is not asked for
// what it does not offer.
func (m *member) load(ctx context.Context, k kind) (*segment, error) {
	if k != kindDiscover && !m.offers(ctx, k) {
		return m.builder(k).finish(), nil
	}
	seg, _, err := m.loadAll(ctx, k)
	return seg, err
}

// loadAll fetches all pages of one list, or the discovery, from the upstream. It
// also gives the messages that it is made of.
func (m *member) loadAll(ctx context.Context, k kind) (*segment, [][]byte, error) {
	if k == kindDiscover {
		return m.loadDiscover(ctx)
	}
	for range maxRestarts {
		seg, pages, err := m.loadPages(ctx, k)
		if err != errCursorRefused {
			return seg, pages, err
		}
	}
	return nil, nil, m.nonsense(upstream.ClassRejected, "%s refuses its own cursors", k.method())
}

// errCursorRefused tells that an upstream does not know a cursor of its own any
// more, so that the list has to be read from its beginning
// (2026-07-28, server/utilities/caching, Interaction with Pagination).
var errCursorRefused = errors.New("the cursor was refused")

// loadPages fetches all pages of one list.
func (m *member) loadPages(ctx context.Context, k kind) (*segment, [][]byte, error) {
	b := m.builder(k)
	var pages [][]byte
	var params []mcp.Param
	seen := map[string]bool{}
	for page := 1; ; page++ {
		if page > m.domain.fed.opts.Limits.MaxPages {
			return nil, nil, m.nonsense(upstream.ClassTooLarge, "more than %d pages", m.domain.fed.opts.Limits.MaxPages)
		}
		msg, err := m.ask(ctx, k.method(), params)
		if err != nil {
			return nil, nil, err
		}
		if msg.Kind == mcp.KindError {
			switch {
			case msg.Code == mcp.CodeMethodNotFound && page == 1:
				return b.finish(), pages, nil
			case msg.Code == mcp.CodeInvalidParams && page > 1:
				return nil, nil, errCursorRefused
			}
			return nil, nil, m.nonsense(upstream.ClassRejected, "%s answered with error %d", k.method(), msg.Code)
		}
		if err := b.page(msg); err != nil {
			return nil, nil, err
		}
		pages = append(pages, msg.Raw)
		// An empty string is a cursor, and an empty page is not the end
		// (2026-07-28, server/utilities/pagination).
		if !msg.NextCursor.Ok() {
			return b.finish(), pages, nil
		}
		cursor := string(msg.NextCursor.In(msg.Raw))
		if !msg.NextCursor.IsString {
			return nil, nil, m.nonsense(upstream.ClassProtocol, "nextCursor is no string")
		}
		if seen[cursor] {
			return nil, nil, m.nonsense(upstream.ClassProtocol, "the cursors of %s form a loop", k.method())
		}
		seen[cursor] = true
		params = []mcp.Param{{Key: "cursor", Value: []byte(cursor)}}
	}
}

// offers tells whether the upstream may have a list of that kind. What is known of
// its capabilities is asked for anew when it is old, since upstreams gain them;
// one that cannot say is asked for the list.
func (m *member) offers(ctx context.Context, k kind) bool {
	seg := m.known(kindDiscover)
	if seg == nil || seg.discover.offers(k) {
		return true
	}
	if m.domain.fed.now().Before(seg.fetched.Add(seg.ttl)) {
		return false
	}
	seg, err := m.refresh(ctx, kindDiscover)
	return err != nil || seg.discover.offers(k)
}

// ask sends one request of the gateway's own and gives its final message, which
// is the caller's to keep. An *upstream.Error is returned as it is.
func (m *member) ask(ctx context.Context, method string, params []mcp.Param) (*mcp.Message, error) {
	f := m.domain.fed
	id := f.nextID()
	buf := mcp.GetBuffer(512)
	buf.B = mcp.AppendRequest(buf.B, id, method, f.clientInfo, ownCapabilities, params)
	req := &upstream.Request{Method: method, ID: strconv.AppendInt(nil, id, 10), Body: buf}
	switch method {
	case mcp.MethodResourcesRead:
		req.Name, req.HasName = readParam(params, "uri"), true
	case mcp.MethodTasksGet:
		req.Name, req.HasName = readParam(params, "taskId"), true
	}
	resp, err := m.doer.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Close()
	for {
		msg, err := resp.Next()
		if err != nil {
			return nil, err
		}
		if msg.Kind != mcp.KindResult && msg.Kind != mcp.KindError {
			continue
		}
		kept := *msg
		kept.Raw = slices.Clone(msg.Raw)
		return &kept, nil
	}
}

// readParam gives a parameter that is a JSON string.
func readParam(params []mcp.Param, key string) string {
	for _, p := range params {
		if p.Key == key {
			s, _ := mcp.String(p.Value, mcp.Span{Start: 0, End: len(p.Value)})
			return s
		}
	}
	return ""
}

// nonsense makes the failure of an upstream whose answer cannot be used.
func (m *member) nonsense(class upstream.Class, format string, args ...any) error {
	return &upstream.Error{Alias: m.conf.Alias, Class: class, Err: fmt.Errorf(format, args...)}
}

// segmentBuilder collects the pages of one list.
type segmentBuilder struct {
	member *member
	old    *segment // the one before; may be nil
	seg    *segment
	ttl    time.Duration // the least of the pages; -1 before the first
	pages  int
	seen   int  // items so far, with those that were left out
	size   int  // bytes of the pages
	mixed  bool // pages differ in scope
}

func (m *member) builder(k kind) *segmentBuilder {
	return &segmentBuilder{member: m, old: m.known(k), seg: &segment{kind: k, index: map[string]*item{}, public: true}, ttl: -1}
}

// page takes one page's result.
func (b *segmentBuilder) page(msg *mcp.Message) error {
	m, raw := b.member, msg.Raw
	if msg.ResultType.IsString && msg.ResultType.Value != mcp.ResultComplete {
		return m.nonsense(upstream.ClassProtocol, "%s answered with resultType %q", b.seg.kind.method(), msg.ResultType.Value)
	}
	list := mcp.Find(raw, msg.Result, b.seg.kind.items())
	if !list.Ok() || raw[list.Start] != '[' {
		return m.nonsense(upstream.ClassProtocol, "%s answered without an array %q", b.seg.kind.method(), b.seg.kind.items())
	}
	public := msg.CacheScope.Value == "public"
	if b.pages > 0 && public != b.seg.public {
		b.mixed = true
	}
	b.seg.public = public
	ttl := m.ttlOf(msg, m.defaultListTTL())
	if b.ttl < 0 || ttl < b.ttl {
		b.ttl = ttl
	}
	if b.pages == 0 {
		b.extras(msg)
	}
	b.pages++
	limits := &m.domain.fed.opts.Limits
	if b.size += len(raw); b.size > limits.MaxListBytes {
		return m.nonsense(upstream.ClassTooLarge, "more than %d bytes", limits.MaxListBytes)
	}
	for at := range mcp.Elements(raw, list) {
		if b.seen >= limits.MaxItems {
			return m.nonsense(upstream.ClassTooLarge, "more than %d items", limits.MaxItems)
		}
		b.add(raw[at.Start:at.End:at.End])
	}
	return nil
}

// extras keeps what else the first page's result holds, for the endpoint that
// shows this upstream alone.
func (b *segmentBuilder) extras(msg *mcp.Message) {
	for mem := range mcp.Members(msg.Raw, msg.Result) {
		switch mem.Key {
		case b.seg.kind.items(), "nextCursor", "ttlMs", "cacheScope", "resultType":
		case "_meta":
			b.seg.meta = slices.Clone(mem.Value.In(msg.Raw))
		default:
			b.seg.extras = append(b.seg.extras, ',')
			b.seg.extras = append(b.seg.extras, mem.At.In(msg.Raw)...)
		}
	}
}

// add takes one item, or notes why it is left out.
func (b *segmentBuilder) add(raw []byte) {
	k := b.seg.kind
	it, reason := readItem(k, raw)
	b.seen++
	if reason != "" {
		b.reject("item "+strconv.Itoa(b.seen), reason)
		return
	}
	if b.seg.index[it.name] != nil {
		b.reject(it.name, "is there a second time")
		return
	}
	if reason := b.check(it); reason != "" {
		b.reject(it.name, reason)
		return
	}
	if it.note != "" {
		b.seg.notes = append(b.seg.notes, rejection{it.name, it.note})
	}
	b.seg.items = append(b.seg.items, it)
	b.seg.index[it.name] = it
}

// check reads what is needed of a tool or template, and gives the reason to leave
// it out. What has not changed was checked before.
func (b *segmentBuilder) check(it *item) (reason string) {
	if b.old != nil {
		if before := b.old.index[it.name]; before != nil && bytes.Equal(before.raw, it.raw) {
			it.params, it.match, it.note = before.params, before.match, before.note
			return ""
		}
	}
	switch b.seg.kind {
	case kindTools:
		if it.params, reason, it.note = checkTool(it.raw); reason == "" {
			reason = checkPin(&b.member.conf, it)
		}
	case kindTemplates:
		match, err := templateMatcher(it.name)
		if err != nil {
			// It is shown all the same: clients may understand it.
			it.note = err.Error()
		}
		it.match = match
	}
	return reason
}

func (b *segmentBuilder) reject(name, reason string) {
	b.seg.rejected = append(b.seg.rejected, rejection{name, reason})
}

// finish completes the segment.
func (b *segmentBuilder) finish() *segment {
	seg := b.seg
	if b.pages == 0 {
		b.ttl = b.member.defaultListTTL()
	}
	// Pages that differ in scope make a private list (2026-07-28,
	// server/utilities/caching: the same scope on all pages).
	seg.public = seg.public && !b.mixed
	seg.ttl = b.ttl
	seg.fetched = b.member.domain.fed.now()
	// The order of a list says nothing, and must decide nothing.
	slices.SortFunc(seg.items, func(a, b *item) int { return strings.Compare(a.name, b.name) })
	h := sha256.New()
	var n [8]byte
	for _, it := range seg.items {
		binary.BigEndian.PutUint64(n[:], uint64(len(it.raw)))
		h.Write(n[:])
		h.Write(it.raw)
	}
	h.Sum(seg.digest[:0])
	return seg
}

// defaultListTTL is how long a list without ttlMs is fresh.
func (m *member) defaultListTTL() time.Duration {
	if m.conf.Cache.ListTTL != nil {
		return *m.conf.Cache.ListTTL
	}
	return m.domain.fed.opts.Limits.ListTTL
}

// maxTTL bounds what an upstream may claim, so that times do not overflow.
const maxTTL = 365 * 24 * time.Hour

// ttlOf reads ttlMs: absent or no number means absent, negative counts as 0
// (2026-07-28, server/utilities/caching).
func (m *member) ttlOf(msg *mcp.Message, absent time.Duration) time.Duration {
	if !msg.TTLMs.Ok() {
		return absent
	}
	ms, err := json.Number(msg.TTLMs.In(msg.Raw)).Float64()
	switch {
	case err != nil:
		return absent
	case ms <= 0:
		return 0
	case ms >= float64(maxTTL/time.Millisecond):
		return maxTTL
	}
	return time.Duration(ms) * time.Millisecond
}

// loadDiscover asks server/discover.
func (m *member) loadDiscover(ctx context.Context) (*segment, [][]byte, error) {
	msg, err := m.ask(ctx, mcp.MethodDiscover, nil)
	if err != nil {
		return nil, nil, err
	}
	if msg.Kind == mcp.KindError {
		return nil, nil, m.nonsense(upstream.ClassRejected, "server/discover answered with error %d", msg.Code)
	}
	return m.discoverSegment(msg), [][]byte{msg.Raw}, nil
}

// discoverSegment makes the segment of a DiscoverResult.
func (m *member) discoverSegment(msg *mcp.Message) *segment {
	raw := msg.Result.In(msg.Raw)
	return &segment{
		kind:     kindDiscover,
		fetched:  m.domain.fed.now(),
		ttl:      m.ttlOf(msg, m.defaultListTTL()),
		public:   msg.CacheScope.Value == "public",
		digest:   sha256.Sum256(raw),
		discover: readDiscover(raw),
	}
}

// readDiscover reads what the gateway needs of a DiscoverResult.
func readDiscover(raw []byte) *discovered {
	whole := mcp.Span{Start: 0, End: len(raw)}
	c := &discovered{raw: raw, extensions: map[string]bool{}}
	c.instructions, _ = mcp.String(raw, mcp.Find(raw, whole, "instructions"))
	isTrue := func(obj mcp.Span, key string) bool { return string(mcp.Find(raw, obj, key).In(raw)) == "true" }
	for cap := range mcp.Members(raw, mcp.Find(raw, whole, "capabilities")) {
		switch cap.Key {
		case "tools":
			c.tools, c.toolsChanged = true, isTrue(cap.Value, "listChanged")
		case "prompts":
			c.prompts, c.promptsChanged = true, isTrue(cap.Value, "listChanged")
		case "resources":
			c.resources, c.resourcesChanged = true, isTrue(cap.Value, "listChanged")
			c.subscribe = isTrue(cap.Value, "subscribe")
		case "completions":
			c.completions = true
		case "logging":
			c.logging = true
		case "extensions":
			for ext := range mcp.Members(raw, cap.Value) {
				c.extensions[ext.Key] = true
			}
		}
	}
	return c
}
