package gateway

import (
	"errors"
	"fmt"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// secretPurpose separates the secrets of registrations from all else that the ring
// seals.
const secretPurpose = "secret"

// errSecretSealed tells nothing of the secret: it may have been sealed by a key that
// the ring has no more.
var errSecretSealed = errors.New("a sealed secret cannot be opened with the keys that are configured")

// SealSecret seals a secret for a registration that is kept in the store.
func SealSecret(ring *seal.Ring, plain []byte) tenant.Secret {
	return tenant.Secret{Sealed: ring.Seal(secretPurpose, plain, nil)}
}

// secrets gives what opens the secrets of registrations. Those that refer to the
// environment or a file are read anew each time, so that they can be rotated.
// lookupEnv may be nil. Errors name the reference and never the value.
func secrets(ring *seal.Ring, lookupEnv func(string) (string, bool)) func(tenant.Secret) ([]byte, error) {
	return func(s tenant.Secret) ([]byte, error) {
		if s.Sealed == "" {
			value, err := config.Secret{Env: s.Env, File: s.File}.Value(lookupEnv)
			if err != nil {
				return nil, fmt.Errorf("open a secret: %w", err)
			}
			return value, nil
		}
		value, err := ring.Open(secretPurpose, s.Sealed, nil)
		if err != nil {
			return nil, errSecretSealed
		}
		return value, nil
	}
}
