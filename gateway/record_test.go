package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// recorder is a transport that keeps what the gateway answers.
type recorder struct {
	next http.RoundTripper

	mu        sync.Mutex
	exchanges []*exchange
}

// exchange is one request and all that was read of its answer.
type exchange struct {
	method      string // of JSON-RPC; empty when the request had none
	status      int
	contentType string

	mu   sync.Mutex
	body bytes.Buffer
}

// RoundTrip sends the request on and records both sides.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	e := &exchange{}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(body))
		var msg struct{ Method string }
		if json.Unmarshal(body, &msg) == nil {
			e.method = msg.Method
		}
	}
	res, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	e.status = res.StatusCode
	e.contentType, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	res.Body = &teeBody{res.Body, e}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, e)
	return res, nil
}

// teeBody copies what is read of a response into its exchange.
type teeBody struct {
	io.ReadCloser
	to *exchange
}

func (b *teeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.to.mu.Lock()
	defer b.to.mu.Unlock()
	b.to.body.Write(p[:n])
	return n, err
}

// recorded gives all exchanges so far.
func (r *recorder) recorded() []*exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exchanges
}

// messages gives the JSON-RPC messages of the answer: its body, or the data of
// its complete events. They are read here without any help of the gateway's own
// code.
func (e *exchange) messages(t *testing.T) []string {
	t.Helper()
	e.mu.Lock()
	body := e.body.String()
	e.mu.Unlock()
	switch e.contentType {
	case "application/json":
		return []string{body}
	case "text/event-stream":
	default:
		if body != "" {
			t.Errorf("%s: a body of type %q: %s", e.method, e.contentType, body)
		}
		return nil
	}
	var list []string
	for {
		event, rest, ok := strings.Cut(body, "\n\n")
		if !ok {
			return list
		}
		body = rest
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		if len(data) > 0 {
			list = append(list, strings.Join(data, "\n"))
		}
	}
}
