package config

import (
	"fmt"

	"github.com/causeway-mcp/causeway/auth/seal"
)

// SealKeys reads the secrets of Keys. It gives nil when there are none. lookupEnv
// is os.LookupEnv or nil. The error is Faults, which show no secret.
func (c *Config) SealKeys(lookupEnv func(string) (string, bool)) ([]seal.Key, error) {
	var keys []seal.Key
	var faults Faults
	for i, k := range c.Keys {
		secret, err := k.Secret.Value(lookupEnv)
		if err == nil && len(secret) < seal.MinSecret {
			err = fmt.Errorf("the secret has %d bytes and needs at least %d", len(secret), seal.MinSecret)
		}
		if err != nil {
			faults = append(faults, Fault{Path: fmt.Sprintf("keys[%d].secret", i), Message: err.Error()})
		}
		keys = append(keys, seal.Key{ID: k.ID, Secret: secret})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return keys, nil
}
