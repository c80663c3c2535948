// Package config reads the gateway's configuration: one YAML file, strictly,
// with overrides from the environment and the command line. What it gives is an
// immutable snapshot. It may import every package below gateway, and never
// gateway itself.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Defaults of the process-level keys. Those of server, limits, timeouts, cache
// and breaker are where they are used: a zero there means the default. Upstreams get
// those of timeouts and cache that the file sets.
const (
	DefaultListen      = "127.0.0.1:8080"
	DefaultAdminListen = "127.0.0.1:9090"
	DefaultDataDir     = "./data"
	DefaultLogFormat   = FormatText
)

// Formats of the log.
const (
	FormatText = "text" // key=value
	FormatJSON = "json"
)

// MaxFileSize bounds the configuration file, in bytes.
const MaxFileSize = 32 << 20

// Config is one configuration. It is not changed after it was read.
type Config struct {
	// Listen is the address (host:port) of the data plane.
	Listen string
	// PublicURL is how clients reach it: scheme, host and maybe a path, without
	// a slash at the end. Empty means http:// and Listen.
	PublicURL string
	// Admin is the listener of metrics and health.
	Admin Admin
	// DataDir is where the gateway keeps what must outlive the process: its key, and
	// the registry where Store is a file. It is relative to the working directory.
	DataDir string
	// Store says where what is registered is kept, besides Tenants.
	Store Store
	// Redis is what makes several processes one gateway; nil where there is one.
	Redis *Redis
	// Peer says how those processes reach one another.
	Peer Peer
	// Keys are the key ring. The first seals, all open. Empty means one key that
	// is made once and kept in DataDir.
	Keys []Key
	// AllowedOrigins are the origins of web pages that may use the gateway,
	// besides PublicURL's own.
	AllowedOrigins []string
	// TrustedProxies are the addresses whose forwarding headers are believed.
	TrustedProxies []netip.Prefix
	// AllowUnauthenticated acknowledges that tenants without authentication are
	// served on an address that other machines can reach. Without it those of the
	// registry are refused there, as those of Tenants are by Validate.
	AllowUnauthenticated bool
	Egress               Egress
	Log                  Log
	Server               Server
	Limits               Limits
	Timeouts             Timeouts
	Cache                Cache
	Breaker              Breaker
	Tenants              []*tenant.Tenant
}

// Admin is the admin listener.
type Admin struct{ Listen string }

// Key is one key of the key ring.
type Key struct {
	ID     string
	Secret Secret
}

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level
	Format string // FormatText or FormatJSON
}

// Server holds the times of the MCP listener. 0 means the default.
type Server struct {
	HeaderTimeout time.Duration // until a request's headers are there; 10 s
	BodyTimeout   time.Duration // and then its body; 30 s
	IdleTimeout   time.Duration // until an unused connection is closed; 2 min
	WriteTimeout  time.Duration // for a client to take one event; 10 s
	KeepAlive     time.Duration // between comments on a silent event stream; 15 s
	DrainDelay    time.Duration // from not being ready to taking no more requests when the process ends; none
	ShutdownGrace time.Duration // for that and for requests under way; 25 s
}

// Limits bound what the process holds, and what a tenant may use that sets no
// limits of its own. 0 means the default.
type Limits struct {
	Header              int   // bytes of a request's headers; 64 KiB
	Body                int64 // bytes of a request's body; 4 MiB
	Message             int64 // bytes of one message of an upstream; 32 MiB
	Depth               int   // nesting of JSON; 256
	BufferedBytes       int64 // bytes of all messages together; from GOMEMLIMIT
	CacheBytes          int64 // bytes of cached answers; 64 MiB
	PageSize            int   // items of one page of a list; 1,000
	Pages               int   // pages of one upstream list; 1,000
	Items               int   // items of one upstream list; 20,000
	ListBytes           int   // bytes of all pages of one upstream list; 64 MiB
	Instructions        int   // bytes of one upstream's instructions; 4 KiB
	InFlight            int   // requests of one tenant at the same time; 2,000
	ListenStreams       int   // listen streams of one tenant; 1,000
	ListenQueue         int   // messages that wait for one listen stream; 64
	Watches             int   // resources, and tasks, of one listen stream; 5,000
	Streams             int   // listen streams of the process; 20,000
	StreamsPerPrincipal int   // and of one principal in it; 1,000
	Sessions            int   // sessions with one upstream of the handshake era; 1,000
	Processes           int   // and where it is a program; 32
	Parked              int   // calls of one upstream that wait for a user's answer; 1,000
	ParkedPerPrincipal  int   // and of one principal; 32
	ClientSessions      int   // sessions of clients whose settings are kept; 100,000
	Asking              int   // calls of the process whose clients are asked something; 10,000
	AskingPerPrincipal  int   // and of one principal; 1,000

	StreamLifetime time.Duration // of a listen stream; 12 h
	StateTTL       time.Duration // how long a requestState is good; 10 min
	Coalesce       time.Duration // bursts of notifications within it become one; 100 ms
	PollInterval   time.Duration // least time between polls of an upstream that cannot push; 30 s
	TenantIdle     time.Duration // a tenant that was not used for this long is unloaded; 15 min
	SessionIdle    time.Duration // a session with an upstream that was not used for this long is closed; 5 min
	ParkMax        time.Duration // how long a call waits for a user's answer; 5 min

	ClientSessionLifetime time.Duration // of a client's session; 24 h
}

// Timeouts are those of upstreams that set none of their own. 0 means the
// default.
type Timeouts struct {
	Connect    time.Duration // 2 s
	List       time.Duration // how long a caller waits for a list; 2 s
	Revalidate time.Duration // the same for a list with ttlMs 0; 250 ms
	Call       time.Duration // without progress; 60 s
	CallMax    time.Duration // of a call, progress or not; 10 min
	Idle       time.Duration // idle connections are dropped after it; 4 s
}

// Cache says how long answers of upstreams are used that set no times of their
// own. nil and 0 mean the default.
type Cache struct {
	ListTTL      *time.Duration // for lists without ttlMs; 60 s
	Stale        time.Duration  // an expired list is served this long while it is refreshed; 5 min
	StaleIfError time.Duration  // and this long when the upstream fails; 1 h
}

// Breaker is the circuit breaker of every upstream. 0 means the default.
type Breaker struct {
	Failures int           // in a row that open it; 5
	Open     time.Duration // until one request probes again; 5 s
}

// Default gives the configuration of an empty file: it serves no tenant.
func Default() *Config {
	return &Config{
		Listen:  DefaultListen,
		Admin:   Admin{Listen: DefaultAdminListen},
		DataDir: DefaultDataDir,
		Log:     Log{Level: slog.LevelInfo, Format: DefaultLogFormat},
	}
}

// Loader reads configurations.
type Loader struct {
	// LookupEnv gives variables of the environment, as os.LookupEnv does. nil
	// means that there are none.
	LookupEnv func(name string) (string, bool)
	// Flags are values from the command line by key, such as "listen"; empty
	// ones do not count. They are stronger than the environment, which is
	// stronger than the file.
	Flags map[string]string
	// Dir is the directory of the file, to which the directories of upstreams are
	// relative; empty means the working directory. Load sets it.
	Dir string
}

// Load reads the file at path with the process's environment.
func Load(path string) (*Config, error) { return Loader{LookupEnv: os.LookupEnv}.Load(path) }

// Parse reads data without any override.
func Parse(data []byte) (*Config, error) { return Loader{}.Parse(data) }

// Load reads the file at path. The error holds Faults when its content is
// wrong.
func (l Loader) Load(path string) (*Config, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	l.Dir = filepath.Dir(path)
	return l.Parse(data)
}

// Parse reads data as the content of a file. The error is Faults.
func (l Loader) Parse(data []byte) (*Config, error) {
	root, faults := parseTree(data)
	if len(faults) > 0 {
		return nil, faults
	}
	l.override(root)
	d := &decoder{}
	c := Default()
	d.config(root, c)
	consequence := d.faults.related()
	for _, f := range c.validate() {
		if consequence(f.Path) {
			continue
		}
		if n := root.find(f.Path); n != root {
			f.Line, f.Source = n.line, n.source
		}
		d.faults = append(d.faults, f)
	}
	if len(d.faults) > 0 {
		return nil, d.faults.sorted()
	}
	for _, t := range c.Tenants {
		for i := range t.Upstreams {
			c.complete(&t.Upstreams[i], l.Dir)
		}
	}
	return c, nil
}

// complete gives an upstream the times of the level above, and the digest of all
// that holds for it. dir is the directory of the file.
func (c *Config) complete(u *tenant.Upstream, dir string) {
	if p := u.Process; p != nil && p.Dir != "" && !filepath.IsAbs(p.Dir) {
		p.Dir = filepath.Join(dir, p.Dir)
	}
	u.Timeouts = tenant.Timeouts{
		Connect: cmp.Or(u.Timeouts.Connect, c.Timeouts.Connect),
		List:    cmp.Or(u.Timeouts.List, c.Timeouts.List),
		Call:    cmp.Or(u.Timeouts.Call, c.Timeouts.Call),
		CallMax: cmp.Or(u.Timeouts.CallMax, c.Timeouts.CallMax),
	}
	u.Cache = tenant.CacheTimes{
		ListTTL:      cmp.Or(u.Cache.ListTTL, c.Cache.ListTTL),
		Stale:        cmp.Or(u.Cache.Stale, c.Cache.Stale),
		StaleIfError: cmp.Or(u.Cache.StaleIfError, c.Cache.StaleIfError),
	}
	u.ManagedBy, u.Version = "file", u.Digest()
}

// ReadFile reads a file of at most MaxFileSize bytes.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(data) > MaxFileSize {
		return nil, fmt.Errorf("read configuration %s: %w", path, errFileSize)
	}
	return data, nil
}

var errFileSize = errors.New("the file is larger than 32 MiB")
