package gatewaytest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// discover sends a request and gives the status of its answer.
func discover(t *testing.T, url string) int {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// TestReplicas holds that the balancer takes turns, that it does without a replica
// that ended, in good order or not, and with one that came back.
func TestReplicas(t *testing.T) {
	before := gatewaytest.CountRunning()
	t.Run("run", func(t *testing.T) {
		r := gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{Config: gatewaytest.Config()})
		want := []int64{0, 0, 0}
		expect := func(when string, more ...int64) {
			t.Helper()
			for i, n := range more {
				want[i] += n
				for range n {
					if got := discover(t, r.URL); got != http.StatusOK {
						t.Errorf("%s: status %d", when, got)
					}
				}
			}
			if diff := cmp.Diff(want, r.Balancer.Served()); diff != "" {
				t.Errorf("%s: requests of each replica (-want +got):\n%s", when, diff)
			}
		}
		expect("all run", 2, 2, 2)
		r.All[1].Stop(t)
		expect("one stopped", 3, 0, 3)
		r.All[0].Kill()
		expect("another one was killed", 0, 0, 5)
		r.All[0].Start(t)
		if ready, says := r.All[0].Readiness(t); !ready || says != "ok" {
			t.Errorf("the replica that came back says %q", says)
		}
		if log := r.All[1].Log(); !strings.Contains(log, "msg=stopping") {
			t.Errorf("the replica that was stopped has logged:\n%s", log)
		}
	})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	gatewaytest.AwaitNoMore(t, before)
}
