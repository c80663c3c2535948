package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newWeather makes the server with the weather.
func newWeather(opts Options) *mcp.Server {
	s := newServer("demo-weather", "Weather (sample)",
		"Tells the weather. weatherCurrent is for now, checkWeather for the days of a trip; "+
			"weather://forecast/{city}/{date} is one day's forecast as a resource.",
		opts, mcp.ServerOptions{CompletionHandler: completeWeather}, "public", readTTL)

	mcp.AddTool(s, &mcp.Tool{
		Name:  "checkWeather",
		Title: "Check the weather for a trip",
		Description: "Check what weather to expect in a city between two days, at most 14 days. " +
			"Returns one line per day and a summary. Use weatherCurrent for the weather right now.",
		Annotations: readOnly(),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"city": {"type": "string", "minLength": 1, "description": "City, such as Barcelona"},
				"startDate": {"type": "string", "format": "date", "description": "First day, YYYY-MM-DD"},
				"endDate": {"type": "string", "format": "date", "description": "Last day, YYYY-MM-DD; the first day when left out"}
			},
			"required": ["city", "startDate"],
			"additionalProperties": false
		}`),
	}, checkWeather)

	mcp.AddTool(s, &mcp.Tool{
		Name:        "weatherCurrent",
		Title:       "Current weather",
		Description: "Get the current weather of a city: temperature, conditions, humidity and wind, as structured data.",
		Annotations: readOnly(),
		// The city travels in a header too, where a load balancer could route by it.
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"city": {"type": "string", "minLength": 1, "description": "City, such as Paris", "x-mcp-header": "City"},
				"units": {"type": "string", "enum": ["metric", "imperial"], "default": "metric", "description": "metric for °C and km/h, imperial for °F and mph"}
			},
			"required": ["city"],
			"additionalProperties": false
		}`),
		OutputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"city": {"type": "string"},
				"country": {"type": "string"},
				"units": {"type": "string", "enum": ["metric", "imperial"]},
				"temperature": {"type": "number", "description": "in °C, or in °F with imperial units"},
				"conditions": {"type": "string", "enum": ["sunny", "partly cloudy", "cloudy", "rain", "thunderstorms", "snow"]},
				"humidity": {"type": "integer", "minimum": 0, "maximum": 100, "description": "relative humidity in percent"},
				"wind": {"type": "number", "description": "in km/h, or in mph with imperial units"}
			},
			"required": ["city", "country", "units", "temperature", "conditions", "humidity", "wind"]
		}`),
	}, weatherCurrent)

	s.AddResourceTemplate(&mcp.ResourceTemplate{
		Name:        "weather-forecast",
		Title:       "Weather Forecast",
		Description: "Weather forecast for a city and a day (YYYY-MM-DD)",
		URITemplate: forecastPrefix + "{city}/{date}",
		MIMEType:    "application/json",
	}, readForecast)
	return s
}

const forecastPrefix = "weather://forecast/"

// day is one day's forecast.
type day struct {
	Date       string `json:"date"`
	HighC      int    `json:"highC" jsonschema:"highest temperature in °C"`
	LowC       int    `json:"lowC" jsonschema:"lowest temperature in °C"`
	Conditions string `json:"conditions"`
	RainChance int    `json:"rainChance" jsonschema:"chance of rain in percent"`
}

// outlook is the structured result of checkWeather.
type outlook struct {
	City    string `json:"city"`
	Summary string `json:"summary"`
	Days    []day  `json:"days"`
}

type checkWeatherArgs struct {
	City      string `json:"city"`
	StartDate string `json:"startDate"`
	EndDate   string `json:"endDate"`
}

func checkWeather(_ context.Context, _ *mcp.CallToolRequest, args checkWeatherArgs) (*mcp.CallToolResult, *outlook, error) {
	c, err := findCity(args.City, false)
	if err != nil {
		return nil, nil, err
	}
	first, err := parseDate("startDate", args.StartDate)
	if err != nil {
		return nil, nil, err
	}
	last := first
	if args.EndDate != "" {
		if last, err = parseDate("endDate", args.EndDate); err != nil {
			return nil, nil, err
		}
	}
	const maxDays = 14
	if n := last.Sub(first).Hours()/24 + 1; n < 1 || n > maxDays {
		return nil, nil, fmt.Errorf("endDate must be 0 to %d days after startDate", maxDays-1)
	}
	out := &outlook{City: c.name}
	var b strings.Builder
	high, rain := 0, 0
	for t := first; !t.After(last); t = t.AddDate(0, 0, 1) {
		d := forecast(c, t)
		out.Days = append(out.Days, d)
		high += d.HighC
		if d.RainChance >= 50 {
			rain++
		}
		fmt.Fprintf(&b, "\n- %s: %s, %d to %d °C, %d %% chance of rain", d.Date, d.Conditions, d.LowC, d.HighC, d.RainChance)
	}
	out.Summary = fmt.Sprintf("%s: about %d °C by day, rain likely on %d of %d days.", c.name, high/len(out.Days), rain, len(out.Days))
	return &mcp.CallToolResult{Content: text("%s%s", out.Summary, b.String())}, out, nil
}

// current is the structured result of weatherCurrent.
type current struct {
	City        string  `json:"city"`
	Country     string  `json:"country"`
	Units       string  `json:"units"`
	Temperature float64 `json:"temperature"`
	Conditions  string  `json:"conditions"`
	Humidity    int     `json:"humidity"`
	Wind        float64 `json:"wind"`
}

type weatherCurrentArgs struct {
	City  string `json:"city"`
	Units string `json:"units"`
}

func weatherCurrent(_ context.Context, _ *mcp.CallToolRequest, args weatherCurrentArgs) (*mcp.CallToolResult, *current, error) {
	c, err := findCity(args.City, false)
	if err != nil {
		return nil, nil, err
	}
	// "Now" is always noon of one day in June: the samples say the same each time.
	d := forecast(c, time.Date(2026, time.June, 15, 0, 0, 0, 0, time.UTC))
	out := &current{
		City: c.name, Country: c.country, Units: args.Units,
		Temperature: float64(d.HighC) - 1.5,
		Conditions:  d.Conditions,
		Humidity:    35 + pick(50, c.name, "humidity"),
		Wind:        float64(4 + pick(28, c.name, "wind")),
	}
	degree, speed := "°C", "km/h"
	if args.Units == "imperial" {
		degree, speed = "°F", "mph"
		out.Temperature = math.Round(out.Temperature*9/5*10)/10 + 32
		out.Wind = math.Round(out.Wind*0.6214*10) / 10
	}
	return &mcp.CallToolResult{Content: text("%s, %s: %s, %g %s, humidity %d %%, wind %g %s.",
		out.City, out.Country, out.Conditions, out.Temperature, degree, out.Humidity, out.Wind, speed)}, out, nil
}

// forecast makes up the weather of one day: warm near the equator and in
// summer.
func forecast(c city, t time.Time) day {
	date := t.Format(time.DateOnly)
	season := -math.Cos(2 * math.Pi * float64(t.YearDay()-15) / 365) // -1 in January, 1 in July
	if c.lat < 0 {
		season = -season
	}
	mean := 29 - 0.4*math.Abs(c.lat) + season*0.2*math.Abs(c.lat)
	d := day{
		Date:       date,
		HighC:      int(math.Round(mean)) + 2 + pick(5, c.name, date, "high"),
		RainChance: 5 * pick(20, c.name, date, "rain"),
	}
	d.LowC = d.HighC - 6 - pick(5, c.name, date, "low")
	switch {
	case d.RainChance >= 60 && d.HighC <= 1:
		d.Conditions = "snow"
	case d.RainChance >= 85 && d.HighC > 20:
		d.Conditions = "thunderstorms"
	case d.RainChance >= 60:
		d.Conditions = "rain"
	case d.RainChance >= 40:
		d.Conditions = "cloudy"
	case d.RainChance >= 20:
		d.Conditions = "partly cloudy"
	default:
		d.Conditions = "sunny"
	}
	return d
}

func readForecast(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	parts, err := templateValues(uri, forecastPrefix, 2)
	if err != nil {
		return nil, notFound(uri, err.Error())
	}
	c, err := findCity(parts[0], false)
	if err != nil {
		return nil, notFound(uri, err.Error())
	}
	t, err := parseDate("date", parts[1])
	if err != nil {
		return nil, notFound(uri, err.Error())
	}
	return jsonResource(uri, struct {
		City string `json:"city"`
		day
	}{c.name, forecast(c, t)})
}

func completeWeather(_ context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	arg := req.Params.Argument
	if req.Params.Ref.Type == "ref/resource" && arg.Name == "city" {
		return complete(cityNames(false), arg.Value), nil
	}
	return complete(nil, arg.Value), nil
}
