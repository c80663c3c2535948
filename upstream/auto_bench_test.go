package upstream

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// instant answers everything at once.
type instant struct{ message *mcp.Message }

func (i *instant) Do(_ context.Context, req *Request) (Answer, error) {
	req.Body.Release()
	return i, nil
}
func (i *instant) Next() (*mcp.Message, error) {
	if i.message == nil {
		return nil, io.EOF
	}
	return i.message, nil
}
func (i *instant) Status() int           { return 200 }
func (i *instant) Waited() time.Duration { return 0 }
func (i *instant) Close()                {}

// BenchmarkAuto tells what it costs that the era may turn out to be another one.
func BenchmarkAuto(b *testing.B) {
	for _, w := range []way{wayModern, wayHandshake} {
		b.Run(w.String(), func(b *testing.B) {
			doer := &instant{message: &mcp.Message{Kind: mcp.KindResult}}
			a := newAuto(Config{}, slog.New(slog.DiscardHandler), [ways]func() closer{})
			defer a.Close()
			a.current.Store(&choice{w, doer})
			b.ReportAllocs()
			for b.Loop() {
				answer, err := a.Do(context.Background(), toolCall())
				if err != nil {
					b.Fatal(err)
				}
				answer.Close()
			}
		})
	}
}

// BenchmarkRequest is what of that is the request itself.
func BenchmarkRequest(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		toolCall().Body.Release()
	}
}
