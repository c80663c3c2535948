package redis

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checks has a property checked so many times, unless the command line says how
// often. The caller must not be a parallel test.
func checks(t *testing.T, n string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	if before != f.DefValue {
		return
	}
	if err := flag.Set(f.Name, n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(f.Name, before) })
}

// TestHistories has several replicas do what gateways do, in any order.
func TestHistories(t *testing.T) {
	checks(t, "60")
	m := newModel(t, patience)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		defer m.begin(fmt.Sprint("t", n))()
		rt.Repeat(map[string]func(*rapid.T){
			"read": m.read, "read again": m.read, "finish": m.finish, "finish another": m.finish,
			"change": m.change, "flip": m.flip, "wait": m.wait,
		})
		m.settle(rt)
	})
}

// TestHistoriesWithFailures has Redis fail too: cut off from one replica, silent,
// or restarted without what it knew.
func TestHistoriesWithFailures(t *testing.T) {
	checks(t, "5")
	m := newModel(t, 50*time.Millisecond)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m.episodes = 0
		defer m.begin(fmt.Sprint("t", n))()
		rt.Repeat(map[string]func(*rapid.T){
			"read": m.read, "read again": m.read, "read more": m.read, "finish": m.finish, "finish another": m.finish,
			"change": m.change, "flip": m.flip, "wait": m.wait,
			"cut off": m.cut, "heal": m.heal, "restart": m.restart,
		})
		for _, r := range m.replicas {
			r.proxy.Heal()
		}
		m.settle(rt)
	})
}

// settle waits until all know all, and all work.
func (m *model) settle(t *rapid.T) {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !m.well() || !m.settled(t) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after %v, some replica does not work or has what was invalidated", patience)
		}
	}
}

func (m *model) well() bool {
	for _, r := range m.replicas {
		if r.store.Degraded() != "" {
			return false
		}
	}
	return true
}

// episode bounds the failures of one history, each of which takes its time.
func (m *model) episode(t *rapid.T) {
	if m.episodes == 3 {
		t.Skip("enough has failed")
	}
	m.episodes++
}

func (m *model) cut(t *rapid.T) {
	m.episode(t)
	m.replica(t).proxy.Cut()
}

func (m *model) heal(t *rapid.T) {
	m.replica(t).proxy.Heal()
}

// restart has Redis lose all that it knew.
func (m *model) restart(t *rapid.T) {
	m.episode(t)
	m.server.Restart(true)
}
