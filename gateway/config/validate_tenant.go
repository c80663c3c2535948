package config

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

func (v *checker) tenants(c *Config) {
	first := make(map[string]int, len(c.Tenants))
	for i, t := range c.Tenants {
		path := fmt.Sprintf("tenants[%d]", i)
		if j, double := first[t.Name]; t.Name == "" {
			v.fault(path+".name", "is required")
		} else if !isTenantName(t.Name) {
			v.fault(path+".name", "%q must match ^[a-z0-9][a-z0-9-]{0,62}$", t.Name)
		} else if double {
			v.fault(path+".name", "%q is the name of tenants[%d] too", t.Name, j)
		} else {
			first[t.Name] = i
		}
		if t.Separator != "_" && t.Separator != "__" {
			v.fault(path+".separator", `%q must be "_" or "__"`, t.Separator)
		}
		if t.PageSize > maxPageSize {
			v.fault(path+".pageSize", "%d must be at most %d", t.PageSize, maxPageSize)
		}
		v.auth(path+".auth", t, c)
		for _, f := range t.Discovery.Check() {
			v.fault(path+".discovery."+f.Path, "%s", f.Message)
		}
		aliases := make(map[string]int, len(t.Upstreams))
		for j := range t.Upstreams {
			v.upstream(fmt.Sprintf("%s.upstreams[%d]", path, j), &t.Upstreams[j], j, aliases, c)
		}
	}
}

// isTenantName tells whether s matches ^[a-z0-9][a-z0-9-]{0,62}$.
func isTenantName(s string) bool { return matches(s, 63, true, "-") && s[0] != '-' }

// isAlias tells whether s matches ^[a-z][a-z0-9]{0,19}$.
func isAlias(s string) bool { return matches(s, 20, true, "") && s[0] >= 'a' }

// isReserved tells whether an alias would collide with the gateway's own tool
// names, or make URI schemes (alias+scheme) that mean something elsewhere.
func isReserved(alias string) bool {
	return slices.Contains([]string{"search", "call", "get", "list", "git", "svn", "hg", "bzr"}, alias)
}

// upstream checks the upstream with that index; aliases are those of the ones
// before it.
func (v *checker) upstream(path string, u *tenant.Upstream, index int, aliases map[string]int, c *Config) {
	if j, double := aliases[u.Alias]; u.Alias == "" {
		v.fault(path+".alias", "is required")
	} else if !isAlias(u.Alias) {
		v.fault(path+".alias", "%q must match ^[a-z][a-z0-9]{0,19}$", u.Alias)
	} else if isReserved(u.Alias) {
		v.fault(path+".alias", "%q is reserved", u.Alias)
	} else if double {
		v.fault(path+".alias", "%q is the alias of upstreams[%d] too", u.Alias, j)
	} else {
		aliases[u.Alias] = index
	}
	v.reach(path, u)
	if u.Prefix != tenant.PrefixAlias && u.Prefix != tenant.PrefixNone {
		v.fault(path+".prefix", "%q must be alias or none", u.Prefix)
	}
	for i, tag := range u.Tags {
		at := fmt.Sprintf("%s.tags[%d]", path, i)
		if !matches(tag, 63, false, "._:/-") {
			v.fault(at, "%q must match ^[A-Za-z0-9._:/-]{1,63}$", tag)
		} else if slices.Contains(u.Tags[:i], tag) {
			v.fault(at, "%q is there twice", tag)
		}
	}
	for i, name := range u.ForwardHeaders {
		v.forwardHeader(fmt.Sprintf("%s.forwardHeaders[%d]", path, i), name)
	}
	v.callTimes(path+".timeouts", u.Timeouts.Call, u.Timeouts.CallMax,
		cmp.Or(c.Timeouts.Call, upstream.DefaultCallTimeout), cmp.Or(c.Timeouts.CallMax, upstream.DefaultCallMax))
}

// upstreamURL checks the URL of an upstream. Messages do not show it where it
// may hold a password.
func (v *checker) upstreamURL(path, s string) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		v.fault(path, "is required, or command in its place")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validHost(u):
		v.fault(path, "must be an http or https URL such as http://127.0.0.1:7001/mcp")
	case u.User != nil:
		v.fault(path, "must not hold a user or password")
	case u.Fragment != "" || strings.Contains(s, "#"):
		v.fault(path, "must not have a fragment")
	}
}

// callTimes checks that a call may last at least as long as it may be silent.
func (v *checker) callTimes(path string, call, callMax, defaultCall, defaultMax time.Duration) {
	if call == 0 && callMax == 0 {
		return // both are those of the level above, which was checked
	}
	if silent, most := cmp.Or(call, defaultCall), cmp.Or(callMax, defaultMax); silent > most {
		key := path + ".call"
		if call == 0 {
			key = path + ".callMax"
		}
		v.fault(key, "call (%s) must not be longer than callMax (%s)", silent, most)
	}
}

func (v *checker) forwardHeader(path, name string) {
	if !matches(name, 256, false, "!#$%&'*+-.^_`|~") {
		v.fault(path, "%q is not a header name", name)
	} else if !mayForward(http.CanonicalHeaderKey(name)) {
		v.fault(path, "%q is made anew by the gateway and cannot be forwarded", name)
	}
}

// mayForward tells whether a request header, in canonical form, may pass through
// to an upstream. Those that belong to one hop (RFC 9110, 7.6.1; basic/transports/
// streamable-http), carry the client's credentials or tell where it came from may
// not.
func mayForward(name string) bool {
	for _, prefix := range []string{"Mcp-", "Proxy-", "X-Forwarded-", "Sec-", "Content-", "If-", "Access-Control-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return !slices.Contains([]string{
		"Accept", "Accept-Encoding", "Authorization", "Baggage", "Connection", "Cookie", "Cookie2", "Date",
		"Expect", "Forwarded", "Host", "Keep-Alive", "Last-Event-Id", "Origin", "Range", "Referer", "Set-Cookie",
		"Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "Via", "X-Real-Ip",
	}, name)
}
