package gateway

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// methodOther labels what is not one of our methods.
const methodOther = "other"

// methodInitialize opens the handshake of earlier revisions.
const methodInitialize = "initialize"

// maxEcho bounds what an error repeats of a client's text, in bytes.
const maxEcho = 128

// methodLabel gives the label of a method, from a closed set.
func methodLabel(method string) string {
	if known(method) {
		return method
	}
	return methodOther
}

// known tells whether the gateway serves the method itself or routes it by what
// it knows of it.
func known(method string) bool {
	switch method {
	case mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodToolsCall,
		mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodTemplatesList,
		mcp.MethodPromptsList, mcp.MethodPromptsGet, mcp.MethodComplete, mcp.MethodListen:
		return true
	}
	return ofTasks(method)
}

// ofTasks tells whether the method belongs to the tasks extension.
func ofTasks(method string) bool {
	switch method {
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return true
	}
	return false
}

// removed tells whether revision 2026-07-28 took the method away (changelog).
// Not even an endpoint of one upstream passes them on: an upstream of two eras
// might begin a session.
func removed(method string) bool {
	switch method {
	case methodInitialize, methodPing, methodSetLevel, methodSubscribe, methodUnsubscribe:
		return true
	}
	return false
}

// check holds a request against the rules of revision 2026-07-28 that the edge
// can decide, in the order in which the first one broken is reported.
func (e *edge) check(h http.Header, at federation.Endpoint, req *mcp.Request) error {
	if err := e.checkMeta(req); err != nil {
		return err
	}
	if err := mcp.CheckHeaders(h, req); err != nil {
		return err
	}
	if version := req.Meta.ProtocolVersion.Value; !slices.Contains(e.versions, version) {
		return e.unsupported(version)
	}
	if err := e.checkMethod(at, req); err != nil {
		return err
	}
	if level := &req.Meta.LogLevel; level.Ok() && !(level.IsString && isLogLevel(level.Value)) {
		return badMeta(mcp.MetaLogLevel + " is not a log level")
	}
	return checkCapabilities(req)
}

// modern tells whether the request is of the era without sessions: its `_meta`
// names a version, or the header names one of that era.
func (e *edge) modern(h http.Header, req *mcp.Request) bool {
	return req.Meta.ProtocolVersion.Ok() || e.isModern(h.Get(mcp.HeaderProtocolVersion))
}

// isModern tells whether the version is one that is spoken per request.
func (e *edge) isModern(version string) bool { return slices.Contains(e.versions, version) }

// unsupported makes the error for a version that is not spoken here
// (basic/versioning, Protocol Version Negotiation).
func (e *edge) unsupported(requested string) *mcp.Error {
	data := append([]byte(nil), `{"supported":`...)
	data = append(data, e.supported...)
	data = append(data, `,"requested":`...)
	data = append(mcp.AppendQuote(data, cut(requested)), '}')
	return &mcp.Error{
		Code:    mcp.CodeUnsupportedProtocol,
		Message: "Unsupported protocol version; supported: " + e.supportedText,
		Data:    data,
	}
}

// checkMeta wants the fields that every request carries (basic/index, Per-request
// protocol fields).
func (e *edge) checkMeta(req *mcp.Request) error {
	m := &req.Meta
	var reason string
	switch {
	case !m.Ok():
		reason = "params._meta is missing"
	case !isObject(req.Raw, m.Span):
		reason = "params._meta is not an object"
	case !m.ProtocolVersion.Ok():
		reason = "params._meta lacks " + mcp.MetaProtocolVersion
	case !m.ProtocolVersion.IsString:
		reason = mcp.MetaProtocolVersion + " is not a string"
	case !m.ClientCapabilities.Ok():
		reason = "params._meta lacks " + mcp.MetaClientCapabilities
	case !isObject(req.Raw, m.ClientCapabilities):
		reason = mcp.MetaClientCapabilities + " is not an object"
	default:
		return nil
	}
	if req.Method == methodInitialize {
		reason += "; supported protocol versions: " + e.supportedText
	}
	return badMeta(reason)
}

// badMeta refuses a request over its `_meta`. Unlike other invalid params this
// goes with 400.
func badMeta(reason string) error {
	return &refusal{
		status: http.StatusBadRequest,
		class:  codeLabel(mcp.CodeInvalidParams),
		rpc:    mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: %s", reason),
	}
}

// checkMethod refuses what is no method of this revision. An endpoint of one
// upstream passes on what it does not know.
func (e *edge) checkMethod(at federation.Endpoint, req *mcp.Request) error {
	if known(req.Method) || at.Alias != "" && !removed(req.Method) {
		return nil
	}
	if req.Method == methodInitialize {
		return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found: protocol versions %s begin without initialize", e.supportedText)
	}
	return mcp.Errorf(mcp.CodeMethodNotFound, "Method not found")
}

// checkCapabilities wants the tasks extension declared where a request is about
// tasks, before anything is said about the task (ext-tasks, Capability
// Negotiation and Task Status Notifications).
func checkCapabilities(req *mcp.Request) error {
	if !ofTasks(req.Method) && !listensToTasks(req) {
		return nil
	}
	extensions := mcp.Find(req.Raw, req.Meta.ClientCapabilities, "extensions")
	if isObject(req.Raw, mcp.Find(req.Raw, extensions, mcp.ExtensionTasks)) {
		return nil
	}
	return &mcp.Error{
		Code:    mcp.CodeMissingClientCapability,
		Message: "Missing required client capability",
		Data:    []byte(`{"requiredCapabilities":{"extensions":{"` + mcp.ExtensionTasks + `":{}}}}`),
	}
}

// listensToTasks tells whether a listen request names tasks.
func listensToTasks(req *mcp.Request) bool {
	if req.Method != mcp.MethodListen {
		return false
	}
	ids := mcp.Find(req.Raw, req.Notifications, "taskIds")
	if !ids.Ok() || bytes.Equal(ids.In(req.Raw), []byte("null")) {
		return false
	}
	for range mcp.Elements(req.Raw, ids) {
		return true
	}
	return false
}

// isObject tells whether the value at s is a JSON object.
func isObject(raw []byte, s mcp.Span) bool { return s.Ok() && raw[s.Start] == '{' }

// isLogLevel tells whether s is a severity of RFC 5424 as MCP names it
// (server/utilities/logging, Log Levels).
func isLogLevel(s string) bool {
	switch s {
	case "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency":
		return true
	}
	return false
}

// cut bounds what is repeated of a client's text.
func cut(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	return s[:maxEcho]
}
