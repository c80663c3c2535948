package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cmd/causeway/demo"
)

// samples starts the sample servers and gives their URLs by alias.
func samples(t *testing.T) map[string]string {
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
	urls := map[string]string{}
	for _, u := range servers.Upstreams() {
		urls[u.Alias] = u.URL
	}
	return urls
}

// want fails the test unless the command ended with code and printed the words.
func (o outcome) want(t *testing.T, code int, out, stderr []string) {
	t.Helper()
	if o.Code != code {
		t.Errorf("exit code %d, want %d", o.Code, code)
	}
	for _, word := range out {
		if !strings.Contains(o.Stdout, word) {
			t.Errorf("standard output lacks %q", word)
		}
	}
	for _, word := range stderr {
		if !strings.Contains(o.Stderr, word) {
			t.Errorf("standard error lacks %q", word)
		}
	}
	if t.Failed() {
		t.Logf("standard output:\n%s\nstandard error:\n%s", o.Stdout, o.Stderr)
	}
}

func TestTools(t *testing.T) {
	got := invoke(t, "tools", "--url", samples(t)["weather"])
	want := `NAME            TITLE                         DESCRIPTION
checkWeather    Check the weather for a trip  Check what weather to expect in a city between two days, at most 14 days. Returns one line per day and a summary. Use weatherCurrent for the weather right now.
weatherCurrent  Current weather               Get the current weather of a city: temperature, conditions, humidity and wind, as structured data.
`
	if diff := cmp.Diff(outcome{0, want, ""}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// scripted is a server that answers each method with one result.
func scripted(t *testing.T, results map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, id, _ := strings.Cut(string(body), `"id":`)
		id, _, _ = strings.Cut(id, ",")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, id, results[r.Header.Get("Mcp-Method")])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const oneTool = `"result":{"tools":[{"name":"t","title":"T\u001b[2J","big":12345678901234567890,"inputSchema":{"type":"object"}}]`

func TestToolsTellsWhatIsMissing(t *testing.T) {
	url := scripted(t, map[string]string{"tools/list": oneTool + `,"_meta":{"io.github.causeway-mcp/partial":[{"alias":"weather","reason":"timeout"},{"alias":"news"}]}}`})
	invoke(t, "tools", "--url", url).want(t, 0,
		[]string{"t     T\\x1b[2J"}, []string{"partial; missing or stale: weather (timeout), news"})
	invoke(t, "tools", "--url", url, "--json").want(t, 0, []string{
		`{"tools":[{"name":"t","title":"T\u001b[2J","big":12345678901234567890,"inputSchema":{"type":"object"}}],` +
			`"_meta":{"io.github.causeway-mcp/partial":[{"alias":"weather","reason":"timeout"},{"alias":"news"}]}}` + "\n",
	}, nil)
	invoke(t, "tools", "--url", scripted(t, map[string]string{"tools/list": `"result":{"tools":[]}`})).want(t, 0, []string{"There are no tools."}, nil)
}

func TestCall(t *testing.T) {
	urls := samples(t)
	exact := scripted(t, map[string]string{
		"tools/list": oneTool + "}",
		"tools/call": `"result":{"content":[{"type":"text","text":"{\"n\":1}"},{"type":"text","text":"red\u001b[31m"},` +
			`{"type":"image","mimeType":"image/png","data":"AAAA"},{"type":"resource_link","uri":"x://y","name":"y"},` +
			`{"type":"resource","resource":{"uri":"x://z","text":"inside"}},{"type":"hologram","depth":3}],"structuredContent":{"n": 1}}`,
	})
	big := scripted(t, map[string]string{"tools/list": oneTool + "}", "tools/call": `"result":{"content":[],"structuredContent":12345678901234567890}`})
	failing := scripted(t, map[string]string{"tools/list": oneTool + "}", "tools/call": `"error":{"code":-32603,"message":"broken","data":{"alias":"x"}}`})
	partial := scripted(t, map[string]string{
		"tools/list": oneTool + `,"_meta":{"io.github.causeway-mcp/partial":[{"alias":"x","reason":"timeout"}]}}`,
		"tools/call": `"result":{"content":[{"type":"text","text":"it went through"}]}`,
	})
	flight := `{"origin":"NYC","destination":"Barcelona","date":"2026-06-15"}`
	tests := []struct {
		name        string
		args        []string
		code        int
		out, stderr []string
	}{
		{"structured content", []string{"--url", urls["travel"], "searchFlights", flight}, 0, []string{"New York (JFK) to Barcelona (BCN)", "→ All flights from New York to Barcelona <travel://flights/New%20York/Barcelona>", `"airport": "BCN"`}, nil},
		{"flags after the operands", []string{"searchFlights", flight, "--url=" + urls["travel"], "--json"}, 0, []string{`"content":[{"type":"text"`, `"structuredContent":{`, `"resultType":"complete"}` + "\n"}, nil},
		{"a value that no header can hold as it is", []string{"--url", urls["weather"], "weatherCurrent", `{"city":"São Paulo"}`}, 0, []string{"São Paulo, Brazil"}, nil},
		{"an error of the tool", []string{"--url", urls["travel"], "searchFlights", `{"origin":"NYC","destination":"Atlantis","date":"2026-06-15"}`}, 1, []string{"Barcelona"}, []string{"reports an error"}},
		{"a tool that is not there", []string{"--url", urls["travel"], "flights"}, 1, nil, []string{`no tool "flights"; did you mean searchFlights?`}},
		{"a tool unlike all others", []string{"--url", urls["travel"], "zzz"}, 1, nil, []string{`no tool "zzz"`, `"causeway tools" lists the 2`}},
		{"a tool of an upstream that is missing", []string{"--url", partial, "x_y"}, 0, []string{"it went through"}, []string{"partial", "x (timeout)"}},
		{"a JSON-RPC error", []string{"--url", failing, "t"}, 1, nil, []string{"broken (code -32603)", `data: {"alias":"x"}`}},
		{"all kinds of content", []string{"--url", exact, "t"}, 0, []string{"red\\x1b[31m\n[image, image/png, 3 bytes]\n→ y <x://y>\n→ <x://z>\n  inside\n{\"type\":\"hologram\",\"depth\":3}\n{\n  \"n\": 1\n}\n"}, nil},
		{"a big integer", []string{"--url", big, "t"}, 0, []string{"12345678901234567890\n"}, nil},
		{"nothing there", []string{"--url", "http://127.0.0.1:1/mcp", "t"}, 1, nil, []string{"127.0.0.1:1", "is the gateway running?"}},
		{"nobody to ask", []string{"--url", urls["travel"], "bookHotel", `{"city":"Rome","checkIn":"2026-06-15"}`}, 0, []string{"declined", `"status": "declined"`}, []string{"bookHotel at http://127.0.0.1:", "no terminal: declined", "--answer"}},
		{
			"an answer in advance", []string{"--url", urls["travel"], "bookHotel", `{"city":"Rome","checkIn":"2026-06-15"}`, "--answer", `{"action":"accept","content":{"confirm":true,"room":"suite"}}`},
			0, []string{`"status": "booked"`, `"room": "suite"`}, []string{"Answered: accept", "[1/4] Checking that rooms are free at", "[4/4] Writing the voucher"},
		},
		{"an answer that does not fit", []string{"--url", urls["travel"], "bookHotel", `{"city":"Rome","checkIn":"2026-06-15"}`, "--answer", `{"action":"accept","content":{"confirm":true,"room":"tent"}}`}, 1, nil, []string{`the field "room": not one of the choices: standard, sea, suite`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			invoke(t, append([]string{"call"}, test.args...)...).want(t, test.code, test.out, test.stderr)
		})
	}
}

func TestCallAsksAtTheTerminal(t *testing.T) {
	var out, errs bytes.Buffer
	code := call(t.Context(), []string{"bookHotel", `{"city":"Barcelona","checkIn":"2026-06-15","nights":3}`, "--url", samples(t)["travel"]},
		strings.NewReader("yes\n2\n\na\n"), true, &out, &errs)
	outcome{code, out.String(), errs.String()}.want(t, 0,
		[]string{`"room": "sea"`, "Reference CW-"},
		[]string{"Book The Lantern in Barcelona", "Book it (yes or no)", "confirm [yes]: ", "2) Room with a view (+25 %)", "Note to the hotel (at most 200 characters, optional)", "Send it?", "[4/4]"})
}

func TestCallUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"no tool", nil, []string{"too few arguments"}},
		{"three operands", []string{"a", "{}", "b"}, []string{`unexpected argument "b"`}},
		{"arguments that are not JSON", []string{"t", `{"origin": NYC}`}, []string{"line 1, column 12", "  {\"origin\": NYC}\n             ^"}},
		{"arguments that end early", []string{"t", `{"a":[1`}, []string{"line 1, column 8", "      ^"}},
		{"in the second line", []string{"t", "{\"ä\":1,\n \"b\" 2}"}, []string{"line 2, column 6", "\n   \"b\" 2}\n       ^"}},
		{"two objects", []string{"t", `{} {}`}, []string{"column 4", "more after the end"}},
		{"arguments that are no object", []string{"t", `[1]`}, []string{"must be a JSON object", "not an array"}},
		{"empty arguments", []string{"t", ``}, []string{"empty", "{}"}},
		{"invalid UTF-8", []string{"t", "{\"a\":\"\xff\"}"}, []string{"UTF-8"}},
		{"an answer that is not JSON", []string{"t", "--answer", "yes"}, []string{"-answer", "not JSON"}},
		{"a URL that is none", []string{"t", "--url", "localhost:8080"}, []string{"--url", "http"}},
		{"a negative timeout", []string{"t", "--timeout", "-1s"}, []string{"--timeout"}},
		{"a header without a value", []string{"t", "--header", "Authorization"}, []string{"'Name: value'"}},
		{"a header of the protocol", []string{"t", "--header", "mcp-name: x"}, []string{"Mcp-Name itself"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			invoke(t, append([]string{"call"}, test.args...)...).want(t, exitUsage, nil, test.want)
		})
	}
}

func TestCallKeepsSecretsOutOfMessages(t *testing.T) {
	got := invoke(t, "call", "t", "--header", "Authorization: Bearer s3cret\x01")
	got.want(t, exitUsage, nil, []string{"Authorization has a control character"})
	if strings.Contains(got.Stderr, "s3cret") {
		t.Errorf("the token is in the message:\n%s", got.Stderr)
	}
}

func TestCallSendsHeaders(t *testing.T) {
	heads := make(chan http.Header, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Header
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	invoke(t, "tools", "--url", s.URL, "--header", "X-A: 1", "--header", "x-a:2", "--header", "Authorization: Bearer t").want(t, 1, nil, []string{"401"})
	got := <-heads
	if diff := cmp.Diff([]string{"1", "2"}, got["X-A"]); diff != "" || got.Get("Authorization") != "Bearer t" {
		t.Errorf("got %v", got)
	}
}

func TestCallIsCancelled(t *testing.T) {
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		cancel() // as Ctrl-C does
		<-r.Context().Done()
	}))
	defer s.Close()
	var out, errs bytes.Buffer
	code := runTools(ctx, []string{"--url", s.URL}, strings.NewReader(""), &out, &errs)
	outcome{code, out.String(), errs.String()}.want(t, exitFailure, nil, []string{"cancelled"})
	<-gone
}

// TestCallListsAgain holds that a tool whose definition has just changed is
// looked up once more.
func TestCallListsAgain(t *testing.T) {
	lists := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, id, _ := strings.Cut(string(body), `"id":`)
		id, _, _ = strings.Cut(id, ",")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Mcp-Method") == "tools/list":
			lists++
			annotation := `,"x-mcp-header":"City"`
			if lists == 1 {
				annotation = ""
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"city":{"type":"string"%s}}}}]}}`, id, annotation)
		case r.Header.Get("Mcp-Param-City") == "":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Header mismatch"}}`, id)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"well"}]}}`, id)
		}
	}))
	defer s.Close()
	invoke(t, "call", "--url", s.URL, "t", `{"city":"Paris"}`).want(t, 0, []string{"well"}, nil)
}
