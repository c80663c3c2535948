// Package seal is the gateway's key ring: authenticated encryption for what
// travels through clients or rests in stores (cursors, requestState, sessions,
// secrets). It is a leaf: it imports none of our packages.
//
// A token is the unpadded base64url of
//
//	version (1 byte) | key tag (8) | nonce (12) | ciphertext | GCM tag (16)
//
// sealed with AES-256-GCM under a key that HKDF-SHA256 (RFC 5869) derives from
// one secret of the ring for one purpose. The key tag is a hash of the key's id:
// it tells Open which key to use without showing the id to the token's holder.
// Everything before the nonce, the purpose and the caller's binding are
// authenticated.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// ErrInvalid tells that a token was not sealed by this ring for this purpose and
// binding. It says no more, since the holder may be an attacker.
var ErrInvalid = errors.New("seal: token is invalid")

// MinSecret is the least length of a key's secret in bytes.
const MinSecret = 32

const (
	version     = 1
	tagSize     = 8
	headerSize  = 1 + tagSize
	aesKeySize  = 32 // AES-256
	maxIDLength = 32
)

// encoding is strict, so that no two texts are the same token.
var encoding = base64.RawURLEncoding.Strict()

// Key is one key of a ring. Secret is at least MinSecret bytes; it should come
// from a random source, since a passphrase can be guessed offline.
type Key struct {
	ID     string // ^[A-Za-z0-9._-]{1,32}$
	Secret []byte
}

// Ring seals with its first key and opens with all. It is safe for concurrent
// use.
type Ring struct {
	keys  []*ringKey // in the order of New: the first one seals
	byTag map[[tagSize]byte]*ringKey
}

// ringKey is one key and what was derived from it.
type ringKey struct {
	header [headerSize]byte // version and key tag
	prk    []byte           // HKDF's pseudorandom key
	aeads  sync.Map         // purpose -> cipher.AEAD
}

// New makes a ring; it fails on no keys, a short secret, a bad or double id, and
// then reports all faults together. The secrets are not kept.
func New(keys []Key) (*Ring, error) {
	if len(keys) == 0 {
		return nil, errors.New("seal: no keys")
	}
	r := &Ring{byTag: make(map[[tagSize]byte]*ringKey, len(keys))}
	ids := make(map[string]bool, len(keys))
	var faults []error
	for i, k := range keys {
		if !validID(k.ID) {
			faults = append(faults, fmt.Errorf("seal: key %d: id %q is not 1 to %d of A-Z a-z 0-9 . _ -", i, k.ID, maxIDLength))
		} else if ids[k.ID] {
			faults = append(faults, fmt.Errorf("seal: key %d: id %q is there twice", i, k.ID))
		}
		ids[k.ID] = true
		if len(k.Secret) < MinSecret {
			faults = append(faults, fmt.Errorf("seal: key %d (%q): secret has %d bytes, at least %d are needed", i, k.ID, len(k.Secret), MinSecret))
			continue
		}
		rk, tag, err := newRingKey(k)
		if err != nil {
			faults = append(faults, fmt.Errorf("seal: key %d (%q): %w", i, k.ID, err))
			continue
		}
		r.byTag[tag] = rk
		r.keys = append(r.keys, rk)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(r.byTag) != len(keys) {
		return nil, errors.New("seal: two ids have the same hash: rename one")
	}
	return r, nil
}

// NewRandom makes a ring with one random key, for processes that keep nothing.
func NewRandom() *Ring {
	secret := make([]byte, MinSecret)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	r, err := New([]Key{{ID: "random", Secret: secret}})
	if err != nil {
		panic(err)
	}
	return r
}

func newRingKey(k Key) (*ringKey, [tagSize]byte, error) {
	sum := sha256.Sum256([]byte("causeway seal key id\x00" + k.ID))
	tag := [tagSize]byte(sum[:tagSize])
	prk, err := hkdf.Extract(sha256.New, k.Secret, []byte("causeway seal"))
	if err != nil {
		return nil, tag, fmt.Errorf("derive: %w", err)
	}
	rk := &ringKey{prk: prk}
	rk.header[0] = version
	copy(rk.header[1:], tag[:])
	return rk, tag, nil
}

// Seal encrypts plain for one purpose and returns a URL-safe token. binding is
// authenticated and not stored: Open needs the same. Purposes are constants of
// the program, such as "cursor"; what varies belongs into binding, since the key
// derived for a purpose is kept for the life of the ring.
//
// Nonces are random: a key must be replaced before it has sealed 2^32 tokens for
// one purpose (NIST SP 800-38D, section 8.3).
func (r *Ring) Seal(purpose string, plain, binding []byte) string {
	k := r.keys[0]
	aead := k.aead(purpose)
	buf := make([]byte, headerSize, headerSize+len(plain)+aead.Overhead())
	copy(buf, k.header[:])
	buf = aead.Seal(buf, nil, plain, k.additional(purpose, binding))
	return encoding.EncodeToString(buf)
}

// Open undoes Seal. The error is ErrInvalid.
func (r *Ring) Open(purpose, token string, binding []byte) ([]byte, error) {
	// The decoder skips line ends, which would make many texts of one token.
	if strings.ContainsAny(token, "\r\n") {
		return nil, ErrInvalid
	}
	raw, err := encoding.DecodeString(token)
	if err != nil || len(raw) < headerSize || raw[0] != version {
		return nil, ErrInvalid
	}
	k, ok := r.byTag[[tagSize]byte(raw[1:headerSize])]
	if !ok {
		return nil, ErrInvalid
	}
	plain, err := k.aead(purpose).Open(nil, nil, raw[headerSize:], k.additional(purpose, binding))
	if err != nil {
		return nil, ErrInvalid
	}
	return plain, nil
}

// Derive gives a secret seed for each key of the ring, that of the key which seals
// first: the same for all processes with the same key, and of no use to find the key
// or another seed. Purposes are constants of the program; none of them has anything
// in common with the same one of Seal.
func (r *Ring) Derive(purpose string) [][32]byte {
	seeds := make([][32]byte, len(r.keys))
	for i, k := range r.keys {
		seed, err := hkdf.Expand(sha256.New, k.prk, "causeway derive v1\x00"+purpose, 32)
		if err != nil {
			// Only the size can be wrong here, and it is a constant.
			panic(err)
		}
		seeds[i] = [32]byte(seed)
	}
	return seeds
}

// aead gives the cipher of a purpose, which is derived on first use.
func (k *ringKey) aead(purpose string) cipher.AEAD {
	if a, ok := k.aeads.Load(purpose); ok {
		return a.(cipher.AEAD)
	}
	a, err := derive(k.prk, purpose)
	if err != nil {
		// Only sizes can be wrong here, and they are constants.
		panic(err)
	}
	kept, _ := k.aeads.LoadOrStore(purpose, a)
	return kept.(cipher.AEAD)
}

func derive(prk []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Expand(sha256.New, prk, "causeway seal v1\x00"+purpose, aesKeySize)
	if err != nil {
		return nil, fmt.Errorf("seal: derive: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: derive: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// additional gives the authenticated data. The purpose has its length in front,
// so that no part of it can be taken for the binding.
func (k *ringKey) additional(purpose string, binding []byte) []byte {
	buf := make([]byte, 0, headerSize+8+len(purpose)+len(binding))
	buf = append(buf, k.header[:]...)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(purpose)))
	buf = append(buf, purpose...)
	return append(buf, binding...)
}

func validID(id string) bool {
	if len(id) == 0 || len(id) > maxIDLength {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
