// Package cache holds the interfaces of the state that the replicas of a gateway
// share, and their in-memory back end: cached responses with generations, messages
// between replicas, leases, boards, values and counters. It imports none of our
// packages; its Redis back end imports it. Errors of a back end mean that it cannot
// be used at the moment, and that the caller has to do without.
package cache

import (
	"context"
	"time"
)

// Topic names a set of responses that one notification invalidates: one method
// of one upstream of one tenant, under one version of its configuration.
type Topic struct {
	Tenant, Upstream, Version, Method string
}

// Key names one cached response of a Topic.
type Key struct {
	Topic
	// Credential is the authorization context that the upstream sees; empty for
	// responses with the scope public (server/utilities/caching, Cache Scope).
	Credential string
	// Param is the parameter that matters, such as the URI of resources/read.
	Param string
}

// Entry is one cached response.
type Entry struct {
	Body   []byte // not to be changed by anyone
	Stored time.Time
	TTL    time.Duration // from Stored; the entry is fresh before Stored+TTL
	// Keep is how long beyond TTL the entry may be of use, for those who serve what
	// has expired while they ask or cannot ask. A back end may keep it for less.
	Keep   time.Duration
	Public bool
	// Fence is that of the lease under which the response was fetched; zero where
	// nobody else could fetch it at the same time.
	Fence Fence
}

// Responses stores responses. Whatever the back end, Get never returns an entry
// that was read before the latest Invalidate which covers it.
type Responses interface {
	// Generation gives the topic's generation. It is read before the upstream is
	// asked and handed to Put.
	Generation(ctx context.Context, t Topic) (uint64, error)
	// Invalidate raises the topic's generation and drops what it covers: all of
	// the topic when param is empty, else that Param and, for URIs, those of
	// which param is a sub-resource. It returns the new generation.
	Invalidate(ctx context.Context, t Topic, param string) (uint64, error)
	// Get gives an entry, fresh or not.
	Get(ctx context.Context, k Key) (Entry, bool, error)
	// Put stores the entry if the topic's generation is still gen, and tells
	// whether it did.
	Put(ctx context.Context, k Key, e Entry, gen uint64) (bool, error)
	// Delete drops one entry, without a new generation.
	Delete(ctx context.Context, k Key) error
	// Follow has changed told of each Invalidate of a topic of the tenant, by this
	// process or another, until stop is called. Calls come one after the other; no
	// call runs when stop has returned. changed must not block, nor call back.
	Follow(tenant string, changed func(Change)) (stop func())
}

// Change tells that a topic was invalidated, or may have been while nobody could
// tell.
type Change struct {
	Topic Topic
	Param string // as it was given to Invalidate; empty for all of the topic
	// Gen is the topic's generation from then on. The same change may be told
	// twice, so one with a generation that is known already is no news. 0 stands for
	// one that could not be written down: the store takes no writes, and nothing it
	// holds of the topic may be used until its generation has moved.
	Gen uint64
}
