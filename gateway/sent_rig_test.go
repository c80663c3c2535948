package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

// sent is one request as a server received it.
type sent struct {
	method, path, query string
	header              http.Header
	body                string
}

// all is the whole of it.
func (s *sent) all() string {
	raw, err := json.Marshal(s.header)
	if err != nil {
		panic(err) // strings always encode
	}
	return s.method + " " + s.path + "?" + s.query + " " + string(raw) + " " + s.body
}

// witness is a server that keeps all that it is sent.
type witness struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*sent
}

// newWitness puts one in front of a handler. It ends with the test.
func newWitness(tb testing.TB, next http.Handler) *witness {
	tb.Helper()
	wit := &witness{}
	wit.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway gave up
		}
		wit.mu.Lock()
		wit.seen = append(wit.seen, &sent{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
		wit.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	}))
	tb.Cleanup(func() {
		wit.CloseClientConnections()
		wit.Close()
	})
	return wit
}

// requests gives what came so far.
func (wit *witness) requests() []*sent {
	wit.mu.Lock()
	defer wit.mu.Unlock()
	return slices.Clone(wit.seen)
}

// newHandshakeServer gives a server of the handshake era that has one of each.
func newHandshakeServer(tb testing.TB) http.Handler {
	tb.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "x"}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
		return toolText("ok"), nil, nil
	})
	server.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	})
	server.AddResource(&mcp.Resource{URI: "r://1", Name: "r"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "r://1", Text: "t"}}}, nil
	})
	tb.Cleanup(func() {
		for s := range server.Sessions() {
			s.Close()
		}
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" { // it is none of that era
			http.Error(w, "unknown version", http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// newModernServer gives a server of the modern era that has one of each.
func newModernServer(tb testing.TB) http.Handler {
	tb.Helper()
	s := newScripted(tb)
	s.tools("x")
	s.list("prompts/list", `{"name":"p"}`)
	s.list("resources/list", `{"uri":"r://1","name":"r"}`)
	s.result("tools/call", booked)
	s.result("prompts/get", `{"resultType":"complete","messages":[]}`)
	s.result("resources/read", `{"resultType":"complete","contents":[{"uri":"r://1","text":"t"}]}`)
	return s
}

// tokenServer gives tokens for the gateway's secrets and for its users' tokens. Those for
// a user are "tx-" and the user, those for the gateway "cc-" and its client id.
func tokenServer(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	form := map[string]string{}
	if err := r.ParseForm(); err == nil {
		for name := range r.PostForm {
			form[name] = r.PostForm.Get(name)
		}
	}
	token := ""
	switch form["grant_type"] {
	case "client_credentials":
		token = "cc-" + id
	case "urn:ietf:params:oauth:grant-type:token-exchange":
		token = "tx-" + userOf(form["subject_token"])
	}
	w.Header().Set("Content-Type", "application/json")
	if want := "secret-" + id + "-client"; !ok || secret != want || token == "" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_request"}`)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": 3600,
		"issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
	})
}

// userOf reads whose a token is, and verifies nothing.
func userOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Sub string }
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return ""
	}
	return claims.Sub
}

// twoTenants are default and other in front of one server, which they reach by paths of
// their own, with secrets of their own. Both trust one issuer.
type twoTenants struct {
	*guarded
	up, idp *witness
}

// secretOf is what the tests' secrets are: they can be told by what they are named.
func secretOf(s tenant.Secret) ([]byte, error) { return []byte("secret-" + s.Env), nil }

// newTwoTenants makes them. credential gives how a tenant's upstream is shown who calls.
func newTwoTenants(tb testing.TB, server http.Handler, credential func(name, tokenURL string) tenant.Credential) *twoTenants {
	tb.Helper()
	two := &twoTenants{up: newWitness(tb, server), idp: newWitness(tb, http.HandlerFunc(tokenServer))}
	two.guarded = newGuarded(tb, func(o *gateway.Options) { o.Secrets = secretOf })
	var all []*tenant.Tenant
	for _, name := range []string{"default", "other"} {
		u := upstreamAt("a", two.up.URL+"/"+name+"/mcp")
		u.Auth = credential(name, two.idp.URL+"/token")
		all = append(all, &tenant.Tenant{Name: name, Separator: "_", Auth: two.issuer.auth(), Upstreams: []tenant.Upstream{u}})
	}
	two.store.Replace(all)
	return two
}

// dirty is what clients send besides: nothing of it is for anybody but the gateway.
func dirty() http.Header {
	h := http.Header{}
	for _, name := range []string{
		"Cookie", "Proxy-Authorization", "X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Forwarded-User", "X-Real-Ip", "Forwarded", "Via", "True-Client-Ip", "Cf-Connecting-Ip", "X-Original-Url", "X-Client-Cert",
		"User-Agent", "Referer", "Dpop", "X-Upstream-Key",
	} {
		h.Set(name, "dirty-"+strings.ToLower(name))
	}
	return h
}

// formOf reads a form.
func formOf(tb testing.TB, body string) url.Values {
	tb.Helper()
	form, err := url.ParseQuery(body)
	if err != nil {
		tb.Fatal(err)
	}
	return form
}
