package federation

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// instant is an upstream that answers calls with one message that was parsed
// before, so that a benchmark measures the federation alone. What it does not
// know it leaves to its fake.
type instant struct {
	*fake
	method string
	msg    *mcp.Message
}

func newInstant(b *testing.B, method, result string) *instant {
	b.Helper()
	msg, err := mcp.ParseMessage([]byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`), 64)
	if err != nil {
		b.Fatal(err)
	}
	return &instant{fake: newFake(b), method: method, msg: msg}
}

// Do implements upstream.Doer.
func (i *instant) Do(ctx context.Context, req *upstream.Request) (upstream.Answer, error) {
	if req.Method != i.method {
		return i.fake.Do(ctx, req)
	}
	req.Body.Release()
	return i, nil
}

// Next and the others implement upstream.Answer.
func (i *instant) Next() (*mcp.Message, error) { return i.msg, nil }
func (i *instant) Status() int                 { return http.StatusOK }
func (i *instant) Waited() time.Duration       { return 0 }
func (i *instant) Close()                      {}

// benchCall makes a Call with the headers that a client sends.
func benchCall(b *testing.B, method, params string) *Call {
	b.Helper()
	if params != "" {
		params += ","
	}
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":"c-1","method":%q,"params":{%s%s}}`, method, params, fmt.Sprintf(metaFields, "{}"))
	m, perr := mcp.ParseRequest([]byte(raw), 64)
	if perr != nil {
		b.Fatal(perr)
	}
	h := http.Header{}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Accept-Encoding": "gzip", "Content-Length": "300", "Content-Type": "application/json",
		"Mcp-Method": method, "Mcp-Name": "a_t7", "Mcp-Protocol-Version": "2026-07-28", "User-Agent": "bench",
	} {
		h.Set(name, value)
	}
	return &Call{Endpoint: Endpoint{Tenant: "default"}, Request: m, Header: h}
}

// benchTools makes n tools.
func benchTools(n int) []string {
	tools := make([]string, n)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"t%d","description":%q,"inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`, i, strings.Repeat("d", 120))
	}
	return tools
}

// handled runs one call b.N times.
func handled(b *testing.B, r *rig, c *Call) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		reply, err := r.fed.Handle(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		reply.Body.Release()
	}
}

func BenchmarkCall(b *testing.B) {
	const text = `{"resultType":"complete","content":[{"type":"text","text":"22.5 °C, partly cloudy"}]}`
	const link = `{"resultType":"complete","content":[{"type":"resource_link","uri":"doc://1","name":"n"}]}`
	for _, bb := range []struct {
		name, result, params string
		ups                  int
	}{
		{"one upstream", text, `"name":"a_t7","arguments":{"q":"Bern"}`, 1},
		{"100 upstreams", text, `"name":"a_t7","arguments":{"q":"Bern"}`, 100},
		{"link", link, `"name":"a_t7","arguments":{"q":"Bern"}`, 1},
	} {
		b.Run(bb.name, func(b *testing.B) {
			up := newInstant(b, mcp.MethodToolsCall, bb.result)
			up.list(kindTools, benchTools(20)...)
			fakes := map[string]upstream.Doer{"a": up}
			for i := 1; i < bb.ups; i++ {
				other := newFake(b)
				other.list(kindTools, benchTools(5)...)
				fakes[fmt.Sprint("u", i)] = other
			}
			r, stop := newFakeRig(b, fakes, nil)
			defer stop()
			warm(b, r)
			handled(b, r, benchCall(b, mcp.MethodToolsCall, bb.params))
		})
	}
}

// warm fetches all lists of tools.
func warm(b *testing.B, r *rig) {
	b.Helper()
	reply, err := r.fed.Handle(b.Context(), benchCall(b, mcp.MethodToolsList, ""))
	if err != nil {
		b.Fatal(err)
	}
	reply.Body.Release()
}

func BenchmarkListWarm(b *testing.B) {
	for _, n := range []int{20, 527} {
		b.Run(fmt.Sprint(n, " tools"), func(b *testing.B) {
			up := newFake(b)
			up.list(kindTools, benchTools(n)...)
			r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up}, nil)
			defer stop()
			warm(b, r)
			handled(b, r, benchCall(b, mcp.MethodToolsList, ""))
		})
	}
}

// BenchmarkRefresh is what one upstream's refresh costs when nothing changed:
// the fetch and the next list.
func BenchmarkRefresh(b *testing.B) {
	for _, n := range []int{527, 20000} {
		b.Run(fmt.Sprint(n, " tools"), func(b *testing.B) {
			up, other := newFake(b), newFake(b)
			up.list(kindTools, benchTools(20)...)
			other.list(kindTools, benchTools(n)...)
			r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up, "b": other}, nil)
			defer stop()
			warm(b, r)
			m := r.fed.domains["default"].member("a")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.refresh(b.Context(), kindTools); err != nil {
					b.Fatal(err)
				}
				warm(b, r)
			}
		})
	}
}

// BenchmarkSubscribe is what a client that comes and goes costs while many listen.
func BenchmarkSubscribe(b *testing.B) {
	for _, n := range []int{0, 5000} {
		b.Run(fmt.Sprint(n, " streams"), func(b *testing.B) {
			r, stop := listening(b, n)
			defer stop()
			c := benchCall(b, mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a+doc://new","a+doc://2"]}`)
			b.ReportAllocs()
			for b.Loop() {
				s, err := r.fed.Listen(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// listening starts a Federation with n streams, each on ten resources of its own.
func listening(b *testing.B, n int) (*rig, func()) {
	b.Helper()
	up := newFake(b)
	up.listens("")
	r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up}, func(o *Options) { o.Limits.ListenStreams = n + 10 })
	for i := range n {
		var uris []string
		for j := range 10 {
			uris = append(uris, fmt.Sprintf(`"a+doc://%d/%d"`, i, j))
		}
		c := benchCall(b, mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`)
		if _, err := r.fed.Listen(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
	return r, stop
}

// BenchmarkResourceUpdated finds the one stream among many that subscribed.
func BenchmarkResourceUpdated(b *testing.B) {
	r, stop := listening(b, 5000)
	defer stop()
	d := r.fed.domains["default"]
	m := d.member("a")
	raw := []byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://none/1"}}`)
	b.ReportAllocs()
	for b.Loop() {
		d.hub.resourceChanged(m, "doc://none/1", raw)
	}
}

// BenchmarkLoad is what loading and dropping one of many tenants costs.
func BenchmarkLoad(b *testing.B) {
	tenants := make([]*tenant.Tenant, 10000)
	for i := range tenants {
		tenants[i] = &tenant.Tenant{Name: fmt.Sprint("t", i), Separator: "_", Upstreams: []tenant.Upstream{fakeUp("a"), fakeUp("b")}}
	}
	up := newFake(b)
	r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up, "b": up}, func(o *Options) {
		o.Store = tenant.NewMemory(tenants)
		o.Metrics = prometheus.NewRegistry()
	})
	defer stop()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprint("t", i%len(tenants))
		if err := r.fed.Check(b.Context(), Endpoint{Tenant: name}); err != nil {
			b.Fatal(err)
		}
		r.fed.drop(name, r.fed.domains[name])
	}
}

// BenchmarkViewOfClashes makes the view of two upstreams without a prefix that
// hold the same names.
func BenchmarkViewOfClashes(b *testing.B) {
	store := registered(fakeUp("a"), fakeUp("b"))
	for i := range store[0].Upstreams {
		store[0].Upstreams[i].Prefix = tenant.PrefixNone
	}
	up := newFake(b)
	up.list(kindTools, benchTools(20000)...)
	r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up, "b": up}, func(o *Options) { o.Store = tenant.NewMemory(store) })
	defer stop()
	warm(b, r)
	d := r.fed.domains["default"].current()
	parts := []part{{seg: d.members[0].known(kindTools)}, {seg: d.members[1].known(kindTools)}}
	if parts[0].seg == nil || parts[1].seg == nil {
		b.Fatal("the lists are not there")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		other := *parts[0].seg
		other.digest[0] = byte(i)
		d.merge(viewKey{kind: kindTools}, d.members, []part{{seg: &other}, parts[1]})
	}
}

// tenRules is a policy whose rules have to be tried one after the other.
func tenRules() *tenant.Policy {
	p := &tenant.Policy{Default: tenant.EffectDeny}
	for i := range 9 {
		p.Rules = append(p.Rules, tenant.Rule{
			Name: fmt.Sprint("r", i), Effect: tenant.EffectDeny,
			When: fmt.Sprintf(`"g%d" in principal.groups && item.alias == "a" && item.name.startsWith("a_x")`, i),
		})
	}
	p.Rules = append(p.Rules, tenant.Rule{Name: "r9", Effect: tenant.EffectAllow, When: `"staff" in principal.groups && kind == "tool"`})
	return p
}

// BenchmarkGuarded is what a policy of ten rules, and an upstream that is shown who
// calls, add to a call and a list.
func BenchmarkGuarded(b *testing.B) {
	const text = `{"resultType":"complete","content":[{"type":"text","text":"22.5 °C, partly cloudy"}]}`
	for _, guard := range []struct {
		name   string
		policy *tenant.Policy
		lanes  bool
	}{{"open", nil, false}, {"ten rules", tenRules(), false}, {"ten rules that read arguments", argued(tenRules()), false}, {"lanes", nil, true}, {"ten rules and lanes", tenRules(), true}} {
		for _, what := range []struct{ name, method, params string }{
			{"call", mcp.MethodToolsCall, `"name":"a_t7","arguments":{"q":"Bern"}`}, {"list", mcp.MethodToolsList, ""},
		} {
			b.Run(what.name+" "+guard.name, func(b *testing.B) {
				up := newInstant(b, mcp.MethodToolsCall, text)
				up.list(kindTools, benchTools(100)...)
				r, stop := newFakeRig(b, map[string]upstream.Doer{"a": up}, func(o *Options) {
					conf := registered(fakeUp("a"))
					conf[0].Policy = guard.policy
					if guard.lanes {
						conf[0].Upstreams[0] = ownUp("a")
					}
					o.Store, o.Credentials = tenant.NewMemory(conf), newKeeper().source
				})
				defer stop()
				c := benchCall(b, what.method, what.params).by("ann", "staff", "other", "more")
				reply, err := r.fed.Handle(b.Context(), benchCall(b, mcp.MethodToolsList, "").by("ann", "staff", "other", "more"))
				if err != nil {
					b.Fatal(err)
				}
				reply.Body.Release()
				handled(b, r, c)
			})
		}
	}
}

// argued makes the last rule read arguments.
func argued(p *tenant.Policy) *tenant.Policy {
	p.Rules[len(p.Rules)-1].When += ` && request.arguments.q != "Oslo"`
	return p
}
