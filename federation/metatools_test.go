package federation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// metaAnswer is what a client gets from one of the tools that find tools.
type metaAnswer struct {
	structured string // raw
	text       string
	failed     bool
	partial    string
	size       int
}

// meta calls one of the tools that find tools. Its arguments and its answer are
// checked against its own schemas.
func (r *rig) meta(name, args string) metaAnswer {
	r.t.Helper()
	body := r.do(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+args))
	a := metaAnswer{
		structured: field(r.t, body, "result", "structuredContent"),
		failed:     field(r.t, body, "result", "isError") == "true",
		partial:    field(r.t, body, "result", "_meta", mcp.MetaPartial),
		size:       len(body),
	}
	var content []struct{ Type, Text string }
	if err := json.Unmarshal([]byte(field(r.t, body, "result", "content")), &content); err != nil || len(content) != 1 || content[0].Type != "text" {
		r.t.Fatalf("%s: content of %s", name, body)
	}
	a.text = content[0].Text
	if field(r.t, body, "result", "_meta", mcp.MetaServerInfo) == "" || field(r.t, body, "result", "resultType") != `"complete"` {
		r.t.Errorf("%s: %s", name, body)
	}
	if !a.failed {
		fitsSchema(r.t, name, "inputSchema", args)
	}
	if a.structured != "" {
		fitsSchema(r.t, name, "outputSchema", a.structured)
	} else if !a.failed {
		r.t.Errorf("%s: no structured content: %s", name, body)
	}
	return a
}

// fitsSchema holds that a value is what a definition's schema says.
func fitsSchema(t *testing.T, name, which, value string) {
	t.Helper()
	raw := []byte(metaTool(name).definition)
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(string(mcp.Find(raw, whole(raw), which).In(raw))))
	if err != nil {
		t.Fatalf("%s of %s: %v", which, name, err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("https://meta.test/"+name, schema); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, value)
	}
	if err := c.MustCompile("https://meta.test/" + name).Validate(doc); err != nil {
		t.Errorf("%s: %s does not fit its %s: %v", name, value, which, err)
	}
}

func TestMetaDefinitions(t *testing.T) {
	list := metaTools()
	for i, def := range list {
		raw := []byte(def.definition)
		if _, reason, note := checkTool(raw); reason != "" || note != "" {
			t.Errorf("%s: %s%s", def.name, reason, note)
		}
		if got, _ := mcp.String(raw, mcp.Find(raw, whole(raw), "name")); got != def.name || got != metaNames[i] {
			t.Errorf("the name of %s is %q", def.name, got)
		}
		for _, member := range []string{"description", "inputSchema", "outputSchema", "annotations"} {
			if !mcp.Find(raw, whole(raw), member).Ok() && (def.name != "call_tool" || member != "outputSchema") {
				t.Errorf("%s has no %s", def.name, member)
			}
		}
		readOnly := string(mcp.Find(raw, mcp.Find(raw, whole(raw), "annotations"), "readOnlyHint").In(raw))
		if want := fmt.Sprint(def.name != "call_tool"); readOnly != want {
			t.Errorf("readOnlyHint of %s is %s", def.name, readOnly)
		}
	}
}

// searchRig is a tenant with two upstreams that are found by search.
func searchRig(t *testing.T) (r *rig, maps, files *fake) {
	t.Helper()
	maps, files = newFake(t), newFake(t)
	maps.result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Coordinates are WGS 84.\nUse them. Always.","ttlMs":60000,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"maps","version":"1","title":"Open Maps","description":"Places and routes"}}}`)
	maps.list(kindTools,
		`{"name":"geocode","description":"Convert an address to coordinates. It is slow.","inputSchema":{"type":"object","properties":{"address":{"type":"string"}}}}`,
		`{"name":"route","title":"Way finder","inputSchema":{"type":"object","properties":{"mode":{"description":"car, bike or foot"}}}}`)
	files.list(kindTools,
		`{ "name" : "read" , "description":"Read a \u0066ile, e.g. a report.\n\nIt gives the text, i.e. all of it.","inputSchema":{"type":"object","maximum":12345678901234567890,"x":[1.0,1e400]},"_meta":{"k":"\ud83d"} }`,
		`{"name":"wr.ite","description":"Write a file.","inputSchema":{"type":"object"}}`)
	r, stop := newFakeRig(t, fakes(map[string]*fake{"maps": maps, "files": files}), nil)
	t.Cleanup(stop)
	r.conf.Upstreams[0].Description = "Files of one directory"
	r.discovers(tenant.Discovery{Mode: "search", FromURL: true})
	return r, maps, files
}

func TestSearchTools(t *testing.T) {
	r, _, _ := searchRig(t)
	// What upstreams say of themselves counts from when it is known, which no search
	// waits for.
	r.do(r.callOf("", mcp.MethodDiscover, ""))
	write := "files_wr_ite_" + hash8("wr.ite")
	tests := []struct {
		name, args string
		want       string // structured
		text       string
	}{
		{"descriptions", `{"query":"convert an address to coordinates","limit":1}`,
			`{"results":[{"name":"maps_geocode","upstream":"maps","description":"Convert an address to coordinates.","score":1}],"total":2}`,
			"maps_geocode (maps, 1): Convert an address to coordinates.\n(1 of 2)"},
		{"names", `{"query":"route","detail":"name","limit":1.0}`,
			`{"results":[{"name":"maps_route","upstream":"maps","score":1}],"total":2}`,
			"maps_route (maps, 1)\n(1 of 2)"},
		{"a title in place of a description", `{"query":"bike","detail":"description"}`,
			`{"results":[{"name":"maps_route","upstream":"maps","description":"Way finder","score":1}],"total":1}`,
			"maps_route (maps, 1): Way finder\n(1 of 1)"},
		{"definitions", `{"query":"coordinates","detail":"full","limit":1}`,
			`{"results":[{"name":"maps_geocode","upstream":"maps","definition":{"name":"maps_geocode","title":"geocode","description":"Convert an address to coordinates. It is slow.","inputSchema":{"type":"object","properties":{"address":{"type":"string"}}}},"score":1}],"total":2}`,
			`maps_geocode (maps, 1): {"name":"maps_geocode","title":"geocode","description":"Convert an address to coordinates. It is slow.","inputSchema":{"type":"object","properties":{"address":{"type":"string"}}}}` + "\n(1 of 2)"},
		{"of one upstream", `{"query":"write coordinates to a file","upstream":"files","detail":"name","limit":1}`,
			`{"results":[{"name":"` + write + `","upstream":"files","score":1}],"total":2}`,
			write + " (files, 1)\n(1 of 2)"},
		{"nothing", `{"query":"zzzz"}`, `{"results":[],"total":0}`,
			"No tool was found for this (0 of 0). Try other words, or list_upstreams."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.meta("search_tools", tt.args)
			if got.failed || got.partial != "" {
				t.Errorf("it failed, or is partial: %+v", got)
			}
			if diff := cmp.Diff(tt.want, got.structured); diff != "" {
				t.Errorf("structured content (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.text, got.text); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
	if got := r.meta("search_tools", `{"query":"read a file"}`); !strings.Contains(got.text, "files_read (files, 1): Read a file, e.g. a report.\n") {
		t.Errorf("the first sentence: %q", got.text)
	}
}

func TestMetaArgumentsThatAreWrong(t *testing.T) {
	r, _, _ := searchRig(t)
	tests := []struct{ name, tool, args, want string }{
		{"no query", "search_tools", `{}`, "query is missing: say in a few words what is to be done"},
		{"an empty query", "search_tools", `{"query":" \n"}`, "query is missing: say in a few words what is to be done"},
		{"a query that is none", "search_tools", `{"query":7}`, "query must be a string"},
		{"no results", "search_tools", `{"query":"x","limit":0}`, "limit must be an integer between 1 and 50"},
		{"too many results", "search_tools", `{"query":"x","limit":51}`, "limit must be an integer between 1 and 50"},
		{"half a result", "search_tools", `{"query":"x","limit":1.5}`, "limit must be an integer between 1 and 50"},
		{"limit in words", "search_tools", `{"query":"x","limit":"five"}`, "limit must be a number"},
		{"detail", "search_tools", `{"query":"x","detail":"all"}`, "detail must be name, description or full"},
		{"an unknown upstream", "search_tools", `{"query":"x","upstream":"nobody"}`, `there is no upstream "nobody": list_upstreams tells which there are`},
		{"an unknown argument", "search_tools", `{"query":"x","top":3}`, `the arguments cannot be used: unknown field "top"`},
		{"no names", "get_tool_details", `{}`, "names must hold between 1 and 20 names"},
		{"too many names", "get_tool_details", `{"names":["` + strings.Repeat(`x","`, 20) + `x"]}`, "names must hold between 1 and 20 names"},
		{"one name", "get_tool_details", `{"names":"maps_route"}`, "names must be an array"},
		{"arguments where there are none", "list_upstreams", `{"x":1}`, `the arguments cannot be used: unknown field "x"`},
		{"no tool", "call_tool", `{"arguments":{}}`, "name must be the name of a tool, as search_tools gives it"},
		{"a tool that is none", "call_tool", `{"name":7}`, "name must be the name of a tool, as search_tools gives it"},
		{"itself", "call_tool", `{"name":"call_tool","arguments":{"name":"maps_route"}}`, "call_tool is called by itself, not through call_tool"},
		{"arguments that are no object", "call_tool", `{"name":"maps_route","arguments":"{}"}`, "arguments must be an object, as get_tool_details says"},
		{"arguments beside", "call_tool", `{"name":"maps_route","mode":"car"}`, "call_tool takes name and arguments: what is meant for the tool belongs into arguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.meta(tt.tool, tt.args)
			if !got.failed || got.text != tt.want {
				t.Errorf("failed: %v, text %q, want %q", got.failed, got.text, tt.want)
			}
		})
	}
}

// Definitions are those of a full list, byte for byte.
func TestToolDetails(t *testing.T) {
	r, _, _ := searchRig(t)
	list := []byte(r.do(r.callOf("", mcp.MethodToolsList, "").in("full")))
	var want []string
	tools := mcp.Find(list, mcp.Find(list, whole(list), "result"), "tools")
	for at := range mcp.Elements(list, tools) {
		want = append(want, string(at.In(list)))
	}
	all := names(t, kindTools, string(list))
	quoted, _ := json.Marshal(all)
	got := r.meta("get_tool_details", `{"names":`+string(quoted)+`}`)
	if diff := cmp.Diff(`{"tools":[`+strings.Join(want, ",")+`]}`, got.structured); diff != "" {
		t.Errorf("structured content (-want +got):\n%s", diff)
	}
	// A lone surrogate is no text: in the text it stays an escape, as it is a part
	// of raw JSON there.
	if diff := cmp.Diff(strings.Join(want, "\n"), got.text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	for i, name := range all {
		if got := r.meta("get_tool_details", `{"names":["`+name+`"]}`); got.structured != `{"tools":[`+want[i]+`]}` {
			t.Errorf("%s: %s, want %s", name, got.structured, want[i])
		}
	}
	got = r.meta("get_tool_details", `{"names":["maps_nothing","`+all[0]+`","search_tools"]}`)
	if got.structured != `{"tools":[`+want[0]+`],"unknown":["maps_nothing","search_tools"]}` || got.failed || got.text != want[0]+"\nUnknown: maps_nothing, search_tools" {
		t.Errorf("with unknown names: %+v", got)
	}
	if got = r.meta("get_tool_details", `{"names":["maps_nothing"]}`); !got.failed || got.text != "Unknown: maps_nothing" {
		t.Errorf("unknown names alone: %+v", got)
	}
}

func TestListUpstreams(t *testing.T) {
	r, _, _ := searchRig(t)
	got := r.meta("list_upstreams", `{}`)
	want := `{"upstreams":[{"alias":"files","tools":2,"description":"Files of one directory"},` +
		`{"alias":"maps","tools":2,"description":"Places and routes","instructions":"Coordinates are WGS 84. Use them. Always."}]}`
	if diff := cmp.Diff(want, got.structured); diff != "" {
		t.Errorf("structured content (-want +got):\n%s", diff)
	}
	if want := "files (2 tools): Files of one directory\nmaps (2 tools): Places and routes: Coordinates are WGS 84. Use them. Always."; got.text != want {
		t.Errorf("text %q, want %q", got.text, want)
	}
}

// What an outage hides is said in every answer, in all its forms.
func TestMetaAnswersDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := newFake(t), newFake(t)
		good.list(kindTools, tool("read"))
		bad.fails(mcp.MethodToolsList, upstream.ClassConnect)
		r, stop := newFakeRig(t, fakes(map[string]*fake{"good": good, "bad": bad, "worse": bad}), nil)
		defer stop()
		r.discovers(tenant.Discovery{Mode: "search"})
		for name, args := range map[string]string{"search_tools": `{"query":"read"}`, "get_tool_details": `{"names":["good_read"]}`, "list_upstreams": `{}`} {
			got := r.meta(name, args)
			if !strings.HasSuffix(got.structured, `,"unavailable":["bad","worse"]}`) || got.failed ||
				!strings.HasSuffix(got.text, "\nNot known at the moment: the tools of bad, worse") ||
				got.partial != `[{"alias":"bad","reason":"connect"},{"alias":"worse","reason":"connect"}]` {
				t.Errorf("%s: %+v", name, got)
			}
		}
		good.fails(mcp.MethodToolsList, upstream.ClassConnect)
		r.load(t).member("good").slots[kindTools].cur.Store(nil)
		for name, args := range map[string]string{"search_tools": `{"query":"read"}`, "get_tool_details": `{"names":["good_read"]}`} {
			_, err := r.try(r.callOf("", mcp.MethodToolsCall, `"name":"`+name+`","arguments":`+args))
			wantCode(t, err, mcp.CodeInternal)
		}
		if got := r.meta("list_upstreams", `{}`); got.structured != `{"upstreams":[{"alias":"bad"},{"alias":"good"},{"alias":"worse"}],"unavailable":["bad","good","worse"]}` {
			t.Errorf("list_upstreams with nobody there: %s", got.structured)
		}
	})
}

// Answers are bounded, however long definitions are and however many upstreams there
// are, and give at least one result.
func TestMetaAnswersAreBounded(t *testing.T) {
	long := func(name string, n int) string {
		return fmt.Sprintf(`{"name":%q,"description":"Frobnicate. %s","inputSchema":{"type":"object"}}`, name, strings.Repeat("天 ", n))
	}
	p := newFake(t)
	var items, all []string
	for i := range 20 {
		items = append(items, long(fmt.Sprint("t", i), 7000))
		all = append(all, fmt.Sprint("a_t", i))
	}
	huge := strings.Replace(long("huge", 100000), "Frobnicate", "Twiddle", 1)
	p.list(kindTools, append(items, huge)...)
	doers := map[string]*fake{"a": p}
	for i := range 400 {
		doers[fmt.Sprint("u", i)] = newFake(t)
	}
	r, stop := newFakeRig(t, fakes(doers), nil)
	defer stop()
	for i := range r.conf.Upstreams {
		r.conf.Upstreams[i].Description = strings.Repeat("What it is for. ", 40)
	}
	r.discovers(tenant.Discovery{Mode: "search"})
	const most = metaBytes + metaBytes/4 // quoting adds to it
	got := r.meta("search_tools", `{"query":"frobnicate","detail":"full","limit":20}`)
	if n := strings.Count(got.structured, `"definition"`); got.size > most || n < 2 || n >= 20 {
		t.Errorf("%d results in %d bytes", n, got.size)
	}
	if !strings.HasSuffix(got.structured, `"total":20}`) || !strings.HasSuffix(got.text, " of 20)") {
		t.Error("the total is not said")
	}
	if got = r.meta("search_tools", `{"query":"frobnicate","limit":50}`); got.size > 16<<10 {
		t.Errorf("descriptions of 20 tools take %d bytes", got.size)
	}
	quoted, _ := json.Marshal(all)
	if got = r.meta("get_tool_details", `{"names":`+string(quoted)+`}`); !got.failed || got.text != "these definitions are too long for one answer: ask for fewer at once" {
		t.Errorf("20 long definitions: failed %v, %.100s", got.failed, got.text)
	}
	if got = r.meta("get_tool_details", `{"names":["a_huge"]}`); got.failed || !strings.Contains(got.structured, "a_huge") {
		t.Errorf("one definition: failed %v, %.100s", got.failed, got.text)
	}
	got = r.meta("list_upstreams", `{}`)
	if got.size > most || strings.Count(got.structured, `"alias"`) != 401 {
		t.Errorf("%d upstreams in %d bytes", strings.Count(got.structured, `"alias"`), got.size)
	}
}

func TestFirstSentence(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"one", "Read a file", "Read a file"},
		{"two", "Read a file. It is fast.", "Read a file."},
		{"line breaks", "Read a\n  file.\nFast.", "Read a file."},
		{"an abbreviation", "Read, e.g. A file. Then more.", "Read, e.g. A file."},
		{"in the middle", "Compare apples vs. oranges. Now.", "Compare apples vs. oranges."},
		{"a numbered list", "1. Read it. 2. Write it.", "1. Read it."},
		{"long", strings.Repeat("word ", 100), strings.Repeat("word ", 23) + "word…"},
		{"Chinese", strings.Repeat("天", 200), strings.Repeat("天", 120) + "…"},
		{"nothing", " \n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := firstSentence(tt.text, oneLine); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The four are all that there is to learn, in the order of their names.
func TestMetaNamesAreSorted(t *testing.T) {
	var got []string
	for _, def := range metaTools() {
		got = append(got, def.name)
	}
	if !slices.IsSorted(got) || !slices.Equal(got, metaNames) {
		t.Errorf("got %q", got)
	}
}
