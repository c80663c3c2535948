package demo

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	preferencesURI = "travel://preferences/europe"
	pastTripURI    = "travel://past-trips/spain-2023"
	planPrompt     = "plan-vacation"
)

// newTravel makes the server with flights, hotels and what it knows about the
// traveller.
func newTravel(opts Options) *mcp.Server {
	s := newServer("demo-travel", "Travel (sample)",
		"Finds flights and books hotels. Search flights before you book a hotel, and read "+
			preferencesURI+" for what the traveller likes. bookHotel asks the user to confirm.",
		opts, mcp.ServerOptions{CompletionHandler: completeTravel},
		// What a traveller likes is nobody else's business.
		"private", readTTL)
	addFlights(s)
	addBooking(s, opts.Step)
	addTravelResources(s)
	addPlanPrompt(s)
	return s
}

func addTravelResources(s *mcp.Server) {
	s.AddResource(&mcp.Resource{
		URI:         preferencesURI,
		Name:        "preferences-europe",
		Title:       "Travel preferences: Europe",
		Description: "Airlines, seats, hotels and food that the traveller prefers in Europe",
		MIMEType:    "application/json",
		Annotations: &mcp.Annotations{Audience: []mcp.Role{"assistant"}, Priority: 0.8},
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return preferences()
	})
	s.AddResource(&mcp.Resource{
		URI:         pastTripURI,
		Name:        "past-trip-spain-2023",
		Title:       "Past trip: Spain 2023",
		Description: "Where the traveller went in Spain in 2023, and what they thought of it",
		MIMEType:    "text/markdown",
		Annotations: &mcp.Annotations{Audience: []mcp.Role{"user", "assistant"}, Priority: 0.4},
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: pastTripURI, MIMEType: "text/markdown",
			Text: "# Spain, September 2023\n\n" +
				"- **Madrid**, 3 nights: loved the Prado, the hotel was too loud.\n" +
				"- **Barcelona**, 4 nights: Sagrada Família, the beach and the Boqueria; would go again.\n" +
				"- Trains between the cities were better than flying.\n",
		}}}, nil
	})
}

// preferences is what the traveller likes.
func preferences() (*mcp.ReadResourceResult, error) {
	return jsonResource(preferencesURI, map[string]any{
		"airlines":        []string{"Meridian Air", "Solair"},
		"seat":            "aisle",
		"hotel":           map[string]any{"stars": 4, "near": "city centre", "breakfast": true},
		"food":            []string{"seafood", "vegetarian"},
		"maxStops":        1,
		"budgetPerDayEUR": 220,
	})
}

func addPlanPrompt(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{
		Name:        planPrompt,
		Title:       "Plan a vacation",
		Description: "Guide through planning a vacation: dates, flights, weather, hotel and calendar",
		Arguments: []*mcp.PromptArgument{
			{Name: "destination", Title: "Destination", Description: "City to travel to", Required: true},
			{Name: "duration", Title: "Duration", Description: "Length of the stay in days; 7 when left out"},
			{Name: "budget", Title: "Budget", Description: "Budget in EUR for everything"},
			{Name: "interests", Title: "Interests", Description: "What you like, separated by commas, such as beaches, architecture, food"},
		},
	}, planVacation)
}

func planVacation(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	args := req.Params.Arguments
	destination := strings.TrimSpace(args["destination"])
	if destination == "" {
		return nil, invalidParams("the argument destination is missing")
	}
	duration := args["duration"]
	if duration == "" {
		duration = "7"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Plan a vacation in %s for %s days.", destination, duration)
	if args["budget"] != "" {
		fmt.Fprintf(&b, " The budget for everything is EUR %s.", args["budget"])
	}
	if args["interests"] != "" {
		fmt.Fprintf(&b, " I am interested in %s.", args["interests"])
	}
	b.WriteString("\n\nFind out when my calendar is free, search flights, check the weather for those days, " +
		"propose a day-by-day plan, then book the hotel and put the trip into my calendar. " +
		"Ask me before anything is booked. What I like is attached.")
	likes, err := preferences()
	if err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{
		Description: "Plan a vacation in " + destination,
		Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: b.String()}},
			{Role: "user", Content: &mcp.EmbeddedResource{Resource: likes.Contents[0]}},
		},
	}, nil
}

func completeTravel(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	ref, arg := req.Params.Ref, req.Params.Argument
	switch {
	case ref.Type == "ref/resource" && (arg.Name == "origin" || arg.Name == "destination"),
		ref.Type == "ref/prompt" && ref.Name == planPrompt && arg.Name == "destination":
		return complete(cityNames(true), arg.Value), nil
	case ref.Type == "ref/prompt" && ref.Name == planPrompt && arg.Name == "duration":
		return complete([]string{"3", "5", "7", "10", "14"}, arg.Value), nil
	}
	return complete(nil, arg.Value), nil
}
