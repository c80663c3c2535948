package federation

import "github.com/causeway-mcp/causeway/auth/seal"

// cursor is the place in a list where a page ended. The next page starts with
// the first exposed name after last, so a cursor needs no state and stays good
// while the list changes.
type cursor struct {
	last   string // exposed name, URI or template
	public bool   // the cacheScope of all pages of this walk
}

// sealCursor makes the nextCursor of a page. It opens at the same endpoint and
// for the same kind of list only, on any replica.
func sealCursor(ring *seal.Ring, at Endpoint, k kind, c cursor) string { panic("stub") }

// openCursor undoes sealCursor. public is the scope of the list as it is now: a
// walk that began as public is refused when the list has become private, and
// one that began as private stays private. Every fault gives the same -32602.
func openCursor(ring *seal.Ring, at Endpoint, k kind, token string, public bool) (cursor, error) {
	panic("stub")
}
