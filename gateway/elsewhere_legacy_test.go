package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/gateway"
)

// through is the same client of the handshake era at another replica.
func (c *oldClient) through(r *replica) *oldClient {
	other := *c
	other.url = r.url + c.url[strings.Index(c.url, "/t/"):]
	return &other
}

// status sends a request and gives the status and body of its answer.
func (c *oldClient) status(method, body string) (int, string) {
	c.tb.Helper()
	res := c.do(c.request(method, body))
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.tb.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// books calls the tool book, which asks nothing.
func (c *oldClient) books() {
	c.tb.Helper()
	if got := c.ask("tools/call", `"name":"book"`); got != finished(1, bookedOld) {
		c.tb.Errorf("the call got %s", got)
	}
}

// aloneAt is the endpoint that shows the upstream s alone.
const aloneAt = "/t/default/u/s/mcp"

// TestHandshakeClientElsewhere has each message of a client's session arrive at
// another replica than the one before.
func TestHandshakeClientElsewhere(t *testing.T) {
	up := newScripted(t)
	up.tools("book", "hang")
	s := newSeveral(t, nil, upstreamAt("s", up.URL))
	a, b := s.start(), s.start()
	atA := newOldClient(t, a.url+aloneAt, "2025-11-25", allDeclared)
	atB := atA.through(b)

	t.Run("answers", func(t *testing.T) {
		rounds(up, inputRequired(`{"n":`+elicitName+`}`, ""), inputRequired(`{"c":`+sampleCity+`}`, ""), booked)
		call := atA.call(5, "book", "")
		name := call.question("elicitation/create", paramsName)
		stranger := newOldClient(t, b.url+aloneAt, "2025-11-25", allDeclared)
		stranger.accepted(answers(name, `{"action":"decline"}`)) // not its question
		atB.accepted(answers(name, `{"action":"accept","content":{"name":"Ana"}}`))
		city := call.question("sampling/createMessage", paramsCity)
		atA.accepted(answers(city, `{"role":"assistant","content":{"type":"text","text":"Bern"},"model":"m"}`))
		call.expect(finished(5, bookedOld))
		call.end()
		calls := up.requests("tools/call")
		if got := string(inputsOf(t, calls[1]).Responses["n"]); got != `{"action":"accept","content":{"name":"Ana"}}` {
			t.Errorf("the answer was %s", got)
		}
	})
	t.Run("cancels", func(t *testing.T) {
		reached, left := make(chan struct{}), make(chan struct{})
		up.handle("tools/call", func(_ http.ResponseWriter, r *http.Request, _ *asked) {
			close(reached)
			<-r.Context().Done()
			close(left)
		})
		ended := make(chan int, 1)
		go func() {
			req := atA.request(http.MethodPost, oldRequest(9, "tools/call", `"name":"hang"`))
			res, err := atA.transport.RoundTrip(req)
			if err != nil {
				ended <- 0
				return
			}
			_ = res.Body.Close()
			ended <- res.StatusCode
		}()
		<-reached
		atB.accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
		<-left
		if got := <-ended; got != 200 {
			t.Errorf("the call ended with %d", got)
		}
	})
	t.Run("the level", func(t *testing.T) {
		rounds(up, booked)
		if got := atB.ask("logging/setLevel", `"level":"warning"`); got != finished(1, "{}") {
			t.Error(got)
		}
		atA.books()
		calls := up.requests("tools/call")
		if got := string(memberOf(t, calls[len(calls)-1].body, "params", "_meta", "io.modelcontextprotocol/logLevel")); got != `"warning"` {
			t.Errorf("the level was %s", got)
		}
	})
	t.Run("deletes", func(t *testing.T) {
		stream := atA.listen()
		if status, text := atB.status(http.MethodDelete, ""); status != http.StatusNoContent {
			t.Errorf("%d %s", status, text)
		}
		stream.end()
		for _, c := range []*oldClient{atA, atB} {
			if status, text := c.status(http.MethodPost, oldRequest(1, "ping", "")); status != http.StatusNotFound {
				t.Errorf("after its end %d %s", status, text)
			}
		}
	})
}

// TestGetStreamElsewhere moves a client's stream from one replica to another, and
// subscribes at a third.
func TestGetStreamElsewhere(t *testing.T) {
	filters := make(chan string, 64)
	up := newScripted(t)
	up.handle("subscriptions/listen", func(w http.ResponseWriter, r *http.Request, a *asked) {
		filter := string(memberOf(t, a.body, "params", "notifications"))
		answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+
			string(a.ID)+`},"notifications":`+filter+`}}`)
		if strings.Contains(filter, "doc://x") {
			answerEvents(w, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+string(a.ID)+`},"uri":"doc://x"}}`)
		}
		filters <- filter
		<-r.Context().Done()
	})
	s := newSeveral(t, nil, upstreamAt("s", up.URL))
	a, b, c := s.start(), s.start(), s.start()
	atA := newOldClient(t, a.url+aloneAt, "2025-11-25", `{}`)
	first := atA.listen()
	second := atA.through(b).listen()
	first.end()
	if got := atA.through(c).ask("resources/subscribe", `"uri":"doc://x"`); got != finished(1, "{}") {
		t.Fatal(got)
	}
	second.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"doc://x"}}`)
	third := atA.listen()
	second.end()
	third.cancel()
}

// TestAnswerToAReplicaThatIsGone holds that an answer which nobody can take any more
// is refused at once.
func TestAnswerToAReplicaThatIsGone(t *testing.T) {
	up := newScripted(t)
	up.tools("book")
	rounds(up, inputRequired(`{"n":`+elicitName+`}`, ""), booked)
	s := newSeveral(t, nil, upstreamAt("s", up.URL))
	a, b := s.start(), s.start()
	atA := newOldClient(t, a.url+aloneAt, "2025-11-25", allDeclared)
	call := atA.call(5, "book", "")
	name := call.question("elicitation/create", paramsName)
	a.stop(t)
	call.next() // that the gateway is shutting down
	status, text := atA.through(b).status(http.MethodPost, answers(name, `{"action":"decline"}`))
	const want = `{"jsonrpc":"2.0","error":{"code":-32603,"message":"The replica of the gateway that held the call is gone","data":{"alias":"","reason":"interrupted","retryable":false}}}`
	if status != http.StatusBadGateway || text != want {
		t.Errorf("%d %s", status, text)
	}
	// The session goes on.
	atA.through(b).books()
}

// broken are Values and a Bus that fail while they are switched off.
type broken struct {
	*cache.MemoryShared
	off atomic.Bool
}

var errOff = errors.New("connection refused")

func (b *broken) Get(ctx context.Context, key string) ([]byte, error) {
	if b.off.Load() {
		return nil, errOff
	}
	return b.MemoryShared.Get(ctx, key)
}

func (b *broken) Update(ctx context.Context, key string, ttl time.Duration, change func([]byte) ([]byte, error)) error {
	if b.off.Load() {
		return errOff
	}
	return b.MemoryShared.Update(ctx, key, ttl, change)
}

func (b *broken) Publish(ctx context.Context, channel string, body []byte) error {
	if b.off.Load() {
		return errOff
	}
	return b.MemoryShared.Publish(ctx, channel, body)
}

// TestSessionsWhileNothingIsShared holds that sessions are served by what a replica
// knows, and that what happened meanwhile is shared afterwards.
func TestSessionsWhileNothingIsShared(t *testing.T) {
	up := newScripted(t)
	up.tools("book")
	rounds(up, booked)
	off := &broken{MemoryShared: cache.NewShared()}
	s := newSeveral(t, func(o *gateway.Options) { o.Cluster.Values, o.Cluster.Bus = off, off }, upstreamAt("s", up.URL))
	a, b := s.start(), s.start()
	one := newOldClient(t, a.url+aloneAt, "2025-11-25", `{}`)
	two := one.again(`{}`)
	stream := one.through(b).listen()
	off.off.Store(true)
	if got := two.ask("logging/setLevel", `"level":"error"`); got != finished(1, "{}") {
		t.Error(got)
	}
	if status, text := one.status(http.MethodDelete, ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := one.status(http.MethodPost, oldRequest(1, "ping", "")); status != http.StatusNotFound {
		t.Errorf("the session that was deleted here: %d", status)
	}
	if n := a.log.count("cannot be shared"); n != 1 {
		t.Errorf("the log tells %d times of the outage", n)
	}
	off.off.Store(false)
	stream.end() // B hears of it
	if status, _ := one.through(b).status(http.MethodPost, oldRequest(1, "ping", "")); status != http.StatusNotFound {
		t.Errorf("the session at the other replica: %d", status)
	}
	eventually(t, "the level is known at the other replica", func() bool {
		two.through(b).books()
		calls := up.requests("tools/call")
		return string(memberOf(t, calls[len(calls)-1].body, "params", "_meta", "io.modelcontextprotocol/logLevel")) == `"error"`
	})
}
