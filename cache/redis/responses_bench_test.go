package redis

import (
	"context"
	"testing"
	"time"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

// BenchmarkGet measures what a hit costs, in memory and in Redis.
func BenchmarkGet(b *testing.B) {
	s := redistest.Start(b)
	tests := []struct {
		name string
		near *cache.Memory
		size int
	}{
		{"near", cache.NewMemory(0), 10 << 10},
		{"far, 500 bytes", nil, 500},
		{"far, 10 KiB", nil, 10 << 10},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			opts := at(s.URL())
			opts.Timeout = time.Second
			store, err := Open(opts)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = store.Close() }()
			r := NewResponses(store, tt.near)
			defer r.Close()
			k, body := key(tt.name), make([]byte, tt.size)
			for i := range body {
				body[i] = byte(' ' + i*i%90)
			}
			if err := fillUp(b.Context(), r, k, body); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, ok, err := r.Get(b.Context(), k); !ok || err != nil {
						b.Errorf("Get = %v, %v", ok, err)
						return
					}
				}
			})
		})
	}
}

func fillUp(ctx context.Context, r *Responses, k cache.Key, body []byte) error {
	gen, err := r.Generation(ctx, k.Topic)
	if err != nil {
		return err
	}
	_, err = r.Put(ctx, k, cache.Entry{Body: body, Stored: time.Now(), TTL: time.Hour}, gen)
	return err
}
