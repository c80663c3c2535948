package redis

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConnection(t *testing.T) {
	type facts struct {
		Addrs              []string
		DB                 int
		Username, Password string
		Master             string
		TLS                bool
	}
	tests := []struct {
		name string
		c    Connection
		want facts
	}{
		{"plain", Connection{URL: "redis://127.0.0.1:6380/3"}, facts{Addrs: []string{"127.0.0.1:6380"}, DB: 3}},
		{"host only", Connection{URL: "redis://redis.internal"}, facts{Addrs: []string{"redis.internal:6379"}}},
		{"user", Connection{URL: "redis://us%40er:pass%2Fword@h:1"}, facts{Addrs: []string{"h:1"}, Username: "us@er", Password: "pass/word"}},
		{"password only", Connection{URL: "redis://:pw@h:1"}, facts{Addrs: []string{"h:1"}, Password: "pw"}},
		{"another user", Connection{URL: "redis://a:b@h:1", Username: "c", Password: "d"}, facts{Addrs: []string{"h:1"}, Username: "c", Password: "d"}},
		{"IPv6", Connection{URL: "redis://[::1]"}, facts{Addrs: []string{"[::1]:6379"}}},
		{"TLS", Connection{URL: "rediss://h"}, facts{Addrs: []string{"h:6379"}, TLS: true}},
		{"cluster", Connection{URL: "redis://a:1?addr=b:2&addr=[::1]:3", Mode: ModeCluster}, facts{Addrs: []string{"a:1", "b:2", "[::1]:3"}}},
		{"one node of a cluster", Connection{URL: "redis://a:1/0", Mode: ModeCluster}, facts{Addrs: []string{"a:1"}}},
		{"sentinel", Connection{URL: "redis://a/1?addr=b", Mode: ModeSentinel, Master: "m"}, facts{Addrs: []string{"a:26379", "b:26379"}, DB: 1, Master: "m"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := tt.c.options(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			got := facts{o.Addrs, o.DB, o.Username, o.Password, o.MasterName, o.TLSConfig != nil}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			client(t, tt.c)
		})
	}
}

// TestConnectionFaults also holds that no fault quotes the URL, which may hold a
// password in any place.
func TestConnectionFaults(t *testing.T) {
	tests := []struct {
		name string
		c    Connection
		want string
	}{
		{"no URL", Connection{URL: "hunter2"}, "redis://"},
		{"not a URL", Connection{URL: "redis://u:hunter2%zz@h"}, "cannot be read"},
		{"port", Connection{URL: "redis://u:p@h:hunter2"}, "cannot be read"},
		{"control character", Connection{URL: "redis://u:hunter2\x00@h"}, "cannot be read"},
		{"another scheme", Connection{URL: "hunter2://u:hunter2@h"}, "redis://"},
		{"no host", Connection{URL: "redis:///0"}, "host"},
		{"opaque", Connection{URL: "redis:hunter2"}, "host"},
		{"fragment", Connection{URL: "redis://u:pass#hunter2@h"}, "cannot be read"},
		{"database", Connection{URL: "redis://h/hunter2"}, "number"},
		{"parameter", Connection{URL: "redis://h?hunter2=hunter2"}, "addr"},
		{"bad parameter", Connection{URL: "redis://h?a=%zzhunter2"}, "parameters"},
		{"node", Connection{URL: "redis://h?addr=u:hunter2@h", Mode: ModeCluster}, "host:port"},
		{"nodes", Connection{URL: "redis://h?addr=i"}, "several nodes"},
		{"TLS", Connection{URL: "redis://h", TLS: &tls.Config{}}, "rediss://"}, //nolint:gosec // never used
		{"database of a cluster", Connection{URL: "redis://h/1", Mode: ModeCluster}, "database"},
		{"no master", Connection{URL: "redis://h", Mode: ModeSentinel}, "master"},
		{"mode", Connection{URL: "redis://h", Mode: "clustre"}, "clustre"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Dial(tt.c, time.Second)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("the error is %v, want one about %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells what may be the password: %v", err)
			}
			if _, err := Open(Options{Connection: tt.c}); err == nil {
				t.Error("Open succeeds")
			}
		})
	}
}

func TestOpenFaults(t *testing.T) {
	if _, err := Open(Options{Connection: Connection{URL: "redis://h"}, Prefix: "a{b}"}); err == nil {
		t.Error("a prefix with braces is accepted")
	}
}

// FuzzConnection holds that what is accepted can be dialled.
func FuzzConnection(f *testing.F) {
	f.Add("redis://u:p@127.0.0.1:6379/0?addr=[::1]:1", "cluster")
	f.Add("rediss://h", "sentinel")
	f.Fuzz(func(t *testing.T, url, mode string) {
		o, err := Connection{URL: url, Mode: Mode(mode), Master: "m"}.options(time.Second)
		if err != nil {
			return
		}
		if len(o.Addrs) == 0 || o.DB < 0 {
			t.Errorf("%q is accepted, with the nodes %q and the database %d", url, o.Addrs, o.DB)
		}
		for _, addr := range o.Addrs {
			if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
				t.Errorf("%q is accepted, with the node %q", url, addr)
			}
		}
	})
}
