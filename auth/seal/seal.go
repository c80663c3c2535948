// Package seal is the gateway's key ring: authenticated encryption for what
// travels through clients or rests in stores (cursors, requestState, sessions,
// secrets). It is a leaf: it imports none of our packages.
package seal

import "errors"

// ErrInvalid tells that a token was not sealed by this ring for this purpose and
// binding. It says no more, since the holder may be an attacker.
var ErrInvalid = errors.New("seal: token is invalid")

// Key is one key of a ring. Secret is at least 32 bytes.
type Key struct {
	ID     string // ^[A-Za-z0-9._-]{1,32}$
	Secret []byte
}

// Ring seals with its first key and opens with all.
type Ring struct{ _ int }

// New makes a ring; it fails on no keys, a short secret, a bad or double id.
func New(keys []Key) (*Ring, error) { panic("stub") }

// NewRandom makes a ring with one random key, for processes that keep nothing.
func NewRandom() *Ring { panic("stub") }

// Seal encrypts plain for one purpose and returns a URL-safe token. binding is
// authenticated and not stored: Open needs the same.
func (r *Ring) Seal(purpose string, plain, binding []byte) string { panic("stub") }

// Open undoes Seal. The error is ErrInvalid.
func (r *Ring) Open(purpose, token string, binding []byte) ([]byte, error) { panic("stub") }
