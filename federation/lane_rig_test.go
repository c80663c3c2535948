package federation

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// accounts is an upstream that shows each account another server. The account is what
// the header X-Account of the request's credentials says.
type accounts struct {
	alias  string
	shared upstream.CredentialSource // of the client

	mu sync.Mutex
	of map[string]*fake
}

// Do implements upstream.Doer.
func (a *accounts) Do(ctx context.Context, req *upstream.Request) (upstream.Answer, error) {
	source := req.Credentials
	if source == nil {
		source = a.shared
	}
	refuse := func(err error) (upstream.Answer, error) {
		req.Body.Release()
		return nil, &upstream.Error{Alias: a.alias, Class: upstream.ClassUnauthorized, Err: err}
	}
	if source == nil {
		return refuse(fmt.Errorf("no credentials"))
	}
	lines, err := source.Credential(ctx)
	if err != nil {
		return refuse(err)
	}
	p := a.account(lines.Get("X-Account"))
	if p == nil {
		return refuse(fmt.Errorf("no such account"))
	}
	return p.Do(ctx, req)
}

// account gives the server of one; nil where there is none.
func (a *accounts) account(name string) *fake {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[name]
}

// keeper makes the sources of users. Each user has the account of their subject.
type keeper struct {
	mu    sync.Mutex
	made  map[string]int // sources by what they are for
	asked map[string]bool
	// wants has users sign in first, unless they have.
	wants  bool
	signed map[string]bool
	tokens map[string][]string // what sources were told, and when, by subject
	uses   map[string]int
}

func newKeeper() *keeper {
	return &keeper{made: map[string]int{}, asked: map[string]bool{}, signed: map[string]bool{}, tokens: map[string][]string{}, uses: map[string]int{}}
}

// source gives one, as Options.Credentials.
func (k *keeper) source(t *tenant.Tenant, u *tenant.Upstream, who *tenant.Principal) upstream.CredentialSource {
	if who == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made[t.Name+" "+u.Alias+" "+who.Subject+" "+who.ClientID]++
	return &account{keeper: k, subject: who.Subject}
}

// sign notes that a user has signed in, or out.
func (k *keeper) sign(subject string, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.signed[subject] = in
}

// account is the source of one user.
type account struct {
	keeper  *keeper
	subject string
}

// goThere is the error of users who have to sign in.
type goThere struct{ url string }

func (e *goThere) Error() string { return "the user has to sign in" }

func (e *goThere) ConsentURL() (url, message string) { return e.url, "Sign in, please" }

// Credential implements upstream.CredentialSource.
func (a *account) Credential(context.Context) (http.Header, error) {
	a.keeper.mu.Lock()
	defer a.keeper.mu.Unlock()
	a.keeper.uses[a.subject]++
	if a.keeper.wants && !a.keeper.signed[a.subject] {
		return nil, &goThere{"https://gateway.example/connect?to=" + a.subject}
	}
	return http.Header{"X-Account": {a.subject}}, nil
}

// Refused implements upstream.CredentialSource.
func (a *account) Refused(context.Context, http.Header, int, []string) (bool, error) {
	return false, nil
}

// Take implements TokenTaker.
func (a *account) Take(token string, _ time.Time) {
	a.keeper.mu.Lock()
	defer a.keeper.mu.Unlock()
	a.keeper.tokens[a.subject] = append(a.keeper.tokens[a.subject], fmt.Sprintf("%s after %d uses", token, a.keeper.uses[a.subject]))
}

var _ TokenTaker = (*account)(nil)

// personal is a Federation in front of two upstreams: a, which shows each user another
// server, and b, which shows all the same.
type personal struct {
	*rig
	*keeper
	accounts *accounts
	common   *fake
}

// ownUp is the registration of an upstream that is shown who calls.
func ownUp(alias string) tenant.Upstream {
	u := fakeUp(alias)
	u.Auth.Mode = tenant.CredentialUser
	return u
}

// owned is a server of one user: all that it has says whose it is.
func owned(tb testing.TB, subject string) *fake {
	p := newFake(tb)
	p.list(kindTools, tool("shared"), tool(subject))
	p.list(kindPrompts, fmt.Sprintf(`{"name":%q}`, subject))
	p.list(kindResources, `{"uri":"doc://1","name":"one"}`, fmt.Sprintf(`{"uri":"doc://%s","name":"own"}`, subject))
	p.result(mcp.MethodToolsCall, fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"for %s"}]}`, subject))
	p.result(mcp.MethodPromptsGet, `{"resultType":"complete","messages":[]}`)
	p.result(mcp.MethodResourcesRead, fmt.Sprintf(`{"resultType":"complete","contents":[{"uri":"doc://1","text":"of %s"}],"ttlMs":600000,"cacheScope":"public"}`, subject))
	p.listens("")
	return p
}

// personally runs a test for ann and bob in a bubble.
func personally(t *testing.T, change func(*Options), test func(t *testing.T, p *personal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, stop := newPersonal(t, change)
		defer stop()
		test(t, p)
	})
}

func newPersonal(t *testing.T, change func(*Options)) (*personal, func()) {
	t.Helper()
	p := &personal{keeper: newKeeper(), common: newFake(t)}
	p.accounts = &accounts{alias: "a", of: map[string]*fake{"ann": owned(t, "ann"), "bob": owned(t, "bob")}}
	p.common.list(kindTools, tool("common"))
	p.common.listens("")
	r, stop := newFakeRig(t, map[string]upstream.Doer{"a": p.accounts, "b": p.common}, func(o *Options) {
		connect := o.Connect
		o.Connect = func(c upstream.Config) upstream.Doer {
			if c.Alias == "a" {
				p.accounts.shared = c.Credentials
			}
			return connect(c)
		}
		o.Credentials = p.source
		if change != nil {
			change(o)
		}
	})
	p.rig = r
	r.conf.Upstreams[0] = ownUp("a")
	r.reconfigure(r.conf.Upstreams...)
	return p, stop
}

// subject gives the server that a user has.
func (p *personal) subject(name string) *fake { return p.accounts.account(name) }

// by makes a user the caller.
func (c *Call) by(subject string, groups ...string) *Call {
	c.Principal = tenant.Principal{Tenant: "default", Issuer: "https://idp.example.com", Subject: subject, ClientID: "client", Groups: groups}
	return c
}

// sees gives the names that a user lists, and what is marked as partial.
func (r *rig) sees(subject, alias string, k kind, groups ...string) (list []string, partial string) {
	r.t.Helper()
	body := r.do(r.callOf(alias, k.method(), "").by(subject, groups...))
	return names(r.t, k, body), field(r.t, body, "result", "_meta", mcp.MetaPartial)
}

// hears opens a listen stream of a user.
func (r *rig) hears(t *testing.T, subject, alias, filter string, groups ...string) *Subscription {
	t.Helper()
	s, err := r.fed.Listen(t.Context(), r.callOf(alias, mcp.MethodListen, `"notifications":`+filter).by(subject, groups...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lanes gives the names of the lanes that are kept, by alias, and how many audiences.
func (r *rig) kept(t *testing.T) (lanes []string, audiences int) {
	t.Helper()
	d := r.load(t)
	d.lanes.mu.Lock()
	for key := range d.lanes.kept {
		lanes = append(lanes, key.parent.conf.Alias+" "+key.name)
	}
	d.lanes.mu.Unlock()
	slices.Sort(lanes)
	seen := &d.current().audiences
	seen.mu.RLock()
	defer seen.mu.RUnlock()
	return lanes, len(slices.Collect(maps.Keys(seen.kept)))
}

// laneNamed is how a user's lane of an upstream is kept.
func laneNamed(alias, subject string) string {
	return alias + " " + new(Call).by(subject).Principal.Key()
}
