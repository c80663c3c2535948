package tenant

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Bounds of the lists of a registration.
const (
	maxIssuers = 100
	maxListed  = 1000 // scopes, audiences, globs and tags of one list
)

// exampleIssuer is what URLs of authorization servers look like, for messages.
const exampleIssuer = "https://idp.example.com"

// signatures are the algorithms that an issuer may be allowed (RFC 7518, section 3.1;
// RFC 8037, section 3.1). None is symmetric: who can verify with a shared secret can
// sign too.
func signatures() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

func (v *checker) auth(a *Auth) {
	switch a.Mode {
	case "", AuthNone:
		if len(a.Scopes) > 0 || len(a.Implies) > 0 {
			v.add("mode", "none asks for no scopes; oauth and keys do")
		}
	case AuthKeys:
	case AuthOAuth:
		if len(a.Issuers) == 0 {
			v.add("issuers", "must name an issuer whose tokens are accepted")
		}
	default:
		v.add("mode", "%q must be none, oauth or keys", a.Mode)
	}
	if len(a.Issuers) > 0 && a.Mode != AuthOAuth && (a.Mode == "" || a.Mode == AuthNone || a.Mode == AuthKeys) {
		v.add("issuers", "are for the mode oauth")
	}
	v.most("issuers", len(a.Issuers), maxIssuers)
	first := make(map[string]int, len(a.Issuers))
	opaque := -1
	for i := range a.Issuers {
		path := fmt.Sprintf("issuers[%d]", i)
		v.issuer(path, &a.Issuers[i])
		v.double(path+".issuer", "issuers", a.Issuers[i].Issuer, i, first)
		switch {
		case a.Issuers[i].Introspection == nil:
		case opaque >= 0:
			v.add(path+".introspection", "issuers[%d] has it too: an opaque token does not say which of them to ask", opaque)
		default:
			opaque = i
		}
	}
	v.scopes("scopes", a.Scopes)
	for _, scope := range slices.Sorted(maps.Keys(a.Implies)) {
		at := join("implies", scope)
		if !isScope(scope) {
			v.add(at, "is not a scope")
		}
		v.scopes(at, a.Implies[scope])
	}
}

func (v *checker) issuer(path string, is *Issuer) {
	if is.Private && v.from == ManagedByStore {
		v.add(path+".private", "issuers at private addresses come from the configuration file only")
	}
	v.remote(path+".issuer", is.Issuer, is.Private)
	if strings.Contains(is.Issuer, "?") {
		v.add(path+".issuer", "must not have a query") // RFC 8414, section 2
	}
	if is.JWKSURL != "" {
		v.remote(path+".jwksURL", is.JWKSURL, is.Private)
	}
	v.texts(path+".audiences", is.Audiences)
	v.text(path+".groupsClaim", is.GroupsClaim, maxDescription)
	v.text(path+".tenantClaim", is.TenantClaim, maxDescription)
	v.text(path+".tenantValue", is.TenantValue, maxDescription)
	v.text(path+".scopeClaim", is.ScopeClaim, maxDescription)
	if is.TenantValue != "" && is.TenantClaim == "" {
		v.add(path+".tenantValue", "is what a tenantClaim must hold, and there is none")
	}
	for i, alg := range is.Algorithms {
		at := fmt.Sprintf("%s.algorithms[%d]", path, i)
		if !slices.Contains(signatures(), alg) {
			v.add(at, "%q must be one of %s", alg, strings.Join(signatures(), ", "))
		} else if slices.Contains(is.Algorithms[:i], alg) {
			v.add(at, "%q is there twice", alg)
		}
	}
	if in := is.Introspection; in != nil {
		path := path + ".introspection"
		if in.URL != "" {
			v.remote(path+".url", in.URL, is.Private)
		}
		v.client(path, in.ClientID)
		v.secret(path+".clientSecret", in.ClientSecret)
	}
	if l := is.Login; l != nil {
		path := path + ".login"
		v.client(path, l.ClientID)
		if !l.ClientSecret.IsZero() {
			v.secret(path+".clientSecret", l.ClientSecret)
		}
		v.asked(path+".scopes", l.Scopes)
	}
}

// client checks the id of a client, which is in path.
func (v *checker) client(path, id string) {
	if id == "" {
		v.add(path+".clientID", "is required")
	}
	v.text(path+".clientID", id, maxDescription)
}

// remote checks the URL of something that tokens depend on. Messages do not show it,
// since it may hold a password.
func (v *checker) remote(path, s string, private bool) {
	before := len(v.Faults)
	v.urlLike(path, s, exampleIssuer)
	if len(v.Faults) > before {
		return
	}
	if u, err := url.Parse(s); err == nil && u.Scheme != "https" && !private {
		v.add(path, "must be an https URL; http is for an issuer with private: true")
	}
}

// secret checks that a secret is one reference, or one sealed value.
func (v *checker) secret(path string, s Secret) {
	set := 0
	for _, field := range []string{s.Env, s.File, s.Sealed} {
		if field != "" {
			set++
		}
	}
	switch {
	case v.from == ManagedByStore && (s.Env != "" || s.File != ""):
		v.add(path, "references come from the configuration file only; a registry keeps sealed secrets")
	case v.from == ManagedByFile && (set != 1 || s.Sealed != ""):
		v.add(path, "must be a reference: either {env: NAME} or {file: path}")
	case set != 1:
		v.add(path, "must be one of env, file and, in a registry, sealed")
	}
}

// scopes checks those that a caller needs.
func (v *checker) scopes(path string, list []string) {
	v.asked(path, list)
	for i, s := range list {
		if s == "offline_access" {
			// 2026-07-28, basic/authorization, Scope Selection Strategy.
			v.add(fmt.Sprintf("%s[%d]", path, i), "%q is for the issuer alone and never needed by a resource", s)
		}
	}
}

// asked checks scopes that a token is to have.
func (v *checker) asked(path string, list []string) {
	v.most(path, len(list), maxListed)
	for i, s := range list {
		if !isScope(s) {
			v.add(fmt.Sprintf("%s[%d]", path, i), "%q is not a scope", s)
		}
	}
}

// most checks the length of a list.
func (v *checker) most(path string, n, most int) {
	if n > most {
		v.add(path, "has %d items, at most %d are allowed", n, most)
	}
}

// isScope tells whether s is one scope (RFC 6749, section 3.3).
func isScope(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != "" && len(s) <= 256
}
