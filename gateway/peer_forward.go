package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/causeway-mcp/causeway/federation"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// answerTime is how long a replica may take to take a client's answer.
const answerTime = 5 * time.Second

// maxPassed bounds an answer that is read as a whole, in bytes.
const maxPassed = 64 << 20

// passSize is how much of an answer is passed on at once, in bytes.
const passSize = 32 << 10

// lostError is the error for what a replica held that cannot be reached any more.
type lostError struct {
	alias string // of the upstream; empty where it is not known
}

// Error says what was lost.
func (e *lostError) Error() string { return "the replica that held the call is gone" }

// rpc is what the client is told. The call is over; a new one is another call.
func (e *lostError) rpc() *mcp.Error {
	data := append(mcp.AppendQuote([]byte(`{"alias":`), e.alias), `,"reason":"`+string(upstream.ClassInterrupted)+`","retryable":false}`...)
	return &mcp.Error{Code: mcp.CodeInternal, Message: "The replica of the gateway that held the call is gone", Data: data}
}

// errAway tells that a replica does not count as there.
var errAway = errors.New("it is not among the replicas")

// send sends a message to another replica. done waits until rest is not read any
// more; it must be called, after the response's body was closed.
func (p *peers) send(ctx context.Context, address, path string, head any, rest []byte) (res *http.Response, done func(), err error) {
	done = func() {}
	if p.gone(ctx, address) {
		return nil, done, errAway
	}
	h, err := appendHead(head)
	if err != nil {
		return nil, done, err
	}
	body := newPassedBody(h, rest)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+path, body)
	if err != nil {
		return nil, done, err
	}
	req.ContentLength = int64(len(h) + len(rest))
	done = func() { <-body.closed }
	if res, err = p.client.RoundTrip(req); err != nil {
		return nil, done, err
	}
	if res.Header.Get(headerPassed) == "" {
		return nil, done, errors.Join(fmt.Errorf("it refuses: %s", res.Status), res.Body.Close())
	}
	return res, done, nil
}

// answer passes a client's answer to the replica that waits for it.
func (p *peers) answer(ctx context.Context, address string, head answerHead, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, done, err := p.send(ctx, address, pathAnswer, head, raw)
	if err != nil {
		cancel()
		done()
		p.log.Warn("pass an answer on to another replica", "replica", address, "error", err)
		return &refusal{status: http.StatusBadGateway, class: string(upstream.ClassInterrupted), rpc: (&lostError{}).rpc(), noID: true}
	}
	err = res.Body.Close()
	cancel()
	done()
	return err
}

// passOn has the replica that holds the call answer the request, and passes its
// answer on as it comes. The client's leaving ends the request there.
func (x *exchange) passOn(ctx context.Context, to *federation.Elsewhere) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.mu.Lock()
	x.away = true
	x.timer.Stop()
	x.mu.Unlock()
	head := passedHead{
		Endpoint: x.at, Principal: x.caller, RequestID: x.id, Client: x.client,
		Header: passedHeader(x.r.Header), Trace: map[string]string{},
		Token: x.call.Token, TokenExpires: x.call.TokenExpires, Resource: x.asked.Resource,
	}
	if x.who != nil && x.who.Key == "" {
		head.Metadata = x.asked.Metadata
	}
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(head.Trace))
	res, done, err := x.edge.peers.send(ctx, to.Holder, pathRequest, head, x.body.B)
	defer func() {
		cancel()
		done()
	}()
	if err != nil {
		return x.lost(to, err)
	}
	defer res.Body.Close()
	if err := x.relay(res); err != nil {
		return x.lost(to, err)
	}
	x.elsewhere = true
	return nil
}

// lost tells the client that the holder of its call does not answer it.
func (x *exchange) lost(to *federation.Elsewhere, err error) error {
	if x.gone() || errors.Is(err, errGone) {
		return errGone
	}
	x.edge.log.Warn("pass a request on to another replica", "request_id", x.id, "replica", to.Holder, "error", err)
	return &lostError{alias: to.Alias}
}

// relay passes the answer of another replica on, byte for byte.
func (x *exchange) relay(res *http.Response) error {
	stream := res.Header.Get("Content-Type") == typeSSE
	x.mu.Lock()
	begun := x.phase == phaseStream
	x.mu.Unlock()
	if begun && !stream {
		return x.relayMessage(res)
	}
	x.mu.Lock()
	if !begun {
		h := x.w.Header()
		for name, values := range res.Header {
			if name != "Date" && name != headerPassed {
				h[name] = values
			}
		}
		x.status = res.StatusCode
		x.expect(0)
		x.w.WriteHeader(res.StatusCode)
	}
	x.phase = phaseStream
	x.mu.Unlock()
	whole, err := x.copyFrom(res.Body)
	switch {
	case err == nil:
		x.mu.Lock()
		x.phase = phaseDone
		x.mu.Unlock()
		return nil
	case x.gone() || errors.Is(err, errGone) || stream && whole:
		return err
	}
	// What was begun cannot be ended in any form that the client could take for an
	// answer.
	x.errorType = string(upstream.ClassInterrupted)
	panic(http.ErrAbortHandler)
}

// relayMessage passes on an answer that is one message, where the response is a
// stream already.
func (x *exchange) relayMessage(res *http.Response) error {
	body, err := mcp.ReadAll(res.Body, maxPassed, res.ContentLength, x.edge.budget)
	if err != nil {
		return err
	}
	defer body.Release()
	x.reply(res.StatusCode, body.B)
	return nil
}

// copyFrom passes on what comes as it comes. whole tells whether it ends with the
// end of an event.
func (x *exchange) copyFrom(r io.Reader) (whole bool, err error) {
	buf := make([]byte, passSize)
	last := [2]byte{'\n', '\n'}
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if n > 1 {
				last[0] = buf[n-2]
			} else {
				last[0] = last[1]
			}
			last[1] = buf[n-1]
			x.mu.Lock()
			werr := x.write(buf[:n], true)
			x.mu.Unlock()
			if werr != nil {
				return false, errGone
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return last == [2]byte{'\n', '\n'}, err
		}
	}
}

// noCallWaits answers a retry for which nobody is there who could go on.
func noCallWaits() *mcp.Error {
	return mcp.Errorf(mcp.CodeInvalidParams, "no call waits under this requestState: its time is over, it was answered already, or its server has gone")
}
