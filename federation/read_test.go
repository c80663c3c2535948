package federation

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestReadFollowsTheCacheHints(t *testing.T) {
	tests := []struct {
		name, hints string
		wantAsked   int // for three reads, one of them after a minute
		wantTTL     string
	}{
		{"absent", ``, 3, ""},
		{"zero", `,"ttlMs":0,"cacheScope":"public"`, 3, "0"},
		{"negative", `,"ttlMs":-5,"cacheScope":"public"`, 3, "-5"},
		{"public", `,"ttlMs":90000,"cacheScope":"public"`, 1, "30000"},
		{"private", `,"ttlMs":90000,"cacheScope":"private"`, 1, "30000"},
		{"short", `,"ttlMs":30000,"cacheScope":"public"`, 2, "30000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPeer(t)
			p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"uri":"doc://1","text":"x"}]`+tt.hints+`}`)
			r := newRig(t, nil, up("a", p))
			read := func() string { return r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)) }
			first := read()
			read()
			r.pass(time.Minute)
			last := read()
			if n := p.count(mcp.MethodResourcesRead); n != tt.wantAsked {
				t.Errorf("the upstream was asked %d times, want %d", n, tt.wantAsked)
			}
			if got := field(t, last, "result", "ttlMs"); got != tt.wantTTL {
				t.Errorf("ttlMs = %s, want %s", got, tt.wantTTL)
			}
			if got, want := field(t, last, "result", "contents"), field(t, first, "result", "contents"); got != want || got != `[{"uri":"a+doc://1","text":"x"}]` {
				t.Errorf("contents = %s, at first %s", got, want)
			}
		})
	}
}

func TestReadNeverStoresRetries(t *testing.T) {
	p := newPeer(t)
	p.handle(mcp.MethodResourcesRead, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		if !m.InputResponses.Ok() {
			writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{},"ttlMs":60000,"cacheScope":"public"}}`, m.ID.In(m.Raw)))
			return
		}
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}}`, m.ID.In(m.Raw)))
	})
	r := newRig(t, nil, up("a", p))
	for range 2 {
		r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`))
		r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1","inputResponses":{}`))
	}
	if n := p.count(mcp.MethodResourcesRead); n != 4 {
		t.Errorf("the upstream was asked %d times, want 4", n)
	}
}

func TestReadForgetsWhatBecamePrivate(t *testing.T) {
	p := newPeer(t)
	hints := func(scope string, ttl int) {
		p.result(mcp.MethodResourcesRead, fmt.Sprintf(`{"resultType":"complete","contents":[],"ttlMs":%d,"cacheScope":%q}`, ttl, scope))
	}
	hints("public", 1000)
	r := newRig(t, nil, up("a", p))
	read := func() string { return r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`)) }
	read()
	r.pass(2 * time.Second)
	hints("private", 60000)
	read()
	if got := field(t, read(), "result", "cacheScope"); got != `"private"` {
		t.Errorf("cacheScope = %s", got)
	}
	if n := p.count(mcp.MethodResourcesRead); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
}

func TestReadRoutes(t *testing.T) {
	a, b, c := newPeer(t), newPeer(t), newPeer(t)
	for _, p := range []*peer{a, b, c} {
		p.handle(mcp.MethodResourcesRead, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
			writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","contents":[{"uri":%q,"text":%q}],"ttlMs":0,"cacheScope":"public"}}`,
				m.ID.In(m.Raw), m.URI.Value, map[*peer]string{a: "a", b: "b", c: "c"}[p]))
		})
	}
	b.list(kindResources, `{"uri":"doc://b","name":"b"}`)
	c.list(kindTemplates, `{"uriTemplate":"tmpl://{x}","name":"c"}`)
	bare := func(alias string, p *peer) tenant.Upstream {
		u := up(alias, p)
		u.Prefix = tenant.PrefixNone
		return u
	}
	r := newRig(t, nil, up("a", a), bare("b", b), bare("c", c))
	for _, tt := range []struct{ endpoint, uri, want string }{
		{"", "a+any://thing", `[{"uri":"a+any://thing","text":"a"}]`},
		{"", "ui://a+app/main", `[{"uri":"ui://a+app/main","text":"a"}]`},
		{"", "doc://b", `[{"uri":"doc://b","text":"b"}]`},
		{"", "tmpl://1", `[{"uri":"tmpl://1","text":"c"}]`},
		{"", "b+doc://b", `[{"uri":"doc://b","text":"b"}]`},
		{"a", "any://thing", `[{"uri":"any://thing","text":"a"}]`},
	} {
		body := r.do(r.callOf(tt.endpoint, mcp.MethodResourcesRead, `"uri":"`+tt.uri+`"`))
		if diff := cmp.Diff(tt.want, field(t, body, "result", "contents")); diff != "" {
			t.Errorf("read of %s (-want +got):\n%s", tt.uri, diff)
		}
	}
	for _, uri := range []string{"other://x", "zz+doc://b", "", "a+"} {
		_, err := r.try(r.callOf("", mcp.MethodResourcesRead, `"uri":"`+uri+`"`))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
}

func TestWebLinksStayUnlessTheyAreResources(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("x"))
	p.list(kindResources, `{"uri":"https://known.example/1","name":"k"}`)
	p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[{"type":"resource_link","uri":"https://known.example/1","name":"k"},{"type":"resource_link","uri":"https://web.example/","name":"w"}]}`)
	r := newRig(t, nil, up("a", p))
	body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`))
	want := `[{"type":"resource_link","uri":"a+https://known.example/1","name":"k"},{"type":"resource_link","uri":"https://web.example/","name":"w"}]`
	if got := field(t, body, "result", "content"); got != want {
		t.Errorf("content = %s, want %s", got, want)
	}
}

func TestDiscover(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28","2031-01-01"],"capabilities":{"tools":{},"logging":{},"future":{"x":1}},"instructions":"Use a.","ttlMs":5000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1"}}}`)
	b.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true},"completions":{},"extensions":{"io.modelcontextprotocol/tasks":{},"com.example/other":{}}},"instructions":"Use b.","ttlMs":9000,"cacheScope":"private"}`)
	r := newRig(t, nil, up("a", a), up("b", b))
	got := r.do(r.callOf("", mcp.MethodDiscover, ""))
	want := `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"instructions":"## a\nUse a.\n\n## b\nUse b.","ttlMs":5000,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"causeway","title":"Causeway","version":"test"}}}}`
	if got != want {
		t.Errorf("merged:\n got %s\nwant %s", got, want)
	}
	r.pass(time.Second)
	got = r.do(r.callOf("a", mcp.MethodDiscover, ""))
	want = `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"logging":{},"future":{"x":1}},"instructions":"Use a.","ttlMs":4000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","version":"1"}}}}`
	if got != want {
		t.Errorf("one upstream:\n got %s\nwant %s", got, want)
	}
	b.Close()
	r.pass(3 * time.Hour)
	got = r.do(r.callOf("", mcp.MethodDiscover, ""))
	if field(t, got, "result", "capabilities", "completions") != "{}" {
		t.Errorf("an outage shrank the capabilities: %s", got)
	}
	if p := field(t, got, "result", "_meta", mcp.MetaPartial); p != `[{"alias":"b","reason":"connect"}]` {
		t.Errorf("partial = %s", p)
	}
}
