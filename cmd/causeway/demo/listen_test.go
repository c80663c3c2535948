package demo

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestSubscriptions(t *testing.T) {
	updated, tools := make(chan string, 10), make(chan struct{}, 10)
	resources := make(chan struct{}, 10)
	urls := start(t)
	listener := connect(t, urls["calendar"], &mcp.ClientOptions{
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { tools <- struct{}{} },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { resources <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updated <- req.Params.URI
		},
	})
	if err := listener.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "calendar://events/2024"}); err != nil {
		t.Fatal(err)
	}
	caller := connect(t, urls["calendar"], nil)

	created := structured[event](t, call(t, caller, "createCalendarEvent", map[string]any{"title": "Barcelona trip", "startDate": "2024-06-15", "endDate": "2024-06-22"}))
	if got := <-updated; got != "calendar://events/2024" {
		t.Errorf("%s was updated, want calendar://events/2024", got)
	}
	res, err := caller.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "calendar://events/2024"})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(res.Contents[0].Text, created.ID) {
		t.Errorf("the calendar %s lacks the event %s", res.Contents[0].Text, created.ID)
	}

	call(t, caller, "createCalendarEvent", map[string]any{"title": "Ski trip", "startDate": "2027-01-04"})
	<-resources

	call(t, caller, "setReminders", map[string]any{"enabled": true})
	<-tools
	if names := toolNames(t, caller); !slices.Contains(names, "createReminder") {
		t.Errorf("the tools are %v, want createReminder among them", names)
	}
	structured[receipt](t, call(t, caller, "createReminder", map[string]any{"eventId": created.ID}))
	call(t, caller, "setReminders", map[string]any{"enabled": false})
	<-tools
}

func TestStopEndsListenStreams(t *testing.T) {
	servers, err := Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, servers.Upstreams()[0].URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var stream strings.Builder
	first := make([]byte, 4096)
	n, err := res.Body.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	stream.Write(first[:n])
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := servers.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	for {
		n, err := res.Body.Read(first)
		stream.Write(first[:n])
		if err != nil {
			break
		}
	}
	got := stream.String()
	if !strings.Contains(got, "subscriptions/acknowledged") || !strings.Contains(got, `"resultType":"complete"`) {
		t.Errorf("the stream was\n%s\nwant an acknowledgement and a completion result", got)
	}
}

// TestCancellingEndsABooking holds that a call whose client left is not carried
// on with, and that nothing is left running after Stop.
func TestCancellingEndsABooking(t *testing.T) {
	servers, err := Start(Options{Step: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true, "room": "sea"}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { cancel() },
	})
	transport := &http.Transport{}
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: servers.Upstreams()[0].URL, HTTPClient: &http.Client{Transport: transport},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	params := &mcp.CallToolParams{Name: "bookHotel", Arguments: map[string]any{"city": "Rome", "checkIn": "2026-06-15"}}
	params.SetProgressToken("p")
	if _, err := session.CallTool(ctx, params); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	session.Close()
	transport.CloseIdleConnections()
	stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
	defer done()
	if err := servers.Stop(stopping); err != nil {
		t.Errorf("stop: %v", err)
	}
	stacks := make([]byte, 1<<20)
	for {
		left := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(left, "demo.serve") && !strings.Contains(left, "demo.(*") {
			return
		}
		if stopping.Err() != nil {
			t.Fatalf("goroutines are left:\n%s", left)
		}
		runtime.Gosched() // a goroutine that has said that it is done may not be gone yet
	}
}
