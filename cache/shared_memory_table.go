package cache

import (
	"container/heap"
	"time"
)

// table is a map whose rows are forgotten when their time has come. Its zero value
// is empty. Each call drops all rows that have expired by then.
type table[K comparable, V any] struct {
	rows map[K]*row[K, V]
	due  dueRows[K, V]
}

type row[K comparable, V any] struct {
	key   K
	value V
	until time.Time
	at    int // in due
}

// get gives what is there at the time.
func (t *table[K, V]) get(now time.Time, key K) (value V, ok bool) {
	t.expire(now)
	if r := t.rows[key]; r != nil {
		return r.value, true
	}
	return value, false
}

// set writes a row that lasts for ttl.
func (t *table[K, V]) set(now time.Time, key K, value V, ttl time.Duration) {
	t.expire(now)
	if t.rows == nil {
		t.rows = map[K]*row[K, V]{}
	}
	until := now.Add(ttl)
	if r := t.rows[key]; r != nil {
		r.value, r.until = value, until
		heap.Fix(&t.due, r.at)
		return
	}
	r := &row[K, V]{key: key, value: value, until: until}
	t.rows[key] = r
	heap.Push(&t.due, r)
}

// drop takes a row away, if it is there.
func (t *table[K, V]) drop(key K) {
	if r := t.rows[key]; r != nil {
		delete(t.rows, key)
		heap.Remove(&t.due, r.at)
	}
}

// expire drops the rows whose time has come.
func (t *table[K, V]) expire(now time.Time) {
	for len(t.due) > 0 && !now.Before(t.due[0].until) {
		t.drop(t.due[0].key)
	}
	if len(t.rows) == 0 {
		t.rows, t.due = nil, nil // a map does not shrink
	}
}

// dueRows are rows in a heap, the next to expire first.
type dueRows[K comparable, V any] []*row[K, V]

// Len implements heap.Interface.
func (d dueRows[K, V]) Len() int { return len(d) }

// Less implements heap.Interface.
func (d dueRows[K, V]) Less(i, j int) bool { return d[i].until.Before(d[j].until) }

// Swap implements heap.Interface.
func (d dueRows[K, V]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}

// Push implements heap.Interface.
func (d *dueRows[K, V]) Push(x any) {
	r := x.(*row[K, V]) //nolint:forcetypeassert // it is what set pushes
	r.at = len(*d)
	*d = append(*d, r)
}

// Pop implements heap.Interface.
func (d *dueRows[K, V]) Pop() any {
	last := len(*d) - 1
	r := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return r
}
