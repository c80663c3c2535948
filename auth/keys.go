package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"strings"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxKeys    = 200  // of an issuer
	minRSABits = 2048 // RFC 7518, section 3.3
	maxRSABits = 8192 // longer ones take too long
)

// parseKeys reads a JWK set. Keys that cannot verify a signature are left out (RFC
// 7517, section 5).
func parseKeys(raw []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil || set.Keys == nil {
		return nil, errors.New("its keys are no JWK set")
	}
	if len(set.Keys) > maxKeys {
		return nil, errors.New("it has too many keys")
	}
	keys := []jose.JSONWebKey{}
	for _, one := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(one); err != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		if k = k.Public(); verifies(k.Key) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// verifies tells whether a key is a public one, and strong enough.
func verifies(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return minRSABits <= k.N.BitLen() && k.N.BitLen() <= maxRSABits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// suits tells whether a key may have made a signature with an algorithm (RFC 7518,
// section 3.1; RFC 8037, section 3.1).
func suits(k jose.JSONWebKey, alg string) bool {
	if k.Algorithm != "" && k.Algorithm != alg {
		return false
	}
	switch key := crypto.PublicKey(k.Key).(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return alg == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[key.Curve.Params().BitSize]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}
