package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// schemas are the official JSON schemas of the protocol. They are not part of
// this repository.
type schemas struct {
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// loadSchemas reads the schemas from beside the repository. The test is skipped
// where they are not there.
func loadSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}}
	for name, path := range map[string]string{
		"core":  "../../shared/mcp/2026-07-28.schema.json",
		"tasks": "../../shared/mcp/ext-tasks.schema.json",
	} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			t.Skipf("the protocol's JSON schema is not beside this clone (%s is looked for in the directory gateway)", path)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		doc, err := jsonschema.UnmarshalJSON(f)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := s.compiler.AddResource("https://schema.test/"+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// def gives one definition, such as core#Tool.
func (s *schemas) def(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	if name == "" {
		t.Fatal("a notification that the protocol does not know")
	}
	if have := s.compiled[name]; have != nil {
		return have
	}
	file, def, _ := strings.Cut(name, "#")
	schema, err := s.compiler.Compile("https://schema.test/" + file + "#/$defs/" + def)
	if err != nil {
		t.Fatalf("compile %s: %v", name, err)
	}
	s.compiled[name] = schema
	return schema
}

// resultDefs gives the definitions of which a method's result has to match one.
func resultDefs(method string) []string {
	return map[string][]string{
		"server/discover":          {"core#DiscoverResult"},
		"tools/list":               {"core#ListToolsResult"},
		"tools/call":               {"core#CallToolResult", "core#InputRequiredResult", "tasks#CreateTaskResult"},
		"resources/list":           {"core#ListResourcesResult"},
		"resources/templates/list": {"core#ListResourceTemplatesResult"},
		"resources/read":           {"core#ReadResourceResult", "core#InputRequiredResult"},
		"prompts/list":             {"core#ListPromptsResult"},
		"prompts/get":              {"core#GetPromptResult", "core#InputRequiredResult"},
		"completion/complete":      {"core#CompleteResult"},
		"subscriptions/listen":     {"core#SubscriptionsListenResult"},
		"tasks/get":                {"tasks#GetTaskResult"},
		"tasks/update":             {"tasks#UpdateTaskResult"},
		"tasks/cancel":             {"tasks#CancelTaskResult"},
	}[method]
}

// notificationDef gives the definition of a notification.
func notificationDef(method string) string {
	return map[string]string{
		"notifications/progress":                   "core#ProgressNotification",
		"notifications/message":                    "core#LoggingMessageNotification",
		"notifications/subscriptions/acknowledged": "core#SubscriptionsAcknowledgedNotification",
		"notifications/tools/list_changed":         "core#ToolListChangedNotification",
		"notifications/prompts/list_changed":       "core#PromptListChangedNotification",
		"notifications/resources/list_changed":     "core#ResourceListChangedNotification",
		"notifications/resources/updated":          "core#ResourceUpdatedNotification",
		"notifications/tasks":                      "tasks#TaskStatusNotification",
	}[method]
}

// errorDef gives the definition for an error code. Those of the protocol's own
// codes describe the whole response, the others the error in it.
func errorDef(code int) (name string, whole bool) {
	switch code {
	case -32700:
		return "core#ParseError", false
	case -32600:
		return "core#InvalidRequestError", false
	case -32601:
		return "core#MethodNotFoundError", false
	case -32602:
		return "core#InvalidParamsError", false
	case -32603:
		return "core#InternalError", false
	case -32020:
		return "core#HeaderMismatchError", true
	case -32021:
		return "core#MissingRequiredClientCapabilityError", true
	case -32022:
		return "core#UnsupportedProtocolVersionError", true
	}
	return "core#Error", false
}

// check validates one message that answers a request for method, and gives what
// kind of message it is.
func (s *schemas) check(t *testing.T, method, raw string) (kind string) {
	t.Helper()
	var msg struct {
		Method string
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal([]byte(raw), &msg); err != nil {
		t.Errorf("answer to %s: %v: %s", method, err, raw)
		return ""
	}
	switch {
	case msg.Error != nil:
		s.validate(t, raw, "core#JSONRPCErrorResponse")
		var code struct{ Code int }
		if err := json.Unmarshal(msg.Error, &code); err != nil {
			t.Errorf("answer to %s: %v: %s", method, err, raw)
			return ""
		}
		def, whole := errorDef(code.Code)
		if !whole {
			raw = string(msg.Error)
		}
		s.validate(t, raw, def)
		return fmt.Sprint(code.Code)
	case msg.Result != nil:
		s.validate(t, raw, "core#JSONRPCResultResponse")
		s.validate(t, string(msg.Result), resultDefs(method)...)
		return method
	default:
		s.validate(t, raw, "core#JSONRPCNotification")
		s.validate(t, raw, notificationDef(msg.Method))
		return msg.Method
	}
}

// validate holds that a value matches one of the definitions.
func (s *schemas) validate(t *testing.T, raw string, defs ...string) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		t.Errorf("%v: %s", err, raw)
		return
	}
	var faults []error
	for _, def := range defs {
		err := s.def(t, def).Validate(value)
		if err == nil {
			return
		}
		faults = append(faults, err)
	}
	t.Errorf("%.2000s\nmatches none of %q: %v", raw, defs, errors.Join(faults...))
}

// TestMessagesMatchSchema holds that each message the gateway writes is valid by
// the official schema: those of a client's whole journey, those of the tasks
// extension, and each kind of error.
func TestMessagesMatchSchema(t *testing.T) {
	s := loadSchemas(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r := &recorder{next: transport}

	url := startDemo(t)
	goJourney(t, url, "", r)
	for _, e := range badRequests() {
		e.send(t, r, url)
	}
	tasks := httptest.NewServer(http.HandlerFunc(serveTasks))
	t.Cleanup(tasks.Close)
	dead := httptest.NewServer(nil)
	dead.Close()
	gw := gatewaytest.Start(t, gatewaytest.Config(
		gatewaytest.Upstream{Alias: "jobs", URL: tasks.URL},
		gatewaytest.Upstream{Alias: "dead", URL: dead.URL},
	))
	for _, e := range taskRequests() {
		e.send(t, r, gw.URL+"/mcp")
	}
	listen := request("subscriptions/listen", "", "{}", `"notifications":{"promptsListChanged":true}`)
	var stopped sync.WaitGroup
	listen.seen = func(string) bool {
		stopped.Go(func() { gw.Stop(t) }) // ends the stream, which is read on
		return false
	}
	listen.send(t, r, gw.URL+"/mcp")
	stopped.Wait()

	seen := map[string]bool{}
	for _, e := range r.recorded() {
		for _, raw := range e.messages(t) {
			seen[s.check(t, e.method, raw)] = true
		}
	}
	for _, kind := range []string{
		"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
		"prompts/list", "prompts/get", "completion/complete", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel",
		"notifications/progress", "notifications/subscriptions/acknowledged", "notifications/tools/list_changed",
		"notifications/resources/updated", "notifications/tasks",
		"-32700", "-32600", "-32601", "-32602", "-32603", "-32020", "-32021", "-32022",
	} {
		if !seen[kind] {
			t.Errorf("no message of the kind %s was seen", kind)
		}
	}
}

// rawRequest is a request as it goes over the wire.
type rawRequest struct {
	method, name string // of the headers
	version      string // of the header
	body         string
	// seen is told the answer so far, and ends the reading when it gives true; nil
	// reads all.
	seen func(string) bool
}

// request makes a right request of 2026-07-28. capabilities are those of the
// client and params the rest of the parameters, as JSON members.
func request(method, name, capabilities, params string) rawRequest {
	if params != "" {
		params += ","
	}
	return rawRequest{method: method, name: name, version: "2026-07-28", body: fmt.Sprintf(
		`{"jsonrpc":"2.0","id":"schema-1","method":%q,"params":{%s"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, params, capabilities)}
}

func (q rawRequest) send(t *testing.T, transport http.RoundTripper, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range map[string]string{"Mcp-Protocol-Version": q.version, "Mcp-Method": q.method, "Mcp-Name": q.name} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", q.method, err)
	}
	defer res.Body.Close()
	var have []byte
	for buf := make([]byte, 4096); ; {
		n, err := res.Body.Read(buf)
		have = append(have, buf[:n]...)
		if q.seen != nil && q.seen(string(have)) {
			return
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", q.method, err)
		}
	}
}

// badRequests gives one request for each error that a client can cause.
func badRequests() []rawRequest {
	header := request("tools/list", "", "{}", "")
	header.method = "prompts/list"
	version := request("tools/list", "", "{}", "")
	version.version = "2031-01-01"
	version.body = strings.Replace(version.body, "2026-07-28", version.version, 1)
	return []rawRequest{
		{method: "tools/list", version: "2026-07-28", body: `{"jsonrpc"`},
		{method: "tools/list", version: "2026-07-28", body: `{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`},
		{method: "tools/list", version: "2026-07-28", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`},
		header,
		version,
		request("tools/paint", "", "{}", ""),
		request("tools/call", "nothing", "{}", `"name":"nothing"`),
		request("tools/list", "", "{}", `"cursor":"nothing"`),
		request("subscriptions/listen", "", "{}", `"notifications":{"taskIds":["travel+1"]}`),
		// The sample server itself wants to ask the user.
		request("tools/call", "travel_bookHotel", "{}", `"name":"travel_bookHotel","arguments":{"city":"Paris","checkIn":"2026-06-15"}`),
	}
}

// taskRequests walks through the tasks extension, and calls an upstream that is
// down.
func taskRequests() []rawRequest {
	const tasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{"form":{}}}`
	listen := request("subscriptions/listen", "", tasks, `"notifications":{"toolsListChanged":true,"taskIds":["jobs+job/1"]}`)
	listen.seen = func(answer string) bool { return strings.Contains(answer, `"notifications/tasks"`) }
	return []rawRequest{
		request("server/discover", "", tasks, ""),
		request("tools/call", "jobs_start", tasks, `"name":"jobs_start","arguments":{}`),
		request("tasks/get", "jobs+job/1", tasks, `"taskId":"jobs+job/1"`),
		request("tasks/update", "jobs+job/1", tasks, `"taskId":"jobs+job/1","inputResponses":{"ok":{"action":"accept","content":{}}}`),
		request("tasks/cancel", "jobs+job/1", tasks, `"taskId":"jobs+job/1"`),
		listen,
		request("tools/call", "dead_anything", "{}", `"name":"dead_anything"`),
	}
}

// serveTasks is an upstream with the tasks extension: one tool, whose call
// becomes the task job/1.
func serveTasks(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	const (
		info   = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"jobs","version":"1"}}`
		task   = `"taskId":"job/1","createdAt":"2026-06-15T10:00:00Z","lastUpdatedAt":"2026-06-15T10:00:01Z","ttlMs":60000`
		public = `"ttlMs":60000,"cacheScope":"public"`
	)
	if req.Method == "subscriptions/listen" {
		meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`, req.ID)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, msg := range []string{
			`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true,"taskIds":["job/1"]},` + meta + `}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"status":"working",` + task + `,` + meta + `}}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", msg)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		<-r.Context().Done()
		return
	}
	result, ok := map[string]string{
		"server/discover": `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}},` + public,
		"tools/list":      `"tools":[{"name":"start","inputSchema":{"type":"object"}}],` + public,
		"tools/call":      `"status":"working",` + task,
		"tasks/get":       `"status":"input_required","inputRequests":{"ok":{"method":"elicitation/create","params":{"mode":"form","message":"Go on?","requestedSchema":{"type":"object","properties":{}}}}},` + task,
		"tasks/update":    "",
		"tasks/cancel":    "",
	}[req.Method]
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, req.ID)
		return
	}
	kind := "complete"
	if req.Method == "tools/call" {
		kind = "task"
	}
	parts := slices.DeleteFunc([]string{`"resultType":"` + kind + `"`, info, result}, func(s string) bool { return s == "" })
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, req.ID, strings.Join(parts, ","))
}
