package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/causeway-mcp/causeway/auth/seal"
)

// When a process seals anew.
const (
	// resealAgain is the time from one walk to the next. There is a second one, since
	// replicas that still run with the former order of keys may have written something
	// during the first, and more while they find something to do.
	resealAgain = 15 * time.Minute
	// resealRetry is the time after a walk that has failed.
	resealRetry = time.Minute
)

// resealer keeps what is sealed in a registry sealed by the first key of the ring.
type resealer struct {
	registry *Registry
	ring     *seal.Ring
	log      *slog.Logger

	told    map[SealedAt]bool // what was logged as impossible to open
	refused map[string]bool   // and the tenants that could not be written
	failing bool
}

// run walks until there is nothing left to do, or ctx ends.
func (s *resealer) run(ctx context.Context) {
	s.told, s.refused = map[SealedAt]bool{}, map[string]bool{}
	for walks := 1; ; walks++ {
		found, err := Reseal(ctx, s.registry, s.ring)
		if ctx.Err() != nil {
			return
		}
		s.tell(found)
		wait := resealAgain
		switch {
		case err != nil:
			if !s.failing {
				s.log.Warn("not all that older keys have sealed could be sealed anew; it is tried again", "error", err)
			}
			s.failing, wait = true, resealRetry
		case s.ring.Keys() == 1, walks > 1 && !s.failing && !found.Changed():
			return
		default:
			s.failing = false
		}
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// tell logs what a walk has done, and once what it could not do.
func (s *resealer) tell(found *Resealed) {
	if found.Changed() {
		s.log.Info("sealed anew what older keys had sealed", "secrets", found.Secrets, "values", found.Values)
	}
	for _, at := range found.UnopenedPlaces() {
		if s.told[at] {
			continue
		}
		s.told[at] = true
		s.log.Error("what is sealed here cannot be opened with the keys that are configured: put the key back that has sealed it, or enter it anew",
			"tenant", at.Tenant, "upstream", at.Alias, "kind", at.Kind, "count", found.Unopened[at])
	}
	for name, err := range found.Refused {
		if s.refused[name] {
			continue
		}
		s.refused[name] = true
		s.log.Error("the secrets of a tenant cannot be sealed anew: its registration is refused as it is", "tenant", name, "error", err)
	}
}
