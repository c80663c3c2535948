package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
)

// consentError is what an upstream's credentials fail with where its user has to sign in
// first.
type consentError struct{}

func (consentError) Error() string {
	return "the user has to sign in at https://gw.example.com/oauth/hush"
}

func (consentError) ConsentURL() (url, message string) {
	return "https://gw.example.com/oauth/hush", "Sign in, hush"
}

// TestUnconnected holds that whoever could not be asked to sign in is told that the
// upstream does not take the credentials, and not of the page, which is for one user.
func TestUnconnected(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		alias string
	}{
		{"of an upstream", &upstream.Error{Alias: "ledger", Class: upstream.ClassConnect, Retryable: true, Err: consentError{}}, "ledger"},
		{"wrapped", fmt.Errorf("call: %w", &upstream.Error{Alias: "ledger", Class: upstream.ClassUnauthorized, Err: fmt.Errorf("credentials: %w", consentError{})}), "ledger"},
		{"bare", consentError{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := mapError(tt.err)
			want := upstreamError(&upstream.Error{Alias: tt.alias, Class: upstream.ClassUnauthorized, Err: io.EOF})
			if diff := cmp.Diff(want, f.rpc); diff != "" || f.status != 200 || f.errorType != "unauthorized" || f.upstream != tt.alias || f.internal {
				t.Errorf("%+v (-want +got):\n%s", f, diff)
			}
			if strings.Contains(f.rpc.Message+string(f.rpc.Data), "hush") {
				t.Errorf("the page is told: %v %s", f.rpc, f.rpc.Data)
			}
		})
	}
	var lost interface {
		ConsentURL() (url, message string)
	}
	if errors.As(&upstream.Error{Alias: "a", Class: upstream.ClassTimeout, Err: io.EOF}, &lost) {
		t.Error("another error asks for a page")
	}
}

// TestHandshakeClientsAreSentToPages holds what becomes of a sign-in that the federation
// asks for, in the form of revision 2026-07-28, where the client is of an earlier one.
func TestHandshakeClientsAreSentToPages(t *testing.T) {
	const asks = `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://gw.example.com/oauth/1"}}},"requestState":"s"}`
	tests := []struct {
		name, version, capabilities string
		asked                       bool
	}{
		{"declares URLs", "2025-11-25", `{"elicitation":{"url":{}}}`, true},
		{"declares both", "2025-11-25", `{"elicitation":{"form":{},"url":{}}}`, true},
		{"declares forms", "2025-11-25", `{"elicitation":{}}`, false},
		{"declares nothing", "2025-11-25", `{}`, false},
		{"an earlier revision", "2025-06-18", `{"elicitation":{"url":{}}}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			retried := ""
			_, url := start(t, &fakeRouter{handle: func(_ context.Context, c *federation.Call) (*federation.Reply, error) {
				switch {
				case c.Request.Method == "server/discover":
					return result(c, `{"resultType":"complete","capabilities":{}}`), nil
				case !c.Request.RequestState.Ok():
					return result(c, asks), nil
				}
				retried = string(c.Request.Raw)
				return result(c, `{"resultType":"complete","content":[]}`), nil
			}}, nil)
			res := do(t, request(t, url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+tt.version+`","capabilities":`+tt.capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`, "Mcp-Protocol-Version"))
			header := []string{"Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "Mcp-Protocol-Version: " + tt.version}
			res = do(t, request(t, url+"/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`, header...))
			if !tt.asked {
				if e := decodeError(t, body(t, res)); res.StatusCode != 200 || e.Error.Code != -32021 || string(e.Error.Data) != `{"requiredCapabilities":{"elicitation":{"url":{}}}}` {
					t.Errorf("%d %+v", res.StatusCode, e)
				}
				return
			}
			next := events(res.Body)
			question, err := next()
			if err != nil {
				t.Fatal(err)
			}
			id, rest, _ := strings.Cut(strings.TrimPrefix(question, `{"jsonrpc":"2.0","id":`), `,`)
			before, minted, _ := strings.Cut(rest, `,"elicitationId":"`)
			if before != `"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://gw.example.com/oauth/1"` || len(minted) < len(`"}}`)+20 {
				t.Errorf("asked %s", question)
			}
			answer := do(t, request(t, url+"/mcp", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`, header...))
			if answer.StatusCode != http.StatusAccepted {
				t.Errorf("the answer: %d", answer.StatusCode)
			}
			if got, err := next(); got != `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}` || err != nil {
				t.Errorf("%s, %v", got, err)
			}
			if !strings.Contains(retried, `"inputResponses":{"k":{"action":"accept"}}`) || !strings.Contains(retried, `"requestState":"s"`) {
				t.Errorf("the federation was asked %s", retried)
			}
		})
	}
}
