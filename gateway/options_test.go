package gateway

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/federation/tenant"
)

// complete options, which are valid.
func validOptions() Options {
	o := testOptions()
	o.AdminListen = "127.0.0.1:9090"
	o.PublicURL = "https://gw.example.com/base"
	o.AllowedOrigins = []string{"https://app.example.com:8443"}
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	o.Store, o.Cache, o.Ring = tenant.NewMemory(nil), cache.NewMemory(0), &seal.Ring{}
	return o
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Options)
		want   []string // without "gateway: Options."
	}{
		{"valid", func(*Options) {}, nil},
		{"no admin listener, no public URL", func(o *Options) { o.AdminListen, o.PublicURL = "", "" }, nil},
		{"addresses", func(o *Options) { o.Listen, o.AdminListen = "127.0.0.1", "127.0.0.1:99999" }, []string{
			`Listen: "127.0.0.1" is not host:port`,
			`AdminListen: "127.0.0.1:99999" has no port between 0 and 65535`,
		}},
		{"public URL", func(o *Options) { o.PublicURL = "gw.example.com" }, []string{`PublicURL: "gw.example.com" is not http:// or https:// with a host`}},
		{"public URL with a query", func(o *Options) { o.PublicURL = "https://gw.example.com?a=b" }, []string{`PublicURL: "https://gw.example.com?a=b" must have no query and no fragment`}},
		{"origins", func(o *Options) {
			o.AllowedOrigins = []string{"*", "https://a.example", "https://a.example/x"}
		}, []string{
			`AllowedOrigins[0]: "*" is not http:// or https:// with a host`,
			`AllowedOrigins[2]: "https://a.example/x" is not an origin: nothing follows its host and port`,
		}},
		{"proxies", func(o *Options) { o.TrustedProxies = make([]netip.Prefix, 1) }, []string{"TrustedProxies[0]: is no address"}},
		{"egress", func(o *Options) { o.Egress.Allow = make([]netip.Prefix, 1) }, []string{"Egress.Allow[0]: is no network"}},
		{"open to all", func(o *Options) { o.Listen = "0.0.0.0:8080" }, nil},
		{"open to all, acknowledged", func(o *Options) { o.Listen, o.AllowUnauthenticated = ":8080", true }, nil},
		{"collaborators", func(o *Options) {
			o.Store, o.Cache, o.Ring, o.Logger, o.Registerer, o.Gatherer = nil, nil, nil, nil, nil, nil
		}, []string{
			"Store: is missing", "Cache: is missing", "Ring: is missing", "Logger: is missing", "Registerer: is missing", "Gatherer: is missing",
		}},
		{"no bounds", func(o *Options) { o.Limits = Limits{MaxBuffered: -1} }, []string{
			"Limits.MaxBody: must be positive", "Limits.MaxHeader: must be positive", "Limits.MaxDepth: must be positive",
			"Limits.MaxBuffered: must not be negative",
			"Limits.HeaderTimeout: must be positive", "Limits.BodyTimeout: must be positive", "Limits.IdleTimeout: must be positive",
			"Limits.WriteTimeout: must be positive", "Limits.KeepAlive: must be positive",
			"Limits.Streams: must be positive", "Limits.StreamsPerPrincipal: must be positive", "Limits.StreamLifetime: must be positive",
			"Limits.SessionLifetime: must be positive", "Limits.Sessions: must be positive", "Limits.AnswerWait: must be positive",
			"Limits.Asking: must be positive", "Limits.AskingPerPrincipal: must be positive",
			"Limits.ShutdownGrace: must be positive",
		}},
		{"a budget without room", func(o *Options) { o.Limits.MaxBuffered = 1000 }, []string{"Limits.MaxBuffered: must hold at least one body (MaxBody, 4194304 bytes)"}},
		{"no budget", func(o *Options) { o.Limits.MaxBuffered = 0 }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := validOptions()
			tt.change(&o)
			var got []string
			if err := o.validate(); err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					got = append(got, strings.TrimPrefix(line, "gateway: Options."))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNew holds that New assembles what it needs, and can be stopped unused.
func TestNew(t *testing.T) {
	o := validOptions()
	var err error
	if o.Ring, err = seal.New([]seal.Key{{ID: "k", Secret: make([]byte, seal.MinSecret)}}); err != nil {
		t.Fatal(err)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if g.Addr() != nil || g.AdminAddr() != nil {
		t.Error("it listens before Start")
	}
	for range 2 {
		if err := g.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "register metrics: ") {
		t.Errorf("a second gateway with the same registry: %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("empty options are accepted")
	}
}

func TestDefaultLimits(t *testing.T) {
	l := DefaultOptions().Limits
	got := []any{l.MaxBody, l.MaxDepth, l.KeepAlive, l.StreamLifetime}
	if diff := cmp.Diff([]any{int64(4 << 20), 256, 15 * time.Second, 12 * time.Hour}, got); diff != "" {
		t.Errorf("the design's bounds (-want +got):\n%s", diff)
	}
}
