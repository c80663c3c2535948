package upstream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/egress"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// program makes a client of a real program whose era has to be found out. When
// the test ends nothing that was started for it may run any more.
func program(t *testing.T, p *upstream.Process) upstream.Doer {
	t.Helper()
	before := gatewaytest.CountRunning()
	d := upstream.Connect(upstream.Config{Tenant: "acme", Alias: "files", Process: p, CallTimeout: 30 * time.Second}, egress.New(egress.Options{}), upstream.Deps{})
	t.Cleanup(func() {
		d.(interface{ Close() }).Close()
		gatewaytest.AwaitNoMore(t, before)
	})
	return d
}

// answered is what a request led to.
type answered struct {
	notes  []string // the methods of the notifications
	Result struct {
		SupportedVersions []string
		Tools             []struct{ Name string }
		Content           []struct{ Text string }
		IsError           bool
	}
	Error *struct{ Message string }
}

// do sends a request in modern form.
func do(t *testing.T, d upstream.Doer, id int, method, params string) answered {
	t.Helper()
	raw := fmt.Append(nil, id)
	req := &upstream.Request{Method: method, ID: raw, ProgressToken: raw, Body: mcp.GetBuffer(512), Principal: "ann"}
	req.Body.B = fmt.Appendf(req.Body.B, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"debug","progressToken":%d}}}`, id, method, params, id)
	a, err := d.Do(t.Context(), req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	defer a.Close()
	var got answered
	for {
		m, err := a.Next()
		switch {
		case err == io.EOF:
			return got
		case err != nil:
			t.Fatalf("%s %s: %v", method, params, err)
		case m.Kind == mcp.KindNotification:
			got.notes = append(got.notes, m.Method)
		default:
			if err := json.Unmarshal(m.Raw, &got); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// text is that of all contents of a result.
func (a *answered) text() string {
	var b strings.Builder
	for _, c := range a.Result.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// The servers of the project, which speak the handshake revisions, are started,
// listed and called.
func TestRealPrograms(t *testing.T) {
	node := gatewaytest.NewNode(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("größer"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		server    string
		args      []string
		tools     int
		call      string
		arguments string
		want      string
		notes     string
	}{
		{server: "everything", args: []string{"stdio"}, tools: 13, call: "echo", arguments: `{"message":"größer"}`, want: "größer"},
		{server: "everything", args: []string{"stdio"}, tools: 13, call: "trigger-long-running-operation", arguments: `{"duration":0.2,"steps":2}`, want: "completed", notes: mcp.NotificationProgress},
		{server: "filesystem", args: []string{dir}, tools: 14, call: "read_text_file", arguments: fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "note.txt")), want: "größer"},
		{server: "memory", tools: 9, call: "create_entities", arguments: `{"entities":[{"name":"Ann","entityType":"person","observations":["sings"]}]}`, want: "sings"},
		{server: "sequential-thinking", tools: 1, call: "sequentialthinking", arguments: `{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`, want: "thoughtNumber"},
	}
	for _, tt := range tests {
		t.Run(tt.server+" "+tt.call, func(t *testing.T) {
			main := filepath.Join(node.Modules, "@modelcontextprotocol", "server-"+tt.server, "dist", "index.js")
			d := program(t, &upstream.Process{
				Command: append([]string{node.Path, main}, tt.args...),
				Env:     []upstream.Variable{{Name: "MEMORY_FILE_PATH", Value: filepath.Join(dir, "memory.json")}},
				Dir:     dir,
			})
			if tools := do(t, d, 1, mcp.MethodToolsList, ""); len(tools.Result.Tools) != tt.tools {
				t.Errorf("%d tools are listed, want %d: %+v", len(tools.Result.Tools), tt.tools, tools)
			}
			got := do(t, d, 2, mcp.MethodToolsCall, fmt.Sprintf(`"name":%q,"arguments":%s,`, tt.call, tt.arguments))
			if got.Error != nil || got.Result.IsError || !strings.Contains(got.text(), tt.want) {
				t.Errorf("the call gives %+v, want %q", got, tt.want)
			}
			if tt.notes != "" && !strings.Contains(strings.Join(got.notes, " "), tt.notes) {
				t.Errorf("the call was accompanied by %q, want %s", got.notes, tt.notes)
			}
		})
	}
}

// The official SDK's server speaks 2026-07-28 over stdio.
func TestRealModernProgram(t *testing.T) {
	d := program(t, &upstream.Process{Command: []string{gatewaytest.GoPeer(t, "everything-server")}})
	if got := do(t, d, 1, mcp.MethodDiscover, ""); len(got.Result.SupportedVersions) == 0 || got.Result.SupportedVersions[0] != mcp.VersionModern {
		t.Errorf("server/discover gives %+v", got)
	}
	if got := do(t, d, 2, mcp.MethodToolsList, ""); len(got.Result.Tools) < 10 {
		t.Errorf("tools/list gives %+v", got)
	}
	if got := do(t, d, 3, mcp.MethodToolsCall, `"name":"test_tool_with_progress","arguments":{},`); len(got.notes) < 3 || got.text() == "" {
		t.Errorf("the call with progress gives %+v", got)
	}
	if got := do(t, d, 4, mcp.MethodToolsCall, `"name":"test_tool_with_logging","arguments":{},`); len(got.notes) < 3 || got.notes[0] != mcp.NotificationMessage {
		t.Errorf("the call with log messages gives %+v", got)
	}
	if got := do(t, d, 5, mcp.MethodToolsCall, `"name":"no-such-tool","arguments":{},`); got.Error == nil {
		t.Errorf("a call of no tool gives %+v", got)
	}
	listen := &upstream.Request{Method: mcp.MethodListen, ID: []byte("6"), Listen: true, Body: mcp.GetBuffer(512)}
	listen.Body.B = append(listen.Body.B, `{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`...)
	a, err := d.Do(t.Context(), listen)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, want := range []string{mcp.NotificationAcknowledged, mcp.NotificationToolsChanged} {
		m, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Method != want {
			t.Errorf("the stream gives %s, want %s", m.Raw, want)
		}
		if want == mcp.NotificationAcknowledged {
			do(t, d, 7, mcp.MethodToolsCall, `"name":"test_trigger_tool_change","arguments":{},`)
		}
	}
}
