package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/cmd/causeway/demo"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// journey is what a client saw of the demo's sample servers behind the gateway.
// Both independent clients walk the same way: testdata/node/client.mjs and
// goJourney.
type journey struct {
	Version      string
	Server       struct{ Name string }
	Capabilities map[string]map[string]any
	Instructions string

	Tools, Prompts, Resources, Templates []string

	Weather  map[string]any
	Booking  map[string]any
	Asked    []string // the messages of elicitations
	Progress []progress
	Read     []contents
	Forecast []contents
	Prompt   []message
	// Completions of the flights template, the forecast template and the prompt.
	Completions [][]string
	// Unknown has the codes of the errors for a tool, a resource and a prompt that
	// do not exist.
	Unknown struct{ Tool, Resource, Prompt int }

	Updated    string // the URI of a resource that changed
	Events     []contents
	ToolsAfter []string // after the list changed

	Errors []string // what the client complained about
}

type progress struct {
	Progress, Total float64
	Message         string
}

type contents struct{ URI, MIMEType, Text string }

type message struct {
	Role    string
	Content struct {
		Type     string
		Resource *struct{ URI string }
	}
}

// startDemo starts the sample servers and a gateway in front of them, and gives
// the URL of its MCP endpoint. tenant are lines of its configuration.
func startDemo(t *testing.T, tenant ...string) string {
	t.Helper()
	servers, err := demo.Start(demo.Options{Step: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := servers.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	var upstreams []string
	for _, u := range servers.Upstreams() {
		upstreams = append(upstreams, upstreamOf(u.Alias, u.URL))
	}
	return front(t, "", strings.Join(tenant, ""), upstreams...).URL + "/mcp"
}

func TestGoClient(t *testing.T) {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			checkJourney(t, version, goJourney(t, startDemo(t), version, transport))
		})
	}
}

func TestTypeScriptClient(t *testing.T) {
	node := gatewaytest.NewNode(t)
	url := startDemo(t)
	out := runNode(t, node, "../testdata/node/client.mjs", url)
	var j journey
	if err := json.Unmarshal(out, &j); err != nil {
		t.Fatalf("read what the TypeScript client printed: %v\n%s", err, out)
	}
	checkJourney(t, "2026-07-28", &j)
}

// checkJourney holds what every client of a revision must have seen.
func checkJourney(t *testing.T, version string, got *journey) {
	t.Helper()
	tools := []string{
		"calendar_createCalendarEvent", "calendar_sendEmail", "calendar_setReminders",
		"travel_bookHotel", "travel_searchFlights",
		"weather_checkWeather", "weather_weatherCurrent",
	}
	want := journey{
		Version:   version,
		Tools:     tools,
		Prompts:   []string{"travel_plan-vacation"},
		Resources: []string{"calendar+calendar://events/2024", "travel+travel://past-trips/spain-2023", "travel+travel://preferences/europe"},
		Templates: []string{"travel+travel://flights/{origin}/{destination}", "weather+weather://forecast/{city}/{date}"},
		Asked:     []string{"Book The Lantern in Barcelona from 2026-06-15 to 2026-06-17 for 2 guests? A standard room is EUR 316 in total."},
		Progress: []progress{
			{1, 4, "Checking that rooms are free at The Lantern"}, {2, 4, "Holding the room"},
			{3, 4, "Confirming with the hotel"}, {4, 4, "Writing the voucher"},
		},
		Completions: [][]string{{"Barbados", "Barcelona"}, {"Paris", "Park City"}, {"10", "14"}},
		Updated:     "calendar+calendar://events/2024",
		ToolsAfter:  slices.Insert(slices.Clone(tools), 1, "calendar_createReminder"),
	}
	want.Server.Name = "causeway"
	want.Unknown.Tool, want.Unknown.Resource, want.Unknown.Prompt = -32602, -32602, -32602
	if version != "2026-07-28" {
		want.Unknown.Resource = -32002
	}
	// Looked at below.
	want.Capabilities, want.Instructions = got.Capabilities, got.Instructions
	want.Weather, want.Booking = got.Weather, got.Booking
	want.Read, want.Forecast, want.Events, want.Prompt = got.Read, got.Forecast, got.Events, got.Prompt
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the client saw (-want +got):\n%s", diff)
	}

	for _, list := range []string{"tools", "prompts", "resources"} {
		if got.Capabilities[list]["listChanged"] != true {
			t.Errorf("%s are advertised as %v, want listChanged", list, got.Capabilities[list])
		}
	}
	if got.Capabilities["resources"]["subscribe"] != true || got.Capabilities["completions"] == nil {
		t.Errorf("capabilities %v, want completions and resources.subscribe", got.Capabilities)
	}
	for _, alias := range []string{"travel", "weather", "calendar"} {
		if !strings.Contains(got.Instructions, alias) {
			t.Errorf("the instructions say nothing about %s:\n%s", alias, got.Instructions)
		}
	}
	if got.Weather["city"] != "Zürich" || got.Weather["temperature"] == nil {
		t.Errorf("the weather is %v, want that of Zürich", got.Weather)
	}
	if got.Booking["status"] != "booked" || got.Booking["room"] != "suite" {
		t.Errorf("the booking is %v, want a booked suite", got.Booking)
	}
	checkContents(t, got.Read, "travel+travel://preferences/europe", "Meridian Air")
	checkContents(t, got.Forecast, "weather+weather://forecast/Paris/2026-06-15", "2026-06-15")
	checkContents(t, got.Events, "calendar+calendar://events/2024", "Trip to Barcelona")
	if n := len(got.Prompt); n != 2 || got.Prompt[1].Content.Resource == nil ||
		got.Prompt[1].Content.Resource.URI != "travel+travel://preferences/europe" {
		t.Errorf("the prompt is %+v, want a text and the preferences", got.Prompt)
	}
}

func checkContents(t *testing.T, got []contents, uri, text string) {
	t.Helper()
	if len(got) != 1 || got[0].URI != uri || !strings.Contains(got[0].Text, text) {
		t.Errorf("read %+v, want %s with %q in it", got, uri, text)
	}
}
