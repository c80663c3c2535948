package federation

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Options are the collaborators and bounds of a Federation. Budget, Now, Version
// and Unloaded may be left out.
type Options struct {
	Store   tenant.Store
	Cache   cache.Responses
	Ring    *seal.Ring
	Connect func(upstream.Config) upstream.Doer // makes the client of one upstream
	// Credentials gives what an upstream is shown of who calls: of who where
	// Credential.PerUser says so, else of the gateway itself, with a nil who. It may
	// give nil, and be left out, where upstreams are shown nobody.
	Credentials func(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) upstream.CredentialSource
	Logger      *slog.Logger
	Tracer      trace.Tracer
	Metrics     prometheus.Registerer
	Budget      *mcp.Budget
	Limits      Limits
	Version     string // of the gateway, for serverInfo and clientInfo
	Now         func() time.Time
	// Unloaded is told the name of a tenant that is dropped from this process, so
	// that others can drop what they keep of it.
	Unloaded func(tenant string)
	// Cluster is what the replicas of one gateway share; nil where there is one.
	Cluster *Cluster
	// Holder is the address at which other replicas reach this one, as upstream.Deps
	// has it; empty where there are none.
	Holder string
	// Counters bound what tenants use; nil counts in this process alone.
	Counters cache.Counters
	// QuotaFailClosed has calls refused that need more than this process has leased
	// while Counters fail. Else each process then allows the whole limits by itself.
	QuotaFailClosed bool
}

// TokenTaker is a CredentialSource that exchanges the tokens that its user shows the
// gateway. Take is told one before each use of the source for a call; the source keeps
// the one that lasts longest.
type TokenTaker interface {
	Take(token string, expires time.Time)
}

// Cluster is what the replicas of one gateway share besides Options.Cache. All
// fields must be given.
type Cluster struct {
	Replica string // this process's own name, unique among all replicas at all times
	// Lists holds the pages of lists, without a level in this process's memory:
	// there they live as segments.
	Lists  cache.Responses
	Leases cache.Leases
	Boards cache.Boards
	Bus    cache.Bus
}

// Limits bound lists and listen streams. DefaultLimits gives the defaults.
type Limits struct {
	PageSize       int           // items of one page of ours
	MaxPages       int           // pages of one upstream list
	MaxItems       int           // items of one upstream list, with those that are left out
	MaxListBytes   int           // of all pages of one upstream list
	ListWait       time.Duration // how long a caller waits for a list
	RevalidateWait time.Duration // the same for a list with ttlMs 0
	ListTTL        time.Duration // for lists without ttlMs
	Stale          time.Duration // an expired list is served this long while it is refreshed
	StaleIfError   time.Duration // and this long when the upstream fails
	StateTTL       time.Duration // how long a requestState is good
	MaxDepth       int           // of JSON nesting in what an upstream answers
	Instructions   int           // bytes of one upstream's instructions in ours
	ListenQueue    int           // messages that wait for one listen stream
	Watches        int           // resources, and tasks, of one listen stream
	Coalesce       time.Duration // window in which bursts of notifications become one
	PollInterval   time.Duration // least interval of polling an upstream that cannot push
	ListenStreams  int           // of one tenant, where it sets none
	InFlight       int           // requests of one tenant, where it sets none
	// AutoThresholdTokens is from how many estimated tokens of definitions on the mode
	// auto shows the tools that find tools, where a tenant sets none.
	AutoThresholdTokens int
	Idle                time.Duration // a tenant that was not used for this long is dropped
}

// DefaultLimits gives the defaults.
func DefaultLimits() Limits {
	return Limits{
		PageSize: 1000, MaxPages: 1000, MaxItems: 20000, MaxListBytes: 64 << 20,
		ListWait: 2 * time.Second, RevalidateWait: 250 * time.Millisecond,
		ListTTL: time.Minute, Stale: 5 * time.Minute, StaleIfError: time.Hour,
		StateTTL: 10 * time.Minute, MaxDepth: upstream.DefaultMaxDepth, Instructions: 4 << 10,
		ListenQueue: 64, Watches: 5000, Coalesce: 100 * time.Millisecond, PollInterval: 30 * time.Second,
		ListenStreams: 1000, InFlight: 2000, Idle: 15 * time.Minute,
		AutoThresholdTokens: 10000,
	}
}

// validate reports all faults together.
func (o *Options) validate() error {
	var faults []error
	need := func(ok bool, field string) {
		if !ok {
			faults = append(faults, errors.New("federation: Options."+field+" is missing"))
		}
	}
	need(o.Store != nil, "Store")
	need(o.Cache != nil, "Cache")
	need(o.Ring != nil, "Ring")
	need(o.Connect != nil, "Connect")
	need(o.Logger != nil, "Logger")
	need(o.Tracer != nil, "Tracer")
	need(o.Metrics != nil, "Metrics")
	need(o.Limits.PageSize > 0, "Limits.PageSize")
	need(o.Limits.MaxPages > 0, "Limits.MaxPages")
	need(o.Limits.MaxItems > 0, "Limits.MaxItems")
	need(o.Limits.MaxListBytes > 0, "Limits.MaxListBytes")
	need(o.Limits.ListWait > 0, "Limits.ListWait")
	need(o.Limits.ListenQueue > 0, "Limits.ListenQueue")
	need(o.Limits.Watches > 0, "Limits.Watches")
	need(o.Limits.PollInterval > 0, "Limits.PollInterval")
	need(o.Limits.MaxDepth > 0, "Limits.MaxDepth")
	return errors.Join(faults...)
}
