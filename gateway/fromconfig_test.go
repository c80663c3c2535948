package gateway

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/auth/seal"
	"github.com/causeway-mcp/causeway/federation/tenant"
	"github.com/causeway-mcp/causeway/gateway/config"
)

// TestOptionsFromDefault holds that an empty file means the defaults.
func TestOptionsFromDefault(t *testing.T) {
	want := DefaultOptions()
	want.PublicURL = "http://127.0.0.1:8080"
	got := OptionsFrom(config.Default())
	if got.Cache == nil {
		t.Error("there is no cache")
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Options{}, "Cache")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOptionsFromReachesEveryBound sets every number of a configuration to one of
// its own and looks for it in the options: a key that does nothing is found.
func TestOptionsFromReachesEveryBound(t *testing.T) {
	cfg := config.Default()
	next := int64(1_000_000)
	var number func(v reflect.Value)
	number = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Int, reflect.Int64:
			next++
			v.SetInt(next)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			number(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				number(v.Field(i))
			}
		}
	}
	groups := map[string]reflect.Value{
		"server": reflect.ValueOf(&cfg.Server).Elem(), "limits": reflect.ValueOf(&cfg.Limits).Elem(),
		"timeouts": reflect.ValueOf(&cfg.Timeouts).Elem(), "cache": reflect.ValueOf(&cfg.Cache).Elem(),
		"breaker": reflect.ValueOf(&cfg.Breaker).Elem(),
	}
	for _, v := range groups {
		number(v)
	}
	opts := OptionsFrom(cfg)
	found := map[int64]bool{cfg.Limits.CacheBytes: true} // the cache tells nobody its size
	var collect func(v reflect.Value)
	collect = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Int, reflect.Int64:
			found[v.Int()] = true
		case reflect.Struct:
			for i := range v.NumField() {
				collect(v.Field(i))
			}
		}
	}
	collect(reflect.ValueOf(opts.Limits))
	collect(reflect.ValueOf(opts.Federation))
	collect(reflect.ValueOf(opts.Upstream))
	for group, v := range groups {
		for i := range v.NumField() {
			if value := reflect.Indirect(v.Field(i)).Int(); !found[value] {
				t.Errorf("%s.%s does nothing", group, v.Type().Field(i).Name)
			}
		}
	}
}

func TestDefaultPublicURL(t *testing.T) {
	tests := []struct{ listen, want string }{
		{"127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"[::1]:8080", "http://[::1]:8080"},
		{"localhost:80", "http://localhost:80"},
		{":8080", ""},
		{"0.0.0.0:8080", ""},
		{"[::]:8080", ""},
		{"127.0.0.1:0", ""},
	}
	for _, tt := range tests {
		if got := defaultPublicURL(tt.listen); got != tt.want {
			t.Errorf("defaultPublicURL(%q) = %q, want %q", tt.listen, got, tt.want)
		}
	}
}

// TestNewRing holds where the key comes from, and that a made one stays.
func TestNewRing(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir = filepath.Join(t.TempDir(), "data")
	first, err := NewRing(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := first.Seal("test", []byte("text"), nil)
	again, err := NewRing(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open("test", token, nil); err != nil || string(got) != "text" {
		t.Errorf("after a restart: %q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(cfg.DataDir, "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}

	// Configured keys make no file.
	cfg.DataDir = filepath.Join(t.TempDir(), "unused")
	cfg.Keys = []config.Key{{ID: "k1", Secret: config.Secret{Env: "KEY"}}}
	env := func(name string) (string, bool) { return strings.Repeat("k", 32), name == "KEY" }
	configured, err := NewRing(cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := configured.Open("test", token, nil); !errors.Is(err, seal.ErrInvalid) {
		t.Errorf("the configured ring opened another's token: %v", err)
	}
	if _, err := os.Stat(cfg.DataDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
	var faults config.Faults
	if _, err := NewRing(cfg, nil); !errors.As(err, &faults) {
		t.Errorf("without the environment: %v, want Faults", err)
	}
}

func TestFromConfigRefuses(t *testing.T) {
	cfg := config.Default()
	cfg.Listen = "0.0.0.0:8080"
	cfg.Tenants = []*tenant.Tenant{{Name: "open", Separator: "_"}}
	cfg.DataDir = t.TempDir()
	_, err := FromConfig(t.Context(), cfg, Deps{Logger: slog.New(slog.DiscardHandler)})
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Path != "listen" {
		t.Errorf("error %v, want a fault of listen", err)
	}
}
