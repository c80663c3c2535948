package auth

import "container/list"

// lru keeps values up to a total size; those that were not used for the longest time
// go first. Its owner guards it.
type lru[K comparable, V any] struct {
	most, used int
	items      map[K]*list.Element
	recent     *list.List // of *lruItem, the last used first
}

type lruItem[K comparable, V any] struct {
	key   K
	value V
	size  int
}

func newLRU[K comparable, V any](most int) *lru[K, V] {
	return &lru[K, V]{most: most, items: map[K]*list.Element{}, recent: list.New()}
}

// get gives a value and counts as a use.
func (l *lru[K, V]) get(k K) (v V, ok bool) {
	at, ok := l.items[k]
	if !ok {
		return v, false
	}
	l.recent.MoveToFront(at)
	return at.Value.(*lruItem[K, V]).value, true
}

// put keeps a value in place of the one before. One that is larger than all of the
// room is not kept.
func (l *lru[K, V]) put(k K, v V, size int) {
	l.remove(k)
	if size > l.most {
		return
	}
	l.items[k] = l.recent.PushFront(&lruItem[K, V]{k, v, size})
	for l.used += size; l.used > l.most; {
		l.remove(l.recent.Back().Value.(*lruItem[K, V]).key)
	}
}

func (l *lru[K, V]) remove(k K) {
	if at, ok := l.items[k]; ok {
		l.used -= l.recent.Remove(at).(*lruItem[K, V]).size
		delete(l.items, k)
	}
}
