package mcp

// Span is a half-open range of byte offsets into a message's Raw.
type Span struct{ Start, End int }

// Ok tells whether the span holds anything; that of an absent member does not.
func (s Span) Ok() bool { return s.End > s.Start }

// In returns the bytes of raw that the span covers; nil when it is not Ok.
func (s Span) In(raw []byte) []byte {
	if !s.Ok() {
		return nil
	}
	return raw[s.Start:s.End:s.End]
}

// Text is a member that is read as a string.
type Text struct {
	Span            // of the value with its quotes; not Ok when the member is absent
	Value    string // decoded; empty unless IsString
	IsString bool   // the member is there and is a JSON string
}

// Request is the envelope of one message from a client: a request, or a
// notification when ID is not Ok. All spans are into Raw, which stays as it
// was received.
type Request struct {
	Raw    []byte
	ID     Span // raw JSON: a string or an integer
	Method string
	Params Span

	// Members of params that the gateway routes on. Cursor and RequestState are
	// not looked into: their Value is empty when they are not valid Unicode.
	Name, URI, TaskID, Cursor, RequestState Text
	Ref                                     Ref
	Arguments, Notifications                Span
	InputResponses                          Span
	Meta                                    RequestMeta
}

// Ref is `params.ref` of completion/complete.
type Ref struct {
	Span
	Type, Name, URI Text
}

// RequestMeta is `params._meta` of a request and its reserved keys.
type RequestMeta struct {
	Span
	ProtocolVersion, LogLevel, Traceparent, Tracestate, Baggage Text
	ProgressToken, ClientInfo, ClientCapabilities               Span
}

// IsNotification tells whether the message wants no response.
func (r *Request) IsNotification() bool { return !r.ID.Ok() }

// Kind says what a message from a server is.
type Kind uint8

// Kinds of messages from a server.
const (
	KindResult Kind = iota + 1
	KindError
	KindNotification
	KindRequest // only from servers of the handshake era
)

// Message is the envelope of one message from a server. All spans are into Raw.
type Message struct {
	Raw    []byte
	Kind   Kind
	ID     Span
	Method string // of a notification or request
	Params Span
	Result Span
	Error  Span
	Meta   Span // `_meta` of the result or of params

	// Members of the error.
	Code      int
	ErrorText string
	ErrorData Span

	// Members of the result.
	// NextCursor that is null counts as absent. Of RequestState and NextCursor
	// the raw bytes count: Value is empty when they are not valid Unicode.
	ResultType, RequestState, CacheScope, NextCursor Text
	InputRequests, TTLMs, IsError                    Span
	Items                                            Span   // tools, prompts, resources, resourceTemplates or contents
	ItemsKey                                         string // which of them Items is: the first one

	// Members of params, and TaskID of the result too.
	ProgressToken, Notifications, SubscriptionID Span
	URI, TaskID, Level                           Text
}

// Member is one member of a JSON object.
type Member struct {
	Key   string // decoded
	At    Span   // from the key's opening quote to the end of the value
	Value Span
}
