package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
)

// jwt is a token taken apart. Nothing of it is to be believed before its signature is
// verified.
type jwt struct {
	raw      string
	alg, kid string
	typ      string // in lower case, without application/
	critical bool   // whether it has extensions that must be understood
	payload  []byte
	claims   claims
}

// isJWT tells whether a token has the form of a signed JWT in compact serialisation
// (RFC 7515, section 3.1), and takes its header apart.
func isJWT(token string) (head claims, payload string, ok bool) {
	first, rest, _ := strings.Cut(token, ".")
	payload, signature, two := strings.Cut(rest, ".")
	if !two || strings.Contains(signature, ".") {
		return nil, "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(first)
	if err != nil {
		return nil, "", false
	}
	head, ok = parseClaims(raw)
	return head, payload, ok && head.has("alg")
}

// parseJWT takes a token apart whose header is known.
func parseJWT(token, payload string, head claims) (*jwt, reason) {
	t := &jwt{raw: token, critical: head.has("crit") || head.has("b64")}
	var ok1, ok2, ok3 bool
	t.alg, ok1 = head.text("alg")
	t.kid, ok2 = head.text("kid")
	t.typ, ok3 = head.text("typ")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if !ok1 || !ok2 || !ok3 || err != nil {
		return nil, reasonMalformed
	}
	t.typ = strings.TrimPrefix(strings.ToLower(t.typ), "application/")
	t.payload = raw
	if t.claims, ok1 = parseClaims(raw); !ok1 {
		return nil, reasonMalformed
	}
	return t, ""
}

// byJWT finds the caller who shows a JWT. Issuers that are configured more than once
// are tried one after the other.
func (a *Authenticator) byJWT(ctx context.Context, req *Request, r *realm, t *jwt) (*Caller, reason) {
	name, ok := t.claims.text("iss")
	if !ok {
		return nil, reasonMalformed
	}
	why := reasonIssuer
	for _, is := range r.issuers {
		if name == "" || is.Issuer.Issuer != name {
			continue
		}
		var c *Caller
		if c, why = is.verify(ctx, req, r, t, a.now()); why == "" {
			return c, ""
		}
	}
	return nil, why
}

// verify verifies a token. Its signature comes last, since all else costs less and
// what an expired or foreign token names is then never fetched.
func (is *issuer) verify(ctx context.Context, req *Request, r *realm, t *jwt, now time.Time) (*Caller, reason) {
	if t.critical || !slices.Contains(is.algorithms, t.alg) {
		return nil, reasonAlgorithm
	}
	c, why := is.caller(req, r, t.claims, now)
	if why != "" {
		return nil, why
	}
	if !t.isAccessToken(is, req.Resource) {
		return nil, reasonType
	}
	if why := is.signed(ctx, t); why != "" {
		return nil, why
	}
	return c, ""
}

// isAccessToken tells whether a token is not one of another kind that the issuer signs
// with the same keys. The type at+jwt says so (RFC 9068, section 2.1). Where tokens
// carry no such type, an ID token, a logout token or a refresh token is known by what
// only those have; and one that is accepted for an audience other than the endpoint,
// which may be the client id that ID tokens are for, has to have what only an access
// token has.
func (t *jwt) isAccessToken(is *issuer, resource string) bool {
	switch t.typ {
	case "at+jwt":
		return true
	case "", "jwt":
	default:
		return false
	}
	c := t.claims
	kind, ok1 := c.text("typ")
	use, ok2 := c.text("token_use")
	azp, ok3 := c.text("azp")
	audiences, ok4 := c.texts("aud")
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4,
		kind != "" && !strings.EqualFold(kind, "Bearer"),
		use != "" && use != "access",
		c.has("at_hash"), c.has("c_hash"), c.has("s_hash"), c.has("events"),
		c.has("nonce") && kind == "": // Keycloak has a nonce in access tokens, and says that they are
		return false
	case kind != "" || use != "" || slices.ContainsFunc(audiences, func(aud string) bool { return sameResource(aud, resource) }):
		return true
	}
	return c.has("scope") || c.has("scp") || is.ScopeClaim != "" && c.at(is.ScopeClaim) != nil ||
		c.has("client_id") || azp != "" && !slices.Contains(audiences, azp)
}

// signed verifies the signature.
func (is *issuer) signed(ctx context.Context, t *jwt) reason {
	keys := &verification{server: is.server, token: t}
	v := oidc.NewVerifier(is.Issuer.Issuer, keys, &oidc.Config{
		SupportedSigningAlgs: is.algorithms,
		SkipClientIDCheck:    true, // there is no client, but a resource: the audience is checked with the other claims
		SkipExpiryCheck:      true, // its leeway is too long
	})
	_, err := v.Verify(ctx, t.raw)
	switch {
	case errors.Is(keys.err, errUnavailable):
		return reasonUnavailable
	case errors.Is(keys.err, errUnknownKey):
		return reasonUnknownKey
	case err != nil || !keys.done:
		return reasonSignature
	}
	return ""
}

// verification verifies one token with the keys of a server.
type verification struct {
	server *server
	token  *jwt
	err    error // why there were no keys; go-oidc does not hand it on
	done   bool
}

// VerifySignature implements oidc.KeySet. A token that does not name its key may be
// signed with one that was published since.
func (v *verification) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	sig, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(v.token.alg)})
	if err != nil {
		return nil, errors.New("not a signed token")
	}
	for again := false; ; again = true {
		keys, err := v.server.candidates(ctx, v.token.kid, v.token.alg, again)
		if err != nil {
			v.err = err
			return nil, err
		}
		for i := range keys {
			payload, err := sig.Verify(&keys[i])
			if err == nil && bytes.Equal(payload, v.token.payload) {
				v.done = true
				return payload, nil
			}
		}
		if again || v.token.kid != "" {
			return nil, errors.New("no key has made the signature")
		}
	}
}
