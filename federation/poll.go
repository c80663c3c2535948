package federation

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// pushed is what an upstream has acknowledged to push.
type pushed struct {
	lists [kindResources + 1]bool
	uris  map[string]bool
}

// poller asks an upstream for what it cannot push, with jitter and backoff
// (2026-07-28, server/utilities/caching), while somebody listens.
type poller struct {
	push   atomic.Pointer[pushed] // nil: nothing is pushed
	failed int                    // rounds in a row in which something failed
	asked  [kinds]time.Time       // when a list was last polled
	seen   map[string][32]byte    // digests of polled resources by URI
}

// maxPollBackoff is how often rounds that fail double the interval.
const maxPollBackoff = 4

// loop polls until ctx ends.
func (p *poller) loop(ctx context.Context, l *listener) {
	every := l.hub.domain.fed.opts.Limits.PollInterval
	timer := time.NewTimer(jitter(every))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if p.round(ctx, l) {
			p.failed = 0
		} else {
			p.failed = min(p.failed+1, maxPollBackoff)
		}
		timer.Reset(jitter(every << p.failed))
	}
}

// round polls what is due, and tells whether all could be had. A list is due
// when the time that it is fresh has passed.
func (p *poller) round(ctx context.Context, l *listener) bool {
	push, good := p.push.Load(), true
	for k := range kindDiscover {
		if push != nil && push.lists[k.told()] {
			continue
		}
		if seg := l.member.known(k); seg != nil && time.Since(p.asked[k]) < seg.ttl {
			continue
		}
		p.asked[k] = time.Now()
		if _, err := l.member.refresh(ctx, k); err != nil {
			good = false
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(l.wanted().uris)) {
		if push != nil && push.uris[uri] {
			continue
		}
		if err := p.resource(ctx, l, uri); err != nil {
			good = false
		}
	}
	return good
}

// resource reads one resource and tells of a change.
func (p *poller) resource(ctx context.Context, l *listener, uri string) error {
	msg, err := l.member.ask(ctx, mcp.MethodResourcesRead, []mcp.Param{{Key: "uri", Value: mcp.AppendQuote(nil, uri)}})
	if err != nil {
		return err
	}
	content := msg.ErrorData.In(msg.Raw)
	if msg.Kind == mcp.KindResult {
		content = mcp.Find(msg.Raw, msg.Result, "contents").In(msg.Raw)
	}
	digest := sha256.Sum256(content)
	if p.seen == nil {
		p.seen = map[string][32]byte{}
	}
	if before, ok := p.seen[uri]; ok && before != digest {
		raw := append([]byte(nil), `{"jsonrpc":"2.0","method":"`+mcp.NotificationResourceUpdated+`","params":{"uri":`...)
		l.resourceUpdated(ctx, uri, append(mcp.AppendQuote(raw, uri), "}}"...))
	}
	p.seen[uri] = digest
	return nil
}
