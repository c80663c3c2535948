package redis

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causeway-mcp/causeway/cache"
)

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 4<<10)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	text := bytes.Repeat([]byte(`{"name":"search"}`), 1000)
	tests := []struct {
		name      string
		entry     cache.Entry
		life      time.Duration
		shrinks   bool
		wantExtra int
	}{
		{"empty", cache.Entry{}, 0, false, headerSize},
		{"small", cache.Entry{Body: text[:compressAbove], TTL: time.Minute, Public: true}, time.Minute, false, headerSize},
		{"large", cache.Entry{Body: text, TTL: time.Minute, Keep: time.Hour}, 61 * time.Minute, true, 0},
		{"large, but not for long", cache.Entry{Body: noise, TTL: 1500 * time.Microsecond}, time.Millisecond, false, headerSize},
		{"fence", cache.Entry{Body: text[:5], TTL: time.Hour, Fence: cache.Fence{Epoch: math.MaxUint64, N: 1 << 50}}, time.Hour, false, headerSize},
		{"for ever", cache.Entry{Body: text[:5], TTL: math.MaxInt64, Keep: math.MaxInt64}, maxLife, false, headerSize},
	}
	c := newEntryCodec()
	defer c.close()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := c.encode(tt.entry, 42)
			if tt.shrinks != (len(v) < len(tt.entry.Body)) || !tt.shrinks && len(v) != len(tt.entry.Body)+tt.wantExtra {
				t.Errorf("%d bytes of body became %d", len(tt.entry.Body), len(v))
			}
			got, err := c.decode(v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.entry, got.Entry, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("another entry came back (-want +got):\n%s", diff)
			}
			if got.gen != 42 || got.life != tt.life {
				t.Errorf("generation %d and life %v, want 42 and %v", got.gen, got.life, tt.life)
			}
		})
	}
}

// TestEntryBomb holds that a small value does not become a large one than allowed.
func TestEntryBomb(t *testing.T) {
	t.Parallel()
	c := newEntryCodec()
	defer c.close()
	v := c.encode(cache.Entry{Body: make([]byte, maxBody+1), TTL: time.Hour}, 1)
	if len(v) > 1<<20 {
		t.Fatalf("the bomb has %d bytes", len(v))
	}
	binary.BigEndian.PutUint64(v[50:], maxBody)
	if _, err := c.decode(v); err == nil {
		t.Error("more than the largest body was decompressed")
	}
}

func FuzzEntry(f *testing.F) {
	c := newEntryCodec()
	f.Cleanup(c.close)
	for _, body := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("abc"), 1000)} {
		f.Add(c.encode(cache.Entry{Body: body, TTL: time.Minute, Keep: time.Hour, Public: true}, 1))
	}
	f.Add([]byte{entryVersion})
	f.Fuzz(func(t *testing.T, v []byte) {
		s, err := c.decode(v)
		if err != nil {
			return
		}
		if len(s.Body) > maxBody || s.TTL < 0 || s.Keep < 0 || s.life < 0 || s.life > maxLife {
			t.Fatalf("out of bounds: %d bytes, TTL %v, Keep %v, life %v", len(s.Body), s.TTL, s.Keep, s.life)
		}
		again, err := c.decode(c.encode(s.Entry, s.gen))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s.Entry, again.Entry, cmpopts.EquateEmpty()); diff != "" || s.gen != again.gen {
			t.Fatalf("another entry came back (-want +got):\n%s", diff)
		}
	})
}

func FuzzNotice(f *testing.F) {
	f.Add(notice{
		kind: noticeDrop, gen: 7, prev: math.MaxUint64, param: "file:///a", credential: "alice", id: "1",
		topic: cache.Topic{Tenant: "acme", Upstream: "files", Version: "v1", Method: "resources/read"},
	}.encode())
	f.Add(notice{kind: noticeChange}.encode())
	f.Add([]byte("1 2 1t\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNotice(b)
		if err != nil {
			return
		}
		again, err := decodeNotice(n.encode())
		if err != nil || n != again {
			t.Fatalf("%+v became %+v, %v", n, again, err)
		}
	})
}
