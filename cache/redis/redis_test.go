package redis

import (
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/cachetest"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

func TestStandalone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	suites(t, Connection{URL: s.URL()})
	wantAllExpire(t, s)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	suites(t, Connection{URL: c.URL(), Mode: ModeCluster})
	wantAllExpire(t, c.Nodes...)
}

// suites runs the suites of what a Store is.
func suites(t *testing.T, c Connection) {
	var p prefixes
	empty := func(t *testing.T) *Store { return openWell(t, Options{Connection: c, Prefix: p.next()}) }
	t.Run("leases", func(t *testing.T) {
		cachetest.TestLeases(t, func(t *testing.T) cache.Leases { return empty(t) })
	})
	t.Run("boards", func(t *testing.T) {
		cachetest.TestBoards(t, func(t *testing.T) cache.Boards { return empty(t) })
	})
	t.Run("bus", func(t *testing.T) {
		cachetest.TestBus(t, func(t *testing.T) cache.Bus { return empty(t) })
	})
	t.Run("values", func(t *testing.T) {
		cachetest.TestValues(t, func(t *testing.T) cache.Values { return empty(t) })
	})
	t.Run("counters", func(t *testing.T) {
		cachetest.TestCounters(t, func(t *testing.T) cache.Counters { return empty(t) })
	})
}

// TestSentinels has the primary fail, after which writes and messages have to go
// on.
func TestSentinels(t *testing.T) {
	t.Parallel()
	sen := redistest.StartSentinels(t)
	s := openWell(t, Options{Connection: Connection{URL: sen.URL(), Mode: ModeSentinel, Master: redistest.Master}})
	scope := cache.Scope{Tenant: "acme"}
	before, err := s.Draw(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	in := listen(t, s, "acme")
	in.gap()
	sen.Primary.Kill()
	var after cache.Fence
	eventually(t, "a fence is drawn from the new primary", func() bool {
		after, err = s.Draw(t.Context(), scope)
		return err == nil
	})
	if after.N <= before.N {
		t.Errorf("fence %+v after %+v", after, before)
	}
	in.gap()
	eventually(t, "a message is published by the new primary", func() bool { return s.Publish(t.Context(), "acme", []byte("1")) == nil })
	in.want("1")
	eventually(t, "the store works", func() bool { return s.Degraded() == "" })
}

// TestTLSAndUser holds that a user who may use nothing but the prefix, behind TLS
// with certificates on both sides, is all that is needed.
func TestTLSAndUser(t *testing.T) {
	t.Parallel()
	certs := redistest.NewCertificates(t)
	server := redistest.StartWith(t, redistest.Options{TLS: certs, User: "causeway", Password: "pa:ss/wo@rd", Prefix: "cw"})
	bare := "rediss://" + server.Addr()
	suites := func(t *testing.T, s *Store) {
		in := listen(t, s, "acme")
		in.gap()
		if err := s.Publish(t.Context(), "acme", []byte("1")); err != nil {
			t.Fatal(err)
		}
		in.want("1")
		if _, ok, err := s.Acquire(t.Context(), cache.Scope{Tenant: "acme"}, t.Name(), "a", patience); err != nil || !ok {
			t.Errorf("Acquire = %v, %v", ok, err)
		}
	}
	t.Run("in the URL", func(t *testing.T) {
		suites(t, openWell(t, Options{Connection: Connection{URL: server.URL(), TLS: certs.Client}, Prefix: "cw"}))
	})
	t.Run("beside the URL", func(t *testing.T) {
		c := Connection{URL: bare, TLS: certs.Client, Username: "causeway", Password: "pa:ss/wo@rd"}
		suites(t, openWell(t, Options{Connection: c, Prefix: "cw"}))
	})
	refusals := []struct {
		name string
		c    Connection
	}{
		{"wrong password", Connection{URL: bare, TLS: certs.Client, Username: "causeway", Password: "secret-guess"}},
		{"no certificate", Connection{URL: server.URL()}},
		{"no user", Connection{URL: bare, TLS: certs.Client}},
	}
	for _, tt := range refusals {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, Options{Connection: tt.c, Prefix: "cw"})
			eventually(t, "the store says that Redis cannot be reached", func() bool { return s.Degraded() == troubleSilent })
			_, err := s.Get(t.Context(), "x")
			if err == nil {
				t.Fatal("a value can be read")
			}
			if strings.Contains(err.Error(), "secret-guess") || strings.Contains(err.Error(), "pa:ss") {
				t.Errorf("the error holds a password: %v", err)
			}
		})
	}
}

func TestOpenAndClose(t *testing.T) {
	server := redistest.Start(t)
	before := runtime.NumGoroutine()
	metrics := prometheus.NewRegistry()
	opts := at(server.URL())
	opts.Metrics = metrics
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(opts); err == nil {
		t.Error("two stores have the same metric")
	}
	up := func() float64 { return gauge(t, metrics) }
	eventually(t, "the gauge says that Redis works", func() bool { return up() == 1 })
	stop := s.Subscribe("acme", func([]byte, bool) {})
	server.Kill()
	eventually(t, "the gauge says that Redis does not work", func() bool { return up() == 0 })
	s.Subscribe("other", func([]byte, bool) {}) // which nobody stops
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if n := testutil.CollectAndCount(metrics); n != 0 {
		t.Errorf("%d metrics are left", n)
	}
	eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

func gauge(t *testing.T, g prometheus.Gatherer) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "causeway_redis_up" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}
