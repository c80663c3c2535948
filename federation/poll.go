package federation

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// poller asks an upstream for what it does not push, with jitter and backoff
// (2026-07-28, server/utilities/caching), while somebody listens.
type poller struct {
	push   atomic.Pointer[pushed] // nil: nothing is pushed
	failed int                    // rounds in a row in which something failed
	asked  [kinds]time.Time       // when a list was last polled
	seen   map[string]polled      // of polled resources, by URI
}

// polled is what a poll of a resource has shown.
type polled struct {
	digest [32]byte
	due    time.Time // when its ttlMs is over
}

// maxPollBackoff is how often rounds that fail double the interval.
const maxPollBackoff = 4

// reset forgets what was polled, for when another replica has done so meanwhile.
func (p *poller) reset() {
	p.push.Store(nil)
	p.failed, p.asked, p.seen = 0, [kinds]time.Time{}, nil
}

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
	wanted := l.interest().uris
	maps.DeleteFunc(p.seen, func(uri string, _ polled) bool { return !wanted[uri] })
	for _, uri := range slices.Sorted(maps.Keys(wanted)) {
		if push != nil && push.uris[uri] || time.Now().Before(p.seen[uri].due) {
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
	content := mcp.Find(msg.Raw, msg.Result, "contents").In(msg.Raw)
	switch {
	case msg.Kind == mcp.KindError && (msg.Code == mcp.CodeInvalidParams || msg.Code == mcp.CodeLegacyResourceNotFound):
		content = msg.ErrorData.In(msg.Raw) // it is not there (2026-07-28, server/resources, Error Handling)
	case msg.Kind == mcp.KindError:
		return l.member.nonsense(upstream.ClassRejected, "resources/read answered with error %d", msg.Code)
	case content == nil:
		return nil // it wants input, and there is nobody to ask
	}
	now := polled{digest: sha256.Sum256(content), due: time.Now().Add(l.member.ttlOf(msg, 0))}
	if before, ok := p.seen[uri]; ok && before.digest != now.digest {
		l.resourceUpdated(ctx, uri, updatedMessage(uri))
	}
	if p.seen == nil {
		p.seen = map[string]polled{}
	}
	p.seen[uri] = now
	return nil
}
