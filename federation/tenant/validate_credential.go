package tenant

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what one upstream is shown, and of what is approved of it.
const (
	maxHeaders = 50
	maxPins    = 20_000 // as many as the items of a list
	maxTool    = 4096   // bytes of a tool's name
)

// credential checks how an upstream is shown who calls.
func (v *checker) credential(path string, u *Upstream, a *Auth) {
	path += ".auth"
	c := &u.Auth
	switch c.Mode {
	case "", CredentialNone, CredentialBearer, CredentialHeaders, CredentialClient, CredentialExchange, CredentialUser, CredentialForward:
	default:
		v.add(path+".mode", "%q must be none, bearer, headers, client_credentials, token_exchange, user_oauth or forward", c.Mode)
		return
	}
	if u.Process != nil && u.URL == "" && c.Mode != "" && c.Mode != CredentialNone {
		v.add(path+".mode", "a program takes no headers: its secrets are in its environment")
		return
	}
	if u.Sessions.Shared && (c.PerUser() || c.Mode == CredentialForward) {
		v.add(path+".mode", "%s shows each user apart, who then cannot share sessions", c.Mode)
	}
	v.unused(path, c)
	switch c.Mode {
	case CredentialBearer:
		v.secret(path+".token", c.Token)
	case CredentialHeaders:
		v.secretHeaders(path+".headers", u)
	case CredentialForward:
		v.forwarded(path+".forward", c.Forward)
	case CredentialClient, CredentialExchange, CredentialUser:
		v.oauth(path, c, a)
	}
}

// unused refuses fields that the mode does not look at, since who sets one means
// something by it.
func (v *checker) unused(path string, c *Credential) {
	const (
		client   = CredentialClient
		exchange = CredentialExchange
		user     = CredentialUser
	)
	for _, field := range []struct {
		name string
		set  bool
		of   []CredentialMode
	}{
		{"token", !c.Token.IsZero(), []CredentialMode{CredentialBearer}},
		{"headers", len(c.Headers) > 0, []CredentialMode{CredentialHeaders}},
		{"forward", len(c.Forward) > 0, []CredentialMode{CredentialForward}},
		{"issuer", c.Issuer != "", []CredentialMode{client, exchange, user}},
		{"tokenURL", c.TokenURL != "", []CredentialMode{client, exchange}},
		{"audience", c.Audience != "", []CredentialMode{exchange}},
		{"resource", c.Resource != "", []CredentialMode{client, exchange, user}},
		{"clientID", c.ClientID != "", []CredentialMode{client, exchange, user}},
		{"clientSecret", !c.ClientSecret.IsZero(), []CredentialMode{client, exchange, user}},
		{"scopes", len(c.Scopes) > 0, []CredentialMode{client, exchange, user}},
		{"registration", c.Registration != "", []CredentialMode{client, exchange, user}},
	} {
		if field.set && !slices.Contains(field.of, c.Mode) {
			v.add(path+"."+field.name, "is for the mode %s", words(field.of))
		}
	}
}

// words puts modes into words.
func words(modes []CredentialMode) string {
	var b strings.Builder
	for i, m := range modes {
		switch {
		case i == 0:
		case i == len(modes)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(m))
	}
	return b.String()
}

// oauth checks what gets tokens of an authorization server.
func (v *checker) oauth(path string, c *Credential, a *Auth) {
	switch {
	case c.Mode == CredentialClient:
	case a.Mode != AuthOAuth:
		v.add(path+".mode", "%s is for users who sign in: it needs a tenant whose auth.mode is oauth", c.Mode)
	case c.Mode == CredentialUser && !slices.ContainsFunc(a.Issuers, func(is Issuer) bool { return is.Login != nil }):
		v.add(path+".mode", "user_oauth needs an issuer of the tenant with a login, so that its pages can tell who opens them")
	}
	if c.Issuer != "" {
		v.server(path+".issuer", c.Issuer)
		if strings.Contains(c.Issuer, "?") {
			v.add(path+".issuer", "must not have a query") // RFC 8414, section 2
		}
	}
	if c.TokenURL != "" {
		v.server(path+".tokenURL", c.TokenURL)
	}
	if c.Mode == CredentialExchange && c.Issuer == "" && c.TokenURL == "" {
		v.add(path+".tokenURL", "is required, or issuer in its place: users' tokens are shown to no server that an upstream chose")
	}
	v.resource(path+".resource", c.Resource)
	v.text(path+".audience", c.Audience, maxDescription)
	v.asked(path+".scopes", c.Scopes)
	v.registration(path, c)
}

// registration checks who the gateway is for the authorization server. RFC 6749,
// section 4.4, is for clients that have a secret.
func (v *checker) registration(path string, c *Credential) {
	v.text(path+".clientID", c.ClientID, maxDescription)
	if !c.ClientSecret.IsZero() {
		v.secret(path+".clientSecret", c.ClientSecret)
		if c.ClientID == "" {
			v.add(path+".clientSecret", "is that of a clientID, and there is none")
		}
	}
	if c.ClientID != "" && c.Issuer == "" && c.TokenURL == "" {
		// Else the upstream could name a server of its own, which would see the secret.
		v.add(path+".issuer", "is required with a clientID, which one authorization server knows and others must not see")
	}
	if c.Mode == CredentialUser {
		switch c.Registration {
		case "":
		case RegistrationStatic:
			if c.ClientID == "" {
				v.add(path+".clientID", "is required with registration: static")
			}
		case RegistrationMetadata, RegistrationDynamic:
			if c.ClientID != "" {
				v.add(path+".clientID", "is for registration: static")
			}
		default:
			v.add(path+".registration", "%q must be static, metadata or dynamic", c.Registration)
		}
		return
	}
	if c.Registration != "" && c.Registration != RegistrationStatic {
		v.add(path+".registration", "%q must be static with the mode %s", c.Registration, c.Mode)
	}
	if c.ClientID == "" {
		v.add(path+".clientID", "is required with the mode %s", c.Mode)
	}
	if c.Mode == CredentialClient && c.ClientSecret.IsZero() {
		v.add(path+".clientSecret", "is required with the mode %s", c.Mode)
	}
}

// server checks the URL of an authorization server of an upstream. Messages do not
// show it, since it may hold a password.
func (v *checker) server(path, s string) {
	before := len(v.Faults)
	v.urlLike(path, s, exampleIssuer)
	if len(v.Faults) > before {
		return
	}
	if u, err := url.Parse(s); err == nil && u.Scheme != "https" && v.from != ManagedByFile {
		v.add(path, "must be an https URL; http is for the configuration file only")
	}
}

// resource checks a resource indicator (RFC 8707, section 2).
func (v *checker) resource(path, s string) {
	if s == "" {
		return
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || !u.IsAbs() || !utf8.ValidString(s):
		v.add(path, "must be an absolute URI such as https://ledger.example.com/mcp")
	case u.User != nil:
		v.add(path, "must not hold a user or password")
	case strings.Contains(s, "#"):
		v.add(path, "must not have a fragment")
	}
}

// secretHeaders checks the header lines that an upstream is shown.
func (v *checker) secretHeaders(path string, u *Upstream) {
	headers := u.Auth.Headers
	if len(headers) == 0 {
		v.add(path, "must name a header")
	}
	v.most(path, len(headers), maxHeaders)
	first := make(map[string]bool, len(headers))
	for i := range headers {
		h, at := &headers[i], fmt.Sprintf("%s[%d]", path, i)
		name := http.CanonicalHeaderKey(h.Name)
		switch {
		case !isHeader(h.Name):
			v.add(at+".name", "%q is not a header name", h.Name)
		case !mayShow(name):
			v.add(at+".name", "%q is made by the gateway and cannot be set", h.Name)
		case first[name]:
			v.add(at+".name", "%q is there twice", h.Name)
		case slices.ContainsFunc(u.ForwardHeaders, func(o string) bool { return http.CanonicalHeaderKey(o) == name }):
			v.add(at+".name", "%q is in forwardHeaders too: clients could replace it", h.Name)
		}
		first[name] = true
		v.secret(at+".value", h.Value)
	}
}

// mayShow tells whether a secret may be in a header, whose name is in canonical form.
func mayShow(name string) bool {
	return name == "Authorization" || name == "Cookie" || mayForward(name)
}

// forwarded checks the names of headers by which clients show an upstream who they
// are.
func (v *checker) forwarded(path string, names []string) {
	if len(names) == 0 {
		v.add(path, "must name a header")
	}
	v.most(path, len(names), maxHeaders)
	first := make(map[string]bool, len(names))
	for i, s := range names {
		at, name := fmt.Sprintf("%s[%d]", path, i), http.CanonicalHeaderKey(s)
		v.forwardHeader(at, s)
		if first[name] {
			v.add(at, "%q is there twice", s)
		}
		first[name] = true
	}
}

func isHeader(name string) bool { return matches(name, 256, false, "!#$%&'*+-.^_`|~") }

func (v *checker) forwardHeader(path, name string) {
	if !isHeader(name) {
		v.add(path, "%q is not a header name", name)
	} else if !mayForward(http.CanonicalHeaderKey(name)) {
		v.add(path, "%q is made anew by the gateway and cannot be forwarded", name)
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

// pins checks which definitions of tools are approved.
func (v *checker) pins(path string, u *Upstream) {
	if u.Pinning != PinListed && u.Pinning != PinAll {
		v.add(path+".pinning", "%q must be all, or not be there", u.Pinning)
	}
	path += ".pins"
	v.most(path, len(u.Pins), maxPins)
	for _, tool := range slices.Sorted(maps.Keys(u.Pins)) {
		at := join(path, tool)
		if tool == "" {
			v.add(at, "must be the name of a tool")
		}
		v.text(at, tool, maxTool)
		if digest, ok := strings.CutPrefix(u.Pins[tool], "sha256:"); !ok || len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "" {
			v.add(at, "must be sha256: and 64 hexadecimal digits, in small letters")
		}
	}
}
