package config

import (
	"maps"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

func (d *decoder) store(n *node, path string, c *Config) {
	known := d.connection(&c.Store.Connection)
	maps.Copy(known, fields{
		"type":          d.str(&c.Store.Type),
		"dataDir":       d.str(&c.DataDir),
		"prefix":        d.str(&c.Store.Prefix),
		"allowVolatile": d.boolean(&c.Store.AllowVolatile),
	})
	d.object(n, path, known)
}

func (d *decoder) redis(n *node, path string, r *Redis) {
	known := d.connection(&r.Connection)
	maps.Copy(known, fields{
		"prefix":  d.str(&r.Prefix),
		"timeout": d.duration(&r.Timeout),
		"limits":  d.str(&r.Limits),
	})
	d.object(n, path, known)
}

// connection gives the keys that say how a Redis is reached.
func (d *decoder) connection(c *Connection) fields {
	return fields{
		"url": func(n *node, path string) {
			if n.kind == kindMap {
				d.secret(&c.URL.From)(n, path)
				return
			}
			d.str(&c.URL.Text)(n, path)
		},
		"mode":     d.str(&c.Mode),
		"master":   d.str(&c.Master),
		"username": d.str(&c.Username),
		"password": d.secret(&c.Password),
		"tls": func(n *node, path string) {
			d.object(n, path, fields{
				"ca":         d.str(&c.TLS.CA),
				"cert":       d.str(&c.TLS.Cert),
				"key":        d.str(&c.TLS.Key),
				"serverName": d.str(&c.TLS.ServerName),
			})
		},
	}
}

// quota gives the keys of a Quota.
func (d *decoder) quota(q *tenant.Quota) fields {
	return fields{"callsPerMinute": d.count(&q.CallsPerMinute), "inFlight": d.count(&q.InFlight)}
}
