package gateway_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
)

// userRun is what the names of runs end in whose subject is the gateway itself, as the
// client of servers that want to know who their users are.
const userRun = " with a user"

// envRelay, when it is set, makes TestConformanceRelay the client under test. It is where
// the test listens that plays its part.
const envRelay = "CAUSEWAY_TEST_RELAY"

// clientTime bounds in milliseconds how long the suite waits for the client.
const clientTime = "90000"

// authScenarios lists the scenarios about authorization that a client of a revision is
// tested by, and those extensions that the gateway has (see suiteExpected).
func (s suite) authScenarios(t *testing.T, version string) []string {
	t.Helper()
	var names []string
	for _, name := range s.listClient(t, version) {
		if strings.HasPrefix(name, "auth/") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("the suite listed no scenario about authorization")
	}
	return append(names, "auth/client-credentials-basic")
}

// endOf tells what keeps the user from the tool of the suite's server: it is what the
// scenario is about. Empty where nothing may.
func endOf(scenario string) string {
	switch scenario {
	case "auth/resource-mismatch", "auth/metadata-issuer-mismatch":
		return "You cannot sign in there now"
	case "auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized":
		return "This answer is not from the server that was asked"
	case "auth/scope-retry-limit":
		return callFails
	}
	return ""
}

// TestConformanceAuthorization runs the suite's scenarios about authorization with the
// gateway as the client of the suite's servers, which sign in whoever comes. The test
// plays a user with a browser and an MCP client of their own.
func TestConformanceAuthorization(t *testing.T) {
	s := newSuite(t)
	expectations := readExpected(t)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			e := expectations[version+userRun]
			var all []verdicts
			t.Run("scenarios", func(t *testing.T) {
				for _, scenario := range s.authScenarios(t, version) {
					v := verdicts{}
					all = append(all, v)
					t.Run(scenario, func(t *testing.T) {
						t.Parallel()
						s.signIn(t, version, scenario, e, v)
					})
				}
			})
			requireKnown(t, e, all)
		})
	}
}

// requireKnown holds that what is expected not to pass is a check of the run.
func requireKnown(t *testing.T, e expected, all []verdicts) {
	t.Helper()
	known, passed, failed := map[string]bool{}, 0, 0
	for _, v := range all {
		if len(v) == 0 {
			t.Skip("some scenarios were left out by -run")
		}
		passed, failed = passed+v.total("SUCCESS"), failed+v.total("FAILURE")+v.total("WARNING")
		for c := range v {
			known[c.key()] = true
		}
	}
	for key := range e {
		if !known[key] {
			t.Errorf("%s of %s is no check of the run", key, suiteExpected)
		}
	}
	t.Logf("%d checks passed and %d failed", passed, failed)
}

// visit is what the suite asks its client to do.
type visit struct {
	server  string // the URL of the suite's server
	context struct {
		Issuer   string
		ClientID string `json:"client_id"`
		Secret   string `json:"client_secret"`
	}
	done chan struct{} // closed when it is done
}

// signIn runs one scenario. It puts the verdicts into v.
func (s suite) signIn(t *testing.T, version, scenario string, e expected, v verdicts) {
	visits, relay := newRelay(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	cmd := s.command(t, []string{envRelay + "=" + relay}, "client", "--scenario", scenario, "--spec-version", version, "--force",
		"--command", self+" -test.run=^TestConformanceRelay$", "--timeout", clientTime, "--expected-failures", e.file(t, "client"), "-o", out)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case one := <-visits:
		if got, want := one.play(t, scenario), endOf(scenario); got != want {
			t.Errorf("the user got as far as %q, want %q", got, want)
		}
		close(one.done)
		err = <-ended
	case err = <-ended:
		t.Error("the suite did not run the client")
	}
	if err != nil {
		t.Errorf("the conformance suite: %v\n%s", err, tail(log.Bytes(), 60))
	}
	maps.Copy(v, readVerdicts(t, out))
	t.Logf("%d checks passed, %d failed and %d warned", v.total("SUCCESS"), v.total("FAILURE"), v.total("WARNING"))
}

// newRelay gives where TestConformanceRelay tells what the suite wants, and what it told.
func newRelay(t *testing.T) (<-chan *visit, string) {
	t.Helper()
	visits := make(chan *visit)
	relay := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		one := &visit{server: r.PostFormValue("server"), done: make(chan struct{})}
		if text := r.PostFormValue("context"); text != "" {
			if err := json.Unmarshal([]byte(text), &one.context); err != nil {
				t.Errorf("read the suite's context: %v", err)
			}
		}
		select {
		case visits <- one:
		case <-t.Context().Done():
			return
		}
		select {
		case <-one.done:
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(relay.Close)
	return visits, relay.URL
}

// TestConformanceRelay is no test of its own: TestConformanceAuthorization has the suite
// start this binary as the client under test. It tells that test of the server whose URL
// is the last argument, and ends when the test is done with it.
func TestConformanceRelay(t *testing.T) {
	relay := os.Getenv(envRelay)
	if relay == "" {
		return
	}
	form := url.Values{"server": {flag.Arg(0)}, "context": {os.Getenv("MCP_CONFORMANCE_CONTEXT")}}
	res, err := http.PostForm(relay, form) //nolint:gosec,noctx // it is the test's own, and ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}
