package demo

import (
	"context"
	"net/http"
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
