package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// kindClient is the kind of registrations in the vault.
const kindClient = "client"

// secretMargin is how long before its end a client secret is not used any more.
const secretMargin = time.Minute

var errUnknownClient = errors.New("it forgot the gateway a short while after it registered it")

// registration is the gateway as a client that it has registered itself.
type registration struct {
	Issuer  string    `json:"issuer"` // of the server that gave it, and where it is used
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitzero"`
	Method  string    `json:"method"`
	Expires time.Time `json:"expires,omitzero"` // of the secret; zero for never

	key      tenant.VaultKey
	revision uint64
}

// dynamicClient gives the gateway's registration for a tenant at a server: the one that
// is kept, or one that is made now (RFC 7591). There is one for each server, grant and
// set of scopes, and for the place where users come back to.
func (b *Broker) dynamicClient(ctx context.Context, t *tenant.Tenant, conf *tenant.Credential, s *server) (*client, error) {
	if s.Issuer == "" || s.RegistrationEndpoint == "" {
		return nil, errors.New("the authorization server registers nobody")
	}
	about, err := b.registering(conf, s)
	if err != nil {
		return nil, err
	}
	key := tenant.VaultKey{Tenant: t.Name, Kind: kindClient, Name: digest(append(
		[]string{s.Issuer, about.Scope, about.AuthMethod}, append(about.GrantTypes, about.RedirectURIs...)...)...)}
	d := b.registrations(key)
	read := func(ctx context.Context) (*registration, error) { return b.registration(ctx, key, about, s) }
	r, err := d.get(ctx, b, read)
	if err == nil && r.ended(b.now()) {
		d.drop()
		r, err = d.get(ctx, b, read)
	}
	if err != nil {
		return nil, fmt.Errorf("register at the authorization server: %w", err)
	}
	return &client{ID: r.ID, Secret: r.Secret, Method: r.Method, made: r}, nil
}

func (b *Broker) registrations(key tenant.VaultKey) *document[registration] {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.clients.Get(key)
	if !ok {
		d = &document[registration]{}
		b.clients.Put(key, d, 1)
	}
	return d
}

// registering gives what the gateway registers for a mode.
func (b *Broker) registering(conf *tenant.Credential, s *server) (*clientMetadata, error) {
	m := &clientMetadata{ClientName: gatewayName, ClientURI: b.opts.PublicURL, Scope: strings.Join(conf.Scopes, " ")}
	methods := []string{methodBasic, methodPost}
	m.RedirectURIs, m.ResponseTypes = []string{}, []string{} // none: without them a server supposes code
	switch conf.Mode {
	case tenant.CredentialUser:
		if b.signIns.site.root == "" {
			return nil, errNoSite
		}
		m.Scope = "" // more are asked for as it turns out that they are needed
		m.RedirectURIs, m.ResponseTypes = []string{b.redirectURI()}, []string{"code"}
		m.GrantTypes = []string{grantCode, grantRefresh}
		m.ApplicationType = applicationType(b.opts.PublicURL)
		methods = append(methods, methodNone)
	case tenant.CredentialExchange:
		m.GrantTypes = []string{grantExchange}
	default:
		m.GrantTypes = []string{grantClient}
	}
	for _, method := range methods {
		if slices.Contains(s.AuthMethods, method) || len(s.AuthMethods) == 0 && method == methodBasic {
			m.AuthMethod = method
			return m, nil
		}
	}
	return nil, fmt.Errorf("the authorization server supports none of %s", strings.Join(methods, ", "))
}

// applicationType says what kind of client is at a base URL (2026-07-28,
// basic/authorization/client-registration, Application Type and Redirect URI
// Constraints): one on the user's own machine is native.
func applicationType(base string) string {
	if u, err := url.Parse(base); err == nil && isLoopback(u.Hostname()) {
		return "native"
	}
	return "web"
}

// registration reads the registration from the vault, or makes one and keeps it. The
// one that was kept first is used by all replicas.
func (b *Broker) registration(ctx context.Context, key tenant.VaultKey, about *clientMetadata, s *server) (*registration, error) {
	r := &registration{}
	revision, ok, err := b.kept(ctx, key, r)
	if err != nil {
		return nil, err
	}
	r.key, r.revision = key, revision
	if ok && r.Issuer == s.Issuer && !r.ended(b.now()) {
		return r, nil
	}
	made, err := b.register(ctx, about, s)
	if err != nil {
		return nil, err
	}
	made.key = key
	made.revision, err = b.keep(ctx, key, made, revision)
	if errors.Is(err, tenant.ErrConflict) {
		other := &registration{key: key}
		if other.revision, ok, err = b.kept(ctx, key, other); err == nil && ok && other.Issuer == s.Issuer {
			return other, nil
		}
		return nil, errors.Join(errors.New("another replica registers at the same time"), err)
	}
	return made, err
}

// register makes the gateway a client of the server (RFC 7591, section 3).
func (b *Broker) register(ctx context.Context, about *clientMetadata, s *server) (*registration, error) {
	raw, err := json.Marshal(about)
	if err != nil {
		panic(err) // strings always encode
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.RegistrationEndpoint, bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("the registration endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	answer, err := b.ask(req, s.trust.allows(s.RegistrationEndpoint))
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusCreated && answer.Status != http.StatusOK {
		return nil, refusal(answer.Status, answer.Body)
	}
	r, err := parseRegistration(answer.Body, about.AuthMethod)
	if err != nil {
		return nil, err
	}
	r.Issuer = s.Issuer
	return r, nil
}

// Bounds of what a registration gives, in bytes.
const maxClientID, maxSecret = 2 << 10, 4 << 10

// parseRegistration reads the answer of a registration endpoint (RFC 7591, section
// 3.2.1). Errors hold no text of it.
func parseRegistration(raw []byte, asked string) (*registration, error) {
	var d struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Expires int64  `json:"client_secret_expires_at"`
		Method  string `json:"token_endpoint_auth_method"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return nil, errors.New("its answer is no registration (RFC 7591, section 3.2.1)")
	}
	if d.Method == "" {
		d.Method = asked
	}
	switch {
	case !isVisible(d.ID, maxClientID) || d.Secret != "" && !isVisible(d.Secret, maxSecret):
		return nil, errors.New("its answer holds no client that can be used")
	case d.Method != methodNone && d.Secret == "":
		return nil, errors.New("its answer has no client_secret")
	case d.Method != methodNone && d.Method != methodBasic && d.Method != methodPost:
		return nil, errors.New("its answer asks for a way of authentication that is not supported")
	}
	r := &registration{ID: d.ID, Method: d.Method}
	if d.Method != methodNone {
		r.Secret = d.Secret
		if d.Expires > 0 {
			r.Expires = time.Unix(min(d.Expires, maxUnix), 0)
		}
	}
	return r, nil
}

// maxUnix is the last second of the year 9999, up to which times can be kept as JSON.
const maxUnix = 253402300799

// isVisible tells whether s is a text of VSCHAR (RFC 6749, appendix A), of at most so
// many bytes.
func isVisible(s string, most int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func (r *registration) ended(now time.Time) bool {
	return !r.Expires.IsZero() && !now.Before(r.Expires.Add(-secretMargin))
}

// unregister forgets a registration that its server does not know any more, unless it
// is another one by now.
func (b *Broker) unregister(ctx context.Context, r *registration) {
	d := b.registrations(r.key)
	d.mu.Lock()
	if d.value == r {
		d.value, d.err = nil, errUnknownClient
	}
	d.mu.Unlock()
	if err := b.opts.Vault.DeleteSecret(ctx, r.key, r.revision); err != nil && !errors.Is(err, tenant.ErrConflict) {
		b.opts.Logger.Warn("cannot forget a registration that its server does not know any more", "tenant", r.key.Tenant, "error", err)
	}
}
