package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// idp is an authorization server whose answers a test chooses. It is its own
// transport, so that tests can have a time of their own; TestOverHTTP has a real one.
type idp struct {
	t      *testing.T
	issuer string
	key    *signer

	mu       sync.Mutex
	document map[string]any // of the metadata
	places   []string       // where it is; all of them when empty
	keys     []jose.JSONWebKey
	jwks     string                    // in place of keys
	down     bool                      // no connection
	hold     chan struct{}             // answers wait until it is closed; nil for not
	asked    map[string]int            // by path
	hosts    map[string]int            // by host
	answers  map[string]map[string]any // of introspection, by token
	reply    http.HandlerFunc          // of introspection, in place of answers
	user     string                    // that introspection saw last
	forward  http.RoundTripper         // to a real server; nil for not
}

func newIDP(t *testing.T, issuer string) *idp {
	t.Helper()
	u, err := url.Parse(issuer)
	if err != nil {
		t.Fatal(err)
	}
	root := u.Scheme + "://" + u.Host
	i := &idp{t: t, issuer: issuer, key: newES256(t, "k1"), asked: map[string]int{}, hosts: map[string]int{}, answers: map[string]map[string]any{}}
	i.document = map[string]any{"issuer": issuer, "jwks_uri": root + "/keys", "introspection_endpoint": root + "/introspect"}
	i.keys = []jose.JSONWebKey{i.key.public()}
	return i
}

// set changes the server under its lock.
func (i *idp) set(change func(i *idp)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func (i *idp) count(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// RoundTrip implements http.RoundTripper.
func (i *idp) RoundTrip(req *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.asked[req.URL.Path]++
	i.hosts[req.URL.Host]++
	hold, down, forward := i.hold, i.down, i.forward
	i.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if down {
		return nil, http.ErrServerClosed
	}
	if forward != nil {
		return forward.RoundTrip(req)
	}
	w := httptest.NewRecorder()
	i.ServeHTTP(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// ServeHTTP implements http.Handler.
func (i *idp) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	path := req.URL.Path
	switch {
	case path == "/keys" && i.jwks != "":
		_, _ = w.Write([]byte(i.jwks))
	case path == "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	case path == "/introspect" && i.reply != nil:
		i.reply(w, req)
	case path == "/introspect":
		i.introspect(w, req)
	case strings.Contains(path, "/.well-known/") && (len(i.places) == 0 || i.places[0] == path):
		_ = json.NewEncoder(w).Encode(i.document)
	default:
		http.NotFound(w, req)
	}
}

func (i *idp) introspect(w http.ResponseWriter, req *http.Request) {
	user, password, _ := req.BasicAuth()
	i.user = user + "|" + password
	answer, ok := i.answers[req.PostFormValue("token")]
	if !ok || req.Method != http.MethodPost {
		answer = map[string]any{"active": false}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// claims gives those of a good token, changed as told; nil takes one away.
func (i *idp) claims(changes map[string]any) map[string]any {
	now := time.Now()
	c := map[string]any{
		"iss": i.issuer, "sub": "alice-4f2b9c", "aud": resource, "client_id": "editor-77ac", "scope": "mcp",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": "1",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// token gives a good one, changed as told.
func (i *idp) token(changes map[string]any) string {
	return i.key.sign(map[string]any{"typ": "at+jwt"}, i.claims(changes))
}

// signer makes tokens.
type signer struct {
	alg, kid string
	key      crypto.Signer
}

func newES256(t testing.TB, kid string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{"ES256", kid, key}
}

func newRSA(t testing.TB, alg, kid string, bits int) *signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{alg, kid, key}
}

func newEd25519(t testing.TB, kid string) *signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{"EdDSA", kid, key}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid, Use: "sig"}
}

// sign makes a token; what header says goes before alg and kid, and nil takes a
// parameter away.
func (s *signer) sign(header, claims map[string]any) string {
	head := map[string]any{"alg": s.alg, "kid": s.kid}
	maps.Copy(head, header)
	maps.DeleteFunc(head, func(_ string, v any) bool { return v == nil })
	return s.signText(mustJSON(head), mustJSON(claims))
}

// signText makes a token of a header and claims as they are.
func (s *signer) signText(header, claims string) string {
	input := b64(header) + "." + b64(claims)
	return input + "." + b64(string(s.signature(input)))
}

// signature signs as the alg of the signer says, whatever a header does.
func (s *signer) signature(input string) []byte {
	sum := crypto.SHA256.New()
	sum.Write([]byte(input))
	digest := sum.Sum(nil)
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		x, y, err := ecdsa.Sign(rand.Reader, key, digest)
		if err != nil {
			panic(err)
		}
		return append(x.FillBytes(make([]byte, 32)), y.FillBytes(make([]byte, 32))...)
	case *rsa.PrivateKey:
		var opts crypto.SignerOpts = crypto.SHA256
		if s.alg == "PS256" {
			opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256}
		}
		return must(key.Sign(rand.Reader, digest, opts))
	default:
		return must(s.key.Sign(rand.Reader, []byte(input), crypto.Hash(0)))
	}
}

func mustJSON(v any) string { return string(must(json.Marshal(v))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// handled is a transport that is answered by a handler.
type handled http.HandlerFunc

// RoundTrip implements http.RoundTripper.
func (h handled) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, req)
	resp := w.Result()
	resp.Request = req
	return resp, nil
}
