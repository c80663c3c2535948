package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// What a client may take.
const (
	dialTimeout  = time.Second // goes on in the background when who wanted it has given up
	idleTimeout  = 5 * time.Minute
	poolPerCPU   = 16 // connections to a node, those that wait for an answer
	minPool      = 64
	maxDials     = 8 // at the same time, so that a Redis that comes again is not overrun
	maxRedirects = 3 // within a cluster whose slots move
)

// Default ports, of Redis and of Sentinels.
const (
	redisPort    = "6379"
	sentinelPort = "26379"
)

// Dial makes a client of a Redis. It does not connect yet. Errors never hold a
// password, nor other parts of the URL. timeout bounds one operation, whose context
// may bound it further. Nothing that has failed is tried again, except where a
// node of a cluster tells that another one has the slot.
func Dial(c Connection, timeout time.Duration) (goredis.UniversalClient, error) {
	opts, err := c.options(timeout)
	if err != nil {
		return nil, err
	}
	// It prints each failed connection to standard error, and we tell of them once.
	logging.Disable()
	switch c.Mode {
	case ModeCluster:
		cluster := opts.Cluster()
		cluster.DisableRoutingPolicies = true // for them it asks for COMMAND, whatever a context says
		return goredis.NewClusterClient(cluster), nil
	case ModeSentinel:
		return goredis.NewFailoverClient(opts.Failover()), nil
	default:
		return goredis.NewClient(opts.Simple()), nil
	}
}

// options reads the connection.
func (c Connection) options(timeout time.Duration) (*goredis.UniversalOptions, error) {
	o := &goredis.UniversalOptions{
		Protocol:                 2, // 3 is for notifications that we do not want
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		ContextTimeoutEnabled: true,
		ReadTimeout:           timeout,
		WriteTimeout:          timeout,
		PoolTimeout:           timeout,
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		MaxRetries:            -1,
		MaxRedirects:          maxRedirects,

		PoolSize:           max(minPool, poolPerCPU*runtime.GOMAXPROCS(0)),
		MaxIdleConns:       minPool,
		MaxConcurrentDials: maxDials,
		ConnMaxIdleTime:    idleTimeout,
	}
	if err := c.parseURL(o); err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	if c.Username != "" || c.Password != "" {
		o.Username, o.Password = c.Username, c.Password
	}
	switch c.Mode {
	case "", ModeStandalone:
		if len(o.Addrs) > 1 {
			return nil, errors.New("redis URL: several nodes are for the modes cluster and sentinel")
		}
	case ModeCluster:
		if o.DB != 0 {
			return nil, errors.New("redis URL: a cluster has no database but 0")
		}
	case ModeSentinel:
		if c.Master == "" {
			return nil, errors.New("redis: sentinels need the name of a master")
		}
		o.MasterName = c.Master
	default:
		return nil, fmt.Errorf("redis: unknown mode %q", c.Mode)
	}
	return o, nil
}

// parseURL reads the URL. It says what is wrong without quoting, since what is
// wrong may be, or hold, the password.
func (c Connection) parseURL(o *goredis.UniversalOptions) error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return errors.New("it cannot be read as a URL") // the cause quotes what may be the password
	}
	switch u.Scheme {
	case "redis":
		if c.TLS != nil {
			return errors.New("TLS is set, which is for rediss://")
		}
	case "rediss":
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if c.TLS != nil {
			o.TLSConfig = c.TLS.Clone()
		}
	default:
		return errors.New("it must begin with redis:// or rediss://")
	}
	if u.Host == "" || u.Opaque != "" || u.Fragment != "" {
		return errors.New("it must have the form redis://host:port/database")
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return errors.New("the database must be a number")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("its parameters cannot be read") // likewise
	}
	port := redisPort
	if c.Mode == ModeSentinel {
		port = sentinelPort
	}
	for _, addr := range append([]string{u.Host}, query["addr"]...) {
		if addr, err = withPort(addr, port); err != nil {
			return err
		}
		o.Addrs = append(o.Addrs, addr)
	}
	if delete(query, "addr"); len(query) > 0 {
		return errors.New("addr is the only parameter it may have")
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	return nil
}

// withPort adds a port to an address without one.
func withPort(addr, port string) (string, error) {
	u, err := url.Parse("redis://" + addr)
	if err != nil || u.Host != addr || u.Hostname() == "" {
		return "", errors.New("a node must have the form host:port")
	}
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
