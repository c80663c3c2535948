package gateway_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// credential gives how the gateway is to show the suite's server who its user is, in the
// form of a configuration.
func (one *visit) credential(t *testing.T, scenario string) string {
	t.Helper()
	if one.context.ClientID == "" {
		if scenario == "auth/offline-access-scope" {
			return "{mode: user_oauth, registration: dynamic}" // the suite looks at what is registered
		}
		return "{mode: user_oauth}"
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(one.context.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	mode, issuer := "user_oauth", one.context.Issuer
	if issuer == "" {
		mode, issuer = "client_credentials", one.issuer(t)
	}
	return fmt.Sprintf("{mode: %s, issuer: %q, clientID: %q, clientSecret: {file: %q}}", mode, issuer, one.context.ClientID, secret)
}

// issuer gives the authorization server of the suite's server, as whoever configures the
// gateway finds it.
func (one *visit) issuer(t *testing.T) string {
	t.Helper()
	res, err := http.Get(strings.TrimSuffix(one.server, "/mcp") + "/.well-known/oauth-protected-resource/mcp") //nolint:gosec,noctx // it is the suite's
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var about struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.NewDecoder(res.Body).Decode(&about); err != nil || len(about.Servers) != 1 {
		t.Fatalf("the suite's server names %q, %v", about.Servers, err)
	}
	return about.Servers[0]
}

// maxRounds bounds how often the user is asked to sign in.
const maxRounds = 5

// urlMeta is the `_meta` of a client that opens pages for its user.
const urlMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}`

// play has a user use the tool of the suite's server behind the gateway, and sign in
// there as often as that is asked for. It gives what stood in the way.
func (one *visit) play(t *testing.T, scenario string) string {
	home := newHome(t)
	gw := gatewaytest.Start(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
publicURL: %s
egress: {allow: [127.0.0.0/8, "::1/128"]}
tenants:
  - name: default
    auth: {mode: oauth, scopes: [mcp], issuers: [{issuer: %q, private: true, login: {clientID: pages}}]}
    upstreams: [{alias: suite, url: %q, auth: %s}]
`, publicURL, home.URL, one.server, one.credential(t, scenario)))
	defer gw.Stop(t) // before the suite's servers end
	user := &suiteUser{
		t: t, client: newRawClient(t, gw.URL+"/mcp"), browser: newPerson(t, nil, func(string) string { return gw.URL }),
		header: "Authorization: Bearer " + home.token("ann", "/mcp", nil),
	}
	pages := -1
	for range maxRounds {
		tool := user.tool()
		if tool == "" || pages == user.pages { // or it does not lead anywhere any more
			return noTool
		}
		pages = user.pages
		if stop := user.use(tool); stop != "" {
			return stop
		}
		if tool == "suite_test-tool" {
			return ""
		}
	}
	return "the user is asked to sign in all the time"
}

// noTool stands in the way of users whom nothing asks to sign in.
const noTool = "the client is shown no tool"

// callFails stands in the way of users who have signed in and are refused all the same.
const callFails = "the call fails"

// suiteUser is somebody with a client and a browser.
type suiteUser struct {
	t       *testing.T
	client  *rawClient
	browser *person
	header  string // which tells the gateway who they are
	pages   int    // to which they were sent
}

func (u *suiteUser) send(method, params string) string {
	u.t.Helper()
	got := u.client.send(strings.Replace(ask(method, params), bareMeta, urlMeta, 1), u.header)
	return got.last()
}

// tool gives the name of the only tool that there is; empty for none.
func (u *suiteUser) tool() string {
	u.t.Helper()
	list := u.send("tools/list", "")
	if memberOf(u.t, list, "error") != nil {
		u.t.Logf("tools/list ends with %s", list)
		return ""
	}
	var tools []struct{ Name string }
	if raw := memberOf(u.t, list, "result", "tools"); raw != nil {
		if err := json.Unmarshal(raw, &tools); err != nil {
			u.t.Fatalf("%s: %v", list, err)
		}
	}
	if len(tools) != 1 {
		u.t.Logf("the tools are %s", list)
		return ""
	}
	return tools[0].Name
}

// use calls a tool, and goes to the page that the call asks for. It gives what stood in
// the way.
func (u *suiteUser) use(tool string) string {
	u.t.Helper()
	params := `"name":"` + tool + `","arguments":{}`
	for range maxRounds {
		got := u.send("tools/call", params)
		if memberOf(u.t, got, "error") != nil {
			u.t.Logf("the call of %s ends with %s", tool, got)
			return callFails
		}
		if memberOf(u.t, got, "result", "content") != nil {
			return ""
		}
		if string(memberOf(u.t, got, "result", "resultType")) != `"input_required"` {
			u.t.Logf("the call of %s ends with %s", tool, got)
			return callFails
		}
		var page string
		for _, request := range membersOf(u.t, memberOf(u.t, got, "result", "inputRequests")) {
			if err := json.Unmarshal(memberOf(u.t, string(request), "params", "url"), &page); err != nil {
				u.t.Fatalf("%s: %v", got, err)
			}
		}
		u.pages++
		seen := u.browser.allow(page)
		switch title := pageTitle.FindStringSubmatch(seen.body); {
		case title == nil:
			u.t.Fatalf("the browser shows %d %s", seen.status, seen.body)
		case title[1] != "Connected":
			return title[1]
		}
		params = retryOf(u.t, got, `{"action":"accept"}`) + `"name":"` + tool + `","arguments":{}`
	}
	return "the call asks to sign in all the time"
}

// pageTitle is what the gateway's own pages are called.
var pageTitle = regexp.MustCompile(`<h1>([^<]*)</h1>`)

// newHome gives an issuer where users sign in too, by OpenID Connect: whoever comes is
// ann.
func newHome(tb testing.TB) *issuer {
	tb.Helper()
	is := newIssuer(tb)
	var mu sync.Mutex
	asked := map[string]url.Values{} // by code
	mux := http.NewServeMux()
	mux.Handle("GET /jwks", is.Config.Handler)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{
			"issuer": is.URL, "authorization_endpoint": is.URL + "/authorize", "token_endpoint": is.URL + "/token", "jwks_uri": is.URL + "/jwks",
		})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		mu.Lock()
		asked[code] = q
		mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q := asked[r.PostFormValue("code")]
		mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		id := is.token("ann", "", map[string]any{"aud": q.Get("client_id"), "nonce": q.Get("nonce"), "client_id": nil, "scope": nil})
		writeJSON(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": id})
	})
	is.Config.Handler = mux
	return is
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
