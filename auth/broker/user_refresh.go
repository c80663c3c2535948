package broker

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Times of a refresh.
const (
	leaseTime = 45 * time.Second       // of the replica that refreshes: longer than all of it takes
	leaseWait = 20 * time.Second       // for one that does
	leasePoll = 200 * time.Millisecond // between looks for what it got
	tokenTime = 15 * time.Second       // for the answer of a token endpoint
	keepTime  = 10 * time.Second       // for writing what it gave, also when the process ends
	keepPause = 100 * time.Millisecond // before the second try, and twice as long before each other one
)

// errInvalidGrant is the code for a refresh token that is of no use any more (RFC 6749,
// section 5.2).
const errInvalidGrant = "invalid_grant"

// unsaved is a token that a server gave in place of another, and that is not in the
// vault yet. It is not used before.
type unsaved struct {
	from, to *userToken
	revision uint64 // of from
}

// refresh replaces a token, of which only one replica at a time asks the server. The
// new one is in the vault before anybody uses it.
func (g *grant) refresh(ctx context.Context, at *registered, old *userToken, challenges []string) error {
	lease, err := g.lease(ctx, at, old)
	if err != nil {
		return err
	}
	if lease != nil {
		defer g.release(ctx, *lease)
	}
	r, err := g.read(ctx, boundTo(at.u))
	switch {
	case err != nil:
		return err
	case r.token == nil || !same(r.token.Access, old.Access):
		return nil // somebody was faster
	}
	// What the server gives must not be lost, whoever leaves.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTime)
	defer cancel()
	got, err := g.ask(asking, at, r.token, challenges)
	var refusal *oauthError
	switch {
	case errors.As(err, &refusal) && refusal.Code == errInvalidGrant:
		err = g.dead(ctx, at, r)
		g.in.log(at.t.Name, at.u.Alias, "refresh", outcome(err, "refused"))
		return err
	case err != nil:
		g.in.log(at.t.Name, at.u.Alias, "refresh", "failed")
		return err
	}
	g.mu.Lock()
	g.unsaved = &unsaved{from: r.token, to: r.token.renewed(got, g.in.now()), revision: r.revision}
	g.mu.Unlock()
	err = g.save(ctx)
	g.in.log(at.t.Name, at.u.Alias, "refresh", outcome(err, "done"))
	return err
}

// ask asks the server that gave a token for another one.
func (g *grant) ask(ctx context.Context, at *registered, t *userToken, challenges []string) (*token, error) {
	s, err := g.in.b.serverOf(ctx, at.t, at.u, challenges)
	if err != nil {
		return nil, err
	}
	if s.Issuer != t.Issuer {
		return nil, errReconnect // it is of no use elsewhere, and nobody else may see it
	}
	c, err := g.in.b.clientOf(ctx, at.t, at.u, s)
	if err != nil {
		return nil, err
	}
	if c.ID != t.ClientID {
		return nil, errReconnect
	}
	form := url.Values{"grant_type": {grantRefresh}, "refresh_token": {t.Refresh}}
	if s.Resource != "" {
		form.Set("resource", s.Resource)
	}
	return g.in.b.tokenFrom(ctx, s, c, form)
}

// dead takes away a token that its server does not refresh any more, unless another
// replica has put a newer one in its place meanwhile.
func (g *grant) dead(ctx context.Context, at *registered, r userRecord) error {
	now, err := g.read(ctx, boundTo(at.u))
	switch {
	case err != nil:
		return err
	case now.token == nil || !same(now.token.Refresh, r.token.Refresh):
		return nil
	case now.token.valid(g.in.now()):
		// Its access token may be good until its end; nothing comes after it.
		next := *now.token
		next.Refresh = ""
		_, err = g.in.b.keep(ctx, g.key.vaultKey(kindUserToken), &next, now.revision)
	default:
		err = g.in.b.opts.Vault.DeleteSecret(ctx, g.key.vaultKey(kindUserToken), now.revision)
	}
	if err != nil && !errors.Is(err, tenant.ErrConflict) {
		return err
	}
	_, err = g.read(ctx, boundTo(at.u))
	return err
}

// save writes what a refresh gave, if there is something that is not in the vault yet.
func (g *grant) save(ctx context.Context) error {
	g.mu.Lock()
	u := g.unsaved
	g.mu.Unlock()
	if u == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	var err error
	for try := range keepTries {
		if try > 0 && !sleep(ctx, keepPause<<(try-1)) {
			break
		}
		var settled bool
		if settled, err = g.saveOnce(ctx, u); settled {
			return nil
		}
	}
	return err
}

// saveOnce tries to write a token, and tells whether nothing is left to do.
func (g *grant) saveOnce(ctx context.Context, u *unsaved) (settled bool, err error) {
	key := g.key.vaultKey(kindUserToken)
	revision, err := g.in.b.keep(ctx, key, u.to, u.revision)
	switch {
	case err == nil:
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.unsaved == u {
			g.unsaved = nil
			g.record.token, g.record.revision, g.bound = u.to, revision, u.to.Bound
		}
		return true, nil
	case !errors.Is(err, tenant.ErrConflict):
		return false, err
	}
	// Somebody has written meanwhile. Where it is the same token, sealed anew, ours
	// still comes after it. Else the user has signed in again, or withdrawn it.
	var there userToken
	revision, ok, readErr := g.in.b.kept(ctx, key, &there)
	if readErr != nil {
		return false, readErr
	}
	if ok && same(there.Refresh, u.from.Refresh) {
		u.revision = revision
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unsaved == u {
		g.unsaved = nil
	}
	g.readAt = time.Time{}
	g.record.token = nil
	if ok && there.Bound == g.bound {
		g.record.token, g.record.revision = &there, revision
	}
	return true, nil
}

// lease takes the right to refresh. It gives nil where another replica has refreshed
// meanwhile, and where leases cannot be had: then the vault alone tells two apart.
func (g *grant) lease(ctx context.Context, at *registered, old *userToken) (*cache.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseWait)
	defer cancel()
	key := g.key.vaultKey(kindUserToken)
	scope := cache.Scope{Tenant: key.Tenant, Upstream: key.Alias}
	for {
		l, ok, err := g.in.b.opts.Leases.Acquire(ctx, scope, kindUserToken+"/"+key.Name, g.in.b.holder, leaseTime)
		switch {
		case ctx.Err() != nil:
			return nil, errors.New("another replica is refreshing the token")
		case err != nil:
			g.in.b.opts.Logger.Warn("a token is refreshed without a lease", "tenant", key.Tenant, "upstream", key.Alias, "error", err)
			return nil, nil
		case ok:
			return &l, nil
		}
		if !sleep(ctx, leasePoll) {
			return nil, errors.New("another replica is refreshing the token")
		}
		r, err := g.read(ctx, boundTo(at.u))
		if err != nil {
			return nil, err
		}
		if r.token == nil || !same(r.token.Access, old.Access) {
			return nil, nil
		}
	}
}

func (g *grant) release(ctx context.Context, l cache.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := g.in.b.opts.Leases.Release(ctx, l); err != nil {
		g.in.b.opts.Logger.Warn("a lease cannot be given back: it ends by itself", "tenant", l.Scope.Tenant, "upstream", l.Scope.Upstream, "error", err)
	}
}

// sleep waits, and tells whether it was not cut short.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outcome gives the word for the log.
func outcome(err error, good string) string {
	if err != nil {
		return "failed"
	}
	return good
}

// log tells of something that an auditor wants to know.
func (in *signIns) log(t, alias, what, outcome string) {
	in.b.opts.Logger.Info("user sign-in", "event", what, "tenant", t, "upstream", alias, "outcome", outcome)
}
