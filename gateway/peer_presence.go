package gateway

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/causeway-mcp/causeway/cache"
)

// boardReplicas is where replicas tell that they are there: a field for the peer
// address of each.
const boardReplicas = "replicas"

// Times of presence.
const (
	// presenceTime is after which a replica that says nothing counts as gone.
	presenceTime = 5 * time.Second
	// presencePause is between two posts of a replica, and then up to as much again.
	presencePause = time.Second
)

// presence tells other replicas that this one is there, and knows who else is.
type presence struct {
	boards           cache.Boards
	address, replica string
	log              *slog.Logger

	stop context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	since time.Time // from when on others may be missing on the board though they are there
}

// begin posts this replica until end.
func (p *presence) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.lost()
	p.work.Go(func() {
		for {
			p.post(ctx)
			if pause(ctx, presencePause+rand.N(presencePause)) != nil {
				return
			}
		}
	})
}

// end takes this replica off the board.
func (p *presence) end(ctx context.Context) error {
	p.stop()
	p.work.Wait()
	if err := p.boards.Remove(ctx, cache.Scope{}, boardReplicas, p.address); err != nil {
		p.log.Debug("take this replica off the board", "error", err) // it goes by itself
	}
	return nil
}

// post says that this replica is there. Where that was forgotten, others may be, too.
func (p *presence) post(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, presenceTime)
	defer cancel()
	board, err := p.boards.Read(ctx, cache.Scope{}, boardReplicas)
	if _, ok := board[p.address]; err != nil || !ok {
		p.lost()
	}
	if err := p.boards.Post(ctx, cache.Scope{}, boardReplicas, p.address, []byte(p.replica), presenceTime); err != nil {
		p.log.Debug("post this replica", "error", err)
	}
}

// lost notes that the board may lack replicas.
func (p *presence) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// gone tells whether the replica at address is known not to be there.
func (p *presence) gone(ctx context.Context, address string) bool {
	board, err := p.boards.Read(ctx, cache.Scope{}, boardReplicas)
	if err != nil {
		return false
	}
	if _, ok := board[address]; ok {
		return false
	}
	if _, ok := board[p.address]; !ok {
		return false // it was lost just now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.since) > presenceTime
}
