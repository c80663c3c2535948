package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// The official go-sdk's server, an independent implementation, is called, listed,
// read and listened to.
func TestSDKServer(t *testing.T) {
	for _, jsonResponse := range []bool{false, true} {
		t.Run(fmt.Sprintf("JSON %v", jsonResponse), func(t *testing.T) {
			impl := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, nil)
			type in struct {
				Text string `json:"text"`
			}
			sdk.AddTool(impl, &sdk.Tool{Name: "echo", Description: "echoes"}, func(ctx context.Context, req *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
				if token := req.Params.GetProgressToken(); token != nil {
					req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "half"})
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
			})
			impl.AddResource(&sdk.Resource{URI: "test://a", Name: "r"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://a", Text: "contents"}}}, nil
			})
			handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl }, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: jsonResponse})
			c, s := connect(t, handler.ServeHTTP)

			send := func(method, name, params string) (notifications int, final string) {
				t.Helper()
				req := &Request{Method: method, Name: name, HasName: name != "", ID: []byte("7"), ProgressToken: []byte(`"p"`), Body: mcp.GetBuffer(256)}
				req.Body.B = fmt.Appendf(req.Body.B, `{"jsonrpc":"2.0","id":7,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}}}`, method, params)
				messages, err := read(context.Background(), c, req)
				if err != nil || len(messages) == 0 {
					t.Fatalf("%s: %v after %d messages", method, err, len(messages))
				}
				return len(messages) - 1, messages[len(messages)-1]
			}
			tests := []struct{ method, name, params, want string }{
				{mcp.MethodDiscover, "", "", `"supportedVersions"`},
				{mcp.MethodToolsList, "", "", `"echo"`},
				{mcp.MethodToolsCall, "echo", `"name":"echo","arguments":{"text":"größer"},`, `größer`},
				{mcp.MethodResourcesRead, "test://a", `"uri":"test://a",`, `contents`},
				{mcp.MethodToolsCall, "nope", `"name":"nope","arguments":{},`, `"error"`},
				{"no/such", "", "", `-32601`},
			}
			for _, tt := range tests {
				notifications, final := send(tt.method, tt.name, tt.params)
				if !strings.Contains(final, tt.want) {
					t.Errorf("%s %s = %s, want it to hold %s", tt.method, tt.name, final, tt.want)
				}
				if want := tt.name == "echo" && !jsonResponse; (notifications == 1) != want {
					t.Errorf("%s %s sent %d notifications", tt.method, tt.name, notifications)
				}
			}
			if n := s.opened(); n != 1 {
				t.Errorf("%d connections were opened, want 1", n)
			}
			listenToSDK(t, c, impl)
		})
	}
}

// listenToSDK opens a listen stream and changes the list of tools.
func listenToSDK(t *testing.T, c *Client, impl *sdk.Server) {
	t.Helper()
	req := &Request{Method: mcp.MethodListen, ID: []byte("9"), Listen: true, Body: mcp.GetBuffer(256)}
	req.Body.B = append(req.Body.B, `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`...)
	resp, err := c.Do(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	for _, want := range []string{mcp.NotificationAcknowledged, mcp.NotificationToolsChanged} {
		m, err := resp.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Method != want {
			t.Errorf("got %s, want %s", m.Raw, want)
		}
		if want == mcp.NotificationAcknowledged {
			impl.RemoveTools("echo")
		}
	}
}

// Many calls, listen streams and cancelled calls leave nothing behind; connect
// checks that.
func TestNothingIsLeft(t *testing.T) {
	impl := sdk.NewServer(&sdk.Implementation{Name: "fixture", Version: "1"}, nil)
	sdk.AddTool(impl, &sdk.Tool{Name: "quick"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	hangs := make(chan struct{}, 1)
	sdk.AddTool(impl, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		hangs <- struct{}{}
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	c, _ := connect(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl }, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}).ServeHTTP)
	c.budget = mcp.NewBudget(1 << 20)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	call := func(tool string) *Request {
		req := &Request{Method: mcp.MethodToolsCall, Name: tool, HasName: true, ID: []byte("7"), Body: mcp.GetBuffer(256)}
		req.Body.B = fmt.Appendf(req.Body.B, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{},%s}}`, tool, meta)
		return req
	}
	for range 200 {
		if _, err := read(context.Background(), c, call("quick")); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := read(ctx, c, call("hang"))
			done <- err
		}()
		<-hangs
		cancel()
		wantClass(t, <-done, ClassCanceled, false)

		listen := &Request{Method: mcp.MethodListen, ID: []byte("9"), Listen: true, Body: mcp.GetBuffer(256)}
		listen.Body.B = append(listen.Body.B, `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`...)
		resp, err := c.Do(context.Background(), listen)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resp.Next(); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		resp.Close()
	}
	if n := c.budget.Used(); n != 0 {
		t.Errorf("%d bytes of the budget are still held", n)
	}
}
