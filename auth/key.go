package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// The form of an API key: cwk_<id>_<secret>, in letters and digits.
const (
	keyPrefix    = "cwk_"
	keyIDLen     = 12 // 71 bits
	keySecretLen = 43 // 256 bits
	keyLen       = len(keyPrefix) + keyIDLen + 1 + keySecretLen

	keyAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	// keyFresh is how long a key that was looked up is used.
	keyFresh = 5 * time.Second
)

// NewKey makes an API key with what k says and an id and a hash of its own. plain is
// what its holder shows, `Authorization: Bearer cwk_…`; it cannot be had again.
func NewKey(k tenant.APIKey) (plain string, made tenant.APIKey) {
	k.ID = randomText(keyIDLen)
	plain = keyPrefix + k.ID + "_" + randomText(keySecretLen)
	sum := sha256.Sum256([]byte(plain))
	k.Hash = sum[:]
	return plain, k
}

// randomText gives random letters and digits, all equally likely.
func randomText(n int) string {
	const even = 256 / len(keyAlphabet) * len(keyAlphabet)
	text := make([]byte, 0, n)
	for len(text) < n {
		var some [64]byte
		_, _ = rand.Read(some[:]) // it never fails
		for _, b := range some {
			if int(b) < even && len(text) < n {
				text = append(text, keyAlphabet[int(b)%len(keyAlphabet)])
			}
		}
	}
	return string(text)
}

// isKey tells whether a credential is meant as an API key.
func isKey(s string) bool { return strings.HasPrefix(s, keyPrefix) }

// keyID gives the id in an API key.
func keyID(plain string) (string, bool) {
	if len(plain) != keyLen || !isKey(plain) || plain[len(keyPrefix)+keyIDLen] != '_' {
		return "", false
	}
	id, secret := plain[len(keyPrefix):len(keyPrefix)+keyIDLen], plain[len(keyPrefix)+keyIDLen+1:]
	return id, strings.Trim(id+secret, keyAlphabet) == ""
}

// byKey finds the caller who shows an API key. An id that is unknown takes the same
// steps as a wrong secret.
func (a *Authenticator) byKey(ctx context.Context, r *realm, plain string, mark [32]byte) (*Caller, reason) {
	id, ok := keyID(plain)
	if !ok || a.keys == nil {
		return nil, reasonKey
	}
	of := r.from.Name
	k, err := a.keys.Key(ctx, of, id)
	switch {
	case errors.Is(err, tenant.ErrNotFound):
		var nothing digest // of which nobody knows a key
		k = tenant.APIKey{Hash: nothing[:]}
	case err != nil:
		if ctx.Err() == nil {
			a.log.Error("cannot look up an API key", "tenant", of, "error", without(err, id))
		}
		return nil, reasonUnavailable
	}
	same := subtle.ConstantTimeCompare(k.Hash, mark[:]) == 1
	now := a.now()
	if !same || k.ID != id || k.Tenant != of || keyExpired(&k, now) {
		return nil, reasonKey
	}
	if k.LastUsed.Before(now.Truncate(time.Hour)) {
		a.touches.add(touched{of, id}, now, a.work)
	}
	return &Caller{Principal: r.principalOf(&k), Expires: k.Expires, Key: id, Mark: mark}, ""
}

// without gives the text of an error without the id of the key that it is about: that
// is a part of what was shown.
func without(err error, id string) string { return strings.ReplaceAll(err.Error(), id, "…") }

func keyExpired(k *tenant.APIKey, now time.Time) bool {
	return !k.Expires.IsZero() && !now.Before(k.Expires)
}

// principalOf gives who a key stands for.
func (r *realm) principalOf(k *tenant.APIKey) tenant.Principal {
	return tenant.Principal{
		Tenant: k.Tenant, Subject: k.Subject, Scopes: r.expand(k.Scopes), Groups: sorted(k.Groups),
	}
}
