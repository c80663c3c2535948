// Package lru keeps what was used last, up to a total size. It is a leaf: it imports
// none of our packages.
package lru

import "container/list"

// Cache keeps values up to a total size; those that were not used for the longest time
// go first. Its owner guards it against concurrent use.
type Cache[K comparable, V any] struct {
	most, used int
	items      map[K]*list.Element
	recent     *list.List // of *item, the last used first
}

type item[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// New makes a Cache for values of that total size.
func New[K comparable, V any](most int) *Cache[K, V] {
	return &Cache[K, V]{most: most, items: map[K]*list.Element{}, recent: list.New()}
}

// Len gives the number of values.
func (l *Cache[K, V]) Len() int { return l.recent.Len() }

// Get gives a value and counts as a use.
func (l *Cache[K, V]) Get(k K) (v V, ok bool) {
	at, ok := l.items[k]
	if !ok {
		return v, false
	}
	l.recent.MoveToFront(at)
	return at.Value.(*item[K, V]).value, true
}

// Put keeps a value in place of the one before. One that is larger than all of the
// room is not kept.
func (l *Cache[K, V]) Put(k K, v V, size int) {
	l.Remove(k)
	if size > l.most {
		return
	}
	l.items[k] = l.recent.PushFront(&item[K, V]{k, v, size})
	for l.used += size; l.used > l.most; {
		l.Remove(l.recent.Back().Value.(*item[K, V]).key)
	}
}

// Remove drops a value, if it is there.
func (l *Cache[K, V]) Remove(k K) {
	if at, ok := l.items[k]; ok {
		l.used -= l.recent.Remove(at).(*item[K, V]).size
		delete(l.items, k)
	}
}

// RemoveIf drops all values for which drop tells so.
func (l *Cache[K, V]) RemoveIf(drop func(K, V) bool) {
	for k, at := range l.items {
		if drop(k, at.Value.(*item[K, V]).value) {
			l.Remove(k)
		}
	}
}
