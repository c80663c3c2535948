package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

type textIn struct {
	Text string `json:"text"`
}

// fixture is a go-sdk server with a bit of everything.
func fixture() *sdk.Server {
	impl := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, &sdk.ServerOptions{
		Instructions:       "Be kind.",
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	sdk.AddTool(impl, &sdk.Tool{Name: "echo"}, func(ctx context.Context, req *sdk.CallToolRequest, in textIn) (*sdk.CallToolResult, any, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		_ = req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "said " + in.Text})
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
	})
	impl.AddResource(&sdk.Resource{URI: "test://a", Name: "r"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://a", Text: "contents"}}}, nil
	})
	impl.AddPrompt(&sdk.Prompt{Name: "hello"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "hello"}}}}, nil
	})
	return impl
}

// A real server of the handshake era is used with modern requests, and its answers
// have the modern form.
func TestHandshakeServer(t *testing.T) {
	l, _ := shake(t, stateful(fixture()))
	tests := []struct {
		name  string
		ask   modern
		want  string
		notes int
	}{
		{"discover", modern{method: mcp.MethodDiscover}, `"supportedVersions":["2026-07-28"]`, 0},
		{"instructions", modern{method: mcp.MethodDiscover}, `"instructions":"Be kind."`, 0},
		{"server info", modern{method: mcp.MethodDiscover}, `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fixture"`, 0},
		{"list", modern{method: mcp.MethodToolsList}, `"name":"echo"`, 0},
		{"call", modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"text":"größer"},`}, `größer`, 0},
		{"progress", modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"text":"a"},`, token: true}, `"a"`, 1},
		{"read", modern{method: mcp.MethodResourcesRead, name: "test://a", params: `"uri":"test://a",`}, `contents`, 0},
		{"prompt", modern{method: mcp.MethodPromptsGet, name: "hello", params: `"name":"hello",`}, `"hello"`, 0},
		{"unknown tool", modern{method: mcp.MethodToolsCall, name: "nope", params: `"arguments":{},`}, `"code":-32602`, 0},
		{"unknown resource", modern{method: mcp.MethodResourcesRead, name: "test://b", params: `"uri":"test://b",`}, `"code":-32602`, 0},
		{"tasks", modern{method: mcp.MethodTasksGet, name: "1", params: `"taskId":"1",`}, `"code":-32601`, 0},
		{"log", modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"text":"a"},`, meta: `,"io.modelcontextprotocol/logLevel":"debug"`}, `"a"`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := mustSend(t, l, tt.ask)
			if !strings.Contains(r.raw, tt.want) {
				t.Errorf("got %s, want it to hold %s", r.raw, tt.want)
			}
			if r.Error.Code == 0 && r.Result.ResultType != "complete" {
				t.Errorf("result without a type: %s", r.raw)
			}
			if string(r.ID) != "7" {
				t.Errorf("id = %s, want 7", r.ID)
			}
			if len(r.notes) != tt.notes {
				t.Errorf("notifications %q, want %d", r.notes, tt.notes)
			}
			if want := http.StatusNotFound; r.Error.Code == mcp.CodeMethodNotFound && r.status != want {
				t.Errorf("status = %d, want %d", r.status, want)
			}
		})
	}
}

// A call in a session that is there costs one request of the upstream.
func TestOneRequestPerCall(t *testing.T) {
	l, seen := shake(t, stateful(fixture()))
	q := modern{method: mcp.MethodToolsCall, name: "echo", params: `"arguments":{"text":"a"},`, principal: "ann"}
	mustSend(t, l, q)
	if got, want := seen.lines(), []string{"POST initialize", "POST notifications/initialized", "POST tools/call"}; !slices.Equal(got, want) {
		t.Errorf("the first call took %q, want %q", got, want)
	}
	for range 20 {
		mustSend(t, l, q)
	}
	if got := seen.lines(); len(got) != 20 || seen.times("POST tools/call") != 0 || slices.ContainsFunc(got, func(s string) bool { return s != "POST tools/call" }) {
		t.Errorf("20 calls took %q", got)
	}
}
