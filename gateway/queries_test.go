package gateway_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// wanted is a query, with the tool that is to be found first.
type wanted struct{ query, tool string }

// findsFirst holds that search_tools finds the right tool first for each query.
func findsFirst(t *testing.T, url string, list []wanted) {
	t.Helper()
	c := newRawClient(t, url)
	for _, w := range list {
		answer := c.send(ask("tools/call", fmt.Sprintf(`"name":"search_tools","arguments":{"query":%q}`, w.query))).last()
		if got := foundIn(t, answer); len(got) == 0 || got[0] != w.tool {
			t.Errorf("%q finds %q, want %s first", w.query, got, w.tool)
		}
	}
}

// foundIn gives the names in an answer of search_tools.
func foundIn(t *testing.T, answer string) (names []string) {
	t.Helper()
	for _, raw := range readPage(t, `{"result":`+string(memberOf(t, answer, "result", "structuredContent"))+`}`, "results").items {
		var tool struct{ Name string }
		if err := json.Unmarshal([]byte(raw), &tool); err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestSearchFindsDemoTools(t *testing.T) {
	url := startDemo(t, searching)
	findsFirst(t, url, []wanted{
		{"book a hotel", "travel_bookHotel"},
		{"reserve accommodation for three nights", "travel_bookHotel"},
		{"find plane tickets from London to Barcelona", "travel_searchFlights"},
		{"fligths to Barbados", "travel_searchFlights"}, // mistyped
		{"current weather in Zürich", "weather_weatherCurrent"},
		{"forecast for my trip", "weather_checkWeather"},
		{"write a mail to Ana", "calendar_sendEmail"},
		{"sendEmail", "calendar_sendEmail"},
		{"put a meeting into the calendar", "calendar_createCalendarEvent"},
		{"turn on reminders", "calendar_setReminders"},
	})
	// A whole task finds a tool for each of its steps.
	task := "Find flights to Barcelona, book a hotel there for two nights, and send an e-mail with the dates to Ana."
	answer := newRawClient(t, url).send(ask("tools/call", fmt.Sprintf(`"name":"search_tools","arguments":{"query":%q}`, task))).last()
	got := foundIn(t, answer)
	for _, want := range []string{"travel_searchFlights", "travel_bookHotel", "calendar_sendEmail"} {
		if !slices.Contains(got, want) {
			t.Errorf("the task finds %q, want %s among them", got, want)
		}
	}
}

func TestSearchFindsEverythingTools(t *testing.T) {
	node := gatewaytest.NewNode(t)
	everything := gatewaytest.StartNode(t, node, "/mcp", "PORT", filepath.Join(node.Modules, ".bin", "mcp-server-everything"), "streamableHttp")
	url := front(t, "", searching, upstreamOf("every", everything)).URL + "/mcp"
	findsFirst(t, url, []wanted{
		{"echo a message", "every_echo"},
		{"add two numbers", "every_get-sum"},
		{"environment variables", "every_get-env"},
		{"compress files into an archive", "every_gzip-file-as-resource"},
		{"a small picture", "every_get-tiny-image"},
		{"run something that takes long and tells its progress", "every_trigger-long-running-operation"},
	})
}
