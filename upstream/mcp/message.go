package mcp

import "iter"

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

	// Members of params that the gateway routes on.
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
	ResultType, RequestState, CacheScope, NextCursor Text // NextCursor: null counts as absent
	InputRequests, TTLMs, IsError                    Span
	Items                                            Span // tools, prompts, resources, resourceTemplates or contents

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

// Members iterates over the members of the JSON object at obj, which must have
// been validated (it is part of a parsed message). Anything but an object has
// no members.
func Members(raw []byte, obj Span) iter.Seq[Member] { panic("stub") }

// Elements iterates over the elements of the validated JSON array at arr.
func Elements(raw []byte, arr Span) iter.Seq[Span] { panic("stub") }

// String decodes the validated JSON string at s; false when it is none.
func String(raw []byte, s Span) (string, bool) { panic("stub") }

// Find returns the value of the first member of obj with that key, or a Span
// that is not Ok.
func Find(raw []byte, obj Span, key string) Span { panic("stub") }

// ParseRequest reads the envelope of a client's message: one pass, nothing
// copied but the short strings it routes on. maxDepth bounds the nesting.
// The Request is returned with an error too, holding the ID where it could be
// read. Errors are -32700 for what is not JSON (raw invalid UTF-8 and trailing
// data included) and -32600 for what is not a request or notification, for a
// duplicate of a routed key and for a key that equals one but for letter case
// at envelope, params, ref and reserved `_meta` level.
func ParseRequest(raw []byte, maxDepth int) (*Request, *Error) { panic("stub") }

// ParseMessage reads the envelope of a server's message, with the same rules.
func ParseMessage(raw []byte, maxDepth int) (*Message, error) { panic("stub") }
