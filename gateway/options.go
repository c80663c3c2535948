package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
	"github.com/causeway-mcp/causeway/gateway/telemetry"
	"github.com/causeway-mcp/causeway/upstream"
)

// Options say how a Gateway is reached, what bounds hold for it and who works
// with it. Begin with DefaultOptions.
type Options struct {
	// Listen is the host:port of the MCP endpoints.
	Listen string
	// AdminListen is the host:port of /metrics, /livez and /readyz; empty for none.
	AdminListen string
	// PublicURL is what clients know the gateway by; its origin and host are
	// allowed, and the resources that access tokens are for begin with it. It may be
	// empty, but tenants that take access tokens are not served then.
	PublicURL string
	// AllowedOrigins are further origins (https://app.example.com) whose pages may
	// call the gateway.
	AllowedOrigins []string
	// TrustedProxies are the addresses whose X-Forwarded-For is believed: where a
	// client's address is logged, and where its failures to authenticate are counted.
	TrustedProxies []netip.Prefix
	// AllowUnauthenticated acknowledges that everybody who reaches a listener that
	// is not on a loopback address may use the tenants without authentication. Without
	// it they are not served there.
	AllowUnauthenticated bool
	Egress               Egress
	// Version is the gateway's own, for those who ask.
	Version string

	Limits     Limits
	Federation federation.Limits
	// Upstream bounds all upstreams whose registration says nothing else; zero
	// values mean the defaults of package upstream. What names one upstream is not
	// used.
	Upstream upstream.Config

	Store tenant.Store
	// Keys finds the API keys of tenants; nil where there are none.
	Keys auth.Keys
	// Secrets opens secrets of registrations; nil where there are none.
	Secrets func(tenant.Secret) ([]byte, error)
	// Vault keeps what is given for users; nil where nothing is.
	Vault tenant.Vault
	// StoreDegraded is Cluster.Degraded for Store; it may be nil.
	StoreDegraded func() string

	Cache  cache.Responses
	Ring   *seal.Ring // seals cursors and requestState
	Logger *slog.Logger
	// Registerer takes all metrics; Gatherer gives them to /metrics.
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	// Tracer makes spans; nil makes none.
	Tracer trace.Tracer
	// Cluster is what the replicas of one gateway share; nil where there is one.
	Cluster *Cluster
	// Counters bound what tenants use; nil counts in this process alone.
	Counters cache.Counters
	// QuotaFailClosed has calls that a quota bounds refused while Counters fail; else
	// this process then counts alone.
	QuotaFailClosed bool
}

// Cluster is what the replicas of one gateway share, and how they reach one
// another. All fields must be given but PeerAddress.
type Cluster struct {
	federation.Cluster
	// Values keeps what the sessions of handshake clients have set.
	Values cache.Values
	// PeerListen is the host:port at which other replicas reach this one, and
	// PeerAddress the one that they are told; empty for the address of the listener.
	PeerListen, PeerAddress string
	// Degraded says what does not work at the moment; empty when all does.
	Degraded func() string
}

// Limits bound what clients may use.
type Limits struct {
	MaxBody     int64 // bytes of one request's body
	MaxHeader   int   // bytes of one request's headers
	MaxDepth    int   // nesting of JSON in a request
	MaxBuffered int64 // bytes of messages in this process; 0 for no bound

	HeaderTimeout time.Duration // until a request's headers are there
	BodyTimeout   time.Duration // and then its body
	IdleTimeout   time.Duration // until an unused connection is closed
	// WriteTimeout is how long a client may take to take one event or, with a
	// second for every minRate bytes, one response.
	WriteTimeout time.Duration
	// KeepAlive is how long an event stream is silent before a comment is sent, and
	// how long a response waits for its first message before it becomes a stream.
	KeepAlive time.Duration

	Streams             int           // open listen streams of this process
	StreamsPerPrincipal int           // and of one principal in it
	StreamLifetime      time.Duration // until the gateway ends a listen stream

	// SessionLifetime is how long the session of a client of the handshake era is
	// good.
	SessionLifetime time.Duration
	// Sessions is of how many of them the process keeps what they set.
	Sessions int
	// AnswerWait is how long such a client may take to answer a server's question.
	AnswerWait time.Duration
	// Asking bounds the calls of this process that wait for such an answer, and
	// AskingPerPrincipal those of one principal.
	Asking, AskingPerPrincipal int

	// DrainDelay is how long Stop goes on serving after the gateway has become not
	// ready, and ShutdownGrace how long it takes at most, with waiting for requests
	// under way.
	DrainDelay    time.Duration
	ShutdownGrace time.Duration
}

// DefaultOptions gives the defaults. Store, Cache, Ring, Logger, Registerer and
// Gatherer are left to the caller.
func DefaultOptions() Options {
	return Options{
		Listen:      "127.0.0.1:8080",
		AdminListen: "127.0.0.1:9090",
		Version:     "dev",
		Limits: Limits{
			MaxBody: 4 << 20, MaxHeader: 64 << 10, MaxDepth: 256, MaxBuffered: telemetry.BufferBudget(),
			HeaderTimeout: 10 * time.Second, BodyTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			WriteTimeout: 10 * time.Second, KeepAlive: 15 * time.Second,
			Streams: 20000, StreamsPerPrincipal: 1000, StreamLifetime: 12 * time.Hour,
			SessionLifetime: 24 * time.Hour, Sessions: 100000, AnswerWait: 5 * time.Minute,
			Asking: 10000, AskingPerPrincipal: 1000,
			ShutdownGrace: config.DefaultShutdownGrace,
		},
		Federation: federation.DefaultLimits(),
	}
}

// validate reports all faults together.
func (o *Options) validate() error {
	f := &faults{}
	f.address("Listen", o.Listen)
	if o.AdminListen != "" {
		f.address("AdminListen", o.AdminListen)
	}
	if o.PublicURL != "" {
		f.publicURL(o.PublicURL)
	}
	for i, origin := range o.AllowedOrigins {
		f.origin(fmt.Sprintf("AllowedOrigins[%d]", i), origin)
	}
	for i, proxy := range o.TrustedProxies {
		if !proxy.IsValid() {
			f.add(fmt.Sprintf("TrustedProxies[%d]", i), "is no address")
		}
	}
	for i, network := range o.Egress.Allow {
		if !network.IsValid() {
			f.add(fmt.Sprintf("Egress.Allow[%d]", i), "is no network")
		}
	}
	f.given("Store", o.Store != nil)
	f.given("Cache", o.Cache != nil)
	f.given("Ring", o.Ring != nil)
	f.given("Logger", o.Logger != nil)
	f.given("Registerer", o.Registerer != nil)
	f.given("Gatherer", o.Gatherer != nil)
	if o.Cluster != nil {
		o.Cluster.validate(f)
	}
	o.Limits.validate(f)
	return errors.Join(f.list...)
}

func (c *Cluster) validate(f *faults) {
	f.given("Cluster.Replica", c.Replica != "")
	f.given("Cluster.Lists", c.Lists != nil)
	f.given("Cluster.Leases", c.Leases != nil)
	f.given("Cluster.Boards", c.Boards != nil)
	f.given("Cluster.Bus", c.Bus != nil)
	f.given("Cluster.Values", c.Values != nil)
	f.given("Cluster.Degraded", c.Degraded != nil)
	f.address("Cluster.PeerListen", c.PeerListen)
	if c.PeerAddress != "" {
		f.address("Cluster.PeerAddress", c.PeerAddress)
	}
}

func (l *Limits) validate(f *faults) {
	f.positive("MaxBody", l.MaxBody)
	f.positive("MaxHeader", int64(l.MaxHeader))
	f.positive("MaxDepth", int64(l.MaxDepth))
	if l.MaxBuffered < 0 {
		f.add("Limits.MaxBuffered", "must not be negative")
	} else if l.MaxBuffered > 0 && l.MaxBuffered < l.MaxBody {
		f.add("Limits.MaxBuffered", "must hold at least one body (MaxBody, %d bytes)", l.MaxBody)
	}
	f.positive("HeaderTimeout", int64(l.HeaderTimeout))
	f.positive("BodyTimeout", int64(l.BodyTimeout))
	f.positive("IdleTimeout", int64(l.IdleTimeout))
	f.positive("WriteTimeout", int64(l.WriteTimeout))
	f.positive("KeepAlive", int64(l.KeepAlive))
	f.positive("Streams", int64(l.Streams))
	f.positive("StreamsPerPrincipal", int64(l.StreamsPerPrincipal))
	f.positive("StreamLifetime", int64(l.StreamLifetime))
	f.positive("SessionLifetime", int64(l.SessionLifetime))
	f.positive("Sessions", int64(l.Sessions))
	f.positive("AnswerWait", int64(l.AnswerWait))
	f.positive("Asking", int64(l.Asking))
	f.positive("AskingPerPrincipal", int64(l.AskingPerPrincipal))
	f.positive("ShutdownGrace", int64(l.ShutdownGrace))
	if l.DrainDelay < 0 || l.DrainDelay > 0 && l.DrainDelay >= l.ShutdownGrace {
		f.add("Limits.DrainDelay", "must be less than ShutdownGrace, and not negative")
	}
}

// faults collects what is wrong with Options.
type faults struct{ list []error }

func (f *faults) add(field, format string, args ...any) {
	f.list = append(f.list, fmt.Errorf("gateway: Options.%s: %w", field, fmt.Errorf(format, args...)))
}

func (f *faults) given(field string, ok bool) {
	if !ok {
		f.add(field, "is missing")
	}
}

func (f *faults) positive(field string, v int64) {
	if v <= 0 {
		f.add("Limits."+field, "must be positive")
	}
}

func (f *faults) address(field, v string) {
	_, port, err := net.SplitHostPort(v)
	if err != nil {
		f.add(field, "%q is not host:port", v)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		f.add(field, "%q has no port between 0 and 65535", v)
	}
}

func (f *faults) publicURL(v string) {
	u, err := url.Parse(v)
	if err == nil {
		_, err = parseOrigin(v)
	}
	switch {
	case err != nil:
		f.add("PublicURL", "%w", err)
	case u.RawQuery != "" || u.Fragment != "":
		f.add("PublicURL", "%q must have no query and no fragment", v)
	}
}

func (f *faults) origin(field, v string) {
	if _, err := parseOrigin(v); err != nil {
		f.add(field, "%w", err)
		return
	}
	if u, err := url.Parse(v); err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		f.add(field, "%q is not an origin: nothing follows its host and port", v)
	}
}
