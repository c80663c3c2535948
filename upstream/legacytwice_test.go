package upstream

import (
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// A server that does not know the session gets the request again in another one, once.
// One that knows neither is told as a status of the server, whatever the request does:
// nothing was carried out, so whoever asked may repeat it. It is what a server leads to
// that is restarted twice during one request.
func TestSessionIsLostTwice(t *testing.T) {
	const refusal = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	tests := []struct {
		name   string
		status int
		method string
		tool   string
		caps   string
	}{
		{"call", http.StatusNotFound, mcp.MethodToolsCall, "x", ""},
		{"call that may be parked", http.StatusNotFound, mcp.MethodToolsCall, "x", allCaps},
		{"list", http.StatusNotFound, mcp.MethodToolsList, "", ""},
		{"call, with the status of some SDKs", http.StatusBadRequest, mcp.MethodToolsCall, "x", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := scripted(done)
			lost := 2 // so many sessions are forgotten before they are used
			var carriedOut []string
			var mu sync.Mutex
			l, seen := shake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				name := r.Header.Get("Mcp-Session-Id")
				mu.Lock()
				defer mu.Unlock()
				if r.Method == http.MethodPost && name != "" && seenMethod(r, tt.method) {
					if lost > 0 {
						lost--
						h.forget()
						answerJSON(w, tt.status, refusal)
						return
					}
					carriedOut = append(carriedOut, name)
				}
				h.ServeHTTP(w, r)
			}))
			q := modern{method: tt.method, name: tt.tool, caps: tt.caps}
			_, err := send(t.Context(), l, q)
			wantClass(t, err, ClassStatus, true)
			if !errors.Is(err, errNoSession) || !strings.HasSuffix(err.Error(), "http_status: the server does not know the session") {
				t.Errorf("error = %v, want one that tells of the session", err)
			}
			if len(carriedOut) > 0 {
				t.Errorf("it was carried out in %q though it has failed", carriedOut)
			}
			mustSend(t, l, q)
			if want := []string{"session-3"}; !slices.Equal(carriedOut, want) {
				t.Errorf("the next request was carried out in %q, want %q", carriedOut, want)
			}
			if n := seen.times("POST " + tt.method); n != 3 {
				t.Errorf("it was sent %d times, want twice, and once for the next request", n)
			}
			if n := seen.times("POST initialize"); n != 3 {
				t.Errorf("%d sessions were made, want 3", n)
			}
		})
	}
}

// A session that the server has forgotten is left by all who use it at the same time,
// and none of them gets it once more: one loss costs no request.
func TestForgottenSessionIsLeftByAll(t *testing.T) {
	const rounds, callers = 20, 16
	h := scripted(done)
	var mu sync.Mutex
	arrived, all := 0, make(chan struct{})
	l, seen := shake(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seenCall(r) {
			mu.Lock()
			turn := all
			if arrived++; arrived == callers {
				h.forget()
				close(all)
			}
			mu.Unlock()
			<-turn
		}
		h.ServeHTTP(w, r)
	}))
	for round := range rounds {
		mu.Lock()
		arrived, all = 0, make(chan struct{})
		mu.Unlock()
		var calls sync.WaitGroup
		for i := range callers {
			calls.Go(func() {
				if _, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", id: 100*round + i + 1}); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		calls.Wait()
	}
	if n := seen.times("POST initialize"); n != rounds+1 {
		t.Errorf("%d sessions were made, want %d", n, rounds+1)
	}
}

// Nobody can see that a session is lost while the pool still has it.
func TestLostSessionIsInNoPool(t *testing.T) {
	l, _ := shake(t, scripted(done))
	s, err := l.session(t.Context(), sessionKey{}, l.caps.of(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer l.release(s)
	l.mu.Lock()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		s.lose(errNoSession)
	}()
	early := false
	for range 1000 {
		runtime.Gosched()
		early = early || s.isLost()
	}
	l.mu.Unlock()
	if <-lost; early || !s.isLost() {
		t.Errorf("lost while in the pool: %v, afterwards: %v", early, s.isLost())
	}
}
