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
}

// Limits bound what one tenant may use at the same time; 0 means the default.
type Limits struct {
	InFlight      int // requests
	ListenStreams int
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
	InFlight       int    // concurrent requests; 0 means the default
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
