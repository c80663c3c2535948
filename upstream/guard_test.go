package upstream

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sony/gobreaker/v2"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healthy := false
		pool := &fakePool{answer: func(n int32, req *http.Request, w *io.PipeWriter) (int, string, error) {
			if !healthy {
				return 500, "text/html", nil
			}
			return answersWith(callResult)(n, req, w)
		}}
		c := inBubble(t, pool)
		state := func() float64 {
			return testutil.ToFloat64(c.series.metrics.breaker.WithLabelValues("acme", "ledger"))
		}
		step := func(what string, class Class, trips int32, wantState float64) {
			t.Helper()
			_, err := read(t.Context(), c, toolCall())
			if got := classOf(err); got != class {
				t.Errorf("%s: error = %v, want class %q", what, err, class)
			}
			if n := pool.trips.Swap(0); n != trips {
				t.Errorf("%s: %d requests were sent, want %d", what, n, trips)
			}
			if s := state(); s != wantState {
				t.Errorf("%s: state is %v, want %v", what, s, wantState)
			}
		}
		for range DefaultBreakerFailures - 1 {
			step("failure", ClassStatus, 1, 0)
		}
		healthy = true
		step("a success starts the count anew", "", 1, 0)
		healthy = false
		for range DefaultBreakerFailures - 1 {
			step("failure", ClassStatus, 1, 0)
		}
		step("the last failure", ClassStatus, 1, 2)
		step("open", ClassBreakerOpen, 0, 2)
		time.Sleep(DefaultBreakerOpen + 1)
		step("failed probe", ClassStatus, 1, 2)
		step("open again", ClassBreakerOpen, 0, 2)
		healthy = true
		time.Sleep(DefaultBreakerOpen + 1)
		step("good probe", "", 1, 0)
		step("closed", "", 1, 0)
	})
}

// openBreaker opens a breaker and lets the time until the probe pass.
func openBreaker(t *testing.T, c *Client) {
	t.Helper()
	for range c.conf.BreakerFailures {
		ticket, err := c.guard.allow()
		if err != nil {
			t.Fatal(err)
		}
		ticket.settle(errFailed)
	}
	time.Sleep(c.conf.BreakerOpen + 1)
}

// While one probes, nobody else gets through, but a slow probe is not waited for
// longer than the breaker is open, and counts when it has an answer after all.
func TestSlowProbe(t *testing.T) {
	tests := []struct {
		name     string
		probe    any // what it gets after half a minute
		want     gobreaker.State
		another  time.Duration // the time of another probe, since the first
		awaiting bool          // that one has no answer yet
	}{
		{"succeeds, nobody came meanwhile", callResult, gobreaker.StateClosed, 0, false},
		{"succeeds, another one has failed", callResult, gobreaker.StateClosed, 20 * time.Second, false},
		{"succeeds, another one waits", callResult, gobreaker.StateClosed, 28 * time.Second, true},
		{"fails, another one waits", "nonsense", gobreaker.StateOpen, 28 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := inBubble(t, &fakePool{answer: after(time.Minute/2, tt.probe)})
				openBreaker(t, c)
				start := time.Now()
				var probe sync.WaitGroup
				probe.Go(func() { read(t.Context(), c, toolCall()) })
				synctest.Wait()
				_, err := read(t.Context(), c, toolCall())
				wantClass(t, err, ClassBreakerOpen, true)
				if tt.another > 0 {
					time.Sleep(tt.another)
					ticket, err := c.guard.allow()
					if err != nil {
						t.Fatalf("a slow probe keeps others out: %v", err)
					}
					if !tt.awaiting {
						ticket.settle(errFailed)
					}
					defer ticket.settle(errNoVerdict)
				}
				probe.Wait()
				if took := time.Since(start); took != time.Minute/2 {
					t.Errorf("the probe took %v", took)
				}
				if got := c.guard.breaker.State(); got != tt.want {
					t.Errorf("the breaker is %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// No one waits in line for an upstream whose breaker is open.
func TestFullAndOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inBubble(t, &fakePool{answer: answersWith(callResult)}, func(c *Config) { c.MaxInFlight = 1; c.BreakerOpen = time.Hour })
		if err := c.guard.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range DefaultBreakerFailures {
			if ticket, err := c.guard.allow(); err != nil {
				t.Fatal(err)
			} else {
				ticket.settle(errFailed)
			}
		}
		start := time.Now()
		_, err := c.Do(t.Context(), toolCall())
		wantClass(t, err, ClassBreakerOpen, true)
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v to say so", took)
		}
	})
}

// A probe's first message closes the breaker, however long its stream is.
func TestProbeThatStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inBubble(t, &fakePool{answer: after(progress(1), time.Minute/2, callResult)})
		openBreaker(t, c)
		resp, err := c.Do(t.Context(), toolCall())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		if _, err := resp.Next(); err != nil {
			t.Fatal(err)
		}
		if ticket, err := c.guard.allow(); err != nil {
			t.Errorf("the breaker is still open: %v", err)
		} else {
			ticket.settle(nil)
		}
	})
}

func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		pool := &fakePool{answer: func(n int32, req *http.Request, w *io.PipeWriter) (int, string, error) {
			select {
			case <-finish:
			case <-req.Context().Done():
				return 0, "", context.Cause(req.Context())
			}
			return answersWith(callResult)(n, req, w)
		}}
		c := inBubble(t, pool, func(c *Config) { c.MaxInFlight = 2; c.BreakerFailures = 1 })
		var calls sync.WaitGroup
		call := func(ctx context.Context, class Class, retryable bool, took time.Duration) {
			calls.Go(func() {
				start := time.Now()
				resp, err := c.Do(ctx, toolCall())
				if class != "" {
					wantClass(t, err, class, retryable)
				} else if err != nil {
					t.Error(err)
				} else {
					if _, err := resp.Next(); err != nil {
						t.Error(err)
					}
					if resp.Waited() != took {
						t.Errorf("a call waited %v, want %v", resp.Waited(), took)
					}
					resp.Close()
				}
				if time.Since(start) != took {
					t.Errorf("a call took %v, want %v", time.Since(start), took)
				}
			})
			synctest.Wait() // so that they stand in line in order
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		call(t.Context(), "", false, 3*time.Second)
		call(t.Context(), "", false, 3*time.Second)
		call(t.Context(), ClassOverloaded, true, DefaultConnectTimeout) // first in line
		call(soon, ClassTimeout, true, time.Second/4)                   // leaves the line
		time.Sleep(3 * time.Second / 2)
		call(t.Context(), "", false, 3*time.Second/2)
		if n := pool.trips.Load(); n != 2 {
			t.Errorf("%d requests are under way, want 2", n)
		}
		time.Sleep(3 * time.Second / 2)
		close(finish)
		calls.Wait()
		if n := pool.trips.Load(); n != 3 {
			t.Errorf("%d requests were sent, want 3", n)
		}
		if _, err := c.guard.allow(); err != nil {
			t.Errorf("waiting in line has opened the breaker: %v", err)
		}
	})
}

// What a first attempt's end means for a second one.
func TestRetry(t *testing.T) {
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	cutStream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	cutAfterMessage := func(w http.ResponseWriter, r *http.Request) {
		events(w)(progress(1))
		panic(http.ErrAbortHandler)
	}
	ok := body(200, "application/json", callResult)
	list, call, get := mcp.MethodToolsList, mcp.MethodToolsCall, mcp.MethodPromptsGet
	tests := []struct {
		name     string
		method   string
		answers  []http.HandlerFunc
		want     int // requests sent
		messages []string
		class    Class
	}{
		{"list, connection closed", list, []http.HandlerFunc{abort, ok}, 2, []string{callResult}, ""},
		{"call, connection closed", call, []http.HandlerFunc{abort, ok}, 1, nil, ClassConnect},
		{"prompt, connection closed", get, []http.HandlerFunc{abort, ok}, 1, nil, ClassConnect},
		{"list, 502", list, []http.HandlerFunc{body(502, "text/html", "<p>"), ok}, 2, []string{callResult}, ""},
		{"call, 502", call, []http.HandlerFunc{body(502, "text/html", "<p>"), ok}, 1, nil, ClassStatus},
		{"list, 404", list, []http.HandlerFunc{body(404, "text/html", "<p>"), ok}, 1, nil, ClassStatus},
		{"list, 429", list, []http.HandlerFunc{body(429, "text/html", "<p>"), ok}, 1, nil, ClassStatus},
		{"list, stream cut", list, []http.HandlerFunc{cutStream, ok}, 2, []string{callResult}, ""},
		{"call, stream cut", call, []http.HandlerFunc{cutStream, ok}, 1, nil, ClassInterrupted},
		{"list, stream cut after a message", list, []http.HandlerFunc{cutAfterMessage, ok}, 1, []string{progress(1)}, ClassInterrupted},
		{"list, nonsense", list, []http.HandlerFunc{body(200, "text/html", "<p>"), ok}, 1, nil, ClassProtocol},
		{"list, fails twice", list, []http.HandlerFunc{abort, cutStream, ok}, 2, nil, ClassInterrupted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bodies := make(chan string, 10)
			left := make(chan http.HandlerFunc, len(tt.answers))
			for _, a := range tt.answers {
				left <- a
			}
			c, _ := connect(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				bodies <- string(b)
				(<-left)(w, r)
			})
			req := request(tt.method)
			sent := string(req.Body.B)
			got, err := read(context.Background(), c, req)
			if classOf(err) != tt.class {
				t.Errorf("error = %v, want class %q", err, tt.class)
			}
			if diff := cmp.Diff(tt.messages, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if n := len(bodies); n != tt.want {
				t.Errorf("it was sent %d times, want %d", n, tt.want)
			}
			for len(bodies) > 0 {
				if b := <-bodies; b != sent {
					t.Errorf("sent %q, want %q", b, sent)
				}
			}
		})
	}
}

// The pause before a second attempt is short, and ends with the request.
func TestRetryPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := func(_ int32, _ *http.Request, w *io.PipeWriter) (int, string, error) {
			w.Close()
			return 500, "", nil
		}
		pool := &fakePool{answer: fail}
		c := inBubble(t, pool)
		start := time.Now()
		_, err := c.Do(t.Context(), request(mcp.MethodToolsList))
		wantClass(t, err, ClassStatus, true)
		if took := time.Since(start); took < retryPause || took > 2*retryPause || pool.trips.Load() != 2 {
			t.Errorf("two attempts took %v, want %v to %v; attempts: %d", took, retryPause, 2*retryPause, pool.trips.Load())
		}
		pool.trips.Store(0)
		req := request(mcp.MethodToolsList)
		req.Timeout = retryPause / 2
		start = time.Now()
		_, err = c.Do(t.Context(), req)
		wantClass(t, err, ClassStatus, true)
		if took := time.Since(start); took != req.Timeout || pool.trips.Load() != 1 {
			t.Errorf("it took %v and %d attempts, want its timeout and one", took, pool.trips.Load())
		}
	})
}

// The breaker that opens between two attempts does not hide the first one's end.
func TestBreakerOpensBeforeRetry(t *testing.T) {
	c, _ := connect(t, body(500, "", ""), func(c *Config) { c.BreakerFailures = 1 })
	_, err := c.Do(context.Background(), request(mcp.MethodToolsList))
	wantClass(t, err, ClassStatus, true)
	_, err = c.Do(context.Background(), request(mcp.MethodToolsList))
	wantClass(t, err, ClassBreakerOpen, true)
}
