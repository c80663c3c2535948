package config

import "time"

// Back ends of the registry.
const (
	StoreMemory = "memory" // gone with the process
	StoreFile   = "file"   // a file in DataDir, for one process
	StoreRedis  = "redis"
)

// Choices of Redis.Limits.
const (
	LimitsOpen   = "open"   // each replica enforces the limits alone
	LimitsClosed = "closed" // calls that a limit bounds are refused
)

// URL is a URL of a Redis: its text, which holds no password, or a reference to it.
type URL struct {
	Text string
	From Secret
}

// Connection says how a Redis is reached.
type Connection struct {
	URL      URL
	Mode     string // standalone or empty, cluster, sentinel
	Master   string // by which Sentinels know the primary
	Username string
	Password Secret // none when it is the zero Secret
	TLS      TLS
}

// TLS names the files of a TLS client, relative to the working directory. Empty
// fields mean the system's roots, no certificate of one's own and the name in the
// URL.
type TLS struct{ CA, Cert, Key, ServerName string }

// Redis is what the replicas share. Empty fields mean the default.
type Redis struct {
	Connection
	Prefix  string        // before all keys and channels; causeway
	Timeout time.Duration // that one operation may keep a request waiting; 25 ms
	Limits  string        // what quotas do while Redis fails; LimitsOpen
}

// Peer says how replicas reach one another.
type Peer struct {
	Listen  string // host:port; Config.PeerListen gives the default
	Address string // host:port that the others are told; empty for the listener's own
}

// Store says where what is registered is kept, besides the tenants of the file.
type Store struct {
	Type string // StoreMemory, StoreFile or StoreRedis; Config.StoreType gives the default
	// The others are those of StoreRedis.
	Connection
	Prefix string // before all keys and channels; causeway
	// AllowVolatile acknowledges that this Redis may lose what is registered.
	AllowVolatile bool
}

// StoreType gives the back end of the registry: the one that is set, else a file,
// or memory where there may be several replicas, which cannot share a file.
func (c *Config) StoreType() string {
	switch {
	case c.Store.Type != "":
		return c.Store.Type
	case c.Redis != nil:
		return StoreMemory
	default:
		return StoreFile
	}
}

// PeerListen gives the address at which other replicas reach this one: the one
// that is set, else a free port of the loopback address where clients come from
// this machine only. Empty where it has to be set.
func (c *Config) PeerListen() string {
	if c.Peer.Listen == "" && IsLoopback(c.Listen) {
		return "127.0.0.1:0"
	}
	return c.Peer.Listen
}
