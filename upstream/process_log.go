package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	logLineMax   = 2 << 10 // bytes of a logged line; the rest is cut off
	logPerSecond = 50      // lines of one process and stream
)

// pacer lets some lines through in each second.
type pacer struct {
	mu      sync.Mutex
	began   time.Time // of the present second
	passed  int
	dropped int // since a line last passed
}

// pass tells whether one more line may be logged now, and how many before it
// were not.
func (p *pacer) pass(now time.Time) (ok bool, dropped int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) >= time.Second {
		p.began, p.passed = now, 0
	}
	if p.passed >= logPerSecond {
		p.dropped++
		return false, 0
	}
	p.passed++
	dropped, p.dropped = p.dropped, 0
	return true, dropped
}

// rest gives how many lines were not logged since one last was.
func (p *pacer) rest() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	dropped := p.dropped
	p.dropped = 0
	return dropped
}

// log logs one line with the number of those that were left out before it.
func (p *pacer) log(log *slog.Logger, level slog.Level, text string, args ...any) {
	ok, dropped := p.pass(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, "dropped", dropped)
	}
	log.Log(context.Background(), level, text, args...)
}

// logStderr logs what a process writes to its standard error, which says nothing
// about whether it is an error (2026-07-28, basic/transports/stdio).
func logStderr(log *slog.Logger, stderr io.Reader) {
	var pace pacer
	src := bufio.NewReaderSize(stderr, logLineMax)
	cut := false // the present line is too long, and its beginning is logged
	for {
		line, err := src.ReadSlice('\n')
		if text := bytes.TrimRight(line, "\r\n"); len(text) > 0 && !cut {
			pace.log(log, slog.LevelInfo, "upstream process wrote to stderr", "line", strings.ToValidUTF8(string(text), "\uFFFD"))
		}
		cut = err == bufio.ErrBufferFull
		if err != nil && !cut {
			break
		}
	}
	if n := pace.rest(); n > 0 {
		log.Info("upstream process wrote more to stderr", "dropped", n)
	}
}
