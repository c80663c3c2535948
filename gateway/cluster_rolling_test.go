package gateway_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const rollingConfig = `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
redis: {timeout: 2s}
timeouts: {list: 60s}
tenants:
  - name: default
    auth: {mode: none}
    upstreams:
      - {alias: w, url: %q}
      - {alias: a, url: %q}
`

const (
	modernLoad = 6
	legacyLoad = 2
	listening  = 90  // streams through the balancer
	between    = 200 // calls between two restarts, at least
)

// rolling is a rolling restart under load.
type rolling struct {
	*crowd
	replicas *gatewaytest.Replicas
	up       *worker
	asks     *asker
	load     *load
	fans     []*fan // that listen
	ended    int    // streams that did
}

// TestRollingRestart restarts replica after replica while clients of both eras call
// and listen through the balancer. No call fails, and each stream ends with its
// completion result.
func TestRollingRestart(t *testing.T) {
	redis := redistest.Start(t)
	r := &rolling{up: newWorker(t), asks: newAsker(t)}
	r.replicas = gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{
		Config: fmt.Sprintf(rollingConfig, r.up.URL, r.asks.URL), RedisURL: redis.URL(),
	})
	url := r.replicas.URL + "/mcp"
	r.crowd, r.load = newCrowd(t), newLoad(t, url)

	old := newOldClient(t, url, "2025-11-25", `{}`)
	if got := old.ask("logging/setLevel", `"level":"warning"`); got != finished(1, "{}") {
		t.Fatal(got)
	}
	stream := old.keepListening()
	r.fans = r.join(listening, url, allLists)
	for range modernLoad {
		r.load.modern()
	}
	for range legacyLoad {
		r.load.handshake(old)
	}
	for i := range r.replicas.All {
		r.load.goOn(between)
		r.restart(t, i)
	}
	r.load.goOn(between)
	r.load.end(r.up)
	if n := stream.opened.Load(); n < 2 {
		t.Errorf("the GET stream was opened %d times: no restart ended it", n)
	}
	if r.ended < listening {
		t.Errorf("%d streams have ended, want each at least once", r.ended)
	}

	// All who listen do so still, and the session is what it was.
	r.up.tools("work", "rest")
	r.up.announce("tools/list_changed", "", "")
	r.await("a change after all restarts", r.fans, "tools/list_changed")
	eventually(t, "the client of the handshake era hears of it", func() bool {
		select {
		case message := <-stream.heard:
			return strings.Contains(message, "notifications/tools/list_changed")
		default:
			return false
		}
	})
	old.ask("tools/call", `"name":"w_work","arguments":{"n":0}`)
	calls := r.up.requests("tools/call")
	if got := string(memberOf(t, calls[len(calls)-1].body, "params", "_meta", "io.modelcontextprotocol/logLevel")); got != `"warning"` {
		t.Errorf("the level of the session is %s", got)
	}
}

// restart ends one replica in good order while it has a call under way and one
// parked, and starts it again.
func (r *rolling) restart(t *testing.T, i int) {
	t.Helper()
	one := r.replicas.All[i]
	retry := r.park(t, one)
	call := newRawClient(t, one.URL+"/mcp").open(strings.Replace(greeting(""), `"name":"a_greet","arguments":{}`, fmt.Sprintf(`"name":"w_work","arguments":{"n":%d,"hold":true}`, -1-i), 1))
	<-r.up.held
	if got := call.next(); !strings.Contains(got, `"progressToken":"p"`) {
		t.Errorf("the call under way began with %s", got)
	}

	stopped := make(chan struct{})
	t.Cleanup(func() { <-stopped })
	go func() {
		defer close(stopped)
		one.Stop(t)
	}()
	eventually(t, "the replica is about to end", func() bool {
		ready, _ := one.Readiness(t)
		return !ready
	})
	<-r.up.proceed
	if got := call.next(); !strings.Contains(got, fmt.Sprintf(`"number %d"`, -1-i)) || string(memberOf(t, got, "id")) != `"q-1"` {
		t.Errorf("the call under way got %q", got)
	}
	if got := call.next(); got != "" {
		t.Errorf("after its end the call under way got %s", got)
	}
	<-stopped
	<-r.asks.cancelled // the parked one
	r.again(t, i)
	one.Start(t)

	r.gone(t, retry, r.replicas.URL, one.URL)
}

// park has a replica hold a call, and gives what its retry holds.
func (r *rolling) park(t *testing.T, one *gatewaytest.Replica) string {
	t.Helper()
	first := newRawClient(t, one.URL+"/mcp").send(greeting(""))
	<-r.asks.asked
	return retryOf(t, first.last(), accepted)
}

// gone holds that the retry of a call whose holder has been restarted fails, with
// words that say why.
func (r *rolling) gone(t *testing.T, retry string, urls ...string) {
	t.Helper()
	for _, url := range urls {
		got := newRawClient(t, url+"/mcp").send(greeting(retry))
		f := readFailure(t, got.last())
		if got.status != 200 || f.Error.Code != -32603 || f.Error.Message != "The replica of the gateway that held the call is gone" {
			t.Errorf("the retry of the parked call: %d %s", got.status, got.last())
		}
	}
}

// again holds how the streams at a replica that was stopped ended, and opens as many
// at the others.
func (r *rolling) again(t *testing.T, i int) {
	t.Helper()
	var live, ended []*fan
	for _, f := range r.fans {
		if f.at == strconv.Itoa(i) {
			ended = append(ended, f)
		} else {
			live = append(live, f)
		}
	}
	r.await("the streams of a replica that stops", ended, fanComplete, fanEnd)
	t.Logf("replica %d ended %d streams", i, len(ended))
	r.ended += len(ended)
	r.fans = append(live, r.join(len(ended), r.replicas.URL+"/mcp", allLists)...)
}
