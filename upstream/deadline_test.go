package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// after writes each event when its time has come, counted from the event before.
func after(events ...any) func(int32, *http.Request, *io.PipeWriter) (int, string, error) {
	return func(_ int32, req *http.Request, w *io.PipeWriter) (int, string, error) {
		go func() {
			for _, e := range events {
				switch e := e.(type) {
				case time.Duration:
					select {
					case <-time.After(e):
					case <-req.Context().Done():
						return
					}
				case string:
					io.WriteString(w, "data: "+e+"\n\n")
				}
			}
			w.Close()
		}()
		return http.StatusOK, "text/event-stream", nil
	}
}

func TestDeadline(t *testing.T) {
	const foreign = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"q","progress":1}}`
	const ack = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}`
	listen := func(r *Request) { r.Listen, r.Method = true, mcp.MethodListen }
	never := 1000 * time.Hour
	tests := []struct {
		name   string
		events []any
		change func(*Request)
		want   time.Duration // when it ends
		class  Class
	}{
		{"in time", []any{59 * time.Second, callResult}, nil, 59 * time.Second, ""},
		{"silence", []any{never}, nil, time.Minute, ClassTimeout},
		{"progress gives more time", []any{50 * time.Second, progress(1), 50 * time.Second, progress(2), 50 * time.Second, callResult}, nil, 150 * time.Second, ""},
		{"silence after progress", []any{50 * time.Second, progress(1), never}, nil, 110 * time.Second, ClassTimeout},
		{"another's progress gives no time", []any{50 * time.Second, foreign, 50 * time.Second, callResult}, nil, time.Minute, ClassTimeout},
		{
			"progress gives no time past the maximum",
			[]any{50 * time.Second, progress(1), 50 * time.Second, progress(2), 50 * time.Second, progress(3), 50 * time.Second, callResult},
			nil, 3 * time.Minute, ClassTimeout,
		},
		{
			"own timeout", []any{never},
			func(r *Request) { r.Timeout = 2 * time.Second }, 2 * time.Second, ClassTimeout,
		},
		{
			"own timeout is longer", []any{9 * time.Minute, callResult},
			func(r *Request) { r.Timeout = 10 * time.Minute }, 9 * time.Minute, "",
		},
		{
			"progress gives no time past the own timeout", []any{time.Second, progress(1), never},
			func(r *Request) { r.Timeout = 2 * time.Second }, 2 * time.Second, ClassTimeout,
		},
		{"listen has no deadline", []any{ack, 48 * time.Hour, callResult}, listen, 48 * time.Hour, ""},
		{"listen is acknowledged in time", []any{never}, listen, time.Minute, ClassTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inBubble(t, &fakePool{answer: after(tt.events...)}, func(c *Config) { c.CallMax = 3 * time.Minute })
				req := toolCall()
				if tt.change != nil {
					tt.change(req)
				}
				start := time.Now()
				_, err := read(t.Context(), c, req)
				if tt.class != "" {
					wantClass(t, err, tt.class, false)
				} else if err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

func TestNeverAnswers(t *testing.T) {
	tests := []struct {
		name      string
		ctx       func(context.Context) (context.Context, context.CancelFunc)
		method    string
		want      time.Duration
		class     Class
		retryable bool
		fails     bool // counts for the breaker
	}{
		{"call", context.WithCancel, mcp.MethodToolsCall, time.Minute, ClassTimeout, false, true},
		{"list", context.WithCancel, mcp.MethodToolsList, time.Minute, ClassTimeout, true, true},
		{
			"the caller's deadline",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			mcp.MethodToolsList, time.Second, ClassTimeout, true, false,
		}, {
			"the caller leaves",
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(3*time.Second, cancel)
				return ctx, cancel
			},
			mcp.MethodToolsList, 3 * time.Second, ClassCanceled, false, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := &fakePool{answer: func(_ int32, req *http.Request, _ *io.PipeWriter) (int, string, error) { return never(req) }}
				c := inBubble(t, pool, func(c *Config) { c.BreakerFailures = 1 })
				ctx, cancel := tt.ctx(t.Context())
				defer cancel()
				start := time.Now()
				_, err := c.Do(ctx, request(tt.method))
				wantClass(t, err, tt.class, tt.retryable)
				if took := time.Since(start); took != tt.want {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
				if n := pool.trips.Load(); n != 1 {
					t.Errorf("it was sent %d times, want once", n)
				}
				_, err = c.guard.allow()
				if (err != nil) != tt.fails {
					t.Errorf("the breaker says %v, want open: %v", err, tt.fails)
				}
			})
		})
	}
}

// Cancelling the caller's context reaches the upstream at once, as does closing
// the response.
func TestCancelReachesUpstream(t *testing.T) {
	tests := []struct {
		name string
		end  func(cancel func(), resp Answer)
	}{
		{"cancel", func(cancel func(), _ Answer) { cancel() }},
		{"close", func(_ func(), resp Answer) { resp.Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{})
			c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				events(w)(progress(1))
				<-r.Context().Done()
				close(gone)
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			resp, err := c.Do(ctx, toolCall())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Close()
			if _, err := resp.Next(); err != nil {
				t.Fatal(err)
			}
			tt.end(cancel, resp)
			<-gone
			_, err = resp.Next()
			wantClass(t, err, ClassCanceled, false)
			if !errors.Is(err, context.Canceled) && tt.name == "cancel" {
				t.Errorf("error = %v, want one that is context.Canceled", err)
			}
			if err := c.guard.enter(context.Background()); err != nil {
				t.Errorf("the slot was not given back: %v", err)
			}
			c.guard.leave()
		})
	}
}

// A cancel while the upstream has not answered reaches it as well.
func TestCancelBeforeAnswer(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.Do(ctx, toolCall())
	wantClass(t, err, ClassCanceled, false)
	<-gone
}
