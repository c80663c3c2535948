package gatewaytest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// stopTimeout bounds the end of a gateway.
const stopTimeout = 30 * time.Second

// Upstream is one server behind the gateway of a test.
type Upstream struct{ Alias, URL string }

// Config gives a configuration, as the text of a file, with one tenant in front
// of upstreams, on loopback ports that the system chooses.
func Config(upstreams ...Upstream) string {
	var b strings.Builder
	b.WriteString("listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\n")
	b.WriteString("tenants:\n  - name: default\n    auth: {mode: none}\n    upstreams:\n")
	for _, u := range upstreams {
		fmt.Fprintf(&b, "      - {alias: %s, url: %q}\n", u.Alias, u.URL)
	}
	return b.String()
}

// Gateway is a running gateway.
type Gateway struct {
	// URL is that of the root, without a slash at the end.
	URL string

	gw   *gateway.Gateway
	once sync.Once
}

// Stop ends the gateway in good order before the test ends.
func (g *Gateway) Stop(tb testing.TB) {
	tb.Helper()
	g.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := g.gw.Stop(ctx); err != nil {
			tb.Errorf("stop the gateway: %v", err)
		}
	})
}

// Start starts a gateway in this process with a configuration given as the text
// of a file. It ends with the test. Its warnings are in the test's log.
func Start(tb testing.TB, conf string) *Gateway {
	tb.Helper()
	cfg, err := config.Parse([]byte(conf))
	if err != nil {
		tb.Fatalf("the configuration of the test: %v", err)
	}
	cfg.DataDir = tb.TempDir()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	gw, err := gateway.FromConfig(tb.Context(), cfg, gateway.Deps{Logger: log, Version: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	g := &Gateway{gw: gw}
	tb.Cleanup(func() { g.Stop(tb) })
	if err := gw.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	g.URL = "http://" + gw.Addr().String()
	return g
}
