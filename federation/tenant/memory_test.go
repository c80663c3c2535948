package tenant_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/federation/tenant/tenanttest"
)

func TestMemory(t *testing.T) {
	tenanttest.TestStore(t, func(_ *testing.T, initial []*tenant.Tenant) tenanttest.Backend {
		m := tenant.NewMemory(initial)
		return tenanttest.Backend{Store: m, Replace: m.Replace}
	})
}

func TestMemoryRegistry(t *testing.T) {
	tenanttest.TestRegistry(t, func(*testing.T) (a, b tenant.Registry) {
		r := tenant.NewMemoryRegistry()
		return r, r
	})
}

func TestMemoryVault(t *testing.T) {
	tenanttest.TestVault(t, func(*testing.T) (a, b tenanttest.Vaulted) {
		r := tenant.NewMemoryRegistry()
		return r, r
	})
}

// TestMemoryOrder holds what Replace promises beyond the Store: watchers have
// been called, in the order of the names, when it returns.
func TestMemoryOrder(t *testing.T) {
	m := tenant.NewMemory([]*tenant.Tenant{{Name: "b"}})
	var got []string
	defer m.Watch(t.Context(), func(name string) {
		got = append(got, name)
		if name == "a" {
			m.Replace(nil) // from within a call: its changes come afterwards
		}
	})()
	m.Replace([]*tenant.Tenant{{Name: "c"}, {Name: "a"}})
	want := []string{"a", "b", "c", "a", "c"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}

// TestDigest changes each field of an upstream and looks for another digest.
func TestDigest(t *testing.T) {
	ttl, other := time.Minute, 2*time.Minute
	base := tenant.Upstream{Alias: "a", Cache: tenant.CacheTimes{ListTTL: &ttl}}
	if n := len(base.Digest()); n != 16 {
		t.Errorf("the digest has %d characters, want 16", n)
	}
	same := time.Minute
	equal := tenant.Upstream{
		Alias: "a", Cache: tenant.CacheTimes{ListTTL: &same}, Version: "x", ManagedBy: "store",
		Pinning: tenant.PinAll, Pins: map[string]string{"x": "sha256:" + strings.Repeat("0", 64)},
	}
	if base.Digest() != equal.Digest() {
		t.Error("Version, ManagedBy, what is pinned or a pointer changed the digest")
	}
	tests := []struct {
		name string
		edit func(u *tenant.Upstream)
	}{
		{"Alias", func(u *tenant.Upstream) { u.Alias = "b" }},
		{"URL", func(u *tenant.Upstream) { u.URL = "http://127.0.0.1/" }},
		{"Process", func(u *tenant.Upstream) { u.Process = &tenant.Process{Command: []string{"c"}} }},
		{"Era", func(u *tenant.Upstream) { u.Era = "modern" }},
		{"Sessions", func(u *tenant.Upstream) { u.Sessions.Shared = true }},
		{"Prefix", func(u *tenant.Upstream) { u.Prefix = tenant.PrefixNone }},
		{"Description", func(u *tenant.Upstream) { u.Description = "d" }},
		{"Tags", func(u *tenant.Upstream) { u.Tags = []string{"t"} }},
		{"ForwardHeaders", func(u *tenant.Upstream) { u.ForwardHeaders = []string{"X-A"} }},
		{"Timeouts", func(u *tenant.Upstream) { u.Timeouts.List = time.Second }},
		{"Cache", func(u *tenant.Upstream) { u.Cache.ListTTL = &other }},
		{"Auth", func(u *tenant.Upstream) { u.Auth.Mode = tenant.CredentialForward }},
		{"Auth", func(u *tenant.Upstream) { u.Auth.Token.Sealed = "k1.AA" }},
		{"Auth", func(u *tenant.Upstream) { u.Auth.Headers = []tenant.SecretHeader{{Name: "X-Key"}} }},
		{"InFlight", func(u *tenant.Upstream) { u.InFlight = 1 }},
		{"Limits", func(u *tenant.Upstream) { u.Limits.CallsPerMinute = 1 }},
	}
	covered := map[string]bool{"Version": true, "ManagedBy": true, "Pinning": true, "Pins": true}
	for _, tt := range tests {
		covered[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			changed := base
			tt.edit(&changed)
			if changed.Digest() == base.Digest() {
				t.Error("the digest stayed the same")
			}
		})
	}
	for f := range reflect.TypeFor[tenant.Upstream]().Fields() {
		if !covered[f.Name] {
			t.Errorf("field %s is not tested", f.Name)
		}
	}
}
