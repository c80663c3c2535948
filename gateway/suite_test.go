package gateway_test

import (
	"encoding/json"
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

	"github.com/goccy/go-yaml"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const suiteExpected = "../testdata/conformance/expected.yml"

// expected gives what does not pass in a run, as scenario:check or as a scenario,
// with the reason.
type expected map[string]string

// of tells whether a check is not expected to pass.
func (e expected) of(c check) bool { return e[c.key()] != "" || e[c.in()] != "" }

// readExpected reads suiteExpected: the expectations for each run.
func readExpected(t *testing.T) map[string]expected {
	t.Helper()
	data, err := os.ReadFile(suiteExpected)
	if err != nil {
		t.Fatal(err)
	}
	var runs map[string]expected
	if err := yaml.UnmarshalWithOptions(data, &runs, yaml.Strict()); err != nil {
		t.Fatalf("read %s: %v", suiteExpected, err)
	}
	return runs
}

// file writes the expectations in the suite's own form, for one of its commands.
func (e expected) file(t *testing.T, command string) string {
	t.Helper()
	list := slices.Sorted(maps.Keys(e))
	data, err := json.Marshal(map[string][]string{command: append([]string{}, list...)}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "expected.yml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// check is one check of the official conformance suite. Its id may occur several
// times in a scenario.
type check struct{ scenario, id, name string }

// in gives the name of the check's scenario; the directories of those that test a
// server begin with another word.
func (c check) in() string { return strings.TrimPrefix(c.scenario, "server-") }

// key names the check as the suite's expected failures do.
func (c check) key() string { return c.in() + ":" + c.id }

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

// run runs a command of the suite, for one revision, and gives its verdicts. It
// fails the test when the suite found a failure that is not expected, or an
// expected one that passed.
func (s suite) run(t *testing.T, version string, e expected, env []string, command string, args ...string) verdicts {
	t.Helper()
	out := t.TempDir()
	args = append([]string{command}, args...)
	args = append(args, "--spec-version", version, "--expected-failures", e.file(t, command), "-o", out)
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

// clientScenarios lists a revision's scenarios that test a client, without those about
// authorization.
func (s suite) clientScenarios(t *testing.T, version string) []string {
	t.Helper()
	return slices.DeleteFunc(s.listClient(t, version), func(name string) bool { return strings.HasPrefix(name, "auth/") })
}

// listClient lists a revision's scenarios that test a client.
func (s suite) listClient(t *testing.T, version string) []string {
	t.Helper()
	out, err := s.command(t, nil, "list", "--client", "--spec-version", version).Output()
	if err != nil {
		t.Fatalf("list the suite's scenarios: %v", err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
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
// behind the gateway, but for the expected ones. Each of those must be there, and
// one that passes after all is to be taken off.
func requireNoneLost(t *testing.T, direct, behind verdicts, e expected) {
	t.Helper()
	known := map[string]bool{}
	for _, c := range slices.SortedFunc(maps.Keys(direct), func(a, b check) int {
		return strings.Compare(a.scenario+a.id+a.name, b.scenario+b.id+b.name)
	}) {
		known[c.key()], known[c.in()] = true, true
		want, got := direct[c]["SUCCESS"], behind[c]["SUCCESS"]
		switch {
		case got < want && !e.of(c):
			t.Errorf("%s (%s) passes %d times directly and %d times behind the gateway, where it has %v",
				c.key(), c.name, want, got, behind[c])
		case got >= want && want > 0 && e[c.key()] != "":
			t.Errorf("%s passes behind the gateway: take it off %s", c.key(), suiteExpected)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e)) {
		if !known[key] {
			t.Errorf("%s of %s is no check or scenario of the direct run", key, suiteExpected)
		}
	}
	t.Logf("directly %d checks passed and %d failed, behind the gateway %d and %d",
		direct.total("SUCCESS"), direct.total("FAILURE"), behind.total("SUCCESS"), behind.total("FAILURE"))
}
