package federation

import (
	"log/slog"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

// member is one upstream of a tenant, with what is known of it.
type member struct {
	domain *domain
	conf   tenant.Upstream
	doer   upstream.Doer
	topicV string // version part of the cache topics
}

// domain is one tenant at run time.
type domain struct {
	fed  *Federation
	name string
	hub  *hub

	mu      sync.RWMutex
	snap    *tenant.Tenant
	members []*member // in the order of registration
	byAlias map[string]*member
}

// member gives the member with that alias, or nil.
func (d *domain) member(alias string) *member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.byAlias[alias]
}

// all gives the members in the order of their registration. The slice is not to
// be changed.
func (d *domain) all() []*member {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.members
}

// Options are the collaborators and bounds of a Federation. Now and Dial may be
// nil.
type Options struct {
	Store   tenant.Store
	Cache   cache.Responses
	Connect func(upstream.Config) upstream.Doer // makes the client of one upstream
	Logger  *slog.Logger
	Limits  Limits
	Now     func() time.Time
}

// Limits bound lists and listen streams. DefaultLimits gives the defaults.
type Limits struct {
	PageSize       int           // items of one page of ours
	MaxPages       int           // pages of one upstream list
	MaxItems       int           // items of one upstream list
	ListWait       time.Duration // how long a caller waits for a list
	RevalidateWait time.Duration // the same for a list with ttlMs 0
	ListTTL        time.Duration // for lists without ttlMs
	Stale          time.Duration
	StaleIfError   time.Duration
	StateTTL       time.Duration // how long a requestState is good
	ListenQueue    int           // messages that wait for one listen stream
	Coalesce       time.Duration // window in which bursts of notifications become one
	PollInterval   time.Duration // least interval of polling an upstream that cannot push
	DefaultStreams int           // listen streams of one tenant, where it sets none
}

// DefaultLimits gives the defaults of DESIGN.
func DefaultLimits() Limits {
	return Limits{
		PageSize: 1000, MaxPages: 1000, MaxItems: 20000,
		ListWait: 2 * time.Second, RevalidateWait: 250 * time.Millisecond,
		ListTTL: time.Minute, Stale: 5 * time.Minute, StaleIfError: time.Hour,
		StateTTL: 10 * time.Minute, ListenQueue: 64, Coalesce: 100 * time.Millisecond,
		PollInterval: 30 * time.Second, DefaultStreams: 1000,
	}
}
