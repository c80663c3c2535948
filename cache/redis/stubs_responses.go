package redis

import (
	"context"

	"github.com/causeway-mcp/causeway/cache"
)

func (r *Responses) Generation(ctx context.Context, t cache.Topic) (uint64, error) { panic("stub") }
func (r *Responses) Invalidate(ctx context.Context, t cache.Topic, param string) (uint64, error) {
	panic("stub")
}
func (r *Responses) Get(ctx context.Context, k cache.Key) (cache.Entry, bool, error) { panic("stub") }
func (r *Responses) Put(ctx context.Context, k cache.Key, e cache.Entry, gen uint64) (bool, error) {
	panic("stub")
}
func (r *Responses) Delete(ctx context.Context, k cache.Key) error                  { panic("stub") }
func (r *Responses) Follow(tenant string, changed func(cache.Change)) (stop func()) { panic("stub") }

// Responses is a cache.Responses in a Store, with a cache.Memory in front unless it
// is nil.
type Responses struct {
	store *Store
	near  *cache.Memory
}

var _ cache.Responses = (*Responses)(nil)

// NewResponses makes it. Close ends what it does in the background.
func NewResponses(s *Store, near *cache.Memory) *Responses { panic("stub") }

// Close ends what runs in the background.
func (r *Responses) Close() { panic("stub") }
