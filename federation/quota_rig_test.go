package federation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// meter is an upstream that takes a while for each call, and notes how many there
// are.
type meter struct {
	*fake
	takes   atomic.Int64 // nanoseconds
	now     atomic.Int64
	most    atomic.Int64
	calls   atomic.Int64
	release chan struct{} // where calls wait, when it is not nil
}

func newMeter(tb testing.TB, takes time.Duration) *meter {
	m := &meter{fake: newFake(tb)}
	m.takes.Store(int64(takes))
	m.list(kindTools, tool("x"))
	m.list(kindPrompts, `{"name":"x"}`)
	m.list(kindResources, `{"uri":"doc://1","name":"1"}`)
	m.handle(mcp.MethodToolsCall, func(ctx context.Context, req *mcp.Request) (*answer, error) {
		m.begin()
		defer m.now.Add(-1)
		if m.release != nil {
			<-m.release
		}
		<-time.After(time.Duration(m.takes.Load()))
		return says(200, resultFor(req, `{"content":[]}`)), nil
	})
	return m
}

func (m *meter) begin() {
	m.calls.Add(1)
	for n := m.now.Add(1); ; {
		most := m.most.Load()
		if n <= most || m.most.CompareAndSwap(most, n) {
			return
		}
	}
}

// remote is a Counters behind a network.
type remote struct {
	*forgetful
	takes  time.Duration // one way
	hang   *atomic.Int64 // nanoseconds that it takes besides
	failed *atomic.Bool
	trips  *atomic.Int64
}

// forgetful is a Counters that can lose all it knows.
type forgetful struct {
	now atomic.Pointer[cache.MemoryShared]
}

func (f *forgetful) forget() { f.now.Store(cache.NewShared()) }

var errRemote = errors.New("scripted failure")

func newRemote(of *forgetful) remote {
	return remote{forgetful: of, takes: 200 * time.Microsecond, hang: new(atomic.Int64), failed: new(atomic.Bool), trips: new(atomic.Int64)}
}

func (c remote) trip(ctx context.Context) error {
	c.trips.Add(1)
	select {
	case <-time.After(c.takes + time.Duration(c.hang.Load())):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.failed.Load() {
		return errRemote
	}
	return nil
}

func (c remote) Take(ctx context.Context, s cache.Scope, counter string, r cache.Rate, want int64) (int64, time.Duration, error) {
	if err := c.trip(ctx); err != nil {
		return 0, 0, err
	}
	got, wait, err := c.now.Load().Take(ctx, s, counter, r, want)
	if err := c.trip(ctx); err != nil {
		return 0, 0, err
	}
	return got, wait, err
}

func (c remote) Share(ctx context.Context, s cache.Scope, counter, holder string, want, limit int64, ttl time.Duration) (int64, error) {
	if err := c.trip(ctx); err != nil {
		return 0, err
	}
	got, err := c.now.Load().Share(ctx, s, counter, holder, want, limit, ttl)
	if err := c.trip(ctx); err != nil {
		return 0, err
	}
	return got, err
}

// limited is the tenant default with an upstream a and these limits.
func limited(change func(t *tenant.Tenant)) *tenant.Tenant {
	t := registered(fakeUp("a"))[0]
	change(t)
	return t
}

// quotaReplica is one gateway of several.
type quotaReplica struct {
	*rig
	remote
	stop func()
}

// quotaReplicas starts some gateways in front of one upstream that share counters.
func quotaReplicas(tb testing.TB, n int, up *meter, of *tenant.Tenant, change func(*Options)) []*quotaReplica {
	tb.Helper()
	shared := &forgetful{}
	shared.forget()
	all := make([]*quotaReplica, n)
	for i := range all {
		all[i] = &quotaReplica{remote: newRemote(shared)}
		all[i].rig, all[i].stop = newFakeRig(tb, fakes(map[string]*fake{"a": up.fake}), func(o *Options) {
			o.Store, o.Counters = tenant.NewMemory([]*tenant.Tenant{of}), all[i].remote
			if change != nil {
				change(o)
			}
		})
		all[i].listed("", kindTools)
	}
	return all
}

func stopAll(all []*quotaReplica) {
	for _, r := range all {
		r.stop()
	}
}

// as is a call of the tool x by a user.
func (r *rig) as(user string) *Call {
	c := r.callOf("", mcp.MethodToolsCall, `"name":"a_x"`)
	c.Principal = tenant.Principal{Tenant: "default", Issuer: "https://idp.example.com", Subject: user}
	return c
}

// verdicts are how many calls were answered and refused.
type verdicts struct{ answered, refused atomic.Int64 }

// one makes a call, and gives how long it is to wait when it is refused.
func (o *verdicts) one(tb testing.TB, r *rig, c *Call) (wait time.Duration) {
	_, err := r.try(c)
	var over *mcp.Error
	switch {
	case err == nil:
		o.answered.Add(1)
	case errors.As(err, &over) && over.Code == CodeOverQuota:
		o.refused.Add(1)
		var ms int64
		if _, err := fmt.Sscanf(string(over.Data), `{"retryAfterMs":%d}`, &ms); err != nil || ms <= 0 {
			tb.Errorf("data = %s", over.Data)
		}
		return time.Duration(ms) * time.Millisecond
	default:
		tb.Errorf("error = %v", err)
	}
	return 0
}

// load has workers make calls of one user, one after the other for a time, each with
// a pause after one that was refused.
func load(tb testing.TB, r *rig, workers int, d, pause time.Duration) *verdicts {
	o := &verdicts{}
	end := time.Now().Add(d)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			<-time.After(time.Duration(i) * 37 * time.Microsecond) // so that they do not go in step
			for time.Now().Before(end) {
				if o.one(tb, r, r.as("ann")) > 0 {
					<-time.After(pause)
				}
			}
		})
	}
	wg.Wait()
	return o
}

// side runs the same for all replicas side by side.
func side[T any](all []*quotaReplica, run func(r *quotaReplica) T) []T {
	out := make([]T, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() { out[i] = run(r) })
	}
	wg.Wait()
	return out
}
