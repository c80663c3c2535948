package auth

import "net/http"

// reason says in one word why a request is refused; empty for one that is not.
type reason string

const (
	reasonMissing     reason = "missing"     // nothing was shown
	reasonScheme      reason = "scheme"      // something else than a bearer token was shown
	reasonRequest     reason = "request"     // the request is malformed
	reasonMalformed   reason = "malformed"   // the token is nothing that we know
	reasonAlgorithm   reason = "algorithm"   // it is signed in a way that is not accepted
	reasonType        reason = "type"        // it is no access token
	reasonBound       reason = "bound"       // it is bound to a key that the client would have to prove
	reasonIssuer      reason = "issuer"      // it is from somebody else
	reasonTenant      reason = "tenant"      // it is for another tenant
	reasonAudience    reason = "audience"    // it is for another resource
	reasonExpired     reason = "expired"     //
	reasonEarly       reason = "early"       // it is not valid yet
	reasonClaims      reason = "claims"      // it lacks what it must say, or says it in a wrong form
	reasonSignature   reason = "signature"   //
	reasonUnknownKey  reason = "unknown_key" // it is signed with a key that its issuer does not publish
	reasonInactive    reason = "inactive"    // its issuer says that it is not valid
	reasonKey         reason = "key"         // an API key that is unknown, wrong or expired
	reasonScope       reason = "scope"       // a scope is missing
	reasonRate        reason = "rate"        // too many failures before
	reasonUnavailable reason = "unavailable" // its issuer or the registry cannot be asked
)

// reasons gives the closed set.
func reasons() []reason {
	return []reason{
		reasonMissing, reasonScheme, reasonRequest, reasonMalformed, reasonAlgorithm, reasonType, reasonBound,
		reasonIssuer, reasonTenant, reasonAudience, reasonExpired, reasonEarly, reasonClaims, reasonSignature,
		reasonUnknownKey, reasonInactive, reasonKey, reasonScope, reasonRate, reasonUnavailable,
	}
}

// guess tells whether a failure counts towards the limit on failures. An expired
// token does not: all clients show theirs once, many of them behind one address.
func (r reason) guess() bool {
	switch r {
	case "", reasonMissing, reasonScheme, reasonRequest, reasonExpired, reasonScope, reasonRate, reasonUnavailable:
		return false
	}
	return true
}

// text says for people what was wrong. Unlike a challenge, which tells clients that
// showed nothing only what they need, it always says something.
func (r reason) text() string {
	switch r {
	case reasonMissing:
		return "this needs an access token or an API key"
	case reasonScheme:
		return "this needs an access token or an API key, as Authorization: Bearer"
	case reasonRate:
		return "too many tokens and keys from this address were not accepted"
	case reasonUnavailable:
		return "whose the token or key is cannot be found out at the moment"
	}
	_, _, description := r.answer()
	return description
}

// answer gives the status, the error code and its description (RFC 6750, section
// 3.1). Where nothing usable was shown there is no code. The texts are constant:
// nothing of a token is ever in them.
func (r reason) answer() (status int, code, description string) {
	const request, token = "invalid_request", "invalid_token"
	switch r {
	case reasonMissing, reasonScheme:
		return http.StatusUnauthorized, "", ""
	case reasonRequest:
		return http.StatusBadRequest, request, "send one token, in one Authorization header, and nowhere else"
	case reasonScope:
		return http.StatusForbidden, "insufficient_scope", "the token lacks a scope"
	case reasonRate:
		return http.StatusTooManyRequests, "", ""
	case reasonUnavailable:
		return http.StatusServiceUnavailable, "", ""
	case reasonAlgorithm:
		return http.StatusUnauthorized, token, "the token is signed with an algorithm that is not accepted"
	case reasonType:
		return http.StatusUnauthorized, token, "the token is not an access token"
	case reasonBound:
		return http.StatusUnauthorized, token, "tokens that are bound to a key are not accepted"
	case reasonIssuer:
		return http.StatusUnauthorized, token, "the issuer of the token is not accepted"
	case reasonTenant:
		return http.StatusUnauthorized, token, "the token is for another tenant"
	case reasonAudience:
		return http.StatusUnauthorized, token, "the token is for another resource"
	case reasonExpired:
		return http.StatusUnauthorized, token, "the token has expired"
	case reasonEarly:
		return http.StatusUnauthorized, token, "the token is not valid yet"
	case reasonClaims:
		return http.StatusUnauthorized, token, "the token lacks a claim that it needs"
	case reasonKey:
		return http.StatusUnauthorized, token, "the key is not valid"
	default:
		return http.StatusUnauthorized, token, "the token is not valid"
	}
}
