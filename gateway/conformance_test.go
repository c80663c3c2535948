package gateway_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const (
	suiteVersion  = "2026-07-28"
	suiteExpected = "../testdata/conformance/expected-2026-07-28.yml"
)

// check is one check of the official conformance suite. Its id may occur several
// times in a scenario.
type check struct{ scenario, id, name string }

// verdicts counts a check's outcomes: SUCCESS, FAILURE, WARNING, INFO, SKIPPED.
type verdicts map[check]map[string]int

func (v verdicts) total(status string) int {
	n := 0
	for _, outcomes := range v {
		n += outcomes[status]
	}
	return n
}

// suite runs the official conformance suite.
type suite struct{ node gatewaytest.Node }

func newSuite(tb testing.TB) suite { return suite{gatewaytest.NewNode(tb)} }

// run runs the suite and gives its verdicts. It fails the test when the suite
// found a failure that is not expected, or an expected one that passed.
func (s suite) run(t *testing.T, env []string, args ...string) verdicts {
	t.Helper()
	out := t.TempDir()
	expected, err := filepath.Abs(suiteExpected)
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--spec-version", suiteVersion, "--expected-failures", expected, "-o", out)
	log, err := s.command(t, env, args...).CombinedOutput()
	if err != nil {
		t.Errorf("the conformance suite: %v\n%s", err, tail(log, 60))
	}
	return readVerdicts(t, out)
}

// tail gives the last n lines.
func tail(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (s suite) command(t *testing.T, env []string, args ...string) *exec.Cmd {
	main := filepath.Join(s.node.Modules, "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), s.node.Path, append([]string{main}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// clientScenarios lists the scenarios that test a client, without those of
// authorization (see suiteExpected).
func (s suite) clientScenarios(t *testing.T) []string {
	t.Helper()
	out, err := s.command(t, nil, "list", "--client", "--spec-version", suiteVersion).Output()
	if err != nil {
		t.Fatalf("list the suite's scenarios: %v", err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			name, _, _ = strings.Cut(name, " ")
			if !strings.HasPrefix(name, "auth/") {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("the suite listed no scenario:\n%s", out)
	}
	return names
}

// readVerdicts reads what the suite wrote: a directory per scenario, named after
// it and the time.
func readVerdicts(t *testing.T, dir string) verdicts {
	t.Helper()
	stamp := regexp.MustCompile(`-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)
	v := verdicts{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []struct{ ID, Name, Status string }
		if err := json.Unmarshal(data, &list); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		scenario, err := filepath.Rel(dir, stamp.ReplaceAllString(filepath.Dir(path), ""))
		if err != nil {
			return err
		}
		for _, c := range list {
			k := check{filepath.ToSlash(scenario), c.ID, c.Name}
			if v[k] == nil {
				v[k] = map[string]int{}
			}
			v[k][c.Status]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(v) == 0 {
		t.Fatal("the conformance suite wrote no result")
	}
	return v
}

// requireNoneLost holds that each check that passes directly passes as often
// behind the gateway. accepted gives, for the checks that cannot, the reason; one
// that passes after all is to be taken off.
func requireNoneLost(t *testing.T, direct, behind verdicts, accepted map[string]string) {
	t.Helper()
	for _, c := range slices.SortedFunc(maps.Keys(direct), func(a, b check) int {
		return strings.Compare(a.scenario+a.id+a.name, b.scenario+b.id+b.name)
	}) {
		want, got := direct[c]["SUCCESS"], behind[c]["SUCCESS"]
		switch _, ok := accepted[c.id]; {
		case got < want && !ok:
			t.Errorf("%s: %s (%s) passes %d times directly and %d times behind the gateway, where it has %v",
				c.scenario, c.id, c.name, want, got, behind[c])
		case got >= want && want > 0 && ok:
			t.Errorf("%s: %s passes behind the gateway: take it off the accepted differences", c.scenario, c.id)
		}
	}
	t.Logf("directly %d checks passed and %d failed, behind the gateway %d and %d",
		direct.total("SUCCESS"), direct.total("FAILURE"), behind.total("SUCCESS"), behind.total("FAILURE"))
}

// TestConformanceServer runs the suite's server scenarios against the Go SDK's
// conformance server, directly and behind the gateway on the un-prefixed
// endpoint. One scenario wants localhost in the URL.
func TestConformanceServer(t *testing.T) {
	s := newSuite(t)
	args := []string{"server", "--suite", "all", "--url"}
	direct := s.run(t, nil, append(args, localhost(gatewaytest.Everything(t)))...)
	// The suite changes the server's lists, so each run has a server of its own.
	gw := gatewaytest.Start(t, gatewaytest.Config(gatewaytest.Upstream{Alias: "fixture", URL: gatewaytest.Everything(t)}))
	behind := s.run(t, nil, append(args, localhost(gw.URL+"/t/default/u/fixture/mcp"))...)
	requireNoneLost(t, direct, behind, map[string]string{
		"server-sse-streams-functional": "it looks at streams where a server answers lists as event streams; " +
			"the gateway answers them in JSON, which the check calls optional",
	})
}

func localhost(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }

// envBridge, when it is set, makes TestConformanceBridge the client under test:
// it is the path of the real client.
const envBridge = "CAUSEWAY_TEST_BRIDGE"

// TestConformanceClient runs the suite's client scenarios with the Go SDK's
// conformance client, directly and with the gateway between it and the suite's
// servers.
func TestConformanceClient(t *testing.T) {
	s := newSuite(t)
	client := gatewaytest.GoPeer(t, "everything-client")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bridge := self + " -test.run=^TestConformanceBridge$"
	direct, behind := verdicts{}, verdicts{}
	for _, scenario := range s.clientScenarios(t) {
		args := []string{"client", "--scenario", scenario, "--command"}
		maps.Copy(direct, s.run(t, nil, append(args, client)...))
		maps.Copy(behind, s.run(t, []string{envBridge + "=" + client}, append(args, bridge)...))
	}
	requireNoneLost(t, direct, behind, nil)
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
