package tenant

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Upper bounds of what a typing mistake could make harmful.
const (
	maxPageSize    = 100_000
	maxDescription = 4096 // bytes
	maxExpression  = 16384
	maxCount       = 1<<31 - 1
)

// Validate tells all that is wrong with a tenant; the error is Faults. What only the
// configuration file may say is allowed unless ManagedBy, of the tenant or an
// upstream, is "store"; sealed secrets are allowed unless it is "file". That a program
// is there, and what expressions mean, is not looked at.
func Validate(t *Tenant) error { return check(t).err() }

func check(t *Tenant) Faults {
	v := &checker{from: t.ManagedBy}
	v.slug("name", t.Name)
	if t.Separator != "_" && t.Separator != "__" {
		v.add("separator", `%q must be "_" or "__"`, t.Separator)
	}
	if t.PageSize < 0 || t.PageSize > maxPageSize {
		v.add("pageSize", "%d must be between 0 and %d", t.PageSize, maxPageSize)
	}
	v.quota("limits", t.Limits.Quota)
	v.count("limits.listenStreams", t.Limits.ListenStreams)
	v.quota("limits.principal", t.Limits.Principal)
	v.discovery("discovery", &t.Discovery)
	who := &checker{from: t.ManagedBy}
	who.auth(&t.Auth)
	v.below("auth", who.Faults)
	v.hosts(t.Hosts)
	aliases := make(map[string]int, len(t.Upstreams))
	for i := range t.Upstreams {
		u, path := &t.Upstreams[i], fmt.Sprintf("upstreams[%d]", i)
		of := &checker{from: u.ManagedBy}
		of.upstream(path, u, i, aliases)
		of.credential(path, u, &t.Auth)
		of.pins(path, u)
		v.Faults = append(v.Faults, of.Faults...)
	}
	v.toolsets(t.Toolsets)
	v.policy(t.Policy)
	return v.Faults
}

// discovery checks how clients are to find tools.
func (v *checker) discovery(path string, d *Discovery) {
	switch d.Mode {
	case "", DiscoveryFull, DiscoverySearch, DiscoveryAuto:
	default:
		v.add(path+".mode", "%q must be full, search or auto", d.Mode)
	}
	v.count(path+".autoThresholdTokens", d.AutoThresholdTokens)
	v.globs(path+".pinned", d.Pinned)
}

// ValidateKey tells all that is wrong with a key; the error is Faults.
func ValidateKey(k *APIKey) error { return checkKey(k).err() }

func checkKey(k *APIKey) Faults {
	v := &checker{}
	if !matches(k.ID, 64, false, "._-") {
		v.add("id", "%q must match ^[A-Za-z0-9._-]{1,64}$", k.ID)
	}
	v.slug("tenant", k.Tenant)
	v.text("name", k.Name, maxDescription)
	if len(k.Hash) != sha256.Size {
		v.add("hash", "has %d bytes, a SHA-256 has %d", len(k.Hash), sha256.Size)
	}
	if k.Subject == "" {
		v.add("subject", "is required")
	}
	v.text("subject", k.Subject, maxDescription)
	v.texts("scopes", k.Scopes)
	v.texts("groups", k.Groups)
	for _, at := range []struct {
		path string
		time time.Time
	}{{"created", k.Created}, {"expires", k.Expires}, {"lastUsed", k.LastUsed}} {
		if y := at.time.UTC().Year(); y < 1 || y > 9999 {
			v.add(at.path, "the year %d cannot be written (RFC 3339)", y)
		}
	}
	return v.Faults
}

// checker collects faults.
type checker struct {
	Faults
	from string // who keeps what is checked, as in ManagedBy
}

// slug checks the name of a tenant or toolset, which is part of a path.
func (v *checker) slug(path, s string) {
	switch {
	case s == "":
		v.add(path, "is required")
	case !matches(s, 63, true, "-") || s[0] == '-':
		v.add(path, "%q must match ^[a-z0-9][a-z0-9-]{0,62}$", s)
	}
}

// double reports a name that an earlier one of the same list has.
func (v *checker) double(path, list, name string, index int, first map[string]int) {
	if name == "" {
		return
	}
	if i, there := first[name]; there {
		v.add(path, "%q is that of %s[%d] too", name, list, i)
		return
	}
	first[name] = index
}

func (v *checker) count(path string, n int) {
	if n < 0 || n > maxCount {
		v.add(path, "%d must be between 0 and %d", n, maxCount)
	}
}

func (v *checker) quota(path string, q Quota) {
	v.count(path+".callsPerMinute", q.CallsPerMinute)
	v.count(path+".inFlight", q.InFlight)
}

func (v *checker) duration(path string, d time.Duration) {
	if d < 0 {
		v.add(path, "%s must not be negative", d)
	}
}

// text checks free text.
func (v *checker) text(path, s string, most int) {
	switch {
	case len(s) > most:
		v.add(path, "has %d bytes, at most %d are allowed", len(s), most)
	case !utf8.ValidString(s):
		v.add(path, "is not valid UTF-8")
	}
}

func (v *checker) texts(path string, list []string) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if s == "" {
			v.add(at, "must not be empty")
		}
		v.text(at, s, maxDescription)
	}
}

// upstream checks the upstream with that index; aliases are those of the ones
// before it.
func (v *checker) upstream(path string, u *Upstream, index int, aliases map[string]int) {
	switch {
	case u.Alias == "":
		v.add(path+".alias", "is required")
	case !matches(u.Alias, 20, true, "") || u.Alias[0] < 'a':
		v.add(path+".alias", "%q must match ^[a-z][a-z0-9]{0,19}$", u.Alias)
	case isReserved(u.Alias):
		v.add(path+".alias", "%q is reserved", u.Alias)
	default:
		v.double(path+".alias", "upstreams", u.Alias, index, aliases)
	}
	switch u.Era {
	case "", "auto", "modern", "handshake":
	default:
		v.add(path+".era", "%q must be auto, modern or handshake", u.Era)
	}
	switch {
	case u.Process == nil:
		v.url(path+".url", u.URL)
	case u.URL != "":
		v.add(path+".process", "is for an upstream without a url")
	default:
		v.process(path+".process", u.Process)
		if len(u.ForwardHeaders) > 0 {
			v.add(path+".forwardHeaders", "a program takes no headers")
		}
	}
	if u.Prefix != PrefixAlias && u.Prefix != PrefixNone {
		v.add(path+".prefix", "%q must be alias or none", u.Prefix)
	}
	v.text(path+".description", u.Description, maxDescription)
	v.tags(path+".tags", u.Tags)
	for i, name := range u.ForwardHeaders {
		v.forwardHeader(fmt.Sprintf("%s.forwardHeaders[%d]", path, i), name)
	}
	v.bounds(path, u)
}

func (v *checker) tags(path string, tags []string) {
	for i, tag := range tags {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !matches(tag, 63, false, "._:/-") {
			v.add(at, "%q must match ^[A-Za-z0-9._:/-]{1,63}$", tag)
		} else if slices.Contains(tags[:i], tag) {
			v.add(at, "%q is there twice", tag)
		}
	}
}

// isReserved tells whether an alias would collide with the gateway's own tool
// names, or make URI schemes (alias+scheme) that mean something elsewhere.
func isReserved(alias string) bool {
	return slices.Contains([]string{"search", "call", "get", "list", "git", "svn", "hg", "bzr"}, alias)
}

// bounds checks the numbers and times of an upstream.
func (v *checker) bounds(path string, u *Upstream) {
	v.count(path+".inFlight", u.InFlight)
	v.quota(path+".limits", u.Limits)
	s := u.Sessions
	v.count(path+".sessions.max", s.Max)
	v.duration(path+".sessions.idle", s.Idle)
	v.duration(path+".sessions.parkMax", s.ParkMax)
	v.count(path+".sessions.parked", s.Parked)
	v.count(path+".sessions.parkedPerPrincipal", s.ParkedPerPrincipal)
	t := u.Timeouts
	v.duration(path+".timeouts.connect", t.Connect)
	v.duration(path+".timeouts.list", t.List)
	v.duration(path+".timeouts.call", t.Call)
	v.duration(path+".timeouts.callMax", t.CallMax)
	if t.CallMax > 0 && t.Call > t.CallMax {
		v.add(path+".timeouts.call", "call (%s) must not be longer than callMax (%s)", t.Call, t.CallMax)
	}
	if u.Cache.ListTTL != nil {
		v.duration(path+".cache.listTTL", *u.Cache.ListTTL)
	}
	v.duration(path+".cache.stale", u.Cache.Stale)
	v.duration(path+".cache.staleIfError", u.Cache.StaleIfError)
}

// url checks the URL of an upstream. Messages do not show it, since it may hold a
// password.
func (v *checker) url(path, s string) { v.urlLike(path, s, "http://127.0.0.1:7001/mcp") }

// urlLike is url with another example.
func (v *checker) urlLike(path, s, example string) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		v.add(path, "is required")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || !validHost(u):
		v.add(path, "must be an http or https URL such as %s", example)
	case u.User != nil:
		v.add(path, "must not hold a user or password")
	case strings.Contains(s, "#"):
		v.add(path, "must not have a fragment")
	case !utf8.ValidString(s):
		v.add(path, "is not valid UTF-8")
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

// process checks a program. Messages never show a value of its environment.
func (v *checker) process(path string, p *Process) {
	if v.from == ManagedByStore {
		v.add(path, "programs come from the configuration file only")
		return
	}
	if len(p.Command) == 0 || p.Command[0] == "" {
		v.add(path+".command", "must name a program")
	}
	for i, arg := range p.Command {
		if strings.Contains(arg, "\x00") {
			v.add(fmt.Sprintf("%s.command[%d]", path, i), "must not contain a null character")
		}
	}
	if strings.Contains(p.Dir, "\x00") {
		v.add(path+".dir", "must not contain a null character")
	}
	for i, e := range p.Env {
		at := fmt.Sprintf("%s.env[%d]", path, i)
		switch {
		case !matches(e.Name, 256, false, "_") || e.Name[0] >= '0' && e.Name[0] <= '9':
			v.add(at+".name", "the name of a variable must match ^[A-Za-z_][A-Za-z0-9_]{0,255}$")
		case strings.Contains(e.Value, "\x00"):
			v.add(at+".value", "must not contain a null character")
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
