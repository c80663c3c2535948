package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
)

// Kinds of values that are kept for users.
const (
	kindUserToken   = "user_token"
	kindUserConsent = "user_consent"
)

// maxConsents bounds the clients that a user agrees to for one upstream; the oldest
// consent goes first.
const maxConsents = 64

// userToken is what a user has let the gateway have: tokens of one authorization
// server for one upstream.
type userToken struct {
	Bound    string `json:"bound"`  // to what: see boundTo
	Issuer   string `json:"issuer"` // who gave it
	ClientID string `json:"client"` // to which client, which is the gateway
	Access   string `json:"access"`
	Refresh  string `json:"refresh,omitempty"`

	SignedIn time.Time `json:"signedIn"` // when the user did
	Obtained time.Time `json:"obtained"`
	Expires  time.Time `json:"expires"`
	// Unsaid is that of token.
	Unsaid bool     `json:"unsaid,omitzero"`
	Scopes []string `json:"scopes,omitempty"`
	Asked  []string `json:"asked,omitempty"` // scopes that the user was asked for
}

// refreshAhead is how long before its end a token is replaced, where it lives long
// enough; else a quarter of its life.
const refreshAhead = time.Minute

// valid tells whether the token may be shown to the upstream. One whose end nobody has
// told is good until it is refused.
func (t *userToken) valid(now time.Time) bool { return t.Unsaid || now.Before(t.Expires) }

// due tells whether the token should be replaced.
func (t *userToken) due(now time.Time) bool {
	ahead := min(refreshAhead, t.Expires.Sub(t.Obtained)/4)
	return t.Refresh != "" && !now.Before(t.Expires.Add(-ahead))
}

// covers tells whether the user was asked for all these scopes.
func (t *userToken) covers(scopes []string) bool {
	return !slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(t.Asked, s) && !slices.Contains(t.Scopes, s) })
}

// renewed gives what is to be kept in place of t after a refresh. A server that gives
// no new refresh token means the old one to be used again (RFC 6749, section 6).
func (t *userToken) renewed(got *token, now time.Time) *userToken {
	next := *t
	next.Access, next.Obtained, next.Expires, next.Unsaid = got.Access, now, got.Expires, got.Unsaid
	if got.Refresh != "" {
		next.Refresh = got.Refresh
	}
	if len(got.Scopes) > 0 {
		next.Scopes = got.Scopes
	}
	return &next
}

// boundTo stands for what of an upstream's registration a user has agreed to: where
// this changes, tokens and consents count no more.
func boundTo(u *tenant.Upstream) string {
	return digest(string(u.Auth.Mode), u.URL, u.Auth.Issuer, u.Auth.TokenURL, u.Auth.Resource)
}

// digest gives a name for a list of texts, the same for no other list.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		sum := sha256.Sum256([]byte(text))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// consents are the clients that may use a user's token.
type consents struct {
	Bound   string    `json:"bound"`
	Clients []consent `json:"clients"` // the latest last
}

type consent struct {
	Client string    `json:"client"`
	Since  time.Time `json:"since"`
}

func (c *consents) has(client string) bool {
	return slices.ContainsFunc(c.Clients, func(one consent) bool { return one.Client == client })
}

// vaultKey gives where something of a user is kept.
func (k userKey) vaultKey(kind string) tenant.VaultKey {
	return tenant.VaultKey{Tenant: k.tenant, Alias: k.alias, Kind: kind, Name: digest(k.issuer, k.subject)}
}

// userRecord is all that is kept of a user for an upstream.
type userRecord struct {
	token    *userToken // nil for none
	revision uint64     // of the token's value, also of one that cannot be read
	consents consents
}

// record reads what is kept of a user. What is bound to another registration of the
// upstream is not there.
func (b *Broker) record(ctx context.Context, k userKey, bound string) (userRecord, error) {
	var r userRecord
	var t userToken
	revision, ok, err := b.kept(ctx, k.vaultKey(kindUserToken), &t)
	if err != nil {
		return r, err
	}
	r.revision = revision
	if ok && t.Bound == bound {
		r.token = &t
	}
	if _, ok, err = b.kept(ctx, k.vaultKey(kindUserConsent), &r.consents); err != nil {
		return r, err
	}
	if !ok || r.consents.Bound != bound {
		r.consents = consents{Bound: bound}
	}
	return r, nil
}

// keepTries is how often a value is written when others write it at the same time.
const keepTries = 5

// agree keeps that a user has agreed to a client.
func (b *Broker) agree(ctx context.Context, k userKey, bound, client string, now time.Time) error {
	key := k.vaultKey(kindUserConsent)
	for try := 1; ; try++ {
		var c consents
		revision, ok, err := b.kept(ctx, key, &c)
		if err != nil {
			return err
		}
		if !ok || c.Bound != bound {
			c = consents{Bound: bound}
		}
		c.Clients = slices.DeleteFunc(c.Clients, func(one consent) bool { return one.Client == client })
		c.Clients = append(c.Clients, consent{client, now})
		c.Clients = c.Clients[max(0, len(c.Clients)-maxConsents):]
		if _, err = b.keep(ctx, key, &c, revision); err == nil || try == keepTries {
			return err
		}
	}
}

// replaceToken keeps a token that a user has just let the gateway have.
func (b *Broker) replaceToken(ctx context.Context, k userKey, t *userToken) error {
	key := k.vaultKey(kindUserToken)
	for try := 1; ; try++ {
		var old userToken
		revision, _, err := b.kept(ctx, key, &old)
		if err != nil {
			return err
		}
		if _, err = b.keep(ctx, key, t, revision); err == nil || try == keepTries {
			return err
		}
	}
}
