package tenant

// AuthMode says how a tenant's callers show who they are.
type AuthMode string

// Modes.
const (
	AuthNone  AuthMode = "none"  // anybody may call
	AuthOAuth AuthMode = "oauth" // with an access token of one of the issuers, or an API key
	AuthKeys  AuthMode = "keys"  // with an API key only
)

// Auth says who may use a tenant at all.
type Auth struct {
	Mode    AuthMode `json:"mode,omitempty"` // empty for AuthNone
	Issuers []Issuer `json:"issuers,omitempty"`
	// Scopes are needed for any use.
	Scopes []string `json:"scopes,omitempty"`
	// Implies gives the scopes that a broader one stands for.
	Implies map[string][]string `json:"implies,omitempty"`
}

// Issuer is an authorization server whose tokens are accepted.
type Issuer struct {
	Issuer string `json:"issuer"` // its identifier, compared exactly (RFC 8414, section 2)
	// Audiences are accepted besides the endpoint's canonical resource URI.
	Audiences []string `json:"audiences,omitempty"`
	// GroupsClaim, TenantClaim and ScopeClaim name claims of its tokens; a dot leads
	// into an object, where no claim has the whole name. Empty means none, none, and
	// "scope" and "scp" together.
	GroupsClaim string `json:"groupsClaim,omitempty"`
	TenantClaim string `json:"tenantClaim,omitempty"`
	ScopeClaim  string `json:"scopeClaim,omitempty"`
	// TenantValue is what TenantClaim must hold; empty for the tenant's name.
	TenantValue string `json:"tenantValue,omitempty"`
	// Algorithms are the accepted signatures; empty for RS256, PS256, ES256, ES384
	// and EdDSA. None is symmetric.
	Algorithms []string `json:"algorithms,omitempty"`
	// JWKSURL is where its keys are, where it publishes no metadata.
	JWKSURL string `json:"jwksURL,omitempty"`
	// Introspection asks the issuer about tokens that are no JWTs (RFC 7662). At most
	// one issuer of a tenant has it: an opaque token does not say whose it is, and
	// may be shown to nobody else.
	Introspection *Introspection `json:"introspection,omitempty"`
	// Private allows the issuer to be at a private or loopback address, and to be
	// asked without TLS.
	Private bool `json:"private,omitzero"`
	// Login makes the gateway a client of the issuer, so that it can find out who
	// opens a page of its own. Upstreams with CredentialUser need it.
	Login *Login `json:"login,omitempty"`
}

// Login is how users sign in at the gateway's own pages: by the authorization code
// flow with PKCE (OpenID Connect Core 1.0, section 3.1).
type Login struct {
	ClientID     string   `json:"clientID"`
	ClientSecret Secret   `json:"clientSecret,omitzero"` // none for a public client
	Scopes       []string `json:"scopes,omitempty"`      // besides openid
}

// Introspection is how an issuer is asked about opaque tokens.
type Introspection struct {
	URL          string `json:"url,omitempty"` // empty for that of the issuer's metadata
	ClientID     string `json:"clientID"`
	ClientSecret Secret `json:"clientSecret,omitzero"`
}

// Secret is a secret value: a reference to the environment or a file, which only
// the configuration file may hold, or the value sealed by the key ring. At most one
// field is set.
type Secret struct {
	Env    string `json:"env,omitempty"`
	File   string `json:"file,omitempty"`
	Sealed string `json:"sealed,omitempty"`
}

// IsZero tells whether there is none.
func (s Secret) IsZero() bool { return s == Secret{} }

// Host is a host name that a tenant owns: its endpoints are there without the
// tenant's name in their paths.
type Host struct {
	Name string `json:"name"` // as in the Host header, in small letters and without a port
	URL  string `json:"url"`  // the base URL that clients know
}

// CredentialMode says what the gateway shows an upstream.
type CredentialMode string

// Modes.
const (
	CredentialNone     CredentialMode = "none"
	CredentialBearer   CredentialMode = "bearer"
	CredentialHeaders  CredentialMode = "headers"
	CredentialClient   CredentialMode = "client_credentials" // RFC 6749, section 4.4
	CredentialExchange CredentialMode = "token_exchange"     // RFC 8693
	CredentialUser     CredentialMode = "user_oauth"         // authorization code with PKCE, for each user
	CredentialForward  CredentialMode = "forward"            // named headers of the client
)

// Registration says how the gateway becomes a client of an upstream's
// authorization server.
type Registration string

// Ways.
const (
	RegistrationStatic   Registration = "static"   // ClientID and ClientSecret are configured
	RegistrationMetadata Registration = "metadata" // the gateway's own Client ID Metadata Document
	RegistrationDynamic  Registration = "dynamic"  // RFC 7591
)

// Credential is how an upstream is shown who calls.
type Credential struct {
	Mode    CredentialMode `json:"mode,omitempty"`    // empty for CredentialNone
	Token   Secret         `json:"token,omitzero"`    // of bearer
	Headers []SecretHeader `json:"headers,omitempty"` // of headers, sorted by name
	Forward []string       `json:"forward,omitempty"` // of forward: names of request headers; never Authorization or Cookie

	// Issuer is the upstream's authorization server; empty to ask the upstream
	// (RFC 9728). TokenURL is its token endpoint; empty to ask the issuer.
	Issuer   string `json:"issuer,omitempty"`
	TokenURL string `json:"tokenURL,omitempty"`
	// Audience is the audience of exchanged tokens (RFC 8693, section 2.1), Resource
	// that of all (RFC 8707); empty for none and for the upstream's own resource.
	Audience     string       `json:"audience,omitempty"`
	Resource     string       `json:"resource,omitempty"`
	ClientID     string       `json:"clientID,omitempty"`
	ClientSecret Secret       `json:"clientSecret,omitzero"`
	Scopes       []string     `json:"scopes,omitempty"`
	Registration Registration `json:"registration,omitempty"` // empty for static where ClientID is set, else metadata where the server takes it, else dynamic
}

// SecretHeader is a header line whose value is secret.
type SecretHeader struct {
	Name  string `json:"name"`
	Value Secret `json:"value"`
}

// PerUser tells whether each user has a credential of its own, so that what an
// upstream shows may differ between them.
func (c Credential) PerUser() bool {
	return c.Mode == CredentialExchange || c.Mode == CredentialUser
}

// Pinning says what happens to tools whose definition is not the approved one. What
// is approved is in Upstream.Pins.
type Pinning string

// Ways.
const (
	PinListed Pinning = ""    // tools that have a pin are shown with that definition only, others as they are
	PinAll    Pinning = "all" // tools without a pin are not shown either
)
