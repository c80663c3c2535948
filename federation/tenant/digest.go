package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest gives 16 hex digits of a hash of the upstream's configuration, for its
// Version. Version itself and ManagedBy do not count: who keeps a registration
// changes nothing about the answers. Nor do Pinning and Pins: they say what of an
// answer is shown. A secret counts as it is kept, so that one that is sealed anew
// changes the digest as a new one does.
func (u Upstream) Digest() string {
	u.Version, u.ManagedBy = "", ""
	u.Pinning, u.Pins = "", nil
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err) // no field of Upstream can fail to encode
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
