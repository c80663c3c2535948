package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// demoRun is a running `causeway demo`.
type demoRun struct {
	url, metrics string
	tries        []string // the commands it proposes, without the program
	stop         func() (code int, rest string)
}

// startDemo runs the demo on free ports until the test ends.
func startDemo(t *testing.T) *demoRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write := io.Pipe()
	var work sync.WaitGroup
	var errs bytes.Buffer
	code := -1
	work.Go(func() {
		code = runDemo(ctx, []string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, strings.NewReader(""), write, &errs)
		_ = write.Close() // of a pipe: never an error
	})
	d := &demoRun{}
	lines := bufio.NewScanner(read)
	d.stop = func() (int, string) {
		cancel()
		var rest strings.Builder
		for lines.Scan() {
			rest.WriteString(lines.Text() + "\n")
		}
		work.Wait()
		return code, rest.String()
	}
	t.Cleanup(func() {
		if code, _ := d.stop(); code != exitOK {
			t.Errorf("the demo ended with %d:\n%s", code, &errs)
		}
	})
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if url, ok := strings.CutPrefix(text, "MCP endpoint"); ok {
			d.url = strings.TrimSpace(url)
		}
		if url, ok := strings.CutPrefix(text, "metrics"); ok {
			d.metrics = strings.TrimSpace(url)
		}
		if strings.Contains(text, " --url "+d.url) {
			args, _ := strings.CutPrefix(text, commandName(os.Args[0])+" ")
			d.tries = append(d.tries, args)
		}
		if strings.Contains(text, "Ctrl-C ends the demo") {
			return d
		}
	}
	work.Wait()
	t.Fatalf("the demo did not start:\n%s", &errs)
	return nil
}

// words splits a command line as a shell does: at blanks, but not within single
// quotes.
func words(line string) []string {
	var all []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// TestDemo does what the demo proposes.
func TestDemo(t *testing.T) {
	d := startDemo(t)
	if len(d.tries) != 3 {
		t.Fatalf("the demo proposes %q, want three commands", d.tries)
	}
	want := [][]string{
		{"calendar_createCalendarEvent", "calendar_sendEmail", "calendar_setReminders", "travel_bookHotel", "travel_searchFlights", "weather_checkWeather", "weather_weatherCurrent"},
		{"New York (JFK) to Barcelona (BCN)", "<travel+travel://flights/New%20York/Barcelona>"},
		{"Nothing was booked"},
	}
	for i, line := range d.tries {
		invoke(t, words(line)...).want(t, 0, want[i], nil)
	}
	res, err := http.Get(d.metrics)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(body), "causeway_requests_total") {
		t.Errorf("the metrics are %.200s, %v", body, err)
	}
	if code, rest := d.stop(); code != exitOK || !strings.Contains(rest, "Stopping.") {
		t.Errorf("the demo ended with %d and said %q", code, rest)
	}
}

// TestDemoBooksAtTheTerminal holds that a question of a server reaches the
// terminal through the gateway, and its progress, too.
func TestDemoBooksAtTheTerminal(t *testing.T) {
	d := startDemo(t)
	var out, errs bytes.Buffer
	code := call(t.Context(), words(d.tries[2])[1:], strings.NewReader("yes\nsuite\nA quiet room, please\na\n"), true, &out, &errs)
	outcome{code, out.String(), errs.String()}.want(t, 0,
		[]string{`"status": "booked"`, `"room": "suite"`},
		[]string{"travel_bookHotel at " + d.url + " asks", "[1/4]", "[4/4]"})
}

// TestDemoNotifies holds that changes at a sample server reach a client of the
// gateway.
func TestDemoNotifies(t *testing.T) {
	d := startDemo(t)
	updated, changed := make(chan string, 10), make(chan struct{}, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updated <- req.Params.URI
		},
	})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: d.url, HTTPClient: &http.Client{Transport: transport}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "calendar+calendar://events/2024"}); err != nil {
		t.Fatal(err)
	}
	invoke(t, "tools", "--url", d.url).want(t, 0, nil, nil)
	// The gateway acknowledges a subscription before it has one at the server, so
	// the first events may pass unnoticed.
	for told := false; !told && !t.Failed(); {
		invoke(t, "call", "--url", d.url, "calendar_createCalendarEvent", `{"title":"Barcelona trip","startDate":"2024-06-15"}`).want(t, 0, []string{"Created"}, nil)
		select {
		case uri := <-updated:
			told = true
			if uri != "calendar+calendar://events/2024" {
				t.Errorf("%s was updated", uri)
			}
		default:
		}
	}
	invoke(t, "call", "--url", d.url, "calendar_setReminders", `{"enabled":true}`).want(t, 0, []string{"createReminder"}, nil)
	// Earlier changes may be told of, too: the list decides.
	for found := false; !found; {
		<-changed
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		found = slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "calendar_createReminder" })
	}
}

func TestDemoPorts(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := ln.Addr().String()
	t.Run("the endpoint's is taken", func(t *testing.T) {
		invoke(t, "demo", "--listen", taken, "--admin-listen", "").want(t, exitFailure, nil, []string{taken + " is already in use", "--listen 127.0.0.1:8081"})
	})
	t.Run("the chosen one for metrics is taken", func(t *testing.T) {
		invoke(t, "demo", "--listen", "127.0.0.1:0", "--admin-listen", taken).want(t, exitFailure, nil, []string{taken + " is already in use", "--admin-listen"})
	})
	t.Run("the default one for metrics is taken", func(t *testing.T) {
		d := &demonstration{listen: "127.0.0.1:0", admin: taken, adminMayMove: true, log: slog.New(slog.DiscardHandler)}
		if err := d.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.gateway.AdminAddr().String(); got == taken {
			t.Errorf("the metrics are at %s, which is taken", got)
		}
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("an address that others reach", func(t *testing.T) {
		invoke(t, "demo", "--listen", "0.0.0.0:8080").want(t, exitUsage, nil, []string{"not a loopback address"})
	})
	t.Run("no address", func(t *testing.T) {
		invoke(t, "demo", "--listen", "8080").want(t, exitUsage, nil, []string{"not host:port"})
	})
}

func TestCommandName(t *testing.T) {
	tests := []struct{ name, arg0, want string }{
		{"installed", "causeway", "causeway"},
		{"built", "bin/causeway", "bin/causeway"},
		{"of go run", "/tmp/go-build123/b001/exe/causeway", "go run ./cmd/causeway"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := commandName(test.arg0); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
