package federation

import (
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/upstream"
)

// TestCheckedUpstreams holds that the addresses of upstreams are checked but for
// those in the operator's file, and that a registration which leaves the file loses
// that, although it is the same otherwise.
func TestCheckedUpstreams(t *testing.T) {
	p := newFake(t)
	p.list(kindTools, tool("x"))
	made := make(chan bool, 10)
	r, stop := newFakeRig(t, nil, func(o *Options) {
		o.Connect = func(c upstream.Config) upstream.Doer {
			made <- c.Checked
			return p
		}
	})
	defer stop()
	r.listed("", kindTools)
	for _, tt := range []struct {
		managedBy string
		want      bool
	}{{tenant.ManagedByFile, false}, {tenant.ManagedByStore, true}, {tenant.ManagedByFile, false}, {"", true}} {
		up := fakeUp("a")
		up.ManagedBy = tt.managedBy
		r.reconfigure(up)
		if got := <-made; got != tt.want {
			t.Errorf("managed by %q: checked %v, want %v", tt.managedBy, got, tt.want)
		}
	}
}
