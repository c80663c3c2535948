package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
)

// DefaultShutdownGrace is what server.shutdownGrace is where it is not set.
const DefaultShutdownGrace = 25 * time.Second

// Validate checks what the values mean, for a Config that was not read from a
// file. The error is Faults.
func (c *Config) Validate() error {
	if faults := c.validate(); len(faults) > 0 {
		return faults.sorted()
	}
	return nil
}

// checker collects faults; Parse adds their lines.
type checker struct{ faults Faults }

func (v *checker) fault(path, format string, args ...any) {
	v.faults = append(v.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *Config) validate() Faults {
	v := &checker{}
	v.address("listen", c.Listen)
	v.address("admin.listen", c.Admin.Listen)
	if c.Listen == c.Admin.Listen && !strings.HasSuffix(c.Listen, ":0") {
		v.fault("admin.listen", "%q is the address of listen too", c.Admin.Listen)
	}
	if c.PublicURL != "" {
		v.publicURL(c.PublicURL)
	}
	for i, o := range c.AllowedOrigins {
		if !isOrigin(o) {
			v.fault(fmt.Sprintf("allowedOrigins[%d]", i), "%q must be an http or https origin such as https://app.example.com, in lower case and without a path", o)
		}
	}
	if c.DataDir == "" {
		v.fault("store.dataDir", "must not be empty")
	}
	if c.Log.Format != FormatText && c.Log.Format != FormatJSON {
		v.fault("log.format", "%q must be text or json", c.Log.Format)
	}
	if grace := cmp.Or(c.Server.ShutdownGrace, DefaultShutdownGrace); c.Server.DrainDelay > 0 && c.Server.DrainDelay >= grace {
		v.fault("server.drainDelay", "%s must be less than shutdownGrace, %s", c.Server.DrainDelay, grace)
	}
	v.keys(c.Keys)
	v.store(c)
	v.redis(c)
	v.peer(c)
	v.limits(&c.Limits)
	v.callTimes("timeouts", c.Timeouts.Call, c.Timeouts.CallMax, upstream.DefaultCallTimeout, upstream.DefaultCallMax)
	v.tenants(c)
	if _, _, err := net.SplitHostPort(c.Listen); err == nil && !c.AllowUnauthenticated && !IsLoopback(c.Listen) && c.openTenant() {
		v.fault("listen", "%q can be reached from other machines, and a tenant has no authentication (auth.mode: none): "+
			"listen on a loopback address, or acknowledge it with allowUnauthenticated: true", c.Listen)
	}
	return v.faults
}

// address checks host:port. Port 0 lets the system choose.
func (v *checker) address(path, s string) {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		v.fault(path, "%q must be host:port, such as 127.0.0.1:8080 or :8080", s)
	}
}

// IsLoopback tells whether only this machine can reach a listener at address
// (host:port).
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (v *checker) publicURL(s string) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validHost(u):
		v.fault("publicURL", "must be an http or https URL such as https://mcp.example.com")
	case u.User != nil:
		v.fault("publicURL", "must not hold a user or password")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		v.fault("publicURL", "%q must not have a query or fragment", s)
	}
}

// validHost tells whether a URL names a host and, if any, a port that exists.
func validHost(u *url.URL) bool {
	if u.Hostname() == "" {
		return false
	}
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// isOrigin tells whether s is what browsers send in Origin for a page from the
// web (RFC 6454, 6.1).
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && validHost(u) && s == strings.ToLower(u.Scheme+"://"+u.Host)
}

func (v *checker) keys(keys []Key) {
	first := make(map[string]int, len(keys))
	for i, k := range keys {
		path := fmt.Sprintf("keys[%d]", i)
		if j, double := first[k.ID]; k.ID == "" {
			v.fault(path+".id", "is required")
		} else if !matches(k.ID, 32, false, "._-") {
			v.fault(path+".id", "%q must match ^[A-Za-z0-9._-]{1,32}$", k.ID)
		} else if double {
			v.fault(path+".id", "%q is the id of keys[%d] too", k.ID, j)
		} else {
			first[k.ID] = i
		}
		if (k.Secret.Env == "") == (k.Secret.File == "") {
			v.fault(path+".secret", "must be a reference: either {env: NAME} or {file: path}")
		}
	}
}

// Upper bounds of what a typing mistake could make harmful.
const (
	maxDepthLimit = 10_000 // nesting; the JSON scanner keeps a stack
	maxPageSize   = 100_000
)

func (v *checker) limits(l *Limits) {
	if l.Depth > maxDepthLimit {
		v.fault("limits.depth", "%d must be at most %d", l.Depth, maxDepthLimit)
	}
	if l.PageSize > maxPageSize {
		v.fault("limits.pageSize", "%d must be at most %d", l.PageSize, maxPageSize)
	}
	for _, part := range []struct {
		name  string
		bytes int64
	}{{"body", l.Body}, {"message", l.Message}} {
		if l.BufferedBytes > 0 && part.bytes > l.BufferedBytes {
			v.fault("limits."+part.name, "%d bytes are more than limits.bufferedBytes (%d bytes) has room for", part.bytes, l.BufferedBytes)
		}
	}
}

// matches tells whether s has 1 to most bytes, all of them letters, digits or
// in extra. lower refuses capital letters.
func matches(s string, most int, lower bool, extra string) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		b := s[i]
		switch {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', !lower && 'A' <= b && b <= 'Z':
		case strings.IndexByte(extra, b) >= 0:
		default:
			return false
		}
	}
	return true
}
