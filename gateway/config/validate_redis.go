package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/cache/redis"
)

// maxRedisTimeout bounds what a typing mistake could make harmful: each request
// may wait for Redis so long.
const maxRedisTimeout = 5 * time.Second

// store checks where the registry is.
func (v *checker) store(c *Config) {
	s := &c.Store
	switch s.Type {
	case StoreRedis:
		v.connection("store", &s.Connection)
		v.prefix("store.prefix", s.Prefix)
		v.commonKeys(c)
		return
	case StoreFile:
		if c.Redis != nil {
			v.fault("store.type", "several replicas, which redis is for, cannot share a file: use redis, or memory")
		}
	case "", StoreMemory:
	default:
		v.fault("store.type", "%q must be memory, file or redis", s.Type)
		return
	}
	eachField("store.", Store{Type: s.Type}, *s, func(key string, none, set any) {
		if none != set {
			v.fault(key, "is for a store of type redis")
		}
	})
}

// redis checks what the replicas share.
func (v *checker) redis(c *Config) {
	r := c.Redis
	if r == nil {
		return
	}
	v.connection("redis", &r.Connection)
	v.prefix("redis.prefix", r.Prefix)
	if r.Timeout < 0 || r.Timeout > maxRedisTimeout {
		v.fault("redis.timeout", "%s must be more than 0 and at most %s", r.Timeout, maxRedisTimeout)
	}
	switch r.Limits {
	case "", LimitsOpen, LimitsClosed:
	default:
		v.fault("redis.limits", "%q must be open or closed", r.Limits)
	}
	if c.Store.Type != StoreRedis { // where it was said
		v.commonKeys(c)
	}
}

// commonKeys wants keys that all processes have: one that each makes for itself
// would open nothing that another one sealed.
func (v *checker) commonKeys(c *Config) {
	if len(c.Keys) == 0 {
		v.fault("keys", "at least one is required with redis: what one replica seals, the others have to open")
	}
}

// connection checks how a Redis is reached.
func (v *checker) connection(path string, c *Connection) {
	switch redis.Mode(c.Mode) {
	case "", redis.ModeStandalone, redis.ModeCluster, redis.ModeSentinel:
	default:
		v.fault(path+".mode", "%q must be standalone, cluster or sentinel", c.Mode)
	}
	switch sentinel := redis.Mode(c.Mode) == redis.ModeSentinel; {
	case sentinel && c.Master == "":
		v.fault(path+".master", "is required with mode: sentinel")
	case !sentinel && c.Master != "":
		v.fault(path+".master", "is for mode: sentinel")
	}
	if from := c.URL.From; c.URL.Text == "" || from != (Secret{}) {
		if c.URL.Text == "" && from == (Secret{}) {
			v.fault(path+".url", "is required")
		} else {
			v.reference(path+".url", from)
		}
	} else if u, err := checkRedisURL(c.URL.Text, c); err != nil {
		v.fault(path+".url", "%v", err)
	} else if _, literal := u.User.Password(); literal {
		v.fault(path+".url", "must not hold a password: make the url a reference, {env: NAME} or {file: path}, or set password")
	}
	if c.Password != (Secret{}) {
		v.reference(path+".password", c.Password)
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		v.fault(path+".tls", "cert and key belong together")
	}
}

// reference checks that a reference names one thing.
func (v *checker) reference(path string, s Secret) {
	if (s.Env == "") == (s.File == "") {
		v.fault(path, "must be a reference: either {env: NAME} or {file: path}")
	}
}

// prefix checks what keys in Redis begin with. Braces would be a hash tag.
func (v *checker) prefix(path, s string) {
	if s != "" && !matches(s, 64, false, "._:-") {
		v.fault(path, "%q must match ^[A-Za-z0-9._:-]{1,64}$", s)
	}
}

// checkRedisURL checks the URL of a Redis. Errors do not show it, as it may hold a
// password.
func checkRedisURL(s string, c *Connection) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || !validHost(u) || u.Fragment != "" {
		return nil, errors.New("must be a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS")
	}
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		n, err := strconv.ParseUint(db, 10, 16)
		if err != nil {
			return nil, errors.New("must end with the number of a database, or nothing")
		}
		if n > 0 && redis.Mode(c.Mode) == redis.ModeCluster {
			return nil, errors.New("a cluster has database 0 only")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("must have a query such as addr=10.0.0.2:6379")
	}
	for key, addresses := range query {
		if key != "addr" {
			return nil, errors.New("addr is all that its query may hold: user, password and TLS have keys of their own")
		}
		if mode := redis.Mode(c.Mode); mode != redis.ModeCluster && mode != redis.ModeSentinel {
			return nil, errors.New("addr is for mode: cluster and mode: sentinel")
		}
		for _, a := range addresses {
			if !isDialable(a) {
				return nil, errors.New("each addr must be host:port, such as 10.0.0.2:6379")
			}
		}
	}
	if c.TLS != (TLS{}) && u.Scheme != "rediss" {
		return nil, errors.New("must begin with rediss:// where tls is set")
	}
	return u, nil
}

// peer checks how replicas reach one another.
func (v *checker) peer(c *Config) {
	if c.Redis == nil {
		eachField("peer.", Peer{}, c.Peer, func(key string, none, set any) {
			if none != set {
				v.fault(key, "is for several replicas, which need redis")
			}
		})
		return
	}
	listen := c.PeerListen()
	if listen != "" {
		v.address("peer.listen", listen)
	} else if _, _, err := net.SplitHostPort(c.Listen); err == nil {
		v.fault("peer.listen", "is required, as listen is not on a loopback address: how do other replicas reach this one?")
	}
	for _, other := range []struct{ key, address string }{{"listen", c.Listen}, {"admin.listen", c.Admin.Listen}} {
		if listen == other.address && listen != "" && !strings.HasSuffix(listen, ":0") {
			v.fault("peer.listen", "%q is the address of %s too", listen, other.key)
		}
	}
	if c.Peer.Address != "" {
		if !isDialable(c.Peer.Address) {
			v.fault("peer.address", "%q must be the host:port at which other replicas reach this one", c.Peer.Address)
		}
	} else if host, _, err := net.SplitHostPort(listen); err == nil && isUnspecified(host) {
		v.fault("peer.address", "is required, as peer.listen stands for all addresses: which one do other replicas use?")
	}
}

// isDialable tells whether s is the host:port of one listener.
func isDialable(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || isUnspecified(host) || strings.ContainsAny(host, " \x00/@") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// isUnspecified tells whether a host stands for all addresses of a machine.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}
