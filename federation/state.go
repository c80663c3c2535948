package federation

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Purposes separate these tokens from all others of the ring.
const (
	statePurpose  = "requestState"
	holderPurpose = "holder"
)

// holderMark is between a token and that which tells who holds the call. It is not
// a letter of tokens.
const holderMark = "."

// stateBinding is what a requestState is good for: a token opens only for an
// equal binding. alias, method and name are the upstream's own (those of the
// real tool where a call came through call_tool); args is a digest of the
// canonical arguments.
type stateBinding struct {
	tenant, issuer, subject string
	alias, method, name     string
	args                    [32]byte
}

// bytes gives an encoding in which no two bindings are equal.
func (b *stateBinding) bytes() []byte {
	out := make([]byte, 0, 256)
	for _, field := range []string{b.tenant, b.issuer, b.subject, b.alias, b.method, b.name} {
		out = appendField(out, field)
	}
	return append(out, b.args[:]...)
}

// appendField appends s with its length in front, so that fields cannot run
// into each other.
func appendField(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(len(s))), s...)
}

// sealState wraps an upstream's requestState for the client. state is the JSON
// string with its quotes, as the upstream sent it; openState gives the same
// bytes until the time of expires (which is kept in milliseconds). The token is
// base64url, so it needs no escaping in JSON; withHolder keeps that so.
func sealState(ring *seal.Ring, b *stateBinding, state []byte, expires time.Time) string {
	plain := make([]byte, 0, 8+len(state))
	plain = binary.BigEndian.AppendUint64(plain, uint64(expires.UnixMilli()))
	return ring.Seal(statePurpose, append(plain, state...), b.bytes())
}

// withHolder adds to a token which replica holds the call that it is about, and in
// which upstream's client. Others can tell without knowing what the token opens for.
func withHolder(ring *seal.Ring, token string, at Elsewhere) string {
	plain := append(appendField(nil, at.Holder), at.Alias...)
	return token + holderMark + ring.Seal(holderPurpose, plain, []byte(token))
}

// cutHolder undoes withHolder; the holder is empty for tokens without one. ok is
// false for what withHolder has not made.
func cutHolder(ring *seal.Ring, token string) (state string, at Elsewhere, ok bool) {
	state, mark, found := strings.Cut(token, holderMark)
	if !found {
		return token, at, true
	}
	plain, err := ring.Open(holderPurpose, mark, []byte(state))
	if err != nil || len(plain) < 8 || binary.BigEndian.Uint64(plain) > uint64(len(plain)-8) {
		return "", at, false
	}
	n := 8 + int(binary.BigEndian.Uint64(plain))
	return state, Elsewhere{Holder: string(plain[8:n]), Alias: string(plain[n:])}, true
}

// elsewhere gives an *Elsewhere for the retry of a call that another replica holds.
func (f *Federation) elsewhere(c *Call) error {
	state := &c.Request.RequestState
	if f.opts.Cluster == nil || !state.IsString {
		return nil
	}
	_, at, ok := cutHolder(f.opts.Ring, state.Value)
	if !ok || at.Holder == "" || at.Holder == f.opts.Holder {
		return nil // what is wrong with a token shows where it is opened
	}
	return &at
}

// openState undoes sealState. Every fault gives the same -32602, since the
// holder may be an attacker.
func openState(ring *seal.Ring, b *stateBinding, token string, now time.Time) (state []byte, err error) {
	token, _, ok := cutHolder(ring, token)
	plain, err := ring.Open(statePurpose, token, b.bytes())
	if !ok || err != nil || len(plain) < 8 || now.UnixMilli() >= int64(binary.BigEndian.Uint64(plain)) {
		return nil, errState()
	}
	return plain[8:], nil
}

// errState refuses a requestState that is good for nothing.
func errState() error {
	return mcp.Errorf(mcp.CodeInvalidParams, "requestState is invalid or has expired")
}
