package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/causeway-mcp/causeway/cache/redis"
)

// RedisConnection gives how the Redis that replicas share is reached, with all that
// the configuration refers to. Redis must be set. lookupEnv is os.LookupEnv or nil.
// The error is Faults, which show no secret.
func (c *Config) RedisConnection(lookupEnv func(string) (string, bool)) (redis.Connection, error) {
	return c.Redis.resolve("redis", lookupEnv)
}

// StoreConnection is RedisConnection for a registry of the type StoreRedis.
func (c *Config) StoreConnection(lookupEnv func(string) (string, bool)) (redis.Connection, error) {
	return c.Store.resolve("store", lookupEnv)
}

// CheckConnections looks whether what the configuration of Redis refers to is there
// now. lookupEnv is os.LookupEnv or nil. The error is Faults, which show no value.
func (c *Config) CheckConnections(lookupEnv func(string) (string, bool)) error {
	var all Faults
	check := func(_ redis.Connection, err error) {
		var faults Faults
		if errors.As(err, &faults) {
			all = append(all, faults...)
		}
	}
	if c.StoreType() == StoreRedis {
		check(c.StoreConnection(lookupEnv))
	}
	if c.Redis != nil {
		check(c.RedisConnection(lookupEnv))
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// resolve reads what a Connection refers to. path is where it is.
func (c *Connection) resolve(path string, lookupEnv func(string) (string, bool)) (redis.Connection, error) {
	var faults Faults
	fault := func(key string, err error) {
		faults = append(faults, Fault{Path: path + "." + key, Message: err.Error()})
	}
	to := redis.Connection{URL: c.URL.Text, Mode: redis.Mode(c.Mode), Master: c.Master, Username: c.Username}
	if c.URL.From != (Secret{}) {
		value, err := c.URL.From.Value(lookupEnv)
		if err == nil {
			_, err = checkRedisURL(string(value), c)
		}
		if err != nil {
			fault("url", err)
		}
		to.URL = string(value)
	}
	if u, err := url.Parse(to.URL); err == nil { // else it was said
		// One of them may be in the URL and the other one not.
		inURL, _ := u.User.Password()
		to.Username = cmp.Or(to.Username, u.User.Username())
		to.Password = inURL
	}
	if c.Password != (Secret{}) {
		value, err := c.Password.Value(lookupEnv)
		if err != nil {
			fault("password", err)
		}
		to.Password = string(value)
	}
	if c.TLS != (TLS{}) {
		var err error
		if to.TLS, err = c.TLS.load(); err != nil {
			fault("tls", err)
		}
	}
	if len(faults) > 0 {
		return redis.Connection{}, faults
	}
	return to, nil
}

// load reads the files of a TLS client.
func (t *TLS) load() (*tls.Config, error) {
	conf := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("read ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("there is no certificate in %s", t.CA)
		}
	}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("read cert and key: %w", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}
