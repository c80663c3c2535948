package federation

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// What is kept for a user goes when the user did nothing for long, and not while a
// stream of theirs needs it.
func TestLanesAreDroppedWhenIdle(t *testing.T) {
	personally(t, func(o *Options) { o.Limits.Idle = 10 * time.Minute }, func(t *testing.T, p *personal) {
		p.subject("bob").list(kindTools, tool("one"))
		for _, user := range []string{"ann", "bob"} {
			p.sees(user, "", kindTools)
		}
		s := p.hears(t, "bob", "", `{"toolsListChanged":true}`)
		for range 4 {
			elapse(5 * time.Minute)
			if _, err := p.try(p.callOf("", mcp.MethodToolsList, "")); err != nil { // the tenant is in use
				t.Fatal(err)
			}
		}
		lanes, audiences := p.kept(t)
		if diff := cmp.Diff([]string{laneNamed("a", "bob")}, lanes); diff != "" || audiences != 0 {
			t.Errorf("%d audiences, lanes (-want +got):\n%s", audiences, diff)
		}
		p.subject("bob").list(kindTools, tool("two"))
		p.subject("bob").push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		if got := next(t, s); got != toolsChangedToClient {
			t.Errorf("got %s", got)
		}
		if got, _ := p.sees("bob", "", kindTools); !slices.Equal(got, []string{"a_two", "b_common"}) {
			t.Errorf("bob sees %v", got)
		}
		if p.made["default a bob client"] != 1 || p.subject("bob").open() != 1 {
			t.Errorf("%d sources, %d streams for bob", p.made["default a bob client"], p.subject("bob").open())
		}
		s.Close()
		elapse(30 * time.Minute)
		if lanes, audiences := p.kept(t); len(lanes)+audiences != 0 {
			t.Errorf("%d audiences and the lanes %v are left", audiences, lanes)
		}
		if got, _ := p.sees("ann", "", kindTools); !slices.Contains(got, "a_ann") {
			t.Errorf("ann sees %v when she is back", got)
		}
	})
}

// Callers that policy tells apart are kept by what it reads, and go as well.
func TestAudiencesAreShared(t *testing.T) {
	policed(t, &tenant.Policy{Default: tenant.EffectAllow, Rules: []tenant.Rule{
		{Name: "r", When: `"g1" in principal.groups && tool.name == "a_one"`, Effect: tenant.EffectDeny},
	}}, func(t *testing.T, _ *fake, r *rig) {
		for i := range 50 {
			r.sees(fmt.Sprint("user", i), "", kindTools, fmt.Sprint("g", i%3))
		}
		if _, audiences := r.kept(t); audiences != 2 {
			t.Errorf("%d audiences, want those in g1 and the others", audiences)
		}
		elapse(time.Hour)
		r.load(t)
		if _, audiences := r.kept(t); audiences != 0 {
			t.Errorf("%d audiences are left", audiences)
		}
	})
}

// policed runs a test in front of one upstream, a, under a policy, in a bubble.
func policed(t *testing.T, policy *tenant.Policy, test func(t *testing.T, p *fake, r *rig)) {
	t.Helper()
	bubble(t, func(t *testing.T, p *fake, r *rig) {
		r.conf.Policy = policy
		r.reconfigure(r.conf.Upstreams...)
		test(t, p, r)
	})
}

// More audiences than are kept make room for one another.
func TestAudiencesAreBounded(t *testing.T) {
	var kept audiences
	now := time.Unix(1e9, 0)
	for i := range 3 * maxAudiences {
		a := audience{user: fmt.Sprint(i)}
		made := &roster{audience: a}
		if got, _ := kept.put(a, made, now.Add(time.Duration(i)*time.Second)); got != made || kept.get(a, now.Add(time.Duration(i)*time.Second)) != made {
			t.Fatal("an audience is another one's")
		}
		kept.get(audience{user: "0"}, now.Add(time.Duration(i)*time.Second))
	}
	if n := len(kept.kept); n > maxAudiences || n < maxAudiences/2 {
		t.Errorf("%d are kept", n)
	}
	if kept.get(audience{user: "0"}, now) == nil {
		t.Error("one that was always in use was dropped")
	}
}

// So do audiences with long header lines.
func TestHeadersAreBounded(t *testing.T) {
	var kept audiences
	now := time.Unix(1e9, 0)
	const each = 60 << 10
	for i := range 3 * maxHeaders / each {
		a := audience{headers: fmt.Sprint(i)}
		made := &roster{audience: a, caller: caller{header: http.Header{"X-Key": {strings.Repeat("k", each)}}}}
		if got, _ := kept.put(a, made, now.Add(time.Duration(i)*time.Second)); got != made {
			t.Fatal("an audience is another one's")
		}
	}
	if n := len(kept.kept) * each; n > maxHeaders || n < maxHeaders/2 {
		t.Errorf("%d bytes are kept", n)
	}
	if kept.prune(now.Add(time.Hour * 24)); kept.headers != 0 {
		t.Errorf("%d bytes are counted of none", kept.headers)
	}
}

// What a roster hides something of is used as long as that is, so that it is counted.
func TestWhatIsHiddenOfIsKept(t *testing.T) {
	var kept audiences
	now := time.Unix(1e9, 0)
	own := &roster{audience: audience{user: "ann"}}
	hidden := &roster{audience: audience{user: "ann", hidden: true}, own: own}
	kept.put(own.audience, own, now)
	kept.put(hidden.audience, hidden, now)
	kept.get(hidden.audience, now.Add(time.Hour))
	kept.prune(now.Add(time.Minute))
	if kept.get(own.audience, now) != own {
		t.Error("it was dropped")
	}
}

// And so do audiences that are shown long lists.
func TestViewsAreBounded(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		d := p.load(t)
		const each = 1 << 20
		long := &view{list: make([]byte, each)}
		for i := range 3 * maxViews / each {
			who := tenant.Principal{Tenant: "default", Issuer: "https://idp.example.com", Subject: "bob", ClientID: fmt.Sprint(i)}
			r := d.current().seenBy(caller{who: &who})
			for range 2 { // it takes its own place
				r.keepView(viewKey{kind: kindTools}, long)
			}
			if i%10 == 0 {
				elapse(time.Second)
			}
		}
		elapse(time.Second)
		lanes, audiences := p.kept(t)
		if n := audiences * each; n > maxViews || n < maxViews/2 {
			t.Errorf("%d bytes are kept", n)
		}
		if len(lanes) > maxViews/each+maxViews/each/8 {
			t.Errorf("%d lanes are kept", len(lanes))
		}
		d.prune(p.fed.now().Add(time.Hour))
		if kept := &d.current().audiences; kept.views != 0 {
			t.Errorf("%d bytes are counted of none", kept.views)
		}
	})
}

// The lanes of audiences that made room go with them: a user with ever new clients, or a
// caller with ever new headers, has no more kept than that.
func TestLanesAreBounded(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		s := p.hears(t, "ann", "", `{"toolsListChanged":true}`)
		d := p.load(t)
		for i := range 2 * maxAudiences {
			who := tenant.Principal{Tenant: "default", Issuer: "https://idp.example.com", Subject: "bob", ClientID: fmt.Sprint(i)}
			d.current().seenBy(caller{who: &who})
			if i%100 == 0 {
				elapse(time.Second)
			}
		}
		elapse(time.Second)
		lanes, audiences := p.kept(t)
		if len(lanes) > maxAudiences+maxAudiences/8 || audiences > maxAudiences {
			t.Errorf("%d lanes and %d audiences are kept", len(lanes), audiences)
		}
		if !slices.Contains(lanes, laneNamed("a", "ann")) || ended(s) {
			t.Error("the lane of a stream was dropped")
		}
		s.Close()
	})
}

// Another configuration of an upstream makes its lanes anew, and drops what was kept
// for them.
func TestReconfigurationRenewsLanes(t *testing.T) {
	personally(t, nil, func(t *testing.T, p *personal) {
		p.sees("ann", "", kindTools)
		read := func() { p.do(p.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`).by("ann")) }
		read()
		lists := p.hears(t, "ann", "", `{"toolsListChanged":true}`)
		watches := p.hears(t, "ann", "", `{"resourceSubscriptions":["a+doc://1"]}`)
		elapse(3 * time.Second)
		same := p.conf.Upstreams
		p.reconfigure(same...)
		elapse(time.Second)
		if p.made["default a ann client"] != 1 || ended(watches) {
			t.Error("a registration that changes nothing renewed a lane")
		}
		changed := ownUp("a")
		changed.Version = "2"
		p.subject("ann").list(kindTools, tool("new"))
		p.reconfigure(changed, fakeUp("b"))
		elapse(3 * time.Second)
		if got := next(t, lists); got != toolsChangedToClient || ended(lists) {
			t.Errorf("told %s", got)
		}
		if !ended(watches) {
			t.Error("a stream goes on that watches what is another upstream now")
		}
		if n := p.subject("ann").open(); n != 1 {
			t.Errorf("%d streams are open for ann", n)
		}
		if got, _ := p.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_new", "b_common"}) || p.made["default a ann client"] != 2 {
			t.Errorf("ann sees %v, with %d sources", got, p.made["default a ann client"])
		}
		// The first configuration comes back, and with it perhaps another server.
		p.reconfigure(same...)
		read()
		if n := p.subject("ann").count(mcp.MethodResourcesRead); n != 2 {
			t.Errorf("the server was read %d times", n)
		}
		if lanes, _ := p.kept(t); len(lanes) != 1 {
			t.Errorf("lanes %v", lanes)
		}
	})
}

// people are replicas in front of an upstream that shows who calls.
type people struct {
	*keeper
	accounts *accounts
	rigs     []*rig
}

// populated runs a test of n replicas in a bubble.
func populated(t *testing.T, n int, test func(t *testing.T, c *people)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &people{keeper: newKeeper(), accounts: &accounts{alias: "a", of: map[string]*fake{"ann": owned(t, "ann"), "bob": owned(t, "bob")}}}
		shared, reads, lists := cache.NewShared(), cache.NewMemory(0), cache.NewMemory(0)
		for i := range n {
			l := newLine(shared)
			r, stop := newFakeRig(t, map[string]upstream.Doer{"a": c.accounts}, func(o *Options) {
				o.Cache, o.Credentials = reads, c.source
				o.Cluster = &Cluster{Replica: fmt.Sprint("r", i), Lists: &linedLists{lists, l}, Leases: l, Boards: l, Bus: l}
			})
			r.reconfigure(ownUp("a"))
			c.rigs = append(c.rigs, r)
			defer func() {
				l.thaw()
				stop()
			}()
		}
		test(t, c)
	})
}

// Replicas share the lists of a user, with nobody else.
func TestReplicasShareTheListsOfOneUser(t *testing.T) {
	populated(t, 2, func(t *testing.T, c *people) {
		for _, r := range c.rigs {
			for _, user := range []string{"ann", "bob"} {
				if got, partial := r.sees(user, "", kindTools); !slices.Equal(got, []string{"a_" + user, "a_shared"}) || partial != "" {
					t.Errorf("%s sees %v, partial %s", user, got, partial)
				}
				body := r.do(r.callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`).by(user))
				if !strings.Contains(body, "of "+user) {
					t.Errorf("%s reads %s", user, body)
				}
			}
		}
		for _, user := range []string{"ann", "bob"} {
			p := c.accounts.account(user)
			if lists, reads := p.count(mcp.MethodToolsList), p.count(mcp.MethodResourcesRead); lists != 1 || reads != 1 {
				t.Errorf("%s's server was asked for tools %d times, and read %d times", user, lists, reads)
			}
		}
	})
}

// One replica listens for a user, and all tell the user's streams.
func TestReplicasListenForUsers(t *testing.T) {
	populated(t, 2, func(t *testing.T, c *people) {
		streams := map[string][]*Subscription{}
		for _, r := range c.rigs {
			for _, user := range []string{"ann", "bob"} {
				r.sees(user, "", kindTools)
				streams[user] = append(streams[user], r.hears(t, user, "", `{"toolsListChanged":true,"resourceSubscriptions":["a+doc://1"]}`))
			}
		}
		elapse(5 * time.Second)
		for _, user := range []string{"ann", "bob"} {
			if n := c.accounts.account(user).open(); n != 1 {
				t.Errorf("%d streams are open for %s", n, user)
			}
			for _, s := range streams[user] {
				ended(s) // what may have changed before they were heard is told
			}
		}
		c.accounts.account("ann").list(kindTools, tool("new"))
		c.accounts.account("ann").push(mcp.NotificationToolsChanged, `{}`)
		elapse(time.Second)
		c.accounts.account("ann").push(mcp.NotificationResourceUpdated, `{"uri":"doc://1"}`)
		elapse(time.Second)
		for i, s := range streams["ann"] {
			if got := next(t, s); got != toolsChangedToClient {
				t.Errorf("replica %d tells ann %s", i, got)
			}
			if got := next(t, s); !strings.Contains(got, `"uri":"a+doc://1"`) {
				t.Errorf("replica %d tells ann %s", i, got)
			}
			none(t, s)
			none(t, streams["bob"][i])
		}
	})
}

// A sign-in that one replica is told of shows on the others: to those who listen, and
// to those who list.
func TestReplicasHearOfASignIn(t *testing.T) {
	for _, told := range []int{0, 1, 2} {
		t.Run(fmt.Sprint("replica ", told), func(t *testing.T) {
			populated(t, 3, func(t *testing.T, c *people) {
				c.wants = true
				who := c.rigs[0].callOf("", mcp.MethodToolsList, "").by("ann").Principal
				var streams []*Subscription
				for _, r := range c.rigs[:2] { // the last does not know the tenant at all
					if got, partial := r.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_connect"}) || partial != "" {
						t.Errorf("before that: %v, partial %s", got, partial)
					}
				}
				for _, r := range c.rigs[1:2] {
					streams = append(streams, r.hears(t, "ann", "", `{"toolsListChanged":true}`))
				}
				elapse(5 * time.Second)
				c.sign("ann", true)
				c.rigs[told].fed.Connected(t.Context(), "default", "a", &who)
				elapse(500 * time.Millisecond)
				for _, s := range streams {
					if got := next(t, s); got != toolsChangedToClient {
						t.Errorf("told %s", got)
					}
					none(t, s)
				}
				for i, r := range c.rigs {
					if got, _ := r.sees("ann", "", kindTools); !slices.Equal(got, []string{"a_ann", "a_shared"}) {
						t.Errorf("replica %d shows %v", i, got)
					}
				}
			})
		})
	}
}
