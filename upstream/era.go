package upstream

import (
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// era remembers which protocol version one upstream speaks
// (2026-07-28, basic/versioning, Protocol Version Negotiation). A memory that has
// become wrong heals itself: the server refuses the version and names others.
type era struct {
	versions []string // what we speak, the newest first
	current  atomic.Pointer[string]
}

func newEra(versions []string) *era {
	e := &era{versions: versions}
	e.current.Store(&versions[0])
	return e
}

// version is the one to use now.
func (e *era) version() string { return *e.current.Load() }

// negotiate reads the refusal of the version used and gives the newest version
// that both sides speak, another one where there is one: a server that lists what
// it has just refused may accept it the second time. False means that there is
// none.
func (e *era) negotiate(used string, m *mcp.Message) (string, bool) {
	var data struct{ Supported []string }
	if json.Unmarshal(m.ErrorData.In(m.Raw), &data) != nil {
		return "", false
	}
	for i, v := range e.versions {
		if v != used && slices.Contains(data.Supported, v) {
			e.current.Store(&e.versions[i])
			return v, true
		}
	}
	return used, slices.Contains(data.Supported, used)
}

// withVersion gives a copy of a request's message whose `_meta` names version.
func withVersion(message []byte, maxDepth int, version string) ([]byte, error) {
	req, err := mcp.ParseRequest(message, maxDepth)
	if err != nil {
		return nil, err
	}
	at := req.Meta.ProtocolVersion.Span
	if !at.Ok() {
		return nil, errors.New("the request names no protocol version")
	}
	var edits mcp.Edits
	edits.Replace(at, mcp.AppendQuote(nil, version))
	return edits.AppendTo(make([]byte, 0, len(message)+len(version)), message), nil
}
