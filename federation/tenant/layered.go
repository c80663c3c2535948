package tenant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
)

// LayeredStore is a Store that lays the tenants of the configuration file over those
// of a Registry. A tenant that is in both is the file's, with the upstreams that the
// registry has besides at its end; where both have an alias it is the file's, which
// is logged once. Its revision rises when either changes, also when it moves from
// one to the other; it is not that of the Registry, which writers have to ask.
type LayeredStore struct {
	// Logger may be set before the first use; nil means none.
	Logger *slog.Logger

	file     *Memory
	store    Registry
	watchers Watchers
	stops    []func()

	mu      sync.Mutex
	given   map[string]revisions
	clashes map[string]bool // by tenant and alias: those that were logged
}

var _ Store = (*LayeredStore)(nil)

// revisions are what a tenant was last made from, and what it was given for that.
type revisions struct{ file, store, given uint64 }

// Layered makes a LayeredStore. Close ends its interest in both, which stay the
// caller's.
func Layered(file *Memory, store Registry) *LayeredStore {
	l := &LayeredStore{file: file, store: store, given: map[string]revisions{}, clashes: map[string]bool{}}
	tell := func(name string) { l.watchers.Tell(name) }
	l.stops = append(l.stops, file.Watch(context.Background(), tell), store.Watch(context.Background(), tell))
	return l
}

// Close ends the calls of all watchers.
func (l *LayeredStore) Close() {
	for _, stop := range l.stops {
		stop()
	}
}

// Tenant implements Store.
func (l *LayeredStore) Tenant(ctx context.Context, name string) (*Tenant, error) {
	// Under the lock, so that what was read later is given the higher revision.
	l.mu.Lock()
	defer l.mu.Unlock()
	filed, err := l.file.Tenant(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("tenant %s of the configuration file: %w", name, err)
	}
	stored, err := l.store.Tenant(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("tenant %s of the store: %w", name, err)
	}
	var t *Tenant
	switch {
	case filed != nil && stored != nil:
		t = l.merge(filed, stored)
	case filed != nil:
		t = new(*filed)
	case stored != nil:
		t = new(*stored)
	default:
		return nil, ErrNotFound
	}
	t.Revision = l.revise(name, filed, stored)
	return t, nil
}

// revise gives the revision of what was made from those, one of which may be nil.
func (l *LayeredStore) revise(name string, filed, stored *Tenant) uint64 {
	var now revisions
	if filed != nil {
		now.file = filed.Revision
	}
	if stored != nil {
		now.store = stored.Revision
	}
	last, known := l.given[name]
	if known && last.file == now.file && last.store == now.store {
		return last.given
	}
	now.given = max(now.file, now.store, last.given+1)
	l.given[name] = now
	return now.given
}

// merge gives the file's tenant with the other upstreams of the store's.
func (l *LayeredStore) merge(filed, stored *Tenant) *Tenant {
	t := new(*filed)
	t.Upstreams = slices.Clone(filed.Upstreams)
	for _, u := range stored.Upstreams {
		if !slices.ContainsFunc(filed.Upstreams, func(o Upstream) bool { return o.Alias == u.Alias }) {
			t.Upstreams = append(t.Upstreams, u)
			continue
		}
		if clash := t.Name + "/" + u.Alias; !l.clashes[clash] {
			l.clashes[clash] = true
			if l.Logger != nil {
				l.Logger.Warn("an upstream of the store is not used: the configuration file has one of the same alias", "tenant", t.Name, "upstream", u.Alias)
			}
		}
	}
	return t
}

// Names implements Store.
func (l *LayeredStore) Names(ctx context.Context) ([]string, error) {
	filed, err := l.file.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("tenants of the configuration file: %w", err)
	}
	stored, err := l.store.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("tenants of the store: %w", err)
	}
	all := slices.Concat(filed, stored)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Watch implements Store.
func (l *LayeredStore) Watch(ctx context.Context, changed func(name string)) (stop func()) {
	return l.watchers.Watch(ctx, changed)
}
