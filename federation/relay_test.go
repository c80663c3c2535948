package federation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What an upstream answers may depend on the request headers that it is given, so
// a private answer is for those who send the same ones.
func TestPrivateReadsAreForEqualHeadersOnly(t *testing.T) {
	p := newPeer(t)
	scope := "private"
	p.handle(mcp.MethodResourcesRead, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","contents":[{"uri":%q,"text":%q}],"ttlMs":60000,"cacheScope":%q}}`,
			m.ID.In(m.Raw), m.URI.Value, r.Header.Get("X-User")+r.Header.Get("Mcp-Param-Zone"), scope))
	})
	u := up("a", p)
	u.ForwardHeaders = []string{"x-user"}
	r := newRig(t, nil, u)
	read := func(uri, header, value string) string {
		c := r.callOf("", mcp.MethodResourcesRead, `"uri":"a+`+uri+`"`)
		c.Header.Set(header, value)
		return field(t, r.do(c), "result", "contents")
	}
	for _, header := range []string{"X-User", "Mcp-Param-Zone"} {
		uri := "doc://" + header
		for _, value := range []string{"alice", "bob", "alice"} {
			if got := read(uri, header, value); !strings.Contains(got, `"text":"`+value+`"`) {
				t.Errorf("%s: %s got %s", header, value, got)
			}
		}
	}
	if n := p.count(mcp.MethodResourcesRead); n != 4 {
		t.Errorf("the upstream was asked %d times, want once for each resource and user", n)
	}
	scope = "public"
	read("doc://open", "X-User", "alice")
	if got := read("doc://open", "X-User", "bob"); !strings.Contains(got, "alice") {
		t.Errorf("a public answer was not shared: %s", got)
	}
}

// The name of a request that merely passes through goes along in its header, too.
func TestUnknownMethodsKeepTheirName(t *testing.T) {
	p := newPeer(t)
	var got []string
	p.handle("example/odd", func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		got = append(got, r.Header.Get(mcp.HeaderName))
		writeJSON(w, 200, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID.In(m.Raw)))
	})
	r := newRig(t, nil, up("a", p))
	for _, name := range []string{"plain", "Zürich", ""} {
		c := r.callOf("a", "example/odd", `"name":"x"`)
		if name != "" {
			c.Header.Set(mcp.HeaderName, mcp.EncodeHeader(name))
		}
		r.do(c)
	}
	if diff := cmp.Diff([]string{"plain", mcp.EncodeHeader("Zürich"), ""}, got); diff != "" {
		t.Errorf("Mcp-Name (-want +got):\n%s", diff)
	}
	c := r.callOf("a", "example/odd", "")
	c.Header.Set(mcp.HeaderName, "=?base64?!!?=")
	_, err := r.try(c)
	wantCode(t, err, mcp.CodeHeaderMismatch)
}

// An upstream that refuses the headers of a request which no list says anything
// about is a failure of that upstream, whatever is in its lists.
func TestHeaderMismatchWithoutAList(t *testing.T) {
	p := newPeer(t)
	p.list(kindResources, `{"uri":"doc://1","name":"one"}`)
	mismatch := func(w http.ResponseWriter, _ *http.Request, m *mcp.Request) {
		writeJSON(w, 400, string(mcp.AppendErrorResponse(nil, m.ID.In(m.Raw), mcp.Errorf(mcp.CodeHeaderMismatch, "no"))))
	}
	p.handle(mcp.MethodResourcesRead, mismatch)
	p.handle(mcp.MethodTasksGet, mismatch)
	p.handle(mcp.MethodComplete, mismatch)
	r := newRig(t, nil, up("a", p))
	r.do(r.callOf("a", mcp.MethodResourcesList, ""))
	before := p.count(mcp.MethodToolsList)
	for _, c := range []*Call{
		r.callOf("a", mcp.MethodResourcesRead, `"uri":"doc://1"`),
		r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`),
		r.callOf("", mcp.MethodTasksGet, `"taskId":"a+t"`),
		r.callOf("", mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"a+doc://1"},"argument":{"name":"x","value":""}`),
	} {
		if _, err := r.try(c); classOf(err) != upstream.ClassRejected {
			t.Errorf("%s on %q: error = %v, want rejected", c.Request.Method, c.Endpoint.Alias, err)
		}
	}
	if n := p.count(mcp.MethodToolsList) - before; n != 0 {
		t.Errorf("the list of tools was read %d times", n)
	}
}

// The list that is read after a mismatch is one from after it.
func TestHeaderMismatchReadsTheListAnew(t *testing.T) {
	p := newFake(t)
	def := func(header string) string {
		return `{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}}`
	}
	p.list(kindTools, def("Region"))
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	r.listed("", kindTools)
	gate, asked := make(chan struct{}), make(chan struct{})
	first := true
	p.handle(mcp.MethodToolsList, func(_ context.Context, m *mcp.Request) (*answer, error) {
		if first {
			first = false
			close(asked)
			<-gate // this one is under way when the call is refused
			return says(200, resultFor(m, listResult(kindTools, 1000, def("Region")))), nil
		}
		return says(200, resultFor(m, listResult(kindTools, 1000, def("Zone")))), nil
	})
	p.handle(mcp.MethodToolsCall, func(_ context.Context, m *mcp.Request) (*answer, error) {
		defer close(gate)
		p.result(mcp.MethodToolsCall, `{"resultType":"complete","content":[]}`)
		return says(400, errorFor(m, mcp.CodeHeaderMismatch)), nil
	})
	d := r.fed.domains["default"]
	go func() { _, _ = d.member("a").refresh(context.Background(), kindTools) }()
	<-asked
	c := r.callOf("", mcp.MethodToolsCall, `"name":"a_q","arguments":{"region":"Bern"}`)
	c.NoHeaders = true
	r.do(c)
	if got := d.member("a").known(kindTools).index["q"].params[0].Name; got != "Zone" {
		t.Errorf("the second try was made with the header %s", got)
	}
}

// On a call's stream go what the call is about; the rest has no business there
// (2026-07-28, basic/transports/streamable-http, Receiving Messages).
func TestCallStreamsCarryNothingElse(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	foreign := []string{mcp.NotificationCancelled, mcp.NotificationAcknowledged, mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged,
		mcp.NotificationResourcesChanged, mcp.NotificationResourceUpdated, mcp.NotificationTasks}
	p.handle(mcp.MethodToolsCall, func(_ context.Context, m *mcp.Request) (*answer, error) {
		var msgs []string
		for _, method := range foreign {
			msgs = append(msgs, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"uri":"doc://1","taskId":"t"}}`, method, m.ID.In(m.Raw)))
		}
		return says(200, append(msgs, `{"jsonrpc":"2.0","method":"notifications/example/own","params":{"n":1.0}}`, resultFor(m, `{"content":[]}`))...), nil
	})
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	for _, alias := range []string{"", "a"} {
		name := map[string]string{"": "a_x", "a": "x"}[alias]
		c := r.callOf(alias, mcp.MethodToolsCall, `"name":"`+name+`"`)
		var got []string
		c.Notify = func(raw []byte) error { got = append(got, string(raw)); return nil }
		r.do(c)
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","method":"notifications/example/own","params":{"n":1.0}}`}, got); diff != "" {
			t.Errorf("endpoint %q (-want +got):\n%s", alias, diff)
		}
	}
}

func TestTasksOfOddUpstreams(t *testing.T) {
	tasks, plain, silent := newFake(t), newFake(t), newFake(t)
	plain.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":60000,"cacheScope":"public"}`)
	silent.fails(mcp.MethodDiscover, upstream.ClassConnect)
	silent.fails(mcp.MethodTasksGet, upstream.ClassConnect)
	// The specification's own example of a failed task has this resultType.
	failed := `{"resultType":"task","taskId":"t","status":"failed","error":{"code":-32603,"message":"no"}}`
	tasks.result(mcp.MethodTasksGet, failed)
	get := func(r *rig, id string) (string, error) {
		return r.try(r.callOf("", mcp.MethodTasksGet, `"taskId":"`+id+`"`))
	}

	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": tasks, "b": plain, "c": silent}), nil)
	defer stop()
	body, err := get(r, "a+t")
	if want := strings.Replace(failed, `"t"`, `"a+t"`, 1); err != nil || field(t, body, "result") != want {
		t.Errorf("got %s, %v, want %s", body, err, want)
	}
	// An upstream without tasks has none, whatever its id looks like.
	_, err = get(r, "b+t")
	wantCode(t, err, mcp.CodeInvalidParams)
	if n := plain.count(mcp.MethodTasksGet); n != 0 {
		t.Error("an upstream without tasks was asked for one")
	}
	if _, err = get(r, "c+t"); classOf(err) != upstream.ClassConnect {
		t.Errorf("error = %v, want the upstream's failure", err)
	}

	// Where the only upstream with tasks cannot be asked it does not look as if
	// there had never been tasks.
	r, stop = newFakeRig(t, fakes(map[string]*fake{"b": plain, "c": silent}), nil)
	defer stop()
	if _, err = get(r, "c+t"); classOf(err) != upstream.ClassConnect {
		t.Errorf("error = %v, want the upstream's failure", err)
	}
	_, err = get(r, "b+t")
	wantCode(t, err, mcp.CodeMethodNotFound)
}

// The contents of a resource that was read by its web address have the URI that
// was asked for; what else they link to stays.
func TestReadOfAnUnlistedWebResource(t *testing.T) {
	p := newFake(t)
	p.result(mcp.MethodResourcesRead, `{"resultType":"complete","contents":[{"uri":"https://web.example/1","text":"x"},{"uri":"https://web.example/2","text":"y"}],"ttlMs":60000,"cacheScope":"public"}`)
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	want := `[{"uri":"a+https://web.example/1","text":"x"},{"uri":"https://web.example/2","text":"y"}]`
	for range 2 { // the second is from the cache
		body := r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+https://web.example/1"`))
		if got := field(t, body, "result", "contents"); got != want {
			t.Errorf("contents = %s, want %s", got, want)
		}
	}
}

// Discovery of one upstream is marked as stale whatever its `_meta` is.
func TestStaleDiscoveryOfOneUpstream(t *testing.T) {
	for _, meta := range []string{``, `,"_meta":{"x":1}`, `,"_meta":null`} {
		p := newFake(t)
		p.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"public"`+meta+`}`)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
		r.do(r.callOf("a", mcp.MethodDiscover, ""))
		p.fails(mcp.MethodDiscover, upstream.ClassConnect)
		body := r.do(r.callOf("a", mcp.MethodDiscover, ""))
		if got := field(t, body, "result", "_meta", mcp.MetaPartial); got != `[{"alias":"a","reason":"connect"}]` {
			t.Errorf("with %s: %s", meta, body)
		}
		stop()
	}
}

// A call whose client left is no failure of the upstream.
func TestCallOfAClientThatLeft(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	p.handle(mcp.MethodToolsCall, func(ctx context.Context, _ *mcp.Request) (*answer, error) {
		cancel(left)
		<-ctx.Done()
		return nil, &upstream.Error{Alias: "a", Class: upstream.ClassCanceled, Err: ctx.Err()}
	})
	r, stop := newFakeRig(t, fakes(map[string]*fake{"a": p}), nil)
	defer stop()
	r.listed("", kindTools)
	if _, err := r.fed.Handle(ctx, r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`)); !errors.Is(err, left) {
		t.Errorf("error = %v", err)
	}
}

// A tool with parameter headers whose arguments hold URIs of its upstream sends
// headers that match what it sends.
func TestParameterHeadersOfUnwrappedArguments(t *testing.T) {
	p := newPeer(t)
	p.list(kindTools, `{"name":"q","inputSchema":{"type":"object","properties":{"doc":{"type":"string","x-mcp-header":"Doc"},"n":{"type":"integer","x-mcp-header":"N"}}}}`)
	var header, sent string
	p.handle(mcp.MethodToolsCall, func(w http.ResponseWriter, r *http.Request, m *mcp.Request) {
		header, sent = r.Header.Get("Mcp-Param-Doc")+" "+r.Header.Get("Mcp-Param-N"), string(m.Arguments.In(m.Raw))
		echoName(w, r, m)
	})
	r := newRig(t, nil, tenant.Upstream{Alias: "a", URL: p.URL, Prefix: tenant.PrefixAlias, Version: "1", ManagedBy: tenant.ManagedByFile})
	for _, uri := range []string{"a+doc://1", "doc://1"} {
		c := r.callOf("", mcp.MethodToolsCall, `"name":"a_q","arguments":{"doc":"`+uri+`","n":7}`)
		c.Header.Set("Mcp-Param-Doc", uri)
		c.Header.Set("Mcp-Param-N", "7")
		r.do(c)
		if header != "doc://1 7" || sent != `{"doc":"doc://1","n":7}` {
			t.Errorf("sent %s with %s", sent, header)
		}
	}
}
