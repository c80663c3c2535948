package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestEqualIDsAndTokens holds that clients may use the same id and the same
// progress token at the same time: each gets what is its own.
func TestEqualIDsAndTokens(t *testing.T) {
	const clients = 8
	up := newScripted(t)
	up.tools("echo")
	var all sync.WaitGroup // until all calls have come
	all.Add(clients)
	up.handle("tools/call", func(w http.ResponseWriter, _ *http.Request, a *asked) {
		all.Done()
		all.Wait()
		_, who, _ := strings.Cut(a.body, `"who":"`)
		who, _, _ = strings.Cut(who, `"`)
		token := string(a.Params.Meta.ProgressToken)
		answerEvents(w,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1,"message":"`+who+`"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"somebody else's","progress":2}}`,
			`{"jsonrpc":"2.0","id":`+string(a.ID)+`,"result":{"resultType":"complete","content":[],"who":"`+who+`"}}`)
	})
	gw := front(t, "", "", upstreamOf("a", up.URL))
	client := newRawClient(t, gw.URL+"/mcp")
	client.send(ask("tools/list", ""))
	var calls sync.WaitGroup
	for i := range clients {
		calls.Go(func() {
			meta := strings.Replace(bareMeta, "{", `{"progressToken":"t",`, 1)
			got := client.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a_echo","arguments":{"who":"c%d"},"_meta":%s}}`, i, meta))
			want := []string{
				fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"message":"c%d"}}`, i),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"who":"c%d"}}`, i),
			}
			if !slices.Equal(got.messages, want) {
				t.Errorf("a client got %q, want %q", got.messages, want)
			}
		})
	}
	calls.Wait()
	ids := map[string]bool{}
	for _, a := range up.requests("tools/call") {
		ids[string(a.ID)] = true
	}
	if len(ids) != clients {
		t.Errorf("%d ids for %d calls", len(ids), clients)
	}
}
