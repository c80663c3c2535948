package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// asked is one request as an upstream of ours received it.
type asked struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name, URI, TaskID text
		Meta              struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	body   string
	header http.Header
}

// named gives what the header Mcp-Name repeats; empty for methods without it.
func (a *asked) named() string {
	switch a.Method {
	case "tools/call", "prompts/get":
		return string(a.Params.Name)
	case "resources/read":
		return string(a.Params.URI)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return string(a.Params.TaskID)
	}
	return ""
}

// text is a string; what is none is read as an empty one.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (s *text) UnmarshalJSON(raw []byte) error {
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		*s = text(plain)
	}
	return nil
}

// answering is how an upstream answers one request.
type answering func(w http.ResponseWriter, r *http.Request, a *asked)

// scripted is an upstream over real HTTP that writes the bytes its test wants.
// Nothing of the gateway's own code is in it.
type scripted struct {
	*httptest.Server
	tb testing.TB

	mu    sync.Mutex
	on    map[string]answering // by method
	any   answering            // instead of all of them; may be nil
	seen  []*asked
	conns map[net.Conn]bool // that are open
	moved chan struct{}     // closed when seen or conns changes
}

// newScripted starts an upstream with all capabilities and empty lists. It ends
// with the test.
func newScripted(tb testing.TB) *scripted {
	tb.Helper()
	s := &scripted{tb: tb, on: map[string]answering{}, conns: map[net.Conn]bool{}, moved: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ConnState = s.connState
	s.Start()
	tb.Cleanup(s.Close)
	s.result("server/discover", `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},`+
		`"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{},`+
		`"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":60000,"cacheScope":"public"}`)
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		s.list(method)
	}
	return s
}

// connState counts the open connections; http.Server.ConnState.
func (s *scripted) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
	s.move()
}

// move wakes those who wait for a change. The caller holds the lock.
func (s *scripted) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// ServeHTTP implements http.Handler.
func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "no streams here", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the gateway gave up
	}
	a := &asked{body: string(body), header: r.Header}
	if err := json.Unmarshal(body, a); err != nil {
		s.tb.Errorf("an upstream got %q: %v", body, err)
		return
	}
	s.checkHeaders(a)
	s.mu.Lock()
	s.seen = append(s.seen, a)
	answer := s.any
	if answer == nil {
		answer = s.on[a.Method]
	}
	s.move()
	s.mu.Unlock()
	if answer == nil {
		answer = answerError(http.StatusNotFound, `{"code":-32601,"message":"Method not found"}`)
	}
	answer(w, r, a)
}

// checkHeaders holds that the gateway sends the headers that go with the body
// (2026-07-28, basic/transports/streamable-http, Request Metadata).
func (s *scripted) checkHeaders(a *asked) {
	if a.Method == "initialize" || a.Method == "" {
		return // to a server that answers server/discover with nonsense the gateway tries to speak in the other era
	}
	want := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {a.Method}}
	if name := a.named(); name != "" {
		want.Set("Mcp-Name", headerValue(name))
	}
	for _, key := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		if got := a.header.Get(key); got != want.Get(key) {
			s.tb.Errorf("an upstream got the header %s %q with %.200s", key, got, a.body)
		}
	}
}

// headerValue gives the value of Mcp-Name for a name (the same page, Value
// Encoding).
func headerValue(name string) string {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
		}
	}
	return name
}

// handle sets how a method is answered.
func (s *scripted) handle(method string, answer answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = answer
}

// setAny sets how all requests are answered; nil leaves it to handle again.
func (s *scripted) setAny(answer answering) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.any = answer
}

// result answers a method with a result.
func (s *scripted) result(method, raw string) { s.handle(method, answerResult(raw)) }

// list answers a list method with items that are fresh for an hour.
func (s *scripted) list(method string, items ...string) {
	key := map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	}[method]
	s.result(method, `{"resultType":"complete","`+key+`":[`+strings.Join(items, ",")+`],"ttlMs":3600000,"cacheScope":"public"}`)
}

// tools lists tools that take any arguments.
func (s *scripted) tools(names ...string) {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
	}
	s.list("tools/list", items...)
}

// requests gives what was received for a method.
func (s *scripted) requests(method string) (list []*asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.seen {
		if a.Method == method {
			list = append(list, a)
		}
	}
	return list
}

// open counts the connections that are open.
func (s *scripted) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// answerJSON answers with a whole message.
func answerJSON(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, message)
}

func answerResult(raw string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		answerJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":`+raw+`}`)
	}
}

func answerError(status int, raw string) answering {
	return func(w http.ResponseWriter, _ *http.Request, a *asked) {
		answerJSON(w, status, `{"jsonrpc":"2.0","id":`+string(a.ID)+`,"error":`+raw+`}`)
	}
}

// answerEvents answers with messages as events, each of which is sent at once.
func answerEvents(w http.ResponseWriter, messages ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for _, m := range messages {
		_, _ = io.WriteString(w, "data: "+strings.ReplaceAll(m, "\n", "\ndata: ")+"\n\n")
		_ = rc.Flush() // a gateway that gave up takes no more
	}
}
