package federation

import (
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
)

// stateBinding is what a requestState is good for: a token opens only for an
// equal binding. alias, method and name are the upstream's own (those of the
// real tool where a call came through call_tool); args is a digest of the
// canonical arguments.
type stateBinding struct {
	tenant, issuer, subject string
	alias, method, name     string
	args                    [32]byte
}

// sealState wraps an upstream's requestState for the client. state is the JSON
// string with its quotes, as the upstream sent it; openState gives the same
// bytes until the time of expires. The token needs no escaping in JSON.
func sealState(ring *seal.Ring, b *stateBinding, state []byte, expires time.Time) string {
	panic("stub")
}

// openState undoes sealState. Every fault gives the same -32602, since the
// holder may be an attacker.
func openState(ring *seal.Ring, b *stateBinding, token string, now time.Time) (state []byte, err error) {
	panic("stub")
}
