// Package mcp is the wire of the Model Context Protocol: JSON-RPC envelopes
// with the byte offsets of what the gateway routes on, request ids as raw
// bytes, method and header names, error codes, and edits that splice bytes
// instead of decoding and encoding.
//
// It is a leaf: it imports none of our packages.
package mcp

// VersionModern is the stateless protocol revision that the gateway speaks
// (specification 2026-07-28, basic/versioning).
const VersionModern = "2026-07-28"

// ModernVersions lists the protocol versions that are spoken per request, the
// newest first. The caller owns the slice.
func ModernVersions() []string { return []string{VersionModern} }

// Methods of revision 2026-07-28 and of the tasks extension.
const (
	MethodDiscover      = "server/discover"
	MethodToolsList     = "tools/list"
	MethodToolsCall     = "tools/call"
	MethodResourcesList = "resources/list"
	MethodResourcesRead = "resources/read"
	MethodTemplatesList = "resources/templates/list"
	MethodPromptsList   = "prompts/list"
	MethodPromptsGet    = "prompts/get"
	MethodComplete      = "completion/complete"
	MethodListen        = "subscriptions/listen"
	MethodTasksGet      = "tasks/get"
	MethodTasksUpdate   = "tasks/update"
	MethodTasksCancel   = "tasks/cancel"

	NotificationProgress         = "notifications/progress"
	NotificationMessage          = "notifications/message"
	NotificationCancelled        = "notifications/cancelled"
	NotificationAcknowledged     = "notifications/subscriptions/acknowledged"
	NotificationToolsChanged     = "notifications/tools/list_changed"
	NotificationPromptsChanged   = "notifications/prompts/list_changed"
	NotificationResourcesChanged = "notifications/resources/list_changed"
	NotificationResourceUpdated  = "notifications/resources/updated"
	NotificationTasks            = "notifications/tasks"
)

// HTTP header names (basic/transports/streamable-http), in the canonical form
// of net/http.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderSessionID       = "Mcp-Session-Id"
)

// Reserved keys of `_meta` (basic/index, General fields).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaProgressToken      = "progressToken"
	MetaTraceparent        = "traceparent"
	MetaTracestate         = "tracestate"
	MetaBaggage            = "baggage"

	// MetaOwnPrefix is the prefix of the gateway's own keys.
	MetaOwnPrefix = "io.github.causeway-mcp/"
	// MetaPartial marks a list from which an upstream's part is missing or stale.
	MetaPartial = MetaOwnPrefix + "partial"
	// MetaOriginalName holds a name that had to be cleaned to be exposed.
	MetaOriginalName = MetaOwnPrefix + "originalName"
)

// Extension identifiers that the gateway routes.
const (
	ExtensionTasks = "io.modelcontextprotocol/tasks"
	ExtensionUI    = "io.modelcontextprotocol/ui"
)

// Values of a result's `resultType`.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)
