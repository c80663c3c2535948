package broker_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/auth/broker"
	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// lines is what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// consentRig is a tenant with one upstream where users sign in, the servers of both,
// and what replicas of a gateway share.
type consentRig struct {
	t      *testing.T
	clock  *clock
	idp    *authServer // of the tenant's users
	as     *authServer // of the upstream
	vault  *watchedVault
	shared *cache.MemoryShared
	ring   *seal.Ring
	log    *lines

	mu        sync.Mutex
	tenant    *tenant.Tenant
	connected []string // tenant, alias, subject and client
}

// watchedVault is a vault whose writes a test can have fail.
type watchedVault struct {
	*tenant.MemoryRegistry
	mu  sync.Mutex
	put func(key tenant.VaultKey) error // asked before each write; nil for none
}

// PutSecret implements tenant.Vault.
func (v *watchedVault) PutSecret(ctx context.Context, key tenant.VaultKey, sealed []byte, expect uint64) (uint64, error) {
	if err := v.write(key); err != nil {
		return 0, err
	}
	return v.MemoryRegistry.PutSecret(ctx, key, sealed, expect)
}

// DeleteSecret implements tenant.Vault.
func (v *watchedVault) DeleteSecret(ctx context.Context, key tenant.VaultKey, expect uint64) error {
	if err := v.write(key); err != nil {
		return err
	}
	return v.MemoryRegistry.DeleteSecret(ctx, key, expect)
}

func (v *watchedVault) write(key tenant.VaultKey) error {
	v.mu.Lock()
	put := v.put
	v.mu.Unlock()
	if put == nil {
		return nil
	}
	return put(key)
}

func (v *watchedVault) watch(put func(key tenant.VaultKey) error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.put = put
}

func newConsentRig(t *testing.T) *consentRig {
	t.Helper()
	c := &clock{now: time.Now()}
	r := &consentRig{
		t: t, clock: c, idp: newAuthServer(t, c.Now), as: newAuthServer(t, c.Now), shared: cache.NewShared(),
		vault: &watchedVault{MemoryRegistry: tenant.NewMemoryRegistry()}, ring: seal.NewRandom(), log: &lines{},
	}
	r.tenant = &tenant.Tenant{
		Name: "acme",
		Auth: tenant.Auth{Mode: tenant.AuthOAuth, Issuers: []tenant.Issuer{{
			Issuer: r.idp.URL, Private: true, Login: &tenant.Login{ClientID: "gateway-login", ClientSecret: tenant.Secret{Env: "LOGIN"}, Scopes: []string{"profile"}},
		}}},
		Upstreams: []tenant.Upstream{{
			Alias: "travel", URL: "http://127.0.0.1:9/mcp", Description: "Books <hotels>", ManagedBy: tenant.ManagedByFile,
			Auth: tenant.Credential{Mode: tenant.CredentialUser, Issuer: r.as.URL, ClientID: "gateway-at-travel", Scopes: []string{"trips"}},
		}},
	}
	return r
}

// edit changes the tenant's registration.
func (r *consentRig) edit(change func(t *tenant.Tenant)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.tenant
	next.Auth.Issuers = slices.Clone(next.Auth.Issuers)
	next.Upstreams = slices.Clone(next.Upstreams)
	change(&next)
	r.tenant = &next
}

func (r *consentRig) registration() *tenant.Tenant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tenant
}

// replica is one process of the gateway.
type replica struct {
	*broker.Broker
	r    *consentRig
	site *httptest.Server
}

// replica starts one; edit changes its options.
func (r *consentRig) replica(edit ...func(*broker.Options)) *replica {
	r.t.Helper()
	rep := &replica{r: r}
	rep.site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { rep.Handler().ServeHTTP(w, req) }))
	r.t.Cleanup(rep.site.Close)
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	opts := broker.Options{
		Tenant: func(_ context.Context, name string) (*tenant.Tenant, error) {
			if t := r.registration(); t.Name == name {
				return t, nil
			}
			return nil, tenant.ErrNotFound
		},
		Vault: r.vault, Values: r.shared, Leases: r.shared, Ring: r.ring, PublicURL: rep.site.URL,
		Secrets: func(s tenant.Secret) ([]byte, error) { return []byte("secret of " + s.Env), nil },
		Client:  func(bool) *http.Client { return &http.Client{Transport: transport} },
		Connected: func(_ context.Context, t, alias string, who *tenant.Principal) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.connected = append(r.connected, strings.Join([]string{t, alias, who.Subject, who.ClientID}, " "))
		},
		Logger:     slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: prometheus.NewRegistry(), Now: r.clock.Now,
	}
	for _, e := range edit {
		e(&opts)
	}
	b, err := broker.New(opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(b.Close)
	rep.Broker = b
	return rep
}

// user gives who a user of a client is.
func (r *consentRig) user(subject, client string) *tenant.Principal {
	return &tenant.Principal{Tenant: "acme", Issuer: r.idp.URL, Subject: subject, ClientID: client}
}

// source gives what the upstream is shown for a user of a client.
func (rep *replica) source(subject, client string) broker.Source {
	t := rep.r.registration()
	return rep.Source(t, &t.Upstreams[0], rep.r.user(subject, client))
}

// shown gives the access token that the upstream is shown, or the error.
func (rep *replica) shown(subject, client string) (string, error) {
	h, err := rep.source(subject, client).Credential(rep.r.t.Context())
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer "), err
}

// token gives the access token, which has to be there.
func (rep *replica) token(subject, client string) string {
	rep.r.t.Helper()
	access, err := rep.shown(subject, client)
	if err != nil {
		rep.r.t.Fatalf("%s of %s has no token: %v", subject, client, err)
	}
	return access
}

// link gives the link that a user is sent to, which has to be needed.
func (rep *replica) link(subject, client string) string {
	rep.r.t.Helper()
	_, err := rep.shown(subject, client)
	return linkOf(rep.r.t, err)
}

func linkOf(t *testing.T, err error) string {
	t.Helper()
	var ask *broker.ConsentError
	if !errors.As(err, &ask) {
		t.Fatalf("the user is not asked: %v", err)
	}
	if strings.Contains(err.Error(), "ticket") {
		t.Errorf("the text of the error holds the link: %v", err)
	}
	link, _ := ask.ConsentURL()
	return link
}

// person sits in front of a browser with cookies.
type person struct {
	r       *consentRig
	client  *http.Client
	issuer  string // what the tenant's issuer knows them by
	account string // and what the upstream's server does
}

func (r *consentRig) person(issuer, account string) *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	transport := &http.Transport{}
	r.t.Cleanup(transport.CloseIdleConnections)
	return &person{r, &http.Client{
		Jar: jar, Transport: transport, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, issuer, account}
}

// seen is a page that a person sees.
type seen struct {
	status int
	header http.Header
	url    string
	body   string
	hops   []string // all URLs that led to it
}

var refresh = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// open opens a URL and follows where it leads, up to a URL for which stop tells so.
func (p *person) open(to string, stop ...func(url string) bool) *seen {
	p.r.t.Helper()
	req, err := http.NewRequestWithContext(p.r.t.Context(), http.MethodGet, to, nil)
	if err != nil {
		p.r.t.Fatal(err)
	}
	return p.follow(req, stop)
}

func (p *person) follow(req *http.Request, stop []func(url string) bool) *seen {
	p.r.t.Helper()
	s := &seen{}
	for range 20 {
		s.hops = append(s.hops, req.URL.String())
		req.Header.Set(accountHeader, p.issuer)
		if strings.HasPrefix(req.URL.String(), p.r.as.URL) {
			req.Header.Set(accountHeader, p.account)
		}
		resp, err := p.client.Do(req)
		if err != nil {
			p.r.t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			p.r.t.Fatal(err)
		}
		s.status, s.header, s.url, s.body = resp.StatusCode, resp.Header, req.URL.String(), string(raw)
		next := resp.Header.Get("Location")
		if m := refresh.FindStringSubmatch(s.body); m != nil {
			next = html.UnescapeString(m[1])
		}
		if next == "" {
			return s
		}
		u, err := req.URL.Parse(next)
		if err != nil {
			p.r.t.Fatal(err)
		}
		if slices.ContainsFunc(stop, func(f func(string) bool) bool { return f(u.String()) }) {
			s.url = u.String()
			return s
		}
		if req, err = http.NewRequestWithContext(p.r.t.Context(), http.MethodGet, u.String(), nil); err != nil {
			p.r.t.Fatal(err)
		}
	}
	p.r.t.Fatalf("redirected in circles: %v", s.hops)
	return nil
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// form gives the fields of the page's first form, and where it goes.
func (s *seen) form(t *testing.T) (string, url.Values) {
	t.Helper()
	action := formAction.FindStringSubmatch(s.body)
	if action == nil {
		t.Fatalf("no form: %d %s\n%s", s.status, s.url, s.body)
	}
	first, _, _ := strings.Cut(s.body, "</form>")
	fields := url.Values{}
	for _, m := range formField.FindAllStringSubmatch(first, -1) {
		fields.Set(m[1], html.UnescapeString(m[2]))
	}
	return html.UnescapeString(action[1]), fields
}

// send sends a form and follows where it leads.
func (p *person) send(to string, fields url.Values, header http.Header, stop ...func(url string) bool) *seen {
	p.r.t.Helper()
	req, err := http.NewRequestWithContext(p.r.t.Context(), http.MethodPost, to, strings.NewReader(fields.Encode()))
	if err != nil {
		p.r.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.follow(req, stop)
}

// agree opens a link, signs in and allows what is asked.
func (p *person) agree(link string, stop ...func(url string) bool) *seen {
	p.r.t.Helper()
	to, fields := p.open(link).form(p.r.t)
	fields.Set("decision", "allow")
	return p.send(to, fields, nil, stop...)
}

// connect agrees, and has to succeed.
func (p *person) connect(link string) {
	p.r.t.Helper()
	if s := p.agree(link); s.status != http.StatusOK || !strings.Contains(s.body, "<h1>Connected</h1>") {
		p.r.t.Fatalf("not connected: %d %s\n%s\n%s", s.status, s.url, s.body, p.r.log)
	}
}

// atCallback stops before the browser comes back from the upstream's server.
func atCallback(to string) bool { return strings.Contains(to, "/oauth/callback?") }

// main gives the page without what all pages have.
func (s *seen) main() string {
	_, main, _ := strings.Cut(s.body, "<main>")
	return main
}

func mustHave(t *testing.T, s *seen, status int, texts ...string) {
	t.Helper()
	if s.status != status {
		t.Errorf("status %d, want %d\n%s", s.status, status, s.main())
	}
	for _, text := range texts {
		if !strings.Contains(s.body, text) {
			t.Errorf("the page lacks %q:\n%s", text, s.main())
		}
	}
}
