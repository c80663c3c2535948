package gateway_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// authority is a real authorization server (testdata/node/upstreamidp.mjs).
type authority struct {
	t      *testing.T
	URL    string
	client *http.Client
	app    string // an MCP client that is registered there
}

// realms are the authorization servers of a test: that of the gateway's users, and that
// of its upstreams.
type realms struct {
	idp, bank *authority
	login     string // the gateway as a client of idp, which has no secret
}

// newRealms starts them. The test is skipped where Node is missing.
func newRealms(t *testing.T) *realms {
	t.Helper()
	node := gatewaytest.NewNode(t)
	dir := nodeDir(t, node, "upstreamidp.mjs")
	start := func() *authority {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		a := &authority{t: t, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
		a.URL = gatewaytest.StartNode(t, node, "", "PORT", filepath.Join(dir, "upstreamidp.mjs"))
		return a
	}
	r := &realms{idp: start(), bank: start()}
	r.idp.app, _ = r.idp.register(map[string]any{"redirect_uris": []string{nowhere}, "application_type": "native"})
	r.login, _ = r.idp.register(map[string]any{"redirect_uris": []string{publicURL + "/oauth/signed-in"}})
	return r
}

// nowhere is where the clients of these tests are sent back to; nobody listens there.
const nowhere = "http://127.0.0.1:9/callback"

// register makes a client, which has a secret where it says how it shows it.
func (a *authority) register(metadata map[string]any) (id, secret string) {
	a.t.Helper()
	all := map[string]any{"grant_types": []string{"authorization_code"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none"}
	maps.Copy(all, metadata)
	body, err := json.Marshal(all)
	if err != nil {
		a.t.Fatal(err)
	}
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if a.read("POST", "/reg", "application/json", string(body), &made); made.ID == "" {
		a.t.Fatal("the authorization server registers nobody")
	}
	return made.ID, made.Secret
}

// service makes a client that has no users.
func (a *authority) service(grant string) (id, secret string) {
	a.t.Helper()
	return a.register(map[string]any{
		"redirect_uris": []string{}, "response_types": []string{}, "grant_types": []string{grant}, "token_endpoint_auth_method": "client_secret_basic",
	})
}

// read asks the server itself for something and decodes what it says.
func (a *authority) read(method, path, kind, body string, into any) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.URL+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		a.t.Fatalf("%s %s: %d %s, %v", method, path, res.StatusCode, raw, err)
	}
	if err := json.Unmarshal(raw, into); into != nil && err != nil {
		a.t.Fatalf("%s %s: %s: %v", method, path, raw, err)
	}
}

// grants is how often each grant was given, or refused.
type grants struct{ Given, Refused map[string]int }

func (a *authority) grants() (g grants) {
	a.t.Helper()
	a.read("GET", "/seen", "", "", &g)
	return g
}

// withdraw takes back all that an account has let others have.
func (a *authority) withdraw(account string) {
	a.t.Helper()
	a.read("POST", "/withdraw?account="+url.QueryEscape(account), "", "", nil)
}

// token has somebody sign in at the server, and gives an access token for the resource,
// as an MCP client gets it.
func (a *authority) token(account, resource string) string {
	a.t.Helper()
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {a.app}, "redirect_uri": {nowhere}, "scope": {"openid mcp"}, "resource": {resource}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	p := newPerson(a.t, map[string]string{a.URL: account}, nil)
	at := p.open(a.URL+"/auth?"+q.Encode(), func(to string) bool { return strings.HasPrefix(to, nowhere) })
	back, err := url.Parse(at.url)
	if err != nil || back.Query().Get("code") == "" {
		a.t.Fatalf("%s cannot sign in: %d %s\n%s", account, at.status, at.url, at.body)
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "redirect_uri": {nowhere}, "client_id": {a.app}, "code_verifier": {verifier},
		"resource": {resource},
	}
	var got struct {
		Access string `json:"access_token"`
	}
	a.read("POST", "/token", "application/x-www-form-urlencoded", form.Encode(), &got)
	return got.Access
}

// person sits in front of a browser with cookies.
type person struct {
	t        *testing.T
	browser  *http.Client
	accounts map[string]string // by the URLs of authorization servers
}

// newPerson gives one with accounts. gateway tells which replica has a request for the
// gateway's public URL by its path.
func newPerson(t *testing.T, accounts map[string]string, gateway func(path string) string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &person{t, &http.Client{
		Jar: jar, Transport: &roads{transport, gateway}, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, accounts}
}

// roads lead from the gateway's public URL to a replica, as a balancer does.
type roads struct {
	http.RoundTripper
	gateway func(path string) string
}

// RoundTrip implements http.RoundTripper.
func (r *roads) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasPrefix(req.URL.String(), publicURL) {
		return r.RoundTripper.RoundTrip(req)
	}
	to, err := url.Parse(r.gateway(req.URL.Path))
	if err != nil {
		return nil, err
	}
	inner := req.Clone(req.Context())
	inner.Host, inner.URL.Scheme, inner.URL.Host = req.URL.Host, to.Scheme, to.Host
	return r.RoundTripper.RoundTrip(inner)
}

// sight is what a person sees.
type sight struct {
	status    int
	url, body string
}

// open opens a URL and follows where it leads, up to a URL for which stop tells so.
func (p *person) open(to string, stop ...func(to string) bool) *sight {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.follow(req, stop)
}

// pageRefresh is how the gateway's own pages lead on.
var pageRefresh = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

func (p *person) follow(req *http.Request, stop []func(to string) bool) *sight {
	p.t.Helper()
	for range 20 {
		for at, account := range p.accounts {
			if strings.HasPrefix(req.URL.String(), at) {
				req.Header.Set("X-Account", account)
			}
		}
		res, err := p.browser.Do(req)
		if err != nil {
			p.t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		seen := &sight{res.StatusCode, req.URL.String(), string(raw)}
		next := res.Header.Get("Location")
		if m := pageRefresh.FindSubmatch(raw); m != nil {
			next = html.UnescapeString(string(m[1]))
		}
		if next == "" {
			return seen
		}
		u, err := req.URL.Parse(next)
		if err != nil {
			p.t.Fatal(err)
		}
		if slices.ContainsFunc(stop, func(f func(string) bool) bool { return f(u.String()) }) {
			seen.url = u.String()
			return seen
		}
		if req, err = http.NewRequestWithContext(p.t.Context(), http.MethodGet, u.String(), http.NoBody); err != nil {
			p.t.Fatal(err)
		}
	}
	p.t.Fatal("redirected in circles")
	return nil
}

var (
	pageForm  = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	pageField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// allow opens a link of the gateway's, signs in, allows what is asked, if anything, and
// gives what there is to see in the end.
func (p *person) allow(link string) *sight {
	p.t.Helper()
	asked := p.open(link)
	action := pageForm.FindStringSubmatch(asked.body)
	if action == nil {
		return asked
	}
	first, _, _ := strings.Cut(asked.body, "</form>")
	fields := url.Values{"decision": {"allow"}}
	for _, m := range pageField.FindAllStringSubmatch(first, -1) {
		fields.Set(m[1], html.UnescapeString(m[2]))
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, html.UnescapeString(action[1]), bytes.NewReader([]byte(fields.Encode())))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.follow(req, nil)
}

// connect is allow, and has to succeed.
func (p *person) connect(link string) {
	p.t.Helper()
	if got := p.allow(link); got.status != http.StatusOK || !strings.Contains(got.body, "<h1>Connected</h1>") {
		p.t.Fatalf("not connected: %d %s\n%s", got.status, got.url, got.body)
	}
}
