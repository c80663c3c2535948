package gateway_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway"
)

// TestEgress holds that an upstream which was registered by somebody else than the
// operator is reached at a public or an allowed address only, and that nobody is
// told more than that it is out of reach.
func TestEgress(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	tests := []struct {
		name      string
		managedBy string
		allow     []netip.Prefix
		want      bool
	}{
		{"of the file", tenant.ManagedByFile, nil, true},
		{"of the store", tenant.ManagedByStore, nil, false},
		{"of the store, allowed", tenant.ManagedByStore, loopback, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			up := newScripted(t)
			up.tools("move")
			registered := upstreamAt("a", up.URL)
			registered.ManagedBy = tt.managedBy
			r := newSeveral(t, func(o *gateway.Options) { o.Egress.Allow = tt.allow }, registered).start()
			got := newRawClient(t, r.url+"/mcp").send(ask("tools/list", ""))
			if listed := strings.Contains(got.last(), `"a_move"`); listed != tt.want {
				t.Errorf("the tool is listed: %v, want %v: %s", listed, tt.want, got.last())
			}
			if asked := len(up.requests("tools/list")) > 0; asked != tt.want {
				t.Errorf("the server was asked: %v, want %v", asked, tt.want)
			}
			if !tt.want {
				if !strings.Contains(got.last(), `"reason":"connect"`) || strings.Contains(got.last(), "127.0.0.1") || strings.Contains(got.last(), "loopback") {
					t.Errorf("the client was told %s", got.last())
				}
				if r.log.count(`may not be reached: it is a loopback address`) == 0 {
					t.Error("the log does not say why")
				}
			}
		})
	}
}
