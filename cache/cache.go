// Package cache holds the interfaces of the gateway's shared state and their
// in-memory back end: cached responses with generations. It imports none of our
// packages; its Redis back end will import it.
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
	Public bool
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
}
