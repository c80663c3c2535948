package federation

import (
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// cursorPurpose separates cursors from all other tokens of the ring.
const cursorPurpose = "cursor"

// cursor is the place in a list where a page ended. The next page starts with
// the first exposed name after last, so a cursor needs no state and stays good
// while the list changes.
type cursor struct {
	last   string // exposed name, URI or template
	public bool   // the cacheScope of all pages of this walk
	brief  bool   // the list is one of the tools that find tools
}

// Bits of a sealed cursor's first byte.
const (
	cursorPublic = 1 << iota
	cursorBrief
)

// sealCursor makes the nextCursor of a page. It opens at the same endpoint and
// for the same kind of list only, on any replica.
func sealCursor(ring *seal.Ring, at Endpoint, k kind, c cursor) string {
	var bits byte
	if c.public {
		bits |= cursorPublic
	}
	if c.brief {
		bits |= cursorBrief
	}
	plain := append(make([]byte, 0, 1+len(c.last)), bits)
	return ring.Seal(cursorPurpose, append(plain, c.last...), cursorBinding(at, k))
}

// openCursor undoes sealCursor. public is the scope of the list as it is now: a
// walk that began as public is refused when the list has become private, and
// one that began as private stays private, which the result says. Every fault
// gives the same -32602.
func openCursor(ring *seal.Ring, at Endpoint, k kind, token string, public bool) (cursor, error) {
	plain, err := ring.Open(cursorPurpose, token, cursorBinding(at, k))
	if err != nil || len(plain) == 0 || plain[0] >= cursorBrief<<1 || plain[0]&cursorPublic != 0 && !public {
		return cursor{}, errCursor()
	}
	return cursor{last: string(plain[1:]), public: plain[0]&cursorPublic != 0, brief: plain[0]&cursorBrief != 0}, nil
}

func errCursor() *mcp.Error { return mcp.Errorf(mcp.CodeInvalidParams, "cursor is invalid") }

// cursorBinding is what a cursor is good for. The kind goes in by its method,
// since the constants may be counted anew in another version of the program.
func cursorBinding(at Endpoint, k kind) []byte {
	b := appendField(make([]byte, 0, 128), at.Tenant)
	b = appendField(b, at.Alias)
	b = appendField(b, at.Toolset)
	b = appendField(b, string(at.Discovery))
	return appendField(b, k.method())
}
