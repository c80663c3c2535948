package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestMemoryStatesKeepWhatChangeRefuses(t *testing.T) {
	m := newMemoryStates(3, testLogger(&bytes.Buffer{}))
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
	if a, n := levelOf(t, m, "a"), levelOf(t, m, "new"); a != "info" || n != "" {
		t.Errorf("levels %q and %q", a, n)
	}
}

func TestMemoryStatesSignal(t *testing.T) {
	m := newMemoryStates(3, testLogger(&bytes.Buffer{}))
	var got []string
	listen := func(name, id string) func() {
		return m.attach(id, func(s signal) { got = append(got, fmt.Sprintf("%s %d %s", name, s.kind, s.key)) })
	}
	detach := listen("one", "a")
	defer listen("foreign", "b")()
	send := func(key string) {
		if err := m.signal(context.Background(), "a", signal{kind: signalAnswer, key: key}); err != nil {
			t.Fatal(err)
		}
	}
	send("1")
	detach()
	detach()
	send("2")
	if diff := cmp.Diff([]string{"one 1 1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(m.attached) != 1 {
		t.Errorf("%d sessions have receivers, want one", len(m.attached))
	}
}
