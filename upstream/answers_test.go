package upstream

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// answers are the ways in which an upstream answers well or badly.
var answers = []struct {
	name      string
	answer    http.HandlerFunc
	want      []string
	class     Class // "" when all is well
	status    int   // of the message; 200 when it is 0
	retryable bool  // for a tools/call
	healthy   bool  // the breaker must not count it
}{
	{
		name:    "JSON with parameters in its content type",
		answer:  body(200, "Application/JSON; charset=utf-8", callResult),
		want:    []string{callResult},
		healthy: true,
	}, {
		name:   "500 with HTML",
		answer: body(500, "text/html", "<h1>oops</h1>"),
		class:  ClassStatus,
	}, {
		name:   "500 without a body",
		answer: body(500, "", ""),
		class:  ClassStatus,
	}, {
		name:      "503",
		answer:    body(503, "text/plain", "later"),
		class:     ClassStatus,
		retryable: true,
	}, {
		name:      "429",
		answer:    body(429, "application/json", `{"error":"slow down"}`),
		class:     ClassStatus,
		retryable: true,
		healthy:   true,
	}, {
		name:    "404",
		answer:  body(404, "text/plain", "404 page not found"),
		class:   ClassStatus,
		healthy: true,
	}, {
		name: "redirect",
		answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		class:   ClassStatus,
		healthy: true,
	}, {
		name:    "401",
		answer:  body(401, "text/plain", "who are you"),
		class:   ClassUnauthorized,
		healthy: true,
	}, {
		name:    "403 with JSON that is no error",
		answer:  body(403, "application/json", `{"message":"no"}`),
		class:   ClassUnauthorized,
		healthy: true,
	}, {
		name:    "401 with a JSON-RPC error",
		answer:  body(401, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no"}}`),
		want:    []string{`{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"no"}}`},
		status:  401,
		healthy: true,
	}, {
		name:    "400 with an error without id",
		answer:  body(400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32020,"message":"Header mismatch"}}`),
		want:    []string{`{"jsonrpc":"2.0","error":{"code":-32020,"message":"Header mismatch"}}`},
		status:  400,
		healthy: true,
	}, {
		name:    "400 with an error with the id null",
		answer:  body(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`),
		want:    []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`},
		status:  400,
		healthy: true,
	}, {
		name:   "500 with a JSON-RPC error",
		answer: body(500, "application/json", `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}`),
		want:   []string{`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no"}}`},
		status: 500, healthy: true,
	}, {
		name:    "400 with another request's error",
		answer:  body(400, "application/json", `{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"no"}}`),
		class:   ClassStatus,
		healthy: true,
	}, {
		name:   "HTML",
		answer: body(200, "text/html", "<html>sign in</html>"),
		class:  ClassProtocol,
	}, {
		name: "no content type",
		answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, callResult)
		},
		class: ClassProtocol,
	}, {
		name:   "empty JSON",
		answer: body(200, "application/json", ""),
		class:  ClassProtocol,
	}, {
		name:   "202",
		answer: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) },
		class:  ClassProtocol,
	}, {
		name:   "truncated JSON",
		answer: body(200, "application/json", callResult[:len(callResult)-3]),
		class:  ClassProtocol,
	}, {
		name: "JSON cut by the connection",
		answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(callResult)))
			answerJSON(w, 200, callResult[:40])
		},
		class: ClassInterrupted,
	}, {
		name:   "array",
		answer: body(200, "application/json", "["+callResult+"]"),
		class:  ClassProtocol,
	}, {
		name:   "JSON that is a notification",
		answer: body(200, "application/json", progress(1)),
		class:  ClassProtocol,
	}, {
		name:   "another request's id",
		answer: body(200, "application/json", strings.Replace(callResult, "7", "8", 1)),
		class:  ClassProtocol,
	}, {
		name:   "the id as a string",
		answer: body(200, "application/json", strings.Replace(callResult, "7", `"7"`, 1)),
		class:  ClassProtocol,
	}, {
		name:   "a result without id",
		answer: body(200, "application/json", strings.Replace(callResult, `"id":7,`, ``, 1)),
		class:  ClassProtocol,
	}, {
		name: "SSE cut in the middle of an event",
		answer: func(w http.ResponseWriter, r *http.Request) {
			events(w)(progress(1))
			io.WriteString(w, "data: "+callResult[:30])
		},
		want:  []string{progress(1)},
		class: ClassInterrupted,
	}, {
		name:   "SSE that ends before its final message",
		answer: func(w http.ResponseWriter, r *http.Request) { events(w)(progress(1)) },
		want:   []string{progress(1)},
		class:  ClassInterrupted,
	}, {
		name: "SSE cut by the connection",
		answer: func(w http.ResponseWriter, r *http.Request) {
			events(w)(progress(1))
			panic(http.ErrAbortHandler)
		},
		want:  []string{progress(1)},
		class: ClassInterrupted,
	}, {
		name:   "SSE with another request's id",
		answer: func(w http.ResponseWriter, r *http.Request) { events(w)(strings.Replace(callResult, "7", "8", 1)) },
		class:  ClassProtocol,
	}, {
		name:   "SSE with what is no JSON",
		answer: func(w http.ResponseWriter, r *http.Request) { events(w)("hello") },
		class:  ClassProtocol,
	}, {
		name:    "JSON over the bound",
		answer:  body(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{"text":"`+strings.Repeat("x", 64<<10)+`"}}`),
		class:   ClassTooLarge,
		healthy: true,
	}, {
		name: "SSE over the bound",
		answer: func(w http.ResponseWriter, r *http.Request) {
			events(w)(`{"jsonrpc":"2.0","id":7,"result":{"text":"` + strings.Repeat("x", 64<<10) + `"}}`)
		},
		class:   ClassTooLarge,
		healthy: true,
	}, {
		name:    "gzip",
		answer:  gzipped("application/json", callResult),
		want:    []string{callResult},
		healthy: true,
	}, {
		name:    "gzip of SSE",
		answer:  gzipped("text/event-stream", "data: "+progress(1)+"\n\ndata: "+callResult+"\n\n"),
		want:    []string{progress(1), callResult},
		healthy: true,
	}, {
		name:    "gzip that is over the bound when it is decoded",
		answer:  gzipped("application/json", `{"jsonrpc":"2.0","id":7,"result":{"text":"`+strings.Repeat("x", 64<<10)+`"}}`),
		class:   ClassTooLarge,
		healthy: true,
	}, {
		name: "gzip that is none",
		answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			answerJSON(w, 200, callResult)
		},
		class: ClassProtocol,
	}, {
		name: "br",
		answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			answerJSON(w, 200, callResult)
		},
		class: ClassProtocol,
	}, {
		name:   "closes the connection without an answer",
		answer: func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		class:  ClassConnect,
	},
}

func body(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func gzipped(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			http.Error(w, "gzip was not asked for", http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", contentType)
		z := gzip.NewWriter(w)
		io.WriteString(z, body)
		z.Close()
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			paths := make(chan string, 10)
			c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
				paths <- r.URL.Path
				tt.answer(w, r)
			}, func(c *Config) { c.MaxMessage = 32 << 10; c.BreakerFailures = 1 })
			resp, err := c.Do(context.Background(), toolCall())
			var got []string
			if err == nil {
				for err == nil {
					var m *mcp.Message
					if m, err = resp.Next(); err == nil {
						got = append(got, string(m.Raw))
					}
				}
				if _, again := resp.Next(); again != err {
					t.Errorf("a further Next gives %v, want %v again", again, err)
				}
				if want := max(tt.status, 200); tt.class == "" && resp.Status() != want {
					t.Errorf("status = %d, want %d", resp.Status(), want)
				}
				resp.Close()
				resp.Close()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if tt.class != "" {
				wantClass(t, err, tt.class, tt.retryable)
			} else if err != io.EOF {
				t.Errorf("error = %v, want none", err)
			}
			if n := len(paths); n != 1 {
				t.Errorf("the upstream saw %d requests, want one", n)
			}
			_, err = read(context.Background(), c, toolCall())
			if open := classOf(err) == ClassBreakerOpen; open == tt.healthy {
				t.Errorf("the breaker is open: %v, want %v", open, !tt.healthy)
			}
		})
	}
}

func classOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// A budget that is used up fails the call, and gets back what the call took.
func TestBudget(t *testing.T) {
	c, _ := connect(t, body(200, "application/json", `{"jsonrpc":"2.0","id":7,"result":{"text":"`+strings.Repeat("x", 64<<10)+`"}}`))
	c.budget = mcp.NewBudget(10 << 10)
	_, err := read(context.Background(), c, toolCall())
	wantClass(t, err, ClassOverloaded, false)
	c.budget = mcp.NewBudget(100 << 10)
	resp, err := c.Do(context.Background(), toolCall())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Next(); err != nil {
		t.Fatal(err)
	}
	if c.budget.Used() < 64<<10 {
		t.Errorf("a large answer holds %d bytes of the budget", c.budget.Used())
	}
	resp.Close()
	if c.budget.Used() != 0 {
		t.Errorf("a closed response holds %d bytes of the budget", c.budget.Used())
	}
}
