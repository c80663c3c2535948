package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fixtureURI is the resource of a fixture that changes.
const fixtureURI = "test://counter"

// fixture is a server of the official Go SDK that has all that a matrix looks at.
// It speaks one era.
type fixture struct {
	server    *mcp.Server
	stateless bool
	cancelled atomic.Int32 // calls of hang
	extras    atomic.Int32 // tools that flip added
}

// startFixture starts one of the modern era (stateless) or of the handshake era,
// and gives its URL.
func startFixture(t *testing.T, stateless bool) string {
	t.Helper()
	f := &fixture{stateless: stateless}
	allow := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	f.server = mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   allow,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		// A handshake server has no such hints, though the SDK sends them.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			if stateless {
				c.TTLMs = int(time.Minute.Milliseconds())
			}
		},
	})
	f.tools()
	f.server.AddResource(&mcp.Resource{URI: fixtureURI, Name: "counter"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: fixtureURI, Text: "1"}}}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return f.server },
		&mcp.StreamableHTTPOptions{Stateless: stateless, PropagateRequestCancellation: true})
	srv := httptest.NewServer(handler)
	t.Cleanup(func() {
		for s := range f.server.Sessions() {
			s.Close()
		}
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// toolText is the result of a fixture's tool.
func toolText(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func (f *fixture) tools() {
	type none struct{}
	type text struct {
		Message string `json:"message"`
	}
	mcp.AddTool(f.server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
		return toolText("Echo: %s", in.Message), nil, nil
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "work"}, func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3,
			})
			if err != nil {
				return nil, nil, err
			}
		}
		return toolText("worked"), nil, nil
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		return f.ask(ctx, req)
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "touch"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		return toolText("touched"), nil, f.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: fixtureURI})
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "flip"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		name := fmt.Sprintf("extra%d", f.extras.Add(1))
		mcp.AddTool(f.server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return toolText("extra"), nil, nil
		})
		return toolText("flipped"), nil, nil
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "hang"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		<-ctx.Done()
		f.cancelled.Add(1)
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(f.server, &mcp.Tool{Name: "cancelled"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return toolText("%d", f.cancelled.Load()), nil, nil
	})
}

// ask asks the user for a name, in the way of its era.
func (f *fixture) ask(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, any, error) {
	question := &mcp.ElicitParams{
		Mode: "form", Message: "Your name?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	}
	var answer *mcp.ElicitResult
	if f.stateless {
		var ok bool
		if answer, ok = req.Params.InputResponses["name"].(*mcp.ElicitResult); !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"name": question}}, nil, nil
		}
	} else {
		var err error
		if answer, err = req.Session.Elicit(ctx, question); err != nil {
			return nil, nil, err
		}
	}
	return toolText("%s: %v", answer.Action, answer.Content["name"]), nil, nil
}
