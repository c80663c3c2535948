package federation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// Small limits hold exactly, in one process and in one replica.
func TestQuotas(t *testing.T) {
	one := func(where func(t *tenant.Tenant) *tenant.Quota, q tenant.Quota) *tenant.Tenant {
		return limited(func(t *tenant.Tenant) { *where(t) = q })
	}
	whose := []struct {
		name, label string
		where       func(t *tenant.Tenant) *tenant.Quota
	}{
		{"tenant", "", func(t *tenant.Tenant) *tenant.Quota { return &t.Limits.Quota }},
		{"principal", "principal_", func(t *tenant.Tenant) *tenant.Quota { return &t.Limits.Principal }},
		{"upstream", "upstream_", func(t *tenant.Tenant) *tenant.Quota { return &t.Upstreams[0].Limits }},
	}
	tests := []struct {
		name  string
		quota tenant.Quota
		label string
		test  func(t *testing.T, r *rig, up *meter)
	}{
		{"one call a minute", tenant.Quota{CallsPerMinute: 1}, "calls_per_minute", oneCallAMinute},
		{"three calls a minute", tenant.Quota{CallsPerMinute: 3}, "calls_per_minute", threeCallsAMinute},
		{"one in flight", tenant.Quota{InFlight: 1}, "in_flight", oneInFlight},
		{"five in flight", tenant.Quota{InFlight: 5}, "in_flight", fiveInFlight},
	}
	for _, w := range whose {
		for _, tt := range tests {
			for _, replica := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/replica=%v", w.name, tt.name, replica), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						up := newMeter(t, 100*time.Millisecond)
						all := quotaReplicas(t, 1, up, one(w.where, tt.quota), func(o *Options) {
							if !replica {
								o.Counters = nil
							}
						})
						defer stopAll(all)
						tt.test(t, all[0].rig, up)
						if got := gathered(t, all[0].fed, "causeway_quota_rejections_total"); !strings.Contains(got, `"`+w.label+tt.label+`"`) {
							t.Errorf("series = %s, want one of %q", got, w.label+tt.label)
						}
					})
				})
			}
		}
	}
}

func oneCallAMinute(t *testing.T, r *rig, up *meter) {
	o := &verdicts{}
	for i := range int64(3) {
		o.one(t, r, r.as("ann"))
		wait := o.one(t, r, r.as("ann"))
		if o.answered.Load() != i+1 || wait < 59*time.Second || wait > time.Minute {
			t.Fatalf("minute %d: %d calls were answered, and the next is to come in %v", i, o.answered.Load(), wait)
		}
		time.Sleep(wait - 2*time.Millisecond)
		o.one(t, r, r.as("ann"))
		time.Sleep(3 * time.Millisecond)
	}
	if n := up.calls.Load(); n != 3 {
		t.Errorf("%d calls came to the upstream, want 3", n)
	}
}

func threeCallsAMinute(t *testing.T, r *rig, _ *meter) {
	o := &verdicts{}
	for range 10 {
		o.one(t, r, r.as("ann"))
	}
	if n := o.answered.Load(); n != 3 {
		t.Errorf("%d calls were answered at once, want 3", n)
	}
	for range 120 {
		time.Sleep(5 * time.Second)
		o.one(t, r, r.as("ann"))
	}
	if n := o.answered.Load(); n < 3+29 || n > 3+30 {
		t.Errorf("%d calls were answered in ten minutes, want 33", n)
	}
}

func oneInFlight(t *testing.T, r *rig, up *meter) {
	o := &verdicts{}
	for i := range int64(5) {
		var wg sync.WaitGroup
		wg.Go(func() { o.one(t, r, r.as("ann")) })
		time.Sleep(10 * time.Millisecond)
		o.one(t, r, r.as("ann"))
		wg.Wait()
		o.one(t, r, r.as("ann")) // at once, and not again
		if a, n := o.answered.Load(), o.refused.Load(); a != 2*(i+1) || n != i+1 {
			t.Fatalf("round %d: %d answered, %d refused", i, a, n)
		}
		time.Sleep(time.Duration(i) * 700 * time.Millisecond)
	}
	if n := up.most.Load(); n != 1 {
		t.Errorf("%d calls were under way", n)
	}
}

func fiveInFlight(t *testing.T, r *rig, up *meter) {
	o := load(t, r, 12, 3*time.Second, 20*time.Millisecond)
	if n := up.most.Load(); n != 5 || o.refused.Load() == 0 {
		t.Errorf("%d calls were under way, and %d refused", n, o.refused.Load())
	}
	// 50 calls a second can be made.
	if n := o.answered.Load(); n < 110 {
		t.Errorf("%d calls were answered in 3 s", n)
	}
	time.Sleep(5 * time.Second)
	if o := load(t, r, 3, time.Second, time.Millisecond); o.refused.Load() > 0 {
		t.Errorf("%d calls were refused though 3 are under way", o.refused.Load())
	}
}

// What does not go to an upstream is no call; what goes through is one, once.
func TestWhatCountsAsACall(t *testing.T) {
	tests := []struct {
		name, method, params string
		want                 bool
	}{
		{"tool", mcp.MethodToolsCall, `"name":"a_x"`, true},
		{"prompt", mcp.MethodPromptsGet, `"name":"a_x"`, true},
		{"read", mcp.MethodResourcesRead, `"uri":"a+doc://1"`, true},
		{"completion", mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"a_x"},"argument":{"name":"a","value":"b"}`, true},
		{"task", mcp.MethodTasksGet, `"taskId":"a+1"`, true},
		{"tools", mcp.MethodToolsList, "", false},
		{"prompts", mcp.MethodPromptsList, "", false},
		{"discover", mcp.MethodDiscover, "", false},
		{"unknown tool", mcp.MethodToolsCall, `"name":"b_x"`, false},
		{"no name", mcp.MethodToolsCall, `"name":1`, false},
		{"unknown method", "example/odd", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newMeter(t, 0)
			up.result(mcp.MethodPromptsGet, `{"messages":[]}`)
			up.result(mcp.MethodResourcesRead, `{"contents":[]}`)
			up.result(mcp.MethodComplete, `{"completion":{"values":[]}}`)
			up.result(mcp.MethodTasksGet, `{"resultType":"complete","taskId":"1","status":"working"}`)
			all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) { t.Limits.CallsPerMinute = 2 }), nil)
			defer stopAll(all)
			r := all[0].rig
			for range 2 {
				_, _ = r.try(r.callOf("", tt.method, tt.params))
			}
			o := &verdicts{}
			o.one(t, r, r.as("ann"))
			if got := o.refused.Load() == 1; got != tt.want {
				t.Errorf("it counts: %v, want %v", got, tt.want)
			}
		})
	}
}

// A read that the cache answers is no call.
func TestCachedReadsAreFree(t *testing.T) {
	up := newMeter(t, 0)
	up.result(mcp.MethodResourcesRead, `{"contents":[],"ttlMs":60000,"cacheScope":"public"}`)
	all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) { t.Limits.CallsPerMinute = 1 }), nil)
	defer stopAll(all)
	for range 5 {
		all[0].do(all[0].callOf("", mcp.MethodResourcesRead, `"uri":"a+doc://1"`))
	}
}

// What one quota refuses is not paid for by another: neither by the tenant for one
// of its users, nor by the caller for an upstream.
func TestRefusedCallsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 0)
		all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) {
			t.Limits.Quota = tenant.Quota{CallsPerMinute: 6}
			t.Limits.Principal = tenant.Quota{CallsPerMinute: 3}
			t.Upstreams[0].Limits.CallsPerMinute = 1
			t.Upstreams = append(t.Upstreams, fakeUp("b"))
		}), func(o *Options) {
			other := newMeter(t, 0)
			connect := o.Connect
			o.Connect = func(c upstream.Config) upstream.Doer {
				if c.Alias == "b" {
					return other.fake
				}
				return connect(c)
			}
		})
		defer stopAll(all)
		r := all[0].rig
		call := func(user, alias string, want int64) {
			t.Helper()
			c := r.callOf("", mcp.MethodToolsCall, `"name":"`+alias+`_x"`)
			c.Principal = r.as(user).Principal
			o := &verdicts{}
			o.one(t, r, c)
			if got := o.answered.Load(); got != want {
				t.Errorf("a call of %s to %s: answered %d, want %d", user, alias, got, want)
			}
		}
		r.listed("", kindTools)
		call("ann", "a", 1)
		for range 10 {
			call("ann", "a", 0) // the upstream's quota is used up
			time.Sleep(30 * time.Millisecond)
		}
		call("ann", "b", 1)
		call("ann", "b", 1)
		for range 10 {
			call("ann", "b", 0) // so is that of ann
		}
		for range 3 {
			call("bob", "b", 1)
		}
		call("eve", "b", 0) // and that of the tenant
	})
}

// A quota takes any scope: that of a toolset is used by all replicas together, and
// by no other toolset.
func TestQuotaOfAToolset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := quotaReplicas(t, 3, newMeter(t, 0), limited(func(*tenant.Tenant) {}), nil)
		defer stopAll(all)
		limits := tenant.Quota{CallsPerMinute: 4, InFlight: 2}
		bounds := func(r *quotaReplica, toolset string) []bound {
			d := r.load(t)
			defer d.leave()
			return []bound{{quota: newQuota(d, ofToolset, cache.Scope{Tenant: "default"}, "toolset "+toolset), limits: limits}}
		}
		var inside [][]bound
		for _, toolset := range []string{"readonly", "other"} {
			for i, r := range all {
				b := bounds(r, toolset)
				err := enterAll(t.Context(), b)
				if i < 2 && err != nil {
					t.Errorf("%s, replica %d: %v", toolset, i, err)
				}
				if i == 2 {
					wantCode(t, err, CodeOverQuota)
				}
				inside = append(inside, b)
			}
		}
		first := inside[0]
		for range 4 {
			if err := spendAll(t.Context(), first); err != nil {
				t.Error(err)
			}
		}
		wantCode(t, spendAll(t.Context(), inside[1]), CodeOverQuota)
		if err := spendAll(t.Context(), inside[4]); err != nil {
			t.Error(err)
		}
		for _, b := range inside {
			leaveAll(b)
		}
		got := gathered(t, all[2].fed, "causeway_quota_rejections_total") + gathered(t, all[1].fed, "causeway_quota_rejections_total")
		for _, want := range []string{`"toolset_in_flight"`, `"toolset_calls_per_minute"`} {
			if !strings.Contains(got, want) {
				t.Errorf("series = %s, want one of %s", got, want)
			}
		}
	})
}

// A limit that is changed holds from then on.
func TestLimitIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 50*time.Millisecond)
		store := tenant.NewMemory([]*tenant.Tenant{limited(func(t *tenant.Tenant) { t.Limits.Quota = tenant.Quota{InFlight: 8, CallsPerMinute: 1} })})
		all := quotaReplicas(t, 1, up, limited(func(*tenant.Tenant) {}), func(o *Options) { o.Store = store })
		defer stopAll(all)
		r := all[0].rig
		o := &verdicts{}
		o.one(t, r, r.as("ann"))
		o.one(t, r, r.as("ann"))
		if o.refused.Load() != 1 {
			t.Error("the second call of the minute was not refused")
		}
		for _, limit := range []int{3, 12, 1, 0} {
			store.Replace([]*tenant.Tenant{limited(func(t *tenant.Tenant) { t.Limits.InFlight = limit })})
			up.most.Store(0)
			load(t, r, 20, 500*time.Millisecond, 10*time.Millisecond)
			want := int64(limit)
			if limit == 0 {
				want = 20
			}
			if got := up.most.Load(); got != want {
				t.Errorf("limit %d: %d calls were under way", limit, got)
			}
		}
	})
}

// Users that do nothing are forgotten, and those that are under way are not.
func TestPrincipalsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMeter(t, 0)
		up.release = make(chan struct{})
		all := quotaReplicas(t, 1, up, limited(func(t *tenant.Tenant) { t.Limits.Principal = tenant.Quota{InFlight: 1, CallsPerMinute: 100} }), nil)
		defer stopAll(all)
		r := all[0].rig
		o := &verdicts{}
		var wg sync.WaitGroup
		wg.Go(func() { o.one(t, r, r.as("busy")) })
		synctest.Wait()
		for i := range 1_000 {
			c := r.callOf("", mcp.MethodToolsList, "")
			c.Principal.Subject = fmt.Sprint("user", i)
			r.do(c)
		}
		d := r.load(t)
		defer d.leave()
		time.Sleep(time.Minute)
		r.do(r.callOf("", mcp.MethodToolsList, "")) // of nobody in particular, who is one of three by now
		if n := len(d.principals.known); n > 3 {
			t.Errorf("%d users are remembered", n)
		}
		o.one(t, r, r.as("busy"))
		if o.refused.Load() != 1 {
			t.Error("a second call was let through")
		}
		close(up.release)
		wg.Wait()
	})
}

// A caller that leaves while it waits for a quota is none that was refused.
func TestCallerLeavesBeforeAQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := quotaReplicas(t, 1, newMeter(t, 0), limited(func(t *tenant.Tenant) { t.Limits.Quota = tenant.Quota{InFlight: 1, CallsPerMinute: 1} }), nil)
		defer stopAll(all)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := all[0].fed.Handle(ctx, all[0].as("ann")); err != context.Canceled {
			t.Errorf("error = %v", err)
		}
		time.Sleep(time.Second)
		o := &verdicts{}
		o.one(t, all[0].rig, all[0].as("ann"))
		if o.answered.Load() != 1 {
			t.Error("the next call was refused")
		}
	})
}
