package upstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestRequestHeader(t *testing.T) {
	type seen struct {
		header http.Header
		length int64
		body   string
	}
	got := make(chan seen, 1)
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, r.ContentLength, string(body)}
		answerJSON(w, http.StatusOK, callResult)
	})
	req := toolCall()
	req.Name = "überweisen"
	req.Params = []Header{{"Mcp-Param-Region", "eu"}}
	req.Header = http.Header{
		"X-Correlation":  {"c1", "c2"},
		"Mcp-Param-Free": {"kept"},
		"Authorization":  {"Bearer inbound"}, "Cookie": {"inbound"}, "Connection": {"close"},
		"Mcp-Method": {"tools/list"}, "Mcp-Session-Id": {"s"}, "Accept": {"text/html"}, "Idempotency-Key": {"k"},
	}
	body := string(req.Body.B)
	messages, err := read(context.Background(), c, req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{callResult}, messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	s := <-got
	want := http.Header{
		"Accept":               {"application/json, text/event-stream"},
		"Accept-Encoding":      {"gzip"},
		"Content-Length":       {s.header.Get("Content-Length")},
		"Content-Type":         {"application/json"},
		"Idempotency-Key":      {"k"},
		"Mcp-Method":           {"tools/call"},
		"Mcp-Name":             {mcp.EncodeHeader("überweisen")},
		"Mcp-Param-Free":       {"kept"},
		"Mcp-Param-Region":     {"eu"},
		"Mcp-Protocol-Version": {"2026-07-28"},
		"User-Agent":           {"causeway"},
		"X-Correlation":        {"c1", "c2"},
	}
	if diff := cmp.Diff(want, s.header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	if s.body != body || s.length != int64(len(body)) {
		t.Errorf("body = %q with length %d, want %q with its length", s.body, s.length, body)
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"JSON": func(w http.ResponseWriter, r *http.Request) { answerJSON(w, http.StatusOK, callResult) },
		"SSE": func(w http.ResponseWriter, r *http.Request) {
			send := events(w)
			send(progress(1))
			send(callResult)
		},
		"JSON-RPC error": func(w http.ResponseWriter, r *http.Request) {
			answerJSON(w, http.StatusBadRequest, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`)
		},
		"status": func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusNotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			c, s := connect(t, h)
			for range 20 {
				read(context.Background(), c, toolCall())
			}
			if n := s.opened(); n != 1 {
				t.Errorf("20 calls used %d connections, want 1", n)
			}
		})
	}
}

// A stream that the server leaves open after its final message holds a call up
// once, not each time.
func TestStreamLeftOpen(t *testing.T) {
	ended := make(chan struct{}, 10)
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		events(w)(callResult)
		<-r.Context().Done()
		ended <- struct{}{}
	})
	for range 3 {
		if _, err := read(context.Background(), c, toolCall()); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
	if c.lingers.Load() == 0 {
		t.Error("the client has not learned that the upstream leaves streams open")
	}
}

func TestSSEMessagesInOrder(t *testing.T) {
	want := []string{
		progress(1),
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`,
		progress(2),
		callResult,
	}
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		io.WriteString(w, ": comment\n\nid: 1\ndata:\n\nevent: ping\ndata: {}\n\n")
		send(want[0])
		send(`{"jsonrpc":"2.0","id":"s1","method":"ping"}`) // servers must not, and nobody is harmed
		for _, m := range want[1:] {
			send(m)
		}
		send(progress(3)) // after the end
	})
	got, err := read(context.Background(), c, toolCall())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestListen(t *testing.T) {
	const (
		ack     = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true}}}`
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`
		end     = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}`
	)
	tests := []struct {
		name string
		sent []string
		want []string
		cut  bool
	}{
		{"graceful end", []string{ack, changed, end}, []string{ack, changed, end}, false},
		{"broken", []string{ack, changed}, []string{ack, changed}, true},
		{"no acknowledgement", nil, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "" {
					t.Error("a listen stream asks for compression")
				}
				send := events(w)
				for _, m := range tt.sent {
					send(m)
				}
			}, func(c *Config) { c.MaxInFlight = 1 })
			// The one slot is taken: a listen stream needs none.
			if err := c.guard.enter(context.Background()); err != nil {
				t.Fatal(err)
			}
			defer c.guard.leave()
			req := request(mcp.MethodListen)
			req.Listen = true
			got, err := read(context.Background(), c, req)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if tt.cut {
				wantClass(t, err, ClassInterrupted, false)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnusableURL(t *testing.T) {
	for _, url := range []string{"", "ftp://127.0.0.1/", "http://", "http://user:secret@127.0.0.1/mcp", "http://127.0.0.1:x/\x7f"} {
		c := dial(t, url)
		_, err := c.Do(context.Background(), toolCall())
		wantClass(t, err, ClassConnect, false)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func TestClosedClient(t *testing.T) {
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) { answerJSON(w, http.StatusOK, callResult) })
	resp, err := c.Do(context.Background(), toolCall())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	c.Close()
	c.Close()
	_, err = c.Do(context.Background(), toolCall())
	wantClass(t, err, ClassConnect, true)
	if m, err := resp.Next(); err != nil || string(m.Raw) != callResult {
		t.Errorf("a request under way ended with %v", err)
	}
}
