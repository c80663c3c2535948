package federation

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
)

func samplePosts() map[string]post {
	none := map[string]bool{}
	return map[string]post{
		"nothing": {wants: &interest{uris: none, tasks: none}},
		"all": {
			floor: cache.Fence{Epoch: 1 << 63, N: 7},
			wants: &interest{uris: setOf([]string{"doc://1", "doc://2", ""}), tasks: setOf([]string{"t"})},
		},
	}
}

func TestPostsAreReadAsTheyWereWritten(t *testing.T) {
	for name, want := range samplePosts() {
		t.Run(name, func(t *testing.T) {
			raw, err := want.encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := readPost(raw)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, *got, cmp.AllowUnexported(post{}, interest{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadPostRefuses(t *testing.T) {
	good := samplePosts()["all"]
	raw, err := good.encode()
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(raw)
	other[0]++
	for name, raw := range map[string][]byte{
		"nothing":         nil,
		"another version": other,
		"cut off":         raw[:len(raw)-1],
		"something after": append(bytes.Clone(raw), 0),
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := readPost(raw); err == nil {
				t.Errorf("read %+v", p)
			}
		})
	}
}

func TestAPostIsBounded(t *testing.T) {
	p := post{wants: &interest{uris: setOf([]string{strings.Repeat("x", maxPost)})}}
	if _, err := p.encode(); !errors.Is(err, errTooLarge) {
		t.Errorf("error = %v", err)
	}
}

func FuzzReadPost(f *testing.F) {
	for _, p := range samplePosts() {
		raw, err := p.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := readPost(raw)
		if err != nil {
			return
		}
		again, err := p.encode()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := readPost(again); err != nil || !cmp.Equal(p, q, cmp.AllowUnexported(post{}, interest{})) {
			t.Errorf("%q is read as %+v and then as %+v, %v", raw, p, q, err)
		}
	})
}

func TestOfReplica(t *testing.T) {
	tests := []struct {
		id, replica string
		want        bool
	}{
		{"r1/7", "r1", true},
		{"a/b/7", "a/b", true},
		{"r1/7", "r", false},
		{"r1", "r1", false},
		{"", "", false},
	}
	for _, tt := range tests {
		if got := ofReplica(tt.id, tt.replica); got != tt.want {
			t.Errorf("ofReplica(%q, %q) = %v", tt.id, tt.replica, got)
		}
	}
}
