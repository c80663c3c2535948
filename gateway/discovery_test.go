package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// metaNames are the tools that find tools.
var metaNames = []string{"call_tool", "get_tool_details", "list_upstreams", "search_tools"}

// searching are the lines of a tenant whose lists show them alone.
const searching = "    discovery: {mode: search, fromURL: true}\n"

func TestDiscoveryInTheURL(t *testing.T) {
	s := newScripted(t)
	s.tools("one")
	open := front(t, "", searching, upstreamOf("a", s.URL))
	closed := front(t, "", "    discovery: {mode: search}\n", upstreamOf("a", s.URL))
	tests := []struct {
		name, url string
		want      []string // nil for a refusal
	}{
		{"nothing", open.URL + "/mcp", metaNames},
		{"full", open.URL + "/mcp?discovery=full", []string{"a_one"}},
		{"search", open.URL + "/mcp?discovery=search", metaNames},
		{"auto", open.URL + "/mcp?discovery=auto", []string{"a_one"}},
		{"of a tenant by name", open.URL + "/t/default/mcp?discovery=full", []string{"a_one"}},
		{"beside others", open.URL + "/mcp?x=1&discovery=full&y", []string{"a_one"}},
		{"others alone", open.URL + "/mcp?x=1", metaNames},
		{"no value", open.URL + "/mcp?discovery=", metaNames},
		{"an unknown one", open.URL + "/mcp?discovery=all", nil},
		{"twice", open.URL + "/mcp?discovery=full&discovery=full", nil},
		{"in capitals", open.URL + "/mcp?discovery=FULL", nil},
		{"one upstream alone", open.URL + "/t/default/u/a/mcp?discovery=full", nil},
		{"not allowed", closed.URL + "/mcp?discovery=full", nil},
		{"not said where it is not allowed", closed.URL + "/mcp", metaNames},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newRawClient(t, tt.url)
			res := c.send(ask("tools/list", ""))
			if tt.want == nil {
				if f := readFailure(t, res.last()); res.status != http.StatusBadRequest || f.Error.Code != -32600 {
					t.Errorf("status %d: %s", res.status, res.last())
				}
				if got := c.send(ask("subscriptions/listen", `"notifications":{}`)); got.status != http.StatusBadRequest {
					t.Errorf("subscriptions/listen: status %d", got.status)
				}
				return
			}
			if diff := cmp.Diff(tt.want, toolNames(t, res.last())); res.status != http.StatusOK || diff != "" {
				t.Errorf("status %d, tools (-want +got):\n%s", res.status, diff)
			}
			for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
				old := newOldClient(t, tt.url, version, `{}`)
				if diff := cmp.Diff(tt.want, toolNames(t, old.ask("tools/list", ""))); diff != "" {
					t.Errorf("%s: tools (-want +got):\n%s", version, diff)
				}
			}
		})
	}
	// A session is good for the URL that it began at.
	old := newOldClient(t, open.URL+"/mcp?discovery=full", "2025-11-25", `{}`)
	old.url = open.URL + "/mcp"
	res := old.post(oldRequest(1, "tools/list", ""))
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("the session at another URL: status %d", res.StatusCode)
	}
}

// discovered is what a client saw on its way to a tool that is not listed.
type discovered struct {
	Version, Instructions string
	Listed                []string
	Found                 []struct {
		Name, Upstream, Description string
		Score                       float64
	}
	Details []struct {
		Name        string
		InputSchema struct{ Required []string }
	}
	Upstreams []string
	Booked    map[string]any
	Asked     []string
	Progress  []float64
}

// check holds what every client must have seen of the demo.
func (d *discovered) check(t *testing.T, version string) {
	t.Helper()
	if d.Version != version {
		t.Errorf("version %s, want %s", d.Version, version)
	}
	if !strings.HasPrefix(d.Instructions, "The tools of this server are not all listed. Find them with search_tools") || !strings.Contains(d.Instructions, "## travel") {
		t.Errorf("instructions: %s", d.Instructions)
	}
	if !slices.Equal(d.Listed, metaNames) {
		t.Errorf("listed: %q", d.Listed)
	}
	if len(d.Found) < 1 || len(d.Found) > 5 || d.Found[0].Name != "travel_bookHotel" || d.Found[0].Upstream != "travel" || d.Found[0].Score != 1 ||
		!strings.HasPrefix(d.Found[0].Description, "Book a hotel room in a city.") {
		t.Errorf("found: %+v", d.Found)
	}
	if len(d.Details) != 1 || d.Details[0].Name != "travel_bookHotel" || !slices.Contains(d.Details[0].InputSchema.Required, "checkIn") {
		t.Errorf("details: %+v", d.Details)
	}
	if !slices.Equal(slices.Sorted(slices.Values(d.Upstreams)), []string{"calendar", "travel", "weather"}) {
		t.Errorf("upstreams: %q", d.Upstreams)
	}
	if d.Booked["status"] != "booked" || d.Booked["room"] != "suite" || len(d.Asked) != 1 || !slices.Equal(d.Progress, []float64{1, 2, 3, 4}) {
		t.Errorf("booked %v, asked %q, progress %v", d.Booked, d.Asked, d.Progress)
	}
}

func TestGoClientDiscovers(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) { goDiscovers(t, startDemo(t, searching), version).check(t, version) })
	}
}

// goDiscovers has the Go SDK's client find, read about and call a tool.
func goDiscovers(t *testing.T, url, version string) *discovered {
	t.Helper()
	conns := &http.Transport{}
	t.Cleanup(conns.CloseIdleConnections)
	c := &goClient{t: t}
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: c.elicited, ProgressNotificationHandler: c.progressed,
	})
	ctx, cancel := context.WithTimeout(t.Context(), journeyTimeout)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: conns}},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	c.session = session
	d := &discovered{Version: session.InitializeResult().ProtocolVersion, Instructions: session.InitializeResult().Instructions, Listed: c.tools(ctx)}
	c.convert(c.call(ctx, "search_tools", map[string]any{"query": "reserve a hotel room"})["results"], &d.Found)
	name := d.Found[0].Name
	c.convert(c.call(ctx, "get_tool_details", map[string]any{"names": []string{name}})["tools"], &d.Details)
	var upstreams []struct{ Alias string }
	c.convert(c.call(ctx, "list_upstreams", map[string]any{})["upstreams"], &upstreams)
	for _, u := range upstreams {
		d.Upstreams = append(d.Upstreams, u.Alias)
	}
	d.Booked = c.call(ctx, "call_tool", map[string]any{"name": name, "arguments": map[string]any{"city": "Barcelona", "checkIn": "2026-06-15", "nights": 2}})
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d.Asked = c.seen.Asked
	for _, p := range c.seen.Progress {
		d.Progress = append(d.Progress, p.Progress)
	}
	return d
}

func TestTypeScriptClientDiscovers(t *testing.T) {
	node := gatewaytest.NewNode(t)
	for kind, version := range map[string]string{"client-modern": "2026-07-28", "client": "2025-11-25", "sdk": "2025-11-25"} {
		t.Run(kind, func(t *testing.T) {
			out := runNode(t, node, "../testdata/node/discover.mjs", kind, startDemo(t, searching))
			var d discovered
			if err := json.Unmarshal(out, &d); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			d.check(t, version)
		})
	}
}

// A client of the handshake era is asked, in the middle of a call through call_tool,
// what a modern upstream wants to know; and it is not told of changes that its own
// list does not show.
func TestHandshakeClientDiscovers(t *testing.T) {
	s := newScripted(t)
	s.tools("book")
	s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
		if strings.Contains(a.body, `"requestState":"st"`) && strings.Contains(a.body, `"arguments":{"n":9007199254740993}`) {
			answerResult(booked)(w, r, a)
			return
		}
		answerResult(inputRequired(`{"k":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}}`, "st"))(w, r, a)
	})
	c := newOldClient(t, front(t, "", searching, upstreamOf("a", s.URL)).URL+"/mcp", "2025-11-25", `{"elicitation":{}}`)
	stream := c.call(7, "call_tool", `,"arguments":{"name":"a_book","arguments":{"n":9007199254740993}}`)
	id := stream.question("elicitation/create", `,"params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)
	c.accepted(answers(id, `{"action":"accept","content":{}}`))
	last := stream.next()
	if string(memberOf(t, last, "id")) != "7" || memberOf(t, last, "result", "content") == nil {
		t.Errorf("the call ends with %s", last)
	}
	got := c.ask("tools/call", `"name":"search_tools","arguments":{"query":"book","detail":"name"}`)
	if names := memberOf(t, got, "result", "structuredContent", "results"); string(names) != `[{"name":"a_book","upstream":"a","score":1}]` {
		t.Errorf("found %s", got)
	}
}

// The retry of a parked call comes through call_tool to another replica.
func TestCallToolRetryElsewhere(t *testing.T) {
	up := newAsker(t)
	s := newSeveral(t, nil)
	s.store = tenant.NewMemory([]*tenant.Tenant{{
		Name: "default", Revision: 1, Separator: "_", Upstreams: []tenant.Upstream{upstreamAt("a", up.URL)},
		Discovery: tenant.Discovery{Mode: tenant.DiscoverySearch},
	}})
	a, b := s.start(), s.start()
	call := func(more string) string {
		return strings.Replace(greeting(more), `"name":"a_greet","arguments":{}`, `"name":"call_tool","arguments":{"name":"a_greet","arguments":{}}`, 1)
	}
	first := newRawClient(t, a.url+"/mcp").send(call(""))
	retry := retryOf(t, first.last(), accepted)
	go func() { up.proceed <- struct{}{} }()
	got := newRawClient(t, b.url+"/mcp").send(call(retry))
	if !strings.Contains(got.last(), `"text":"Hello Ana"`) || len(got.messages) != 3 {
		t.Errorf("%d %q", got.status, got.messages)
	}
}

// Whatever an upstream has by now: what clients of each era find is listed in full,
// and that is what they can call.
func TestFoundIsListedIsCallableInEachEra(t *testing.T) {
	s := newScripted(t)
	s.result("tools/call", `{"resultType":"complete","content":[]}`)
	set := func(names []string) {
		items := make([]string, len(names))
		for i, name := range names {
			items[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
		}
		s.result("tools/list", `{"resultType":"complete","tools":[`+strings.Join(items, ",")+`],"ttlMs":0,"cacheScope":"public"}`)
	}
	set(nil)
	url := front(t, "", searching, upstreamOf("a", s.URL)).URL + "/mcp"
	modern := newRawClient(t, url)
	send := map[string]func(method, params string) string{"modern": func(method, params string) string { return modern.send(ask(method, params)).last() }}
	full := map[string]func() string{"modern": func() string { return modern.at(url + "?discovery=full").send(ask("tools/list", "")).last() }}
	for _, version := range []string{"2025-11-25", "2025-03-26"} {
		c, all := newOldClient(t, url, version, `{}`), newOldClient(t, url+"?discovery=full", version, `{}`)
		send[version] = c.ask
		full[version] = func() string { return all.ask("tools/list", "") }
	}
	words := []string{"read", "write", "send", "draw"}
	rapid.Check(t, func(rt *rapid.T) {
		has := rapid.SliceOfDistinct(rapid.SampledFrom(words), rapid.ID).Draw(rt, "tools")
		set(has)
		for era := range send {
			listed := toolNames(t, full[era]())
			want := []string{}
			for _, name := range slices.Sorted(slices.Values(has)) {
				want = append(want, "a_"+name)
			}
			if !slices.Equal(listed, want) {
				rt.Fatalf("%s: listed %q, the upstream has %q", era, listed, want)
			}
			var found struct{ Results []struct{ Name string } }
			got := send[era]("tools/call", `"name":"search_tools","arguments":{"query":"read write send draw","detail":"name"}`)
			text := memberOf(t, string(memberOf(t, got, "result", "structuredContent")), "results")
			if err := json.Unmarshal([]byte(`{"Results":`+string(text)+`}`), &found); err != nil {
				rt.Fatalf("%s: %s: %v", era, got, err)
			}
			names := []string{}
			for _, f := range found.Results {
				names = append(names, f.Name)
			}
			if slices.Sort(names); !slices.Equal(names, listed) {
				rt.Fatalf("%s: found %q of %q", era, names, listed)
			}
			for _, word := range words {
				for _, params := range []string{`"name":"a_` + word + `"`, `"name":"call_tool","arguments":{"name":"a_` + word + `"}`} {
					if ok := memberOf(t, send[era]("tools/call", params), "result") != nil; ok != slices.Contains(has, word) {
						rt.Fatalf("%s: %s is called: %v, and the upstream has %q", era, params, ok, has)
					}
				}
			}
		}
	})
}
