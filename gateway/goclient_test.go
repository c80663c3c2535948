package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// journeyTimeout bounds a journey, so that a hanging one tells where.
const journeyTimeout = time.Minute

// goClient is the Go SDK's client on its way through the gateway.
type goClient struct {
	t       *testing.T
	session *mcp.ClientSession
	updated chan string
	changed chan struct{}

	mu   sync.Mutex
	seen journey
}

// goJourney uses the gateway as an application would, with the official Go
// client, and gives what it saw. Requests go over transport, version is the
// revision that it asks for; empty for the newest.
func goJourney(t *testing.T, url, version string, transport http.RoundTripper) *journey {
	t.Helper()
	c := &goClient{t: t, updated: make(chan string, 16), changed: make(chan struct{}, 16)}
	client := mcp.NewClient(&mcp.Implementation{Name: "causeway-test-go", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler:          c.elicited,
		ProgressNotificationHandler: c.progressed,
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { c.changed <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			c.updated <- req.Params.URI
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), journeyTimeout)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: transport},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	c.session = session
	c.connected()
	c.lists(ctx)
	c.calls(ctx)
	c.reads(ctx)
	c.completes(ctx)
	c.misses(ctx)
	c.listens(ctx)
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return &c.seen
}

func (c *goClient) elicited(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Asked = append(c.seen.Asked, req.Params.Message)
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true, "room": "suite", "note": "späte Ankunft"}}, nil
}

func (c *goClient) progressed(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := req.Params
	c.seen.Progress = append(c.seen.Progress, progress{p.Progress, p.Total, p.Message})
}

func (c *goClient) connected() {
	init := c.session.InitializeResult()
	c.seen.Version = init.ProtocolVersion
	c.seen.Server.Name = init.ServerInfo.Name
	c.seen.Instructions = init.Instructions
	c.convert(init.Capabilities, &c.seen.Capabilities)
}

// convert turns one JSON shape into another.
func (c *goClient) convert(from, to any) {
	c.t.Helper()
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// must gives a result, or ends the test with the error.
func must[T any](c *goClient, v T, err error) T {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func (c *goClient) tools(ctx context.Context) (names []string) {
	c.t.Helper()
	for tool, err := range c.session.Tools(ctx, nil) {
		names = append(names, must(c, tool, err).Name)
	}
	return names
}

func (c *goClient) lists(ctx context.Context) {
	c.t.Helper()
	c.seen.Tools = c.tools(ctx)
	for prompt, err := range c.session.Prompts(ctx, nil) {
		c.seen.Prompts = append(c.seen.Prompts, must(c, prompt, err).Name)
	}
	for resource, err := range c.session.Resources(ctx, nil) {
		c.seen.Resources = append(c.seen.Resources, must(c, resource, err).URI)
	}
	for template, err := range c.session.ResourceTemplates(ctx, nil) {
		c.seen.Templates = append(c.seen.Templates, must(c, template, err).URITemplate)
	}
}

// call calls a tool and gives its structured content.
func (c *goClient) call(ctx context.Context, name string, args map[string]any) map[string]any {
	c.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(name) // two calls never run at once here
	res, err := c.session.CallTool(ctx, params)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if res.IsError {
		c.t.Fatalf("%s failed: %+v", name, res.Content)
	}
	structured, _ := res.StructuredContent.(map[string]any)
	return structured
}

func (c *goClient) calls(ctx context.Context) {
	c.t.Helper()
	c.seen.Weather = c.call(ctx, "weather_weatherCurrent", map[string]any{"city": "Zürich"})
	c.seen.Booking = c.call(ctx, "travel_bookHotel", map[string]any{"city": "Barcelona", "checkIn": "2026-06-15", "nights": 2})
	prompt, err := c.session.GetPrompt(ctx, &mcp.GetPromptParams{
		Name: "travel_plan-vacation", Arguments: map[string]string{"destination": "Barcelona"},
	})
	c.convert(must(c, prompt, err).Messages, &c.seen.Prompt)
}

func (c *goClient) read(ctx context.Context, uri string) (list []contents) {
	c.t.Helper()
	res, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	for _, item := range must(c, res, err).Contents {
		list = append(list, contents{item.URI, item.MIMEType, item.Text})
	}
	return list
}

func (c *goClient) reads(ctx context.Context) {
	c.t.Helper()
	c.seen.Read = c.read(ctx, "travel+travel://preferences/europe")
	c.seen.Forecast = c.read(ctx, "weather+weather://forecast/Paris/2026-06-15")
}

func (c *goClient) completes(ctx context.Context) {
	c.t.Helper()
	for _, params := range []*mcp.CompleteParams{
		{
			Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "travel+travel://flights/{origin}/{destination}"},
			Argument: mcp.CompleteParamsArgument{Name: "destination", Value: "Bar"},
		},
		{
			Ref:      &mcp.CompleteReference{Type: "ref/resource", URI: "weather+weather://forecast/{city}/{date}"},
			Argument: mcp.CompleteParamsArgument{Name: "city", Value: "Par"},
		},
		{
			Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "travel_plan-vacation"},
			Argument: mcp.CompleteParamsArgument{Name: "duration", Value: "1"},
		},
	} {
		res, err := c.session.Complete(ctx, params)
		c.seen.Completions = append(c.seen.Completions, must(c, res, err).Completion.Values)
	}
}

// misses asks for what does not exist.
func (c *goClient) misses(ctx context.Context) {
	_, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: "travel_nothing"})
	c.seen.Unknown.Tool = code(err)
	_, err = c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "travel+travel://nothing"})
	c.seen.Unknown.Resource = code(err)
	_, err = c.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "nothing"})
	c.seen.Unknown.Prompt = code(err)
}

// code gives the code of a JSON-RPC error, 0 for others.
func code(err error) int {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return 0
	}
	return int(wire.Code)
}

// listens watches a resource and the tool list change. The gateway acknowledges a
// subscription before the upstream knows of it, so the first change may be made
// too early to be seen: it is made again.
func (c *goClient) listens(ctx context.Context) {
	c.t.Helper()
	const events = "calendar+calendar://events/2024"
	if err := c.session.Subscribe(ctx, &mcp.SubscribeParams{URI: events}); err != nil {
		c.t.Fatal(err)
	}
	for c.seen.Updated == "" {
		c.call(ctx, "calendar_createCalendarEvent", map[string]any{"title": "Trip to Barcelona", "startDate": "2024-06-15"})
		select {
		case c.seen.Updated = <-c.updated:
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			c.t.Fatal("no resource was updated")
		}
	}
	c.seen.Events = c.read(ctx, events)
	c.call(ctx, "calendar_setReminders", map[string]any{"enabled": true})
	select {
	case <-c.changed:
	case <-ctx.Done():
		c.t.Fatal("the tool list did not change")
	}
	c.seen.ToolsAfter = c.tools(ctx)
}
