package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	eventsPrefix = "calendar://events/"
	firstYear    = "2024"
	reminderTool = "createReminder"
	// maxEvents bounds what the calendar keeps in memory.
	maxEvents = 1000
)

// event is one entry of the calendar.
type event struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	StartDate string `json:"startDate" jsonschema:"first day, YYYY-MM-DD"`
	EndDate   string `json:"endDate" jsonschema:"last day, YYYY-MM-DD"`
	Notes     string `json:"notes,omitempty"`
}

// calendar is the state behind the calendar server: it lives as long as the
// server does.
type calendar struct {
	server *mcp.Server

	mu        sync.Mutex
	events    []event
	years     map[string]bool // those with a resource
	mails     int
	reminders int
	remind    bool // createReminder is there
}

// newCalendar makes the server with the calendar and the mail.
func newCalendar(opts Options) *mcp.Server {
	subscribed := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	unsubscribed := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	s := newServer("demo-calendar", "Calendar and e-mail (sample)",
		"Keeps the user's calendar and sends e-mail. Read calendar://events/2024 to see when the user is free; "+
			"the resource is updated when an event is created. setReminders adds or removes the tool createReminder.",
		opts,
		mcp.ServerOptions{SubscribeHandler: subscribed, UnsubscribeHandler: unsubscribed},
		// Events change at any time, and belong to one user.
		"private", 0)
	c := &calendar{server: s, years: map[string]bool{}, events: []event{
		{ID: "evt-1", Title: "Team offsite", StartDate: "2024-05-13", EndDate: "2024-05-15"},
		{ID: "evt-2", Title: "Dentist", StartDate: "2024-06-11", EndDate: "2024-06-11"},
		{ID: "evt-3", Title: "Summer party", StartDate: "2024-06-28", EndDate: "2024-06-28", Notes: "Bring a dish"},
	}}
	c.addYear(firstYear)
	c.addTools()
	return s
}

func (c *calendar) addTools() {
	mcp.AddTool(c.server, &mcp.Tool{
		Name:  "createCalendarEvent",
		Title: "Create a calendar event",
		Description: "Create an event in the user's calendar. Whoever watches calendar://events/{year} of its first day is notified. " +
			"Events of a year that had none make a new resource.",
		Annotations: additive(false),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"title": {"type": "string", "minLength": 1, "maxLength": 200, "description": "What the event is called"},
				"startDate": {"type": "string", "format": "date", "description": "First day, YYYY-MM-DD"},
				"endDate": {"type": "string", "format": "date", "description": "Last day, YYYY-MM-DD; the first day when left out"},
				"notes": {"type": "string", "maxLength": 2000, "description": "Anything else"}
			},
			"required": ["title", "startDate"],
			"additionalProperties": false
		}`),
	}, c.createEvent)

	mcp.AddTool(c.server, &mcp.Tool{
		Name:        "sendEmail",
		Title:       "Send an e-mail",
		Description: "Send an e-mail on the user's behalf. This sample accepts the mail and sends nothing.",
		Annotations: additive(true),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"to": {"type": "string", "format": "email", "description": "Address of the recipient"},
				"subject": {"type": "string", "minLength": 1, "description": "Subject line"},
				"body": {"type": "string", "description": "Plain text of the mail"}
			},
			"required": ["to", "subject", "body"],
			"additionalProperties": false
		}`),
	}, c.sendEmail)

	mcp.AddTool(c.server, &mcp.Tool{
		Name:  "setReminders",
		Title: "Turn reminders on or off",
		Description: "Add the tool createReminder to this server, or remove it. " +
			"Clients that listen for changes of the tool list are notified.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true},
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"enabled": {"type": "boolean", "description": "true adds the tool, false removes it"}},
			"required": ["enabled"],
			"additionalProperties": false
		}`),
	}, c.setReminders)
}

type createEventArgs struct {
	Title     string `json:"title"`
	StartDate string `json:"startDate"`
	EndDate   string `json:"endDate"`
	Notes     string `json:"notes"`
}

func (c *calendar) createEvent(ctx context.Context, _ *mcp.CallToolRequest, args createEventArgs) (*mcp.CallToolResult, *event, error) {
	first, err := parseDate("startDate", args.StartDate)
	if err != nil {
		return nil, nil, err
	}
	e := event{Title: args.Title, StartDate: args.StartDate, EndDate: args.EndDate, Notes: args.Notes}
	if e.EndDate == "" {
		e.EndDate = e.StartDate
	}
	last, err := parseDate("endDate", e.EndDate)
	if err != nil {
		return nil, nil, err
	}
	if last.Before(first) {
		return nil, nil, fmt.Errorf("the event ends on %s, before it starts on %s", e.EndDate, e.StartDate)
	}
	if e, err = c.add(e); err != nil {
		return nil, nil, err
	}
	year := first.Format("2006")
	c.addYear(year)
	if err := c.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: eventsPrefix + year}); err != nil {
		return nil, nil, fmt.Errorf("tell that the calendar changed: %w", err)
	}
	return &mcp.CallToolResult{Content: text("Created %q, %s to %s (%s).", e.Title, e.StartDate, e.EndDate, e.ID)}, &e, nil
}

// add keeps an event under a new id.
func (c *calendar) add(e event) (event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) >= maxEvents {
		return e, fmt.Errorf("the calendar is full: this sample keeps %d events", maxEvents)
	}
	e.ID = fmt.Sprintf("evt-%d", len(c.events)+1)
	c.events = append(c.events, e)
	return e, nil
}

// addYear adds the resource of one year's events, if it is not there.
func (c *calendar) addYear(year string) {
	c.mu.Lock()
	known := c.years[year]
	c.years[year] = true
	c.mu.Unlock()
	if known {
		return
	}
	c.server.AddResource(&mcp.Resource{
		URI:         eventsPrefix + year,
		Name:        "events-" + year,
		Title:       "Calendar " + year,
		Description: "All events of the user's calendar in " + year,
		MIMEType:    "application/json",
	}, func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return jsonResource(req.Params.URI, map[string]any{"year": year, "events": c.of(year)})
	})
}

// of gives the events that start in a year.
func (c *calendar) of(year string) []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []event{} // never null on the wire
	for _, e := range c.events {
		if strings.HasPrefix(e.StartDate, year+"-") {
			list = append(list, e)
		}
	}
	return list
}

type sendEmailArgs struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

// receipt is the structured result of sendEmail and createReminder.
type receipt struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (c *calendar) sendEmail(_ context.Context, _ *mcp.CallToolRequest, args sendEmailArgs) (*mcp.CallToolResult, *receipt, error) {
	to, err := mail.ParseAddress(args.To)
	if err != nil {
		return nil, nil, fmt.Errorf("%q is not an e-mail address", args.To)
	}
	c.mu.Lock()
	c.mails++
	r := &receipt{ID: fmt.Sprintf("mail-%d", c.mails), Status: "accepted"}
	c.mu.Unlock()
	return &mcp.CallToolResult{Content: text("Accepted the mail %q to %s (%s). This sample sends nothing.",
		args.Subject, to.Address, r.ID)}, r, nil
}

type setRemindersArgs struct {
	Enabled bool `json:"enabled"`
}

func (c *calendar) setReminders(_ context.Context, _ *mcp.CallToolRequest, args setRemindersArgs) (*mcp.CallToolResult, any, error) {
	c.mu.Lock()
	changed := c.remind != args.Enabled
	c.remind = args.Enabled
	c.mu.Unlock()
	switch {
	case !changed:
		return &mcp.CallToolResult{Content: text("Nothing to do: reminders are as you want them.")}, nil, nil
	case !args.Enabled:
		c.server.RemoveTools(reminderTool)
		return &mcp.CallToolResult{Content: text("The tool %s is gone.", reminderTool)}, nil, nil
	}
	mcp.AddTool(c.server, &mcp.Tool{
		Name:        reminderTool,
		Title:       "Create a reminder",
		Description: "Remind the user of a calendar event some time before it starts.",
		Annotations: additive(false),
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {
				"eventId": {"type": "string", "description": "Id of the event, as createCalendarEvent gave it"},
				"minutesBefore": {"type": "integer", "minimum": 0, "maximum": 40320, "default": 30, "description": "Minutes before the event"}
			},
			"required": ["eventId"],
			"additionalProperties": false
		}`),
	}, c.createReminder)
	return &mcp.CallToolResult{Content: text("The tool %s is there now.", reminderTool)}, nil, nil
}

type createReminderArgs struct {
	EventID       string `json:"eventId"`
	MinutesBefore int    `json:"minutesBefore"`
}

func (c *calendar) createReminder(_ context.Context, _ *mcp.CallToolRequest, args createReminderArgs) (*mcp.CallToolResult, *receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.ID == args.EventID {
			c.reminders++
			r := &receipt{ID: fmt.Sprintf("reminder-%d", c.reminders), Status: "set"}
			return &mcp.CallToolResult{Content: text("Will remind of %q %d minutes before it starts.", e.Title, args.MinutesBefore)}, r, nil
		}
	}
	return nil, nil, fmt.Errorf("there is no event %q", args.EventID)
}
