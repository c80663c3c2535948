package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/federation/policy"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

// tenants checks each tenant as a registry does, and what only the whole file tells.
func (v *checker) tenants(c *Config) {
	first := make(map[string]int, len(c.Tenants))
	for i, t := range c.Tenants {
		path := fmt.Sprintf("tenants[%d]", i)
		v.tenant(path, t, c)
		if j, double := first[t.Name]; double && t.Name != "" {
			v.fault(path+".name", "%q is the name of tenants[%d] too", t.Name, j)
		} else {
			first[t.Name] = i
		}
	}
	v.hosts(c)
}

// tenant checks the tenant at path.
func (v *checker) tenant(path string, t *tenant.Tenant, c *Config) {
	before := len(v.faults)
	for _, f := range faultsOf(tenant.Validate(filed(t))) {
		at, message := inFile(t, f)
		v.fault(path+"."+at, "%s", message)
	}
	if t.Auth.Mode == tenant.AuthOAuth && c.PublicURL == "" {
		v.fault(path+".auth.mode", "oauth needs publicURL: access tokens are for a resource below it")
	}
	for i := range t.Upstreams {
		if t.Upstreams[i].Auth.Mode == tenant.CredentialUser && !keepsCookies(c.PublicURL) {
			v.fault(fmt.Sprintf("%s.upstreams[%d].auth.mode", path, i), "user_oauth needs a publicURL that is an https one, or of this machine: users sign in there")
		}
		own := t.Upstreams[i].Timeouts
		if own.Call > 0 && own.CallMax > 0 {
			continue // which was checked
		}
		v.callTimes(fmt.Sprintf("%s.upstreams[%d].timeouts", path, i), own.Call, own.CallMax,
			cmp.Or(c.Timeouts.Call, upstream.DefaultCallTimeout), cmp.Or(c.Timeouts.CallMax, upstream.DefaultCallMax))
	}
	consequence := v.faults[before:].related()
	for _, f := range faultsOf(CheckPolicy(t)) {
		if at := path + "." + f.Path; !consequence(at) {
			v.fault(at, "%s", f.Message)
		}
	}
}

// keepsCookies tells whether browsers keep what a URL's site gives them to it; so does
// none at all, which is told elsewhere.
func keepsCookies(publicURL string) bool {
	u, err := url.Parse(publicURL)
	return err != nil || u.Scheme != "http" || IsLoopback(net.JoinHostPort(u.Hostname(), "0"))
}

// CheckPolicy tells what is wrong with the expressions of a tenant's policy and
// toolsets, which registries do not look at: whoever writes one has to ask. The error is
// tenant.Faults, with paths such as policy.rules[1].when.
func CheckPolicy(t *tenant.Tenant) error {
	_, err := policy.Compile(t)
	return err
}

// faultsOf gives the faults of an error; none of nil.
func faultsOf(err error) tenant.Faults {
	var faults tenant.Faults
	if err != nil && !errors.As(err, &faults) {
		faults = tenant.Faults{{Message: err.Error()}}
	}
	return faults
}

// filed gives a copy of a tenant that says who keeps it.
func filed(t *tenant.Tenant) *tenant.Tenant {
	t = new(*t)
	t.ManagedBy = tenant.ManagedByFile
	t.Upstreams = slices.Clone(t.Upstreams)
	for i := range t.Upstreams {
		t.Upstreams[i].ManagedBy = tenant.ManagedByFile
	}
	return t
}

// inFile puts a fault of a tenant into the words of the file, where some things have
// other places than in a registration.
func inFile(t *tenant.Tenant, f tenant.Fault) (path, message string) {
	i, at, ok := element(f.Path, "upstreams")
	if !ok {
		return f.Path, f.Message
	}
	u, message := &t.Upstreams[i], f.Message
	switch {
	case at == "url" && u.URL == "":
		message = "is required, or command in its place"
	case at == "process":
		at, message = "command", "command, env and dir are for an upstream without a url"
	case strings.HasPrefix(at, "process."):
		at = strings.TrimPrefix(at, "process.")
		if j, _, ok := element(at, "env"); ok {
			at = join("env", u.Process.Env[j].Name)
		}
	case strings.HasPrefix(at, "sessions."):
		at = sessionKey(strings.TrimPrefix(at, "sessions."))
	default:
		if j, _, ok := element(at, "auth.headers"); ok {
			at = join("auth.headers", u.Auth.Headers[j].Name)
		}
	}
	return fmt.Sprintf("upstreams[%d].%s", i, at), message
}

// element splits the path of something in an element of a list.
func element(path, list string) (index int, rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, list+"[")
	if !ok {
		return 0, "", false
	}
	number, rest, ok := strings.Cut(rest, "].")
	index, err := strconv.Atoi(number)
	return index, rest, ok && err == nil
}

// sessionKey gives the key of a field of tenant.Sessions.
func sessionKey(field string) string {
	switch field {
	case "max":
		field = "sessions"
	case "idle":
		field = "sessionIdle"
	}
	return "limits." + field
}

// hosts checks that each host name leads to one tenant.
func (v *checker) hosts(c *Config) {
	public := ""
	if u, err := url.Parse(c.PublicURL); err == nil {
		public = strings.ToLower(u.Hostname())
	}
	first := map[string]int{}
	for i, t := range c.Tenants {
		for k, h := range t.Hosts {
			path := fmt.Sprintf("tenants[%d].hosts[%d].name", i, k)
			switch j, there := first[h.Name]; {
			case h.Name == "":
			case h.Name == public:
				v.fault(path, "%q is the host of publicURL, which leads to all tenants", h.Name)
			case !there:
				first[h.Name] = i
			case j != i:
				v.fault(path, "%q is a name of tenants[%d] too", h.Name, j)
			}
		}
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
