package broker

import (
	"context"
	"errors"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// server is an authorization server as an upstream uses it (RFC 8414, section 2). It is
// not changed once it is there.
type server struct {
	Issuer                string // empty where only TokenURL is configured
	AuthorizationEndpoint string
	TokenEndpoint         string
	RegistrationEndpoint  string
	JWKSURI               string
	IssParameter          bool // authorization_response_iss_parameter_supported (RFC 9207)
	S256                  bool // code_challenge_methods_supported has it
	ClientIDMetadata      bool // client_id_metadata_document_supported
	OfflineAccess         bool // its scopes_supported has offline_access
	AuthMethods           []string
	// ScopesSupported are those of the resource (RFC 9728, section 2), not of the
	// server: what to ask for where nobody says (basic/authorization, Scope Selection
	// Strategy).
	ScopesSupported []string
	Resource        string // for the resource parameter (RFC 8707)

	trust trust // which of its addresses may be private
}

// trust says which addresses may be private ones: see trustOf.
type trust struct {
	all     bool   // any, for an issuer that the operator says to be private
	origins string // else those of these origins, each ended by a space
}

// serverOf gives the authorization server of an upstream; challenges are what its
// WWW-Authenticate said last, nil for nothing. For CredentialUser it has S256 and an
// authorization endpoint.
func (b *Broker) serverOf(ctx context.Context, t *tenant.Tenant, u *tenant.Upstream, challenges []string) (*server, error) {
	return nil, errors.New("broker: not there yet")
}

// issuerOf gives an authorization server by its identifier alone, such as that of a
// tenant's own users; private allows all of its addresses to be private ones.
func (b *Broker) issuerOf(ctx context.Context, issuer string, private bool) (*server, error) {
	return nil, errors.New("broker: not there yet")
}
