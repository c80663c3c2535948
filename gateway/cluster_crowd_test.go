package gateway_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/gateway/gatewaytest"
)

// crowd are many clients that listen. Each has one connection of HTTP/1.1 and one
// goroutine, so that thousands of them take little of the machine that they share
// with what they look at.
type crowd struct {
	tb   testing.TB
	next atomic.Int64 // number of the next client
	work sync.WaitGroup

	mu sync.Mutex // guards what fans have seen
}

// fan is one of them.
type fan struct {
	conn net.Conn
	id   string // of the request and so of the subscription, as JSON
	at   string // the index of the replica, where a balancer has chosen it

	seen []string // what came after the acknowledgement, as say puts it
	last time.Time
	over bool // nothing more comes
}

// What a fan sees of its stream's end.
const (
	fanComplete = "complete" // the completion result of its subscription
	fanEnd      = "end"      // the response ends as it should
	fanLeft     = "left"     // it has left itself
)

// newCrowd makes an empty crowd. All leave when the test ends.
func newCrowd(tb testing.TB) *crowd {
	c := &crowd{tb: tb}
	tb.Cleanup(c.work.Wait)
	return c
}

const (
	fansAtOnce = 32 // that begin to listen at once
	fanTimeout = time.Minute
)

// join has n more listen at an endpoint, and gives them when all are acknowledged.
// filter are members of params.notifications.
func (c *crowd) join(n int, url, filter string) []*fan {
	c.tb.Helper()
	fans, errs := make([]*fan, n), make([]error, n)
	var opening sync.WaitGroup
	var at atomic.Int64
	for range fansAtOnce {
		opening.Go(func() {
			for i := at.Add(1) - 1; i < int64(n); i = at.Add(1) - 1 {
				fans[i], errs[i] = c.open(url, filter)
			}
		})
	}
	opening.Wait()
	if err := errors.Join(errs...); err != nil {
		c.tb.Fatal(err)
	}
	return fans
}

// open opens one stream.
func (c *crowd) open(url, filter string) (*fan, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.DialTimeout("tcp", host, fanTimeout)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	f := &fan{conn: conn, id: fmt.Sprintf(`"fan %d"`, c.next.Add(1))}
	lines, err := f.listen(host, path, filter)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen: %w", err), conn.Close())
	}
	c.tb.Cleanup(f.leave)
	c.work.Go(func() { c.read(f, lines) })
	return f, nil
}

// listen sends the request and reads the acknowledgement.
func (f *fan) listen(host, path, filter string) (*bufio.Reader, error) {
	body := `{"jsonrpc":"2.0","id":` + f.id + `,"method":"subscriptions/listen","params":{"notifications":{` + filter + `},"_meta":` + tasksMeta + `}}`
	if err := f.conn.SetDeadline(time.Now().Add(fanTimeout)); err != nil {
		return nil, err
	}
	_, err := fmt.Fprintf(f.conn, "POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s", path, host, len(body), body)
	if err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(f.conn, 512), nil)
	if err != nil {
		return nil, err
	}
	f.at = res.Header.Get(gatewaytest.HeaderReplica)
	lines := bufio.NewReaderSize(res.Body, 512)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case res.StatusCode != http.StatusOK, err != nil:
			return nil, fmt.Errorf("%s %s: %w", res.Status, line, err)
		case strings.Contains(line, `"notifications/subscriptions/acknowledged"`):
			return lines, f.conn.SetDeadline(time.Time{})
		case strings.HasPrefix(line, "data:"):
			return nil, fmt.Errorf("first came %s", line)
		}
	}
}

// leave ends the stream as a client does that is no longer interested.
func (f *fan) leave() { _ = f.conn.Close() } // it may have ended already

// read notes what comes until the stream ends.
func (c *crowd) read(f *fan, lines *bufio.Reader) {
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			c.note(f, f.say(data))
		}
		if err != nil {
			c.end(f, err)
			return
		}
	}
}

// end notes how a stream ended.
func (c *crowd) end(f *fan, err error) {
	switch {
	case err == io.EOF:
		c.note(f, fanEnd)
	case errors.Is(err, net.ErrClosed):
		c.note(f, fanLeft)
	default:
		c.note(f, "broken: "+err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.over = true
}

func (c *crowd) note(f *fan, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.seen, f.last = append(f.seen, what), time.Now()
}

// say puts a message in a word: fanComplete, or the name of a notification with the
// mark that an announcer has given it.
func (f *fan) say(message string) string {
	type meta struct {
		Subscription json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
		Mark         string          `json:"example.com/mark"`
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Meta meta `json:"_meta"`
		}
		Result struct {
			ResultType string
			Meta       meta `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		return fmt.Sprintf("%v: %s", err, message)
	}
	name, ok := strings.CutPrefix(m.Method, "notifications/")
	switch {
	case ok && string(m.Params.Meta.Subscription) == f.id:
		return strings.TrimSpace(name + " " + m.Params.Meta.Mark)
	case string(m.ID) == f.id && m.Result.ResultType == "complete" && string(m.Result.Meta.Subscription) == f.id:
		return fanComplete
	}
	return "not for " + f.id + ": " + message
}

// sees gives what a fan has seen so far.
func (c *crowd) sees(f *fan) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(f.seen)
}

// await waits until each has seen as much as is wanted, and holds that it is that and
// nothing else. It gives when the last one saw the last of it.
func (c *crowd) await(what string, fans []*fan, want ...string) (last time.Time) {
	c.tb.Helper()
	left := fans
	eventually(c.tb, what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for len(left) > 0 && (left[0].over || len(left[0].seen) >= len(want)) {
			left = left[1:]
		}
		return len(left) == 0
	})
	c.hold(what, fans, want...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fans {
		if f.last.After(last) {
			last = f.last
		}
	}
	return last
}

// hold holds what each has seen up to now.
func (c *crowd) hold(what string, fans []*fan, want ...string) {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	others := map[string]int{}
	for _, f := range fans {
		if !slices.Equal(f.seen, want) {
			others[strings.Join(f.seen, ", ")]++
		}
	}
	for seen, n := range others {
		c.tb.Errorf("%s: %d of %d clients saw %q, want %q", what, n, len(fans), seen, strings.Join(want, ", "))
	}
}
