package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bank is an upstream that takes tokens of one authorization server, which have to be for
// itself, and shows each account other tools: whoami, which tells the account, and one
// that is named for it. It verifies JWTs by the keys of the server, and asks the server
// about others. It keeps all that it is sent.
type bank struct {
	*witness
	t          *testing.T
	of         *authority
	path       string
	modern     bool // else it speaks the handshake era
	keys       jose.JSONWebKeySet
	id, secret string // as who it asks about tokens

	mu       sync.Mutex
	accounts map[string]*account
	sessions map[string]string // accounts by sessions
	taken    []string          // the tokens that were good, each once
}

// account is one account with its server.
type account struct {
	name   string
	claims claims
	server *mcp.Server
}

// claims are what the bank reads of a token.
type claims struct {
	Issuer   string       `json:"iss"`
	Subject  string       `json:"sub"`
	Audience jwt.Audience `json:"aud"`
	Client   string       `json:"client_id"`
	Scope    string       `json:"scope"`
	Expires  int64        `json:"exp"`
	Active   bool         `json:"active"` // of an introspection
}

// newBank starts one at a path, which says to the server what its tokens are like.
func newBank(t *testing.T, of *authority, path string, modern bool) *bank {
	t.Helper()
	b := &bank{t: t, of: of, path: path, modern: modern, accounts: map[string]*account{}, sessions: map[string]string{}}
	of.read("GET", "/jwks", "", "", &b.keys)
	b.id, b.secret = of.service("client_credentials")
	b.witness = newWitness(t, b.guard(mcp.NewStreamableHTTPHandler(b.serverOf, &mcp.StreamableHTTPOptions{Stateless: modern, PropagateRequestCancellation: true})))
	t.Cleanup(func() { // before the listener closes
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, a := range b.accounts {
			for s := range a.server.Sessions() {
				s.Close()
			}
		}
	})
	return b
}

// url is that of its endpoint, which is its resource identifier too.
func (b *bank) url() string { return b.URL + b.path }

type accountKey struct{}

// guard lets in who has a good token.
func (b *bank) guard(next http.Handler) http.Handler {
	metadata := "/.well-known/oauth-protected-resource" + b.path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == metadata {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": b.url(), "authorization_servers": []string{b.of.URL}})
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		c, err := b.verify(r.Context(), token)
		if err != nil {
			challenge := `Bearer resource_metadata="` + b.URL + metadata + `"`
			if token != "" {
				challenge += `, error="invalid_token"`
			}
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "who is it?", http.StatusUnauthorized)
			return
		}
		if !b.modern && r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" { // it is none of that era
			http.Error(w, "unknown version", http.StatusBadRequest)
			return
		}
		a := b.account(token, c)
		b.owns(r.Header.Get("Mcp-Session-Id"), a.name)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountKey{}, a)))
	})
}

// owns holds that a session is used by one account.
func (b *bank) owns(session, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if owner, ok := b.sessions[session]; ok && owner != name {
		b.t.Errorf("%s uses the session of %s", name, owner)
	}
	if session != "" {
		b.sessions[session] = name
	}
}

// verify reads a token.
func (b *bank) verify(ctx context.Context, token string) (c claims, err error) {
	if strings.Count(token, ".") == 2 {
		parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			return c, err
		}
		if err := parsed.Claims(b.keys, &c); err != nil {
			return c, err
		}
		c.Active = time.Now().Before(time.Unix(c.Expires+2, 0)) // clocks count whole seconds
	} else if c, err = b.introspect(ctx, token); err != nil {
		return c, err
	}
	if !c.Active || c.Issuer != b.of.URL || !slices.Contains(c.Audience, b.url()) {
		return c, fmt.Errorf("it is of %s for %v, active: %t", c.Issuer, c.Audience, c.Active)
	}
	return c, nil
}

// introspect asks the server about a token (RFC 7662).
func (b *bank) introspect(ctx context.Context, token string) (c claims, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.of.URL+"/token/introspection", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(b.id), url.QueryEscape(b.secret))
	res, err := b.of.client.Do(req)
	if err != nil {
		return c, err
	}
	defer res.Body.Close()
	return c, json.NewDecoder(res.Body).Decode(&c)
}

// account gives that of a token, which may be a client's own.
func (b *bank) account(token string, c claims) *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.taken, token) {
		b.taken = append(b.taken, token)
	}
	name := c.Subject
	if name == "" {
		name = c.Client
	}
	a := b.accounts[name]
	if a == nil {
		a = &account{name: name, server: mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"}, nil)}
		for _, tool := range []string{"whoami", "of_" + name} {
			mcp.AddTool(a.server, &mcp.Tool{Name: tool}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
				return toolText("%s of %s", tool, name), nil, nil
			})
		}
		b.accounts[name] = a
	}
	a.claims = c
	return a
}

// serverOf gives the server of who asks.
func (b *bank) serverOf(r *http.Request) *mcp.Server {
	a, _ := r.Context().Value(accountKey{}).(*account)
	return a.server
}

// claimsOf gives those of the latest token of an account.
func (b *bank) claimsOf(name string) (c claims) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[name]; a != nil {
		c = a.claims
	}
	return c
}

// names gives the accounts that were used.
func (b *bank) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.accounts))
}

// tokens gives all that were good so far, in their order.
func (b *bank) tokens() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.taken)
}

// held counts the sessions that were used.
func (b *bank) held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// never holds that nothing of what was shown to the gateway has come here.
func (b *bank) never(shown ...string) {
	b.t.Helper()
	var parts []string
	for _, token := range shown {
		parts = append(parts, strings.Split(token, ".")[1:]...)
	}
	for _, s := range b.requests() {
		if all := s.all(); containsAny(all, parts) || s.header.Get("Cookie") != "" {
			b.t.Errorf("what a client has shown has come to an upstream: %s", all)
		}
	}
}
