package gateway_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// clientRun is what the names of runs end in whose subject is a client.
const clientRun = " with a client"

// suiteRun is one run of the suite's server scenarios.
type suiteRun struct {
	version, fixture string
	direct           bool // without the gateway
	got              verdicts
}

func (r *suiteRun) name() string {
	if r.direct {
		return r.version + " on " + r.fixture
	}
	return r.version + " in front of " + r.fixture
}

// server starts the server of the run, which no other run may use: the suite changes
// its lists. One scenario wants localhost in the URL.
func (r *suiteRun) server(t *testing.T) string {
	var flags []string
	if r.fixture == "handshake" {
		flags = []string{"-stateless=false"}
	}
	url := gatewaytest.Everything(t, flags...)
	if !r.direct {
		gw := gatewaytest.Start(t, gatewaytest.Config(gatewaytest.Upstream{Alias: "fixture", URL: url}))
		url = gw.URL + "/t/default/u/fixture/mcp"
	}
	return strings.Replace(url, "127.0.0.1", "localhost", 1)
}

// TestConformanceServer runs the suite's server scenarios of each revision against
// the Go SDK's conformance server of the same era, and behind the gateway on the
// un-prefixed endpoint, in front of that server of either era.
func TestConformanceServer(t *testing.T) {
	s := newSuite(t)
	expectations := readExpected(t)
	unused := maps.Clone(expectations)
	var runs []*suiteRun
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		own := "handshake"
		if version == "2026-07-28" {
			own = "modern"
		}
		runs = append(runs,
			&suiteRun{version: version, fixture: own, direct: true},
			&suiteRun{version: version, fixture: "modern"},
			&suiteRun{version: version, fixture: "handshake"})
	}
	t.Run("run", func(t *testing.T) {
		for _, r := range runs {
			delete(unused, r.name())
			t.Run(r.name(), func(t *testing.T) {
				t.Parallel()
				r.got = s.run(t, r.version, expectations[r.name()], nil, "server", "--suite", "all", "--url", r.server(t))
			})
		}
	})
	for name := range unused {
		if !strings.HasSuffix(name, clientRun) && !strings.HasSuffix(name, userRun) {
			t.Errorf("%s is about %q, which is no run", suiteExpected, name)
		}
	}
	var direct *suiteRun
	for _, r := range runs {
		if r.direct {
			direct = r
			continue
		}
		t.Run("compare/"+r.name(), func(t *testing.T) {
			if direct.got == nil || r.got == nil {
				t.Skip("one of the two runs to compare was left out by -run")
			}
			requireNoneLost(t, direct.got, r.got, expectations[r.name()])
		})
	}
}

// envBridge, when it is set, makes TestConformanceBridge the client under test:
// it is the path of the real client.
const envBridge = "CAUSEWAY_TEST_BRIDGE"

// TestConformanceClient runs the suite's client scenarios of each revision with the
// Go SDK's conformance client, directly and with the gateway between it and the
// suite's servers.
func TestConformanceClient(t *testing.T) {
	s := newSuite(t)
	client := gatewaytest.GoPeer(t, "everything-client")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bridge := self + " -test.run=^TestConformanceBridge$"
	expectations := readExpected(t)
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} { // 2025-03-26 has none
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			direct, behind, e := verdicts{}, verdicts{}, expectations[version+clientRun]
			for _, scenario := range s.clientScenarios(t, version) {
				args := []string{"--scenario", scenario, "--command"}
				maps.Copy(direct, s.run(t, version, nil, nil, "client", append(args, client)...))
				maps.Copy(behind, s.run(t, version, e, []string{envBridge + "=" + client}, "client", append(args, bridge)...))
			}
			requireNoneLost(t, direct, behind, e)
		})
	}
}

// TestConformanceBridge is no test of its own: TestConformanceClient has the suite
// start this binary as the client under test. It starts a gateway in front of the
// server whose URL is the last argument and runs the real client against it.
func TestConformanceBridge(t *testing.T) {
	client := os.Getenv(envBridge)
	if client == "" {
		return
	}
	gw := gatewaytest.Start(t, gatewaytest.Config(gatewaytest.Upstream{Alias: "fixture", URL: flag.Arg(0)}))
	cmd := exec.CommandContext(t.Context(), client, gw.URL+"/t/default/u/fixture/mcp")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("the client behind the gateway: %v", err)
	}
}
