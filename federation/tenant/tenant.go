// Package tenant holds what a deployment registers: tenants and their
// upstreams, and who calls. Store is the registry behind an interface; memory is
// its back end in this package. It imports none of our packages.
package tenant

import (
	"context"
	"errors"
	"time"
)

// DefaultName is the tenant behind /mcp.
const DefaultName = "default"

// ErrNotFound tells that a tenant is not registered.
var ErrNotFound = errors.New("tenant not found")

// Principal is who calls.
type Principal struct {
	Tenant, Issuer, Subject, ClientID string
	Scopes, Groups                    []string
}

// Tenant is one tenant's registration, an immutable snapshot.
type Tenant struct {
	Name      string
	Revision  uint64 // rises with every change of the tenant
	Separator string // between alias and name: "_" or "__"
	PageSize  int    // items per page of a list; 0 means the gateway's default
	Limits    Limits
	Upstreams []Upstream // in the order of their registration
	Toolsets  []Toolset
	Policy    *Policy // nil where nothing is denied
	ManagedBy string  // "file" or "store"
}

// Limits bound what one tenant may use, over all replicas; 0 means the default.
type Limits struct {
	Quota
	ListenStreams int   // at the same time, of one replica
	Principal     Quota // of each principal
}

// Quota bounds calls; 0 means the default, which for a rate is no bound.
type Quota struct {
	CallsPerMinute int
	InFlight       int // at the same time
}

// Toolset is a named selection of what a tenant offers, with an endpoint of its
// own.
type Toolset struct {
	Name    string
	Include []string // globs of exposed names
	Tags    []string // of upstreams
	When    string   // an expression that must hold; empty for none
	Scopes  []string // that a caller needs
	Limits  Quota
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
	Default Effect
	Rules   []Rule
}

// Rule is one rule of a Policy.
type Rule struct {
	Name   string
	When   string
	Effect Effect
	Scopes []string // that a caller needs besides
}

// APIKey is a key that stands for a principal. Only a hash of the key is kept.
type APIKey struct {
	ID       string
	Tenant   string
	Name     string // for people
	Hash     []byte // SHA-256 of the key
	Subject  string
	Scopes   []string
	Groups   []string
	Created  time.Time
	Expires  time.Time // zero for never
	LastUsed time.Time // zero for never; kept to the hour
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
	Alias          string
	URL            string
	Process        *Process // a program to start, in place of URL; from the configuration file only
	Era            string   // "auto" or empty, "modern" or "handshake"
	Sessions       Sessions
	Prefix         Prefix
	Description    string
	Tags           []string
	ForwardHeaders []string // request headers that pass through, besides those that always do
	Timeouts       Timeouts
	Cache          CacheTimes
	InFlight       int    // concurrent requests of one replica; 0 means the default
	Limits         Quota  // of all replicas together
	Version        string // a digest of this configuration: part of every cache key
	ManagedBy      string // "file" or "store"
}

// Process is a server that the gateway starts and speaks to over its standard
// streams.
type Process struct {
	Command []string   // the program and its arguments
	Env     []Variable // besides what every process gets, sorted by name
	Dir     string     // the working directory; empty means the gateway's own
}

// Variable is one variable of a Process's environment: a value, or a reference to
// the gateway's own environment or to a file.
type Variable struct{ Name, Value, FromEnv, FromFile string }

// Sessions bound the sessions with a server of the handshake era, and the calls
// that wait for a user's answer in them; 0 means the default.
type Sessions struct {
	Shared             bool          // by all users, and then without client capabilities
	Max                int           // at the same time
	Idle               time.Duration // an unused one is closed after it
	ParkMax            time.Duration // that a call waits for an answer
	Parked             int           // calls that wait at the same time
	ParkedPerPrincipal int           // and those of one user
}

// Timeouts of an upstream; 0 means the default.
type Timeouts struct {
	Connect, List, Call, CallMax time.Duration
}

// CacheTimes say how long an upstream's answers may be used; nil and 0 mean the
// defaults.
type CacheTimes struct {
	ListTTL      *time.Duration // for lists without ttlMs
	Stale        time.Duration  // an expired list is served this long while it is refreshed
	StaleIfError time.Duration  // and this long when the upstream fails
}

// Store is the registry. Snapshots it returns are immutable.
type Store interface {
	// Tenant gives one tenant, or ErrNotFound.
	Tenant(ctx context.Context, name string) (*Tenant, error)
	// Names gives all tenants' names, sorted.
	Names(ctx context.Context) ([]string, error)
	// Watch calls changed with a tenant's name after each change, until ctx ends
	// or the returned function is called. Calls come one after the other.
	Watch(ctx context.Context, changed func(name string)) (stop func())
}

// ErrConflict tells that something was changed, made or taken away meanwhile.
var ErrConflict = errors.New("changed meanwhile")

// Any stands for any revision.
const Any = ^uint64(0)

// Registry is a Store that can be written. Each change is atomic and has a revision
// of its own, higher than all before it in the registry. A Tenant that is written
// is not changed afterwards; its Revision is set on a copy, and ManagedBy is
// "store" for it and for its upstreams.
type Registry interface {
	Store
	// Put writes a tenant whose revision is still expect: 0 for one that is not
	// there, Any for whatever there is. It gives the new revision, or ErrConflict.
	Put(ctx context.Context, t *Tenant, expect uint64) (uint64, error)
	// Delete takes a tenant away together with its keys; ErrNotFound when there is
	// none, ErrConflict when its revision is another one.
	Delete(ctx context.Context, name string, expect uint64) error
	// Keys gives the keys of a tenant, sorted by id.
	Keys(ctx context.Context, tenant string) ([]APIKey, error)
	// Key gives one key, or ErrNotFound.
	Key(ctx context.Context, tenant, id string) (APIKey, error)
	// PutKey writes a key; ErrNotFound when its tenant is not registered.
	PutKey(ctx context.Context, k APIKey) error
	// DeleteKey takes a key away; ErrNotFound when there is none.
	DeleteKey(ctx context.Context, tenant, id string) error
	// Export gives all that is registered, as of one moment.
	Export(ctx context.Context) (*Snapshot, error)
	// Import makes a snapshot the whole content, atomically: revisions go on rising,
	// and tenants that stay as they were keep theirs. expect is the registry's
	// revision that it replaces, or Any; ErrConflict when it is another one.
	Import(ctx context.Context, s *Snapshot, expect uint64) (uint64, error)
}

// Snapshot is the whole content of a Registry.
type Snapshot struct {
	Revision uint64    // of the registry
	Tenants  []*Tenant // sorted by name
	Keys     []APIKey  // sorted by tenant and id
}
