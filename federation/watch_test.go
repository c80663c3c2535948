package federation

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestCallsThatOweNoHeaders(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`)
	var got http.Header
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		got = r.Header.Clone()
		echoName(w, r, m)
	})
	r := newRig(t, nil, up("a", p))
	for _, sent := range []string{"", "Bern"} {
		c := r.callOf("", mcp.MethodToolsCall, `"name":"a_q","arguments":{"region":"Zürich"}`)
		c.NoHeaders = true
		if sent != "" {
			c.Header.Set("Mcp-Param-Region", sent)
		}
		r.do(c)
		if v := got.Values("Mcp-Param-Region"); len(v) != 1 || v[0] != mcp.EncodeHeader("Zürich") {
			t.Errorf("sent %q, the upstream got %q", sent, v)
		}
	}
}

func TestWatchable(t *testing.T) {
	with, without := newPeer(t), newPeer(t)
	without.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"resources":{}},"ttlMs":60000,"cacheScope":"public"}`)
	with.list(kindResources, `{"uri":"doc://1","name":"one"}`)
	r := newRig(t, nil, up("a", with), up("b", without))
	r.do(r.callOf("", mcp.MethodDiscover, ""))
	tests := []struct {
		alias, uri string
		code       int
	}{
		{"", "a+doc://1", 0},
		{"", "a+doc://unlisted", 0},
		{"a", "doc://1", 0},
		{"", "b+doc://1", mcp.CodeInvalidParams},
		{"b", "doc://1", mcp.CodeInvalidParams},
		{"", "doc://1", mcp.CodeInvalidParams},
		{"", "c+doc://1", mcp.CodeInvalidParams},
	}
	for _, tt := range tests {
		err := r.fed.Watchable(context.Background(), r.callOf(tt.alias, "resources/subscribe", fmt.Sprintf(`"uri":%q`, tt.uri)))
		switch {
		case tt.code == 0 && err != nil:
			t.Errorf("%q %s: %v", tt.alias, tt.uri, err)
		case tt.code != 0 && err == nil:
			t.Errorf("%q %s: no error", tt.alias, tt.uri)
		case tt.code != 0:
			wantCode(t, err, tt.code)
		}
	}
	if err := r.fed.Watchable(context.Background(), r.callOf("", "resources/subscribe", "")); err == nil {
		t.Error("no URI: no error")
	}
}
