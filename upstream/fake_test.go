package upstream

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// fakePool is a transport within a synctest bubble, where no real connections
// can be: it answers with what its function writes.
type fakePool struct {
	answer func(n int32, req *http.Request, w *io.PipeWriter) (status int, contentType string, err error)
	trips  atomic.Int32
}

// RoundTrip implements http.RoundTripper. The answer's function is called with
// the number of the request, from 1 on.
func (p *fakePool) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Body.Close()
	body, w := io.Pipe()
	status, contentType, err := p.answer(p.trips.Add(1), req, w)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(req.Context(), func() { w.CloseWithError(context.Cause(req.Context())) })
	return &http.Response{
		StatusCode:    status,
		Header:        http.Header{"Content-Type": {contentType}},
		ContentLength: -1,
		Body:          body,
	}, nil
}

func (p *fakePool) Close() {}

// never is an answer that never comes.
func never(req *http.Request) (int, string, error) {
	<-req.Context().Done()
	return 0, "", context.Cause(req.Context())
}

// inBubble makes a client of a fake upstream.
func inBubble(t *testing.T, p *fakePool, change ...func(*Config)) *Client {
	t.Helper()
	conf := Config{Tenant: "acme", Alias: "ledger", URL: "http://upstream.invalid/"}
	for _, c := range change {
		c(&conf)
	}
	return newClient(conf, p, p, Deps{Metrics: NewMetrics(prometheus.NewRegistry())})
}

// answers gives text as a JSON answer.
func answersWith(text string) func(int32, *http.Request, *io.PipeWriter) (int, string, error) {
	return func(_ int32, _ *http.Request, w *io.PipeWriter) (int, string, error) {
		go func() {
			io.WriteString(w, text)
			w.Close()
		}()
		return http.StatusOK, "application/json", nil
	}
}
