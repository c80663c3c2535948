package tenant

import (
	"fmt"
	"net/netip"
	"net/url"
	pathpkg "path"
	"strings"
	"unicode"
)

// Bounds of what one tenant may have.
const (
	maxHosts    = 100
	maxHost     = 253 // bytes of a name (RFC 1035, section 2.3.4)
	maxLabel    = 63
	maxToolsets = 1000
	maxRules    = 1000
	maxRule     = 200 // bytes of a rule's name, which logs and people see
)

func (v *checker) toolsets(list []Toolset) {
	v.most("toolsets", len(list), maxToolsets)
	names := make(map[string]int, len(list))
	for i := range list {
		s, path := &list[i], fmt.Sprintf("toolsets[%d]", i)
		v.slug(path+".name", s.Name)
		v.double(path+".name", "toolsets", s.Name, i, names)
		v.globs(path+".include", s.Include)
		v.most(path+".tags", len(s.Tags), maxListed)
		v.tags(path+".tags", s.Tags)
		v.text(path+".when", s.When, maxExpression)
		v.scopes(path+".scopes", s.Scopes)
		v.quota(path+".limits", s.Limits)
		v.discovery(path+".discovery", &s.Discovery)
	}
}

// globs checks patterns of exposed names.
func (v *checker) globs(path string, globs []string) {
	v.most(path, len(globs), maxListed)
	for i, glob := range globs {
		at := fmt.Sprintf("%s[%d]", path, i)
		if _, err := pathpkg.Match(glob, ""); err != nil || glob == "" {
			v.add(at, "%q must be a name or a pattern such as ledger_*", glob)
			continue
		}
		v.text(at, glob, maxDescription)
	}
}

func (v *checker) policy(p *Policy) {
	if p == nil {
		return
	}
	v.effect("policy.default", p.Default)
	v.most("policy.rules", len(p.Rules), maxRules)
	names := make(map[string]int, len(p.Rules))
	for i := range p.Rules {
		r, path := &p.Rules[i], fmt.Sprintf("policy.rules[%d]", i)
		switch {
		case r.Name == "":
			v.add(path+".name", "is required")
		case strings.ContainsFunc(r.Name, unicode.IsControl):
			v.add(path+".name", "must not contain control characters")
		}
		v.text(path+".name", r.Name, maxRule)
		v.double(path+".name", "policy.rules", r.Name, i, names)
		if r.When == "" { // else a line that was lost would open or close everything
			v.add(path+".when", "is required; true holds for everything")
		}
		v.text(path+".when", r.When, maxExpression)
		v.effect(path+".effect", r.Effect)
		v.scopes(path+".scopes", r.Scopes)
		if r.Effect == EffectDeny && len(r.Scopes) > 0 {
			v.add(path+".scopes", "are for the effect allow: what is denied needs none")
		}
	}
}

func (v *checker) effect(path string, e Effect) {
	if e != EffectAllow && e != EffectDeny {
		v.add(path, "%q must be allow or deny", e)
	}
}

// hosts checks the host names that lead to a tenant.
func (v *checker) hosts(list []Host) {
	v.most("hosts", len(list), maxHosts)
	names := make(map[string]int, len(list))
	for i, h := range list {
		path := fmt.Sprintf("hosts[%d]", i)
		switch {
		case h.Name == "":
			v.add(path+".name", "is required")
		case !isHostName(h.Name):
			v.add(path+".name", "%q must be a host name such as mcp.example.com, in small letters and without a port", h.Name)
		default:
			v.double(path+".name", "hosts", h.Name, i, names)
		}
		v.base(path+".url", h.URL)
	}
}

// isHostName tells whether s is a name of DNS or an IPv4 address, in small letters.
func isHostName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !matches(label, maxLabel, true, "-") || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(s) <= maxHost
}

// base checks the URL by which clients know a host. Messages do not show it, since it
// may hold a password.
func (v *checker) base(path, s string) {
	before := len(v.Faults)
	v.urlLike(path, s, "https://mcp.example.com")
	if len(v.Faults) > before {
		return
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || s != strings.ToLower(u.Scheme+"://"+u.Host):
		v.add(path, "must be a URL such as https://mcp.example.com, in small letters and without a path")
	case u.Scheme != "https" && !isLocal(u.Hostname()):
		v.add(path, "must be an https URL; http is for loopback addresses")
	}
}

// isLocal tells whether a host is this machine only (RFC 6761, section 6.3).
func isLocal(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
