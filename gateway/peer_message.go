package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Paths of the peer listener. A body there is the length of a head (four bytes, the
// most significant first), the head in JSON, and then a client's own bytes.
const (
	pathRequest = "/v1/request" // with a passedHead and a client's request
	pathAnswer  = "/v1/answer"  // with an answerHead and a client's answer
)

// headerPassed marks what answers the client, unlike a refusal of the replica.
const headerPassed = "Causeway-Passed"

// maxHead bounds a head, in bytes.
const maxHead = 1 << 20

// passedHead is what goes with a client's request to the replica that holds the call.
// The replica that sends it has found out who the client is, and where it may be.
type passedHead struct {
	Endpoint  federation.Endpoint
	Principal tenant.Principal
	RequestID string
	Client    string              // its address, where that is logged
	Header    map[string][][]byte // values need not be UTF-8
	// Token and TokenExpires are those of federation.Call. A replica is no upstream: it
	// makes of the token what this one would.
	Token        string
	TokenExpires time.Time
	// Resource and Metadata are what auth.Request says of the endpoint; Metadata is
	// empty where the client has shown a key.
	Resource, Metadata string
	Trace              map[string]string // fields of the trace context
}

// answerHead says whose answer a client's response is.
type answerHead struct{ Session, Key string }

// passedHeader gives the headers of a client that go along: all but those that name
// it to the gateway or are of its connection.
func passedHeader(h http.Header) map[string][][]byte {
	out := make(map[string][][]byte, len(h))
	for name, values := range h {
		switch name {
		case "Authorization", "Cookie", "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection",
			"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Content-Length":
			continue
		}
		for _, v := range values {
			out[name] = append(out[name], []byte(v))
		}
	}
	return out
}

// header undoes passedHeader.
func (p *passedHead) header() http.Header {
	h := make(http.Header, len(p.Header))
	for name, values := range p.Header {
		for _, v := range values {
			h.Add(name, string(v))
		}
	}
	return h
}

// appendHead writes the head of a message.
func appendHead(head any) ([]byte, error) {
	raw, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("write the head of a message: %w", err)
	}
	if len(raw) > maxHead {
		return nil, errHeadTooLarge
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

var errHeadTooLarge = errors.New("the head of a message is too large")

// readHead reads the head of a message, and tells how long it was.
func readHead(r io.Reader, head any, budget *mcp.Budget) (int64, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, fmt.Errorf("read the head of a message: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if n > maxHead {
		return 0, errHeadTooLarge
	}
	raw, err := mcp.ReadAll(io.LimitReader(r, n), n, n, budget)
	if err != nil {
		return 0, fmt.Errorf("read the head of a message: %w", err)
	}
	defer raw.Release()
	if int64(len(raw.B)) < n {
		return 0, io.ErrUnexpectedEOF
	}
	// A field that a later version adds is no reason not to serve it.
	if err := json.Unmarshal(raw.B, head); err != nil {
		return 0, fmt.Errorf("read the head of a message: %w", err)
	}
	return int64(len(size)) + n, nil
}

// passedBody is a message in memory that is given back after it: what sends it has
// to have closed it by then.
type passedBody struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func newPassedBody(head, rest []byte) *passedBody {
	return &passedBody{Reader: io.MultiReader(bytes.NewReader(head), bytes.NewReader(rest)), closed: make(chan struct{})}
}

// Close implements io.Closer.
func (b *passedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
