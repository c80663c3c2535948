package lru

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCache(t *testing.T) {
	l := New[string, int](3)
	l.Put("a", 1, 1)
	l.Put("b", 2, 1)
	l.Put("c", 3, 1)
	if v, ok := l.Get("a"); !ok || v != 1 {
		t.Errorf("a = %d, %v", v, ok)
	}
	l.Put("d", 4, 1) // b was not used for the longest time
	l.Put("large", 5, 4)
	l.Put("a", 6, 2) // c goes for it
	var have []string
	for _, k := range []string{"a", "b", "c", "d", "large"} {
		if _, ok := l.Get(k); ok {
			have = append(have, k)
		}
	}
	if diff := cmp.Diff([]string{"a", "d"}, have); diff != "" || l.used != 3 || l.Len() != 2 {
		t.Errorf("%d used; (-want +got):\n%s", l.used, diff)
	}
	l.Remove("nothing")
	if l.Remove("a"); l.used != 1 {
		t.Errorf("%d used", l.used)
	}
	l.Put("b", 2, 1)
	l.RemoveIf(func(k string, v int) bool { return k == "b" && v == 2 })
	if _, ok := l.Get("d"); !ok || l.Len() != 1 {
		t.Errorf("%d are left, want d alone", l.Len())
	}
}
