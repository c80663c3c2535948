package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestListMergesAllPagesInOrder(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	pages := map[string]string{
		"":            `"tools":[` + tool("zeta") + `],"nextCursor":""`,
		`""`:          `"tools":[],"nextCursor":"deep"`, // an empty page with a cursor is not the end
		`"deep"`:      `"tools":[` + tool("alpha") + `],"nextCursor":"l\u00e4st"`,
		`"l\u00e4st"`: `"tools":[` + tool("beta") + `],"nextCursor":null`,
	}
	a.handle(mcp.MethodToolsList, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		page, ok := pages[string(m.Cursor.In(m.Raw))]
		if !ok {
			t.Errorf("cursor %s was never given", m.Cursor.In(m.Raw))
		}
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s,"ttlMs":1000,"cacheScope":"public"}}`, m.ID.In(m.Raw), page))
	})
	b.list(kindTools, tool("b.dotted"), tool("two"))
	r := newRig(t, nil, up("zoo", a), up("bar", b))
	body := r.do(r.callOf("", mcp.MethodToolsList, ""))
	want := []string{"bar_b_dotted_" + hash8("b.dotted"), "bar_two", "zoo_alpha", "zoo_beta", "zoo_zeta"}
	if diff := cmp.Diff(want, names(t, kindTools, body)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := field(t, body, "result", "ttlMs"); got != "1000" {
		t.Errorf("ttlMs = %s, want the least, 1000", got)
	}
	if got := field(t, body, "result", "cacheScope"); got != `"public"` {
		t.Errorf("cacheScope = %s", got)
	}
	if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != "" {
		t.Errorf("partial = %s in a whole list", got)
	}
	if got := field(t, body, "id"); got != `"c-1"` {
		t.Errorf("id = %s", got)
	}
}

// hash8 is the suffix of a cleaned name.
func hash8(name string) string {
	exposed, _ := exposedName("x", "_", name)
	return exposed[len(exposed)-8:]
}

func TestListLoopsAndBounds(t *testing.T) {
	tests := []struct {
		name  string
		reply func(page int) string
		want  string
	}{
		{"a cursor that comes again", func(int) string { return `"tools":[],"nextCursor":"same"` }, "protocol"},
		{"pages without end", func(n int) string { return fmt.Sprintf(`"tools":[],"nextCursor":"%d"`, n) }, "too_large"},
		{"too many items", func(n int) string {
			return fmt.Sprintf(`"tools":[%s],"nextCursor":"%d"`, tool(fmt.Sprint("t", n))+","+tool(fmt.Sprint("u", n)), n)
		}, "too_large"},
		{"tools: null", func(int) string { return `"tools":null` }, "protocol"},
		{"no tools", func(int) string { return `"other":1` }, "protocol"},
		{"a cursor that is a number", func(int) string { return `"tools":[],"nextCursor":7` }, "protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			good, bad := newPeer(t), newPeer(t)
			good.list(kindTools, tool("fine"))
			page := 0
			bad.handle(mcp.MethodToolsList, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
				page++
				writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete",%s}}`, m.ID.In(m.Raw), tt.reply(page)))
			})
			r := newRig(t, func(l *Limits) { l.MaxPages, l.MaxItems = 50, 40 }, up("good", good), up("bad", bad))
			body := r.do(r.callOf("", mcp.MethodToolsList, ""))
			if diff := cmp.Diff([]string{"good_fine"}, names(t, kindTools, body)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			want := `[{"alias":"bad","reason":"` + tt.want + `"}]`
			if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != want {
				t.Errorf("partial = %s, want %s", got, want)
			}
			if got := field(t, body, "result", "ttlMs"); got != "0" {
				t.Errorf("ttlMs of a partial list = %s, want 0", got)
			}
		})
	}
}

func TestListPages(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.list(kindTools, tool("one"), tool("three"), tool("two"))
	b.list(kindTools, tool("one"), tool("two"))
	r := newRig(t, func(l *Limits) { l.PageSize = 2 }, up("a", a), up("b", b))
	var got []string
	cursor := ""
	for range 3 {
		params := ""
		if cursor != "" {
			params = `"cursor":` + cursor
		}
		body := r.do(r.callOf("", mcp.MethodToolsList, params))
		got = append(got, names(t, kindTools, body)...)
		cursor = field(t, body, "result", "nextCursor")
	}
	if cursor != "" {
		t.Errorf("a cursor after the last page: %s", cursor)
	}
	if diff := cmp.Diff([]string{"a_one", "a_three", "a_two", "b_one", "b_two"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	first := field(t, r.do(r.callOf("", mcp.MethodToolsList, "")), "result", "nextCursor")
	for _, tt := range []struct {
		name   string
		alias  string
		method string
		cursor string
	}{
		{"garbage", "", mcp.MethodToolsList, `"garbage"`},
		{"empty", "", mcp.MethodToolsList, `""`},
		{"no string", "", mcp.MethodToolsList, `7`},
		{"another endpoint", "a", mcp.MethodToolsList, first},
		{"another list", "", mcp.MethodPromptsList, first},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.try(r.callOf(tt.alias, tt.method, `"cursor":`+tt.cursor))
			wantCode(t, err, mcp.CodeInvalidParams)
		})
	}
	t.Run("the scope tightened", func(t *testing.T) {
		r.pass(2 * time.Minute)
		b.result(mcp.MethodToolsList, `{"resultType":"complete","tools":[],"ttlMs":60000,"cacheScope":"private"}`)
		if _, err := r.fed.domains["default"].member("b").refresh(t.Context(), kindTools); err != nil {
			t.Fatal(err)
		}
		_, err := r.try(r.callOf("", mcp.MethodToolsList, `"cursor":`+first))
		wantCode(t, err, mcp.CodeInvalidParams)
	})
}

// wantCode checks that err is a JSON-RPC error with that code.
func wantCode(t *testing.T, err error, code int) {
	t.Helper()
	var e *mcp.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error = %v, want code %d", err, code)
	}
}

func TestListServesFromMemoryAndRefreshes(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, tool("old"))
	r := newRig(t, nil, up("a", p))
	list := func() []string { return names(t, kindTools, r.do(r.callOf("", mcp.MethodToolsList, ""))) }
	for range 5 {
		list()
	}
	if n := p.count(mcp.MethodToolsList); n != 1 {
		t.Fatalf("upstream was asked %d times while the list was fresh, want once", n)
	}
	p.list(kindTools, tool("new"))
	r.pass(61 * time.Second)
	if got := list(); got[0] != "a_old" {
		t.Errorf("an expired list is served while one refresh runs: got %v", got)
	}
	refreshed(t, r, "a", kindTools, "new")
	if got := list(); got[0] != "a_new" {
		t.Errorf("after the refresh: got %v", got)
	}
	p.list(kindTools, tool("newer"))
	r.pass(10 * time.Minute)
	if got := list(); got[0] != "a_newer" {
		t.Errorf("beyond the stale window the refresh is waited for: got %v", got)
	}
}

// refreshed waits until the member's list has an item of that name first.
func refreshed(t *testing.T, r *rig, alias string, k kind, name string) {
	t.Helper()
	m := r.fed.domains["default"].member(alias)
	for {
		if seg := m.known(k); seg != nil && len(seg.items) > 0 && seg.items[0].name == name {
			return
		}
		if _, err := m.refresh(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
}

func TestListStaleIfError(t *testing.T) {
	p, other := newPeer(t), newPeer(t)
	p.list(kindTools, tool("kept"))
	other.list(kindTools, tool("fine"))
	r := newRig(t, nil, up("a", p), up("b", other))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	p.handle(mcp.MethodToolsList, func(w http.ResponseWriter, _ *http.Request, _ *mcp.Request) {
		http.Error(w, "secret stack trace", http.StatusInternalServerError)
	})
	r.pass(30 * time.Minute)
	body := r.do(r.callOf("", mcp.MethodToolsList, ""))
	if diff := cmp.Diff([]string{"a_kept", "b_fine"}, names(t, kindTools, body)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != `[{"alias":"a","reason":"http_status"}]` {
		t.Errorf("partial = %s", got)
	}
	if strings.Contains(body, "secret") {
		t.Errorf("the upstream's internals reached the client: %s", body)
	}
	r.pass(2 * time.Hour)
	body = r.do(r.callOf("", mcp.MethodToolsList, ""))
	if diff := cmp.Diff([]string{"b_fine"}, names(t, kindTools, body)); diff != "" {
		t.Errorf("beyond the second bound (-want +got):\n%s", diff)
	}
}

func TestListNeverShowsAnOutageAsEmpty(t *testing.T) {
	p := newPeer(t)
	p.Close()
	r := newRig(t, nil, up("gone", p))
	for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodDiscover} {
		endpoint := ""
		if method == mcp.MethodDiscover {
			endpoint = "gone"
			body := r.do(r.callOf("", method, ""))
			if field(t, body, "result", "capabilities", "tools") == "" || field(t, body, "result", "_meta", mcp.MetaPartial) != `[{"alias":"gone","reason":"connect"}]` {
				t.Errorf("the gateway itself cannot be discovered: %s", body)
			}
		}
		_, err := r.try(r.callOf(endpoint, method, ""))
		wantCode(t, err, mcp.CodeInternal)
		var e *mcp.Error
		if errors.As(err, &e) && !strings.HasPrefix(string(e.Data), `{"alias":"gone","reason":"`) {
			t.Errorf("%s: data = %s", method, e.Data)
		}
	}
}

func TestListDoesNotWaitTwiceForASilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent, good := newFake(t), newFake(t)
		good.list(kindTools, tool("fine"))
		release := make(chan struct{})
		silent.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
			<-release
			return says(200, resultFor(m, `{"resultType":"complete","tools":[`+tool("late")+`]}`)), nil
		})
		r, stop := newFakeRig(t, fakes(map[string]*fake{"silent": silent, "good": good}), nil)
		defer stop()
		start := time.Now()
		for range 3 {
			got, partial := r.listed("", kindTools)
			if diff := cmp.Diff([]string{"good_fine"}, got); diff != "" {
				t.Fatalf("names (-want +got):\n%s", diff)
			}
			if partial != `[{"alias":"silent","reason":"timeout"}]` {
				t.Fatalf("partial = %s", partial)
			}
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("three lists took %v, want the deadline of one", took)
		}
		if n := silent.count(mcp.MethodToolsList); n != 1 {
			t.Errorf("the silent upstream was asked %d times, want one pending request", n)
		}
		close(release)
		synctest.Wait()
		got, _ := r.listed("", kindTools)
		if diff := cmp.Diff([]string{"good_fine", "silent_late"}, got); diff != "" {
			t.Errorf("after it answered (-want +got):\n%s", diff)
		}
	})
}

func TestListZeroTTLRevalidatesFolded(t *testing.T) {
	p := newPeer(t)
	p.listTTL(kindTools, 0, tool("one"))
	r := newRig(t, nil, up("a", p))
	r.do(r.callOf("", mcp.MethodToolsList, ""))
	p.listTTL(kindTools, 0, tool("two"))
	body := r.do(r.callOf("", mcp.MethodToolsList, ""))
	if got := names(t, kindTools, body); got[0] != "a_two" {
		t.Errorf("a list with ttlMs 0 was served without revalidation: %v", got)
	}
	if got := field(t, body, "result", "ttlMs"); got != "0" {
		t.Errorf("ttlMs = %s", got)
	}
	// Concurrent revalidations fold into one.
	before := p.count(mcp.MethodToolsList)
	gate := make(chan struct{})
	p.handle(mcp.MethodToolsList, func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		<-gate
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[%s],"ttlMs":0}}`, m.ID.In(m.Raw), tool("three")))
	})
	m := r.fed.domains["default"].member("a")
	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			_, err := m.refresh(t.Context(), kindTools)
			done <- err
		}()
	}
	p.waitCount(mcp.MethodToolsList, before+1)
	close(gate)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := p.count(mcp.MethodToolsList) - before; n > 2 {
		t.Errorf("8 concurrent revalidations asked the upstream %d times", n)
	}
}

func TestListLeavesBadItemsOutOnly(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools,
		tool("good"), tool("good"), `{"inputSchema":{"type":"object"}}`, `7`,
		`{"name":"badHeader","inputSchema":{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}}`,
		`{"name":"badSchema","inputSchema":{"type":"object","properties":7}}`,
		`{"name":"noSchema"}`)
	r := newRig(t, nil, up("a", p))
	body := r.do(r.callOf("", mcp.MethodToolsList, ""))
	if diff := cmp.Diff([]string{"a_good"}, names(t, kindTools, body)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, name := range []string{"badHeader", "badSchema", "noSchema"} {
		if !strings.Contains(r.log.String(), name) {
			t.Errorf("%s was left out in silence", name)
		}
		_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"a_`+name+`","arguments":{}`))
		wantCode(t, err, mcp.CodeInvalidParams)
	}
}

func TestListWithoutTheCapabilityIsEmptyAndNoFailure(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.list(kindPrompts, `{"name":"p"}`)
	b.handle(mcp.MethodPromptsList, nil) // answers 404 with -32601
	r := newRig(t, nil, up("a", a), up("b", b))
	body := r.do(r.callOf("", mcp.MethodPromptsList, ""))
	if diff := cmp.Diff([]string{"a_p"}, names(t, kindPrompts, body)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != "" {
		t.Errorf("partial = %s", got)
	}
}

func TestPrefixNone(t *testing.T) {
	a, b, c := newPeer(t), newPeer(t), newPeer(t)
	a.list(kindTools, tool("search"))
	b.list(kindTools, tool("search"), tool("c_x"))
	c.list(kindTools, tool("x"))
	a.list(kindResources, `{"uri":"file:///a","name":"a"}`)
	b.list(kindResources, `{"uri":"file:///a","name":"a"}`)
	bare := func(alias string, p *peer) tenant.Upstream {
		u := up(alias, p)
		u.Prefix = tenant.PrefixNone
		return u
	}
	r := newRig(t, nil, bare("a", a), bare("b", b), up("c", c))
	body := r.do(r.callOf("", mcp.MethodToolsList, ""))
	if diff := cmp.Diff([]string{"b_c_x", "b_search", "c_x", "search"}, names(t, kindTools, body)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	body = r.do(r.callOf("", mcp.MethodResourcesList, ""))
	if diff := cmp.Diff([]string{"b+file:///a", "file:///a"}, names(t, kindResources, body)); diff != "" {
		t.Errorf("URIs (-want +got):\n%s", diff)
	}
	if !strings.Contains(r.log.String(), "exposed name is taken") {
		t.Error("the clash was not reported")
	}
}

func TestOneUpstreamEndpointShowsItAsItIs(t *testing.T) {
	p := newPeer(t)
	odd := `{ "name" : "odd.name/ü", "inputSchema":{"type":"object"},"x-future":{"n":9007199254740993} }`
	p.result(mcp.MethodToolsList, `{"resultType":"complete","tools":[`+odd+`],"ttlMs":5000,"cacheScope":"private","future":[1.0,1e400],"_meta":{"com.example/x":1}}`)
	r := newRig(t, nil, up("a", p))
	body := r.do(r.callOf("a", mcp.MethodToolsList, ""))
	if !strings.Contains(body, odd) {
		t.Errorf("the item changed: %s", body)
	}
	for path, want := range map[string]string{"future": `[1.0,1e400]`, "_meta": `{"com.example/x":1}`, "ttlMs": "5000", "cacheScope": `"private"`} {
		if got := field(t, body, "result", path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
}
