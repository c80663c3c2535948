package cachetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
)

// TestBoards checks a back end of cache.Boards. make gives an empty one and
// registers its clean-up with t; the suite calls it once for each part.
func TestBoards(t *testing.T, make func(t *testing.T) cache.Boards) {
	tests := []struct {
		name string
		test func(t *testing.T, c boards)
	}{
		{"post and read", postAndRead},
		{"boards are apart", boardsApart},
		{"fields expire one by one", expireFields},
		{"many post at the same time", racePosts},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, boards{t, make(t)}) })
	}
}

// boards calls a Boards and fails the test on errors.
type boards struct {
	t *testing.T
	b cache.Boards
}

func (c boards) post(s cache.Scope, board, field, value string, ttl time.Duration) {
	c.t.Helper()
	if err := c.b.Post(c.t.Context(), s, board, field, []byte(value), ttl); err != nil {
		c.t.Fatalf("Post: %v", err)
	}
}

func (c boards) remove(s cache.Scope, board, field string) {
	c.t.Helper()
	if err := c.b.Remove(c.t.Context(), s, board, field); err != nil {
		c.t.Fatalf("Remove: %v", err)
	}
}

func (c boards) read(s cache.Scope, board string) map[string]string {
	c.t.Helper()
	got, err := c.b.Read(c.t.Context(), s, board)
	if err != nil {
		c.t.Fatalf("Read: %v", err)
	}
	fields := map[string]string{}
	for f, v := range got {
		fields[f] = string(v)
	}
	return fields
}

func (c boards) want(s cache.Scope, board string, want map[string]string) {
	c.t.Helper()
	if diff := cmp.Diff(want, c.read(s, board)); diff != "" {
		c.t.Errorf("board %q of %+v (-want +got):\n%s", board, s, diff)
	}
}

func postAndRead(t *testing.T, c boards) {
	c.want(files, "listen", map[string]string{})
	c.remove(files, "listen", "a") // which is not there
	c.post(files, "listen", "a", "1", long)
	c.post(files, "listen", "b", "\x00\xffé", long)
	c.post(files, "listen", "", "", long)
	c.want(files, "listen", map[string]string{"a": "1", "b": "\x00\xffé", "": ""})
	c.post(files, "listen", "a", "2", long)
	c.remove(files, "listen", "b")
	c.want(files, "listen", map[string]string{"a": "2", "": ""})
	c.remove(files, "listen", "")
	c.remove(files, "listen", "a")
	c.want(files, "listen", map[string]string{})

	value := []byte("mine")
	if err := c.b.Post(t.Context(), files, "listen", "a", value, long); err != nil {
		t.Fatal(err)
	}
	copy(value, "xxxx")
	c.want(files, "listen", map[string]string{"a": "mine"})
}

func boardsApart(t *testing.T, c boards) {
	keys := []struct {
		scope cache.Scope
		board string
	}{
		{cache.Scope{Tenant: "a", Upstream: "b"}, "c"},
		{cache.Scope{Tenant: "A", Upstream: "b"}, "c"},
		{cache.Scope{Tenant: "a"}, "c"},
		{cache.Scope{Tenant: "a"}, "b:c"},
		{cache.Scope{Tenant: "a"}, "b/c"},
		{cache.Scope{Tenant: "a:b"}, "c"},
		{cache.Scope{Tenant: "a/b"}, "c"},
		{cache.Scope{Tenant: "a", Upstream: "b"}, ""},
		{cache.Scope{}, "replicas"},
	}
	for i, k := range keys {
		c.post(k.scope, k.board, "f", fmt.Sprint(i), long)
	}
	for i, k := range keys {
		c.want(k.scope, k.board, map[string]string{"f": fmt.Sprint(i)})
	}
}

func expireFields(t *testing.T, c boards) {
	c.post(files, "listen", "stays", "1", long)
	c.post(files, "listen", "goes", "2", short)
	c.post(files, "other", "goes", "3", short)
	eventually(t, "one field is forgotten and the other not", func() bool {
		got := c.read(files, "listen")
		if got["stays"] != "1" {
			t.Fatalf("the field that was to stay is gone: %v", got)
		}
		return len(got) == 1
	})
	eventually(t, "a board is forgotten", func() bool { return len(c.read(files, "other")) == 0 })

	// What is posted again lasts from then on, and no field lasts for another's time.
	c.post(files, "again", "a", "1", short)
	c.post(files, "again", "a", "2", long)
	c.post(files, "again", "b", "1", long)
	c.post(files, "again", "b", "2", short)
	eventually(t, "a field that was posted for a shorter time is forgotten", func() bool { return len(c.read(files, "again")) == 1 })
	c.want(files, "again", map[string]string{"a": "2"})
}

func racePosts(t *testing.T, c boards) {
	const posters, each = 8, 20
	want := map[string]string{}
	var wg sync.WaitGroup
	for i := range posters {
		field := fmt.Sprint("replica ", i)
		want[field] = fmt.Sprint(each - 1)
		wg.Go(func() {
			for n := range each {
				if err := c.b.Post(t.Context(), files, "listen", field, fmt.Append(nil, n), long); err != nil {
					t.Errorf("Post: %v", err)
				}
			}
		})
	}
	wg.Wait()
	c.want(files, "listen", want)
}
