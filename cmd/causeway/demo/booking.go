package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// confirmKey names the one input request of a booking.
const confirmKey = "confirm"

// maxNights is the longest stay that can be booked.
const maxNights = 30

type bookHotelArgs struct {
	City    string `json:"city"`
	CheckIn string `json:"checkIn"`
	Nights  int    `json:"nights"`
	Guests  int    `json:"guests"`
}

// booking is the structured result of bookHotel.
type booking struct {
	Status    string `json:"status" jsonschema:"booked, declined or cancelled; only booked means that there is a booking"`
	Reference string `json:"reference,omitempty" jsonschema:"the booking's reference, when it was booked"`
	Hotel     string `json:"hotel"`
	City      string `json:"city"`
	CheckIn   string `json:"checkIn" jsonschema:"first day, YYYY-MM-DD"`
	CheckOut  string `json:"checkOut" jsonschema:"day of departure, YYYY-MM-DD"`
	Guests    int    `json:"guests"`
	Room      string `json:"room,omitempty" jsonschema:"standard, sea or suite"`
	TotalEUR  int    `json:"totalEUR" jsonschema:"price of the whole stay in EUR"`
}

// desk takes bookings.
type desk struct {
	step  time.Duration
	state stateKey
}

func addBooking(s *mcp.Server, step time.Duration) {
	d := &desk{step: step, state: newStateKey()}
	mcp.AddTool(s, &mcp.Tool{
		Name:  "bookHotel",
		Title: "Book a hotel",
		Description: "Book a hotel room in a city. The user is asked to confirm the price and may choose the room; " +
			"nothing is booked when they decline. Reports progress while it books.",
		Annotations: additive(true),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"city": {"type": "string", "minLength": 1, "description": "City to stay in"},
				"checkIn": {"type": "string", "format": "date", "description": "First day of the stay, YYYY-MM-DD"},
				"nights": {"type": "integer", "minimum": 1, "maximum": 30, "default": 1, "description": "Number of nights"},
				"guests": {"type": "integer", "minimum": 1, "maximum": 6, "default": 2, "description": "Number of guests"}
			},
			"required": ["city", "checkIn"],
			"additionalProperties": false
		}`),
	}, d.book)
}

// book asks for a confirmation first, by an input request whose answer comes
// with a retry of the call (basic/patterns/mrtr).
func (d *desk) book(ctx context.Context, req *mcp.CallToolRequest, args bookHotelArgs) (*mcp.CallToolResult, *booking, error) {
	b, err := quote(args)
	if err != nil {
		return nil, nil, err
	}
	answer, ok := req.Params.InputResponses[confirmKey].(*mcp.ElicitResult)
	if !ok {
		res, err := d.ask(req, b)
		return res, nil, err
	}
	if err := d.state.check(req.Params.RequestState, b, time.Now()); err != nil {
		return nil, nil, invalidParams("requestState: %v", err)
	}
	switch confirmed, _ := answer.Content["confirm"].(bool); {
	case answer.Action == "cancel":
		b.Status = "cancelled"
		return &mcp.CallToolResult{Content: text("The question was dismissed. Nothing was booked.")}, b, nil
	case answer.Action != "accept" || !confirmed:
		b.Status = "declined"
		return &mcp.CallToolResult{Content: text("The user declined. Nothing was booked at %s.", b.Hotel)}, b, nil
	}
	room, _ := answer.Content["room"].(string)
	price, ok := roomPrice(room)
	if !ok {
		return nil, nil, fmt.Errorf("there is no room of the kind %q", room)
	}
	b.Room, b.TotalEUR = room, b.TotalEUR*price/100
	if err := d.work(ctx, req, b.Hotel); err != nil {
		return nil, nil, err
	}
	b.Status = "booked"
	b.Reference = fmt.Sprintf("CW-%06d", pick(1_000_000, b.Hotel, b.CheckIn, b.CheckOut, b.Room))
	return &mcp.CallToolResult{Content: text("Booked %s in %s, %s to %s, %s room, %d guests, EUR %d. Reference %s.",
		b.Hotel, b.City, b.CheckIn, b.CheckOut, b.Room, b.Guests, b.TotalEUR, b.Reference)}, b, nil
}

// quote finds a hotel and its price.
func quote(args bookHotelArgs) (*booking, error) {
	c, err := findCity(args.City, false)
	if err != nil {
		return nil, fmt.Errorf("city: %w", err)
	}
	checkIn, err := parseDate("checkIn", args.CheckIn)
	if err != nil {
		return nil, err
	}
	if args.Nights < 1 || args.Nights > maxNights {
		return nil, fmt.Errorf("nights is %d; it must be 1 to %d", args.Nights, maxNights)
	}
	names := []string{"Hotel Miramar", "Casa Central", "The Lantern", "Park House", "Hotel Aurora"}
	perNight := 85 + pick(90, c.name, "price") + 20*(args.Guests-1)
	return &booking{
		Hotel:    names[pick(len(names), c.name, "hotel")],
		City:     c.name,
		CheckIn:  args.CheckIn,
		CheckOut: checkIn.AddDate(0, 0, args.Nights).Format(time.DateOnly),
		Guests:   args.Guests,
		TotalEUR: perNight * args.Nights,
	}, nil
}

// roomPrice gives the price of a kind of room in percent of the standard one.
func roomPrice(room string) (percent int, ok bool) {
	switch room {
	case "standard":
		return 100, true
	case "sea":
		return 125, true
	case "suite":
		return 180, true
	}
	return 0, false
}

// ask makes the input request. A client that cannot show forms must not get one
// (basic/patterns/mrtr, Server Requirements).
func (d *desk) ask(req *mcp.CallToolRequest, b *booking) (*mcp.CallToolResult, error) {
	if !canAsk(req.ClientCapabilities()) {
		return nil, &jsonrpc.Error{
			Code:    mcp.CodeMissingRequiredClientCapabilities,
			Message: "bookHotel asks the user to confirm, so it needs the client capability elicitation.form",
			Data:    json.RawMessage(`{"requiredCapabilities":{"elicitation":{"form":{}}}}`),
		}
	}
	state, err := d.state.seal(b, time.Now())
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		RequestState: state,
		InputRequests: mcp.InputRequestMap{confirmKey: &mcp.ElicitParams{
			Mode: "form",
			Message: fmt.Sprintf("Book %s in %s from %s to %s for %d guests? A standard room is EUR %d in total.",
				b.Hotel, b.City, b.CheckIn, b.CheckOut, b.Guests, b.TotalEUR),
			RequestedSchema: json.RawMessage(`{
				"type": "object",
				"properties": {
					"confirm": {"type": "boolean", "title": "Book it", "description": "Whether to make this booking", "default": true},
					"room": {
						"type": "string", "title": "Room", "description": "The kind of room", "default": "standard",
						"oneOf": [
							{"const": "standard", "title": "Standard room"},
							{"const": "sea", "title": "Room with a view (+25 %)"},
							{"const": "suite", "title": "Suite (+80 %)"}
						]
					},
					"note": {"type": "string", "title": "Note to the hotel", "description": "Anything the hotel should know", "maxLength": 200}
				},
				"required": ["confirm", "room"]
			}`),
		}},
	}, nil
}

// canAsk tells whether a client shows forms. An empty elicitation capability
// means that it does (client/elicitation, Capabilities).
func canAsk(c *mcp.ClientCapabilities) bool {
	if c == nil || c.Elicitation == nil {
		return false
	}
	return c.Elicitation.Form != nil || c.Elicitation.URL == nil
}

// work takes its time and reports progress, if the caller asked for it.
func (d *desk) work(ctx context.Context, req *mcp.CallToolRequest, hotel string) error {
	steps := []string{
		"Checking that rooms are free at " + hotel,
		"Holding the room",
		"Confirming with the hotel",
		"Writing the voucher",
	}
	token := req.Params.GetProgressToken()
	for i, message := range steps {
		if token != nil {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: float64(i + 1), Total: float64(len(steps)), Message: message,
			})
			if err != nil {
				return fmt.Errorf("report progress: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d.step):
		}
	}
	return nil
}
