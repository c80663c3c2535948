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
	failed int                    // polls in a row that failed
	seen   map[string][32]byte    // digests of polled resources by URI
}

// loop polls until ctx ends.
func (p *poller) loop(ctx context.Context, l *listener) {
	timer := time.NewTimer(jitter(p.next(l)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		p.run(ctx, l)
		timer.Reset(jitter(p.next(l)))
	}
}

// maxPollBackoff is how often a poll that fails doubles its interval.
const maxPollBackoff = 4

// next gives the time until the next poll.
func (p *poller) next(l *listener) time.Duration {
	every := l.hub.domain.fed.opts.Limits.PollInterval
	push := p.push.Load()
	for _, k := range listKinds {
		if push != nil && push.lists[k] {
			continue
		}
		if seg := l.member.known(k); seg != nil {
			every = max(every, min(seg.ttl, time.Hour))
		}
	}
	return every << min(p.failed, maxPollBackoff)
}

// run polls once.
func (p *poller) run(ctx context.Context, l *listener) {
	push := p.push.Load()
	failed := false
	for _, k := range []kind{kindTools, kindPrompts, kindResources, kindTemplates} {
		if push != nil && push.lists[k.told()] {
			continue
		}
		if _, err := l.member.refresh(ctx, k); err != nil {
			failed = true
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(l.wanted().uris)) {
		if push != nil && push.uris[uri] {
			continue
		}
		if err := p.resource(ctx, l, uri); err != nil {
			failed = true
		}
	}
	if failed {
		p.failed++
	} else {
		p.failed = 0
	}
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
