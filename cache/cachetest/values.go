package cachetest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/causeway-mcp/causeway/cache"
)

// TestValues checks a back end of cache.Values. make gives an empty one and
// registers its clean-up with t; the suite calls it once for each part.
func TestValues(t *testing.T, make func(t *testing.T) cache.Values) {
	tests := []struct {
		name string
		test func(t *testing.T, c values)
	}{
		{"update", updateValues},
		{"what change fails with", failUpdate},
		{"keys are apart", valuesApart},
		{"expire", expireValues},
		{"many at the same time", raceUpdates},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, values{t, make(t)}) })
	}
}

// values calls a Values and fails the test on errors.
type values struct {
	t *testing.T
	v cache.Values
}

func (c values) get(key string) []byte {
	c.t.Helper()
	got, err := c.v.Get(c.t.Context(), key)
	if err != nil {
		c.t.Fatalf("Get: %v", err)
	}
	return got
}

// want checks a value; nil stands for none.
func (c values) want(key string, want []byte) {
	c.t.Helper()
	if got := c.get(key); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		c.t.Errorf("Get(%q) = %.100q (nil: %v), want %.100q", key, got, got == nil, want)
	}
}

// update replaces a value that is to be old.
func (c values) update(key string, old, next []byte, ttl time.Duration) {
	c.t.Helper()
	err := c.v.Update(c.t.Context(), key, ttl, func(got []byte) ([]byte, error) {
		if !bytes.Equal(got, old) || (got == nil) != (old == nil) {
			c.t.Errorf("change of %q was given %.100q (nil: %v), want %.100q", key, got, got == nil, old)
		}
		return next, nil
	})
	if err != nil {
		c.t.Fatalf("Update: %v", err)
	}
}

func updateValues(t *testing.T, c values) {
	steps := [][]byte{
		nil, []byte("1"), []byte("2"), []byte("2"), nil, nil, {}, []byte("\x00\xffé\r\n"), {}, nil,
		bytes.Repeat([]byte("0123456789abcdef"), 1<<12), []byte("end"),
	}
	for i, next := range steps[1:] {
		c.want("session", steps[i])
		c.update("session", steps[i], next, long)
		c.want("session", next)
	}
	// What was given and got is the caller's own.
	mine := []byte("mine")
	c.update("session", []byte("end"), mine, long)
	copy(mine, "xxxx")
	copy(c.get("session"), "yyyy")
	c.want("session", []byte("mine"))
}

func failUpdate(t *testing.T, c values) {
	c.update("session", nil, []byte("1"), long)
	errNo := errors.New("no")
	for _, key := range []string{"session", "none"} {
		before := c.get(key)
		err := c.v.Update(t.Context(), key, long, func([]byte) ([]byte, error) { return []byte("2"), errNo })
		if !errors.Is(err, errNo) {
			t.Errorf("Update of %q: error %v, want that of change", key, err)
		}
		c.want(key, before)
	}
}

func valuesApart(t *testing.T, c values) {
	keys := []string{"a", "A", "a:b", "{a}", "{a}b", "a{b}", "a\x00", "a b", "é", ""}
	for i, k := range keys {
		c.update(k, nil, fmt.Append(nil, i), long)
	}
	for i, k := range keys {
		c.want(k, fmt.Append(nil, i))
	}
}

func expireValues(t *testing.T, c values) {
	c.update("stays", nil, []byte("1"), long)
	c.update("goes", nil, []byte("1"), short)
	eventually(t, "a value is forgotten", func() bool { return c.get("goes") == nil })
	c.want("stays", []byte("1"))
	c.update("goes", nil, []byte("2"), long)

	// A value lasts from its last update on, also from one that changes nothing.
	for ttl := short; ; ttl *= 2 {
		var old []byte
		set := func(ttl time.Duration) {
			err := c.v.Update(t.Context(), "again", ttl, func(got []byte) ([]byte, error) {
				old = got
				return []byte("1"), nil
			})
			if err != nil {
				t.Fatalf("Update: %v", err)
			}
		}
		set(ttl)
		set(long)
		if old == nil {
			continue // it took too long
		}
		c.update("control", nil, []byte("1"), ttl)
		eventually(t, "the control is forgotten", func() bool { return c.get("control") == nil })
		c.want("again", []byte("1"))
		set(time.Millisecond)
		eventually(t, "a value that was updated for a moment is forgotten", func() bool { return c.get("again") == nil })
		return
	}
}

func raceUpdates(t *testing.T, c values) {
	const writers, each = 6, 20
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			for range each {
				err := c.v.Update(t.Context(), "count", long, func(old []byte) ([]byte, error) {
					n := 0
					if old != nil {
						var err error
						if n, err = strconv.Atoi(string(old)); err != nil {
							return nil, fmt.Errorf("read what was written: %w", err)
						}
					}
					return strconv.AppendInt(nil, int64(n+1), 10), nil
				})
				if err != nil {
					return fmt.Errorf("update: %w", err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	c.want("count", strconv.AppendInt(nil, writers*each, 10))
}
