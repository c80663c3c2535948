package federation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// rewritten applies one of the rewriting functions to a whole message.
func rewritten(t testing.TB, raw string, rewrite func(*mcp.Edits, *mcp.Message)) string {
	t.Helper()
	m, err := mcp.ParseMessage([]byte(raw), 100)
	if err != nil {
		t.Fatal(err)
	}
	var e mcp.Edits
	rewrite(&e, m)
	if string(m.Raw) != raw {
		t.Fatalf("the message itself became %s", m.Raw)
	}
	return string(e.AppendTo(nil, m.Raw))
}

// resultTest is a result of an upstream, and what the client is to get.
type resultTest struct {
	name   string
	method string
	result string
	want   string // empty: the same
}

func testRewriteResult(t *testing.T, tests []resultTest) {
	t.Helper()
	// The mapper leaves links that clients can fetch, as the catalogue's does.
	mapURI := func(uri string) (string, bool) { return exposedURI("a", uri), !strings.HasPrefix(uri, "https:") }
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.result
			}
			envelope := `{"jsonrpc":"2.0", "id":1,"result":%s,"uri":"x://y"}`
			got := rewritten(t, fmt.Sprintf(envelope, tt.result), func(e *mcp.Edits, m *mcp.Message) {
				rewriteResult(e, tt.method, m, mapURI, exposeTask("a"))
			})
			if diff := cmp.Diff(fmt.Sprintf(envelope, want), got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewriteToolResult(t *testing.T) {
	testRewriteResult(t, []resultTest{
		{
			name: "text", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"text","text":"see x://y"}],"structuredContent":{"uri":"x://y"},"isError":false}`,
		},
		{
			name: "resource link", method: mcp.MethodToolsCall,
			result: `{ "content" : [ {"type":"resource_link","uri":"x:\/\/y","name":"n", "new": 1e400} ] }`,
			want:   `{ "content" : [ {"type":"resource_link","uri":"a+x:\/\/y","name":"n", "new": 1e400} ] }`,
		},
		{
			name: "type last", method: mcp.MethodToolsCall,
			result: `{"content":[{"uri":"x://y","type":"resource_link"}]}`,
			want:   `{"content":[{"uri":"a+x://y","type":"resource_link"}]}`,
		},
		{
			name: "escaped keys", method: mcp.MethodToolsCall,
			result: `{"cont\u0065nt":[{"typ\u0065":"r\u0065source_link","ur\u0069":"x://y"}]}`,
			want:   `{"cont\u0065nt":[{"typ\u0065":"r\u0065source_link","ur\u0069":"a+x://y"}]}`,
		},
		{
			name: "embedded resource", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"text","text":"\"uri\""},{"type":"resource","uri":"x://n","resource":{"text":"t","uri":"x://y","_meta":{"ui":{"resourceUri":"ui://v"}}}}]}`,
			want:   `{"content":[{"type":"text","text":"\"uri\""},{"type":"resource","uri":"x://n","resource":{"text":"t","uri":"a+x://y","_meta":{"ui":{"resourceUri":"ui://a+v"}}}}]}`,
		},
		{
			name: "other types keep their uri", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"hologram","uri":"x://y"},{"type":"text","text":"t","uri":"x://y"},{"uri":"x://y"},7,null,"uri"]}`,
		},
		{
			name: "two uris in one link", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"resource_link","uri":"x://1","uri":"x://2"}]}`,
			want:   `{"content":[{"type":"resource_link","uri":"a+x://1","uri":"a+x://2"}]}`,
		},
		{
			name: "uri that is no string", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"resource_link","uri":7},{"type":"resource","resource":"x"},{"type":"resource","resource":{"uri":null}}]}`,
		},
		{
			name: "content that is no array", method: mcp.MethodToolsCall,
			result: `{"content":null,"structuredContent":[{"uri":"x://y"}]}`,
		},
		{
			name: "what the mapper leaves", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"resource_link","uri":"https://example.com"},{"type":"resource_link","uri":"x:y"}]}`,
			want:   `{"content":[{"type":"resource_link","uri":"https://example.com"},{"type":"resource_link","uri":"a+x:y"}]}`,
		},
		{
			name: "user interface", method: mcp.MethodToolsCall,
			result: `{"content":[{"type":"text","text":"","_meta":{"ui/resourceUri":"ui://v/1"}}],"_meta":{"ui":{"resourceUri":"ui:\/\/v","x":{"resourceUri":"ui://v"}},"ui/resourceUri":"ui://v","resourceUri":"ui://v"}}`,
			want:   `{"content":[{"type":"text","text":"","_meta":{"ui/resourceUri":"ui://a+v/1"}}],"_meta":{"ui":{"resourceUri":"ui://a+v","x":{"resourceUri":"ui://v"}},"ui/resourceUri":"ui://a+v","resourceUri":"ui://v"}}`,
		},
		{
			name: "input is left alone", method: mcp.MethodToolsCall,
			result: `{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource_link","uri":"x://y"}}]}}},"requestState":"s"}`,
		},
	})
}

func TestRewriteTask(t *testing.T) {
	testRewriteResult(t, []resultTest{
		{
			name: "created task", method: mcp.MethodToolsCall,
			result: `{"resultType":"task","taskId":"7\u0038","status":"working","ttlMs":null}`,
			want:   `{"resultType":"task","taskId":"a+7\u0038","status":"working","ttlMs":null}`,
		},
		{
			name: "taskId of a plain result", method: mcp.MethodToolsCall,
			result: `{"resultType":"complete","content":[],"taskId":"78","structuredContent":{"taskId":"78"}}`,
		},
		{
			name: "completed task", method: mcp.MethodTasksGet,
			result: `{"resultType":"complete","taskId":"78","status":"completed","result":{"content":[{"type":"resource_link","uri":"x://y"}],"structuredContent":{"taskId":"78","uri":"x://y"}},"_meta":{"ui/resourceUri":"ui://v"}}`,
			want:   `{"resultType":"complete","taskId":"a+78","status":"completed","result":{"content":[{"type":"resource_link","uri":"a+x://y"}],"structuredContent":{"taskId":"78","uri":"x://y"}},"_meta":{"ui/resourceUri":"ui://a+v"}}`,
		},
		{
			name: "failed task", method: mcp.MethodTasksGet,
			result: `{"taskId":"78","status":"failed","error":{"code":-32602,"message":"x://y","data":{"uri":"x://y"}}}`,
			want:   `{"taskId":"a+78","status":"failed","error":{"code":-32602,"message":"x://y","data":{"uri":"a+x://y"}}}`,
		},
		{
			name: "task that wants input", method: mcp.MethodTasksGet,
			result: `{"status":"input_required","inputRequests":{"taskId":{"method":"x","params":{"taskId":"78","uri":"x://y"}}},"taskId":"78"}`,
			want:   `{"status":"input_required","inputRequests":{"taskId":{"method":"x","params":{"taskId":"78","uri":"x://y"}}},"taskId":"a+78"}`,
		},
		{name: "cancelled task", method: mcp.MethodTasksCancel, result: `{"resultType":"complete"}`},
		{name: "task id that is no string", method: mcp.MethodTasksUpdate, result: `{"taskId":78}`},
	})
}

func TestRewriteOtherResults(t *testing.T) {
	testRewriteResult(t, []resultTest{
		{
			name: "prompt", method: mcp.MethodPromptsGet,
			result: `{"description":"x://y","messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x://1","text":"x://1"}}},{"role":"user","content":{"type":"text","text":"uri"}},{"role":"assistant","content":[{"type":"resource_link","uri":"x://2"}]}],"_meta":{"ui/resourceUri":"ui://v"}}`,
			want:   `{"description":"x://y","messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a+x://1","text":"x://1"}}},{"role":"user","content":{"type":"text","text":"uri"}},{"role":"assistant","content":[{"type":"resource_link","uri":"a+x://2"}]}],"_meta":{"ui/resourceUri":"ui://a+v"}}`,
		},
		{
			name: "read", method: mcp.MethodResourcesRead,
			result: `{"contents":[{"uri":"x://y","mimeType":"t","text":"{\"uri\":\"x://y\"}"},{"blob":"AAAA","uri":"x://y\ud83d"}],"ttlMs":0,"_meta":{"ui":{"resourceUri":"ui://v"}}}`,
			want:   `{"contents":[{"uri":"a+x://y","mimeType":"t","text":"{\"uri\":\"x://y\"}"},{"blob":"AAAA","uri":"a+x://y\ud83d"}],"ttlMs":0,"_meta":{"ui":{"resourceUri":"ui://a+v"}}}`,
		},
		{
			name: "completion", method: mcp.MethodComplete,
			result: `{"completion":{"values":["x://y"],"uri":"x://y"},"_meta":{"ui/resourceUri":"ui://v"}}`,
			want:   `{"completion":{"values":["x://y"],"uri":"x://y"},"_meta":{"ui/resourceUri":"ui://a+v"}}`,
		},
		{name: "empty", method: mcp.MethodResourcesRead, result: `{}`},
		{name: "contents that is no array", method: mcp.MethodResourcesRead, result: `{"contents":{"uri":"x://y"}}`},
	})
}

func TestRewriteResultWithoutMappers(t *testing.T) {
	raw := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"78","result":{"content":[{"type":"resource_link","uri":"x://y"}]}}}`
	got := rewritten(t, raw, func(e *mcp.Edits, m *mcp.Message) { rewriteResult(e, mcp.MethodToolsCall, m, nil, nil) })
	if got != raw {
		t.Errorf("got %s", got)
	}
}

func TestRewriteError(t *testing.T) {
	tests := []struct{ name, err, want string }{
		{name: "uri", err: `{"code":-32602,"message":"x://y","data":{"uri":"x:\/\/y","n":1}}`, want: `{"code":-32602,"message":"x://y","data":{"uri":"a+x:\/\/y","n":1}}`},
		{name: "no data", err: `{"code":-32602,"message":"x"}`},
		{name: "data that is no object", err: `{"code":-32602,"message":"x","data":"uri"}`},
		{name: "uri that is no string", err: `{"code":-32602,"message":"x","data":{"uri":["x:y"]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.err
			}
			got := rewritten(t, `{"jsonrpc":"2.0","id":1,"error":`+tt.err+`}`, func(e *mcp.Edits, m *mcp.Message) {
				rewriteError(e, m, exposeAll("a"))
			})
			if diff := cmp.Diff(`{"jsonrpc":"2.0","id":1,"error":`+want+`}`, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewriteNotification(t *testing.T) {
	tests := []struct{ name, method, params, want string }{
		{
			name: "resource updated", method: mcp.NotificationResourceUpdated,
			params: `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"uri":"x://y","title":"uri"}`,
			want:   `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"uri":"a+x://y","title":"uri"}`,
		},
		{
			name: "task", method: mcp.NotificationTasks,
			params: `{"taskId":"78","status":"completed","result":{"content":[{"type":"resource_link","uri":"x://y"}]}}`,
			want:   `{"taskId":"a+78","status":"completed","result":{"content":[{"type":"resource_link","uri":"a+x://y"}]}}`,
		},
		{
			name: "failed task", method: mcp.NotificationTasks,
			params: `{"taskId":"78","status":"failed","error":{"code":1,"message":"","data":{"uri":"x://y"}}}`,
			want:   `{"taskId":"a+78","status":"failed","error":{"code":1,"message":"","data":{"uri":"a+x://y"}}}`,
		},
		{name: "log", method: mcp.NotificationMessage, params: `{"level":"info","data":{"uri":"x://y","taskId":"78"}}`},
		{name: "progress", method: mcp.NotificationProgress, params: `{"progressToken":1,"progress":1,"message":"x://y"}`},
		{name: "unknown", method: "notifications/new", params: `{"uri":"x://y","taskId":"78"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.params
			}
			envelope := `{"jsonrpc":"2.0","method":"` + tt.method + `","params":`
			got := rewritten(t, envelope+tt.params+`}`, func(e *mcp.Edits, m *mcp.Message) {
				rewriteNotification(e, m, exposeAll("a"), exposeTask("a"))
			})
			if diff := cmp.Diff(envelope+want+`}`, got); diff != "" {
				t.Errorf("notification (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnwrapArguments(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{name: "whole value", args: `{"file":"a+file:///x","n":1.0}`, want: `{"file":"file:///x","n":1.0}`},
		{name: "at any depth", args: `{"l":[{"f":["a+x:y"]}, "a+x:z" ]}`, want: `{"l":[{"f":["x:y"]}, "x:z" ]}`},
		{name: "user interface", args: `{"u":"ui://a+app/x","v":"ui:\/\/\u0061\u002Bapp"}`, want: `{"u":"ui://app/x","v":"ui:\/\/app"}`},
		{name: "escapes stay", args: `{"u":"\u0061\u002Bfile:\/\/\/\u00e9\ud83d"}`, want: `{"u":"file:\/\/\/\u00e9\ud83d"}`},
		{name: "spaces in a path", args: `{"u":"a+file:///My Files/x"}`, want: `{"u":"file:///My Files/x"}`},
		{name: "other scripts", args: `{"u":"a+urn:日本"}`, want: `{"u":"urn:日本"}`},
		{name: "once only", args: `{"u":"a+a+x:y"}`, want: `{"u":"a+x:y"}`},
		{name: "duplicate keys", args: `{"u":"a+x:1","u":"a+x:2"}`, want: `{"u":"x:1","u":"x:2"}`},
		{name: "keys stay", args: `{"a+x:y" : "a+x:y","a+x:z":{}}`, want: `{"a+x:y" : "x:y","a+x:z":{}}`},
		{name: "quotes and backslashes before", args: `{"t":"\\\"a+x:y","s":"\\","u":"a+x:y"}`, want: `{"t":"\\\"a+x:y","s":"\\","u":"x:y"}`},
		{name: "within a text", args: `{"t":"see a+x:y","u":" a+x:y"}`},
		{name: "prose", args: `{"t":"a+note: buy milk","u":"a+x: y"}`},
		{name: "lines", args: `{"t":"a+x://y\nand more"}`},
		{name: "another alias", args: `{"t":"b+x:y","u":"ui://b+x","v":"aa+x:y"}`},
		{name: "alias in capitals", args: `{"t":"A+x:y"}`},
		{name: "no scheme", args: `{"t":"a+b","u":"a+/x","v":"a+","w":"a+x:"}`},
		{name: "template", args: `{"t":"a+{x}://y","u":"a+x{y}:z"}`},
		{name: "formula", args: `{"t":"a+b:c"}`, want: `{"t":"b:c"}`}, // a URI by its form, so it is one
		{name: "control characters that look like escapes", args: `{"t":"\u0041+x:y","u":"\u0001+x:y"}`},
		{name: "none", args: `{"t":1,"u":null,"v":[]}`},
		{name: "absent", args: ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.args
			}
			const before, after = `{"before":"a+x:y","arguments":`, `,"after":"a+x:y"}`
			raw := []byte(before + tt.args + after)
			var e mcp.Edits
			unwrapArguments(&e, raw, mcp.Span{Start: len(before), End: len(raw) - len(after)}, "a")
			if diff := cmp.Diff(before+want+after, string(e.AppendTo(nil, raw))); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnwrapArgumentsUndoesExposedURI goes through aliases and escapes of every
// character of the URI.
func TestUnwrapArgumentsUndoesExposedURI(t *testing.T) {
	for _, alias := range []string{"a", "b", "u", "n4", "abcdefghij0123456789"} {
		for _, uri := range []string{"x:y", "ui://app/x", "https://example.com/ü?q=\\", "b+u:z"} {
			for _, escape := range []string{"%c", `\u%04x`, `\u%04X`} {
				var lit strings.Builder
				for _, r := range exposedURI(alias, uri) {
					if r == '\\' {
						lit.WriteString(`\\`)
						continue
					}
					fmt.Fprintf(&lit, escape, r)
				}
				raw := []byte(`{"u":"` + lit.String() + `"}`)
				var e mcp.Edits
				unwrapArguments(&e, raw, wholeOf(raw), alias)
				var got struct{ U string }
				if err := json.Unmarshal(e.AppendTo(nil, raw), &got); err != nil || got.U != uri {
					t.Errorf("%s came out as %q (%v), want %q", raw, got.U, err, uri)
				}
			}
		}
	}
}

// FuzzRewrite holds that every message stays JSON with the same outline, and
// that nothing changes where nothing is mapped.
func FuzzRewrite(f *testing.F) {
	f.Add(`{"content":[{"type":"resource_link","uri":"ui://y"}],"_meta":{"ui":{"resourceUri":"ui:\/\/v"}}}`)
	f.Add(`{"taskId":"7\u0038","result":{"content":[{"type":"resource","resource":{"uri":"\ud83dx:y"}}]}}`)
	f.Add(`{"messages":[{"content":{"type":"resource_link","uri":"a+x:y"}}],"contents":[{"uri":"UI:\/\/x"}]}`)
	methods := []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodTasksGet, mcp.MethodComplete}
	f.Fuzz(func(t *testing.T, result string) {
		m, err := mcp.ParseMessage([]byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`), 100)
		if err != nil || m.Kind != mcp.KindResult {
			return
		}
		for _, method := range methods {
			var e, none, args mcp.Edits
			rewriteResult(&e, method, m, exposeAll("a"), exposeTask("a"))
			got := e.AppendTo(nil, m.Raw)
			if !json.Valid(got) {
				t.Fatalf("%s became %s", m.Raw, got)
			}
			if _, err := mcp.ParseMessage(got, 100); err != nil {
				t.Fatalf("%s became %s: %v", m.Raw, got, err)
			}
			rewriteResult(&none, method, m, nil, nil)
			if !none.Empty() {
				t.Fatalf("%s has edits without a mapper", m.Raw)
			}
			unwrapArguments(&args, m.Raw, m.Result, "a")
			if got := args.AppendTo(nil, m.Raw); !json.Valid(got) {
				t.Fatalf("arguments %s became %s", m.Raw, got)
			}
		}
	})
}

func BenchmarkRewriteResult(b *testing.B) {
	text := strings.Repeat(`{\"city\":\"Paris\",\"temperature\":21.5} `, 25)
	blob := strings.Repeat("QUFB", 1<<20)
	for _, bm := range []struct{ name, method, result string }{
		{"text", mcp.MethodToolsCall, `{"content":[{"type":"text","text":"` + text + `"}],"structuredContent":{"city":"Paris"},"isError":false}`},
		{"links", mcp.MethodToolsCall, `{"content":[{"type":"text","text":"` + text + `"},{"type":"resource_link","uri":"x://y","name":"n"}]}`},
		{"blob", mcp.MethodResourcesRead, `{"contents":[{"uri":"x://y","blob":"` + blob + `"}]}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			m, err := mcp.ParseMessage([]byte(`{"jsonrpc":"2.0","id":1,"result":`+bm.result+`}`), 100)
			if err != nil {
				b.Fatal(err)
			}
			mapURI, mapTask := exposeAll("a"), exposeTask("a")
			var e mcp.Edits
			b.SetBytes(int64(len(m.Raw)))
			b.ReportAllocs()
			for b.Loop() {
				e.Reset()
				rewriteResult(&e, bm.method, m, mapURI, mapTask)
			}
		})
	}
}

func BenchmarkUnwrapArguments(b *testing.B) {
	var raw bytes.Buffer
	raw.WriteString(`{"city":"Paris","note":"` + strings.Repeat("some text ", 50) + `"}`)
	args := raw.Bytes()
	var e mcp.Edits
	b.ReportAllocs()
	for b.Loop() {
		e.Reset()
		unwrapArguments(&e, args, wholeOf(args), "weather")
	}
}
