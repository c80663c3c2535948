package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// handlerPool is a transport within a synctest bubble, where no real connections
// can be: it calls a handler.
type handlerPool struct{ handler http.Handler }

func (p handlerPool) Close() {}

// RoundTrip implements http.RoundTripper.
func (p handlerPool) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	body, w := io.Pipe()
	rw := &pipeWriter{w: w, header: http.Header{}, began: make(chan int, 1)}
	in := req.Clone(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	go func() {
		p.handler.ServeHTTP(rw, in)
		rw.WriteHeader(http.StatusOK)
		w.Close()
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	select {
	case status := <-rw.began:
		return &http.Response{StatusCode: status, Header: rw.header, ContentLength: -1, Body: cancelBody{body, cancel}}, nil
	case <-ctx.Done():
		cancel(nil)
		return nil, context.Cause(ctx)
	}
}

type pipeWriter struct {
	w      *io.PipeWriter
	header http.Header
	began  chan int
	done   bool
}

func (w *pipeWriter) Header() http.Header { return w.header }
func (w *pipeWriter) Flush()              { w.WriteHeader(http.StatusOK) }
func (w *pipeWriter) WriteHeader(status int) {
	if !w.done {
		w.done = true
		w.began <- status
	}
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.w.Write(b)
}

// cancelBody ends the request when its answer is closed.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b cancelBody) Close() error {
	b.cancel(errors.New("the answer was closed"))
	return b.ReadCloser.Close()
}

// inBubbleShake makes a Legacy of a handler within a bubble.
func inBubbleShake(h http.Handler, change ...func(*Config)) *Legacy {
	conf := Config{Tenant: "acme", Alias: "ledger", URL: "http://upstream.invalid/"}
	for _, c := range change {
		c(&conf)
	}
	return newLegacyHTTP(conf, handlerPool{h}, handlerPool{h}, Deps{})
}

// pass lets the bubble's time pass, and what is due then happen.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// Progress keeps a call alive, but never past its longest time.
func TestProgressResetsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			steps int
			want  Class
		}{{5, ""}, {50, ClassTimeout}} {
			h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
				send := events(w)
				for i := range tt.steps {
					if sleep(m.request.Context(), 40*time.Second) != nil {
						return
					}
					send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":%d}}`, i))
				}
				send(m.result("{}"))
			})
			l := inBubbleShake(h)
			start := time.Now()
			r, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", token: true})
			if tt.want == "" && (err != nil || len(r.notes) != tt.steps) {
				t.Errorf("%d notifications: %v", len(r.notes), err)
			} else if tt.want != "" {
				wantClass(t, err, tt.want, false)
				if took := time.Since(start); took != DefaultCallMax {
					t.Errorf("it took %v, want %v", took, DefaultCallMax)
				}
			}
			l.Close()
		}
	})
}

// A call's deadline stops while its user thinks, and starts again with the retry.
func TestNoDeadlineWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		h := scripted(func(w http.ResponseWriter, m scriptedMessage) {
			send := events(w)
			send(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"a"}}`)
			send(`{"jsonrpc":"2.0","id":"1","method":"elicitation/create","params":{"message":"b"}}`)
			<-answered
			<-answered
			send(m.result(`{"content":[{"type":"text","text":"thanks"}]}`))
		})
		h.note = func(m scriptedMessage) {
			if m.Method == "" {
				answered <- struct{}{}
			}
		}
		l := inBubbleShake(h)
		q := modern{method: mcp.MethodToolsCall, name: "x", caps: allCaps}
		r, err := send(t.Context(), l, q)
		for err == nil && len(r.Result.InputRequests) > 0 {
			pass(t, DefaultParkMax-time.Second)
			r, err = send(t.Context(), l, q.retry(r, `{"action":"accept"}`))
		}
		if err != nil || r.text() != "thanks" {
			t.Errorf("got %s: %v", r.raw, err)
		}
		l.Close()
	})
}

// An unused session lives for the idle time, and a used one is not touched.
func TestIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := scripted(done)
		l := inBubbleShake(h)
		start := time.Now()
		for i := range 5 {
			who := []string{"ann", "bob"}[min(i, 1)]
			if _, err := send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x", principal: who}); err != nil {
				t.Fatal(err)
			}
			pass(t, 2*time.Minute)
			want := 2
			switch {
			case i == 0:
				want = 1
			case time.Since(start) >= DefaultSessionIdle+time.Minute:
				want = 1 // ann's is gone
			}
			if got := h.known(); got != want {
				t.Errorf("%d sessions after %v, want %d", got, time.Since(start), want)
			}
		}
		pass(t, DefaultSessionIdle)
		if got := h.known(); got != 0 {
			t.Errorf("%d sessions are left", got)
		}
		l.Close()
	})
}

// Whoever waits for a handshake that hangs leaves when they want; the handshake
// has a bound of its own.
func TestHandshakeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inBubbleShake(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := send(ctx, l, modern{method: mcp.MethodToolsCall, name: "x"})
		wantClass(t, err, ClassTimeout, false)
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		_, err = send(t.Context(), l, modern{method: mcp.MethodToolsCall, name: "x"})
		wantClass(t, err, ClassTimeout, false)
		if took := time.Since(start); took != DefaultCallTimeout {
			t.Errorf("it took %v", took)
		}
		l.Close()
	})
}

// A call that takes too long is cancelled at the server; initialize never is.
func TestTimeoutTellsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, caps := range []string{"{}", allCaps} {
			var mu sync.Mutex
			var sent []string
			h := scripted(func(_ http.ResponseWriter, m scriptedMessage) { <-m.request.Context().Done() })
			h.note = func(m scriptedMessage) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, m.Method+string(m.Params))
			}
			l := inBubbleShake(h)
			r := modern{method: mcp.MethodToolsCall, name: "x", caps: caps}.request()
			r.Timeout = time.Second
			_, err := l.Do(t.Context(), r)
			wantClass(t, err, ClassTimeout, false)
			synctest.Wait()
			if want := `notifications/cancelled{"requestId":7}`; len(sent) != 4 || sent[3] != want {
				t.Errorf("the server was sent %q, want %s at the end", sent, want)
			}
			l.Close()
		}
	})
}
