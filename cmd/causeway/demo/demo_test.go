package demo

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// start runs the sample servers for one test and gives their URLs by alias.
func start(t *testing.T) map[string]string {
	t.Helper()
	servers, err := Start(Options{Step: time.Millisecond})
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
	urls := map[string]string{}
	for _, u := range servers.Upstreams() {
		urls[u.Alias] = u.URL
	}
	return urls
}

// connect opens a session of the official client, which speaks 2026-07-28.
func connect(t *testing.T, url string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-test", Version: "1"}, opts)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: transport},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != "2026-07-28" {
		t.Fatalf("the client speaks %s, want 2026-07-28", got)
	}
	return session
}

// call calls a tool and fails the test on a protocol error.
func call(t *testing.T, s *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// structured decodes a result's structured content.
func structured[T any](t *testing.T, res *mcp.CallToolResult) (v T) {
	t.Helper()
	if res.IsError {
		t.Fatalf("the tool failed: %s", firstText(res))
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func firstText(res *mcp.CallToolResult) string {
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

func toolNames(t *testing.T, s *mcp.ClientSession) []string {
	t.Helper()
	var names []string
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

func TestLists(t *testing.T) {
	urls := start(t)
	tests := []struct {
		alias                              string
		tools, resources, templates, prmpt []string
	}{
		{
			alias:     "travel",
			tools:     []string{"bookHotel", "searchFlights"},
			resources: []string{"travel://past-trips/spain-2023", "travel://preferences/europe"},
			templates: []string{"travel://flights/{origin}/{destination}"},
			prmpt:     []string{"plan-vacation"},
		},
		{
			alias:     "weather",
			tools:     []string{"checkWeather", "weatherCurrent"},
			templates: []string{"weather://forecast/{city}/{date}"},
		},
		{
			alias:     "calendar",
			tools:     []string{"createCalendarEvent", "sendEmail", "setReminders"},
			resources: []string{"calendar://events/2024"},
		},
	}
	for _, test := range tests {
		t.Run(test.alias, func(t *testing.T) {
			s := connect(t, urls[test.alias], nil)
			if s.InitializeResult().Instructions == "" {
				t.Error("the server has no instructions")
			}
			if diff := cmp.Diff(test.tools, toolNames(t, s)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			var resources, templates, prompts []string
			for r, err := range s.Resources(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				resources = append(resources, r.URI)
			}
			for r, err := range s.ResourceTemplates(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				templates = append(templates, r.URITemplate)
			}
			for p, err := range s.Prompts(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				prompts = append(prompts, p.Name)
			}
			slices.Sort(resources)
			got := [][]string{resources, templates, prompts}
			if diff := cmp.Diff([][]string{test.resources, test.templates, test.prmpt}, got); diff != "" {
				t.Errorf("resources, templates, prompts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCacheHints(t *testing.T) {
	urls := start(t)
	tools, err := connect(t, urls["travel"], nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (mcp.Cacheable{TTLMs: 60_000, CacheScope: "public"}); tools.Cacheable != want {
		t.Errorf("tools/list of travel has %+v, want %+v", tools.Cacheable, want)
	}
	tests := []struct {
		name, alias, uri string
		want             mcp.Cacheable
	}{
		{"what a traveller likes", "travel", preferencesURI, mcp.Cacheable{TTLMs: 30_000, CacheScope: "private"}},
		{"a forecast", "weather", "weather://forecast/Paris/2026-06-15", mcp.Cacheable{TTLMs: 30_000, CacheScope: "public"}},
		{"a calendar", "calendar", "calendar://events/2024", mcp.Cacheable{TTLMs: 0, CacheScope: "private"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			res, err := connect(t, urls[test.alias], nil).ReadResource(t.Context(), &mcp.ReadResourceParams{URI: test.uri})
			if err != nil {
				t.Fatal(err)
			}
			if res.Cacheable != test.want {
				t.Errorf("got %+v, want %+v", res.Cacheable, test.want)
			}
		})
	}
}

func TestSearchFlights(t *testing.T) {
	s := connect(t, start(t)["travel"], nil)
	args := map[string]any{"origin": "NYC", "destination": "Barcelona", "date": "2026-06-15"}
	first := structured[flights](t, call(t, s, "searchFlights", args))
	if first.Origin.Airport != "JFK" || first.Destination.Airport != "BCN" || len(first.Flights) < 3 {
		t.Errorf("got %+v", first)
	}
	if !slices.IsSortedFunc(first.Flights, func(a, b flight) int { return a.PriceEUR - b.PriceEUR }) {
		t.Errorf("the flights are not sorted by price: %+v", first.Flights)
	}
	if diff := cmp.Diff(first, structured[flights](t, call(t, s, "searchFlights", args))); diff != "" {
		t.Errorf("the second answer differs:\n%s", diff)
	}
	res := call(t, s, "searchFlights", map[string]any{"origin": "NYC", "destination": "Atlantis", "date": "2026-06-15"})
	if !res.IsError || !strings.Contains(firstText(res), "Barcelona") {
		t.Errorf("an unknown city gives %+v, want an error that names the known ones", firstText(res))
	}
}

func TestBookHotel(t *testing.T) {
	urls := start(t)
	args := map[string]any{"city": "Barcelona", "checkIn": "2026-06-15", "nights": 3}
	tests := []struct {
		name   string
		answer *mcp.ElicitResult
		want   string
		steps  int
	}{
		{"accepted", &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true, "room": "suite"}}, "booked", 4},
		{"accepted without the confirmation", &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": false, "room": "suite"}}, "declined", 0},
		{"declined", &mcp.ElicitResult{Action: "decline"}, "declined", 0},
		{"dismissed", &mcp.ElicitResult{Action: "cancel"}, "cancelled", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			var asked, progress []string
			s := connect(t, urls["travel"], &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, req.Params.Message)
					return test.answer, nil
				},
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					mu.Lock()
					defer mu.Unlock()
					progress = append(progress, req.Params.Message)
				},
			})
			params := &mcp.CallToolParams{Name: "bookHotel", Arguments: args}
			params.SetProgressToken("p1")
			res, err := s.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			got := structured[booking](t, res)
			mu.Lock()
			defer mu.Unlock()
			if got.Status != test.want || (got.Reference != "") != (test.want == "booked") {
				t.Errorf("got %+v, want status %s", got, test.want)
			}
			if len(asked) != 1 || !strings.Contains(asked[0], "EUR") {
				t.Errorf("the user was asked %q, want one question with the price", asked)
			}
			if len(progress) != test.steps {
				t.Errorf("%d progress notifications %q, want %d", len(progress), progress, test.steps)
			}
		})
	}
}

func TestBookHotelRefuses(t *testing.T) {
	urls := start(t)
	args := map[string]any{"city": "Barcelona", "checkIn": "2026-06-15"}
	manual := &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		Capabilities:   &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
	}
	s := connect(t, urls["travel"], manual)
	offer := call(t, s, "bookHotel", args)
	if !offer.NeedsInput() || offer.RequestState == "" {
		t.Fatalf("got %+v, want a question with a requestState", offer)
	}
	yes := mcp.InputResponseMap{confirmKey: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true, "room": "standard"}}}
	tests := []struct {
		name   string
		params mcp.CallToolParams
		want   string
	}{
		{"a missing state", mcp.CallToolParams{Arguments: args, InputResponses: yes}, "malformed or missing"},
		{"a changed state", mcp.CallToolParams{Arguments: args, InputResponses: yes, RequestState: "A" + offer.RequestState[1:]}, "another call"},
		{"a state of another stay", mcp.CallToolParams{
			Arguments:      map[string]any{"city": "Barcelona", "checkIn": "2026-06-15", "nights": 9},
			InputResponses: yes, RequestState: offer.RequestState,
		}, "another call"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.params.Name = "bookHotel"
			_, err := s.CallTool(t.Context(), &test.params)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	t.Run("a client that cannot ask", func(t *testing.T) {
		_, err := connect(t, urls["travel"], nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "bookHotel", Arguments: args})
		if err == nil || !strings.Contains(err.Error(), "elicitation.form") {
			t.Errorf("got %v, want an error that names the capability", err)
		}
	})
}

func TestStateExpires(t *testing.T) {
	key, now := newStateKey(), time.Unix(1_000_000, 0)
	sealed, err := key.seal("offer", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.check(sealed, "offer", now.Add(stateTTL)); err != nil {
		t.Errorf("in time: %v", err)
	}
	if err := key.check(sealed, "offer", now.Add(stateTTL+time.Second)); err == nil {
		t.Error("an expired state was accepted")
	}
}

func TestWeather(t *testing.T) {
	s := connect(t, start(t)["weather"], nil)
	// The client learns from the list that the city goes into a header too; the
	// server refuses the call when it is not there, also for a name that a header
	// cannot hold as it is.
	toolNames(t, s)
	for _, name := range []string{"Paris", "São Paulo", "東京"} {
		got := structured[current](t, call(t, s, "weatherCurrent", map[string]any{"city": name}))
		if got.City == "" || got.Units != "metric" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	out := structured[outlook](t, call(t, s, "checkWeather", map[string]any{"city": "Park City", "startDate": "2026-01-30", "endDate": "2026-02-02"}))
	if len(out.Days) != 4 || out.Days[2].Date != "2026-02-01" {
		t.Errorf("got %+v, want four days", out)
	}
	res, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "weather://forecast/Park%20City/2026-01-30"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `"city": "Park City"`; !strings.Contains(res.Contents[0].Text, want) {
		t.Errorf("the forecast %s lacks %s", res.Contents[0].Text, want)
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "weather://forecast/Atlantis/2026-01-30"}); err == nil {
		t.Error("a forecast for a city that is not there was given")
	}
}

func TestComplete(t *testing.T) {
	urls := start(t)
	flightsRef := &mcp.CompleteReference{Type: "ref/resource", URI: "travel://flights/{origin}/{destination}"}
	forecastRef := &mcp.CompleteReference{Type: "ref/resource", URI: "weather://forecast/{city}/{date}"}
	promptRef := &mcp.CompleteReference{Type: "ref/prompt", Name: "plan-vacation"}
	tests := []struct {
		name, alias string
		ref         *mcp.CompleteReference
		arg, typed  string
		want        []string
	}{
		{"a flight's destination", "travel", flightsRef, "destination", "Bar", []string{"Barbados", "Barcelona"}},
		{"in lower case", "travel", flightsRef, "origin", "bar", []string{"Barbados", "Barcelona"}},
		{"a prompt's destination", "travel", promptRef, "destination", "To", []string{"Tokyo"}},
		{"a prompt's duration", "travel", promptRef, "duration", "1", []string{"10", "14"}},
		{"no flights from Park City", "travel", flightsRef, "origin", "Par", []string{"Paris"}},
		{"a forecast's city", "weather", forecastRef, "city", "Par", []string{"Paris", "Park City"}},
		{"nothing that fits", "weather", forecastRef, "city", "xyz", []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			res, err := connect(t, urls[test.alias], nil).Complete(t.Context(), &mcp.CompleteParams{
				Ref: test.ref, Argument: mcp.CompleteParamsArgument{Name: test.arg, Value: test.typed},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, res.Completion.Values); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanVacation(t *testing.T) {
	s := connect(t, start(t)["travel"], nil)
	res, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "plan-vacation", Arguments: map[string]string{"destination": "Barcelona", "budget": "3000"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, ok := res.Messages[0].Content.(*mcp.TextContent)
	if !ok || !strings.Contains(text.Text, "Barcelona for 7 days. The budget for everything is EUR 3000") {
		t.Errorf("got %+v", res.Messages[0].Content)
	}
	if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "plan-vacation"}); err == nil {
		t.Error("the prompt was given without its destination")
	}
}
