package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache/redistest"
	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

const (
	herdSize = 500
	herdSlow = 300 * time.Millisecond // that one upstream takes for its list
)

// herdConfig has bounds that a machine with much else to do keeps to: what comes too
// late is left out of a list, and a Redis that is late is done without.
const herdConfig = `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0}
redis: {timeout: 2s}
timeouts: {list: 60s}
tenants:
  - name: default
    auth: {mode: none}
    upstreams:
      - {alias: a, url: %q}
      - {alias: b, url: %q}
`

// TestColdHerdAtReplicas has hundreds of clients ask replicas that know nothing yet
// for the same list at once. Each upstream is asked for it once.
func TestColdHerdAtReplicas(t *testing.T) {
	gatewaytest.NeedFiles(t, 3*herdSize+500)
	redis := redistest.Start(t)
	quick, slow := newScripted(t), newScripted(t)
	quick.tools("quick")
	slow.handle("tools/list", func(w http.ResponseWriter, r *http.Request, a *asked) {
		select {
		case <-time.After(herdSlow):
		case <-r.Context().Done():
			return
		}
		answerResult(`{"resultType":"complete","tools":[{"name":"slow","inputSchema":{"type":"object"}}],"ttlMs":3600000,"cacheScope":"public"}`)(w, r, a)
	})
	replicas := gatewaytest.StartReplicas(t, gatewaytest.ReplicaOptions{
		Config: fmt.Sprintf(herdConfig, quick.URL, slow.URL), RedisURL: redis.URL(),
	})
	client := newRawClient(t, replicas.URL+"/mcp")
	replies, errs := make([]reply, herdSize), make([]error, herdSize)
	start := make(chan struct{})
	var herd sync.WaitGroup
	for i := range herdSize {
		req := client.request(ask("tools/list", ""))
		herd.Go(func() {
			<-start
			replies[i], errs[i] = client.do(req)
		})
	}
	began := time.Now()
	close(start)
	herd.Wait()
	t.Logf("%d answers took %v, %v of which one upstream took", herdSize, time.Since(began), herdSlow)

	want := replies[0].last()
	for _, part := range []string{`"a_quick"`, `"b_slow"`} {
		if !strings.Contains(want, part) || strings.Contains(want, "/partial") {
			t.Errorf("the list is %s, want all of it", want)
		}
	}
	others := 0
	for i, r := range replies {
		if errs[i] != nil {
			t.Errorf("a request failed: %v", errs[i])
		} else if names(t, r.last()) != names(t, want) {
			others++
		}
	}
	if others > 0 {
		t.Errorf("%d of %d clients got another list than the first", others, herdSize)
	}
	for alias, up := range map[string]*scripted{"a": quick, "b": slow} {
		// What it offers is asked for once too.
		if diff := cmp.Diff([]string{"server/discover", "tools/list"}, up.everything()); diff != "" {
			t.Errorf("what upstream %s was asked (-want +got):\n%s", alias, diff)
		}
	}
	served := replicas.Balancer.Served()
	if slices.Max(served)-slices.Min(served) > 1 {
		t.Errorf("requests of each replica: %v, want as many of each", served)
	}
}

// names gives the tools of a list without what depends on when it was asked for.
func names(tb testing.TB, message string) string {
	tb.Helper()
	return string(memberOf(tb, message, "result", "tools"))
}

// everything gives the methods of all that was received, sorted.
func (s *scripted) everything() (methods []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.seen {
		methods = append(methods, a.Method)
	}
	slices.Sort(methods)
	return methods
}
