package gateway

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Revisions of the handshake era that are spoken with clients.
const (
	revision202511 = "2025-11-25"
	revision202506 = "2025-06-18"
	revision202503 = "2025-03-26"
)

// legacyRevisions lists them, the newest first. The caller owns the slice.
func legacyRevisions() []string {
	return []string{revision202511, revision202506, revision202503}
}

// isLegacyRevision tells whether a revision is one of them.
func isLegacyRevision(version string) bool {
	switch version {
	case revision202511, revision202506, revision202503:
		return true
	}
	return false
}

// session holds what was agreed with a client of the handshake era. It does not
// change: all of it is in the Mcp-Session-Id, so that every process that has the
// keys can serve the client, and a restart loses nothing.
type session struct {
	// id is that of the soft state; empty for a client that sent no session.
	id       string
	revision string
	// capabilities are the client's as revision 2026-07-28 writes them, raw JSON.
	capabilities []byte
	// client is its Implementation with name and version alone, raw JSON; empty
	// when it gave none.
	client  []byte
	expires time.Time
}

// sessionPurpose separates these tokens from all others of the ring.
const sessionPurpose = "session"

// maxSessionID bounds an Mcp-Session-Id, in bytes: some servers and proxies take
// no header line of more than 4 KiB.
const maxSessionID = 4000

var (
	errSessionTooLarge = errors.New("the session's facts do not fit into a header")
	errSessionInvalid  = errors.New("the session id is not valid here")
)

// sealSession gives the Mcp-Session-Id of a session. It is good for one endpoint
// and one principal only: for the issuer's subject, whatever token shows it.
// Base64url is visible ASCII, as the header must be (2025-11-25,
// basic/transports, Session Management).
func sealSession(ring *seal.Ring, s *session, at federation.Endpoint, p *tenant.Principal) (string, error) {
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.expires.UnixMilli()))
	for _, field := range [...]string{s.id, s.revision, string(s.client), string(s.capabilities)} {
		plain = appendField(plain, field)
	}
	token := ring.Seal(sessionPurpose, plain, sessionBinding(at, p))
	if len(token) > maxSessionID {
		return "", errSessionTooLarge
	}
	return token, nil
}

// openSession undoes sealSession. The error is errSessionInvalid, whatever is
// wrong: the holder may be an attacker.
func openSession(ring *seal.Ring, token string, at federation.Endpoint, p *tenant.Principal, now time.Time) (*session, error) {
	if len(token) > maxSessionID {
		return nil, errSessionInvalid
	}
	plain, err := ring.Open(sessionPurpose, token, sessionBinding(at, p))
	if err != nil {
		return nil, errSessionInvalid
	}
	s, ok := parseSession(plain)
	if !ok || !now.Before(s.expires) {
		return nil, errSessionInvalid
	}
	return s, nil
}

// sessionBinding is what a session is bound to without being told in it.
func sessionBinding(at federation.Endpoint, p *tenant.Principal) []byte {
	var b []byte
	for _, field := range [...]string{at.Tenant, at.Alias, string(at.Discovery), p.Tenant, p.Issuer, p.Subject} {
		b = appendField(b, field)
	}
	if at.Toolset != "" {
		b = appendField(b, at.Toolset) // the others keep the binding that they had before there were toolsets
	}
	return b
}

// parseSession reads the inside of a token.
func parseSession(plain []byte) (*session, bool) {
	if len(plain) < 8 {
		return nil, false
	}
	s := &session{expires: time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))}
	var fields [4][]byte
	rest := plain[8:]
	for i := range fields {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return nil, false
		}
		fields[i], rest = rest[size:size+int(n)], rest[size+int(n):]
	}
	s.id, s.revision = string(fields[0]), string(fields[1])
	s.client, s.capabilities = slices.Clone(fields[2]), slices.Clone(fields[3])
	return s, len(rest) == 0 && s.id != "" && isLegacyRevision(s.revision)
}

// appendField appends s with its length in front, so that fields cannot run into
// each other.
func appendField(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
