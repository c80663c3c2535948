package broker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// accountHeader is how a browser of a test tells a server who sits in front of it.
const accountHeader = "X-Account"

// authServer is a scripted authorization server: that of a tenant's users, or that of
// an upstream. Whoever comes has agreed to everything.
type authServer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	now func() time.Time

	mu       sync.Mutex
	life     int                                               // seconds of an access token
	iss      bool                                              // whether it says and sends iss (RFC 9207)
	answer   func(url.Values)                                  // changes an authorization response
	claims   func(map[string]any)                              // changes an ID token
	sign     func(string) string                               // replaces the ID token
	tokens   func(w http.ResponseWriter, r *http.Request) bool // answers in place of the token endpoint, where it tells so
	metadata map[string]any                                    // besides the usual
	codes    map[string]url.Values                             // the authorization requests that codes are for, with "account"
	families map[string]string                                 // refresh tokens and their accounts; used ones are not there
	access   map[string]string                                 // access tokens and their accounts
	asked    []url.Values                                      // of the authorization endpoint
	posted   []url.Values                                      // of the token endpoint
	revoked  []string
}

func newAuthServer(t *testing.T, now func() time.Time) *authServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &authServer{
		key: key, now: now, life: 300, iss: true, codes: map[string]url.Values{}, families: map[string]string{}, access: map[string]string{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.serveMetadata)
	mux.HandleFunc("GET /.well-known/openid-configuration", s.serveMetadata)
	mux.HandleFunc("GET /jwks", s.serveKeys)
	mux.HandleFunc("GET /authorize", s.serveAuthorize)
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) {
		s.set(func() { s.revoked = append(s.revoked, r.PostFormValue("token")) })
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// set changes the server under its lock.
func (s *authServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// refreshes gives how often a token was refreshed, or tried to be.
func (s *authServer) refreshes() (n int) {
	s.set(func() {
		for _, f := range s.posted {
			if f.Get("grant_type") == "refresh_token" {
				n++
			}
		}
	})
	return n
}

// account gives whose an access token is.
func (s *authServer) account(access string) (account string) {
	s.set(func() { account = s.access[access] })
	return account
}

func (s *authServer) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"jwks_uri": s.URL + "/jwks", "revocation_endpoint": s.URL + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": s.iss,
	}
	maps.Copy(m, s.metadata)
	_ = json.NewEncoder(w).Encode(m)
}

func (s *authServer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: "k1", Use: "sig", Algorithm: "ES256"}}})
}

func (s *authServer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	s.asked = append(s.asked, q)
	code := rand.Text()
	kept := maps.Clone(q)
	kept.Set("account", r.Header.Get(accountHeader))
	s.codes[code] = kept
	a := url.Values{"code": {code}, "state": {q.Get("state")}}
	if s.iss {
		a.Set("iss", s.URL)
	}
	if s.answer != nil {
		s.answer(a)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+a.Encode(), http.StatusFound)
}

func (s *authServer) serveToken(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	s.posted = append(s.posted, r.PostForm)
	tokens := s.tokens
	s.mu.Unlock()
	if tokens != nil && tokens(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var account string
	out := map[string]any{}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		asked, ok := s.codes[r.PostForm.Get("code")]
		delete(s.codes, r.PostForm.Get("code"))
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != r.PostForm.Get("redirect_uri") ||
			asked.Get("resource") != r.PostForm.Get("resource") {
			refuse(w)
			return
		}
		account = asked.Get("account")
		if slices.Contains(strings.Fields(asked.Get("scope")), "openid") {
			out["id_token"] = s.idToken(asked)
		}
		if scope := asked.Get("scope"); scope != "" {
			out["scope"] = scope
		}
	case "refresh_token":
		var ok bool
		if account, ok = s.families[r.PostForm.Get("refresh_token")]; !ok {
			refuse(w)
			return
		}
		delete(s.families, r.PostForm.Get("refresh_token"))
	}
	access, refresh := "at-"+account+"-"+rand.Text(), "rt-"+account+"-"+rand.Text()
	s.access[access], s.families[refresh] = account, account
	maps.Copy(out, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": s.life})
	_ = json.NewEncoder(w).Encode(out)
}

// refuse answers as for a code or refresh token that is of no use.
func refuse(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": "sentence-of-the-server"})
}

// idToken makes one for an authorization request. s.mu is held.
func (s *authServer) idToken(asked url.Values) string {
	now := s.now()
	c := map[string]any{
		"iss": s.URL, "sub": asked.Get("account"), "aud": asked.Get("client_id"), "nonce": asked.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	if s.claims != nil {
		s.claims(c)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: "k1"}}, nil)
	if err != nil {
		panic(err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(raw)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	if s.sign != nil {
		token = s.sign(token)
	}
	return token
}
