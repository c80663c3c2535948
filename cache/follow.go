package cache

import (
	"slices"
	"sync"
)

// followers are those who are told of changes of a tenant's topics.
type followers struct {
	calling sync.Mutex // held while a change is made and told, so that calls come one after the other

	mu   sync.Mutex
	list map[string][]*follower
}

type follower struct{ changed func(Change) }

// add adds one. The returned function takes it out and waits for its running call.
func (f *followers) add(tenant string, changed func(Change)) (stop func()) {
	fo := &follower{changed}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil {
		f.list = map[string][]*follower{}
	}
	f.list[tenant] = append(slices.Clone(f.list[tenant]), fo)
	return func() {
		f.calling.Lock()
		defer f.calling.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(f.list[tenant]), func(o *follower) bool { return o == fo })
		if f.list[tenant] = rest; len(rest) == 0 {
			delete(f.list, tenant)
		}
	}
}

// tell makes a change and tells those who follow its tenant, in the order in which
// changes are made.
func (f *followers) tell(change func() Change) {
	f.calling.Lock()
	defer f.calling.Unlock()
	c := change()
	f.mu.Lock()
	list := f.list[c.Topic.Tenant]
	f.mu.Unlock()
	for _, fo := range list {
		fo.changed(c)
	}
}
