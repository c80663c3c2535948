package federation

import (
	"encoding/hex"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// pinPrefix begins each pin: it names the digest.
const pinPrefix = "sha256:"

// DefinitionPin gives the pin of a tool's definition (see tenant.Upstream): "sha256:"
// and the hexadecimal digest of the tool as its server lists it, but for `_meta`, which
// the gateway adds to and which servers use for what changes by itself. The order of
// members, white space and the way strings are escaped make no difference; all else
// does: name, title, description, schemas, annotations, icons, and members that nobody
// knows. It is empty for what is not the JSON of an object.
func DefinitionPin(raw []byte) string {
	if len(raw) == 0 || raw[0] != '{' || !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return ""
	}
	bare := append(make([]byte, 0, len(raw)), '{')
	for m := range mcp.Members(raw, wholeOf(raw)) {
		if m.Key == "_meta" {
			continue
		}
		if len(bare) > 1 {
			bare = append(bare, ',')
		}
		bare = append(bare, m.At.In(raw)...)
	}
	digest, err := mcp.CanonicalDigest(append(bare, '}'))
	if err != nil {
		return ""
	}
	return pinPrefix + hex.EncodeToString(digest[:])
}

// checkPin gives the reason to leave out a tool whose definition is not the approved
// one. It names the pin that would approve it.
func checkPin(conf *tenant.Upstream, it *item) (reason string) {
	pin, pinned := conf.Pins[it.name]
	if !pinned && conf.Pinning != tenant.PinAll {
		return ""
	}
	switch got := DefinitionPin(it.raw); {
	case !pinned:
		return "no definition of it is approved: this one is " + got
	case got != pin:
		return "its definition is not the approved one: it is " + got + " now"
	}
	return ""
}
