package broker

import (
	"context"
	"errors"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Paths below Options.PublicURL, where Handler serves them.
const (
	clientPath   = "/oauth/client.json" // the gateway's Client ID Metadata Document
	callbackPath = "/oauth/callback"    // where authorization servers send users back to
)

// client is what the gateway is to one authorization server.
type client struct {
	ID, Secret string
	Method     string // of authentication at the token endpoint: client_secret_basic, client_secret_post or none
}

// clientOf gives the gateway's registration at a server: the configured one, its
// metadata document, or one that it makes (RFC 7591). None is used at another server.
func (b *Broker) clientOf(ctx context.Context, t *tenant.Tenant, u *tenant.Upstream, s *server) (*client, error) {
	return nil, errors.New("broker: not there yet")
}
