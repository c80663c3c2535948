// Package tenant holds what a deployment registers: tenants and their
// upstreams, and who calls. Store is what the gateway reads, Registry what an
// administrator writes; both have a back end in memory here. It imports none of our
// packages.
package tenant

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// DefaultName is the tenant behind /mcp.
const DefaultName = "default"

// ErrNotFound tells that a tenant, or a key of one, is not registered.
var ErrNotFound = errors.New("tenant not found")

// ErrConflict tells that something was changed, made or taken away meanwhile.
var ErrConflict = errors.New("changed meanwhile")

// Who keeps a registration.
const (
	ManagedByFile  = "file"  // the configuration file
	ManagedByStore = "store" // a Registry
)

// Principal is who calls.
type Principal struct {
	Tenant, Issuer, Subject, ClientID string
	Scopes, Groups                    []string
}

// Key stands for one user of one client: it is equal for no others. It is empty for
// nobody, and fit for names and logs, since it is a digest.
func (p *Principal) Key() string {
	if p.Issuer == "" && p.Subject == "" {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{p.Tenant, p.Issuer, p.Subject, p.ClientID} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// GrantKey is Key with what the token of the user grants: it is equal for tokens of
// one user and client that have the same scopes only.
func (p *Principal) GrantKey() string {
	key := p.Key()
	if key == "" {
		return ""
	}
	h := sha256.New()
	h.Write([]byte(key))
	for _, scope := range slices.Compact(slices.Sorted(slices.Values(p.Scopes))) {
		h.Write([]byte{' '})
		h.Write([]byte(scope))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Tenant is one tenant's registration, an immutable snapshot.
type Tenant struct {
	Name      string     `json:"name"`
	Revision  uint64     `json:"revision,omitzero"`   // rises with every change of the tenant
	Separator string     `json:"separator,omitempty"` // between alias and name: "_" or "__"
	PageSize  int        `json:"pageSize,omitzero"`   // items per page of a list; 0 means the gateway's default
	Limits    Limits     `json:"limits,omitzero"`
	Auth      Auth       `json:"auth,omitzero"`
	Discovery Discovery  `json:"discovery,omitzero"`
	Upstreams []Upstream `json:"upstreams,omitempty"` // in the order of their registration
	Toolsets  []Toolset  `json:"toolsets,omitempty"`
	Policy    *Policy    `json:"policy,omitempty"`    // nil where nothing is denied
	Hosts     []Host     `json:"hosts,omitempty"`     // names that lead to this tenant
	ManagedBy string     `json:"managedBy,omitempty"` // "file" or "store"
}

// DiscoveryMode says which tools a list shows. All can be called in every mode.
type DiscoveryMode string

// Modes.
const (
	DiscoveryFull   DiscoveryMode = "full"   // all
	DiscoverySearch DiscoveryMode = "search" // the tools that find tools, and pinned ones
	DiscoveryAuto   DiscoveryMode = "auto"   // as search where all would be too many, else all
)

// Discovery says how clients find a tenant's tools.
type Discovery struct {
	Mode                DiscoveryMode `json:"mode,omitempty"`               // empty for DiscoveryFull
	AutoThresholdTokens int           `json:"autoThresholdTokens,omitzero"` // estimated; 0 means the gateway's default
	Pinned              []string      `json:"pinned,omitempty"`             // exposed names, or patterns as of path.Match, that are always shown
	FromURL             bool          `json:"fromURL,omitzero"`             // clients may choose the mode by ?discovery= in the URL
}

// Limits bound what one tenant may use, over all replicas; 0 means the default.
type Limits struct {
	Quota
	ListenStreams int   `json:"listenStreams,omitzero"` // at the same time, of one replica
	Principal     Quota `json:"principal,omitzero"`     // of each principal
}

// Quota bounds calls; 0 means the default, which for a rate is no bound.
type Quota struct {
	CallsPerMinute int `json:"callsPerMinute,omitzero"`
	InFlight       int `json:"inFlight,omitzero"` // at the same time
}

// Toolset is a named selection of what a tenant offers, with an endpoint of its
// own.
type Toolset struct {
	Name    string   `json:"name"`
	Include []string `json:"include,omitempty"` // globs of exposed names
	Tags    []string `json:"tags,omitempty"`    // of upstreams
	When    string   `json:"when,omitempty"`    // an expression that must hold; empty for none
	Scopes  []string `json:"scopes,omitempty"`  // that a caller needs
	Limits  Quota    `json:"limits,omitzero"`
	// Discovery is how clients of its endpoint find its tools; an empty mode means
	// the tenant's own.
	Discovery Discovery `json:"discovery,omitzero"`
}

// Effect is what a rule says.
type Effect string

// Effects.
const (
	EffectAllow Effect = "allow"
	EffectDeny  Effect = "deny"
)

// Policy says who may see and call what: the first rule whose expression holds
// decides.
type Policy struct {
	Default Effect `json:"default"`
	Rules   []Rule `json:"rules,omitempty"`
}

// Rule is one rule of a Policy.
type Rule struct {
	Name   string   `json:"name"`
	When   string   `json:"when,omitempty"`
	Effect Effect   `json:"effect"`
	Scopes []string `json:"scopes,omitempty"` // that a caller needs besides
}

// APIKey is a key that stands for a principal. Only a hash of the key is kept.
type APIKey struct {
	ID       string    `json:"id"`
	Tenant   string    `json:"tenant"`
	Name     string    `json:"name,omitempty"` // for people
	Hash     []byte    `json:"hash"`           // SHA-256 of the key
	Subject  string    `json:"subject"`
	Scopes   []string  `json:"scopes,omitempty"`
	Groups   []string  `json:"groups,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`  // zero for never
	LastUsed time.Time `json:"lastUsed,omitzero"` // zero for never; kept to the hour
}

// Prefix says how an upstream's names are exposed.
type Prefix string

// Prefixes.
const (
	PrefixAlias Prefix = "alias" // alias + separator + name
	PrefixNone  Prefix = "none"  // the name as it is, where no earlier upstream holds it
)

// Upstream is one upstream server's registration.
type Upstream struct {
	Alias          string     `json:"alias"`
	URL            string     `json:"url,omitempty"`
	Process        *Process   `json:"process,omitempty"` // a program to start, in place of URL; from the configuration file only
	Era            string     `json:"era,omitempty"`     // "auto" or empty, "modern" or "handshake"
	Sessions       Sessions   `json:"sessions,omitzero"`
	Prefix         Prefix     `json:"prefix,omitempty"`
	Description    string     `json:"description,omitempty"`
	Tags           []string   `json:"tags,omitempty"`
	ForwardHeaders []string   `json:"forwardHeaders,omitempty"` // request headers that pass through, besides those that always do
	Timeouts       Timeouts   `json:"timeouts,omitzero"`
	Cache          CacheTimes `json:"cache,omitzero"`
	Auth           Credential `json:"auth,omitzero"` // how the upstream is shown who calls
	Pinning        Pinning    `json:"pinning,omitempty"`
	// Pins are the approved definitions of tools, by the upstream's own names: each
	// "sha256:" and the hexadecimal digest that federation.DefinitionPin gives.
	Pins      map[string]string `json:"pins,omitempty"`
	InFlight  int               `json:"inFlight,omitzero"`   // concurrent requests of one replica; 0 means the default
	Limits    Quota             `json:"limits,omitzero"`     // of all replicas together
	Version   string            `json:"version,omitempty"`   // a digest of this configuration: part of every cache key
	ManagedBy string            `json:"managedBy,omitempty"` // "file" or "store"
}

// Process is a server that the gateway starts and speaks to over its standard
// streams.
type Process struct {
	Command []string   `json:"command,omitempty"` // the program and its arguments
	Env     []Variable `json:"env,omitempty"`     // besides what every process gets, sorted by name
	Dir     string     `json:"dir,omitempty"`     // the working directory; empty means the gateway's own
}

// Variable is one variable of a Process's environment: a value, or a reference to
// the gateway's own environment or to a file.
type Variable struct {
	Name     string `json:"name"`
	Value    string `json:"value,omitempty"`
	FromEnv  string `json:"fromEnv,omitempty"`
	FromFile string `json:"fromFile,omitempty"`
}

// Sessions bound the sessions with a server of the handshake era, and the calls
// that wait for a user's answer in them; 0 means the default.
type Sessions struct {
	Shared             bool          `json:"shared,omitzero"`             // by all users, and then without client capabilities
	Max                int           `json:"max,omitzero"`                // at the same time
	Idle               time.Duration `json:"idle,omitzero"`               // an unused one is closed after it
	ParkMax            time.Duration `json:"parkMax,omitzero"`            // that a call waits for an answer
	Parked             int           `json:"parked,omitzero"`             // calls that wait at the same time
	ParkedPerPrincipal int           `json:"parkedPerPrincipal,omitzero"` // and those of one user
}

// Timeouts of an upstream; 0 means the default.
type Timeouts struct {
	Connect time.Duration `json:"connect,omitzero"`
	List    time.Duration `json:"list,omitzero"`
	Call    time.Duration `json:"call,omitzero"`
	CallMax time.Duration `json:"callMax,omitzero"`
}

// CacheTimes say how long an upstream's answers may be used; nil and 0 mean the
// defaults.
type CacheTimes struct {
	ListTTL      *time.Duration `json:"listTTL,omitzero"`      // for lists without ttlMs
	Stale        time.Duration  `json:"stale,omitzero"`        // an expired list is served this long while it is refreshed
	StaleIfError time.Duration  `json:"staleIfError,omitzero"` // and this long when the upstream fails
}
