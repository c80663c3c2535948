package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/lru"
	"github.com/causeway-mcp/causeway/auth/work"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

const (
	// DefaultFailuresPerMinute bounds the failures of one source address.
	DefaultFailuresPerMinute = 60

	// verifiedFor is how long a verified token is remembered at most.
	verifiedFor = 5 * time.Minute
	// maxVerified bounds the remembered tokens and keys, in bytes of what they say.
	maxVerified = 64 << 20
	// verifiedOverhead is what one is counted with besides its texts.
	verifiedOverhead = 600
)

// Options are what an Authenticator needs. Client, Registerer and Logger are required.
type Options struct {
	Keys Keys // nil where there are no API keys
	// Secrets opens secrets of issuers; nil where none has any.
	Secrets func(tenant.Secret) ([]byte, error)
	// Client gives the client for what issuers publish, which checks the addresses
	// that it dials; private ones are allowed where private is true.
	Client func(private bool) *http.Client
	// FailuresPerMinute bounds the failures of one source address; 0 means
	// DefaultFailuresPerMinute.
	FailuresPerMinute int
	Registerer        prometheus.Registerer
	Logger            *slog.Logger
	Now               func() time.Time // nil means time.Now
}

func (o *Options) validate() error {
	var faults []error
	for _, need := range []struct {
		name    string
		missing bool
	}{{"Client", o.Client == nil}, {"Registerer", o.Registerer == nil}, {"Logger", o.Logger == nil}} {
		if need.missing {
			faults = append(faults, errors.New(need.name+" is required"))
		}
	}
	if o.FailuresPerMinute < 0 {
		faults = append(faults, errors.New("FailuresPerMinute must not be negative"))
	}
	return errors.Join(faults...)
}

// Authenticator finds out who sends requests. It is safe for concurrent use.
type Authenticator struct {
	keys    Keys
	secrets func(tenant.Secret) ([]byte, error)
	client  func(private bool) *http.Client
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics
	limits  *limiter
	pages   *limiter
	work    *work.Group
	touches *touches

	mu      sync.Mutex // guards the realms, the servers and epochs
	realms  *lru.Cache[string, *realm]
	servers *lru.Cache[serverID, *server]
	epochs  uint64

	seenMu sync.Mutex
	seen   *lru.Cache[shown, verified]

	askMu   sync.Mutex
	answers *lru.Cache[question, answer]
	asked   map[question]*asking
}

// shown is a credential at an endpoint, under one configuration.
type shown struct {
	mark             [sha256.Size]byte
	under            digest
	tenant, resource string
}

// verified is who showed it. It is kept after its time: what was good once is no guess.
type verified struct {
	caller *Caller
	until  time.Time
	epoch  uint64 // of the realm, for keys
}

// New makes an Authenticator.
func New(o Options) (*Authenticator, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FailuresPerMinute == 0 {
		o.FailuresPerMinute = DefaultFailuresPerMinute
	}
	if o.Secrets == nil {
		o.Secrets = func(tenant.Secret) ([]byte, error) { return nil, errors.New("there are no secrets here") }
	}
	return &Authenticator{
		keys: o.Keys, secrets: o.Secrets, client: o.Client, log: o.Logger, now: o.Now,
		metrics: newMetrics(o.Registerer), limits: newLimiter(o.FailuresPerMinute, o.Now), pages: newLimiter(o.FailuresPerMinute, o.Now),
		work:    work.New(),
		touches: &touches{keys: o.Keys, log: o.Logger, pending: map[touched]time.Time{}},
		realms:  lru.New[string, *realm](maxRealms), servers: lru.New[serverID, *server](maxServers),
		seen:    lru.New[shown, verified](maxVerified),
		answers: lru.New[question, answer](maxAnswers), asked: map[question]*asking{},
	}, nil
}

// Close ends what runs in the background and waits for it.
func (a *Authenticator) Close() { a.work.Close() }

// Authenticate finds out who sends a request. The error is a *Refusal, which holds
// nothing of what was shown. Where anybody may call, nothing is looked at.
func (a *Authenticator) Authenticate(ctx context.Context, req *Request) (*Caller, error) {
	t := req.Tenant
	if anybody(t) {
		return &Caller{Principal: tenant.Principal{Tenant: t.Name}}, nil
	}
	token, why := credential(req.HTTP)
	if why != "" {
		return nil, a.refuse(req, why)
	}
	r := a.realm(t)
	c, why := a.find(ctx, req, r, token)
	switch {
	case why == reasonRate:
		refusal := a.refuse(req, why)
		refusal.RetryAfter = max(refusal.RetryAfter, a.limits.wait(req.Source))
		return nil, refusal
	case why == reasonUnavailable && ctx.Err() != nil: // the client left, which is no failure
		return nil, &Refusal{Status: http.StatusServiceUnavailable, Reason: string(why)}
	case why != "":
		return nil, a.refuse(req, why)
	case lacks(c, t.Auth.Scopes, req.Scopes):
		return nil, a.Lacking(req, c, nil)
	}
	return c, nil
}

// Lacking makes the answer to a request whose caller lacks scopes for what it asks for,
// as InsufficientScope does. A key cannot be given more scopes by signing in: whoever
// shows one is told which are needed, and of no metadata, which would have clients throw
// the key away for a token. c is nil for anybody.
func (a *Authenticator) Lacking(req *Request, c *Caller, missing []string) *Refusal {
	of := *req
	if c != nil && c.Key != "" {
		of.Metadata = ""
	}
	return a.InsufficientScope(req.Tenant, &of, missing)
}

// Pause tells for how long a source may not open pages of the gateway's own, after too
// many failures there; 0 when it may. Failures to authenticate are counted apart.
func (a *Authenticator) Pause(source netip.Addr) time.Duration { return a.pages.wait(source) }

// Failed counts a failure of a source at such a page.
func (a *Authenticator) Failed(source netip.Addr) { a.pages.failed(source) }

func anybody(t *tenant.Tenant) bool { return t.Auth.Mode == "" || t.Auth.Mode == tenant.AuthNone }

// find finds who shows a credential: from memory, or by verifying it. Sources with too
// many failures may show what is remembered only.
func (a *Authenticator) find(ctx context.Context, req *Request, r *realm, token string) (*Caller, reason) {
	at := shown{sha256.Sum256([]byte(token)), r.digest, req.Tenant.Name, req.Resource}
	a.seenMu.Lock()
	known, ok := a.seen.Get(at)
	a.seenMu.Unlock()
	now := a.now()
	if ok && now.Before(known.until) && (known.caller.Key == "" || known.epoch == r.epoch) {
		return known.caller, ""
	}
	if !ok && a.limits.wait(req.Source) > 0 {
		return nil, reasonRate
	}
	c, until, why := a.verify(ctx, req, r, token, at.mark)
	a.seenMu.Lock()
	defer a.seenMu.Unlock()
	switch {
	case why == "":
		c.Mark = at.mark
		a.seen.Put(at, verified{c, until, r.epoch}, sizeOf(c))
	case why != reasonUnavailable:
		a.seen.Remove(at)
		if !ok && why.guess() {
			a.limits.failed(req.Source)
		}
	}
	return c, why
}

// verify finds who shows a credential that is not remembered, and for how long to
// remember it.
func (a *Authenticator) verify(ctx context.Context, req *Request, r *realm, token string, mark [32]byte) (*Caller, time.Time, reason) {
	var c *Caller
	var until time.Time
	why := reasonMalformed
	head, payload, signed := isJWT(token)
	switch {
	case isKey(token):
		c, why = a.byKey(ctx, r, token, mark)
		until = a.now().Add(keyFresh)
	case req.Tenant.Auth.Mode != tenant.AuthOAuth:
	case signed:
		var t *jwt
		if t, why = parseJWT(token, payload, head); why == "" {
			c, why = a.byJWT(ctx, req, r, t)
		}
		until = a.now().Add(verifiedFor)
	case r.opaque != nil:
		c, until, why = a.byIntrospection(ctx, req, r, token, mark)
	}
	if why != "" {
		return nil, time.Time{}, why
	}
	if !c.Expires.IsZero() && c.Expires.Before(until) {
		until = c.Expires
	}
	return c, until, ""
}

func sizeOf(c *Caller) int {
	size := verifiedOverhead + len(c.Principal.Subject) + len(c.Principal.ClientID)
	for _, list := range [][]string{c.Principal.Scopes, c.Principal.Groups} {
		for _, s := range list {
			size += len(s) + 16
		}
	}
	return size
}

// Valid tells whether a caller that Authenticate gave would still be one under this
// registration: that the token has not expired, its issuer is configured as it was and
// the tenant needs no scope that it lacks; or that the key is still there, for the same
// principal. It asks no issuer.
func (a *Authenticator) Valid(ctx context.Context, t *tenant.Tenant, c *Caller) bool {
	switch {
	case c.Principal.Tenant != t.Name, !c.Expires.IsZero() && !a.now().Before(c.Expires):
		return false
	case anybody(t):
		return c.Mark == [32]byte{}
	case c.Mark == [32]byte{}, lacks(c, t.Auth.Scopes):
		return false
	}
	r := a.realm(t)
	if c.Key != "" {
		return a.validKey(ctx, r, c)
	}
	if t.Auth.Mode != tenant.AuthOAuth {
		return false
	}
	for _, is := range r.issuers {
		if is.digest == c.under {
			return true
		}
	}
	return false
}

func (a *Authenticator) validKey(ctx context.Context, r *realm, c *Caller) bool {
	if a.keys == nil {
		return false
	}
	k, err := a.keys.Key(ctx, r.from.Name, c.Key)
	return err == nil && subtle.ConstantTimeCompare(k.Hash, c.Mark[:]) == 1 && !keyExpired(&k, a.now()) &&
		reflect.DeepEqual(r.principalOf(&k), c.Principal)
}
