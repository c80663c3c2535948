package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation/search"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// What a client receives before it can call a tool is a small part of what it would
// have to read without search: with a made-up catalogue, and with the real one where
// that is there.
func TestEconomy(t *testing.T) {
	dir := os.Getenv("CAUSEWAY_TOOLSEARCH")
	if dir == "" {
		dir = "../../shared/toolsearch"
	}
	tests := []struct{ name, file string }{
		{"made up", "missing.json"},
		{"real", filepath.Join(dir, "catalogue.json")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cat, err := loadCatalogue(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if cat.madeUp && tt.name == "real" {
				t.Skipf("there is no %s", tt.file)
			}
			queries, err := loadQueries(tt.file, cat)
			if err != nil {
				t.Fatal(err)
			}
			servers, tenant, err := startServers(t.TempDir(), tt.file, cat)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := servers.stop(); err != nil {
					t.Error(err)
				}
			})
			gw := gatewaytest.Start(t, "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\ntenants:\n"+string(tenant))
			d := &discovery{servers: len(cat.servers), tools: len(cat.tools)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := d.economy(ctx, gw.URL+"/mcp", queries, 10); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d servers, %d tools: %d bytes of %d, at most %d", d.servers, d.tools, d.median, d.full, d.most)
			if d.share(d.median) > maxShare || d.list >= d.median || d.median > d.most {
				t.Errorf("%d of %d bytes (the list has %d, the most is %d), want at most %.0f %%", d.median, d.full, d.list, d.most, 100*maxShare)
			}
		})
	}
}

func TestMeasureIndex(t *testing.T) {
	x := measureIndex(func() []search.Source { return madeUpSources(200) }, []string{"read the file", "wrongwordd"}, 2, 10)
	if x.tools != 200 || x.build <= 0 || x.heap <= 0 || x.p50 <= 0 || x.p99 < x.p50 {
		t.Errorf("%+v", x)
	}
	if got := x.perThousand(); got != x.heap*5 {
		t.Errorf("%d bytes for 1,000 tools, and %d for 200", got, x.heap)
	}
}

func TestMadeUpServers(t *testing.T) {
	cat := madeUpCatalogue()
	if n := len(cat.servers); n < 68 || n > 72 {
		t.Errorf("%d servers", n)
	}
	tools, bytes := 0, 0
	for _, s := range cat.servers {
		for _, tl := range s.tools {
			tools, bytes = tools+1, bytes+len(tl.raw)
		}
		if _, err := newUpstream(s.tools, false); err != nil {
			t.Error(err)
		}
	}
	if tools != catalogueSize || bytes/tools < madeUpBytes*3/4 || bytes/tools > madeUpBytes*5/4 {
		t.Errorf("%d tools of %d bytes", tools, bytes/tools)
	}
	first, again := madeUpText(rand.New(rand.NewPCG(1, 2)))(20), madeUpText(rand.New(rand.NewPCG(1, 2)))(20)
	if first != again {
		t.Error("the texts are not always the same")
	}
}

func TestAliasOf(t *testing.T) {
	taken := map[string]bool{}
	var got []string
	for _, name := range []string{"bing-cn-mcp", "Bing CN mcp", "12306", "必应", "a-server-with-a-very-long-name"} {
		got = append(got, aliasOf(name, taken))
	}
	if diff := cmp.Diff([]string{"sbingcnmcp", "sbingcnmcp2", "s", "s2", "saserverwithaver"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDiscoveryReport(t *testing.T) {
	d := &discovery{
		servers: 70, tools: 527, full: 400_000, list: 3000, search: 1500, details: 1500, median: 6000, most: 12_000,
		searches: 1000, p50: time.Millisecond, p99: 2 * time.Millisecond,
		indexes: []indexed{
			{name: "real", tools: 1000, build: 30 * time.Millisecond, p50: time.Millisecond, p99: 3 * time.Millisecond, heap: 4 << 20,
				goal: indexGoal{500 * time.Millisecond, 2 * time.Millisecond}},
		},
	}
	text := d.markdown(&report{options: &options{args: []string{"-only", "discovery"}}, facts: []fact{{"cores", "2"}}, notes: []string{"busy"}})
	if !strings.HasPrefix(text, headingDiscovery+"\n\nMade by `go run ./loadtest -only discovery`.") || len(splitParts(text)) != 1 {
		t.Errorf("it begins with %.200s", text)
	}
	for _, want := range []string{
		"| cores | 2 |", "Note: busy.", "70 servers with 527 tools",
		"| 400000 | 3000 | 1500 | 1500 | 6000 | 1.50 % | 12000 | 3.00 % |",
		"1000 searches: p50 1.000 ms, p99 2.000 ms.", "| 1000 | real | 30 | 1.000 | 3.000 | 4.00 |",
		"- what a client receives before its first call: 1.50 % of the full list (median), the goal is at most 2 %: reached",
		"- search among 1000 tools: p99 3.000 ms, the goal is at most 2 ms: **missed**",
		"- build for 1000 tools: 30 ms, the goal is at most 500 ms: reached",
		"- memory for 1000 tools: 4.00 MB for 1,000, the goal is at most 10 MB: reached",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

func TestDiscoverySelection(t *testing.T) {
	tests := []struct {
		only        string
		some, alone bool
	}{
		{"", true, false}, {"discovery", true, true}, {"discovery,list-20", true, false},
		{"causeway", false, false}, {"list-20", false, false}, {"causeway,discovery", true, false},
	}
	for _, tt := range tests {
		s, err := parseSelection(tt.only)
		if err != nil || s.discovery() != tt.some || s.discoveryAlone() != tt.alone {
			t.Errorf("%q: %v, measured %v, alone %v", tt.only, err, s.discovery(), s.discoveryAlone())
		}
	}
}

// The process of the servers ends with the one that started it.
func TestServeServers(t *testing.T) {
	var out bytes.Buffer
	if err := serveServers(t.Context(), []string{"-catalogue", "missing.json"}, strings.NewReader(""), &out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "127.0.0.1:"); n != len(madeUpCatalogue().servers) {
		t.Errorf("%d addresses", n)
	}
}
