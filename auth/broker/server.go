package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/causeway-mcp/causeway/auth/ask"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// server is an authorization server as an upstream uses it (RFC 8414, section 2). It is
// not changed once it is there.
type server struct {
	Issuer                string // empty where only TokenURL is configured
	AuthorizationEndpoint string
	TokenEndpoint         string
	RegistrationEndpoint  string
	RevocationEndpoint    string
	JWKSURI               string
	IssParameter          bool // authorization_response_iss_parameter_supported (RFC 9207)
	S256                  bool // code_challenge_methods_supported has it
	ClientIDMetadata      bool // client_id_metadata_document_supported
	OfflineAccess         bool // its scopes_supported has offline_access
	AuthMethods           []string
	// ScopesSupported are those of the resource, not of the server: what its challenge
	// says that is needed, else what it has (RFC 9728, section 2); what to ask for
	// where nobody else says (basic/authorization, Scope Selection Strategy).
	ScopesSupported []string
	Resource        string // for the resource parameter (RFC 8707)

	trust trust // which of its addresses may be private
}

// upstreamKey is one configuration of one upstream.
type upstreamKey struct{ tenant, alias, version, managedBy string }

func keyOf(t *tenant.Tenant, u *tenant.Upstream) upstreamKey {
	version := u.Version
	if version == "" {
		version = u.Digest()
	}
	return upstreamKey{t.Name, u.Alias, version, u.ManagedBy}
}

// serverKey is one authorization server. Who trust it alike share what is known of it:
// it is public.
type serverKey struct {
	issuer string
	trust  trust
}

// serverOf gives the authorization server of an upstream; challenges are what its
// WWW-Authenticate said last, nil for nothing. For CredentialUser it has S256 and an
// authorization endpoint.
func (b *Broker) serverOf(ctx context.Context, t *tenant.Tenant, u *tenant.Upstream, challenges []string) (*server, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	conf, tr := &u.Auth, trustOf(u)
	var s server
	switch {
	case conf.TokenURL != "" && conf.Mode != tenant.CredentialUser:
		s = server{Issuer: conf.Issuer, trust: tr}
	case conf.Issuer != "":
		found, err := b.issuer(ctx, conf.Issuer, tr)
		if err != nil {
			return nil, err
		}
		s = *found
	default:
		found, err := b.discovered(ctx, t, u, bearerOf(challenges), tr)
		if err != nil {
			return nil, err
		}
		s = *found
	}
	if conf.TokenURL != "" {
		s.TokenEndpoint = conf.TokenURL
		if err := tr.endpoint(conf.TokenURL); err != nil {
			return nil, fmt.Errorf("tokenURL %w", err)
		}
	}
	if conf.Resource != "" {
		s.Resource = conf.Resource
	} else if s.Resource == "" {
		s.Resource = canonical(u.URL)
	}
	return &s, s.suits(conf.Mode)
}

// suits tells why a server cannot be used.
func (s *server) suits(mode tenant.CredentialMode) error {
	switch {
	case s.TokenEndpoint == "":
		return errors.New("the metadata of the authorization server has no token_endpoint")
	case mode != tenant.CredentialUser:
		return nil
	case s.AuthorizationEndpoint == "":
		return errors.New("the metadata of the authorization server has no authorization_endpoint")
	case !s.S256:
		// 2026-07-28, basic/authorization, Authorization Code Protection.
		return errors.New("the metadata of the authorization server does not say that it supports PKCE with S256")
	}
	return nil
}

// issuerOf gives an authorization server by its identifier alone, such as that of a
// tenant's own users; private allows all of its addresses to be private ones.
func (b *Broker) issuerOf(ctx context.Context, issuer string, private bool) (*server, error) {
	return b.issuer(ctx, issuer, trust{all: private})
}

// issuer gives an authorization server by its identifier.
func (b *Broker) issuer(ctx context.Context, issuer string, tr trust) (*server, error) {
	key := serverKey{issuer, tr}
	b.mu.Lock()
	d, ok := b.servers.Get(key)
	if !ok {
		d = &document[server]{}
		b.servers.Put(key, d, 1)
	}
	b.mu.Unlock()
	s, err := d.get(ctx, b, func(ctx context.Context) (*server, error) { return b.readServer(ctx, issuer, tr) })
	if err != nil {
		return nil, fmt.Errorf("read the metadata of an authorization server: %w", err)
	}
	return s, nil
}

// readServer reads the metadata from the first place that has it.
func (b *Broker) readServer(ctx context.Context, issuer string, tr trust) (*server, error) {
	places, err := ask.Places(issuer)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, place := range places {
		raw, err := b.read(ctx, place, tr)
		if err == nil {
			var s *server
			if s, err = parseServer(raw, issuer, tr); err == nil {
				return s, nil
			}
			err = fmt.Errorf("%s: it %w", place, err)
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// read reads a document.
func (b *Broker) read(ctx context.Context, from string, tr trust) ([]byte, error) {
	if err := tr.endpoint(from); err != nil {
		return nil, fmt.Errorf("an address %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("an address is not a URL")
	}
	req.Header.Set("Accept", "application/json")
	answer, err := b.ask(req, tr.allows(from))
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", req.URL.Redacted(), answer.Status)
	}
	return answer.Body, nil
}

// ask sends a request; private tells that its address may be one.
func (b *Broker) ask(req *http.Request, private bool) (*ask.Answer, error) {
	c := b.public
	if private {
		c = b.private
	}
	return ask.Do(c, req, private || isLoopback(req.URL.Hostname()))
}
