package config

import (
	"log/slog"
	"net/netip"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// isLater tells whether the key at path belongs to the design and not to this
// version yet, so that a file from the design's examples says what is missing
// instead of calling a right key unknown.
func isLater(path string) bool { return path == "admin.token" }

func (d *decoder) config(n *node, c *Config) {
	d.object(n, "", fields{
		"listen":               d.str(&c.Listen),
		"publicURL":            d.str(&c.PublicURL),
		"allowedOrigins":       d.strs(&c.AllowedOrigins),
		"allowUnauthenticated": d.boolean(&c.AllowUnauthenticated),
		"trustedProxies": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) {
				c.TrustedProxies = append(c.TrustedProxies, d.prefix(n, path))
			})
		},
		"admin": func(n *node, path string) {
			d.object(n, path, fields{"listen": d.str(&c.Admin.Listen)})
		},
		"egress": func(n *node, path string) { d.egress(n, path, &c.Egress) },
		"store":  func(n *node, path string) { d.store(n, path, c) },
		"redis": func(n *node, path string) {
			c.Redis = &Redis{}
			d.redis(n, path, c.Redis)
		},
		"peer": func(n *node, path string) {
			d.object(n, path, fields{"listen": d.str(&c.Peer.Listen), "address": d.str(&c.Peer.Address)})
		},
		"keys": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) {
				c.Keys = append(c.Keys, d.key(n, path))
			})
		},
		"log": func(n *node, path string) {
			d.object(n, path, fields{
				"level":  func(n *node, path string) { d.level(n, path, &c.Log.Level) },
				"format": d.str(&c.Log.Format),
			})
		},
		"server":   func(n *node, path string) { d.server(n, path, &c.Server) },
		"limits":   func(n *node, path string) { d.limits(n, path, &c.Limits) },
		"timeouts": func(n *node, path string) { d.timeouts(n, path, &c.Timeouts) },
		"cache": func(n *node, path string) {
			d.object(n, path, fields{
				"listTTL":      d.optional(&c.Cache.ListTTL),
				"stale":        d.duration(&c.Cache.Stale),
				"staleIfError": d.duration(&c.Cache.StaleIfError),
			})
		},
		"breaker": func(n *node, path string) {
			d.object(n, path, fields{
				"failures": d.count(&c.Breaker.Failures),
				"open":     d.duration(&c.Breaker.Open),
			})
		},
		"tenants": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) {
				c.Tenants = append(c.Tenants, d.tenant(n, path))
			})
		},
	})
}

func (d *decoder) server(n *node, path string, s *Server) {
	d.object(n, path, fields{
		"headerTimeout": d.duration(&s.HeaderTimeout),
		"bodyTimeout":   d.duration(&s.BodyTimeout),
		"idleTimeout":   d.duration(&s.IdleTimeout),
		"writeTimeout":  d.duration(&s.WriteTimeout),
		"keepAlive":     d.duration(&s.KeepAlive),
		"drainDelay":    d.duration(&s.DrainDelay),
		"shutdownGrace": d.duration(&s.ShutdownGrace),
	})
}

func (d *decoder) limits(n *node, path string, l *Limits) {
	d.object(n, path, fields{
		"header":              d.smallSize(&l.Header),
		"streams":             d.count(&l.Streams),
		"streamsPerPrincipal": d.count(&l.StreamsPerPrincipal),
		"body":                d.size(&l.Body),
		"message":             d.size(&l.Message),
		"depth":               d.count(&l.Depth),
		"bufferedBytes":       d.size(&l.BufferedBytes),
		"cacheBytes":          d.size(&l.CacheBytes),
		"pageSize":            d.count(&l.PageSize),
		"pages":               d.count(&l.Pages),
		"items":               d.count(&l.Items),
		"listBytes":           d.smallSize(&l.ListBytes),
		"instructions":        d.smallSize(&l.Instructions),
		"inFlight":            d.count(&l.InFlight),
		"listenStreams":       d.count(&l.ListenStreams),
		"listenQueue":         d.count(&l.ListenQueue),
		"watches":             d.count(&l.Watches),
		"streamLifetime":      d.duration(&l.StreamLifetime),
		"stateTTL":            d.duration(&l.StateTTL),
		"coalesce":            d.duration(&l.Coalesce),
		"pollInterval":        d.duration(&l.PollInterval),
		"tenantIdle":          d.duration(&l.TenantIdle),
		"sessions":            d.count(&l.Sessions),
		"processes":           d.count(&l.Processes),
		"sessionIdle":         d.duration(&l.SessionIdle),
		"parkMax":             d.duration(&l.ParkMax),
		"parked":              d.count(&l.Parked),
		"parkedPerPrincipal":  d.count(&l.ParkedPerPrincipal),
		"clientSessions":      d.count(&l.ClientSessions),
		"asking":              d.count(&l.Asking),
		"askingPerPrincipal":  d.count(&l.AskingPerPrincipal),

		"clientSessionLifetime": d.duration(&l.ClientSessionLifetime),
	})
}

func (d *decoder) timeouts(n *node, path string, t *Timeouts) {
	d.object(n, path, fields{
		"connect":    d.duration(&t.Connect),
		"list":       d.duration(&t.List),
		"revalidate": d.duration(&t.Revalidate),
		"call":       d.duration(&t.Call),
		"callMax":    d.duration(&t.CallMax),
		"idle":       d.duration(&t.Idle),
	})
}

func (d *decoder) tenant(n *node, path string) *tenant.Tenant {
	t := &tenant.Tenant{Separator: "_"}
	d.object(n, path, fields{
		"name":      d.str(&t.Name),
		"separator": d.str(&t.Separator),
		"pageSize":  d.count(&t.PageSize),
		"auth":      d.auth(&t.Auth),
		"limits": func(n *node, path string) {
			d.object(n, path, fields{
				"callsPerMinute": d.count(&t.Limits.CallsPerMinute),
				"inFlight":       d.count(&t.Limits.InFlight),
				"listenStreams":  d.count(&t.Limits.ListenStreams),
				"principal":      func(n *node, path string) { d.object(n, path, d.quota(&t.Limits.Principal)) },
			})
		},
		"discovery": d.discovery(&t.Discovery),
		"policy":    d.policy(&t.Policy),
		"toolsets": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) { t.Toolsets = append(t.Toolsets, d.toolset(n, path)) })
		},
		"hosts": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) { t.Hosts = append(t.Hosts, d.host(n, path)) })
		},
		"upstreams": func(n *node, path string) {
			d.list(n, path, func(n *node, path string) {
				t.Upstreams = append(t.Upstreams, d.upstream(n, path))
			})
		},
	})
	return t
}

// prefix reads an address or a network in CIDR form.
func (d *decoder) prefix(n *node, path string) netip.Prefix {
	if !d.is(n, path, kindString, "a string") {
		return netip.Prefix{}
	}
	if addr, err := netip.ParseAddr(n.text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen())
	}
	p, err := netip.ParsePrefix(n.text)
	if err != nil {
		d.fault(n, path, "%q must be an address such as 10.1.2.3 or a network such as 10.0.0.0/8", n.text)
		return netip.Prefix{}
	}
	return p.Masked()
}

// level reads one of the four levels of the log.
func (d *decoder) level(n *node, path string, to *slog.Level) {
	if !d.is(n, path, kindString, "a string") {
		return
	}
	switch strings.ToLower(n.text) {
	case "debug", "info", "warn", "error":
		if err := to.UnmarshalText([]byte(n.text)); err == nil {
			return
		}
	}
	d.fault(n, path, "%q must be debug, info, warn or error", n.text)
}

// key reads one key of the ring.
func (d *decoder) key(n *node, path string) Key {
	var k Key
	d.object(n, path, fields{"id": d.str(&k.ID), "secret": d.secret(&k.Secret)})
	return k
}

// secret reads a reference: a literal is refused, and never shown.
func (d *decoder) secret(to *Secret) func(n *node, path string) {
	return func(n *node, path string) {
		if n.kind != kindMap {
			d.fault(n, path, "must be a reference, {env: NAME} or {file: path}, and never the secret itself")
			return
		}
		d.object(n, path, fields{"env": d.str(&to.Env), "file": d.str(&to.File)})
	}
}
