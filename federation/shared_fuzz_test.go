package federation

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/upstream"
	"github.com/causeway-mcp/causeway/upstream/mcp"
)

func TestPagesRoundTrip(t *testing.T) {
	for _, pages := range [][][]byte{
		nil,
		{[]byte("one")},
		{{}, bytes.Repeat([]byte("x"), 300), {}},
	} {
		got, err := readPages(appendPages(nil, pages), 3)
		if err != nil || !slices.EqualFunc(got, pages, bytes.Equal) {
			t.Errorf("%q came back as %q, %v", pages, got, err)
		}
	}
}

// FuzzSharedList reads what is stored: it is within the bounds, and what can be
// read is the same after it was written again.
func FuzzSharedList(f *testing.F) {
	raw := func(result string) []byte { return []byte(`{"jsonrpc":"2.0","id":1,"result":` + result + `}`) }
	f.Add(uint8(kindTools), appendPages(nil, [][]byte{raw(listResult(kindTools, 1, tool("a"), tool("b"))), raw(listResult(kindTools, 1))}))
	f.Add(uint8(kindResources), appendPages(nil, [][]byte{raw(listResult(kindResources, 1, `{"uri":"a:b","name":"n"}`))}))
	f.Add(uint8(kindDiscover), appendPages(nil, [][]byte{raw(`{"capabilities":{"tools":{}},"cacheScope":"public"}`)}))
	f.Add(uint8(kindTools), []byte{pagesVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add(uint8(kindPrompts), []byte{pagesVersion})
	r, stop := newFakeRig(f, map[string]upstream.Doer{"a": newFake(f)}, func(o *Options) { o.Limits.MaxItems, o.Limits.MaxPages = 20, 5 })
	f.Cleanup(stop)
	if err := r.fed.Check(f.Context(), Endpoint{Tenant: "default"}); err != nil {
		f.Fatal(err)
	}
	m := r.fed.domains["default"].member("a")
	f.Fuzz(func(t *testing.T, of uint8, body []byte) {
		k := kind(of % uint8(kinds))
		e := cache.Entry{Body: body, Stored: time.Now(), TTL: time.Minute, Public: true, Fence: cache.Fence{Epoch: 1, N: 2}}
		seg, err := m.segmentOf(k, e)
		pages, bad := readPages(body, 5)
		if err != nil {
			return
		}
		if bad != nil || len(pages) > 5 || len(seg.items)+len(seg.rejected) > 20 {
			t.Errorf("over the bounds: %d pages, %d items", len(pages), len(seg.items))
		}
		if !seg.fetched.Equal(e.Stored) || seg.ttl != e.TTL || seg.fence != e.Fence {
			t.Errorf("times of the list = %v, %v, %v", seg.fetched, seg.ttl, seg.fence)
		}
		e.Body = appendPages(nil, pages)
		again, err := m.segmentOf(k, e)
		if err != nil || again.digest != seg.digest || again.public != seg.public {
			t.Errorf("written again: %v", err)
		}
		for _, p := range pages {
			if _, err := mcp.ParseMessage(p, 256); err != nil {
				t.Errorf("a page that is no message was read: %v", cmp.Diff("", err.Error()))
			}
		}
	})
}
