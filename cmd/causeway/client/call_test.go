package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers gives the same answer to all requests and keeps what was asked.
type answers struct {
	answer string
	err    error
	asked  []string
}

func (a *answers) Answer(_ context.Context, method string, params []byte) ([]byte, error) {
	a.asked = append(a.asked, method+" "+string(params))
	return []byte(a.answer), a.err
}

func TestCallRetriesWithAnswers(t *testing.T) {
	s, c := serve(t,
		asStream(result(1, `"resultType":"input_required","requestState":"a\u002fb\/ÿ","inputRequests":{"k\"1":{"method":"elicitation/create","params":{"message":"m"}},"k2":{"method":"roots/list"}}`)),
		// No state this time: the retry must not have one either.
		asJSON(result(2, `"resultType":"input_required","inputRequests":{"k3":{"method":"elicitation/create","params":{}}}`)),
		asJSON(result(3, `"resultType":"complete","content":[]`)),
	)
	a := &answers{answer: `{"action":"accept","content":{"n":12345678901234567890}}`}
	m, err := c.Call(t.Context(), &Call{Tool: "t", Arguments: []byte(`{ "big":12345678901234567890 , "a":1,"a":1.0}`), Answerer: a})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Result.In(m.Raw)); got != `{"resultType":"complete","content":[]}` {
		t.Errorf("the result is %s", got)
	}
	tail := "," + meta + `{"elicitation":{"form":{},"url":{}}},"progressToken":`
	call := func(id, more string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{ "big":12345678901234567890 , "a":1,"a":1.0}` + more + tail + id + `}}}`
	}
	want := []string{
		call("1", ""),
		call("2", `,"inputResponses":{"k\"1":`+a.answer+`,"k2":`+a.answer+`},"requestState":"a\u002fb\/ÿ"`),
		call("3", `,"inputResponses":{"k3":`+a.answer+`}`),
	}
	if diff := cmp.Diff(want, s.sent()); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
	if want := []string{`elicitation/create {"message":"m"}`, "roots/list ", "elicitation/create {}"}; !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
}

func TestCallBounds(t *testing.T) {
	tests := []struct {
		name, members string
		answerer      *answers
		want          string
		requests      int
	}{
		{"a question without an end", `"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}`, &answers{answer: `{"action":"decline"}`}, "still has no result", maxRounds},
		{"an answerer that fails", `"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create"}}`, &answers{err: errors.New("no pen")}, "no pen", 1},
		{"a type that is not known", `"resultType":"task","taskId":"1"`, &answers{}, `"task"`, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, c := serve(t, asAnyID(test.members))
			_, err := c.Call(t.Context(), &Call{Tool: "t", Arguments: []byte("{}"), Answerer: test.answerer})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if n := len(s.sent()); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

func TestCallComesAgainWhenTheServerIsBusy(t *testing.T) {
	s, c := serve(t, asJSON(result(1, `"resultType":"input_required","requestState":"later"`)), asJSON(result(2, `"content":[]`)))
	if _, err := c.Call(t.Context(), &Call{Tool: "t", Arguments: []byte("{}"), Answerer: &answers{}}); err != nil {
		t.Fatal(err)
	}
	if sent := s.sent(); len(sent) != 2 || !strings.Contains(sent[1], `"requestState":"later"`) || strings.Contains(sent[1], "inputResponses") {
		t.Errorf("sent %q", sent)
	}
}

const twoTools = `"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"},"n":{"type":"integer","x-mcp-header":"N"}}}},` +
	`{"name":"bad","inputSchema":{"type":"object","properties":{"x":{"type":"number","x-mcp-header":"X"}}}}]`

func TestTools(t *testing.T) {
	s, c := serve(t,
		asJSON(result(1, `"resultType":"complete",`+twoTools+`,"nextCursor":"p\u0032"`)),
		asJSON(result(2, `"tools":[],"nextCursor":""`)), // an empty page, and an empty cursor, are not the end
		asJSON(result(3, `"tools":[{"name":"c","title":"C","description":"d","annotations":{"title":"x"},"inputSchema":{"type":"object"}}],"nextCursor":null,`+
			`"_meta":{"io.github.causeway-mcp/partial":[{"alias":"w","reason":"timeout"}]}`)),
	)
	tools, err := c.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.List {
		names = append(names, tool.Name+"/"+tool.Title+"/"+tool.Description)
	}
	if diff := cmp.Diff([]string{"a//", "c/C/d"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if len(tools.Refused) != 1 || tools.Refused[0].Alias != "bad" {
		t.Errorf("refused %v, want the tool bad", tools.Refused)
	}
	if diff := cmp.Diff([]Missing{{"w", "timeout"}}, tools.Missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if sent := s.sent(); !strings.Contains(sent[1], `{"cursor":"p\u0032",`) || !strings.Contains(sent[2], `{"cursor":"",`) {
		t.Errorf("sent %q, want the cursors as they came", sent)
	}
}

func TestToolsEndSomewhere(t *testing.T) {
	_, c := serve(t, asAnyID(`"tools":[],"nextCursor":"again"`))
	if _, err := c.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "same cursor twice") {
		t.Errorf("got %v, want an error about the cursor", err)
	}
	_, c = serve(t, asAnyID(`"tools":null`))
	if _, err := c.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "no tools") {
		t.Errorf("got %v, want an error for a list that is null", err)
	}
}

func TestCallSendsParamHeaders(t *testing.T) {
	tests := []struct {
		name, args string
		want       map[string]string
		wantErr    string
	}{
		{"both", `{"city":"Zürich","n":42}`, map[string]string{"Mcp-Param-City": "=?base64?WsO8cmljaA==?=", "Mcp-Param-N": "42"}, ""},
		{"null and absent", `{"city":null}`, map[string]string{"Mcp-Param-City": "", "Mcp-Param-N": ""}, ""},
		{"of another type", `{"city":1}`, nil, "Mcp-Param-City"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, c := serve(t, asJSON(result(1, twoTools)), asJSON(result(2, `"content":[]`)))
			tools, err := c.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Call(t.Context(), &Call{Tool: "a", Definition: tools.Find("a"), Arguments: []byte(test.args), Answerer: &answers{}})
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("got %v, want an error with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got := s.heads[1].Get(name); got != want {
					t.Errorf("header %s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestSimilar(t *testing.T) {
	tools := &Tools{List: []Tool{{Name: "travel_searchFlights"}, {Name: "travel_bookHotel"}, {Name: "weather_search"}}}
	tests := []struct {
		name, given string
		want        []string
	}{
		{"without the alias", "searchFlights", []string{"travel_searchFlights"}},
		{"in another case", "TRAVEL_BOOKHOTEL", []string{"travel_bookHotel"}},
		{"a part of it", "search", []string{"weather_search", "travel_searchFlights"}},
		{"nothing alike", "zzz", []string{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := append([]string{}, tools.Similar(test.given)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
