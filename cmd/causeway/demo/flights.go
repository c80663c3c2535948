package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// place is one end of a flight.
type place struct {
	City    string `json:"city" jsonschema:"the city's name"`
	Airport string `json:"airport" jsonschema:"the airport's IATA code"`
}

// flight is one connection that searchFlights found.
type flight struct {
	Number          string `json:"number" jsonschema:"flight number"`
	Airline         string `json:"airline"`
	Departs         string `json:"departs" jsonschema:"local time of departure, HH:MM"`
	DurationMinutes int    `json:"durationMinutes" jsonschema:"travel time in minutes, stops included"`
	Stops           int    `json:"stops"`
	PriceEUR        int    `json:"priceEUR" jsonschema:"price for one traveller in EUR, taxes included"`
	SeatsLeft       int    `json:"seatsLeft"`
}

// flights is the structured result of searchFlights.
type flights struct {
	Origin      place    `json:"origin"`
	Destination place    `json:"destination"`
	Date        string   `json:"date,omitempty" jsonschema:"day of departure, YYYY-MM-DD"`
	Flights     []flight `json:"flights" jsonschema:"the flights found, the cheapest first"`
}

type searchFlightsArgs struct {
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
	Date        string `json:"date"`
}

func addFlights(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{
		Name:  "searchFlights",
		Title: "Search flights",
		Description: "Search for available flights between two cities on one day. " +
			"Returns flight numbers, times, prices and free seats, the cheapest first. " +
			"It books nothing.",
		Annotations: readOnly(),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"origin": {"type": "string", "minLength": 1, "description": "Departure city, or the IATA code of its airport, such as New York or JFK"},
				"destination": {"type": "string", "minLength": 1, "description": "Arrival city, or the IATA code of its airport, such as Barcelona or BCN"},
				"date": {"type": "string", "format": "date", "description": "Day of departure, YYYY-MM-DD"}
			},
			"required": ["origin", "destination", "date"],
			"additionalProperties": false
		}`),
	}, searchFlights)

	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "flight-search",
		Title:       "Flight Search",
		Description: "Flights that usually serve a route between two cities, without a date",
		URITemplate: "travel://flights/{origin}/{destination}",
		MIMEType:    "application/json",
	}, readFlights)
}

func searchFlights(_ context.Context, _ *mcp.CallToolRequest, args searchFlightsArgs) (*mcp.CallToolResult, *flights, error) {
	if _, err := parseDate("date", args.Date); err != nil {
		return nil, nil, err
	}
	found, err := findFlights(args.Origin, args.Destination, args.Date)
	if err != nil {
		return nil, nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d flights from %s (%s) to %s (%s) on %s:", len(found.Flights),
		found.Origin.City, found.Origin.Airport, found.Destination.City, found.Destination.Airport, found.Date)
	for _, f := range found.Flights {
		fmt.Fprintf(&b, "\n- %s, %s: departs %s, %s, %s, EUR %d, %d seats left", f.Number, f.Airline, f.Departs,
			fmt.Sprintf("%dh%02dm", f.DurationMinutes/60, f.DurationMinutes%60), stops(f.Stops), f.PriceEUR, f.SeatsLeft)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: b.String()},
		&mcp.ResourceLink{
			URI:      flightsURI(found.Origin.City, found.Destination.City),
			Name:     "flight-search",
			Title:    fmt.Sprintf("All flights from %s to %s", found.Origin.City, found.Destination.City),
			MIMEType: "application/json",
		},
	}}, found, nil
}

func stops(n int) string {
	switch n {
	case 0:
		return "non-stop"
	case 1:
		return "1 stop"
	}
	return fmt.Sprintf("%d stops", n)
}

// findFlights makes up the flights of one route. date may be empty.
func findFlights(origin, destination, date string) (*flights, error) {
	from, err := findCity(origin, true)
	if err != nil {
		return nil, fmt.Errorf("origin: %w", err)
	}
	to, err := findCity(destination, true)
	if err != nil {
		return nil, fmt.Errorf("destination: %w", err)
	}
	if from.name == to.name {
		return nil, fmt.Errorf("origin and destination are both %s", from.name)
	}
	const cruise = 850 // km/h
	km := distance(from, to)
	airlines := []struct{ code, name string }{
		{"MD", "Meridian Air"}, {"NW", "Northwind"}, {"SL", "Solair"}, {"AB", "Atlantic Blue"}, {"KE", "Kestrel"},
	}
	first := pick(len(airlines), from.name, to.name)
	found := &flights{Origin: place{from.name, from.airport}, Destination: place{to.name, to.airport}, Date: date}
	for i := range 3 + pick(2, from.name, to.name, "count") {
		airline := airlines[(first+i)%len(airlines)]
		seed := []string{from.name, to.name, date, airline.code}
		f := flight{
			Number:    fmt.Sprintf("%s%d", airline.code, 100+pick(900, from.name, to.name, airline.code)),
			Airline:   airline.name,
			Departs:   fmt.Sprintf("%02d:%02d", 6+pick(16, append(seed, "hour")...), 5*pick(12, append(seed, "minute")...)),
			Stops:     pick(2, append(seed, "stops")...),
			SeatsLeft: 1 + pick(9, append(seed, "seats")...),
		}
		f.DurationMinutes = 30 + int(km*60/cruise)
		f.PriceEUR = 39 + int(km/11) + pick(80, append(seed, "price")...)
		if f.Stops > 0 {
			f.DurationMinutes += 75 + 5*pick(20, append(seed, "wait")...)
			f.PriceEUR -= f.PriceEUR / 5
		}
		found.Flights = append(found.Flights, f)
	}
	slices.SortFunc(found.Flights, func(a, b flight) int {
		return cmp.Or(cmp.Compare(a.PriceEUR, b.PriceEUR), strings.Compare(a.Number, b.Number))
	})
	return found, nil
}

// flightsURI fills the template of flight searches.
func flightsURI(origin, destination string) string {
	return "travel://flights/" + url.PathEscape(origin) + "/" + url.PathEscape(destination)
}

func readFlights(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	parts, err := templateValues(req.Params.URI, "travel://flights/", 2)
	if err != nil {
		return nil, notFound(req.Params.URI, err.Error())
	}
	found, err := findFlights(parts[0], parts[1], "")
	if err != nil {
		return nil, notFound(req.Params.URI, err.Error())
	}
	return jsonResource(req.Params.URI, found)
}

// templateValues takes the n values out of a URI that was made from a template
// which ends in n path segments after prefix.
func templateValues(uri, prefix string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(uri, prefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != n {
		return nil, fmt.Errorf("expected %s and %d path segments", prefix, n)
	}
	for i, p := range parts {
		value, err := url.PathUnescape(p)
		if err != nil {
			return nil, fmt.Errorf("segment %d: %w", i+1, err)
		}
		parts[i] = value
	}
	return parts, nil
}
