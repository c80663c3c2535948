package config

import (
	"slices"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

func (d *decoder) upstream(n *node, path string) tenant.Upstream {
	u := tenant.Upstream{Prefix: tenant.PrefixAlias}
	var process tenant.Process
	d.object(n, path, fields{
		"alias":          d.str(&u.Alias),
		"url":            d.str(&u.URL),
		"command":        d.strs(&process.Command),
		"env":            func(n *node, path string) { process.Env = d.variables(n, path) },
		"dir":            d.str(&process.Dir),
		"era":            d.str(&u.Era),
		"sessions":       func(n *node, path string) { d.sharing(n, path, &u.Sessions.Shared) },
		"prefix":         d.str((*string)(&u.Prefix)),
		"description":    d.str(&u.Description),
		"tags":           d.strs(&u.Tags),
		"forwardHeaders": d.strs(&u.ForwardHeaders),
		"auth":           d.credential(&u.Auth),
		"pinning":        d.str((*string)(&u.Pinning)),
		"pins":           d.pins(&u.Pins),
		"inFlight":       d.count(&u.InFlight),
		"limits": func(n *node, path string) {
			d.object(n, path, fields{
				"callsPerMinute":     d.count(&u.Limits.CallsPerMinute),
				"inFlight":           d.count(&u.Limits.InFlight),
				"sessions":           d.count(&u.Sessions.Max),
				"sessionIdle":        d.duration(&u.Sessions.Idle),
				"parkMax":            d.duration(&u.Sessions.ParkMax),
				"parked":             d.count(&u.Sessions.Parked),
				"parkedPerPrincipal": d.count(&u.Sessions.ParkedPerPrincipal),
			})
		},
		"timeouts": func(n *node, path string) {
			d.object(n, path, fields{
				"connect": d.duration(&u.Timeouts.Connect),
				"list":    d.duration(&u.Timeouts.List),
				"call":    d.duration(&u.Timeouts.Call),
				"callMax": d.duration(&u.Timeouts.CallMax),
			})
		},
		"cache": func(n *node, path string) {
			d.object(n, path, fields{
				"listTTL":      d.optional(&u.Cache.ListTTL),
				"stale":        d.duration(&u.Cache.Stale),
				"staleIfError": d.duration(&u.Cache.StaleIfError),
			})
		},
	})
	if n.kind == kindMap && hasAny(n, "command", "env", "dir") {
		u.Process = &process
	}
	return u
}

// hasAny tells whether a mapping has a value for one of the keys.
func hasAny(n *node, keys ...string) bool {
	return slices.ContainsFunc(n.entries, func(e entry) bool {
		return e.value.kind != kindNull && slices.Contains(keys, e.key)
	})
}

// sharing reads who shares the sessions with an upstream.
func (d *decoder) sharing(n *node, path string, shared *bool) {
	var who string
	d.str(&who)(n, path)
	switch who {
	case "shared":
		*shared = true
	case "perPrincipal":
	default:
		if n.kind == kindString {
			d.fault(n, path, "%q must be perPrincipal or shared", who)
		}
	}
}

// variables reads the environment of a process: for each name a value or a
// reference. They are sorted by name, so that their order in the file means
// nothing. Faults never show a value.
func (d *decoder) variables(n *node, path string) []tenant.Variable {
	var list []tenant.Variable
	d.each(n, path, func(name string, n *node, path string) {
		v := tenant.Variable{Name: name}
		if n.kind == kindMap {
			before := len(d.faults)
			d.object(n, path, fields{"env": d.str(&v.FromEnv), "file": d.str(&v.FromFile)})
			if len(d.faults) == before && (v.FromEnv == "") == (v.FromFile == "") {
				d.fault(n, path, "must be a value, or a reference: either {env: NAME} or {file: path}")
			}
		} else {
			d.str(&v.Value)(n, path)
		}
		list = append(list, v)
	})
	slices.SortFunc(list, func(a, b tenant.Variable) int { return strings.Compare(a.Name, b.Name) })
	return list
}
