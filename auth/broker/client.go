package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Paths below Options.PublicURL, where Handler serves them.
const (
	clientPath   = "/oauth/client.json" // the gateway's Client ID Metadata Document
	callbackPath = "/oauth/callback"    // where authorization servers send users back to
)

// gatewayName is how the gateway calls itself where it registers.
const gatewayName = "Causeway"

// Ways in which a client authenticates itself at a token endpoint (RFC 7591, section 2).
const (
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodNone  = "none"
)

// client is what the gateway is to one authorization server.
type client struct {
	ID, Secret string
	Method     string // of authentication at the token endpoint: client_secret_basic, client_secret_post or none

	made *registration // nil where the gateway did not register itself
}

// clientOf gives the gateway's registration at a server: the configured one, its
// metadata document, or one that it makes (RFC 7591). None is used at another server.
func (b *Broker) clientOf(ctx context.Context, t *tenant.Tenant, u *tenant.Upstream, s *server) (*client, error) {
	conf := &u.Auth
	switch way := conf.Registration; {
	case way == tenant.RegistrationStatic, way == "" && conf.ClientID != "":
		return b.staticClient(conf, s)
	case way == tenant.RegistrationMetadata, way == "" && s.ClientIDMetadata && b.hasClientID() && conf.Mode == tenant.CredentialUser:
		return b.metadataClient(conf.Mode)
	case way == "" && s.RegistrationEndpoint == "":
		return nil, errors.New("the authorization server registers nobody: the upstream needs a clientID")
	}
	return b.dynamicClient(ctx, t, conf, s)
}

// staticClient gives the configured client. It belongs to one server (2026-07-28,
// basic/authorization/client-registration, Authorization Server Binding): that has to
// be configured too, since an upstream could else name a server of its own and be
// shown the secret.
func (b *Broker) staticClient(conf *tenant.Credential, s *server) (*client, error) {
	if conf.ClientID == "" {
		return nil, errors.New("the upstream has no clientID")
	}
	if conf.TokenURL == "" && (conf.Issuer == "" || conf.Issuer != s.Issuer) {
		return nil, errors.New("a clientID needs the issuer that it belongs to")
	}
	c := &client{ID: conf.ClientID}
	if !conf.ClientSecret.IsZero() {
		secret, err := b.opts.Secrets(conf.ClientSecret)
		if err != nil {
			return nil, fmt.Errorf("client secret: %w", err)
		}
		c.Secret = string(secret)
	}
	return c, c.choose(s.AuthMethods)
}

// choose chooses how the client authenticates itself by what a server supports, where
// nothing means client_secret_basic (RFC 8414, section 2). A client without a secret
// just names itself, as each server has to let those that are public do.
func (c *client) choose(supported []string) error {
	switch {
	case c.Secret == "":
		c.Method = methodNone
	case len(supported) == 0 || slices.Contains(supported, methodBasic):
		c.Method = methodBasic
	case slices.Contains(supported, methodPost):
		c.Method = methodPost
	default:
		return errors.New("the authorization server takes client secrets neither by client_secret_basic nor by client_secret_post")
	}
	return nil
}

// request makes a request to an endpoint of the server that knows the client, with how
// the client authenticates itself (RFC 6749, section 2.3.1). It leaves form as it is.
func (c *client) request(ctx context.Context, to string, form url.Values) (*http.Request, error) {
	sent := maps.Clone(form)
	switch c.Method {
	case methodPost:
		sent.Set("client_id", c.ID)
		sent.Set("client_secret", c.Secret)
	case methodNone:
		sent.Set("client_id", c.ID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(sent.Encode()))
	if err != nil {
		return nil, errors.New("the endpoint of the authorization server is not a URL")
	}
	if c.Method == methodBasic {
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// clientID gives the URL of the gateway's Client ID Metadata Document.
func (b *Broker) clientID() string { return strings.TrimSuffix(b.opts.PublicURL, "/") + clientPath }

// hasClientID tells whether servers can be expected to read the document: it must be at
// an https URL.
func (b *Broker) hasClientID() bool { return strings.HasPrefix(b.opts.PublicURL, "https://") }

// redirectURI is where authorization servers send users back to.
func (b *Broker) redirectURI() string {
	return strings.TrimSuffix(b.opts.PublicURL, "/") + callbackPath
}

func (b *Broker) metadataClient(mode tenant.CredentialMode) (*client, error) {
	switch {
	case !b.hasClientID():
		return nil, errors.New("a client ID metadata document needs an https publicURL")
	case mode != tenant.CredentialUser:
		return nil, fmt.Errorf("a client ID metadata document is of no use for %s, which needs a secret", mode)
	}
	return &client{ID: b.clientID(), Method: methodNone}, nil
}

// clientMetadata is what the gateway says of itself as a client (RFC 7591, section 2;
// OAuth Client ID Metadata Document, section 4).
type clientMetadata struct {
	ClientID        string   `json:"client_id,omitzero"` // where the document itself is; none in a registration
	ClientName      string   `json:"client_name"`
	ClientURI       string   `json:"client_uri,omitzero"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type,omitzero"`
	Scope           string   `json:"scope,omitzero"`
}

// serveClientMetadata serves the gateway's Client ID Metadata Document (2026-07-28,
// basic/authorization/client-registration): the same for all tenants and servers.
func (b *Broker) serveClientMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	if b.signIns.site.root == "" {
		http.NotFound(w, r)
		return
	}
	raw, err := json.Marshal(clientMetadata{
		ClientID: b.clientID(), ClientName: gatewayName, ClientURI: b.opts.PublicURL, RedirectURIs: []string{b.redirectURI()},
		GrantTypes: []string{grantCode, grantRefresh}, ResponseTypes: []string{"code"}, AuthMethod: methodNone,
	})
	if err != nil {
		panic(err) // strings always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodGet {
		_, _ = w.Write(raw) // a client that left is no error
	}
}
