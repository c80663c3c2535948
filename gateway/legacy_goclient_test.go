package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connectGo begins a session of that revision, over connections of its own.
func connectGo(t *testing.T, transport *mcp.StreamableClientTransport, version string) *mcp.ClientSession {
	t.Helper()
	conns := &http.Transport{}
	t.Cleanup(conns.CloseIdleConnections)
	transport.HTTPClient = &http.Client{Transport: conns}
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// TestGoClientOfEachRevision holds that the Go SDK's client, restricted to a
// revision of the handshake era, keeps its connection through errors and cancels.
func TestGoClientOfEachRevision(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			s := newScripted(t)
			s.tools("hang", "work")
			reached, left := make(chan struct{}), make(chan struct{})
			s.handle("tools/call", func(w http.ResponseWriter, r *http.Request, a *asked) {
				if a.Params.Name == "hang" {
					close(reached)
					<-r.Context().Done()
					close(left)
					return
				}
				answerResult(booked)(w, r, a)
			})
			session := connectGo(t, &mcp.StreamableClientTransport{Endpoint: oldFront(t, s, "")}, version)
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("agreed on %s", got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-reached
				cancel()
			}()
			if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "hang"}); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call: %v", err)
			}
			<-left // the server is told too
			if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nobody"}); code(err) != -32602 {
				t.Errorf("an unknown tool: %v", err)
			}
			if err := session.Ping(t.Context(), nil); err != nil {
				t.Error(err)
			}
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "work"})
			if err != nil || res.IsError || len(res.Content) != 1 {
				t.Errorf("the call after it: %+v, %v", res, err)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGoClientAfterItsSession holds that a client whose session is over is told so.
func TestGoClientAfterItsSession(t *testing.T) {
	s := newScripted(t)
	url := oldFront(t, s, "")
	session := connectGo(t, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true}, "2025-11-25")
	c := newOldClient(t, url, "2025-11-25", `{}`)
	c.session = session.ID()
	res := c.do(c.request(http.MethodDelete, ""))
	_ = res.Body.Close()
	if err := session.Ping(t.Context(), nil); !errors.Is(err, mcp.ErrSessionMissing) {
		t.Errorf("ping: %v", err)
	}
	_ = session.Close()
}
