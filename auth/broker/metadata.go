package broker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
)

// maxList bounds the lists in metadata.
const maxList = 1 << 10

// serverDocument is what is used of an authorization server's metadata (RFC 8414,
// section 2; RFC 9207, section 3; OAuth Client ID Metadata Document, section 5).
type serverDocument struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	ScopesSupported       []string `json:"scopes_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ClientIDMetadata      bool     `json:"client_id_metadata_document_supported"`
}

// parseServer reads the metadata of an authorization server. It is not used unless it
// names exactly the issuer that was asked for (RFC 8414, section 3.3), and none of its
// addresses may be one that cannot be used. Errors hold no text of the document.
func parseServer(raw []byte, issuer string, t trust) (*server, error) {
	var d serverDocument
	if json.Unmarshal(raw, &d) != nil {
		return nil, errors.New("is not metadata (RFC 8414, section 2)")
	}
	if d.Issuer != issuer || issuer == "" {
		return nil, errors.New("is that of another issuer")
	}
	for _, e := range []struct{ name, address string }{
		{"authorization_endpoint", d.AuthorizationEndpoint}, {"token_endpoint", d.TokenEndpoint},
		{"registration_endpoint", d.RegistrationEndpoint}, {"revocation_endpoint", d.RevocationEndpoint},
		{"jwks_uri", d.JWKSURI},
	} {
		if e.address == "" {
			continue
		}
		if err := t.endpoint(e.address); err != nil {
			return nil, fmt.Errorf("%s %w", e.name, err)
		}
	}
	if len(d.ScopesSupported) > maxList || len(d.AuthMethods) > maxList || len(d.ChallengeMethods) > maxList {
		return nil, fmt.Errorf("has a list of more than %d", maxList)
	}
	return &server{
		Issuer: d.Issuer, AuthorizationEndpoint: d.AuthorizationEndpoint, TokenEndpoint: d.TokenEndpoint,
		RegistrationEndpoint: d.RegistrationEndpoint, RevocationEndpoint: d.RevocationEndpoint, JWKSURI: d.JWKSURI,
		IssParameter: d.IssParameter, ClientIDMetadata: d.ClientIDMetadata,
		S256:          slices.Contains(d.ChallengeMethods, "S256"),
		OfflineAccess: slices.Contains(d.ScopesSupported, "offline_access"),
		AuthMethods:   knownMethods(d.AuthMethods), trust: t,
	}, nil
}

// knownMethods gives those ways of authentication of a list that are known here, so that
// nothing is kept of a list but that; one that nobody knows where there is no other.
func knownMethods(list []string) []string {
	var known []string
	for _, method := range []string{methodBasic, methodPost, methodNone} {
		if slices.Contains(list, method) {
			known = append(known, method)
		}
	}
	if known == nil && len(list) > 0 {
		return []string{"unknown"}
	}
	return known
}

// resource is what an upstream says of itself (RFC 9728, section 2).
type resource struct {
	ID      string // its resource identifier
	Servers []string
	Scopes  []string
}

// maxAuthorizationServers bounds the servers of one resource.
const maxAuthorizationServers = 16

// parseResource reads the metadata of the resource at an address. It is not used
// unless it is of that resource (RFC 9728, section 3.3; see covers), or of the one that
// the registration names. Errors hold no text of the document.
func parseResource(raw []byte, address, configured string) (*resource, error) {
	var d struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	if json.Unmarshal(raw, &d) != nil {
		return nil, errors.New("is not metadata (RFC 9728, section 2)")
	}
	switch {
	case len(d.Resource) > maxAddress || d.Resource == "" || d.Resource != configured && !covers(d.Resource, address):
		return nil, errors.New("is that of another resource")
	case len(d.Servers) == 0:
		return nil, errors.New("names no authorization server")
	case len(d.Servers) > maxAuthorizationServers:
		return nil, fmt.Errorf("names more than %d authorization servers", maxAuthorizationServers)
	case slices.ContainsFunc(d.Servers, func(s string) bool { return len(s) > maxAddress }):
		return nil, errors.New("names an authorization server by what is too long for an address")
	case len(d.Scopes) > maxList:
		return nil, fmt.Errorf("has a list of more than %d", maxList)
	}
	return &resource{d.Resource, d.Servers, cleanScopes(d.Scopes)}, nil
}
