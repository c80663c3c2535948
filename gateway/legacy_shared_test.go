package gateway

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
)

// forgetful are Values that can be lost, and a Bus that can lose its connection.
type forgetful struct {
	mu     sync.Mutex
	values *cache.MemoryShared
	tell   []func(body []byte, gap bool)
}

func (f *forgetful) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values = cache.NewShared()
}

// reconnect tells of a gap.
func (f *forgetful) reconnect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, tell := range f.tell {
		tell(nil, true)
	}
}

func (f *forgetful) current() *cache.MemoryShared {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values
}

func (f *forgetful) Get(ctx context.Context, key string) ([]byte, error) {
	return f.current().Get(ctx, key)
}

func (f *forgetful) Update(ctx context.Context, key string, ttl time.Duration, change func([]byte) ([]byte, error)) error {
	return f.current().Update(ctx, key, ttl, change)
}

func (f *forgetful) Publish(context.Context, string, []byte) error { return nil } // nobody hears it

func (f *forgetful) Subscribe(_ string, receive func(body []byte, gap bool)) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell = append(f.tell, receive)
	return func() {}
}

// shared makes the states of one replica over f.
func (f *forgetful) shared(t *testing.T) *sharedStates {
	f.mu.Lock()
	if f.values == nil {
		f.values = cache.NewShared()
	}
	f.mu.Unlock()
	s := newSharedStates(f, f, newMemoryStates(10, testLogger(&bytes.Buffer{})), testLogger(t.Output()))
	t.Cleanup(func() { _ = s.close(context.Background()) }) // it fails never
	return s
}

// What a replica knows comes back when the store has lost it, a session that was
// deleted above all.
func TestSharedStatesAfterALoss(t *testing.T) {
	f := &forgetful{}
	a, b := f.shared(t), f.shared(t)
	later := time.Now().Add(time.Hour)
	setLevelOf(t, a, "kept", "info", later)
	err := a.update(t.Context(), "over", later, func(s *softState) error {
		s.deleted = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.lose()
	// Somebody who does not know of its end uses the session meanwhile.
	setLevelOf(t, b, "over", "debug", later)
	if got := levelOf(t, a, "kept"); got != "info" {
		t.Errorf("level %q", got)
	}
	if s, err := a.get(t.Context(), "over"); err != nil || !s.deleted {
		t.Errorf("%+v, %v", s, err)
	}
	for {
		over, err := b.get(t.Context(), "over")
		if err != nil {
			t.Fatal(err)
		}
		if over.deleted && levelOf(t, b, "kept") == "info" {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("it is never shared")
		}
	}
}

// A replica that may have missed signals looks at how things are.
func TestSharedStatesAfterAGap(t *testing.T) {
	f := &forgetful{}
	a, b := f.shared(t), f.shared(t)
	later := time.Now().Add(time.Hour)
	got := make(chan signal, 4)
	defer a.attach("a", func(s signal) { got <- s })()
	want := softState{uris: []string{"doc://a"}, stream: 7}
	err := b.update(t.Context(), "a", later, func(s *softState) error {
		*s = want
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.reconnect()
	if diff := cmp.Diff(signal{kind: signalState, state: want}, <-got, cmp.AllowUnexported(signal{}, softState{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A value of another version is ignored, not misread.
func TestSharedStatesOfAnotherVersion(t *testing.T) {
	f := &forgetful{}
	a := f.shared(t)
	err := f.Update(t.Context(), stateKey("a"), time.Hour, func([]byte) ([]byte, error) {
		raw := appendState(nil, &softState{level: "info"}, time.Now())
		raw[0]++
		return raw, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := levelOf(t, a, "a"); got != "" {
		t.Errorf("level %q", got)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add(appendState(nil, &softState{level: "info", uris: []string{"a", ""}, stream: 7, deleted: true}, time.Now()))
	f.Add([]byte{stateVersion})
	f.Add([]byte{stateVersion, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, expires, ok := parseState(raw)
		if !ok {
			if diff := cmp.Diff(softState{}, s, cmp.AllowUnexported(softState{})); diff != "" {
				t.Errorf("of nonsense came %s", diff)
			}
			return
		}
		again, when, ok := parseState(appendState(nil, &s, expires))
		if diff := cmp.Diff(s, again, cmp.AllowUnexported(softState{})); diff != "" || !ok || !when.Equal(expires) {
			t.Errorf("%t, %s, %s: %s", ok, when, expires, diff)
		}
	})
}

func FuzzParseNews(f *testing.F) {
	f.Add(appendNews(nil, &news{from: "r", session: "s", expires: time.Now(), signal: signal{kind: signalStream, key: "k", stream: 7}}))
	f.Add([]byte{signalVersion})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, ok := parseNews(raw)
		if !ok {
			return
		}
		again, ok := parseNews(appendNews(nil, &m))
		if diff := cmp.Diff(m, again, cmp.AllowUnexported(news{}, signal{}, softState{})); diff != "" || !ok {
			t.Errorf("%t: %s", ok, diff)
		}
	})
}
