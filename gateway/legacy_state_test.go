package gateway

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causeway-mcp/causeway/cache"
	"github.com/causeway-mcp/causeway/cache/redis"
	"github.com/causeway-mcp/causeway/cache/redistest"
)

func setLevelOf(t *testing.T, m softStates, id, level string, expires time.Time) {
	t.Helper()
	err := m.update(t.Context(), id, expires, func(s *softState) error {
		s.level = level
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func levelOf(t *testing.T, m softStates, id string) string {
	t.Helper()
	s, err := m.get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s.level
}

func TestMemoryStatesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMemoryStates(3, testLogger(&log))
		day := time.Now().Add(24 * time.Hour)
		setLevelOf(t, m, "a", "info", day)
		setLevelOf(t, m, "b", "info", day)
		setLevelOf(t, m, "c", "info", time.Now().Add(time.Minute))
		time.Sleep(2 * time.Minute)
		setLevelOf(t, m, "d", "info", day) // c has expired
		setLevelOf(t, m, "a", "debug", day)
		if n := strings.Count(log.String(), "too many sessions"); n != 0 {
			t.Errorf("%d warnings while there is room", n)
		}
		time.Sleep(2 * time.Minute)
		setLevelOf(t, m, "e", "info", day) // b was not changed for the longest time
		setLevelOf(t, m, "f", "info", day)
		got := map[string]string{}
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			got[id] = levelOf(t, m, id)
		}
		want := map[string]string{"a": "debug", "b": "", "c": "", "d": "", "e": "info", "f": "info"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("levels (-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "too many sessions"); n != 1 {
			t.Errorf("%d warnings, want one", n)
		}
	})
}

// eachStates runs a test with each back end: what one replica has, and what another
// has of the same; in memory that is one.
func eachStates(t *testing.T, test func(t *testing.T, here, there softStates)) {
	pair := func(t *testing.T, values cache.Values, bus cache.Bus) (here, there *sharedStates) {
		for _, s := range []**sharedStates{&here, &there} {
			*s = newSharedStates(values, bus, newMemoryStates(3, testLogger(&bytes.Buffer{})), testLogger(t.Output()))
			t.Cleanup(func() { _ = (*s).close(context.Background()) }) // it fails never
		}
		return here, there
	}
	t.Run("memory", func(t *testing.T) {
		m := newMemoryStates(3, testLogger(&bytes.Buffer{}))
		test(t, m, m)
	})
	t.Run("shared in memory", func(t *testing.T) {
		shared := cache.NewShared()
		here, there := pair(t, shared, shared)
		test(t, here, there)
	})
	t.Run("shared in Redis", func(t *testing.T) {
		store, err := redis.Open(redis.Options{
			Connection: redis.Connection{URL: redistest.Start(t).URL()}, Timeout: 10 * time.Second, Logger: testLogger(t.Output()),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		here, there := pair(t, store, store)
		test(t, here, there)
	})
}

func TestStatesKeepWhatChangeRefuses(t *testing.T) {
	eachStates(t, func(t *testing.T, m, there softStates) {
		later, no := time.Now().Add(time.Hour), errors.New("no")
		setLevelOf(t, m, "a", "info", later)
		for _, id := range []string{"a", "new"} {
			err := m.update(t.Context(), id, later, func(s *softState) error {
				s.level = "debug"
				return no
			})
			if !errors.Is(err, no) {
				t.Errorf("%s: %v", id, err)
			}
		}
		for _, states := range []softStates{m, there} {
			if a, n := levelOf(t, states, "a"), levelOf(t, states, "new"); a != "info" || n != "" {
				t.Errorf("levels %q and %q", a, n)
			}
		}
	})
}

func TestStatesAreSeenByAll(t *testing.T) {
	eachStates(t, func(t *testing.T, here, there softStates) {
		later := time.Now().Add(time.Hour)
		want := softState{level: "info", uris: []string{"doc://a", "\x00é"}, stream: math.MaxUint64}
		err := here.update(t.Context(), "a", later, func(s *softState) error {
			*s = want
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := there.get(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(softState{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want.level = "debug"
			setLevelOf(t, here, "a", "debug", later)
		}
		err = there.update(t.Context(), "a", later, func(s *softState) error {
			*s = softState{deleted: true}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, states := range []softStates{here, there} {
			if s, err := states.get(t.Context(), "a"); err != nil || !s.deleted || s.level != "" {
				t.Errorf("after its end %+v, %v", s, err)
			}
		}
	})
}

func TestStatesCountEveryChange(t *testing.T) {
	eachStates(t, func(t *testing.T, here, there softStates) {
		later := time.Now().Add(time.Hour)
		const each = 25
		var work sync.WaitGroup
		for _, states := range []softStates{here, there} {
			work.Go(func() {
				for range each {
					err := states.update(t.Context(), "a", later, func(s *softState) error {
						s.stream++
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait()
		if s, err := here.get(t.Context(), "a"); err != nil || s.stream != 2*each {
			t.Errorf("%d changes, %v", s.stream, err)
		}
	})
}

func TestStatesSignal(t *testing.T) {
	eachStates(t, func(t *testing.T, here, there softStates) {
		got := make(chan signal, 16)
		// How things are is told once the subscription stands, to everybody.
		detach := there.attach("a", func(s signal) {
			if s.kind != signalState {
				got <- s
			}
		})
		defer there.attach("b", func(s signal) {
			if s.kind != signalState {
				t.Errorf("a foreign session was told %+v", s)
			}
		})()
		send := func(s signal) {
			if err := here.signal(t.Context(), "a", s); err != nil {
				t.Fatal(err)
			}
		}
		for begun := false; !begun; { // what is sent before is lost
			send(signal{kind: signalCancel, key: "begin"})
			select {
			case <-got:
				begun = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		list := []signal{
			{kind: signalCancel, key: `"x`}, {kind: signalStream, stream: math.MaxUint64}, {kind: signalSubscribe}, {kind: signalDeleted},
		}
		for _, s := range list {
			send(s)
		}
		for _, want := range list {
			s := <-got
			for s.key == "begin" {
				s = <-got
			}
			if diff := cmp.Diff(want, s, cmp.AllowUnexported(signal{}, softState{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if s, err := there.get(t.Context(), "a"); err != nil || (here != there) != s.deleted {
			t.Errorf("after the news of its end %+v, %v", s, err)
		}
		send(signal{kind: signalAnswer, key: "1", body: []byte("{}")})
		if here == there {
			if s := <-got; s.key != "1" || string(s.body) != "{}" {
				t.Errorf("the answer %+v", s)
			}
		}
		detach()
		detach()
		send(signal{kind: signalAnswer, key: "2"})
		if len(got) > 0 {
			t.Errorf("afterwards %+v", <-got)
		}
	})
}
