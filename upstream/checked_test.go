package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/causeway-mcp/causeway/upstream/egress"
)

// TestChecked holds that the address of an upstream that the operator did not choose
// is checked, whichever way the upstream is spoken to, and that nobody is told to
// try again.
func TestChecked(t *testing.T) {
	var asked atomic.Int32
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	tests := []struct {
		name string
		dial func(Config, *egress.Transports) Doer
	}{
		{"modern", func(c Config, tr *egress.Transports) Doer { return New(c, tr, Deps{}) }},
		{"handshake", func(c Config, tr *egress.Transports) Doer { return NewLegacyHTTP(c, tr, Deps{}) }},
		{"HTTP+SSE", func(c Config, tr *egress.Transports) Doer { return newLegacySSE(c, tr, Deps{}) }},
		{"unknown era", func(c Config, tr *egress.Transports) Doer { return Connect(c, tr, Deps{}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(checked bool, allow ...netip.Prefix) error {
				conf := Config{Tenant: "acme", Alias: "ledger", URL: s.URL, Checked: checked}
				d := tt.dial(conf, egress.New(egress.Options{AllowPrivate: allow}))
				defer d.(interface{ Close() }).Close()
				a, err := d.Do(context.Background(), toolCall())
				if err == nil {
					a.Close()
				}
				return err
			}
			asked.Store(0)
			err := ask(true)
			wantClass(t, err, ClassConnect, false)
			if blocked, ok := errors.AsType[*egress.BlockedError](err); !ok || blocked.Host != "127.0.0.1" {
				t.Errorf("error = %v, want a refusal of the address", err)
			}
			if asked.Load() != 0 {
				t.Error("the server was asked")
			}
			for name, allow := range map[string][]netip.Prefix{"not checked": nil, "allowed": {netip.MustParsePrefix("127.0.0.0/8")}} {
				asked.Store(0)
				if err := ask(allow != nil, allow...); asked.Load() == 0 {
					t.Errorf("%s: the server was not asked: %v", name, err)
				}
			}
		})
	}
}
