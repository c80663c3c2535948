package broker

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Sharing of the gateway's own tokens between replicas.
const (
	tokenPurpose = "upstream token" // what they are sealed for
	tokenLease   = "token"          // of the replica that gets one
	shareTime    = 10 * time.Second // that it may take for it
)

// clientSource shows tokens that the gateway gets for itself (CredentialClient; RFC
// 6749, section 4.4). The replicas share one token.
type clientSource struct {
	asker
	keeper *keeper
	key    string // of the shared token
}

func newClientSource(b *Broker, t *tenant.Tenant, u *tenant.Upstream) *clientSource {
	k := keyOf(t, u)
	s := &clientSource{
		asker: asker{b: b, t: t, u: u},
		key:   "credential:" + digest(k.tenant, k.alias, k.version, k.managedBy),
	}
	s.keeper = &keeper{b: b, get: s.get, log: s.failed}
	return s
}

// Credential implements Source.
func (s *clientSource) Credential(ctx context.Context) (http.Header, error) {
	t, err := s.keeper.current(ctx)
	if err != nil {
		return nil, err
	}
	return bearerHeader(t.Access), nil
}

// Refused implements Source. A token that lacks a scope is not replaced: the next one
// would lack it too.
func (s *clientSource) Refused(_ context.Context, sent http.Header, status int, challenges []string) (bool, error) {
	if status != http.StatusUnauthorized {
		return false, nil
	}
	s.heard(challenges)
	return s.keeper.refuse(shownBy(sent)), nil
}

// get gives the token that the replicas share, or gets one for all of them. Where the
// shared state cannot be had, each replica gets its own.
func (s *clientSource) get(ctx context.Context, refused mark) (*token, error) {
	if t := s.stored(ctx, refused); t != nil {
		return t, nil
	}
	lease, held := s.lease(ctx)
	if held {
		defer s.release(ctx, lease)
	}
	if t := s.stored(ctx, refused); t != nil {
		return t, nil
	}
	t, err := s.token(ctx, url.Values{"grant_type": {grantClient}})
	if err != nil {
		return nil, err
	}
	s.store(ctx, t)
	return t, nil
}

// lease takes the lease on getting the token, or waits for another replica to end.
func (s *clientSource) lease(ctx context.Context) (cache.Lease, bool) {
	scope := cache.Scope{Tenant: s.t.Name, Upstream: s.u.Alias}
	until := time.NewTimer(shareTime)
	defer until.Stop()
	poll := time.NewTicker(leasePoll)
	defer poll.Stop()
	for {
		l, ok, err := s.b.opts.Leases.Acquire(ctx, scope, tokenLease, s.b.holder, shareTime)
		if err != nil || ok {
			return l, ok
		}
		select {
		case <-poll.C:
		case <-until.C:
			return l, false
		case <-ctx.Done():
			return l, false
		}
	}
}

// release gives the lease back, also when the time for the token is over.
func (s *clientSource) release(ctx context.Context, l cache.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.b.opts.Leases.Release(ctx, l) // else it ends by itself
}

// stored gives the shared token; nil where there is none that is of use for a while and
// not the refused one.
func (s *clientSource) stored(ctx context.Context, refused mark) *token {
	sealed, err := s.b.opts.Values.Get(ctx, s.key)
	if err != nil || sealed == nil {
		return nil
	}
	t := s.opened(sealed)
	if now := s.b.now(); !t.usable(now) || t.due(now) || refused.is(t.Access) {
		return nil
	}
	return t
}

func (s *clientSource) opened(sealed []byte) *token {
	plain, err := s.b.opts.Ring.Open(tokenPurpose, string(sealed), []byte(s.key))
	t := &token{}
	if err != nil || json.Unmarshal(plain, t) != nil {
		return nil
	}
	return t
}

// store shares a token.
func (s *clientSource) store(ctx context.Context, t *token) {
	plain, err := json.Marshal(t)
	if err != nil {
		panic(err) // texts and times always encode
	}
	sealed := []byte(s.b.opts.Ring.Seal(tokenPurpose, plain, []byte(s.key)))
	err = s.b.opts.Values.Update(ctx, s.key, t.Expires.Sub(s.b.now()), func([]byte) ([]byte, error) { return sealed, nil })
	if err != nil {
		s.b.opts.Logger.Debug("cannot share a token with other replicas", "tenant", s.t.Name, "upstream", s.u.Alias, "error", err)
	}
}

// asker asks the authorization server of one upstream for tokens.
type asker struct {
	b *Broker
	t *tenant.Tenant
	u *tenant.Upstream

	mu     sync.Mutex
	scopes []string // that the upstream said it needs when it refused a request last
}

// maxSaid bounds the scopes that are kept of what an upstream said, in bytes.
const maxSaid = 1 << 10

// heard keeps what the upstream said when it refused a request.
func (a *asker) heard(challenges []string) {
	a.b.recheck(a.t, a.u, challenges)
	said := bearerOf(challenges).Scopes
	if len(strings.Join(said, " ")) > maxSaid {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scopes = said
}

func (a *asker) said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.scopes
}

// failed logs an attempt that failed.
func (a *asker) failed(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	a.b.opts.Logger.Warn("cannot get a token for an upstream", "tenant", a.t.Name, "upstream", a.u.Alias, "mode", string(a.u.Auth.Mode), "error", err)
}

// token asks for one, for the upstream's resource and the scopes that it needs. When
// the server does not know the client that the gateway has registered, it registers
// anew, once.
func (a *asker) token(ctx context.Context, form url.Values) (*token, error) {
	s, err := a.b.serverOf(ctx, a.t, a.u, nil)
	if err != nil {
		return nil, err
	}
	// 2026-07-28, basic/authorization, Resource Parameter Implementation.
	form.Set("resource", s.Resource)
	if scopes := scopesFor(&a.u.Auth, a.said(), s); len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	for again := true; ; again = false {
		c, err := a.b.clientOf(ctx, a.t, a.u, s)
		if err != nil {
			return nil, err
		}
		t, err := a.b.tokenFrom(ctx, s, c, form)
		if refused, ok := errors.AsType[*oauthError](err); again && ok && refused.Code == codeInvalidClient && c.made != nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		t.Refresh, t.ID = "", "" // the same request gives another one
		return t, nil
	}
}

// scopesFor gives what to ask for (2026-07-28, basic/authorization, Scope Selection
// Strategy): what is configured, else what the upstream has said that it needs, else
// what its metadata names.
func scopesFor(conf *tenant.Credential, said []string, s *server) []string {
	switch {
	case len(conf.Scopes) > 0:
		return conf.Scopes
	case len(said) > 0:
		return said
	}
	return s.ScopesSupported
}
