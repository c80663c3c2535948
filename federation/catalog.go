package federation

import (
	"context"
	"time"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// kind is one kind of list that an upstream is asked for.
type kind uint8

const (
	kindTools kind = iota
	kindPrompts
	kindResources
	kindTemplates
	kindDiscover // not a list, but kept and refreshed the same way
	kinds
)

// item is one element of an upstream's list, as the upstream sent it.
type item struct {
	name   string // a name, a URI or a URI template
	raw    []byte
	nameAt mcp.Span          // of the name's value in raw
	params []mcp.ParamHeader // of a tool
	match  func(uri string) bool
}

// segment is one list of one upstream under one credential: an immutable
// snapshot.
type segment struct {
	kind     kind
	items    []*item // in the upstream's order, without what was refused
	index    map[string]*item
	rejected []rejection
	fetched  time.Time
	ttl      time.Duration
	public   bool
	gen      uint64
	digest   [32]byte    // of all items: equal digests mean equal lists
	discover *discovered // of kindDiscover
}

// rejection is an element that was left out of a list, and why.
type rejection struct{ name, reason string }

// discovered is what an upstream's server/discover said.
type discovered struct {
	raw          []byte // the result
	instructions string
	// Capabilities.
	tools, prompts, resources, subscribe, completions, logging bool
	toolsChanged, promptsChanged, resourcesChanged             bool // listChanged
	extensions                                                 map[string][]byte
}

// known gives the member's current segment without waiting; nil when there is
// none yet. It may be stale or invalidated.
func (m *member) known(k kind) *segment { panic("stub") }

// invalidate tells that the list has changed at the upstream: it raises the
// generation, so that the current segment is not served while it is refreshed.
func (m *member) invalidate(ctx context.Context, k kind) { panic("stub") }

// refresh fetches the list, folded with a fetch of the same generation that is
// under way, and waits for it within ctx. The domain's changed is called by the
// fetch itself when the digest differs from the segment before.
func (m *member) refresh(ctx context.Context, k kind) (*segment, error) { panic("stub") }

// view is what one endpoint shows of one kind: the merge of its members'
// segments, sorted by exposed name. It is immutable.
type view struct {
	digest [32]byte // equal digests mean that a caller sees no difference
	// complete tells that every member had a segment when the view was made.
	complete bool
}

// view merges what is known now, without waiting. alias is empty for the merged
// endpoint. Views are kept until a segment behind them changes.
func (d *domain) view(alias string, k kind) *view { panic("stub") }
