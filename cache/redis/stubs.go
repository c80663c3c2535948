package redis

import (
	"context"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

func (s *Store) Acquire(ctx context.Context, sc cache.Scope, name, holder string, ttl time.Duration) (l cache.Lease, ok bool, err error) {
	panic("stub")
}
func (s *Store) Renew(ctx context.Context, l cache.Lease, ttl time.Duration) (ok bool, err error) {
	panic("stub")
}
func (s *Store) Release(ctx context.Context, l cache.Lease) error { panic("stub") }
func (s *Store) Draw(ctx context.Context, sc cache.Scope) (cache.Fence, error) {
	panic("stub")
}
func (s *Store) Post(ctx context.Context, sc cache.Scope, board, field string, value []byte, ttl time.Duration) error {
	panic("stub")
}
func (s *Store) Remove(ctx context.Context, sc cache.Scope, board, field string) error {
	panic("stub")
}
func (s *Store) Read(ctx context.Context, sc cache.Scope, board string) (map[string][]byte, error) {
	panic("stub")
}
func (s *Store) Publish(ctx context.Context, channel string, body []byte) error { panic("stub") }
func (s *Store) Subscribe(channel string, receive func(body []byte, gap bool)) (stop func()) {
	panic("stub")
}
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) { panic("stub") }
func (s *Store) Update(ctx context.Context, key string, ttl time.Duration, change func(old []byte) ([]byte, error)) error {
	panic("stub")
}
func (s *Store) Take(ctx context.Context, sc cache.Scope, counter string, r cache.Rate, want int64) (got int64, wait time.Duration, err error) {
	panic("stub")
}
func (s *Store) Share(ctx context.Context, sc cache.Scope, counter, holder string, want, limit int64, ttl time.Duration) (got int64, err error) {
	panic("stub")
}
