package federation

import (
	"time"

	"github.com/causeway-mcp/causeway/cache"
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

// method is the request that lists the kind.
func (k kind) method() string {
	switch k {
	case kindTools:
		return mcp.MethodToolsList
	case kindPrompts:
		return mcp.MethodPromptsList
	case kindResources:
		return mcp.MethodResourcesList
	case kindTemplates:
		return mcp.MethodTemplatesList
	default:
		return mcp.MethodDiscover
	}
}

// items is the member of the result that holds the list.
func (k kind) items() string {
	switch k {
	case kindTools:
		return "tools"
	case kindPrompts:
		return "prompts"
	case kindResources:
		return "resources"
	case kindTemplates:
		return "resourceTemplates"
	default:
		return ""
	}
}

// named tells whether items of the kind are exposed under a name, not a URI.
func (k kind) named() bool { return k == kindTools || k == kindPrompts }

// item is one element of an upstream's list, as the upstream sent it.
type item struct {
	name   string // a name, a URI or a URI template
	raw    []byte
	nameAt mcp.Span              // of the name's value in raw
	params []mcp.ParamHeader     // of a tool
	match  func(uri string) bool // of a template; nil when it is none that we understand
	note   string                // what is odd about it
	// connect marks the tool of ours by which a user signs in at the upstream.
	connect bool
}

// segment is one list of one upstream under one credential: an immutable
// snapshot.
type segment struct {
	kind     kind
	items    []*item // sorted by name, without what was refused
	index    map[string]*item
	rejected []rejection
	notes    []rejection // what is odd about items that were kept
	fetched  time.Time
	ttl      time.Duration
	public   bool
	gen      uint64
	fence    cache.Fence // under which it was fetched, on whichever replica; zero without a Cluster
	digest   [32]byte    // of all items: equal digests mean equal lists
	extras   []byte      // other members of the first page's result, each with a comma before it
	meta     []byte      // `_meta` of the first page's result
	discover *discovered // of kindDiscover
	consent  bool        // it stands for a list that the user has to sign in for
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
	extensions                                                 map[string]bool
}

// offers tells whether the upstream's capabilities hold what a list of that kind
// needs.
func (c *discovered) offers(k kind) bool {
	switch k {
	case kindTools:
		return c.tools
	case kindPrompts:
		return c.prompts
	case kindResources, kindTemplates:
		return c.resources
	default:
		return true
	}
}
