package broker

import (
	"context"
	"errors"
	"net/http"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Bounds of the sources that are kept of the gateway itself and of users whose tokens
// are exchanged, in bytes; what was not used for the longest time goes first, and with
// it its token, which the next request gets anew.
const (
	maxSources  = 64 << 20
	sourceBytes = 2 << 10 // that one is counted with besides its tokens
)

// Source gives what one upstream is shown of who calls: of one user, or of all. It is
// what package upstream wants of one; values are pointers and comparable.
type Source interface {
	// Credential gives header lines for one request, without waiting where they are
	// known. A *ConsentError tells that the user has to go to a page first.
	Credential(ctx context.Context) (http.Header, error)
	// Refused tells that the upstream refused a request with these lines by 401 or
	// 403, with what its WWW-Authenticate said. again is true when another attempt
	// with new ones makes sense; an error is like that of Credential.
	Refused(ctx context.Context, sent http.Header, status int, challenges []string) (again bool, err error)
}

// sourceKey is who is shown: one user, or nobody's key for the gateway itself.
type sourceKey struct {
	upstreamKey
	user string
}

// Source gives what an upstream is shown of who calls; nil where that is nobody, or
// what the client itself sends. who is nil for the gateway's own requests, which have
// no credentials where Credential.PerUser tells that users have their own. The same
// upstream and user give the same Source as long as it is used and nothing of the
// upstream's configuration changes. That of CredentialExchange has Take(token string,
// expires time.Time), which is told what its user shows the gateway.
func (b *Broker) Source(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) Source {
	key := sourceKey{upstreamKey: keyOf(t, u)}
	switch u.Auth.Mode {
	case "", tenant.CredentialNone, tenant.CredentialForward:
		return nil
	case tenant.CredentialUser:
		return b.userSource(t, u, who)
	case tenant.CredentialExchange:
		if who == nil || who.Key() == "" {
			return b.nobody
		}
		// A token that grants less is not to get what another one was exchanged for.
		key.user = who.GrantKey()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.sources.Get(key)
	if !ok {
		s = b.newSource(key, t, u)
		b.sources.Put(key, s, sourceBytes)
	}
	return s
}

// weigh tells how large a source is by now.
func (b *Broker) weigh(key sourceKey, s Source, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if kept, ok := b.sources.Get(key); ok && kept == s {
		b.sources.Put(key, s, sourceBytes+tokens)
	}
}

func (b *Broker) newSource(key sourceKey, t *tenant.Tenant, u *tenant.Upstream) Source {
	switch u.Auth.Mode {
	case tenant.CredentialBearer, tenant.CredentialHeaders:
		return &fixedSource{b: b, conf: u.Auth}
	case tenant.CredentialClient:
		return newClientSource(b, t, u)
	case tenant.CredentialExchange:
		return newExchangeSource(b, key, t, u)
	}
	return b.nobody // a mode that no registration can have
}

var errNoUser = errors.New("this upstream is for users that are known, and the caller is none")

// nobodySource is for callers who have nothing to show.
type nobodySource struct{ _ byte }

// Credential implements Source.
func (*nobodySource) Credential(context.Context) (http.Header, error) { return nil, errNoUser }

// Refused implements Source.
func (*nobodySource) Refused(context.Context, http.Header, int, []string) (bool, error) {
	return false, nil
}
