package broker

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// maxAddress bounds an address that a server names, in bytes.
const maxAddress = 2 << 10

// trust says which addresses may be private ones, and may be asked without TLS. An
// operator's own file may name any address; what a tenant or a server names may not,
// except at an origin that the file names itself: the token endpoint of an issuer in
// the file is as private as that issuer. A private authorization server that is named
// by nobody but an upstream has to be in the file as the upstream's issuer, or in
// egress.allow, where it needs TLS unless it is on this machine.
type trust struct {
	all     bool   // any address, for an issuer that the operator says to be private
	origins string // else those of these origins, each with a space before and after it
}

// trustOf gives what may be private for an upstream.
func trustOf(u *tenant.Upstream) trust {
	if u.ManagedBy != tenant.ManagedByFile {
		return trust{}
	}
	origins := " "
	for _, address := range []string{u.URL, u.Auth.Issuer, u.Auth.TokenURL} {
		if o := originOf(address); o != "" && !strings.Contains(origins, " "+o+" ") {
			origins += o + " "
		}
	}
	return trust{origins: origins}
}

// allows tells whether the address may be private.
func (t trust) allows(address string) bool {
	if t.all {
		return true
	}
	o := originOf(address)
	return o != "" && strings.Contains(t.origins, " "+o+" ")
}

// originOf gives the origin of an http or https URL (RFC 6454, section 4), with the
// port always there; empty for others.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || strings.ContainsAny(u.Host, " \t") {
		return ""
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return ""
	case port == "" && u.Scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// endpoint checks an address that a server names: an https URL, or an http one that may
// be private or that is on this machine. The error does not show it.
func (t trust) endpoint(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || strings.Contains(address, "#") || len(address) > maxAddress:
		return errors.New("is not a URL that can be used")
	case !isHost(u.Host):
		return errors.New("has a host with other characters than those of a name in ASCII")
	case u.Scheme == "https", u.Scheme == "http" && (t.allows(address) || isLoopback(u.Hostname())):
		return nil
	}
	return errors.New("is not an https URL")
}

// isHost tells whether a host, perhaps with a port, is written as in DNS: what people see
// of it is what browsers go to, as with a slash of another script or a letter that looks
// like another one it would not be.
func isHost(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:[]", r)
	})
}

// isLoopback tells whether a host is this machine by its name. Whether it may be asked is
// another question.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}

// canonical gives the resource identifier of a server by its URL (2026-07-28,
// basic/authorization, Canonical Server URI): the query stays out of it, since it may
// hold a key.
func canonical(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	return u.Scheme + "://" + host + path
}

// covers tells whether a resource is the server at the address, or a part of the same
// origin that holds it. RFC 9728, section 3.3, wants the first; but many servers are
// one resource with their whole origin, which they may be as section 3.1 has it, and
// say so at the place of their path too.
func covers(resource, address string) bool {
	if resource == address {
		return true
	}
	if u, err := url.Parse(resource); err != nil || u.User != nil || strings.ContainsAny(resource, "?#") {
		return false
	}
	r, a := canonical(resource), canonical(address)
	if r == "" || originOf(r) != originOf(a) || strings.Contains(r, "/.") {
		return false
	}
	return r == a || strings.HasPrefix(a, strings.TrimSuffix(r, "/")+"/")
}
