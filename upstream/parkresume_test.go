package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// The client is asked all at once that the server asks at once.
func TestGather(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	ask := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"a"}}`, id)
	}
	type event struct {
		after time.Duration
		data  string // empty for the result
	}
	tests := []struct {
		name      string
		events    []event
		want      int // requests that the client is asked
		wantNotes int // notifications before that, or before the result
	}{
		{"one", []event{{0, ask(1)}}, 1, 0},
		{"one after the other", []event{{0, ask(1)}, {gatherTime - 1, ask(2)}, {gatherTime - 1, ask(3)}}, 3, 0},
		{"very many", slices.Repeat([]event{{0, ask(1)}}, maxHeldRequests+1), maxHeldRequests, 0},
		{"among notifications", []event{{0, note}, {0, ask(1)}, {0, note}, {time.Millisecond, ask(2)}}, 2, 1},
		{"too late", []event{{0, ask(1)}, {gatherTime + time.Millisecond, ask(2)}}, 1, 0},
		{"the server does not wait", []event{{0, ask(1)}, {0, note}, {time.Millisecond, ""}}, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
					send := events(w)
					for _, e := range tt.events {
						if sleep(m.request.Context(), e.after) != nil {
							return
						}
						if e.data == "" {
							send(m.result(`{"content":[]}`))
							return
						}
						send(e.data)
					}
					<-m.request.Context().Done()
				})
				l := inBubbleShake(h)
				defer l.Close()
				r, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", caps: allCaps})
				if err != nil {
					t.Fatal(err)
				}
				if got := len(r.Result.InputRequests); got != tt.want || len(r.notes) != tt.wantNotes {
					t.Errorf("%d requests after %d notifications, want %d after %d: %s", got, len(r.notes), tt.want, tt.wantNotes, r.raw)
				}
			})
		})
	}
}

// A server that refuses a method of nobody's with a bare status does not know it.
// Of what it must know, the status is a failure.
func TestUnknownMethod(t *testing.T) {
	tests := []struct {
		name, method string
		status       int
		want         Class // empty for the error that says so
	}{
		{"unknown, 400", "no/such", http.StatusBadRequest, ""},
		{"unknown, 405", "no/such", http.StatusMethodNotAllowed, ""},
		{"unknown, refused", "no/such", http.StatusForbidden, ClassUnauthorized},
		{"unknown, too many", "no/such", http.StatusTooManyRequests, ClassStatus},
		{"unknown, broken", "no/such", http.StatusBadGateway, ClassStatus},
		{"unknown, session lost again and again", "no/such", http.StatusNotFound, ClassStatus},
		{"known", mcp.MethodPromptsGet, http.StatusBadRequest, ClassStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _ := shake(t, scripted(func(w http.ResponseWriter, _ scriptedMessage) {
				http.Error(w, "Bad Request", tt.status)
			}))
			r, err := send(t.Context(), l, modern{method: tt.method})
			if tt.want != "" {
				if e := (*Error)(nil); !errors.As(err, &e) || e.Class != tt.want {
					t.Errorf("got %+v, %v, want class %s", r, err, tt.want)
				}
				return
			}
			if err != nil || r.Error.Code != mcp.CodeMethodNotFound || r.status != http.StatusNotFound {
				t.Errorf("got %+v, %v, want 404 and %d", r, err, mcp.CodeMethodNotFound)
			}
		})
	}
}
