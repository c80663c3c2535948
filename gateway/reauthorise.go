package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/auth"
	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// reauthoriseTime bounds how long a registration may take to be read anew.
const reauthoriseTime = 5 * time.Second

// grant is why a stream may be open, and for how long.
type grant struct {
	who     *auth.Caller  // nil where anybody may call
	host    *host         // of the tenant, by which it was opened; nil for one that leads to all
	revoked chan struct{} // closed when the stream has to end
	once    *sync.Once    // closes it
}

func newGrant(who *auth.Caller, of *host) grant {
	return grant{who: who, host: of, revoked: make(chan struct{}), once: new(sync.Once)}
}

// left is how long the token or key that opened the stream is good.
func (g *grant) left() time.Duration {
	if g.who == nil || g.who.Expires.IsZero() {
		return math.MaxInt64
	}
	return time.Until(g.who.Expires)
}

func (g *grant) revoke() { g.once.Do(func() { close(g.revoked) }) }

// changed is told by the store that a registration, or the keys of a tenant, changed.
// Streams whose callers may not go on end gracefully, also where that cannot be found
// out: they open another one, which says why not.
func (e *edge) changed(name string) {
	e.auth.Forget(name)
	ctx, cancel := context.WithTimeout(context.Background(), reauthoriseTime)
	defer cancel()
	e.hosts.update(ctx, name)
	var of, moved []*stream
	e.streams.mu.Lock()
	for st := range e.streams.live {
		switch {
		case st.grant.host != nil && !e.hosts.serves(st.grant.host):
			moved = append(moved, st) // its token is for a resource that is there no more
		case st.who.tenant == name:
			of = append(of, st)
		}
	}
	e.streams.mu.Unlock()
	for _, st := range moved {
		e.streams.revoke(st)
	}
	if len(of) == 0 {
		return
	}
	t, err := e.registration(ctx, name)
	if err != nil && !errors.Is(err, tenant.ErrNotFound) {
		e.log.Error("read who may still listen", "tenant", name, "error", err)
	}
	verdicts := map[*auth.Caller]bool{} // one caller may have many
	for _, st := range of {
		ok, known := verdicts[st.grant.who]
		if !known {
			ok = err == nil && e.allowed(ctx, t, st.grant.who)
			verdicts[st.grant.who] = ok
		}
		if !ok {
			e.streams.revoke(st)
		}
	}
}

// registration reads a tenant as it is registered now.
func (e *edge) registration(ctx context.Context, name string) (*tenant.Tenant, error) {
	if e.store == nil {
		return e.router.Tenant(ctx, federation.Endpoint{Tenant: name})
	}
	return e.store.Tenant(ctx, name)
}

// allowed tells whether a caller may still use a tenant; nil stands for anybody.
func (e *edge) allowed(ctx context.Context, t *tenant.Tenant, who *auth.Caller) bool {
	if who == nil {
		return anybody(t) && e.open
	}
	return e.auth.Valid(ctx, t, who)
}

// stillAllowed refuses a stream whose caller may not open it any more. It comes after
// the stream is known to changed, so that no change is missed in between.
func (x *exchange) stillAllowed(ctx context.Context) error {
	if x.host != nil && !x.edge.hosts.serves(x.host) {
		return federation.ErrNoEndpoint
	}
	t, err := x.edge.registration(ctx, x.at.Tenant)
	if err == nil && x.edge.allowed(ctx, t, x.who) {
		return nil
	}
	if err != nil && !errors.Is(err, tenant.ErrNotFound) {
		return err
	}
	if err != nil {
		return federation.ErrNoEndpoint
	}
	return &refusal{ // who tries again is told why not
		status: http.StatusServiceUnavailable, class: classAuthentication, header: retryAfter(time.Second),
		rpc: mcp.Errorf(mcp.CodeInternal, "Who may use the endpoint has just changed"),
	}
}
