package upstream

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/causeway-mcp/causeway/upstream/mcp"
)

// levelState is the log level that a session has.
type levelState struct {
	rank atomic.Int32  // the place among the levels; noLevel before the first was set
	turn chan struct{} // held by who sets it
}

const noLevel = 100

func (st *levelState) init() {
	st.rank.Store(noLevel)
	st.turn = make(chan struct{}, 1)
}

// levelRank gives the place of a level among those of RFC 5424, the most verbose
// first; noLevel for what is none.
func levelRank(level string) int32 {
	levels := [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	if i := slices.Index(levels[:], level); i >= 0 {
		return int32(i)
	}
	return noLevel
}

// wantLevel makes the session log at least as much as level says
// (2025-11-25, server/utilities/logging, Setting Log Level). A session's level
// only becomes more verbose: calls that want less are given less by who reads
// them, so that calls that want different levels do not change it all the time. A
// server that refuses is not asked again.
func (s *session) wantLevel(ctx context.Context, level string) error {
	rank := levelRank(level)
	if !s.offers.logging || rank >= s.level.rank.Load() {
		return nil
	}
	select {
	case s.level.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.level.turn }()
	if rank >= s.level.rank.Load() {
		return nil
	}
	m, err := s.ask(ctx, methodSetLevel, append(mcp.AppendQuote([]byte(`{"level":`), level), '}'))
	if err != nil {
		return err
	}
	if m.Kind == mcp.KindError {
		s.pool.log.Debug("the server refuses a log level", "level", level, "code", m.Code)
	}
	s.level.rank.Store(rank)
	return nil
}
